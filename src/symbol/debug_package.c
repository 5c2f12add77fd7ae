/* Finds the Debian package with a file's debug information, without running dpkg.
 *
 * The package is the one whose list in dpkg's folder names the file. By rule a library's package is
 * called after its soname and a program's often after the program, so those lists are read first.
 * If they do not name the file, all are read (`dpkg -S` does the same: 10 MB on a machine of 800 packages).
 *
 * A file has several paths, and a list has one of them:
 * - /lib is a link to /usr/lib (merged /usr), lists have either;
 * - the loader knows a library by the link it found, which may lead through /etc/alternatives;
 * - a diversion (dpkg-divert) puts a package's file aside for another package's.
 *
 * There is an answer only if it is sure: one package owns the file, and its debug information is in the
 * package of that name with -dbgsym. */
#include "symbol/debug_package.h"

#include "hosted/whole_io.h"
#include "symbol/debug_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DPKG "/var/lib/dpkg"
enum { LONGEST_LIST = 4 << 20, LONGEST_NAME = 256, LONGEST_PATH = 4096, MOST_PATHS = 4 };

/* The paths that a file has in lists, and the package that does not count as its owner. */
struct sought {
	const char *dpkg; /* dpkg's folder */
	char paths[MOST_PATHS][LONGEST_PATH];
	unsigned count;
	char owner[LONGEST_NAME]; /* as a diversion says; "": whoever lists it */
	char other
		[LONGEST_NAME]; /* the package that diverted it: it lists the path, but has another file there */
};

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

/* Reads a whole file; NULL: it cannot be read. The caller frees it. */
static char *read_small(const char *path, size_t *size)
{
	struct stat st;
	char *text = NULL;
	int fd = elf_file_open_regular(path);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= LONGEST_LIST &&
	    (text = malloc((size_t)st.st_size))) {
		*size = read_whole(fd, text, (size_t)st.st_size);
	}
	close(fd);
	return text;
}

/* ---- paths */

static void add_path(struct sought *s, const char *path)
{
	if (s->count == MOST_PATHS || strlen(path) >= LONGEST_PATH)
		return;
	for (unsigned i = 0; i < s->count; i++)
		if (strcmp(s->paths[i], path) == 0)
			return;
	strcpy(s->paths[s->count++], path);
}

/* Adds the path, and the same path with /usr before it or without. */
static void add_both(struct sought *s, const char *path)
{
	static const char *const merged[] = {"/lib", "/bin/", "/sbin/"}; /* and lib32, lib64 ... */
	char longer[LONGEST_PATH];
	const char *shorter = strncmp(path, "/usr/", 5) == 0 ? path + 4 : path;
	add_path(s, path);
	for (size_t i = 0; i < sizeof merged / sizeof *merged; i++)
		if (strncmp(shorter, merged[i], strlen(merged[i])) == 0) {
			add_path(s, shorter);
			int n = snprintf(longer, sizeof longer, "/usr%s", shorter);
			if (n > 0 && (size_t)n < sizeof longer)
				add_path(s, longer);
		}
}

static bool is_sought(const struct sought *s, const char *path, size_t length)
{
	for (unsigned i = 0; i < s->count; i++)
		if (strlen(s->paths[i]) == length && strncmp(s->paths[i], path, length) == 0)
			return true;
	return false;
}

/* Reads dpkg's file of diversions. Each takes three lines: where the file was, where it is now, and the package
 * that diverted it (":" is the administrator). False: no package owns the file at this path. */
static bool follow_diversions(struct sought *s)
{
	char path[LONGEST_PATH];
	size_t size = 0;
	snprintf(path, sizeof path, "%s/diversions", s->dpkg);
	char *text = read_small(path, &size);
	bool owned = true;
	for (const char *at = text; text && at < text + size;) {
		const char *lines[3] = {NULL, NULL, NULL};
		size_t lengths[3] = {0, 0, 0};
		for (int i = 0; i < 3 && at < text + size; i++) {
			const char *end = memchr(at, '\n', size - (size_t)(at - text));
			if (!end)
				end = text + size;
			lines[i] = at;
			lengths[i] = (size_t)(end - at);
			at = end + 1;
		}
		if (!lines[2] || lengths[2] >= LONGEST_NAME)
			break;
		if (is_sought(s, lines[0], lengths[0])) {
			owned = lengths[2] != 1 || *lines[2] != ':';
			snprintf(s->owner, sizeof s->owner, "%.*s", (int)lengths[2], lines[2]);
			break;
		}
		if (is_sought(s, lines[1], lengths[1]) && lengths[0] < sizeof path) {
			snprintf(path, sizeof path, "%.*s", (int)lengths[0], lines[0]);
			snprintf(s->other, sizeof s->other, "%.*s", (int)lengths[2], lines[2]);
			s->count = 0;
			add_both(s, path);
			break;
		}
	}
	free(text);
	return owned;
}

/* ---- lists */

static bool list_has(const struct sought *s, const char *list)
{
	char path[LONGEST_PATH];
	size_t size = 0;
	bool found = false;
	int n = snprintf(path, sizeof path, "%s/info/%s", s->dpkg, list);
	char *text = n > 0 && (size_t)n < sizeof path ? read_small(path, &size) : NULL;
	for (unsigned i = 0; text && i < s->count && !found; i++)
		found = has_line(text, size, s->paths[i]);
	free(text);
	return found;
}

static bool may_own(const struct sought *s, const char *package)
{
	return s->owner[0] ? strcmp(s->owner, package) == 0 : strcmp(s->other, package) != 0;
}

static bool package_has(const struct sought *s, const char *package)
{
	static const char *const ends[] = {".list", ":amd64.list", ":arm64.list"};
	char list[LONGEST_NAME + 64];
	for (size_t i = 0; i < sizeof ends / sizeof *ends && may_own(s, package); i++) {
		snprintf(list, sizeof list, "%.200s%s", package, ends[i]);
		if (list_has(s, list))
			return true;
	}
	return false;
}

/* Tries the names that the package has by the rules for names of packages. */
static bool guess_package(const struct sought *s, const char *path, char owner[LONGEST_NAME])
{
	char stem[LONGEST_NAME], major[16] = "", guesses[5][LONGEST_NAME];
	size_t count = 0;
	const char *base = strrchr(path, '/');
	base = base ? base + 1 : path;
	size_t length = strlen(base);
	const char *so = strstr(base, ".so");
	if (so)
		length = (size_t)(so - base);
	if (!length || length >= sizeof stem - 32)
		return false;
	for (size_t i = 0; i < length; i++)
		stem[i] = base[i] == '_' ? '-' : (char)tolower((unsigned char)base[i]);
	stem[length] = 0;
	if (so && so[3] == '.')
		snprintf(major, sizeof major, "%.*s", (int)strcspn(so + 4, "."), so + 4);
	const char *dash = isdigit((unsigned char)stem[length - 1]) && major[0] ? "-" : "";
	snprintf(guesses[count++], LONGEST_NAME, "%.220s%s%s", stem, dash, major);
	snprintf(guesses[count++], LONGEST_NAME, "%.220s%s%st64", stem, dash, major);
	snprintf(guesses[count++], LONGEST_NAME, "%.220s", stem);
	char *hyphen = strrchr(stem, '-'); /* libglib-2.0.so.0 is in libglib2.0-0 */
	if (hyphen && isdigit((unsigned char)hyphen[1])) {
		memmove(hyphen, hyphen + 1, strlen(hyphen));
		snprintf(guesses[count++], LONGEST_NAME, "%.220s%s%s", stem, dash, major);
		snprintf(guesses[count++], LONGEST_NAME, "%.220s%s%st64", stem, dash, major);
	}
	for (size_t i = 0; i < count; i++)
		if (package_has(s, guesses[i])) {
			strcpy(owner, guesses[i]);
			return true;
		}
	return false;
}

/* Searches all lists; false too if several packages have the file. */
static bool search_packages(const struct sought *s, char owner[LONGEST_NAME])
{
	char path[LONGEST_PATH];
	bool several = false;
	owner[0] = 0;
	snprintf(path, sizeof path, "%s/info", s->dpkg);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		const char *end = strrchr(e->d_name, '.');
		size_t length = strcspn(e->d_name, ":"); /* "libc6:amd64.list" */
		if (!end || strcmp(end, ".list") != 0)
			continue;
		if (length > (size_t)(end - e->d_name))
			length = (size_t)(end - e->d_name);
		char package[LONGEST_NAME];
		snprintf(package, sizeof package, "%.*s", (int)length, e->d_name);
		if (strcmp(package, owner) == 0 || !may_own(s, package) || !list_has(s, e->d_name))
			continue;
		several |= owner[0] != 0;
		strcpy(owner, package);
	}
	if (dir)
		closedir(dir);
	return owner[0] && !several;
}

/* The debug information of Python's own packages is in packages with other names. */
static bool has_dbgsym(const char *package)
{
	if (strncmp(package, "lib", 3) == 0)
		package += 3;
	return strncmp(package, "python3.", 8) != 0;
}

bool debug_package_name_in(const char *dpkg, const char *path, char *name, size_t size)
{
	struct sought *s = calloc(1, sizeof *s);
	char owner[LONGEST_NAME], *real = realpath(path, NULL);
	bool found = false;
	if (s) {
		s->dpkg = dpkg;
		if (real)
			add_both(s, real);
		add_both(s, path);
		found = follow_diversions(s) &&
			(guess_package(s, real ? real : path, owner) ||
			 guess_package(s, path, owner) || search_packages(s, owner)) &&
			has_dbgsym(owner);
	}
	free(real);
	free(s);
	if (!found)
		return false;
	/* The package of libc6 is older than the automatic ones, and has another name. */
	int n = snprintf(name, size, "%s-%s", owner,
			 strcmp(owner, "libc6") == 0 ? "dbg" : "dbgsym");
	return n > 0 && (size_t)n < size;
}

bool debug_package_name(const char *path, char *name, size_t size)
{
	return debug_package_is_system(path) && debug_package_name_in(DPKG, path, name, size);
}
