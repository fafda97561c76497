// SPDX-License-Identifier: Apache-2.0
//
// What the kernel and people write, as numbers. Pure: no file is read here. What is not exactly as expected is refused.
#ifndef MEMGUARD_PARSE_H
#define MEMGUARD_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory {
	uint64_t total_bytes;
	uint64_t available_bytes;
	uint64_t free_bytes;
	uint64_t swap_free_bytes;
};

// How long tasks waited for memory, in hundredths of a percent of the last ten seconds.
struct pressure {
	uint32_t some;
	uint32_t full;
};

enum populated { POPULATED_UNKNOWN, POPULATED_NO, POPULATED_YES };

// /proc/meminfo. MemTotal and MemAvailable must be there, the latter not above the former.
bool parse_memory(const char *data, size_t size, struct memory *memory);

// /proc/pressure/memory.
bool parse_pressure(const char *data, size_t size, struct pressure *pressure);

// /proc/zoneinfo: the pages by which the watermarks of all zones are raised. False if no zone says.
bool parse_boost(const char *data, size_t size, uint64_t *pages);

// cgroup.events
enum populated parse_populated(const char *data, size_t size);

// The options' values: the whole text, or false.
bool parse_size(const char *words, uint64_t *bytes);         // 5368709120, 5GiB, 512MiB, 64KiB
bool parse_seconds(const char *words, uint64_t *ns);         // 2, 0.25
bool parse_percent(const char *words, uint32_t *hundredths); // 20, 12.5; more than 0, up to 100
bool parse_pid(const char *words, int *pid);
bool parse_container(const char *words); // a container's name, as engines have them: no part of a path

#endif
