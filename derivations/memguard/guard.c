// SPDX-License-Identifier: Apache-2.0

#include "guard.h"

#include "files.h"
#include "say.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum { LIST_EVERY_S = 5 };

static void put_memory(struct line *line, const struct guard *guard, const struct sample *sample)
{
	text_gib(&line->text, sample->memory.available_bytes);
	text_put(&line->text, " available, floor ");
	text_gib(&line->text, guard->options->limits.floor_bytes);
}

static void put_reason(struct line *line, const struct guard *guard, enum verdict verdict, const struct sample *sample)
{
	switch (verdict) {
	case VERDICT_NO_MEMORY_INFO:
		text_put(&line->text, "the available memory cannot be told");
		break;
	case VERDICT_NO_PRESSURE_INFO:
		text_put(&line->text, "the pressure on memory cannot be told");
		break;
	case VERDICT_NO_CGROUP_INFO:
		text_put(&line->text, "whether the container runs cannot be told");
		break;
	case VERDICT_PRESSURE:
		text_put(&line->text, "all tasks wait for memory ");
		text_hundredths(&line->text, sample->pressure.full);
		text_put(&line->text, "% of the time, limit ");
		text_hundredths(&line->text, guard->options->limits.psi_full);
		text_put(&line->text, "%; ");
		put_memory(line, guard, sample);
		break;
	default:
		put_memory(line, guard, sample);
	}
}

static void say_kill(const struct guard *guard, const struct decision *decision, const struct sample *sample)
{
	struct line line;
	line_start(&line);
	text_put(&line.text, decision->killing != NULL    ? "killed: "
			     : guard->options->dry_run ? "would kill (dry run): "
						       : "nothing to kill: ");
	put_reason(&line, guard, decision->verdict, sample);
	if (decision->killing != NULL) {
		text_put(&line.text, decision->killing->ended ? "; no process is left after " : "; PROCESSES REMAIN after ");
		text_seconds(&line.text, decision->killing->took_ns);
		text_put(&line.text, ", by ");
		text_put(&line.text, decision->killing->method);
		if (decision->killing->spared)
			text_put(&line.text, ", which spared the guard or the machine's first process: it is in the group");
	}
	line_end(&line);
}

static void leave_evidence(const struct guard *guard, const struct decision *decision)
{
	static char record[RECORD_SIZE];
	char buffer[200];
	struct text text = text_in(record, sizeof record);
	struct text name = text_in(buffer, sizeof buffer);
	text_put(&name, guard->options->container);
	text_put(&name, "-");
	text_put(&name, guard->options->phase);
	text_put(&name, "-");
	text_utc(&name, decision->realtime_s);
	text_put(&name, "-");
	// Two kills in one second, or a clock that was set back, are still two files.
	text_number(&name, decision->monotonic_ns);
	text_put(&name, ".json");
	text_bytes(&name, "", 1);
	if (!evidence_record(&guard->evidence, guard->options, decision, &text))
		errno = EFBIG;
	else if (write_atomically(guard->evidence_folder, buffer, record, text.used)) {
		say("evidence: ", guard->options->evidence, "/", buffer, NULL);
		return;
	}
	say_error("cannot write evidence ", guard->options->evidence, "/", buffer, NULL);
}

// First the kill, then words and files: those may have to wait for memory.
static enum exit_code act(struct guard *guard, enum verdict verdict, const struct sample *sample)
{
	struct killing killing = {0};
	struct decision decision = {.cgroup = guard->path, .verdict = verdict, .monotonic_ns = sample->monotonic_ns};
	if (!guard->options->dry_run && guard->cgroup.folder >= 0) {
		killing = cgroup_end(&guard->cgroup, guard->options->kill_wait_ns);
		decision.killing = &killing;
	}
	decision.realtime_s = realtime_seconds();
	say_kill(guard, &decision, sample);
	leave_evidence(guard, &decision);
	if (decision.killing != NULL && !killing.ended)
		return EXIT_STILL_THERE;
	return verdict == VERDICT_BELOW_FLOOR || verdict == VERDICT_PRESSURE ? EXIT_KILLED : EXIT_BLIND;
}

static bool look(struct guard *guard, enum presence *presence)
{
	const char *refused = NULL;
	*presence = PRESENCE_ABSENT;
	if (guard->cgroup.folder < 0) {
		switch (cgroup_attach(&guard->cgroup, guard->path)) {
		case ATTACHED:
		case ATTACH_ABSENT:
			break;
		case ATTACH_UNREADABLE:
			*presence = PRESENCE_UNREADABLE;
			return true;
		case ATTACH_NO_CGROUP:
			refused = " is no cgroup";
			break;
		case ATTACH_TOP:
			refused = " is the top of a hierarchy: everything that runs is in it";
			break;
		case ATTACH_SELF:
			refused = " holds the guard itself, or the machine's first process";
			break;
		}
	}
	if (refused != NULL) {
		say(guard->path, refused, NULL);
		return false;
	}
	*presence = cgroup_look(&guard->cgroup);
	// One that went before it held anything may come again.
	if (*presence == PRESENCE_ABSENT && !guard->judge.seen)
		cgroup_detach(&guard->cgroup);
	return true;
}

static void say_begin(const struct guard *guard, enum verdict verdict, const struct sample *sample)
{
	struct line line;
	line_start(&line);
	text_put(&line.text, verdict == VERDICT_WAIT ? "waits for " : "guards ");
	text_put(&line.text, guard->path);
	text_put(&line.text, ": ");
	put_memory(&line, guard, sample);
	text_put(&line.text, ", every ");
	text_seconds(&line.text, guard->options->interval_ns);
	line_end(&line);
}

// The time of the next look. Looks that were missed are not made up for.
static uint64_t sleep_until(uint64_t at, uint64_t interval_ns, const sigset_t *signals, bool *stop)
{
	for (uint64_t now = monotonic_ns(); now < at; now = monotonic_ns()) {
		const uint64_t left = at - now;
		const struct timespec time = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
		if (sigtimedwait(signals, NULL, &time) > 0) {
			*stop = true;
			return at;
		}
	}
	const uint64_t now = monotonic_ns();
	return at + (1 + (now - at) / interval_ns) * interval_ns;
}

// Whether to list processes now: seldom while there is memory, at every look when it gets short.
static bool is_time_to_list(const struct guard *guard, const struct sample *sample)
{
	return sample->memory.available_bytes / 2 < guard->options->limits.floor_bytes ||
	       sample->monotonic_ns - guard->evidence.processes.at_ns >= UINT64_C(1000000000) * LIST_EVERY_S;
}

static enum exit_code end(struct guard *guard, const char *words, enum exit_code code)
{
	if (words != NULL)
		say(words, NULL);
	ready_remove(&guard->ready);
	return code;
}

enum exit_code guard_run(struct guard *guard)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);

	bool stop = false;
	enum verdict said = VERDICT_LATE;
	uint64_t next = monotonic_ns();
	guard->judge = judge_from(&guard->options->limits, next);
	while (!stop) {
		struct sample sample;
		enum presence presence;
		sampler_read(&guard->sampler, &sample, &guard->evidence);
		if (!look(guard, &presence))
			return end(guard, NULL, EXIT_USAGE);
		const enum verdict verdict = judge_look(&guard->judge, &sample, presence);
		if (verdict_kills(verdict))
			return end(guard, NULL, act(guard, verdict, &sample));
		if (verdict == VERDICT_ENDED)
			return end(guard, "the container has ended", EXIT_ENDED);
		if (verdict == VERDICT_LATE)
			return end(guard, "the container did not appear in time", EXIT_BLIND);
		if (verdict != said)
			say_begin(guard, verdict, &sample);
		said = verdict;
		if (sample_is_good(&sample, &guard->options->limits))
			ready_set(&guard->ready, verdict_name(verdict));
		if (presence == PRESENCE_POPULATED && is_time_to_list(guard, &sample))
			list_processes(&guard->evidence.processes, &guard->cgroup, guard->sampler.proc);
		next = sleep_until(next, guard->options->interval_ns, &signals, &stop);
	}
	return end(guard, "told to stop: guards no more", EXIT_ENDED);
}
