/* The smallest limit that holds for a process: of its memory cgroup or any one above that (version 2: memory.max,
 * version 1: memory.limit_in_bytes), or all memory of the machine. Findings use it
 * to say when a growing program will be killed. What cannot be read is no limit. */
#include "session/memory_limit.h"

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

void memory_groups_of(const char *proc, const char *who, struct memory_groups *g)
{
	char path[PATH_MAX], line[PATH_MAX];
	memset(g, 0, sizeof *g);
	snprintf(path, sizeof path, "%s/%s/cgroup", proc, who);
	FILE *f = fopen(path, "re");
	/* Lines are "number:controllers:/path"; in version 2 number and controllers are 0 and none. */
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':');
		char *where = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!where || strlen(where + 1) >= sizeof g->v1)
			continue;
		*where++ = 0;
		if (controllers[1] == 0) {
			g->has_v2 = true;
			strcpy(g->v2, where);
		} else if (strstr(controllers, "memory")) {
			g->has_v1 = true;
			strcpy(g->v1, where);
		}
	}
	if (f)
		fclose(f);
}

uint64_t memory_limit(const char *proc, const char *cgroups, const struct memory_groups *g,
		      bool *is_cgroup)
{
	struct memory_groups up = *g;
	uint64_t machine = total_memory(proc), group = UINT64_MAX;
	if (g->has_v2)
		group = group_limit(cgroups, "", up.v2, "memory.max");
	uint64_t limit = g->has_v1 ? group_limit(cgroups, "/memory", up.v1, "memory.limit_in_bytes")
				   : UINT64_MAX;
	if (limit < group)
		group = limit;
	*is_cgroup = group < machine;
	uint64_t least = group < machine ? group : machine;
	return least == UINT64_MAX ? 0 : least;
}
