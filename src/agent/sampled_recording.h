/* A recording of what a sampled process has, for who wants a file: saved at its end, or asked for. */
#ifndef HEFT_AGENT_SAMPLED_RECORDING_H
#define HEFT_AGENT_SAMPLED_RECORDING_H

#include "session/process.h"

/* Its facts say how it ended (TRACE_END_RUNNING: it runs). Several threads may write recordings of the same
 * process. */
int sampled_recording_write(struct process *p, const char *path, bool force,
			    struct heft_error *err);
/* Writes one of a process that an agent holds, or nobody. It is a file in memory that stays until we end. path:
 * its path. */
int sampled_recording_of(pid_t pid, char *path, size_t size, struct heft_error *err);

#endif
