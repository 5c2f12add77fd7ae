/* Inside src/findings: growth without end, however it was found: in the history of an exact recording
 * (growing_site.c) or in the births of samples (growing_samples.c). */
#ifndef HEFT_FINDINGS_ENDLESS_GROWTH_H
#define HEFT_FINDINGS_ENDLESS_GROWTH_H

#include "findings/diagnosis.h"

/* What is all freed at the end is reported only of a run so long that it must be a service. */
#define ENDLESS_SERVICE_NS 60000000000u

struct endless {
	uint32_t site;
	double rate;         /* bytes a second */
	double rate_error95; /* of an estimate; 0: exact */
	uint64_t gained_bytes, level_bytes;
	uint64_t allocations, frees;
	bool freed_at_end;
};

/* A signal ended it: a kill, Ctrl-C, a crash; not SIGPIPE. What it then frees, it frees because it was
 * told to end. */
bool endless_was_stopped(const struct profile *p);
/* That, or the recording stopped while it ran, after a while. */
bool endless_did_not_end(const struct profile *p);
/* Is what was gained, up to a level, worth a word? */
bool endless_is_large(const struct profile *p, uint64_t gained, uint64_t level);
bool endless_is_freed(uint64_t live_bytes, uint64_t level);
/* Blocks that are replaced again and again, of a size and number that prove something: sessions. */
bool endless_is_population(const struct profile *p, uint64_t bytes, uint64_t blocks,
			   uint64_t frees);
/* The finding, for more evidence to be added. */
struct draft endless_draft(struct diagnosis *d, const struct endless *e);

#endif
