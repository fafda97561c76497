// SPDX-License-Identifier: Apache-2.0

#include "parse.h"

#include <limits.h>
#include <string.h>

struct reader {
	const char *at;
	const char *end;
};

static bool take(struct reader *reader, const char *words)
{
	const size_t count = strlen(words);
	if ((size_t)(reader->end - reader->at) < count || memcmp(reader->at, words, count) != 0)
		return false;
	reader->at += count;
	return true;
}

static void skip_blanks(struct reader *reader)
{
	while (reader->at < reader->end && *reader->at == ' ')
		reader->at++;
}

static bool skip_line(struct reader *reader)
{
	const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
	if (newline == NULL)
		return false;
	reader->at = newline + 1;
	return true;
}

static bool take_number(struct reader *reader, uint64_t *number)
{
	const char *start = reader->at;
	uint64_t value = 0;
	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*reader->at - '0'), &value))
			return false;
		reader->at++;
	}
	*number = value;
	return reader->at > start;
}

// A decimal of at most that many digits after the point, as a whole number of its smallest unit.
static bool take_decimal(struct reader *reader, unsigned places, uint64_t *number)
{
	if (!take_number(reader, number))
		return false;
	const bool point = take(reader, ".");
	unsigned digits = 0;
	for (; digits < places; digits++) {
		uint64_t digit = 0;
		if (point && reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
			digit = (uint64_t)(*reader->at++ - '0');
		else if (point && digits == 0)
			return false;
		if (__builtin_mul_overflow(*number, (uint64_t)10, number) ||
		    __builtin_add_overflow(*number, digit, number))
			return false;
	}
	return true;
}

static bool take_kilobytes(struct reader *reader, uint64_t *bytes)
{
	skip_blanks(reader);
	return take_number(reader, bytes) && !__builtin_mul_overflow(*bytes, (uint64_t)1024, bytes) &&
	       take(reader, " kB\n");
}

bool parse_memory(const char *data, size_t size, struct memory *memory)
{
	static const char *const labels[] = {"MemTotal:", "MemAvailable:", "MemFree:", "SwapFree:"};
	struct memory found = {0};
	uint64_t *const values[] = {
		&found.total_bytes, &found.available_bytes, &found.free_bytes, &found.swap_free_bytes};
	unsigned seen = 0;
	struct reader reader = {data, data + size};
	while (reader.at < reader.end) {
		unsigned label = 0;
		while (label < 4 && !take(&reader, labels[label]))
			label++;
		if (label == 4) {
			if (!skip_line(&reader))
				return false;
		} else {
			if ((seen & (1U << label)) != 0 || !take_kilobytes(&reader, values[label]))
				return false;
			seen |= 1U << label;
		}
	}
	if ((seen & 3) != 3 || found.total_bytes == 0 || found.available_bytes > found.total_bytes)
		return false;
	*memory = found;
	return true;
}

static bool take_share(struct reader *reader, const char *words, uint32_t *hundredths)
{
	uint64_t value = 0;
	if (!take(reader, words) || !take_decimal(reader, 2, &value) || !take(reader, " ") || value > 10000)
		return false;
	*hundredths = (uint32_t)value;
	return skip_line(reader);
}

bool parse_pressure(const char *data, size_t size, struct pressure *pressure)
{
	struct reader reader = {data, data + size};
	struct pressure found = {0};
	if (!take_share(&reader, "some avg10=", &found.some) || !take_share(&reader, "full avg10=", &found.full))
		return false;
	*pressure = found;
	return true;
}

bool parse_boost(const char *data, size_t size, uint64_t *pages)
{
	struct reader reader = {data, data + size};
	uint64_t sum = 0;
	bool seen = false;
	while (reader.at < reader.end) {
		skip_blanks(&reader);
		if (take(&reader, "boost ")) {
			uint64_t zone = 0;
			skip_blanks(&reader);
			if (!take_number(&reader, &zone) || __builtin_add_overflow(sum, zone, &sum))
				return false;
			seen = true;
		}
		if (!skip_line(&reader))
			return false;
	}
	if (seen)
		*pages = sum;
	return seen;
}

enum populated parse_populated(const char *data, size_t size)
{
	struct reader reader = {data, data + size};
	while (reader.at < reader.end) {
		if (take(&reader, "populated 0\n"))
			return POPULATED_NO;
		if (take(&reader, "populated 1\n"))
			return POPULATED_YES;
		if (!skip_line(&reader))
			break;
	}
	return POPULATED_UNKNOWN;
}

static struct reader over(const char *words)
{
	return (struct reader){words, words + strlen(words)};
}

bool parse_size(const char *words, uint64_t *bytes)
{
	struct reader reader = over(words);
	uint64_t value = 0;
	if (!take_number(&reader, &value))
		return false;
	unsigned shift = 0;
	if (take(&reader, "GiB"))
		shift = 30;
	else if (take(&reader, "MiB"))
		shift = 20;
	else if (take(&reader, "KiB"))
		shift = 10;
	// Records hold numbers up to 2^53, which no memory reaches.
	if (reader.at != reader.end || value > (UINT64_C(1) << 53) >> shift)
		return false;
	*bytes = value << shift;
	return true;
}

bool parse_seconds(const char *words, uint64_t *ns)
{
	struct reader reader = over(words);
	uint64_t value = 0;
	if (!take_decimal(&reader, 9, &value) || reader.at != reader.end)
		return false;
	*ns = value;
	return true;
}

bool parse_percent(const char *words, uint32_t *hundredths)
{
	struct reader reader = over(words);
	uint64_t value = 0;
	if (!take_decimal(&reader, 2, &value) || reader.at != reader.end || value == 0 || value > 10000)
		return false;
	*hundredths = (uint32_t)value;
	return true;
}

bool parse_pid(const char *words, int *pid)
{
	struct reader reader = over(words);
	uint64_t value = 0;
	if (!take_number(&reader, &value) || reader.at != reader.end || value == 0 || value > INT_MAX)
		return false;
	*pid = (int)value;
	return true;
}

bool parse_container(const char *words)
{
	static const char inner[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-";
	const size_t count = strlen(words);
	return count > 0 && count <= 128 && strspn(words, inner) == count && strchr("_.-", words[0]) == NULL;
}
