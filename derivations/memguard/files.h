// SPDX-License-Identifier: Apache-2.0
//
// Small helpers around the system: whole reads, clocks.
#ifndef MEMGUARD_FILES_H
#define MEMGUARD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads a file from its beginning, into a buffer in which it must fit. The count, or -1 with errno.
ssize_t read_whole(int file, char *buffer, size_t size);

// The same for a file that is opened and closed again.
ssize_t read_at(int folder, const char *name, char *buffer, size_t size);

bool write_whole(int file, const char *bytes, size_t count);

// Writes a file whole or not at all, and lasting: another name, fsync, rename. False with errno.
bool write_atomically(int folder, const char *name, const char *bytes, size_t count);

// Whether a folder has room for a file of that size: one is written, and removed. False with errno.
bool has_room(int folder, size_t count);

uint64_t monotonic_ns(void);
uint64_t realtime_seconds(void);
void sleep_ns(uint64_t ns);

#endif
