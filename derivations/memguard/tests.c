// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of the pure parts. Each says one behaviour, and is named in the output.

#include "judge.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define GIB (UINT64_C(1) << 30)

static const char *test_name;
static unsigned checks;

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(bool good, const char *condition, int line)
{
	checks++;
	if (!good) {
		fprintf(stderr, "%s: line %d: not so: %s\n", test_name, line, condition);
		exit(1);
	}
}

// Parsers get exactly their bytes, on the heap, so that the sanitizer sees one read too many.
static char *exact(const char *bytes, size_t size)
{
	char *copy = malloc(size == 0 ? 1 : size);
	if (copy == NULL)
		exit(1);
	memcpy(copy, bytes, size);
	return copy;
}

static bool memory_of(const char *words, struct memory *memory)
{
	char *copy = exact(words, strlen(words));
	const bool good = parse_memory(copy, strlen(words), memory);
	free(copy);
	return good;
}

static bool pressure_of(const char *words, struct pressure *pressure)
{
	char *copy = exact(words, strlen(words));
	const bool good = parse_pressure(copy, strlen(words), pressure);
	free(copy);
	return good;
}

static bool boost_of(const char *words, uint64_t *pages)
{
	char *copy = exact(words, strlen(words));
	const bool good = parse_boost(copy, strlen(words), pages);
	free(copy);
	return good;
}

static enum populated populated_of(const char *words)
{
	char *copy = exact(words, strlen(words));
	const enum populated populated = parse_populated(copy, strlen(words));
	free(copy);
	return populated;
}

#define MEMINFO \
	"MemTotal:       125000000 kB\n" \
	"MemFree:          4000000 kB\n" \
	"MemAvailable:     3145728 kB\n" \
	"Buffers:            10000 kB\n" \
	"SwapFree:               7 kB\n" \
	"HugePages_Total:       0\n"

static const char PSI[] =
	"some avg10=12.34 avg60=1.00 avg300=0.00 total=17296687\n"
	"full avg10=0.05 avg60=0.00 avg300=0.00 total=10199605\n";

static void meminfo_is_read_in_bytes(void)
{
	struct memory memory;
	CHECK(memory_of(MEMINFO, &memory));
	CHECK(memory.total_bytes == UINT64_C(125000000) * 1024);
	CHECK(memory.available_bytes == 3 * GIB);
	CHECK(memory.free_bytes == UINT64_C(4000000) * 1024);
	CHECK(memory.swap_free_bytes == 7 * 1024);
}

static void meminfo_that_is_not_exactly_one_is_refused(void)
{
	static const char *const bad[] = {
		"", "\n", "x", "MemTotal: 5 kB\n", "MemAvailable: 5 kB\n",
		"MemTotal: 5 kB\nMemAvailable: 5 kB",               // cut in the line
		"MemTotal: 5 kB\nMemAvailable: 5",                  // cut in the number
		"MemTotal: 5 kB\nMemAvailable: 6 kB\n",             // more than there is
		"MemTotal: 0 kB\nMemAvailable: 0 kB\n",             // no memory at all
		"MemTotal: 5 kB\nMemAvailable: kB\n",               // no number
		"MemTotal: 5 kB\nMemAvailable: -1 kB\n",            // negative
		"MemTotal: 5 kB\nMemAvailable: 0x4 kB\n",           // not decimal
		"MemTotal: 5 kB\nMemAvailable: 4 MB\n",             // another unit
		"MemTotal: 5 kB\nMemAvailable: 4 kB\nMemAvailable: 4 kB\n", // twice
		"MemTotal: 99999999999999999999 kB\nMemAvailable: 4 kB\n",  // past 64 bits
		"MemTotal: 18446744073709551615 kB\nMemAvailable: 4 kB\n",  // past 64 bits in bytes
		" MemTotal: 5 kB\n MemAvailable: 4 kB\n",           // not at the beginning of the line
	};
	struct memory memory;
	for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
		CHECK(!memory_of(bad[at], &memory));
}

static void pressure_is_read_in_hundredths(void)
{
	struct pressure pressure;
	CHECK(pressure_of(PSI, &pressure));
	CHECK(pressure.some == 1234);
	CHECK(pressure.full == 5);
}

static void pressure_that_is_garbled_is_refused(void)
{
	static const char *const bad[] = {
		"", "some avg10=1.00 avg60=0.00 avg300=0.00 total=1\n", "full avg10=1.00 avg60=0\n",
		"some avg10=100.01 avg60=0\nfull avg10=0.00 avg60=0\n", "some avg10= avg60=0\nfull avg10=0.00 avg60=0\n",
		"some avg10=1. avg60=0\nfull avg10=0.00 avg60=0\n", "some avg10=1.00 avg60=0\nfull avg10=0.00 avg60=0",
		"some avg10=1.000 avg60=0\nfull avg10=0.00 avg60=0\n",
	};
	struct pressure pressure;
	for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
		CHECK(!pressure_of(bad[at], &pressure));
}

static void boost_is_the_sum_of_all_zones(void)
{
	uint64_t pages = 0;
	CHECK(boost_of("Node 0, zone DMA\n  pages free 3\n        boost    7\n        min 2\nNode 0, zone\n boost 5\n", &pages));
	CHECK(pages == 12);
	CHECK(boost_of("boost 0\n", &pages) && pages == 0);
	CHECK(!boost_of("Node 0, zone DMA\n  min 2\n", &pages));
	CHECK(!boost_of("boost x\n", &pages));
	CHECK(!boost_of("boost 5", &pages));
	CHECK(!boost_of("", &pages));
}

static void populated_is_read_from_events(void)
{
	CHECK(populated_of("populated 1\nfrozen 0\n") == POPULATED_YES);
	CHECK(populated_of("frozen 0\npopulated 0\n") == POPULATED_NO);
	CHECK(populated_of("populated 2\n") == POPULATED_UNKNOWN);
	CHECK(populated_of("populated 1") == POPULATED_UNKNOWN);
	CHECK(populated_of("") == POPULATED_UNKNOWN);
}

static void sizes_have_binary_units_or_none(void)
{
	uint64_t bytes = 0;
	CHECK(parse_size("5GiB", &bytes) && bytes == 5 * GIB);
	CHECK(parse_size("512MiB", &bytes) && bytes == GIB / 2);
	CHECK(parse_size("64KiB", &bytes) && bytes == 65536);
	CHECK(parse_size("5368709120", &bytes) && bytes == 5 * GIB);
	CHECK(parse_size("8388608GiB", &bytes) && bytes == UINT64_C(1) << 53);
	static const char *const bad[] = {"", "GiB", "5GB", "5G", "5 GiB", "1.5GiB", "-1", "0x5", "5gib", "8388609GiB",
					  "17179869184GiB", "18446744073709551616"};
	for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
		CHECK(!parse_size(bad[at], &bytes));
}

static void seconds_may_be_decimals(void)
{
	uint64_t ns = 0;
	CHECK(parse_seconds("2", &ns) && ns == 2 * SECOND);
	CHECK(parse_seconds("0.25", &ns) && ns == SECOND / 4);
	CHECK(parse_seconds("0.000000001", &ns) && ns == 1);
	static const char *const bad[] = {"", ".5", "1.", "1.0000000001", "-1", "1e3", "2s", "18446744073709551615"};
	for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
		CHECK(!parse_seconds(bad[at], &ns));
}

static void percents_are_more_than_none_and_no_more_than_all(void)
{
	uint32_t share = 0;
	CHECK(parse_percent("20", &share) && share == 2000);
	CHECK(parse_percent("12.5", &share) && share == 1250);
	CHECK(parse_percent("100", &share) && share == 10000);
	CHECK(!parse_percent("0", &share));
	CHECK(!parse_percent("100.01", &share));
	CHECK(!parse_percent("5%", &share));
	CHECK(!parse_percent("1.234", &share));
}

static void names_of_containers_are_no_paths(void)
{
	int pid = 0;
	CHECK(parse_container("ds41f-karmic_0.1"));
	CHECK(!parse_container(""));
	CHECK(!parse_container(".."));
	CHECK(!parse_container("a/b"));
	CHECK(!parse_container("a b"));
	CHECK(parse_pid("1234", &pid) && pid == 1234);
	CHECK(!parse_pid("0", &pid));
	CHECK(!parse_pid("2147483648", &pid));
	CHECK(!parse_pid("self", &pid));
}

// Bytes of all kinds, from a generator of fixed numbers: whatever comes, only what is sound is taken.
static void no_bytes_lead_a_parser_astray(void)
{
	static const char *const seeds[] = {MEMINFO, PSI, " boost 12\n boost 1\n", "populated 1\nfrozen 0\n"};
	uint64_t random = 88172645463325252;
	for (unsigned round = 0; round < 40000; round++) {
		const char *seed = seeds[round % 4];
		size_t size = strlen(seed);
		char edited[512];
		memcpy(edited, seed, size);
		for (unsigned edit = 0; edit < 1 + round % 3; edit++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			edited[random % size] = (char)(random >> 32);
			if (random % 5 == 0)
				size = 1 + (size_t)(random >> 40) % size;
		}
		char *bytes = exact(edited, size);
		struct memory memory = {0};
		struct pressure pressure = {0};
		uint64_t pages = 0;
		CHECK(!parse_memory(bytes, size, &memory) || memory.available_bytes <= memory.total_bytes);
		CHECK(!parse_pressure(bytes, size, &pressure) || pressure.full <= 10000);
		(void)parse_boost(bytes, size, &pages);
		(void)parse_populated(bytes, size);
		free(bytes);
	}
}

// A judge of a container that may take 10 s to appear: floor 5 GiB, and 20% of pressure for 3 s.
static struct judge new_judge(void)
{
	const struct limits limits = {
		.floor_bytes = 5 * GIB, .wait_ns = 10 * SECOND, .psi_for_ns = 3 * SECOND, .psi_full = 2000};
	return judge_from(&limits, 100 * SECOND);
}

// A sample that many seconds after the judge began.
static struct sample sample_at(uint64_t seconds, uint64_t available_gib, uint32_t full)
{
	return (struct sample){
		.monotonic_ns = (100 + seconds) * SECOND,
		.memory = {.total_bytes = 120 * GIB, .available_bytes = available_gib * GIB},
		.pressure = {.full = full},
		.memory_known = true,
		.pressure_known = true,
	};
}

static enum verdict look(struct judge *judge, struct sample sample, enum presence presence)
{
	return judge_look(judge, &sample, presence);
}

static void a_container_is_waited_for_until_its_time_is_over(void)
{
	struct judge judge = new_judge();
	CHECK(look(&judge, sample_at(0, 50, 0), PRESENCE_ABSENT) == VERDICT_WAIT);
	CHECK(look(&judge, sample_at(9, 50, 0), PRESENCE_EMPTY) == VERDICT_WAIT);
	CHECK(look(&judge, sample_at(10, 50, 0), PRESENCE_ABSENT) == VERDICT_LATE);
	judge = new_judge();
	CHECK(look(&judge, sample_at(9, 50, 0), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(99, 50, 0), PRESENCE_POPULATED) == VERDICT_GUARD);
}

static void the_floor_itself_is_enough_and_a_byte_less_is_not(void)
{
	struct judge judge = new_judge();
	struct sample sample = sample_at(0, 5, 0);
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_GUARD);
	sample.memory.available_bytes--;
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_BELOW_FLOOR);
	CHECK(!sample_is_good(&sample, &judge.limits));
}

static void too_little_memory_before_the_container_is_no_reason_yet(void)
{
	struct judge judge = new_judge();
	const struct sample sample = sample_at(0, 1, 0);
	CHECK(look(&judge, sample, PRESENCE_ABSENT) == VERDICT_WAIT);
	CHECK(!sample_is_good(&sample, &judge.limits));
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_BELOW_FLOOR);
}

static void a_floor_of_all_memory_or_more_can_never_be_met(void)
{
	CHECK(judge_floor(24 * GIB, 24 * GIB) == FLOOR_NEVER);
	CHECK(judge_floor(1000 * GIB, 24 * GIB) == FLOOR_NEVER);
	CHECK(judge_floor(24 * GIB - 1, 24 * GIB) == FLOOR_HIGH);
	CHECK(judge_floor(12 * GIB + 1, 24 * GIB) == FLOOR_HIGH);
	CHECK(judge_floor(12 * GIB, 24 * GIB) == FLOOR_FITS);
	CHECK(judge_floor(1, 24 * GIB) == FLOOR_FITS);
}

static void pressure_counts_only_when_it_lasts(void)
{
	struct judge judge = new_judge();
	CHECK(look(&judge, sample_at(0, 50, 2001), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(2, 50, 9000), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(3, 50, 2001), PRESENCE_POPULATED) == VERDICT_PRESSURE);
	judge = new_judge();
	CHECK(look(&judge, sample_at(0, 50, 9000), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(2, 50, 2000), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(4, 50, 9000), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(6, 50, 9000), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(7, 50, 9000), PRESENCE_POPULATED) == VERDICT_PRESSURE);
}

static void pressure_without_a_limit_decides_nothing(void)
{
	struct judge judge = new_judge();
	judge.limits.psi_full = 0;
	struct sample sample = sample_at(0, 50, 10000);
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_GUARD);
	sample.pressure_known = false;
	sample.monotonic_ns += 100 * SECOND;
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_GUARD);
}

static void what_cannot_be_read_kills(void)
{
	struct judge judge = new_judge();
	struct sample sample = sample_at(0, 50, 0);
	sample.memory_known = false;
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_NO_MEMORY_INFO);
	CHECK(!sample_is_good(&sample, &judge.limits));
	sample = sample_at(0, 50, 0);
	sample.pressure_known = false;
	CHECK(look(&judge, sample, PRESENCE_POPULATED) == VERDICT_NO_PRESSURE_INFO);
	CHECK(look(&judge, sample_at(0, 50, 0), PRESENCE_UNREADABLE) == VERDICT_NO_CGROUP_INFO);
}

static void a_guard_that_sees_nothing_does_not_wait_for_a_container(void)
{
	struct judge judge = new_judge();
	struct sample sample = sample_at(0, 50, 0);
	sample.memory_known = false;
	CHECK(look(&judge, sample, PRESENCE_ABSENT) == VERDICT_NO_MEMORY_INFO);
}

static void a_container_that_is_gone_has_ended_and_an_empty_one_after_two_looks(void)
{
	struct judge judge = new_judge();
	CHECK(look(&judge, sample_at(0, 50, 0), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(1, 50, 0), PRESENCE_ABSENT) == VERDICT_ENDED);
	judge = new_judge();
	CHECK(look(&judge, sample_at(0, 50, 0), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(1, 50, 0), PRESENCE_EMPTY) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(2, 50, 0), PRESENCE_POPULATED) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(3, 50, 0), PRESENCE_EMPTY) == VERDICT_GUARD);
	CHECK(look(&judge, sample_at(4, 50, 0), PRESENCE_EMPTY) == VERDICT_ENDED);
}

static void only_verdicts_that_find_fault_kill(void)
{
	for (enum verdict verdict = VERDICT_WAIT; verdict <= VERDICT_NO_CGROUP_INFO; verdict++) {
		CHECK(verdict_kills(verdict) == (verdict > VERDICT_LATE));
		CHECK(strcmp(verdict_name(verdict), "unknown") != 0);
	}
}

static bool writes(void (*put)(struct text *, uint64_t), uint64_t number, const char *expected)
{
	char buffer[64];
	struct text text = text_in(buffer, sizeof buffer);
	put(&text, number);
	return text.used == strlen(expected) && memcmp(buffer, expected, text.used) == 0;
}

static void numbers_are_written_for_people(void)
{
	CHECK(writes(text_number, 0, "0"));
	CHECK(writes(text_number, UINT64_MAX, "18446744073709551615"));
	CHECK(writes(text_hundredths, 5, "0.05"));
	CHECK(writes(text_hundredths, 10000, "100.00"));
	CHECK(writes(text_gib, 5 * GIB - 1, "4.99 GiB"));
	CHECK(writes(text_gib, UINT64_MAX, "17179869183.99 GiB"));
	CHECK(writes(text_seconds, SECOND / 4, "0.250 s"));
	CHECK(writes(text_utc, 0, "19700101T000000Z"));
	CHECK(writes(text_utc, 951782399, "20000228T235959Z"));
	CHECK(writes(text_utc, 951782400, "20000229T000000Z"));
	CHECK(writes(text_utc, 4107542400, "21000301T000000Z"));
	CHECK(writes(text_utc, 1796022000, "20261130T070000Z"));
}

static void json_strings_hold_any_byte(void)
{
	char buffer[64];
	struct text text = text_in(buffer, sizeof buffer);
	text_quoted(&text, "a\"\\\n\t\x01%\x7f\xc3z", 10);
	static const char expected[] = "\"a\\\"\\\\\\n\\t\\u0001%25%7F%C3z\"";
	CHECK(text.used == sizeof expected - 1 && memcmp(buffer, expected, text.used) == 0);
}

static void text_that_does_not_fit_is_cut_and_remembered(void)
{
	char buffer[4];
	struct text text = text_in(buffer, sizeof buffer);
	text_put(&text, "abcd");
	CHECK(!text.cut && text.used == 4);
	text_put(&text, "e");
	CHECK(text.cut && text.used == 4 && memcmp(buffer, "abcd", 4) == 0);
}

#define TEST(name) {#name, name}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	TEST(meminfo_is_read_in_bytes),
	TEST(meminfo_that_is_not_exactly_one_is_refused),
	TEST(pressure_is_read_in_hundredths),
	TEST(pressure_that_is_garbled_is_refused),
	TEST(boost_is_the_sum_of_all_zones),
	TEST(populated_is_read_from_events),
	TEST(sizes_have_binary_units_or_none),
	TEST(seconds_may_be_decimals),
	TEST(percents_are_more_than_none_and_no_more_than_all),
	TEST(names_of_containers_are_no_paths),
	TEST(no_bytes_lead_a_parser_astray),
	TEST(a_container_is_waited_for_until_its_time_is_over),
	TEST(the_floor_itself_is_enough_and_a_byte_less_is_not),
	TEST(too_little_memory_before_the_container_is_no_reason_yet),
	TEST(a_floor_of_all_memory_or_more_can_never_be_met),
	TEST(pressure_counts_only_when_it_lasts),
	TEST(pressure_without_a_limit_decides_nothing),
	TEST(what_cannot_be_read_kills),
	TEST(a_guard_that_sees_nothing_does_not_wait_for_a_container),
	TEST(a_container_that_is_gone_has_ended_and_an_empty_one_after_two_looks),
	TEST(only_verdicts_that_find_fault_kill),
	TEST(numbers_are_written_for_people),
	TEST(json_strings_hold_any_byte),
	TEST(text_that_does_not_fit_is_cut_and_remembered),
};

int main(void)
{
	for (size_t at = 0; at < sizeof tests / sizeof *tests; at++) {
		test_name = tests[at].name;
		tests[at].run();
		printf("passed  %s\n", test_name);
	}
	printf("%zu tests, %u checks\n", sizeof tests / sizeof *tests, checks);
	return 0;
}
