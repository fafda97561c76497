// SPDX-License-Identifier: Apache-2.0

#include "files.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

ssize_t read_whole(int file, char *buffer, size_t size)
{
	size_t used = 0;
	while (used < size) {
		const ssize_t count = pread(file, buffer + used, size - used, (off_t)used);
		if (count == 0)
			return (ssize_t)used;
		if (count > 0)
			used += (size_t)count;
		else if (errno != EINTR)
			return -1;
	}
	errno = EFBIG;
	return -1;
}

ssize_t read_at(int folder, const char *name, char *buffer, size_t size)
{
	const int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	const ssize_t count = read_whole(file, buffer, size);
	const int error = errno;
	close(file);
	errno = error;
	return count;
}

bool write_whole(int file, const char *bytes, size_t count)
{
	size_t done = 0;
	while (done < count) {
		const ssize_t written = write(file, bytes + done, count - done);
		if (written > 0)
			done += (size_t)written;
		else if (written == 0 || errno != EINTR)
			return false;
	}
	return true;
}

bool write_atomically(int folder, const char *name, const char *bytes, size_t count)
{
	char buffer[256];
	struct text other = text_in(buffer, sizeof buffer);
	text_put(&other, ".");
	text_put(&other, name);
	text_put(&other, ".new");
	text_bytes(&other, "", 1);
	if (other.cut) {
		errno = ENAMETOOLONG;
		return false;
	}
	// What a guard that was killed left behind is in the way of nobody.
	unlinkat(folder, buffer, 0);
	const int file = openat(folder, buffer, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file < 0)
		return false;
	bool good = write_whole(file, bytes, count) && fsync(file) == 0;
	good = close(file) == 0 && good && renameat(folder, buffer, folder, name) == 0;
	if (!good) {
		const int error = errno;
		unlinkat(folder, buffer, 0);
		errno = error;
		return false;
	}
	return fsync(folder) == 0;
}

// Not synced: who starts must not wait for a disk.
bool has_room(int folder, size_t count)
{
	static const char nothing[4096];
	char buffer[64];
	struct text name = text_in(buffer, sizeof buffer);
	text_put(&name, ".memguard-");
	text_number(&name, (uint64_t)getpid());
	text_put(&name, ".new");
	text_bytes(&name, "", 1);
	unlinkat(folder, buffer, 0);
	const int file = openat(folder, buffer, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return false;
	bool good = true;
	for (size_t done = 0; good && done < count; done += sizeof nothing)
		good = write_whole(file, nothing, sizeof nothing);
	int error = errno;
	if (close(file) != 0 && good) {
		error = errno;
		good = false;
	}
	unlinkat(folder, buffer, 0);
	errno = error;
	return good;
}

static uint64_t in_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t monotonic_ns(void)
{
	return in_ns(CLOCK_MONOTONIC);
}

uint64_t realtime_seconds(void)
{
	return in_ns(CLOCK_REALTIME) / 1000000000;
}

void sleep_ns(uint64_t ns)
{
	const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}
