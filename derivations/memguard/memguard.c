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
	if (guard.evidence_folder < 0) {
		say_error("cannot open ", options.evidence, NULL);
		return false;
	}
	// To guard without evidence is better than not to guard.
	if (!has_room(guard.evidence_folder, RECORD_SIZE))
		say_error("warning: guards, but the evidence of a kill would be lost: cannot write 256 KiB to ",
			  options.evidence, NULL);
	return true;
}

static void put_size(struct text *text, uint64_t bytes)
{
	text_gib(text, bytes);
	text_put(text, " (");
	text_number(text, bytes);
	text_put(text, " bytes)");
}

// False, and said, for a floor that is never available: its guard would kill at the first look, whatever happens.
static bool floor_can_be_met(void)
{
	char meminfo[8192];
	struct memory memory;
	const ssize_t count = read_whole(guard.sampler.meminfo, meminfo, sizeof meminfo);
	// What cannot be told is for the first look to judge.
	if (count <= 0 || !parse_memory(meminfo, (size_t)count, &memory))
		return true;
	const enum floor_fit fit = judge_floor(options.limits.floor_bytes, memory.total_bytes);
	struct line line;
	line_start(&line);
	if (fit == FLOOR_NEVER) {
		text_put(&line.text, "--floor can never be available: expected less than MemTotal, ");
		put_size(&line.text, memory.total_bytes);
		text_put(&line.text, "; got ");
	} else {
		text_put(&line.text, "warning: --floor is more than half of MemTotal, ");
		put_size(&line.text, memory.total_bytes);
		text_put(&line.text, ": ");
	}
	put_size(&line.text, options.limits.floor_bytes);
	if (fit != FLOOR_FITS)
		line_end(&line);
	return fit != FLOOR_NEVER;
}

static enum exit_code find_cgroup(void)
{
	static char path[PATH_MAX];
	const char *reason = NULL;
	guard.path = options.cgroup;
	if (guard.path != NULL)
		return EXIT_ENDED;
	guard.path = path;
	const enum whose whose = cgroup_of(guard.sampler.proc, options.pid, path, sizeof path);
	switch (whose) {
	case WHOSE_FOUND:
		return EXIT_ENDED;
	case WHOSE_NO_PROCESS:
		reason = "there is no such process";
		break;
	case WHOSE_SHARED:
		reason = "it is in no cgroup of its own";
		break;
	case WHOSE_TOO_LONG:
		reason = "the path of its cgroup is too long";
		break;
	}
	say("the process of --cgroup-of-pid cannot be guarded: ", reason, NULL);
	return whose == WHOSE_SHARED ? EXIT_USAGE : EXIT_BLIND;
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
	if (!sampler_open(&guard.sampler, &options))
		return EXIT_BLIND;
	const bool floor_is_good = floor_can_be_met();
	const enum exit_code found = find_cgroup();
	if (!floor_is_good)
		return EXIT_USAGE;
	if (found != EXIT_ENDED)
		return (int)found;
	if (!open_evidence() || !ready_open(&guard.ready, options.ready) || !hold_memory())
		return EXIT_BLIND;
	come_first(guard.sampler.proc);
	return guard_run(&guard);
}
