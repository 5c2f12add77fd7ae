/* Inside src/pprof: a worker as who asks it sees it, for its tables and quick questions (source_workers.c) and for profiles
 * (source_profiles.c). */
#ifndef HEFT_PPROF_WORKER_CHANNELS_H
#define HEFT_PPROF_WORKER_CHANNELS_H

#include "hosted/vector.h"
#include "pprof/source_channel.h"
#include "pprof/source_workers.h"

#include <pthread.h>

struct worker {
	uint32_t number, users;
	bool ended;
	pthread_mutex_t lock;
	struct channel_call quick;
	bool quick_taken;        /* a thread waits for its answer, */
	uint64_t quick_since_ns; /* since then */
	struct slow {
		struct channel_call call;
		bool taken;
	} slow[SOURCE_CHANNELS - 1];
	VECTOR(uint64_t) drops; /* profiles to be dropped as soon as a channel is free */
};

/* The worker of a process, to be let go. HEFT_ENOTFOUND: no such process. HEFT_EBUSY: it has no worker now. */
int source_worker_hold(struct source_workers *s, uint64_t key, struct worker **out,
		       struct heft_error *err);
void source_worker_let_go(struct source_workers *s, struct worker *w);
/* The error that a worker has answered with, in its own words. */
int source_worker_error(const struct channel_answer *a, struct heft_error *err);

/* ---- source_profiles.c: of struct source */
int source_profile_take(void *ctx, uint64_t key, void **profile, struct heft_error *err);
int source_profile_render(void *ctx, void *profile, const struct source_wish *wish, char **bytes,
			  size_t *length, struct heft_error *err);
void source_profile_drop(void *ctx, void *profile);

#endif
