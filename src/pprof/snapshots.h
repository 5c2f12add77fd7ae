/* Snapshots of programs, shared by all who ask at the same time: a profile takes time to make, and
 * twenty scrapes at once shall cost about two of them. */
#ifndef HEFT_PPROF_SNAPSHOTS_H
#define HEFT_PPROF_SNAPSHOTS_H

#include "pprof/source.h"

struct snapshots;
struct snapshot; /* a profile, or why there is none; shared and unchanging */

struct snapshots *snapshots_new(const struct source *source); /* NULL: no memory */
void snapshots_free(struct snapshots *s);

/* What somebody wants: a snapshot begun after that instant. */
struct snapshot_request {
	struct snapshots *of;
	struct snapshot_job *job; /* NULL: not waiting */
	uint64_t key, since_ns;
};
enum { SNAPSHOT_LATER = 1 }; /* somebody is making it: ask again in a moment */
/* 0 and a snapshot to release, SNAPSHOT_LATER or a negative code. May take the time to make one, if the source
 * does. */
int snapshot_take(struct snapshot_request *request, struct snapshot **out, struct heft_error *err);
/* Drops a request that is waiting and will not ask again. */
void snapshot_cancel(struct snapshot_request *request);
void snapshot_release(struct snapshot *s); /* NULL is nothing */

/* Made once for each snapshot and form, too. 0 and a copy of the bytes to free(), SNAPSHOT_LATER or a negative code. */
int snapshot_bytes(struct snapshot *s, enum source_form form, char **bytes, size_t *length,
		   struct heft_error *err);
/* The difference to an earlier snapshot of the same process. */
int snapshot_difference(struct snapshot *s, struct snapshot *before, uint64_t between_ns,
			enum source_form form, char **bytes, size_t *length,
			struct heft_error *err);
/* Names of addresses: "0x1+0x2". */
int snapshot_symbols(struct snapshot *s, const char *addresses, char **bytes, size_t *length,
		     struct heft_error *err);

#endif
