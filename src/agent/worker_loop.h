/* What a worker does: it looks after the sampled processes of one user, as that user, and answers questions about
 * them. It is told what to look after by the supervisor (link.h), and nothing else. */
#ifndef HEFT_AGENT_WORKER_LOOP_H
#define HEFT_AGENT_WORKER_LOOP_H

#include "agent/answer_call.h"
#include "agent/link.h"
#include "session/process_set.h"

enum { WORKER_CHANNELS = LINK_DESCRIPTORS };

/* How the parts that make profiles are reached. */
struct worker_parts {
	/* Called once, in the worker. Returns what the others get as ctx; NULL: no memory. open_file asks the
	 * supervisor for a file that a program has mapped and we cannot open: a descriptor or -1. */
	void *(*begin)(struct process_set *set, int (*open_file)(const char *path));
	/* A thread for each channel: answers questions until it is closed. */
	void (*serve)(void *ctx, int channel);
	/* When the oldest question that is being answered came; 0: none is. */
	uint64_t (*busy_since_ns)(void *ctx);
	answer_make *answer; /* makes what a process gets that asks for its own profile */
};

/* Statuses of a worker that gives up */
enum { WORKER_OK = 0, WORKER_FAILED = 1, WORKER_HUNG = 3 };

/* Runs until the supervisor is gone; returns a status. files: a link of its own for files. */
int worker_loop(const struct worker_parts *parts, int link, int files,
		const int channels[WORKER_CHANNELS]);

#endif
