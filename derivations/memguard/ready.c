// SPDX-License-Identifier: Apache-2.0

#include "ready.h"

#include "files.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ready_open(struct ready *ready, const char *path)
{
	*ready = (struct ready){.folder = -1, .file = -1};
	if (path == NULL)
		return true;
	char buffer[PATH_MAX];
	struct text folder = text_in(buffer, sizeof buffer);
	ready->name = strrchr(path, '/') + 1;
	text_bytes(&folder, path, (size_t)(ready->name - path));
	text_bytes(&folder, "", 1);
	ready->folder = folder.cut ? -1 : open(buffer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ready->folder < 0 || (unlinkat(ready->folder, ready->name, 0) != 0 && errno != ENOENT)) {
		say_error("cannot prepare ", path, NULL);
		return false;
	}
	return true;
}

void ready_set(struct ready *ready, const char *state)
{
	char buffer[16];
	struct text text = text_in(buffer, sizeof buffer);
	if (ready->folder < 0 || ready->state == state)
		return;
	text_put(&text, state);
	text_put(&text, "\n");
	if (write_atomically(ready->folder, ready->name, buffer, text.used)) {
		if (ready->file >= 0)
			close(ready->file);
		ready->file = openat(ready->folder, ready->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		ready->state = state;
	} else if (!ready->failed) {
		ready->failed = true;
		say_error("cannot write the ready file ", ready->name, NULL);
	}
}

void ready_remove(struct ready *ready)
{
	struct stat there;
	struct stat own;
	if (ready->file >= 0 && fstat(ready->file, &own) == 0 &&
	    fstatat(ready->folder, ready->name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_dev == own.st_dev &&
	    there.st_ino == own.st_ino)
		unlinkat(ready->folder, ready->name, 0);
}
