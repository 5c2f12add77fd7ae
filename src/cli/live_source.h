/* The profiles of a process_set's processes, for whoever serves them (pprof/source.h). */
#ifndef HEFT_CLI_LIVE_SOURCE_H
#define HEFT_CLI_LIVE_SOURCE_H

#include "session/process_set.h"
#include "pprof/source.h"

struct live_source {
	struct process_set *set;
	/* Of processes that are recorded exactly: the file being written. Not read before the set has
	 * one of them. */
	const char *recording;
};

/* The source points to s, which must live as long. */
struct source live_source(struct live_source *s);
/* For answer_call: what /debug/pprof/heap answers. ctx: a live_source. */
int live_source_answer(void *ctx, struct process *p, char **bytes, size_t *length);

#endif
