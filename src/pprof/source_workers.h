/* A source whose processes are looked after by workers in other processes, each asked over channels
 * (source_channel.h). Somebody else says which workers and which processes there are. Any thread may call any
 * function. */
#ifndef HEFT_PPROF_SOURCE_WORKERS_H
#define HEFT_PPROF_SOURCE_WORKERS_H

#include "pprof/source.h"

/* Of one worker: the first is for quick questions, the others are for profiles. */
enum { SOURCE_CHANNELS = 3 };

struct source_workers;
struct source_workers *source_workers_new(void); /* NULL: no memory */
void source_workers_free(struct source_workers *s);
/* The source points to s. */
struct source source_workers_source(struct source_workers *s);

/* A worker has begun. Takes the descriptors. Numbers are never used again. */
void source_workers_begin(struct source_workers *s, uint32_t worker,
			  const int fds[SOURCE_CHANNELS]);
void source_workers_end(struct source_workers *s, uint32_t worker);
/* A process is there, or has changed. */
void source_workers_set(struct source_workers *s, const struct source_entry *e, uint32_t worker);
void source_workers_forget(struct source_workers *s, uint64_t key);
void source_workers_state(struct source_workers *s, const struct source_state *state);

#endif
