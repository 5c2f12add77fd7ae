/* Inside src/pages: what an opened recording is made of, for view_recording.c (the file) and view_part.c
 * (parts of it).
 *
 * Locks: `lock` for pointers and counts, never held over anything slow; `loading`
 * over a load; a generation's `reading` over its reader, which has one cursor. The
 * order is loading, reading, lock. */
#ifndef HEFT_PAGES_VIEW_RECORDING_PARTS_H
#define HEFT_PAGES_VIEW_RECORDING_PARTS_H

#include "pages/view_recording.h"

#include <pthread.h>
#include <stdatomic.h>

enum { KEPT_PARTS = 8 };

/* Lays the rungs of a ladder beside everything else. */
struct laying {
	pthread_t thread;
	struct trace_reader *reader;
	atomic_bool stop;
};

struct generation {
	struct view_recording *recording;
	unsigned holders;
	pthread_mutex_t reading;
	struct trace_reader *reader; /* NULL: another tool's file */
	struct profile *whole;
	struct findings *findings;
	struct part *whole_part;     /* not counted as a holder */
	struct trace_ladder *ladder; /* NULL: not worth it, or not asked for */
	struct laying *laying;
	uint64_t file_bytes;
	bool live;
};

struct view_heat;

struct part {
	struct view_part seen;
	struct generation *generation;
	struct profile *own;    /* to be freed; NULL: the whole */
	uint32_t *site_of_id;   /* of chosen processes: theirs, by id */
	struct part *processes; /* held: what it is a part of; NULL: everything, or itself */
	struct view_heat *heat;
	char *key;
	unsigned holders; /* the cache is one */
	uint64_t used;
};

struct view_recording {
	char *path, *id, *name;
	const struct view_loader *loader;
	pthread_mutex_t lock, loading;
	struct generation *now;
	struct part *kept[KEPT_PARTS];
	uint64_t clock;
	uint64_t loaded_ns, load_took_ns;
	bool prepared; /* windows will be asked for */
};

/* One holder less: called with the lock. Returns it if it is to be freed, without the lock. */
struct generation *view_generation_let_go(struct generation *g);
void view_generation_free(struct generation *g); /* or NULL */
/* One holder of the part less. */
void view_part_release(struct part *part);

#endif
