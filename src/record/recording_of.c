/* From a process to its recording, by /proc alone: a program that is recorded is a
 * child of its recorder, or a child's child, and the recorder has the file open. Files
 * are known by their content, not by their names: anything may be called .heft, and a
 * recording may be called anything.
 *
 * Everything may change while it is looked at: what is gone counts as not there. */
#include "record/recording_of.h"

#include "trace/trace_block.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ANCESTORS = 64 };

static int32_t parent_of(int32_t pid)
{
	char path[40], text[512];
	snprintf(path, sizeof path, "/proc/%" PRId32 "/stat", pid);
	FILE *in = fopen(path, "re");
	if (!in)
		return 0;
	size_t n = fread(text, 1, sizeof text - 1, in);
	fclose(in);
	text[n] = 0;
	/* The name may hold brackets and blanks: the last bracket ends it. */
	const char *after = strrchr(text, ')');
	int parent = 0;
	if (!after || sscanf(after + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

static bool is_recording(const char *path)
{
	char head[sizeof TRACE_FILE_MAGIC];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	size_t magic = sizeof TRACE_FILE_MAGIC - 1;
	bool is = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		  pread(fd, head, magic, 0) == (ssize_t)magic &&
		  memcmp(head, TRACE_FILE_MAGIC, magic) == 0;
	close(fd);
	return is;
}

/* Opened for writing, says the descriptor's flags (octal). */
static bool is_written(int32_t pid, const char *fd)
{
	char path[PATH_MAX], line[200];
	unsigned flags = 0;
	snprintf(path, sizeof path, "/proc/%" PRId32 "/fdinfo/%s", pid, fd);
	FILE *in = fopen(path, "re");
	if (!in)
		return false;
	while (fgets(line, sizeof line, in))
		if (sscanf(line, "flags: %o", &flags) == 1)
			break;
	fclose(in);
	return (flags & O_ACCMODE) != O_RDONLY;
}

/* The recording that a process writes, if it does. */
static bool find_written(int32_t pid, char *path, size_t size)
{
	char name[PATH_MAX];
	snprintf(name, sizeof name, "/proc/%" PRId32 "/fd", pid);
	DIR *dir = opendir(name);
	bool found = false;
	struct dirent *e;
	while (dir && !found && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof name, "/proc/%" PRId32 "/fd/%s", pid, e->d_name);
		ssize_t n = readlink(name, path, size - 1);
		if (n <= 0 || (size_t)n >= size - 1 || path[0] != '/')
			continue;
		path[n] = 0;
		found = is_written(pid, e->d_name) && is_recording(path);
	}
	if (dir)
		closedir(dir);
	return found;
}

int recording_of_process(int32_t pid, char *path, size_t size, struct heft_error *err)
{
	if (pid <= 0 || (kill(pid, 0) < 0 && !parent_of(pid)))
		return heft_fail(err, HEFT_ENOTFOUND, "no process %" PRId32, pid);
	/* The recorder's own pid is meant as well as its program's. */
	int32_t at = pid;
	for (int i = 0; i < MOST_ANCESTORS && at > 0; i++, at = parent_of(at))
		if (find_written(at, path, size))
			return 0;
	return heft_fail(err, HEFT_ENOTFOUND,
			 "process %" PRId32 " is not being recorded\n"
			 "heft run CMD records a program from its start",
			 pid);
}
