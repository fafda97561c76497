// SPDX-License-Identifier: Apache-2.0
//
// The file by which others see that the guard is at work. It is there only while it is.
#ifndef MEMGUARD_READY_H
#define MEMGUARD_READY_H

#include <stdbool.h>

struct ready {
	int folder; // -1: no such file is wanted
	const char *name;
	const char *state; // what it says, NULL if it is not there
	int file;          // kept open, so that no other file can have its inode number
	bool failed;       // it could not be written, which has been said
};

// Opens the folder and removes what an earlier guard left. False, and said, if that cannot be.
bool ready_open(struct ready *ready, const char *path);

// Lets the file say "waiting" or "guarding".
void ready_set(struct ready *ready, const char *state);

// Removes it, unless another guard has put its own in its place.
void ready_remove(struct ready *ready);

#endif
