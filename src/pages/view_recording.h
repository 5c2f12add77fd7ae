/* A file opened for viewing: loaded once, its symbols read once, its parts (windows, instants,
 * processes, filters) made when they are asked for and kept for a while. One that is still being
 * written is loaded again as it grows. All functions may be called from several threads at once. */
#ifndef HEFT_PAGES_VIEW_RECORDING_H
#define HEFT_PAGES_VIEW_RECORDING_H

#include "findings/finding.h"
#include "profile/profile_from_trace.h"
#include "pages/view_query.h"

/* What the verb knows and this folder does not. */
struct view_loader {
	void *ctx;
	/* A file of another tool into the model. Of the selection only `apart` and `calls` count. */
	int (*import)(void *ctx, const char *path, const struct profile_selection *sel,
		      struct profile **out, struct heft_error *err);
	/* Decides which frames are the user's own. */
	int (*rules)(void *ctx, struct profile *p, struct heft_error *err);
};

struct view_recording;

/* id stands in addresses, name is shown; both are copied. The loader must outlive it. */
int view_recording_open(struct view_recording **out, const char *path, const char *id,
			const char *name, const struct view_loader *loader, struct heft_error *err);
void view_recording_close(struct view_recording *r); /* once no part is held any more */
/* Windows will be asked for: makes them quick, in the background. Before other threads use it. */
void view_recording_prepare(struct view_recording *r);
const char *view_recording_id(const struct view_recording *r);
const char *view_recording_name(const struct view_recording *r);
/* Loads again what has grown, unless that was just done. Whether it may grow further, and how long
 * it is by now (either may be NULL). */
void view_recording_refresh(struct view_recording *r, bool *live, uint64_t *duration_ns);

struct view_heat; /* view_heat.h */

/* A part of a recording, to be read; dropped when done. */
struct view_part {
	const struct profile *p;
	/* What it is a part of: the chosen processes over the whole run, or everything; p itself where
	 * nothing else is chosen. */
	const struct profile *whole;
	const uint32_t *site_of_id; /* site of the whole, by its id; NULL: in the order of ids */
	const struct findings *findings; /* of everything */
	bool live;                       /* the file may still grow */
};

enum view_extent {
	VIEW_NO_SIZES,
	VIEW_SIZES, /* also profile.sizes, which costs a replay */
	/* For files with addresses; symbols are read once more: */
	VIEW_APART,        /* profile.apart */
	VIEW_CALLS,        /* profile.calls */
	VIEW_BY_PROCESS,   /* sites apart for each group of processes, which costs a replay */
	VIEW_EACH_PROCESS, /* for each process */
};

/* What the query selects. HEFT_EREFUSED with the reason: the file does not tell that. */
int view_recording_part(struct view_recording *r, const struct view_query *q,
			enum view_extent extent, const struct view_part **out,
			struct heft_error *err);
/* All that the chosen processes did; everything if none are chosen. The query says nothing else. */
int view_recording_processes(struct view_recording *r, const struct view_query *q,
			     const struct view_part **out, struct heft_error *err);
/* The site of part->whole with this id, or NULL. */
const struct profile_site *view_part_site(const struct view_part *part, uint32_t id);
/* The whole recording. */
int view_recording_whole(struct view_recording *r, const struct view_part **out,
			 struct heft_error *err);
void view_part_drop(const struct view_part *part);

/* The file can tell any window: a recording of every allocation. */
bool view_part_has_events(const struct view_part *part);
/* Calls each() with the events of [from_ns, to_ns], one walk at a time. */
int view_part_events(const struct view_part *part, uint64_t from_ns, uint64_t to_ns,
		     trace_each_fn *each, void *ctx, struct heft_error *err);
const struct trace_contents *view_part_contents(const struct view_part *part); /* NULL: foreign */
/* Heat that was computed before and is kept with the part, or NULL; and keeping it. The part owns
 * it from then on, and frees it if another thread was faster. */
const struct view_heat *view_part_heat(const struct view_part *part);
void view_part_keep_heat(const struct view_part *part, struct view_heat *heat);

#endif
