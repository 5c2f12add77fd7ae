/* The processes that a recorder or an agent has, shared with the threads that answer questions about
 * them. One thread owns the set: it alone adds and removes, and may walk `list` without the lock. Other
 * threads hold a process while they use it, so that nobody frees it. */
#ifndef HEFT_SESSION_PROCESS_SET_H
#define HEFT_SESSION_PROCESS_SET_H

#include "session/process.h"

struct process_set {
	pthread_mutex_t lock;
	struct process **list; /* in the order they came: keys rise */
	uint32_t count, capacity;
	uint64_t last_key;
	/* The heartbeat shows the processes that somebody is there. */
	pthread_t heart;
	pthread_cond_t wake;
	bool beating, stop;
	_Atomic uint64_t *steps;
};

void process_set_init(struct process_set *s);
/* Frees every process. Nobody may hold one any more. */
void process_set_fini(struct process_set *s);

/* The set owns p from now on, and gives it a key that it never gives again. HEFT_ENOMEM: p is still the
 * caller's. */
int process_set_add(struct process_set *s, struct process *p);
/* The same under a key that somebody else has chosen. It was never used in this set. */
int process_set_add_as(struct process_set *s, struct process *p, uint64_t key);
/* Calls process_drop_samples if nobody holds p. False: somebody does; try again later. */
bool process_set_drop_samples(struct process_set *s, struct process *p);
/* Removes p, which is freed as soon as nobody holds it. */
void process_set_remove(struct process_set *s, struct process *p);

/* For any thread. NULL: no such process. */
struct process *process_set_hold(struct process_set *s, uint64_t key);
/* Holds all of them. The caller releases each and calls free(*list). HEFT_ENOMEM. */
int process_set_hold_all(struct process_set *s, struct process ***list, uint32_t *count);
void process_set_release(struct process_set *s, struct process *p);

/* The heartbeat is a thread. `steps` counts what the owner has done: as long as it rises, programs may wait for the
 * owner, and must not take it for dead. NULL: the owner is never waited for. */
void process_set_start_heartbeat(struct process_set *s, _Atomic uint64_t *steps);
void process_set_stop_heartbeat(struct process_set *s);

#endif
