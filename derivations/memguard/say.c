// SPDX-License-Identifier: Apache-2.0

#include "say.h"

#include "files.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static const char *names[2];

void say_names(const char *container, const char *phase)
{
	names[0] = container;
	names[1] = phase;
}

void line_start(struct line *line)
{
	line->text = text_in(line->buffer, sizeof line->buffer - 1); // room for the end of the line
	text_put(&line->text, "memguard");
	for (size_t at = 0; at < 2 && names[at] != NULL; at++) {
		text_put(&line->text, " ");
		text_put(&line->text, names[at]);
	}
	text_put(&line->text, ": ");
}

void line_end(struct line *line)
{
	// A pipe that can be written to has room for more than a line.
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	line->buffer[line->text.used] = '\n';
	if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0)
		write_whole(STDERR_FILENO, line->buffer, line->text.used + 1);
}

static void put_all(struct line *line, const char *words, va_list more)
{
	for (; words != NULL; words = va_arg(more, const char *))
		text_put(&line->text, words);
}

void say(const char *words, ...)
{
	struct line line;
	va_list more;
	line_start(&line);
	va_start(more, words);
	put_all(&line, words, more);
	va_end(more);
	line_end(&line);
}

void say_error(const char *words, ...)
{
	const char *reason = strerrordesc_np(errno);
	struct line line;
	va_list more;
	line_start(&line);
	va_start(more, words);
	put_all(&line, words, more);
	va_end(more);
	text_put(&line.text, ": ");
	text_put(&line.text, reason != NULL ? reason : "unknown error");
	line_end(&line);
}
