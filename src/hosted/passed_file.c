/* See passed_file.h. */
#include "hosted/passed_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OURS "/proc/self/fd/"

void passed_file_path(int fd, char path[PASSED_FILE_PATH])
{
	snprintf(path, PASSED_FILE_PATH, OURS "%d", fd);
}

int passed_file_open(const char *path, int flags, mode_t mode)
{
	char *end;
	const char *number = path + sizeof OURS - 1;
	if (strncmp(path, OURS, sizeof OURS - 1) != 0)
		return open(path, flags, mode);
	long fd = strtol(number, &end, 10);
	if (end == number || *end || fd < 0 || fd > 1 << 30)
		return open(path, flags, mode);
	int copy = fcntl((int)fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0 && flags & O_TRUNC && ftruncate(copy, 0) == 0)
		lseek(copy, 0, SEEK_SET); /* what is no regular file cannot be cut */
	return copy;
}
