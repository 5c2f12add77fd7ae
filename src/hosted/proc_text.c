/* Small files of /proc as text (proc_text.h). The kernel makes a whole file at the first read, up to a page; longer
 * ones take several. */
#include "hosted/proc_text.h"

#include "hosted/whole_io.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROC_PATH = 320 };

size_t proc_text_at(int folder, const char *name, char *text, size_t size)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	size_t n = fd < 0 ? 0 : read_whole(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n] = '\0';
	return n;
}

size_t proc_text(char *text, size_t size, const char *format, ...)
{
	char path[PROC_PATH];
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(path, sizeof path, format, ap);
	va_end(ap);
	text[0] = '\0';
	return n > 0 && n < PROC_PATH ? proc_text_at(AT_FDCWD, path, text, size) : 0;
}

const char *proc_stat_field(const char *stat, enum proc_stat number)
{
	const char *at = strrchr(stat, ')');
	for (int field = STAT_STATE; at && field <= (int)number; field++)
		at = strchr(at + 1, ' ');
	return at && at[1] ? at + 1 : NULL;
}

const char *proc_status_line(const char *status, const char *name)
{
	size_t length = strlen(name);
	for (const char *line = status; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, length) && line[length] == ':')
			return line + length + 1;
	}
	return NULL;
}

long proc_status_last(const char *status, const char *name)
{
	const char *line = proc_status_line(status, name);
	if (!line)
		return -1;
	const char *end = line + strcspn(line, "\n"), *at = end;
	while (at > line && isdigit((unsigned char)at[-1]))
		at--;
	return at < end ? strtol(at, NULL, 10) : -1;
}
