/* The model's part that programs made by what they said while they were recorded (include/heft.h): marks, regions,
 * blocks that were followed from stage to stage, events, and the objects of pools. */
#ifndef HEFT_PROFILE_PROFILE_REMARKS_H
#define HEFT_PROFILE_PROFILE_REMARKS_H

#include <stdbool.h>
#include <stdint.h>

/* A name that was not given is "". */
struct profile_mark {
	uint64_t time_ns;
	const char *name;
	uint32_t process, thread; /* the profile's, or PROFILE_NONE */
};

struct profile_region {
	uint64_t begin_ns;
	uint64_t end_ns; /* open: when its process or the recording ended */
	const char *name;
	uint32_t process, thread; /* that began it */
	bool of_thread;           /* counts its thread's calls alone */
	bool is_open;             /* it had not ended */
	bool is_inherited;        /* by fork: it began with its process */
};

/* What followed blocks did next after a stage. Times are those that they were at `from`. */
struct profile_hop {
	const char *from; /* NULL: from their allocation on */
	const char *to;   /* NULL: the end of the block, or still_there */
	/* They were at `from` when their process or the recording ended: how long by then. */
	bool still_there;
	uint64_t blocks, total_ns, max_ns;
	/* Of all blocks up to 65,536, of evenly chosen ones beyond */
	uint64_t p50_ns, p99_ns;
};
static inline uint64_t profile_hop_mean_ns(const struct profile_hop *h)
{
	return h->blocks ? h->total_ns / h->blocks : 0;
}

/* The part of a hop's blocks that was allocated at one site. */
struct profile_hop_site {
	uint32_t site, hop; /* indices; the site is first (profile_sites_moved) */
	uint64_t blocks, total_ns;
};

struct profile_event_site {
	uint32_t node; /* the caller of heft_event, or PROFILE_NONE */
	uint64_t count, weight;
};

struct profile_event {
	const char *name;
	uint64_t count, weight;
	uint32_t first, sites; /* in event_sites, greatest weight first */
};

/* When objects that are left were made: in which eighth of the time of their process */
enum { PROFILE_POOL_PARTS = 8 };

struct profile_pool_site {
	uint32_t node;                  /* the caller of heft_pool_alloc, or PROFILE_NONE */
	uint64_t objects, bytes, freed; /* that it made; that heft_pool_free gave back */
	/* Not given back, in pools that were not destroyed, when their process or the recording ended */
	uint64_t left_objects, left_bytes;
	uint64_t peak_objects, peak_bytes; /* live at the peak of the pool */
	uint64_t left_parts[PROFILE_POOL_PARTS];
};

/* All pools of one name. */
struct profile_pool {
	const char *name; /* "pool 0x55d0c0" if it was never created */
	uint64_t pools, destroyed;
	uint64_t objects, bytes, freed;
	uint64_t left_objects, left_bytes;
	uint64_t peak_objects, peak_bytes, peak_time_ns;
	uint64_t unknown_frees; /* of objects that are not in it */
	uint32_t first, sites;  /* in pool_sites, most bytes left first, then most at the peak */
};

struct profile_remarks {
	struct profile_mark *marks;     /* in the order of time */
	struct profile_region *regions; /* in the order of their beginnings */
	struct profile_hop *hops; /* by stage, in the order in which stages were first reached */
	struct profile_hop_site *hop_sites; /* by hop */
	struct profile_event *events;       /* greatest weight first */
	struct profile_event_site *event_sites;
	struct profile_pool *pools; /* greatest peak first */
	struct profile_pool_site *pool_sites;
	uint32_t mark_count, region_count, hop_count, hop_site_count, event_count, pool_count;
	/* Followed blocks whose end was not seen: another block had their address. */
	uint64_t lost_blocks;
};

/* Whether the program said anything that a report shows. */
static inline bool profile_remarks_any(const struct profile_remarks *r)
{
	return r->mark_count || r->region_count || r->hop_count || r->event_count || r->pool_count;
}
void profile_remarks_fini(struct profile_remarks *r);
/* Times count from this one on. */
void profile_remarks_start_at(struct profile_remarks *r, uint64_t start_ns);

#endif
