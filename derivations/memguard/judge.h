// SPDX-License-Identifier: Apache-2.0
//
// What to do after one look at memory and container. Pure: the same looks, the same verdicts.
#ifndef MEMGUARD_JUDGE_H
#define MEMGUARD_JUDGE_H

#include "parse.h"

// One look at memory.
struct sample {
	uint64_t monotonic_ns;
	struct memory memory;
	struct pressure pressure;
	uint64_t boost_bytes; // free memory that the kernel holds back for a while: recorded, not subtracted
	bool memory_known;
	bool pressure_known;
	bool boost_known;
};

// What became of the container's cgroup.
enum presence {
	PRESENCE_ABSENT,     // there is none, or none any more
	PRESENCE_EMPTY,      // it is there, without processes
	PRESENCE_POPULATED,  // it has processes
	PRESENCE_UNREADABLE, // it cannot be told
};

struct limits {
	uint64_t floor_bytes;
	uint64_t wait_ns;      // how long the container may take to appear
	uint64_t psi_for_ns;   // how long pressure must stay above its limit
	uint32_t psi_full;     // hundredths of a percent; 0: pressure decides nothing
};

enum verdict {
	VERDICT_WAIT,            // the container is not there yet
	VERDICT_GUARD,           // it is there, and all is well
	VERDICT_ENDED,           // it was there, and ended by itself
	VERDICT_LATE,            // it did not appear in time
	VERDICT_BELOW_FLOOR,     // kill: too little memory is available
	VERDICT_PRESSURE,        // kill: tasks have waited for memory too long
	VERDICT_NO_MEMORY_INFO,  // kill: what is available cannot be told
	VERDICT_NO_PRESSURE_INFO, // kill: pressure was to decide, and cannot be told
	VERDICT_NO_CGROUP_INFO,  // kill: whether the container still runs cannot be told
};

struct judge {
	struct limits limits;
	uint64_t started_ns;
	uint64_t pressed_since_ns;
	unsigned empty_looks;
	bool seen;    // the container has been there
	bool pressed; // pressure was above its limit at the last look
};

struct judge judge_from(const struct limits *limits, uint64_t now_ns);
enum verdict judge_look(struct judge *judge, const struct sample *sample, enum presence presence);

bool verdict_kills(enum verdict verdict);

// Memory is known, and not below the floor.
bool sample_is_good(const struct sample *sample, const struct limits *limits);

// Whether a machine can have a floor available.
enum floor_fit {
	FLOOR_FITS,
	FLOOR_HIGH,  // it is more than half of all memory
	FLOOR_NEVER, // it is all memory or more, which is never available
};

enum floor_fit judge_floor(uint64_t floor_bytes, uint64_t total_bytes);

// A name for records: "below-floor".
const char *verdict_name(enum verdict verdict);

#endif
