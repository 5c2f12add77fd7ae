/* Inside src/agent: one process that an agent looks after, and its session file. */
#ifndef HEFT_AGENT_AGENT_PROCESS_H
#define HEFT_AGENT_AGENT_PROCESS_H

#include "session/process_set.h"

struct agent_process {
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

enum agent_found {
	AGENT_TAKEN,
	AGENT_LATER,   /* not ready: look again */
	AGENT_UNSEEN,  /* in use by a process that cannot be seen from here; costly to find out */
	AGENT_NOTHING, /* not a session file of a sampled process */
};
/* Opens the session file `name`. With AGENT_TAKEN c->process is the caller's to add to a set; c->running
 * says whether there is still a process, c->process->pid which. */
enum agent_found agent_process_open(struct agent_process *c, int dirfd, const char *name);

/* A running one whose process has another program now, without heft. */
bool agent_process_was_replaced(const struct agent_process *c);

/* Sets the facts of its end if the status is to be had by now, or if it will not be (last). */
bool agent_process_learn_end(struct agent_process *c, bool last);

/* Writes its recording into dir under a name that is not taken, for the user whose process it was.
 * path: where. */
int agent_process_save(const struct agent_process *c, const char *dir, char *path, size_t size,
		       struct heft_error *err);

#endif
