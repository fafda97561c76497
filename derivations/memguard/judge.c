// SPDX-License-Identifier: Apache-2.0

#include "judge.h"

// A container that is being started or restarted may have an empty cgroup for a moment.
enum { EMPTY_LOOKS = 2 };

struct judge judge_from(const struct limits *limits, uint64_t now_ns)
{
	return (struct judge){.limits = *limits, .started_ns = now_ns};
}

bool sample_is_good(const struct sample *sample, const struct limits *limits)
{
	return sample->memory_known && sample->memory.available_bytes >= limits->floor_bytes;
}

// True once pressure has been above its limit at every look of the time that is allowed for it.
static bool pressed_too_long(struct judge *judge, const struct sample *sample)
{
	if (sample->pressure.full <= judge->limits.psi_full) {
		judge->pressed = false;
		return false;
	}
	if (!judge->pressed) {
		judge->pressed = true;
		judge->pressed_since_ns = sample->monotonic_ns;
	}
	return sample->monotonic_ns - judge->pressed_since_ns >= judge->limits.psi_for_ns;
}

static enum verdict judge_absence(struct judge *judge, const struct sample *sample, enum presence presence)
{
	if (judge->seen) {
		judge->empty_looks++;
		if (presence == PRESENCE_ABSENT || judge->empty_looks >= EMPTY_LOOKS)
			return VERDICT_ENDED;
		return VERDICT_GUARD;
	}
	if (sample->monotonic_ns - judge->started_ns >= judge->limits.wait_ns)
		return VERDICT_LATE;
	return VERDICT_WAIT;
}

enum verdict judge_look(struct judge *judge, const struct sample *sample, enum presence presence)
{
	const bool by_pressure = judge->limits.psi_full != 0;
	const bool pressed = by_pressure && sample->pressure_known && pressed_too_long(judge, sample);

	if (presence == PRESENCE_UNREADABLE)
		return VERDICT_NO_CGROUP_INFO;
	if (presence != PRESENCE_POPULATED) {
		const enum verdict verdict = judge_absence(judge, sample, presence);
		if (verdict != VERDICT_WAIT || (sample->memory_known && (sample->pressure_known || !by_pressure)))
			return verdict;
	} else {
		judge->seen = true;
		judge->empty_looks = 0;
	}
	// A guard that sees nothing guards nothing, whether or not the container is there already.
	if (!sample->memory_known)
		return VERDICT_NO_MEMORY_INFO;
	if (by_pressure && !sample->pressure_known)
		return VERDICT_NO_PRESSURE_INFO;
	if (!sample_is_good(sample, &judge->limits))
		return VERDICT_BELOW_FLOOR;
	return pressed ? VERDICT_PRESSURE : VERDICT_GUARD;
}

enum floor_fit judge_floor(uint64_t floor_bytes, uint64_t total_bytes)
{
	if (floor_bytes >= total_bytes)
		return FLOOR_NEVER;
	return floor_bytes > total_bytes / 2 ? FLOOR_HIGH : FLOOR_FITS;
}

bool verdict_kills(enum verdict verdict)
{
	return verdict >= VERDICT_BELOW_FLOOR;
}

const char *verdict_name(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_WAIT:
		return "waiting";
	case VERDICT_GUARD:
		return "guarding";
	case VERDICT_ENDED:
		return "ended";
	case VERDICT_LATE:
		return "late";
	case VERDICT_BELOW_FLOOR:
		return "below-floor";
	case VERDICT_PRESSURE:
		return "pressure";
	case VERDICT_NO_MEMORY_INFO:
		return "memory-unreadable";
	case VERDICT_NO_PRESSURE_INFO:
		return "pressure-unreadable";
	case VERDICT_NO_CGROUP_INFO:
		return "cgroup-unreadable";
	}
	return "unknown";
}
