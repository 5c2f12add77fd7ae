/* Snapshots of programs, shared by all who ask at the same time: a profile takes time to make, and
 * twenty scrapes at once shall cost about two of them. */
#ifndef HEFT_PPROF_SNAPSHOTS_H
#define HEFT_PPROF_SNAPSHOTS_H

#include "pprof/source.h"
#include "profile/profile_delta.h"

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
/* 0 and a snapshot to release, SNAPSHOT_LATER or a negative code. May take the time to make one. */
int snapshot_take(struct snapshot_request *request, struct snapshot **out, struct heft_error *err);
/* Drops a request that is waiting and will not ask again. */
void snapshot_cancel(struct snapshot_request *request);
void snapshot_release(struct snapshot *s); /* NULL is nothing */
const struct profile *snapshot_profile(const struct snapshot *s);

/* Made once for each snapshot, too. */
enum snapshot_form {
	SNAPSHOT_HEAP,   /* pprof; shows what is live */
	SNAPSHOT_ALLOCS, /* the same; shows what was allocated */
	SNAPSHOT_HEAP_TEXT,
	SNAPSHOT_ALLOCS_TEXT,
	SNAPSHOT_FORMS
};
/* 0 and a copy of the bytes to free(), SNAPSHOT_LATER or a negative code. */
int snapshot_bytes(struct snapshot *s, enum snapshot_form form, char **bytes, size_t *length,
		   struct heft_error *err);
/* Any profile, or difference, in a form. */
int snapshot_render(const struct profile *p, enum snapshot_form form, char **bytes, size_t *length,
		    struct heft_error *err);
int snapshot_render_delta(const struct profile_delta *d, enum snapshot_form form, char **bytes,
			  size_t *length, struct heft_error *err);

#endif
