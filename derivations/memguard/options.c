// SPDX-License-Identifier: Apache-2.0

#include "options.h"

#include "say.h"

#include <string.h>

const char help_text[] =
	"usage: memguard --container NAME (--cgroup PATH | --cgroup-of-pid PID) --phase startup|steady\n"
	"                --floor SIZE --interval SECONDS --evidence FOLDER [OPTION...]\n"
	"\n"
	"Kills a container before the machine runs out of memory, and leaves evidence.\n"
	"\n"
	"  --container NAME       what it is called in lines and evidence: letters, digits, _ . and -\n"
	"  --cgroup PATH          its control group, also before it is there: an absolute path\n"
	"  --cgroup-of-pid PID    instead of it: the control group in which that process is now\n"
	"  --phase PHASE          startup or steady: a name in lines and evidence\n"
	"  --floor SIZE           kill when less memory is available: a whole number of bytes, or\n"
	"                         with KiB, MiB or GiB behind it, as 5GiB; less than the machine has\n"
	"  --interval SECONDS     from look to look, 0.01 to 60, as 2 or 0.25\n"
	"  --wait SECONDS         how long the container may take to appear (0)\n"
	"  --psi-full PERCENT     kill when all tasks wait for memory for more of the time (not looked at)\n"
	"  --psi-for SECONDS      how long that must last (5)\n"
	"  --kill-wait SECONDS    how long the killed processes may take to end (30)\n"
	"  --ready-file PATH      appears with the first good look: `waiting`, then `guarding`; an absolute path\n"
	"  --evidence FOLDER      where a record of a kill is written: the absolute path of a folder that is there\n"
	"  --proc FOLDER          where proc is mounted, an absolute path (/proc)\n"
	"  --dry-run              kill nothing; all else as it would be\n"
	"  --help, --version\n"
	"\n"
	"exit codes: 0 the container ended, or the guard was told to stop; 1 it saw nothing, and killed to be safe, or\n"
	"            the container did not appear; 2 wrong usage, or a group that must not be killed; 3 killed;\n"
	"            4 killed, and processes are still there\n";

enum { SECOND = 1000000000 };

static bool of_seconds(const char *value, uint64_t least, uint64_t most, uint64_t *ns)
{
	return parse_seconds(value, ns) && *ns >= least && *ns <= most;
}

static bool kept(const char *value, const char **place)
{
	*place = value;
	return *value != '\0';
}

static bool absolute(const char *value, const char **place)
{
	return kept(value, place) && *value == '/';
}

// The options with a value: false if it cannot be one.
enum { CONTAINER, CGROUP, OF_PID, PHASE, FLOOR, INTERVAL, WAIT, PSI_FULL, PSI_FOR, KILL_WAIT, READY, EVIDENCE, PROC };

static const struct {
	const char *name;
	const char *expected;
} valued[] = {
	{"--container", "a name of up to 128 letters, digits, _ . and -, with a letter or a digit at its beginning"},
	{"--cgroup", "an absolute path"},
	{"--cgroup-of-pid", "the number of a process, from 1 to 2147483647"},
	{"--phase", "startup or steady"},
	{"--floor", "a whole number of bytes, or one with KiB, MiB or GiB behind it (5GiB, 1536MiB), from 1 to 8388608GiB"},
	{"--interval", "seconds from 0.01 to 60, without a unit (2, 0.25)"},
	{"--wait", "seconds from 0 to 86400, without a unit (120, 0.5)"},
	{"--psi-full", "percent above 0 and up to 100, with two decimals at most and without a sign (20, 12.5)"},
	{"--psi-for", "seconds from 0 to 3600, without a unit (5, 0.5)"},
	{"--kill-wait", "seconds from 0 to 3600, without a unit (30, 0.5)"},
	{"--ready-file", "the absolute path of a file"},
	{"--evidence", "the absolute path of a folder"},
	{"--proc", "the absolute path of a folder"},
};

enum { COUNT = sizeof valued / sizeof *valued };

static bool set_option(struct options *options, unsigned which, const char *value)
{
	struct limits *limits = &options->limits;
	switch (which) {
	case CONTAINER:
		return kept(value, &options->container) && parse_container(value);
	case CGROUP:
		return absolute(value, &options->cgroup);
	case OF_PID:
		return parse_pid(value, &options->pid);
	case PHASE:
		return kept(value, &options->phase) && (strcmp(value, "startup") == 0 || strcmp(value, "steady") == 0);
	case FLOOR:
		return parse_size(value, &limits->floor_bytes) && limits->floor_bytes > 0;
	case INTERVAL:
		return of_seconds(value, SECOND / 100, UINT64_C(60) * SECOND, &options->interval_ns);
	case WAIT:
		return of_seconds(value, 0, UINT64_C(86400) * SECOND, &limits->wait_ns);
	case PSI_FULL:
		return parse_percent(value, &limits->psi_full);
	case PSI_FOR:
		return of_seconds(value, 0, UINT64_C(3600) * SECOND, &limits->psi_for_ns);
	case KILL_WAIT:
		return of_seconds(value, 0, UINT64_C(3600) * SECOND, &options->kill_wait_ns);
	case READY:
		return absolute(value, &options->ready) && value[strlen(value) - 1] != '/';
	case EVIDENCE:
		return absolute(value, &options->evidence);
	default:
		return absolute(value, &options->proc);
	}
}

// Which option a word is, and where its value begins if it holds that too.
static unsigned find_option(const char *word, const char **value)
{
	for (unsigned which = 0; which < COUNT; which++) {
		const size_t length = strlen(valued[which].name);
		if (strncmp(word, valued[which].name, length) == 0 && (word[length] == '\0' || word[length] == '=')) {
			*value = word[length] == '=' ? word + length + 1 : NULL;
			return which;
		}
	}
	return COUNT;
}

static bool is_complete(unsigned given)
{
	static const unsigned required[] = {CONTAINER, PHASE, FLOOR, INTERVAL, EVIDENCE};
	bool good = true;
	for (size_t at = 0; at < sizeof required / sizeof *required; at++) {
		if ((given & (1U << required[at])) == 0) {
			say(valued[required[at]].name, " is missing", NULL);
			good = false;
		}
	}
	const unsigned ways = given & (1U << CGROUP | 1U << OF_PID);
	if (ways == 0) {
		say("one of --cgroup and --cgroup-of-pid is needed", NULL);
		good = false;
	} else if (ways == (1U << CGROUP | 1U << OF_PID)) {
		say("--cgroup and --cgroup-of-pid: give one of them, not both", NULL);
		good = false;
	}
	if ((given & (1U << PSI_FOR)) != 0 && (given & (1U << PSI_FULL)) == 0) {
		say("--psi-for is of no use without --psi-full", NULL);
		good = false;
	}
	return good;
}

enum asked read_options(int count, char *const words[], struct options *options)
{
	*options = (struct options){.proc = "/proc", .kill_wait_ns = UINT64_C(30) * SECOND};
	options->limits.psi_for_ns = UINT64_C(5) * SECOND;
	unsigned given = 0;
	bool good = true;
	for (int at = 1; at < count; at++) {
		const char *value = NULL;
		const unsigned which = find_option(words[at], &value);
		if (strcmp(words[at], "--help") == 0)
			return ASKED_FOR_HELP;
		if (strcmp(words[at], "--version") == 0)
			return ASKED_FOR_VERSION;
		if (strcmp(words[at], "--dry-run") == 0) {
			options->dry_run = true;
			continue;
		}
		if (which == COUNT) {
			say("no option is called ", words[at], NULL);
			good = false;
			continue;
		}
		if (value == NULL && at + 1 < count)
			value = words[++at];
		if (value == NULL || !set_option(options, which, value)) {
			const char *got = value == NULL ? "nothing" : *value == '\0' ? "an empty value" : value;
			say(valued[which].name, ": expected ", valued[which].expected, "; got ", got, NULL);
			good = false;
		} else if ((given & (1U << which)) != 0) {
			say(valued[which].name, " is given twice", NULL);
			good = false;
		}
		given |= 1U << which;
	}
	good = is_complete(given) && good;
	if (!good)
		say("see memguard --help", NULL);
	return good ? ASKED_TO_GUARD : ASKED_WRONGLY;
}
