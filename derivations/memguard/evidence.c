// SPDX-License-Identifier: Apache-2.0

#include "evidence.h"

#include "files.h"

#include <string.h>
#include <unistd.h>

void evidence_add(struct evidence *evidence, const struct sample *sample)
{
	evidence->samples[evidence->taken++ % KEPT_SAMPLES] = *sample;
}

struct listing {
	struct processes *processes;
	int proc;
	uint64_t page;
};

static ssize_t read_of(int proc, pid_t pid, const char *file, char *buffer, size_t size)
{
	char path[48];
	struct text name = text_in(path, sizeof path);
	text_number(&name, (uint64_t)pid);
	text_put(&name, file);
	text_bytes(&name, "", 1);
	return read_at(proc, path, buffer, size);
}

static uint64_t resident_pages(int proc, pid_t pid)
{
	char buffer[128];
	uint64_t pages = 0;
	const ssize_t count = read_of(proc, pid, "/statm", buffer, sizeof buffer);
	ssize_t at = 0;
	while (at < count && buffer[at] != ' ')
		at++;
	for (at++; at < count && buffer[at] >= '0' && buffer[at] <= '9' && pages < (UINT64_C(1) << 40); at++)
		pages = pages * 10 + (uint64_t)(buffer[at] - '0');
	return pages;
}

static bool list_one(void *context, pid_t pid)
{
	struct listing *listing = context;
	struct processes *processes = listing->processes;
	struct process one = {.pid = pid};
	processes->count++;
	one.resident_bytes = resident_pages(listing->proc, pid) * listing->page;
	unsigned at = processes->kept;
	while (at > 0 && processes->largest[at - 1].resident_bytes < one.resident_bytes)
		at--;
	if (at == KEPT_PROCESSES)
		return true;
	char name[32];
	const ssize_t count = read_of(listing->proc, pid, "/comm", name, sizeof name);
	while (one.name_size < sizeof one.name && one.name_size < count && name[one.name_size] != '\n') {
		one.name[one.name_size] = name[one.name_size];
		one.name_size++;
	}
	if (processes->kept < KEPT_PROCESSES)
		processes->kept++;
	memmove(processes->largest + at + 1, processes->largest + at, (processes->kept - at - 1) * sizeof one);
	processes->largest[at] = one;
	return true;
}

void list_processes(struct processes *processes, const struct cgroup *cgroup, int proc)
{
	*processes = (struct processes){.at_ns = monotonic_ns()};
	struct listing listing = {processes, proc, (uint64_t)sysconf(_SC_PAGESIZE)};
	if (cgroup->folder >= 0)
		cgroup_each(cgroup, list_one, &listing);
}

static void put_key(struct text *text, const char *before, const char *key)
{
	text_put(text, before);
	text_quoted(text, key, strlen(key));
	text_put(text, ":");
}

static void put_number(struct text *text, const char *before, const char *key, uint64_t number)
{
	put_key(text, before, key);
	text_number(text, number);
}

static void put_string(struct text *text, const char *before, const char *key, const char *words)
{
	put_key(text, before, key);
	text_quoted(text, words, strlen(words));
}

static void put_if(struct text *text, const char *key, bool known, uint64_t number)
{
	put_key(text, ",", key);
	if (known)
		text_number(text, number);
	else
		text_put(text, "null");
}

static void put_sample(struct text *text, const struct sample *sample)
{
	put_key(text, "{", "available_bytes");
	if (sample->memory_known)
		text_number(text, sample->memory.available_bytes);
	else
		text_put(text, "null");
	put_if(text, "boost_bytes", sample->boost_known, sample->boost_bytes);
	put_if(text, "free_bytes", sample->memory_known, sample->memory.free_bytes);
	put_number(text, ",", "monotonic_ns", sample->monotonic_ns);
	put_if(text, "psi_full_hundredths_percent", sample->pressure_known, sample->pressure.full);
	put_if(text, "psi_some_hundredths_percent", sample->pressure_known, sample->pressure.some);
	put_if(text, "swap_free_bytes", sample->memory_known, sample->memory.swap_free_bytes);
	text_put(text, "}");
}

static void put_processes(struct text *text, const struct processes *processes)
{
	put_key(text, ",", "processes");
	put_number(text, "{", "count", processes->count);
	put_key(text, ",", "largest");
	text_put(text, "[");
	for (unsigned at = 0; at < processes->kept; at++) {
		const struct process *one = &processes->largest[at];
		put_key(text, at == 0 ? "{" : ",{", "name");
		text_quoted(text, one->name, one->name_size);
		put_number(text, ",", "pid", (uint64_t)one->pid);
		put_number(text, ",", "resident_bytes", one->resident_bytes);
		text_put(text, "}");
	}
	text_put(text, "]");
	put_number(text, ",", "monotonic_ns", processes->at_ns);
	text_put(text, "}");
}

static void put_killing(struct text *text, const struct killing *killing)
{
	put_key(text, ",", "killing");
	if (killing == NULL) {
		text_put(text, "null");
		return;
	}
	put_key(text, "{", "ended");
	text_put(text, killing->ended ? "true" : "false");
	put_string(text, ",", "method", killing->method);
	put_number(text, ",", "signals", killing->signals);
	put_key(text, ",", "spared");
	text_put(text, killing->spared ? "true" : "false");
	put_number(text, ",", "took_ns", killing->took_ns);
	text_put(text, "}");
}

// Keys stand in their order, without blanks: the canonical form of a document.
bool evidence_record(const struct evidence *evidence, const struct options *options, const struct decision *decision,
		     struct text *text)
{
	const uint64_t kept = evidence->taken < KEPT_SAMPLES ? evidence->taken : KEPT_SAMPLES;
	text_put(text, "{\"body\":");
	put_key(text, "{", "cgroup");
	text_quoted(text, decision->cgroup, strlen(decision->cgroup));
	put_key(text, ",", "dry_run");
	text_put(text, options->dry_run ? "true" : "false");
	put_number(text, ",", "floor_bytes", options->limits.floor_bytes);
	put_number(text, ",", "interval_ns", options->interval_ns);
	put_killing(text, decision->killing);
	put_key(text, ",", "meminfo");
	text_quoted(text, evidence->meminfo, evidence->meminfo_size);
	put_number(text, ",", "monotonic_ns", decision->monotonic_ns);
	put_string(text, ",", "phase", options->phase);
	put_processes(text, &evidence->processes);
	put_if(text, "psi_for_ns", options->limits.psi_full != 0, options->limits.psi_for_ns);
	put_if(text, "psi_full_hundredths_percent", options->limits.psi_full != 0, options->limits.psi_full);
	put_number(text, ",", "realtime_s", decision->realtime_s);
	put_string(text, ",", "reason", verdict_name(decision->verdict));
	put_key(text, ",", "samples");
	text_put(text, "[");
	for (uint64_t at = evidence->taken - kept; at < evidence->taken; at++) {
		text_put(text, at == evidence->taken - kept ? "" : ",");
		put_sample(text, &evidence->samples[at % KEPT_SAMPLES]);
	}
	text_put(text, "]},\"derive\":\"record/1\",\"kind\":\"memory-guard\",\"previous\":null");
	put_string(text, ",", "subject", options->container);
	text_put(text, "}");
	return !text->cut;
}
