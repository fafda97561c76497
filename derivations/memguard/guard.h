// SPDX-License-Identifier: Apache-2.0
//
// The loop: look, judge, act, sleep.
#ifndef MEMGUARD_GUARD_H
#define MEMGUARD_GUARD_H

#include "ready.h"
#include "sampler.h"

enum exit_code { EXIT_ENDED = 0, EXIT_BLIND = 1, EXIT_USAGE = 2, EXIT_KILLED = 3, EXIT_STILL_THERE = 4 };

struct guard {
	const struct options *options;
	const char *path; // of the cgroup
	int evidence_folder;
	struct sampler sampler;
	struct ready ready;
	struct judge judge;
	struct cgroup cgroup;
	struct evidence evidence;
};

enum exit_code guard_run(struct guard *guard);

#endif
