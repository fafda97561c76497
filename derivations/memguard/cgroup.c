// SPDX-License-Identifier: Apache-2.0

#include "cgroup.h"

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { DEEPEST = 16 };

static bool went(int error)
{
	return error == ENOENT || error == ENODEV;
}

static void close_one(int *file)
{
	if (*file >= 0)
		close(*file);
	*file = -1;
}

void cgroup_detach(struct cgroup *cgroup)
{
	close_one(&cgroup->folder);
	close_one(&cgroup->events);
	close_one(&cgroup->kill);
	close_one(&cgroup->freeze);
}

// The processes of one group. A file of version 1 must be opened for each reading: an open one shows an old list.
static bool each_process(int folder, visit *function, void *context)
{
	char buffer[4096];
	const int file = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return went(errno);
	pid_t pid = 0;
	ssize_t count = 0;
	bool go_on = true;
	while (go_on && (count = read(file, buffer, sizeof buffer)) > 0) {
		for (ssize_t at = 0; go_on && at < count; at++) {
			if (buffer[at] != '\n') {
				pid = pid * 10 + (buffer[at] - '0');
				continue;
			}
			go_on = function(context, pid);
			pid = 0;
		}
	}
	const bool good = count >= 0 || went(errno);
	close(file);
	return good && go_on;
}

static bool each_below(int folder, unsigned depth, visit *function, void *context)
{
	char buffer[2048];
	if (!each_process(folder, function, context))
		return false;
	const int listed = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (listed < 0)
		return went(errno);
	ssize_t count = 0;
	bool good = true;
	while (good && (count = getdents64(listed, buffer, sizeof buffer)) > 0) {
		for (ssize_t at = 0; good && at < count;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			at += entry->d_reclen;
			if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
				continue;
			const int below = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (below < 0) {
				good = went(errno);
				continue;
			}
			good = depth < DEEPEST && each_below(below, depth + 1, function, context);
			close(below);
		}
	}
	good = good && (count >= 0 || went(errno));
	close(listed);
	return good;
}

bool cgroup_each(const struct cgroup *cgroup, visit *function, void *context)
{
	return each_below(cgroup->folder, 0, function, context);
}

struct found {
	bool any;
	bool spared;
	bool others;
};

bool is_spared(pid_t pid)
{
	return pid == getpid() || pid == 1;
}

static bool find_any(void *context, pid_t pid)
{
	(void)pid;
	((struct found *)context)->any = true;
	return false;
}

static bool find_spared(void *context, pid_t pid)
{
	((struct found *)context)->spared = is_spared(pid);
	return !((struct found *)context)->spared;
}

static bool find_others(void *context, pid_t pid)
{
	((struct found *)context)->others = !is_spared(pid);
	return !((struct found *)context)->others;
}

bool cgroup_holds_spared(const struct cgroup *cgroup)
{
	struct found found = {0};
	cgroup_each(cgroup, find_spared, &found);
	return found.spared;
}

bool cgroup_holds_others(const struct cgroup *cgroup)
{
	struct found found = {0};
	return !cgroup_each(cgroup, find_others, &found) || found.others;
}

enum presence cgroup_look(const struct cgroup *cgroup)
{
	if (cgroup->folder < 0)
		return PRESENCE_ABSENT;
	if (!cgroup->v2) {
		struct found found = {0};
		const bool all = cgroup_each(cgroup, find_any, &found);
		if (found.any)
			return PRESENCE_POPULATED;
		if (!all)
			return PRESENCE_UNREADABLE;
		if (faccessat(cgroup->folder, "cgroup.procs", F_OK, 0) != 0)
			return went(errno) ? PRESENCE_ABSENT : PRESENCE_UNREADABLE;
		return PRESENCE_EMPTY;
	}
	char buffer[1024];
	const ssize_t count = read_whole(cgroup->events, buffer, sizeof buffer);
	if (count < 0)
		return went(errno) ? PRESENCE_ABSENT : PRESENCE_UNREADABLE;
	switch (parse_populated(buffer, (size_t)count)) {
	case POPULATED_YES:
		return PRESENCE_POPULATED;
	case POPULATED_NO:
		return PRESENCE_EMPTY;
	case POPULATED_UNKNOWN:
		break;
	}
	return PRESENCE_UNREADABLE;
}

static bool is_top(int folder)
{
	struct stat own;
	struct stat above;
	// In its parent's place stands another file system.
	return fstat(folder, &own) != 0 || fstatat(folder, "..", &above, 0) != 0 || own.st_dev != above.st_dev;
}

static enum attached attach(struct cgroup *cgroup, const char *path)
{
	cgroup->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cgroup->folder < 0)
		return went(errno) ? ATTACH_ABSENT : errno == ENOTDIR ? ATTACH_NO_CGROUP : ATTACH_UNREADABLE;
	struct statfs system;
	if (fstatfs(cgroup->folder, &system) != 0)
		return ATTACH_UNREADABLE;
	if (system.f_type != CGROUP2_SUPER_MAGIC && system.f_type != CGROUP_SUPER_MAGIC)
		return ATTACH_NO_CGROUP;
	if (is_top(cgroup->folder))
		return ATTACH_TOP;
	cgroup->v2 = system.f_type == CGROUP2_SUPER_MAGIC;
	if (cgroup->v2) {
		cgroup->events = openat(cgroup->folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
		if (cgroup->events < 0)
			return went(errno) ? ATTACH_ABSENT : ATTACH_UNREADABLE;
		cgroup->kill = openat(cgroup->folder, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	}
	cgroup->freeze = openat(cgroup->folder, cgroup->v2 ? "cgroup.freeze" : "freezer.state", O_RDWR | O_CLOEXEC);
	struct found found = {0};
	const bool all = cgroup_each(cgroup, find_spared, &found);
	if (found.spared)
		return ATTACH_SELF;
	return all ? ATTACHED : ATTACH_UNREADABLE;
}

enum attached cgroup_attach(struct cgroup *cgroup, const char *path)
{
	*cgroup = NO_CGROUP;
	const enum attached attached = attach(cgroup, path);
	if (attached != ATTACHED)
		cgroup_detach(cgroup);
	return attached;
}
