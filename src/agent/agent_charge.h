/* Inside src/agent: one session file in an agent's charge. */
#ifndef HEFT_AGENT_AGENT_CHARGE_H
#define HEFT_AGENT_AGENT_CHARGE_H

#include "session/process_set.h"

struct charge {
	struct process *process; /* in the set */
	int32_t named_pid;       /* of the file's name; in a container another than process->pid */
	bool running;
	bool saved;   /* or there is nothing to save: the session file is gone */
	bool empty;   /* it never had a sample, and there is nothing else to say */
	bool blind;   /* ended, and heft could not see into it: served with the reason only */
	bool dropped; /* saved, and the memory of its samples was given back */
	uint64_t ended_mono_ns; /* when its end was noticed */
	uint64_t retry_mono_ns; /* it could not be saved: when to try again */
	uint64_t check_mono_ns; /* when to see next whether it still has its file mapped, */
	uint64_t limit_mono_ns; /* and what its memory limit is */
};

enum charge_found {
	CHARGE_TAKEN,
	CHARGE_LATER,   /* not ready: look again */
	CHARGE_UNSEEN,  /* in use by a process that cannot be seen from here; costly to find out */
	CHARGE_NOTHING, /* not a session file of a sampled process */
};
/* Opens the session file `name`. With CHARGE_TAKEN c->process is the caller's to add to a set; c->running
 * says whether there is still a process, c->process->pid which. */
enum charge_found charge_open(struct charge *c, int dirfd, const char *name);

/* A running one whose process has another program now, without heft. */
bool charge_was_replaced(const struct charge *c);

/* Sets the facts of its end if the status is to be had by now, or if it will not be (last). */
bool charge_learn_end(struct charge *c, bool last);

/* Writes its recording into dir under a name that is not taken, for the user whose process it was.
 * path: where. */
int charge_save(const struct charge *c, const char *dir, char *path, size_t size,
		struct heft_error *err);

#endif
