/* Inside src/findings: growth without end, found in the history of an exact recording (growing_site.c) or
 * in the times at which samples were made (growing_samples.c). */
#ifndef HEFT_FINDINGS_ENDLESS_GROWTH_H
#define HEFT_FINDINGS_ENDLESS_GROWTH_H

#include "findings/diagnosis.h"

/* Memory that is all freed at the end is reported only if the run is at least so long: then the program is
 * a service. */
#define ENDLESS_SERVICE_NS 60000000000u
/* A wait at the end is no longer than twice a pause before it: then the program would have gone on. */
#define ENDLESS_PAUSE_SHARE 0.5

enum { ENDLESS_POINTS = 8 };

/* The memory of a function, or of several under one caller, that grows. */
struct endless {
	struct rule rule;     /* what was asked so far */
	uint32_t site;        /* the largest */
	uint32_t name;        /* the node that names it: the function, or the caller of several */
	double rate;          /* bytes a second */
	double rate_variance; /* 0: the rate is exact */
	uint64_t gained_bytes, level_bytes,
		live_bytes; /* after start-up, in the end, still there */
	uint64_t allocations, frees;
	/* Its share of the gain after each part of the way, by the program's progress. */
	double course[ENDLESS_POINTS];
	double late; /* what the second half of the way gained, against its even share: 1 */
	bool paced;  /* other blocks of the program are replaced at a constant level */
	bool freed_at_end;
	uint32_t samples;            /* sampled: of what is live at the peak */
	double early_bytes;          /* sampled: of these, made in the first half */
	struct evidence_part *parts; /* if several functions grow together; in the pool */
	uint32_t part_count;
};

/* A signal ended the program (a kill, Ctrl-C, a crash; not SIGPIPE). What it frees then, it frees only
 * because it ends. */
bool endless_was_stopped(const struct profile *p);
/* A signal ended the program, or it still ran at the end of a recording that is long enough. */
bool endless_did_not_end(const struct profile *p);
/* Whether these blocks are a population, such as sessions: replaced again and again. One that is a large share of
 * the peak need not be replaced as often. */
bool endless_is_large_population(const struct profile *p, uint64_t bytes);
bool endless_is_population(const struct profile *p, uint64_t bytes, uint64_t blocks,
			   uint64_t frees);
/* Merges those that grow together under one caller. Returns how many are left, the largest first, or
 * HEFT_ENOMEM. */
int endless_merge(struct diagnosis *d, struct endless *list, uint32_t count);
/* Whether it is worth reporting. Sets freed_at_end. */
bool endless_is_large(const struct profile *p, struct endless *e);
/* Notes what was told of its sites: what certainly leaks is not also an object that is too large. */
void endless_explain(struct diagnosis *d, const struct endless *e);
/* Begins the finding; the caller may add more evidence. */
struct draft endless_draft(struct diagnosis *d, struct endless *e);

#endif
