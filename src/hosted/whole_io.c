/* Loops around read and write: a signal interrupts them, and they may do less than they were asked. */
#include "hosted/whole_io.h"

#include <errno.h>
#include <unistd.h>

size_t read_whole(int fd, void *to, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = read(fd, (char *)to + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

bool write_whole(int fd, const void *bytes, size_t size)
{
	for (const char *at = bytes; size;) {
		ssize_t n = write(fd, at, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = ENOSPC;
		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}
