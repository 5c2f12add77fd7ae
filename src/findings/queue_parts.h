/* Inside src/findings, of unbounded-queue: places whose blocks wait (queue_places.c), whether they wait in a queue
 * (queue_rule.c), what one item is (queue_items.c), and the finding itself (unbounded_queue.c). */
#ifndef HEFT_FINDINGS_QUEUE_PARTS_H
#define HEFT_FINDINGS_QUEUE_PARTS_H

#include "findings/diagnosis.h"

/* Stacks that are the same from the allocation to the caller of the function that names them. A task that is
 * resumed in another way has another stack further out, but makes the same blocks. */
struct queue_place {
	uint32_t site;                 /* the one with the greatest backlog; names the place */
	uint32_t first, sites;         /* in queue_places.sites */
	struct profile_handover waits; /* of all its frees, by whomever */
	uint64_t made, frees, frees_by_others;
	uint32_t group; /* index of the first place of its group */
	bool certain;   /* it fulfils every condition itself */
};

struct queue_places {
	const struct diagnosis *d;
	uint32_t *sites; /* those of one place stand together */
	struct queue_place *list;
	uint32_t count;
};

/* ---- queue_places.c */

/* Every place of which it is known how its blocks wait. 0 or HEFT_ENOMEM; fini either way. */
int queue_places_init(struct queue_places *q, const struct diagnosis *d);
void queue_places_fini(struct queue_places *q);
/* The threads between which blocks of a site pass, most frequent first. */
const struct profile_handover_threads *queue_threads(const struct profile *p, uint32_t site,
						     uint32_t *count);
/* Between which threads most blocks of the place pass. */
struct profile_handover_threads queue_main_threads(const struct profile *p,
						   const struct queue_place *x);
/* Whether this thread makes (frees) any blocks of the place. */
bool queue_has_producer(const struct queue_places *q, const struct queue_place *x, uint32_t thread);
bool queue_has_consumer(const struct queue_places *q, const struct queue_place *x, uint32_t thread);
/* Whether the main producer (consumer) of each is also one of the other. */
bool queue_same_producer(const struct queue_places *q, const struct queue_place *a,
			 const struct queue_place *b);
bool queue_same_consumer(const struct queue_places *q, const struct queue_place *a,
			 const struct queue_place *b);
/* Where blocks of the place are freed most often; PROFILE_NONE: not known. */
uint32_t queue_freed_at(const struct profile *p, const struct queue_place *x);

/* ---- queue_rule.c */

/* Whether blocks leave in the order in which they came. Companions need this, but not the trend. */
bool queue_is_in_order(struct rule *r, const struct queue_place *x, uint64_t least);
/* Whether the place fulfils every condition itself. */
bool queue_is_certain(struct rule *r, const struct queue_places *q, const struct queue_place *x);
/* Mean time from one to the next */
double queue_interval(uint64_t from, uint64_t to, uint64_t items);

/* ---- queue_stages.c */

/* A stage of heft_mark_block: how long the items of a group were at it */
struct queue_stage {
	const char *name; /* NULL: the program does not follow them */
	uint64_t blocks, total_ns;
};
/* The stage at which they spent the most time. 0 or HEFT_ENOMEM. */
int queue_longest_stage(const struct queue_places *q, uint32_t group, struct queue_stage *out);

/* ---- queue_items.c */

/* The items of one group. An item is an object, which may have several blocks. */
struct queue_items {
	uint64_t made, taken, backlog;
	uint32_t maker; /* the node of the function that makes an item; PROFILE_NONE: not known */
};
/* 0 or HEFT_ENOMEM. */
int queue_count_items(const struct queue_places *q, uint32_t group, struct queue_items *out);

#endif
