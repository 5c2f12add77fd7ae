/* How much memory a program may use: its cgroup's limit, or the machine's memory. */
#ifndef HEFT_SESSION_MEMORY_LIMIT_H
#define HEFT_SESSION_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* A process's memory cgroups, as paths below where those are mounted */
struct memory_groups {
	bool has_v1, has_v2;
	char v1[512], v2[512];
};
/* who: a pid, or "self". proc and cgroups are where those file systems are ("/proc",
 * "/sys/fs/cgroup"). */
void memory_groups_of(const char *proc, const char *who, struct memory_groups *g);
/* Bytes, 0 if nothing is known. *is_cgroup: it is a cgroup's, smaller than the machine's memory. */
uint64_t memory_limit(const char *proc, const char *cgroups, const struct memory_groups *g,
		      bool *is_cgroup);

#endif
