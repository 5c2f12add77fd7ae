/* What a sampled process has at one instant, or had when it ended, as a recording of its own. */
#ifndef HEFT_AGENT_SNAPSHOT_H
#define HEFT_AGENT_SNAPSHOT_H

#include "session/process.h"

/* Its facts say how it ended (TRACE_END_RUNNING: it runs). Several threads may take snapshots of the same
 * process. */
int snapshot_write(struct process *p, const char *path, bool force, struct heft_error *err);
/* The same in memory, ready to be read. */
int snapshot_open(struct process *p, struct trace_reader **reader, struct heft_error *err);

/* Opens the session file that a sampled process has mapped, even if an agent holds it. path: its path. */
int process_open_of(pid_t pid, char *path, size_t size, struct process **out,
		    struct heft_error *err);
/* Makes a snapshot of a process that an agent holds, or nobody. It is a file in memory that stays until we
 * end. path: its path. */
int snapshot_of(pid_t pid, char *path, size_t size, struct heft_error *err);

#endif
