/* What a sampled process has at one instant, or had when it ended, as a recording of its own. */
#ifndef HEFT_RECORD_SNAPSHOT_H
#define HEFT_RECORD_SNAPSHOT_H

#include "record/process.h"

/* p->facts tell how it ended (TRACE_END_RUNNING: it runs). Several threads may take snapshots of the
 * same process. */
int snapshot_write(struct process *p, const char *path, bool force, struct heft_error *err);
/* The same in memory, ready to be read. */
int snapshot_open(struct process *p, struct trace_reader **reader, struct heft_error *err);

#endif
