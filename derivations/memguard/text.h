// SPDX-License-Identifier: Apache-2.0
//
// Text in memory that the caller gives: nothing here allocates, and what does not fit is cut and remembered.
#ifndef MEMGUARD_TEXT_H
#define MEMGUARD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *data;
	size_t size;
	size_t used;
	bool cut; // something did not fit
};

struct text text_in(char *data, size_t size);
void text_bytes(struct text *text, const char *bytes, size_t count);
void text_put(struct text *text, const char *words);
void text_number(struct text *text, uint64_t number);

// A number of hundredths as a decimal: 1234 is 12.34.
void text_hundredths(struct text *text, uint64_t hundredths);

// Bytes as GiB with two digits, rounded down.
void text_gib(struct text *text, uint64_t bytes);

// Nanoseconds as seconds with three digits, rounded down.
void text_seconds(struct text *text, uint64_t ns);

// Seconds since 1970 as 20261130T075131Z. No time zone is read.
void text_utc(struct text *text, uint64_t seconds);

// A JSON string; '%' and bytes outside ASCII are written %XX, as in all records.
void text_quoted(struct text *text, const char *bytes, size_t count);

#endif
