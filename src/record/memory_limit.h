/* How much memory the recorded program may use: its cgroup's limit, or the machine's memory. */
#ifndef HEFT_RECORD_MEMORY_LIMIT_H
#define HEFT_RECORD_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes, 0 if nothing is known. *is_cgroup: it is a cgroup's, smaller than the machine's memory.
 * proc and cgroups are where those file systems are ("/proc", "/sys/fs/cgroup"). */
uint64_t memory_limit(const char *proc, const char *cgroups, bool *is_cgroup);

#endif
