/* Finds what goes into profiled programs: the library, and the blob of heft attach. Both are looked for relative to the running executable and never by a path that
 * was fixed at build time: a build directory runs in place, and an installed tree can be moved anywhere.
 * The path goes into LD_PRELOAD, which is separated by ':' and ' '. So a directory with one of these in its
 * name is refused. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libheft-preload.so"
#define BLOB "heft-blob.so"

static int locate(const char *name, char *path, size_t size, struct heft_error *err)
{
	static const char *const places[] = {"/", "/../lib/heft/"};
	char self[PATH_MAX], candidate[PATH_MAX + 64], found[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return heft_fail_errno(err,
				       "cannot find out where heft itself is (/proc/self/exe)");
	self[n] = 0;
	char *slash = strrchr(self, '/');

	if (!slash)
		return heft_fail(err, HEFT_EIO, "cannot find out where heft itself is: '%s'", self);
	*slash = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(candidate, sizeof(candidate), "%s%s%s", self, places[i], name);
		if (!realpath(candidate, found))
			continue;
		if (access(found, R_OK) != 0)
			return heft_fail_errno(err, "cannot read %s", found);
		if (strlen(found) >= size)
			return heft_fail(err, HEFT_EREFUSED, "%s: the path is too long", found);
		strcpy(path, found);
		return 0;
	}
	return heft_fail(err, HEFT_EREFUSED,
			 "%s is neither in %s nor in %s/../lib/heft\n"
			 "build it with 'make', or install heft as a whole with 'make install'",
			 name, self, self);
}

int cli_locate_preload(char *path, size_t size, struct heft_error *err)
{
	int rc = locate(LIBRARY, path, size, err);
	if (!rc && strpbrk(path, ": "))
		return heft_fail(err, HEFT_EREFUSED,
				 "%s cannot be preloaded: its path has a space or a colon\n"
				 "move heft to a directory without them",
				 path);
	return rc;
}

int cli_locate_blob(char *path, size_t size, struct heft_error *err)
{
	return locate(BLOB, path, size, err);
}
