// SPDX-License-Identifier: Apache-2.0
//
// One line for each event, on standard error: the journal's, when a unit starts the guard.
#ifndef MEMGUARD_SAY_H
#define MEMGUARD_SAY_H

#include "text.h"

#include <stddef.h>

// A line as it is composed; it begins with the program's name and, once they are set, the container's and the phase.
struct line {
	struct text text;
	char buffer[1024];
};

void say_names(const char *container, const char *phase);
void line_start(struct line *line);

// Writes it, unless that would block: a full pipe must not hold up the guard.
void line_end(struct line *line);

// A line of these words, one after the other; the last is NULL.
void say(const char *words, ...) __attribute__((sentinel));

// The same with what errno stands for at its end.
void say_error(const char *words, ...) __attribute__((sentinel));

#endif
