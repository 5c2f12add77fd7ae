/* Source files, read with suspicion. Names come from debug information, which may be
 * anybody's: a recording from elsewhere could name a private file as the source of a
 * function. So besides being named by the recording a file must look like source by
 * its name, be a regular file itself (no link to somewhere else), and be of a size
 * that people write. */
#include "pages/view_paths.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 4 << 20 };

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static uint32_t find(const struct view_paths *paths, const char *name)
{
	const char **found = name ? bsearch(&name, paths->items, paths->count, sizeof *paths->items,
					    by_name)
				  : NULL;
	return found ? (uint32_t)(found - paths->items) : PROFILE_NONE;
}

int view_paths_of(struct view_paths *paths, const struct profile *p)
{
	size_t room = (size_t)p->stacks.frame_count + 1;
	uint32_t named = 0;
	paths->count = 0;
	paths->items = malloc(room * sizeof *paths->items);
	paths->by_frame = malloc(room * sizeof *paths->by_frame);
	if (!paths->items || !paths->by_frame)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (p->stacks.frames[i].file && *p->stacks.frames[i].file)
			paths->items[named++] = p->stacks.frames[i].file;
	qsort(paths->items, named, sizeof *paths->items, by_name);
	for (uint32_t i = 0; i < named; i++)
		if (!i || strcmp(paths->items[i], paths->items[paths->count - 1]) != 0)
			paths->items[paths->count++] = paths->items[i];
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		paths->by_frame[i] = find(paths, p->stacks.frames[i].file);
	return 0;
}

void view_paths_fini(struct view_paths *paths)
{
	free(paths->items);
	free(paths->by_frame);
}

static bool looks_like_source(const char *path)
{
	static const char *const endings[] = {
		"c",   "h",     "cc",   "cpp", "cxx", "c++", "hh", "hpp",   "hxx", "h++",
		"inc", "ipp",   "tcc",  "tpp", "inl", "def", "y",  "l",     "yy",  "ll",
		"s",   "S",     "asm",  "rs",  "go",  "zig", "d",  "f",     "f90", "f95",
		"for", "pas",   "adb",  "ads", "ml",  "mli", "hs", "swift", "m",   "mm",
		"cu",  "cuh",   "ispc", "nim", "v",   "cr",  "py", "pyx",   "pxd", "java",
		"kt",  "scala", "js",   "ts",  "rb",  "lua", "pl", "vala",  "C",   "H",
	};
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
	if (!dot) /* <vector> and its like */
		return strncmp(path, "/usr/include/", 13) == 0 && !strstr(path, "/../");
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
		if (strcmp(dot + 1, endings[i]) == 0)
			return true;
	return false;
}

static int open_source(const char *path, struct stat *st, const char **words)
{
	*words = "not a source file by its name";
	if (!looks_like_source(path))
		return -1;
	*words = "not on this machine";
	if (path[0] != '/') /* relative to what, nobody knows */
		return -1;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
		if (st->st_size <= MOST_BYTES)
			return fd;
		*words = "too large to show";
	}
	close(fd);
	return -1;
}

bool view_path_readable(const char *path)
{
	struct stat st;
	const char *words;
	int fd = open_source(path, &st, &words);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

char *view_path_read(const char *path, size_t *length, int64_t *changed_unix_ns, const char **words)
{
	struct stat st;
	int fd = open_source(path, &st, words);
	if (fd < 0)
		return NULL;
	char *text = malloc((size_t)st.st_size + 1);
	ssize_t n = 0;
	*length = 0;
	while (text && *length < (size_t)st.st_size &&
	       (n = read(fd, text + *length, (size_t)st.st_size - *length)) > 0)
		*length += (size_t)n;
	close(fd);
	if (!text || n < 0) {
		free(text);
		*words = "cannot be read";
		return NULL;
	}
	text[*length] = 0;
	*changed_unix_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	*words = "";
	return text;
}
