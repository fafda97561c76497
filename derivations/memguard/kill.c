// SPDX-License-Identifier: Apache-2.0
//
// The end of all processes of a cgroup.

#include "cgroup.h"
#include "files.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct signals {
	uint64_t sent;
	uint64_t now;
};

static bool send_kill(void *context, pid_t pid)
{
	struct signals *signals = context;
	// 0 stands for a process of a namespace that cannot be seen from here.
	if (pid > 0 && !is_spared(pid) && kill(pid, SIGKILL) == 0) {
		signals->sent++;
		signals->now++;
	}
	return true;
}

static void set_frozen(const struct cgroup *cgroup, bool frozen)
{
	const char *words = cgroup->v2 ? (frozen ? "1" : "0") : frozen ? "FROZEN" : "THAWED";
	(void)!pwrite(cgroup->freeze, words, strlen(words), 0);
}

// Frozen, processes fork no more, so that one list holds them all. Those that sleep deeply freeze late, or never.
static void freeze(const struct cgroup *cgroup)
{
	char state[1024];
	for (unsigned attempt = 0; attempt < 20; attempt++) {
		set_frozen(cgroup, true);
		const ssize_t count = read_whole(cgroup->v2 ? cgroup->events : cgroup->freeze, state, sizeof state - 1);
		if (count < 0)
			return;
		state[count] = '\0';
		if (strstr(state, cgroup->v2 ? "frozen 1\n" : "FROZEN\n") != NULL)
			return;
		sleep_ns(1000000);
	}
}

static void kill_by_signals(const struct cgroup *cgroup, struct signals *signals, bool by_freezing)
{
	if (by_freezing)
		freeze(cgroup);
	// Without a freezer, what forks is caught up with: each round leaves only what was born during it.
	for (unsigned round = 0; round < (by_freezing ? 1U : 20U); round++) {
		signals->now = 0;
		cgroup_each(cgroup, send_kill, signals);
		if (signals->now == 0)
			break;
	}
	if (by_freezing)
		set_frozen(cgroup, false);
}

// One attempt to kill all that is in it.
static void kill_once(const struct cgroup *cgroup, struct killing *killing, struct signals *signals, bool *by_kernel)
{
	// Somebody may have moved the guard since it was attached. Neither the kernel's kill nor its freezer spares one.
	// A list that cannot be read names nobody to spare: the container must end.
	const bool spare = cgroup_holds_spared(cgroup);
	killing->spared = killing->spared || spare;
	// Without processes it may be gone meanwhile: that is no failure.
	if (*by_kernel && !spare && pwrite(cgroup->kill, "1", 1, 0) != 1 && errno != ENODEV)
		*by_kernel = false;
	if (!*by_kernel || spare) {
		const bool by_freezing = cgroup->freeze >= 0 && !spare;
		killing->method = by_freezing ? "freeze and signals" : "signals";
		kill_by_signals(cgroup, signals, by_freezing);
	}
	const enum presence presence = cgroup_look(cgroup);
	killing->ended = presence == PRESENCE_ABSENT || presence == PRESENCE_EMPTY ||
			 (spare && presence == PRESENCE_POPULATED && !cgroup_holds_others(cgroup));
}

struct killing cgroup_end(const struct cgroup *cgroup, uint64_t limit_ns)
{
	struct killing killing = {.method = "cgroup.kill"};
	struct signals signals = {0};
	const uint64_t start = monotonic_ns();
	bool by_kernel = cgroup->kill >= 0;
	uint64_t pause = 1000000;
	for (;;) {
		// Again each time: something may have joined meanwhile, as `docker exec` does.
		kill_once(cgroup, &killing, &signals, &by_kernel);
		killing.took_ns = monotonic_ns() - start;
		if (killing.ended || killing.took_ns >= limit_ns)
			break;
		sleep_ns(pause);
		if (pause < 50000000)
			pause *= 2;
	}
	killing.signals = signals.sent;
	return killing;
}
