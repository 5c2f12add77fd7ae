/* A process that is killed by SIGKILL does not say by whom. The kernel counts what
 * it kills for lack of memory: in memory.events of the victim's group and those above
 * (version 2), in memory.oom_control of its group (version 1). A group may be
 * removed as soon as its last process is gone, so those above are watched too. */
#include "session/oom_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The number behind "oom_kill"; UINT64_MAX: not known. */
static uint64_t kills_in(const char *path)
{
	char line[128];
	uint64_t kills = UINT64_MAX;
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "oom_kill %" SCNu64, &kills) == 1)
			break;
	if (f)
		fclose(f);
	return kills;
}

static void watch(struct oom_watch *w, const char *cgroups, const char *controller,
		  const char *group, const char *file)
{
	char up[512];
	snprintf(up, sizeof up, "%s", group);
	for (;;) {
		struct oom_counter *c = &w->at[w->count];
		if (w->count == OOM_COUNTERS)
			return;
		int n = snprintf(c->path, sizeof c->path, "%s%s%s/%s", cgroups, controller, up,
				 file);
		if (n > 0 && (size_t)n < sizeof c->path &&
		    (c->kills = kills_in(c->path)) != UINT64_MAX)
			w->count++;
		char *slash = strrchr(up, '/');
		if (!slash)
			return;
		*slash = 0;
	}
}

void oom_watch_begin(struct oom_watch *w, const char *cgroups, const struct memory_groups *g)
{
	w->count = 0;
	if (g->has_v1)
		watch(w, cgroups, "/memory", g->v1, "memory.oom_control");
	if (g->has_v2)
		watch(w, cgroups, "", g->v2, "memory.events");
}

bool oom_watch_process(struct oom_watch *w, pid_t pid, uint64_t *limit_bytes, bool *is_cgroup)
{
	char text[16];
	struct memory_groups groups;
	snprintf(text, sizeof text, "%d", pid);
	memory_groups_of("/proc", text, &groups);
	if (!groups.has_v1 && !groups.has_v2)
		return false;
	oom_watch_begin(w, "/sys/fs/cgroup", &groups);
	*limit_bytes = memory_limit("/proc", "/sys/fs/cgroup", &groups, is_cgroup);
	return true;
}

/* The nearest group that is still there decides: those above it count their other children's too. */
bool oom_watch_rose(const struct oom_watch *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		uint64_t kills = kills_in(w->at[i].path);
		if (kills != UINT64_MAX)
			return kills > w->at[i].kills;
	}
	return false;
}
