/* What `heft agent` does: finds the session files of sampled processes, looks after the processes while
 * they run, and saves what they had when they end. */
#ifndef HEFT_AGENT_AGENT_LOOP_H
#define HEFT_AGENT_AGENT_LOOP_H

#include "agent/answer_call.h"
#include "hosted/error.h"
#include "session/process_set.h"

struct agent_options {
	const char *dir;        /* where session files come; is there */
	const char *output_dir; /* where recordings of ended processes go; is there */
	uint64_t keep_ns;       /* how long ended processes stay in the set, */
	uint32_t keep_count;    /* and how many of them at most */
	bool verbose;
	void (*say)(const char *text); /* NULL: nothing is said */
	struct process_set *set;       /* the caller's */
	/* Called when DIR is ours and signals are blocked: threads started here take none. */
	int (*ready)(void *ctx, struct heft_error *err);
	void *ready_ctx;
	answer_make *answer; /* makes what a process gets that asks for its own profile */
	void *answer_ctx;
};

/* Until SIGINT or SIGTERM: 0. HEFT_EREFUSED: another agent has DIR. */
int agent_run(const struct agent_options *o, struct heft_error *err);

#endif
