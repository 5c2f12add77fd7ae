/* The smallest limit that holds for this process, and so for the program that it
 * starts: of its memory cgroup or any one above that (version 2: memory.max,
 * version 1: memory.limit_in_bytes), or all memory of the machine. Findings use it
 * to say when a growing program will be killed. What cannot be read is no limit. */
#include "record/memory_limit.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number that a file begins with; UINT64_MAX: "max", or none. */
static uint64_t number_in(const char *path)
{
	char text[64] = "";
	FILE *f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	char *got = fgets(text, sizeof text, f);
	fclose(f);
	if (!got || text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	errno = 0;
	uint64_t n = strtoull(text, NULL, 10);
	return errno ? UINT64_MAX : n;
}

static uint64_t total_memory(const char *proc)
{
	char path[PATH_MAX], line[256];
	uint64_t kib = 0;
	snprintf(path, sizeof path, "%s/meminfo", proc);
	FILE *f = fopen(path, "re");
	if (!f)
		return UINT64_MAX;
	while (!kib && fgets(line, sizeof line, f))
		if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) != 1)
			kib = 0;
	fclose(f);
	return kib && kib < UINT64_MAX >> 10 ? kib << 10 : UINT64_MAX;
}

/* The least limit from the group up to the root. */
static uint64_t group_limit(const char *cgroups, const char *controller, char *group,
			    const char *file)
{
	uint64_t least = UINT64_MAX;
	for (;;) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof path, "%s%s%s/%s", cgroups, controller, group, file);
		uint64_t limit = n > 0 && (size_t)n < sizeof path ? number_in(path) : UINT64_MAX;
		if (limit < least)
			least = limit;
		char *slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

uint64_t memory_limit(const char *proc, const char *cgroups, bool *is_cgroup)
{
	char path[PATH_MAX], line[PATH_MAX];
	uint64_t machine = total_memory(proc), group = UINT64_MAX;
	snprintf(path, sizeof path, "%s/self/cgroup", proc);
	FILE *f = fopen(path, "re");
	/* Lines are "number:controllers:/path"; in version 2 number and controllers are 0 and none. */
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':');
		char *where = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!where)
			continue;
		*where++ = 0;
		uint64_t limit = UINT64_MAX;
		if (controllers[1] == 0)
			limit = group_limit(cgroups, "", where, "memory.max");
		else if (strstr(controllers, "memory"))
			limit = group_limit(cgroups, "/memory", where, "memory.limit_in_bytes");
		if (limit < group)
			group = limit;
	}
	if (f)
		fclose(f);
	*is_cgroup = group < machine;
	uint64_t least = group < machine ? group : machine;
	return least == UINT64_MAX ? 0 : least;
}
