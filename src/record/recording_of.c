/* Finds the recording of a process: the recorder is its ancestor (`heft run` starts the program) or attached to
 * it or to an ancestor, and holds the file open for writing. A file is known by its first bytes, not by
 * its name, which -o can make anything.
 *
 * Everything in /proc is of other processes and may be gone at the next look: then the search goes on
 * without it. */
#include "record/recording_of.h"

#include "hosted/proc_text.h"
#include "session/attach_call.h"
#include "trace/trace_block.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANCESTORS = 64, PROC_PATH = 64 + NAME_MAX };

static bool is_written(pid_t pid, const char *fd)
{
	char text[256];
	unsigned flags = 0;
	proc_text(text, sizeof text, "/proc/%d/fdinfo/%s", (int)pid, fd);
	const char *line = proc_status_line(text, "flags");
	if (line && sscanf(line, "%o", &flags) != 1)
		flags = 0;
	return (flags & O_ACCMODE) != O_RDONLY;
}

static bool is_recording(const char *path)
{
	char head[sizeof TRACE_FILE_MAGIC];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, head, sizeof TRACE_FILE_MAGIC - 1);
	close(fd);
	return n == sizeof TRACE_FILE_MAGIC - 1 &&
	       memcmp(head, TRACE_FILE_MAGIC, sizeof TRACE_FILE_MAGIC - 1) == 0;
}

int recording_written_by(pid_t pid, char *path, size_t size)
{
	char name[PROC_PATH];
	struct dirent *e;
	int rc = HEFT_ENOTFOUND;
	snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(name);
	if (!dir && errno == EACCES)
		return HEFT_EIO;
	while (dir && rc < 0 && (e = readdir(dir))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(name, sizeof name, "/proc/%d/fd/%s", (int)pid, e->d_name);
		ssize_t n = readlink(name, path, size - 1);
		if (n <= 0 || (size_t)n >= size - 1 || path[0] != '/')
			continue; /* no file, or a name that does not fit */
		path[n] = 0;
		if (is_written(pid, e->d_name) && is_recording(path))
			rc = 0;
	}
	if (dir)
		closedir(dir);
	return rc;
}

/* 0: it has none, or is gone. */
static pid_t parent_of(pid_t pid)
{
	char text[512];
	proc_text(text, sizeof text, "/proc/%d/stat", (int)pid);
	const char *parent = proc_stat_field(text, STAT_PARENT);
	return parent ? atoi(parent) : 0;
}

int recording_of(pid_t pid, char *path, size_t size, struct heft_error *err)
{
	if (pid <= 0 || (kill(pid, 0) != 0 && !parent_of(pid)))
		return heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", (int)pid);
	pid_t at = pid;
	bool hidden = false;
	for (int i = 0; i < ANCESTORS && at > 0; i++, at = parent_of(at)) {
		int rc = recording_written_by(at, path, size);
		pid_t attached = rc ? attach_holder(at) : 0;
		if (rc == 0 || (attached && recording_written_by(attached, path, size) == 0))
			return 0;
		hidden = hidden || (rc == HEFT_EIO && at == pid);
	}
	if (hidden)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d is not being recorded, as far as can be seen: it "
				 "belongs to another user\nask as that user, or as root",
				 (int)pid);
	return heft_fail(err, HEFT_EREFUSED,
			 "process %d is not being recorded\n"
			 "'heft attach %d' records it from now on; 'heft run' starts a program",
			 (int)pid, (int)pid);
}
