// SPDX-License-Identifier: Apache-2.0

#include "text.h"

#include <string.h>

struct text text_in(char *data, size_t size)
{
	return (struct text){.data = data, .size = size};
}

void text_bytes(struct text *text, const char *bytes, size_t count)
{
	const size_t left = text->size - text->used;
	if (count > left) {
		text->cut = true;
		count = left;
	}
	memcpy(text->data + text->used, bytes, count);
	text->used += count;
}

void text_put(struct text *text, const char *words)
{
	text_bytes(text, words, strlen(words));
}

static void put_digits(struct text *text, uint64_t number, unsigned least)
{
	char digits[20];
	unsigned at = sizeof digits;
	while (number != 0 || sizeof digits - at < least) {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	}
	text_bytes(text, digits + at, sizeof digits - at);
}

void text_number(struct text *text, uint64_t number)
{
	put_digits(text, number, 1);
}

void text_hundredths(struct text *text, uint64_t hundredths)
{
	put_digits(text, hundredths / 100, 1);
	text_put(text, ".");
	put_digits(text, hundredths % 100, 2);
}

void text_gib(struct text *text, uint64_t bytes)
{
	const uint64_t gib = 1024 * 1024 * 1024;
	text_hundredths(text, bytes / gib * 100 + bytes % gib * 100 / gib);
	text_put(text, " GiB");
}

void text_seconds(struct text *text, uint64_t ns)
{
	put_digits(text, ns / 1000000000, 1);
	text_put(text, ".");
	put_digits(text, ns % 1000000000 / 1000000, 3);
	text_put(text, " s");
}

void text_utc(struct text *text, uint64_t seconds)
{
	// Years that begin in March, so that the leap day is a year's last.
	const uint64_t days = seconds / 86400 + 719468;
	const uint64_t era = days / 146097;
	const uint64_t day_of_era = days % 146097;
	const uint64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	const uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	const uint64_t shifted = (5 * day_of_year + 2) / 153;
	const uint64_t month = shifted < 10 ? shifted + 3 : shifted - 9;

	put_digits(text, era * 400 + year_of_era + (month <= 2 ? 1 : 0), 4);
	put_digits(text, month, 2);
	put_digits(text, day_of_year - (153 * shifted + 2) / 5 + 1, 2);
	text_put(text, "T");
	put_digits(text, seconds % 86400 / 3600, 2);
	put_digits(text, seconds % 3600 / 60, 2);
	put_digits(text, seconds % 60, 2);
	text_put(text, "Z");
}

void text_quoted(struct text *text, const char *bytes, size_t count)
{
	static const char low[] = "0123456789abcdef";
	static const char high[] = "0123456789ABCDEF";
	text_put(text, "\"");
	for (size_t at = 0; at < count; at++) {
		const unsigned char byte = (unsigned char)bytes[at];
		if (byte == '\n')
			text_put(text, "\\n");
		else if (byte == '\t')
			text_put(text, "\\t");
		else if (byte == '"' || byte == '\\')
			text_bytes(text, (const char[]){'\\', (char)byte}, 2);
		else if (byte < 0x20)
			text_bytes(text, (const char[]){'\\', 'u', '0', '0', low[byte >> 4], low[byte & 15]}, 6);
		else if (byte == '%' || byte >= 0x7f)
			text_bytes(text, (const char[]){'%', high[byte >> 4], high[byte & 15]}, 3);
		else
			text_bytes(text, bytes + at, 1);
	}
	text_put(text, "\"");
}
