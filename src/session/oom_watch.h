/* Whether the kernel killed a process for lack of memory: the counters of its cgroups tell. */
#ifndef HEFT_SESSION_OOM_WATCH_H
#define HEFT_SESSION_OOM_WATCH_H

#include "session/memory_limit.h"

#include <sys/types.h>

enum { OOM_COUNTERS = 8 };

struct oom_watch {
	uint32_t count;
	struct oom_counter {
		char path[640];
		uint64_t kills; /* when the watch began */
	} at[OOM_COUNTERS];
};

/* While the process lives. cgroups: "/sys/fs/cgroup". */
void oom_watch_begin(struct oom_watch *w, const char *cgroups, const struct memory_groups *g);
/* Begins for this process, and reads how much memory it may use. False: the process is gone, and nothing was changed. */
bool oom_watch_process(struct oom_watch *w, pid_t pid, uint64_t *limit_bytes, bool *is_cgroup);
/* After a process of these groups was ended by SIGKILL: the kernel has killed one since. */
bool oom_watch_rose(const struct oom_watch *w);

#endif
