// SPDX-License-Identifier: Apache-2.0
//
// memguard kills a container before the machine runs out of memory. See docs/memory-guard.md.

#include "files.h"
#include "guard.h"
#include "say.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define VERSION "memguard 1\n"

// All memory that the guard uses, but for the stack.
static struct guard guard;
static struct options options;

static int print(const char *words)
{
	return write_whole(STDOUT_FILENO, words, strlen(words)) ? EXIT_ENDED : EXIT_BLIND;
}

// The stack that the loop needs is there, and locked, before it begins.
__attribute__((noinline)) static void touch_stack(void)
{
	volatile char stack[262144];
	for (size_t at = 0; at < sizeof stack; at += 4096)
		stack[at] = 0;
}

static bool hold_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
		say_error("cannot lock its memory (a unit needs LimitMEMLOCK=infinity)", NULL);
		return false;
	}
	touch_stack();
	return true;
}

// The last to be killed, the first to run. A guard without these still guards, and says what it lacks.
static void come_first(int proc)
{
	const int score = openat(proc, "self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (score < 0 || !write_whole(score, "-1000", 5))
		say_error("the OOM killer may take the guard too: cannot set oom_score_adj", NULL);
	if (score >= 0)
		close(score);
	const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};
	if (sched_setscheduler(0, SCHED_RR, &lowest) != 0 && setpriority(PRIO_PROCESS, 0, -20) != 0)
		say_error("the guard runs when others let it: cannot set its priority", NULL);
}

static bool open_evidence(void)
{
	guard.evidence_folder = open(options.evidence, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (guard.evidence_folder < 0 || faccessat(guard.evidence_folder, ".", W_OK, AT_EACCESS) != 0) {
		say_error("cannot write evidence to ", options.evidence, NULL);
		return false;
	}
	return true;
}

static bool find_cgroup(void)
{
	static char path[PATH_MAX];
	guard.path = options.cgroup;
	if (guard.path != NULL)
		return true;
	const char *reason = cgroup_of(guard.sampler.proc, options.pid, path, sizeof path);
	guard.path = path;
	if (reason != NULL)
		say("the process of --cgroup-of-pid cannot be guarded: ", reason, NULL);
	return reason == NULL;
}

int main(int count, char *words[])
{
	signal(SIGPIPE, SIG_IGN);
	switch (read_options(count, words, &options)) {
	case ASKED_FOR_HELP:
		return print(help_text);
	case ASKED_FOR_VERSION:
		return print(VERSION);
	case ASKED_WRONGLY:
		return EXIT_USAGE;
	case ASKED_TO_GUARD:
		break;
	}
	say_names(options.container, options.phase);
	guard.options = &options;
	guard.cgroup = NO_CGROUP;
	if (!sampler_open(&guard.sampler, &options) || !find_cgroup() || !open_evidence() ||
	    !ready_open(&guard.ready, options.ready) || !hold_memory())
		return EXIT_BLIND;
	come_first(guard.sampler.proc);
	return guard_run(&guard);
}
