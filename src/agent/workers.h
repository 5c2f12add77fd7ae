/* Inside src/agent: the supervisor's workers, one for each user whose programs are sampled. */
#ifndef HEFT_AGENT_WORKERS_H
#define HEFT_AGENT_WORKERS_H

#include "agent/identity.h"
#include "agent/link.h"
#include "agent/worker_loop.h"

enum { WORKERS_MOST = 64 };

struct worker_seat {
	struct identity who;
	uint32_t number; /* of the worker that sits there; 0: none does. Never used again */
	pid_t pid;
	struct link link;
	int files;          /* its link for files */
	uint32_t processes; /* that it looks after */
	uint32_t saving;    /* recordings that it was told to write and has not */
	uint64_t begun_ns;
	uint64_t again_ns;  /* none sits there: when the next one may begin */
	uint64_t idle_ns;   /* since when it has no process; 0: it has some */
	uint64_t pinged_ns; /* not answered yet; 0: all are */
	uint64_t next_check_ns;
	uint32_t failures;  /* in a row */
	const char *why;    /* we ended it; NULL: we did not. "": it had nothing to do */
	uint64_t killed_ns; /* when that was */
};

/* It was killed and is still there. */
struct dying_worker {
	pid_t pid;
	uid_t owner;
};

struct workers {
	const struct worker_parts *parts;
	struct identity others; /* for programs whose user cannot be taken */
	struct worker_seat *seats[WORKERS_MOST];
	uint32_t count;
	uint32_t last_number;
	const char *
		cache; /* where each user gets a folder for symbols; NULL: as the environment says */
	VECTOR(struct dying_worker) dying;
	uint64_t killed; /* that hung, died or grew */
	void *ctx;
	/* A worker has begun; takes the descriptors of its channels. */
	void (*began)(void *ctx, struct worker_seat *s, const int channels[WORKER_CHANNELS]);
	/* It is gone: what it was told is to be told again to the next. */
	void (*ended)(void *ctx, struct worker_seat *s, const char *why);
	void (*heard)(void *ctx, struct worker_seat *s, const struct link_message *m);
	/* It cannot open this file: a descriptor or -1. */
	int (*open_file)(void *ctx, struct worker_seat *s, const char *path);
};

/* The seat of this user, which may be new and empty. NULL: there are too many users. */
struct worker_seat *workers_seat(struct workers *w, const struct identity *who);
/* Takes messages, begins workers whose seat has processes, ends those that hang, grow or have nothing to do. Call it
 * often. */
void workers_look(struct workers *w, uint64_t now);
/* Whether no worker begins there, because others of that user wait for a file system and cannot be ended. */
bool workers_are_held(const struct workers *w, const struct worker_seat *s);
void workers_fini(struct workers *w);

#endif
