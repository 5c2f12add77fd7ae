/* From a file to the Debian package with its debug information, without running
 * dpkg (which reads the lists of all packages): by rule a library's package is
 * called after its soname, a program's often after the program. The guess is
 * believed only if dpkg's list of that package names the file. */
#include "symbol/debug_package.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTS "/var/lib/dpkg/info"
enum { LONGEST_LIST = 4 << 20, LONGEST_NAME = 256 };

bool debug_package_is_system(const char *path)
{
	static const char *const places[] = {"/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/"};
	if (strncmp(path, "/usr/local/", 11) == 0)
		return false;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (strncmp(path, places[i], strlen(places[i])) == 0)
			return true;
	return false;
}

static bool has_line(const char *text, size_t size, const char *line)
{
	size_t length = strlen(line);
	for (const char *at = text; (at = memmem(at, size - (size_t)(at - text), line, length));
	     at++)
		if ((at == text || at[-1] == '\n') && at + length < text + size &&
		    at[length] == '\n')
			return true;
	return false;
}

static bool list_names(const char *list, const char *path)
{
	struct stat st;
	int fd = open(list, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	bool found = false;
	char *text = NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size <= LONGEST_LIST && (text = malloc((size_t)st.st_size))) {
		ssize_t got = read(fd, text, (size_t)st.st_size);
		/* /lib is a link to /usr/lib, and lists have either. */
		if (got > 0)
			found = has_line(text, (size_t)got, path) ||
				(strncmp(path, "/usr/", 5) == 0 &&
				 has_line(text, (size_t)got, path + 4));
		if (got > 0 && !found && strncmp(path, "/usr/", 5) != 0) {
			char longer[4096];
			int n = snprintf(longer, sizeof longer, "/usr%s", path);
			found = n > 0 && (size_t)n < sizeof longer &&
				has_line(text, (size_t)got, longer);
		}
	}
	free(text);
	close(fd);
	return found;
}

static bool package_has(const char *package, const char *path)
{
	char list[LONGEST_NAME + 64];
	static const char *const forms[] = {LISTS "/%.200s.list", LISTS "/%.200s:amd64.list"};
	for (size_t i = 0; i < 2; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(list, sizeof list, forms[i], package);
#pragma GCC diagnostic pop
		if (list_names(list, path))
			return true;
	}
	return false;
}

bool debug_package_name(const char *path, char *name, size_t size)
{
	char stem[LONGEST_NAME], major[16] = "", guesses[5][LONGEST_NAME + 32];
	size_t count = 0;
	const char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	size_t length = strlen(base);
	const char *so = strstr(base, ".so");
	if (so)
		length = (size_t)(so - base);
	if (!length || length >= sizeof stem || !debug_package_is_system(path))
		return false;
	for (size_t i = 0; i < length; i++)
		stem[i] = base[i] == '_' ? '-' : (char)tolower((unsigned char)base[i]);
	stem[length] = 0;
	if (so && so[3] == '.')
		snprintf(major, sizeof major, "%.*s", (int)strcspn(so + 4, "."), so + 4);
	const char *dash = isdigit((unsigned char)stem[length - 1]) && major[0] ? "-" : "";
	snprintf(guesses[count++], sizeof *guesses, "%s%s%s", stem, dash, major);
	snprintf(guesses[count++], sizeof *guesses, "%s%s%st64", stem, dash, major);
	snprintf(guesses[count++], sizeof *guesses, "%s", stem);
	char *hyphen = strrchr(stem, '-'); /* libglib-2.0.so.0 is in libglib2.0-0 */
	if (hyphen && isdigit((unsigned char)hyphen[1])) {
		memmove(hyphen, hyphen + 1, strlen(hyphen));
		snprintf(guesses[count++], sizeof *guesses, "%s%s%s", stem, dash, major);
		snprintf(guesses[count++], sizeof *guesses, "%s%s%st64", stem, dash, major);
	}
	for (size_t i = 0; i < count; i++)
		if (package_has(guesses[i], path)) {
			/* libc6's is older than the automatic ones. */
			const char *suffix = strcmp(guesses[i], "libc6") == 0 ? "dbg" : "dbgsym";
			int n = snprintf(name, size, "%s-%s", guesses[i], suffix);
			return n > 0 && (size_t)n < size;
		}
	return false;
}
