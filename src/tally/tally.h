/* A tally: what a sequence of matched events adds up to, per site, per thread
 * and in all, including the exact contribution of every site to the first
 * instant of the greatest sum of live bytes. The recorder keeps one while it
 * records, checkpoints and the end of a recording store one, and a reader
 * continues one from a checkpoint (cut files) or makes a new one over selected
 * events (--pid, --thread, time windows).
 *
 * The peak takes O(1) an event: a new maximum only raises `peak_epoch`. A site
 * that changes first saves its live numbers if its own epoch is older. At the
 * end (tally_update_peaks) every site whose epoch is older has not changed since. */
#ifndef HEFT_TALLY_TALLY_H
#define HEFT_TALLY_TALLY_H

#include "tally/behaviour.h"
#include "tally/batch.h"

#include <stddef.h>

/* Lifetime histogram: bucket 0 is under 512 ns, bucket i holds [2^(i+8), 2^(i+9)) ns,
 * the last one everything above. Counts saturate. */
#define TALLY_BUCKETS 40

struct tally_site {
	/* the cache line that every event touches */
	uint64_t live_bytes; /* now */
	uint64_t live_blocks;
	uint64_t live_slack; /* usable - requested of what is live */
	uint32_t peak_epoch;
	uint32_t watched; /* has a history of its own */
	uint64_t own_peak_bytes;
	uint64_t allocations;
	uint64_t allocated_bytes; /* of allocations, plus the growth of reallocations that grow */
	uint64_t frees;

	uint64_t lifetime_sum_ns; /* of blocks that were freed or are gone */
	uint64_t lifetime_max_ns;
	uint64_t temporary;
	uint64_t cross_thread_frees;
	uint64_t
		peak_bytes; /* valid after tally_update_peaks: live at the first instant of the peak */
	uint64_t peak_blocks;
	uint64_t peak_slack;
	uint64_t reallocations;

	uint64_t reallocated_bytes; /* sum of the new sizes of all reallocations */
	uint64_t end_bytes;         /* GONE: live when the process or the recording ended */
	uint64_t end_blocks;
	uint64_t end_slack;
	uint32_t lifetime[TALLY_BUCKETS];
};

struct tally_thread {
	uint64_t allocations, allocated_bytes, reallocations, frees;
};

struct tally {
	struct tally_site *sites; /* site_capacity of them, zeroed beyond site_count */
	uint32_t site_count, site_capacity;
	struct tally_thread *threads;
	uint32_t thread_count, thread_capacity;
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t events;
	uint32_t peak_epoch;         /* of the last new maximum; starts at 0, sites at 0 */
	struct behaviour *behaviour; /* kept along if not NULL; not owned */
	uint64_t notable_bytes;      /* a site whose own peak reaches this will be watched */
};

void tally_init(struct tally *t);
void tally_fini(struct tally *t);
/* Makes sites [0, sites) and threads [0, threads) valid; returns 0 or HEFT_ENOMEM. */
int tally_reserve(struct tally *t, uint32_t sites, uint32_t threads);
/* Every id in events must have been reserved: the caller has checked them. */
void tally_apply(struct tally *t, const struct trace_event *events, size_t count);
void tally_apply_batch(struct tally *t, const struct trace_batch *batch);
/* Brings peak_bytes/peak_blocks of all sites up to date; may be followed by more events. */
void tally_update_peaks(struct tally *t);
/* The lifetime below which `fraction` (0..1) of a site's blocks stay, interpolated in its
 * histogram bucket; never above lifetime_max_ns. */
uint64_t tally_lifetime_quantile(const struct tally_site *s, double fraction);

#endif
