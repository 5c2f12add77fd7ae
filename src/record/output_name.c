/* The name of a file that a command's numbers go to, as -o gives it: %e, %p, %t and %%. */
#include "record/output_name.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void output_name(const char *pattern, const char *exe, pid_t pid, char *out, size_t size)
{
	size_t n = 0;
	const char *slash = strrchr(exe, '/');
	const char *base = slash ? slash + 1 : exe;
	for (const char *c = pattern; *c && n + 1 < size; c++) {
		char piece[256] = {*c, 0};
		if (*c == '%' && (c[1] == 'e' || c[1] == 'p' || c[1] == 't' || c[1] == '%')) {
			c++;
			time_t now = time(NULL);
			struct tm tm;
			if (*c == 'e')
				snprintf(piece, sizeof piece, "%.200s", base);
			else if (*c == 'p')
				snprintf(piece, sizeof piece, "%d", (int)pid);
			else if (*c == 't')
				strftime(piece, sizeof piece, "%Y%m%dT%H%M%S",
					 localtime_r(&now, &tm));
		}
		n += (size_t)snprintf(out + n, size - n, "%s", piece);
	}
	out[n < size ? n : size - 1] = 0;
}
