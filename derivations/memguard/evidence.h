// SPDX-License-Identifier: Apache-2.0
//
// What was seen before a kill: the last samples and the largest processes, in memory until they are written.
#ifndef MEMGUARD_EVIDENCE_H
#define MEMGUARD_EVIDENCE_H

#include "cgroup.h"
#include "options.h"
#include "text.h"

enum { KEPT_SAMPLES = 256, KEPT_PROCESSES = 32 };

// The room for a record; none is larger.
enum { RECORD_SIZE = 262144 };

struct process {
	uint64_t resident_bytes;
	pid_t pid;
	char name[16];
	uint8_t name_size;
};

struct processes {
	struct process largest[KEPT_PROCESSES]; // by resident memory, the largest first
	uint64_t at_ns;                         // when they were listed
	uint64_t count;                         // of all that were listed
	unsigned kept;
};

struct evidence {
	struct sample samples[KEPT_SAMPLES];
	uint64_t taken; // samples so far; the last ones are kept
	struct processes processes;
	char meminfo[8192]; // what was read last
	size_t meminfo_size;
};

void evidence_add(struct evidence *evidence, const struct sample *sample);

// Lists the processes of a cgroup. None of the files that it reads waits for a process's own locks.
void list_processes(struct processes *processes, const struct cgroup *cgroup, int proc);

struct decision {
	const char *cgroup;
	enum verdict verdict;
	uint64_t monotonic_ns;
	uint64_t realtime_s;
	const struct killing *killing; // NULL: nothing was killed
};

// Writes the record. False, if it does not fit.
bool evidence_record(const struct evidence *evidence, const struct options *options, const struct decision *decision,
		     struct text *text);

#endif
