/* Inside src/export: the plan of a heaptrack file (heaptrack_plan.c), and its writing
 * (export_heaptrack.c). */
#ifndef HEFT_EXPORT_HEAPTRACK_PLAN_H
#define HEFT_EXPORT_HEAPTRACK_PLAN_H

#include "export/export.h"
#include "export/export_places.h"
#include "export/packed_stream.h"

enum { HEAPTRACK_STEPS = 200 };

/* n blocks whose sizes add up: large of them have small_size + 1 bytes. */
struct blocks {
	uint64_t count, large, small_size;
	uint64_t made, freed;
	uint32_t index; /* in heaptrack's table of allocations: small, then large ones */
};

struct plan {
	uint32_t site, trace;
	struct blocks kept, peak, end; /* live at: peak and end, peak, end */
	struct blocks rest;            /* two indices each, in turn: see make_and_free() */
	uint64_t temporary;            /* of the rest, those freed directly */
	uint64_t rest_done, temporary_done;
	uint32_t before, after; /* in how many steps the rest fits */
};

/* The block that reaches the peak. It has an index of its own, because heaptrack takes the next free for
 * that of a temporary block if it has the index of the last allocation. */
struct final {
	bool exists, live;
	bool temporary; /* freed directly, as it was in the run */
	uint32_t index, site;
	uint64_t size;
};

struct heaptrack {
	const struct profile *p;
	const struct export_options *o;
	struct packed_stream *out;
	struct export_places places;
	struct string_table strings;
	uint32_t *trace; /* by node */
	struct plan *plans;
	uint32_t plan_count, infos;
	/* By plan: the step in which it next has something to do, HEAPTRACK_STEPS: none. Plans are large, and
	 * most of half a million have one block: looking at all of them in every step took longer than
	 * everything else. */
	uint8_t *rest_due, *first_due, *second_due;
	uint64_t peak, end; /* bytes of all */
	uint64_t live, last_ms;
	double level[2][HEAPTRACK_STEPS]; /* share of what each step of before, after reaches */
	uint32_t steps[2];
	uint32_t pending; /* index of a block that is to be freed soon, 0: none */
	uint64_t pending_size;
	uint32_t last;   /* index of the last event if it was an allocation, else 0 */
	uint32_t cursor; /* first plan that may have temporaries left */
	struct final final;
	bool no_memory;
};

/* Fills the plans of all sites, the levels and the final block. */
void heaptrack_plan(struct heaptrack *x);

static inline uint64_t heaptrack_size(const struct blocks *b, bool large)
{
	return b->small_size + large;
}

static inline uint64_t heaptrack_share(uint64_t bytes, uint64_t part, uint64_t of)
{
	return of ? (uint64_t)((unsigned __int128)bytes * part / of) : 0;
}

#endif
