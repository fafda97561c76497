// SPDX-License-Identifier: Apache-2.0
//
// The container's control group, of version 2 or 1: whether it has processes, which they are, and their end.
#ifndef MEMGUARD_CGROUP_H
#define MEMGUARD_CGROUP_H

#include "judge.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup {
	int folder; // -1: there is none
	int events; // cgroup.events, which tells of all groups below too; -1 in version 1
	int kill;   // cgroup.kill; -1 where the kernel has none
	int freeze; // cgroup.freeze or freezer.state; -1 where there is none
	bool v2;
};

#define NO_CGROUP ((struct cgroup){.folder = -1, .events = -1, .kill = -1, .freeze = -1})

// How a killing went.
struct killing {
	const char *method; // what ended the processes: "cgroup.kill", "freeze and signals" or "signals"
	uint64_t took_ns;
	uint64_t signals; // sent, where the kernel cannot do it by itself
	bool ended;       // the cgroup is empty, or gone, but for what was spared
	bool spared;      // this process, or the machine's first one, was in it
};

enum attached {
	ATTACHED,
	ATTACH_ABSENT,     // nothing is there, yet
	ATTACH_UNREADABLE, // it cannot be opened
	ATTACH_NO_CGROUP,  // it is something else
	ATTACH_TOP,        // it is the top of a hierarchy: everything that runs
	ATTACH_SELF,       // this process, or the machine's first one, is in it
};

// Opens a cgroup. One that must not be killed is refused.
enum attached cgroup_attach(struct cgroup *cgroup, const char *path);

void cgroup_detach(struct cgroup *cgroup);
enum presence cgroup_look(const struct cgroup *cgroup);

// Calls a function with each process of the cgroup and of those below it, until it says false. False: not all were read.
typedef bool visit(void *context, pid_t pid);
bool cgroup_each(const struct cgroup *cgroup, visit *function, void *context);

// Whether this process, or the machine's first one, is in it by now: neither may be killed.
bool cgroup_holds_spared(const struct cgroup *cgroup);

// Whether anything else is in it, or may be.
bool cgroup_holds_others(const struct cgroup *cgroup);

// Whether a process is never killed.
bool is_spared(pid_t pid);

// Kills every process in it but those to spare, forks and latecomers included, and waits until none is left, at most so long.
struct killing cgroup_end(const struct cgroup *cgroup, uint64_t limit_ns);

enum whose {
	WHOSE_FOUND,
	WHOSE_NO_PROCESS, // there is no such process
	WHOSE_SHARED,     // it is in no cgroup that the guard is not in as well
	WHOSE_TOO_LONG,   // the path has no room
};

// Writes the path of a process's cgroup.
enum whose cgroup_of(int proc, int pid, char *path, size_t size);

#endif
