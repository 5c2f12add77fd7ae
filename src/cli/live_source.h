/* Profiles of the processes of a process_set, for whoever serves them (pprof/source.h). */
#ifndef HEFT_CLI_LIVE_SOURCE_H
#define HEFT_CLI_LIVE_SOURCE_H

#include "pprof/source.h"
#include "session/process_set.h"

struct live_source {
	struct process_set *set;
	/* The file that processes are recorded in exactly. It is read only if the set has such a
	 * process. */
	const char *recording;
};

/* The source points to s, which must live as long as the source. */
struct source live_source(struct live_source *s);
/* Makes what /debug/pprof/heap answers, for answer_call. ctx is a live_source. */
int live_source_answer(void *ctx, struct process *p, char **bytes, size_t *length);

#endif
