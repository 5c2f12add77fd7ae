/* Inside src/findings: growth without end, found in the history of an exact recording (growing_site.c) or
 * in the times at which samples were made (growing_samples.c). */
#ifndef HEFT_FINDINGS_ENDLESS_GROWTH_H
#define HEFT_FINDINGS_ENDLESS_GROWTH_H

#include "findings/diagnosis.h"

/* Memory that is all freed at the end is reported only if the run is at least so long: then the program is
 * a service. */
#define ENDLESS_SERVICE_NS 60000000000u

struct endless {
	uint32_t site;
	double rate;         /* bytes a second */
	double rate_error95; /* 0: the rate is exact */
	uint64_t gained_bytes, level_bytes;
	uint64_t allocations, frees;
	bool freed_at_end;
};

/* A signal ended the program (a kill, Ctrl-C, a crash; not SIGPIPE). What it frees then, it frees only
 * because it ends. */
bool endless_was_stopped(const struct profile *p);
/* A signal ended the program, or it still ran at the end of a recording that is long enough. */
bool endless_did_not_end(const struct profile *p);
/* Whether so much growth, up to this level, is worth reporting. */
bool endless_is_large(const struct profile *p, uint64_t gained, uint64_t level);
bool endless_is_freed(uint64_t live_bytes, uint64_t level);
/* Whether these blocks are a population, such as sessions: replaced again and again, and large enough. */
bool endless_is_population(const struct profile *p, uint64_t bytes, uint64_t blocks,
			   uint64_t frees);
/* Begins the finding; the caller may add more evidence. */
struct draft endless_draft(struct diagnosis *d, const struct endless *e);

#endif
