/* Behaviour: what blocks do, beyond what a tally adds up. Which thread hands
 * blocks to which, in what order and after what wait; how long the others stay with
 * their own thread; who frees; how blocks grow by realloc; live bytes over time.
 * Findings read it.
 *
 * The recorder keeps one beside its tally and stores it with every checkpoint
 * and at the end. Part of it (who frees, addresses that change, unused ends) needs
 * fields of events that the file does not keep (event.h): only the recorder can add
 * to that part, while a replay of stored events continues the rest.
 *
 * Everything is bounded: maps by a number of entries, after which new keys are not
 * counted apart (sums show how many those were); history by slots, which halve in number and double
 * in length when they are used up, and by rows. */
#ifndef HEFT_TALLY_BEHAVIOUR_H
#define HEFT_TALLY_BEHAVIOUR_H

#include "hosted/hash_index.h"
#include "tally/event.h"

#include <stdbool.h>

#define BEHAVIOUR_NO_PAIR UINT32_MAX

enum {
	BEHAVIOUR_SLOTS = 256,       /* of history: 128 to 256 are in use after the first ones */
	BEHAVIOUR_ROWS = 256,        /* sites with a history of their own */
	BEHAVIOUR_ENTRIES = 1 << 17, /* of each map */
	BEHAVIOUR_NEAR = 256,        /* entries of the small caches near_* */
	BEHAVIOUR_NOTABLE = 1024,    /* a row needs one part in so many of the peak */
};

/* Frees of a site's blocks: in what order, after what wait */
struct behaviour_waits {
	uint64_t frees, bytes, in_order;
	uint64_t backlog_blocks, backlog_bytes, backlog_time_ns;
	uint64_t first_birth_ns, last_birth_ns, first_free_ns, last_free_ns;
	/* For least squares of wait over birth; in us, births since first_birth_ns. */
	double birth, wait, birth_birth, birth_wait, wait_wait;
};

/* Frees of a site's blocks by threads other than their own */
struct behaviour_handover {
	uint32_t site;
	uint32_t last_pair; /* the pair of the last one: most often that of the next */
	struct behaviour_waits waits;
};

/* Frees of a site's blocks by the thread that made them, except of temporaries. A queue need not cross
 * threads. Only sites with a row are looked at: there is one for every site that was ever large. */
struct behaviour_stay {
	uint32_t site, thread;
	struct behaviour_waits waits;
};

/* How many blocks one thread allocated and another freed */
struct behaviour_pair {
	uint32_t site, from, to;
	uint64_t frees;
};

/* A stack that was seen to free blocks of a site */
struct behaviour_release {
	uint32_t site, free_site;
	uint64_t samples;
};

/* Blocks that were given a size here by realloc */
struct behaviour_growth {
	uint32_t site;
	uint64_t steps, moved_steps, copied_bytes;
	uint64_t blocks, final_bytes, largest_bytes;
	uint64_t measured_blocks, measured_bytes, unused_bytes;
};

struct behaviour_row {
	uint32_t site;
	uint32_t first; /* slot from which on it was watched */
	uint64_t bytes[BEHAVIOUR_SLOTS], blocks[BEHAVIOUR_SLOTS];
};

/* fields: five lists, each with its entries, count, capacity and index */
struct behaviour {
	struct behaviour_handover *handovers;
	uint32_t handover_count, handover_capacity;
	struct hash_index handover_index;
	struct behaviour_pair *pairs;
	uint32_t pair_count, pair_capacity;
	struct hash_index pair_index;
	struct behaviour_stay *stays;
	uint32_t stay_count, stay_capacity;
	struct hash_index stay_index;
	struct behaviour_release *releases;
	uint32_t release_count, release_capacity;
	struct hash_index release_index;
	struct behaviour_growth *growths;
	uint32_t growth_count, growth_capacity;
	struct hash_index growth_index;
	/* Where the last ones were found, by site: a hash costs more than all the rest. */
	uint32_t near_handover[BEHAVIOUR_NEAR], near_growth[BEHAVIOUR_NEAR]; /* index + 1 */
	uint32_t near_stay[BEHAVIOUR_NEAR];
	/* history: slot i is the state at (i + 1) * slot_ns */
	uint64_t slot_ns;
	uint32_t slot_count;
	uint64_t bytes[BEHAVIOUR_SLOTS], blocks[BEHAVIOUR_SLOTS];
	uint64_t events[BEHAVIOUR_SLOTS]; /* so far: how far the program had come */
	struct behaviour_row **rows;
	uint32_t row_count;
	bool failed; /* no memory: what there is stays, nothing is added */
};

struct tally;
struct tally_site;

void behaviour_init(struct behaviour *b);
void behaviour_fini(struct behaviour *b);

/* One free; weight: how many frees it stands for */
struct behaviour_hand {
	uint64_t time_ns, lifetime_ns, size;
	uint32_t site, from, to;
	uint32_t weight;
};

/* A thread's frees of its own blocks are many. Every one counts until a site has had so many; then one in
 * so many counts for all. */
enum { BEHAVIOUR_STAYS_ALL = 1024, BEHAVIOUR_STAYS_STEP = 16 };
static inline uint32_t behaviour_stay_weight(uint64_t frees_before)
{
	return frees_before < BEHAVIOUR_STAYS_ALL         ? 1
	       : frees_before % BEHAVIOUR_STAYS_STEP == 0 ? BEHAVIOUR_STAYS_STEP
							  : 0;
}

/* The tally calls these. live_*: the site's numbers before the event. */
void behaviour_on_handover(struct behaviour *b, const struct behaviour_hand *hand,
			   uint64_t live_blocks, uint64_t live_bytes);
void behaviour_on_stay(struct behaviour *b, const struct behaviour_hand *hand, uint64_t live_blocks,
		       uint64_t live_bytes);
void behaviour_on_free(struct behaviour *b, const struct trace_event *e, uint64_t live_blocks,
		       uint64_t live_bytes);
void behaviour_on_realloc(struct behaviour *b, const struct trace_event *e);
/* The tally calls this when a site's own peak reaches notable_bytes. Returns the new notable_bytes. */
uint64_t behaviour_watch(struct behaviour *b, struct tally *t, uint32_t site);
/* Before events from time_ns on are applied to t: records the slots that have passed. */
void behaviour_advance(struct behaviour *b, struct tally *t, uint64_t time_ns);
/* Events from this time on need behaviour_advance first. A file may give slots of any length. */
static inline uint64_t behaviour_slot_end(const struct behaviour *b)
{
	uint64_t end_ns;
	return __builtin_mul_overflow((uint64_t)b->slot_count + 1, b->slot_ns, &end_ns) ? UINT64_MAX
											: end_ns;
}

enum behaviour_list {
	BEHAVIOUR_HANDOVERS,
	BEHAVIOUR_PAIRS,
	BEHAVIOUR_RELEASES,
	BEHAVIOUR_GROWTHS,
	BEHAVIOUR_STAYS,
	BEHAVIOUR_LISTS
};
/* Adds an entry with this key, which are the numbers that it begins with; all else is 0. NULL: there is one
 * already, or there is no memory or space for it. */
void *behaviour_add(struct behaviour *b, enum behaviour_list list, const uint32_t *key);

#endif
