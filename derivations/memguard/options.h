// SPDX-License-Identifier: Apache-2.0
//
// The command line. Nothing is taken from the environment.
#ifndef MEMGUARD_OPTIONS_H
#define MEMGUARD_OPTIONS_H

#include "judge.h"

struct options {
	const char *container;
	const char *cgroup;   // a path; NULL: that of `pid`
	const char *phase;    // "startup" or "steady"
	const char *evidence; // a folder
	const char *ready;    // a file; NULL: none
	const char *proc;
	struct limits limits;
	uint64_t interval_ns;
	uint64_t kill_wait_ns;
	int pid;
	bool dry_run;
};

enum asked { ASKED_TO_GUARD, ASKED_FOR_HELP, ASKED_FOR_VERSION, ASKED_WRONGLY };

// Reads the command line; says what is wrong with it, all of it.
enum asked read_options(int count, char *const words[], struct options *options);

extern const char help_text[];

#endif
