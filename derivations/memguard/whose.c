// SPDX-License-Identifier: Apache-2.0
//
// The cgroup of a process, as a path below where its hierarchy is mounted.

#include "cgroup.h"
#include "files.h"
#include "text.h"

#include <string.h>

// What a hierarchy is called in /proc/PID/cgroup, by preference. A container engine that uses version 1 leaves its
// containers in its own service's group of version 2, so that one is believed last.
static const char *const hierarchies[] = {"freezer", "pids", "memory", ""};

struct part {
	const char *at;
	size_t count;
};

// Takes what stands before a separator; the rest of the line stays.
static struct part next(struct part *line, char separator)
{
	const char *end = memchr(line->at, separator, line->count);
	struct part part = {line->at, end == NULL ? line->count : (size_t)(end - line->at)};
	const size_t gone = part.count + (end == NULL ? 0 : 1);
	line->at += gone;
	line->count -= gone;
	return part;
}

static bool same(struct part one, struct part other)
{
	return one.count == other.count && memcmp(one.at, other.at, one.count) == 0;
}

static bool is(struct part part, const char *words)
{
	return same(part, (struct part){words, strlen(words)});
}

static bool lists(struct part names, const char *name)
{
	while (names.count > 0)
		if (is(next(&names, ','), name))
			return true;
	return false;
}

// A line is `4:memory:/docker/x`, or `0::/system.slice/x` for version 2.
static bool find_group(struct part lines, const char *hierarchy, struct part *group)
{
	while (lines.count > 0) {
		struct part line = next(&lines, '\n');
		const struct part number = next(&line, ':');
		const struct part names = next(&line, ':');
		const bool found = *hierarchy == '\0' ? is(number, "0") && names.count == 0 : lists(names, hierarchy);
		if (found && line.count > 1) {
			*group = line;
			return true;
		}
	}
	return false;
}

// A line is `36 35 98:0 ROOT PLACE options [fields...] - TYPE SOURCE OPTIONS`. Only a whole hierarchy counts.
static bool find_mount(struct part lines, const char *hierarchy, struct part *place)
{
	while (lines.count > 0) {
		struct part line = next(&lines, '\n');
		for (unsigned field = 0; field < 3; field++)
			next(&line, ' ');
		const struct part root = next(&line, ' ');
		const struct part mounted = next(&line, ' ');
		while (line.count > 0 && !is(next(&line, ' '), "-"))
			continue;
		const struct part type = next(&line, ' ');
		next(&line, ' ');
		const bool found = *hierarchy == '\0' ? is(type, "cgroup2") : is(type, "cgroup") && lists(line, hierarchy);
		if (found && is(root, "/")) {
			*place = mounted;
			return true;
		}
	}
	return false;
}

// Reads a file below proc. Nothing at all, if it cannot be read.
static struct part read_part(int proc, const char *name, char *buffer, size_t size)
{
	const ssize_t count = read_at(proc, name, buffer, size);
	return (struct part){buffer, count < 0 ? 0 : (size_t)count};
}

enum whose cgroup_of(int proc, int pid, char *path, size_t size)
{
	static char buffers[2][16384];
	static char mount_buffer[262144];
	char name_buffer[64];
	struct text name = text_in(name_buffer, sizeof name_buffer);
	text_number(&name, (uint64_t)pid);
	text_bytes(&name, "/cgroup", sizeof "/cgroup");
	const struct part groups = read_part(proc, name_buffer, buffers[0], sizeof buffers[0]);
	const struct part ours = read_part(proc, "self/cgroup", buffers[1], sizeof buffers[1]);
	const struct part mounts = read_part(proc, "self/mountinfo", mount_buffer, sizeof mount_buffer);
	if (groups.count == 0)
		return WHOSE_NO_PROCESS;
	for (size_t at = 0; at < sizeof hierarchies / sizeof *hierarchies; at++) {
		struct part group;
		struct part our;
		struct part place;
		if (!find_group(groups, hierarchies[at], &group) || !find_mount(mounts, hierarchies[at], &place))
			continue;
		// A group that the guard shares is not the container's.
		if (find_group(ours, hierarchies[at], &our) && same(our, group))
			continue;
		struct text full = text_in(path, size);
		text_bytes(&full, place.at, place.count);
		text_bytes(&full, group.at, group.count);
		text_bytes(&full, "", 1);
		return full.cut ? WHOSE_TOO_LONG : WHOSE_FOUND;
	}
	return WHOSE_SHARED;
}
