/* What `heft agent` does: finds the session files of sampled processes, has them looked after while the processes run,
 * and saves what they had when they end.
 *
 * It is several processes (docs/security.md): the supervisor, which is the one that was started; a server of HTTP
 * without privileges; and workers, one a user, which read what programs have left. */
#ifndef HEFT_AGENT_AGENT_LOOP_H
#define HEFT_AGENT_AGENT_LOOP_H

#include "agent/attach_rules.h"
#include "agent/worker_loop.h"
#include "hosted/error.h"

struct agent_options {
	const char *dir;        /* where session files come; is there */
	const char *output_dir; /* where recordings of ended processes go; is there */
	const char *
		cache_dir; /* where each user gets a folder for symbols; NULL: as the environment says */
	uint64_t keep_ns;     /* how long ended processes stay, */
	uint32_t keep_count;  /* and how many of them at most */
	uint64_t quota_bytes; /* of recordings, for each user; 0: no limit */
	bool verbose;
	void (*say)(const char *text); /* NULL: nothing is said */

	/* The server. It is called in a process of its own, which has no descriptor but the link and the three
	 * usual ones, and must call agent_server_confine as soon as it has opened what it needs. It sends LINK_SERVING
	 * or LINK_FAILED, and returns when the link is closed, with its status. */
	int (*serve)(void *ctx, int link);
	/* In the supervisor, once the server runs: forgets secrets. */
	void (*served)(void *ctx, const char *text);
	void *serve_ctx;
	struct worker_parts parts;
	struct attach_rules attach;
};

/* Until SIGINT or SIGTERM: 0. HEFT_EREFUSED: another agent has DIR. */
int agent_run(const struct agent_options *o, struct heft_error *err);
/* Gives up all privileges of the server, for all its threads. 0 or HEFT_EREFUSED. */
int agent_server_confine(struct heft_error *err);

#endif
