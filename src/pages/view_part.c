/* Parts of an opened recording: made when a page asks for them, and kept for a while.
 *
 * A part that differs only in what is shown of it (mode, metric) is the same part: the
 * key is the selection alone. A part holds its generation.
 *
 * Invariant: the whole is the first part of every generation and is never evicted. */
#include "pages/view_recording_parts.h"

#include "pages/view_heat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- letting go */

static void free_part(struct part *part)
{
	if (part->processes)
		view_part_release(part->processes);
	free(part->site_of_id);
	view_heat_free(part->heat);
	profile_free(part->own);
	free(part->key);
	free(part);
}

void view_part_release(struct part *part)
{
	struct generation *g = part->generation, *gone = NULL;
	struct view_recording *r = g->recording;
	bool last = false;
	pthread_mutex_lock(&r->lock);
	if (part != g->whole_part)
		last = --part->holders == 0;
	if (part == g->whole_part || last)
		gone = view_generation_let_go(g);
	pthread_mutex_unlock(&r->lock);
	if (last)
		free_part(part);
	view_generation_free(gone);
}

void view_part_drop(const struct view_part *part)
{
	if (part)
		view_part_release((struct part *)part);
}

/* ---- parts */

static void select_part(struct profile_selection *s, const struct view_query *q,
			enum view_extent extent, const struct generation *g)
{
	const struct profile *whole = g->whole;
	uint64_t end = whole->run.duration_ns;
	bool own_stacks = extent == VIEW_APART || extent == VIEW_CALLS;
	*s = (struct profile_selection){.has_pid = q->has_pid,
					.pid = q->pid,
					.has_process = q->has_process,
					.process = q->process,
					.program = q->program,
					.thread = q->thread,
					.sizes = extent == VIEW_SIZES,
					.by_process = extent >= VIEW_BY_PROCESS,
					.merging = extent == VIEW_EACH_PROCESS ? PROCESSES_EACH
									       : PROCESSES_AS_FIT,
					.apart = extent == VIEW_APART,
					.calls = extent == VIEW_CALLS,
					.part_of = own_stacks ? NULL : whole,
					.ladder = own_stacks ? NULL : g->ladder};
	if (!view_part_has_events(&g->whole_part->seen)) {
		/* Whatever time was meant, this file does not know it: to be refused. */
		s->has_window = q->mode == VIEW_LIVE ? q->at == VIEW_AT_TIME
						     : q->has_from || q->has_to;
		return;
	}
	if (q->mode == VIEW_LIVE) {
		/* At the very end the program is gone; what is meant is what it left. */
		s->has_window = q->at == VIEW_AT_TIME && q->at_ns < end;
		s->from_ns = s->to_ns = s->has_window ? q->at_ns : 0;
		return;
	}
	s->from_ns = q->has_from ? (q->from_ns < end ? q->from_ns : end) : 0;
	s->to_ns = q->has_to && q->to_ns < end ? q->to_ns : end;
	s->has_window = s->from_ns > 0 || s->to_ns < end;
	if (!s->has_window)
		s->to_ns = 0;
}

static bool chooses_processes(const struct view_query *q)
{
	return q->has_pid || q->has_process || q->program;
}

static struct view_query processes_of(const struct view_query *q)
{
	struct view_query alone;
	view_query_init(&alone);
	alone.has_pid = q->has_pid;
	alone.pid = q->pid;
	alone.has_process = q->has_process;
	alone.process = q->process;
	alone.program = q->program;
	return alone;
}

/* Whether q chooses processes and nothing else: then readers want their course over the run. */
static bool is_processes_alone(const struct profile_selection *s, const struct view_query *q)
{
	return chooses_processes(q) && !s->has_window && !s->thread && !s->sizes &&
	       !s->by_process && !q->focus && !q->ignore;
}

static char *key_of(const struct profile_selection *s, const struct view_query *q)
{
	char *key = NULL;
	int n = asprintf(&key,
			 "%d %" PRIu64 " %" PRIu64 " %d %" PRId32 " %d %" PRIu32
			 " %d %d %d %d\n%s\n%s\n%s\n%s",
			 s->has_window, s->from_ns, s->to_ns, s->has_pid, s->has_pid ? s->pid : 0,
			 s->has_process, s->has_process ? s->process : 0, s->sizes,
			 s->by_process + (int)s->merging, s->apart, s->calls,
			 s->program ? s->program : "", s->thread ? s->thread : "",
			 q->focus ? q->focus : "", q->ignore ? q->ignore : "");
	return n < 0 ? NULL : key;
}

static bool is_everything(const struct profile_selection *s, const struct view_query *q,
			  const struct profile *whole)
{
	return !s->has_window && !chooses_processes(q) && !s->thread && !q->focus && !q->ignore &&
	       s->part_of && (!s->sizes || whole->behaviour.sizes) &&
	       (!s->by_process || whole->process_count < 2);
}

/* With the lock. A found part is held. */
static struct part *find_part(struct view_recording *r, const struct generation *g, const char *key)
{
	for (int i = 0; i < KEPT_PARTS; i++) {
		struct part *part = r->kept[i];
		if (part && part->generation == g && strcmp(part->key, key) == 0) {
			part->holders++;
			part->used = ++r->clock;
			return part;
		}
	}
	return NULL;
}

/* Into the place of the one that was not used for longest. */
static void keep_part(struct view_recording *r, struct part *part)
{
	struct part *old = NULL;
	int at = 0;
	pthread_mutex_lock(&r->lock);
	if (r->now == part->generation) { /* else nobody will ask for it again */
		for (int i = 0; i < KEPT_PARTS; i++)
			if (!r->kept[i] || (r->kept[at] && r->kept[i]->used < r->kept[at]->used))
				at = i;
		old = r->kept[at];
		part->holders++;
		part->used = ++r->clock;
		r->kept[at] = part;
	}
	pthread_mutex_unlock(&r->lock);
	if (old)
		view_part_release(old);
}

/* Another tool's file has no parts but those that a filter makes. */
static int import_part(struct view_recording *r, const struct profile_selection *s,
		       struct profile **out, struct heft_error *err)
{
	bool processes = s->has_pid || s->has_process || s->program;
	if (s->has_window || processes || s->thread || s->sizes)
		return heft_fail(err, HEFT_EREFUSED,
				 "this file holds sums, not single allocations, so it has no %s",
				 s->has_window ? "times to choose from"
				 : processes   ? "processes to choose from"
				 : s->thread   ? "threads to choose from"
					       : "sizes");
	return r->loader->import(r->loader->ctx, r->path, s, out, err);
}

/* With the generation's reading lock. */
static int load_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, struct profile **p, struct heft_error *err)
{
	const struct view_loader *loader = g->recording->loader;
	struct profile_selection with = *s;
	with.history = is_processes_alone(s, q);
	int rc = g->reader ? profile_from_trace(p, g->reader, &with, err)
			   : import_part(g->recording, s, p, err);
	if (rc == 0 && !(*p)->stacks.lender && loader->rules)
		rc = loader->rules(loader->ctx, *p, err);
	if (rc == 0 && (q->focus || q->ignore))
		rc = profile_filter(*p, q->focus, q->ignore, err);
	if (rc < 0) {
		profile_free(*p);
		*p = NULL;
	}
	return rc;
}

static int index_sites(struct part *part)
{
	const struct profile *p = part->own, *whole = part->generation->whole;
	part->site_of_id = malloc(((size_t)whole->site_count + 1) * sizeof *part->site_of_id);
	if (!part->site_of_id)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i <= whole->site_count; i++)
		part->site_of_id[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].id <= whole->site_count)
			part->site_of_id[p->sites[i].id] = i;
	return 0;
}

/* The generation is held for the part, and let go if there is none in the end. */
static int make_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, char *key, struct part *processes,
		     struct part **out, struct heft_error *err)
{
	struct part *part = calloc(1, sizeof *part);
	int rc = part ? load_part(g, s, q, &part->own, err)
		      : heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	if (rc == 0) {
		part->generation = g;
		if (is_processes_alone(s, q) && index_sites(part) < 0)
			rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	}
	if (rc < 0) {
		if (part)
			profile_free(part->own);
		free(part);
		return rc;
	}
	part->key = key;
	part->holders = 1;
	part->processes = processes;
	part->seen = (struct view_part){
		.p = part->own, .whole = g->whole, .findings = g->findings, .live = g->live};
	if (processes || part->site_of_id) {
		part->seen.whole = processes ? processes->own : part->own;
		part->seen.site_of_id = processes ? processes->site_of_id : part->site_of_id;
	}
	keep_part(g->recording, part);
	*out = part;
	return 0;
}

static struct generation *hold_now(struct view_recording *r)
{
	pthread_mutex_lock(&r->lock);
	struct generation *g = r->now;
	g->holders++;
	pthread_mutex_unlock(&r->lock);
	return g;
}

static void release(struct generation *g)
{
	struct view_recording *r = g->recording;
	pthread_mutex_lock(&r->lock);
	struct generation *gone = view_generation_let_go(g);
	pthread_mutex_unlock(&r->lock);
	view_generation_free(gone);
}

static struct part *find_locked(struct view_recording *r, struct generation *g, const char *key)
{
	pthread_mutex_lock(&r->lock);
	struct part *part = find_part(r, g, key);
	pthread_mutex_unlock(&r->lock);
	return part;
}

/* The part that is kept, or a new one, which takes `processes` over. The generation is held by the
 * caller, and from then on by the part. */
static int hold_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, struct part *processes, struct part **out,
		     struct heft_error *err)
{
	struct view_recording *r = g->recording;
	struct part *part = NULL;
	char *key = key_of(s, q);
	bool made = false;
	int rc = key ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	if (rc == 0)
		part = find_locked(r, g, key);
	if (rc == 0 && !part) {
		pthread_mutex_lock(&g->reading);
		part = find_locked(r, g, key); /* another thread made it meanwhile */
		if (!part) {
			rc = make_part(g, s, q, key, processes, &part, err);
			made = rc == 0; /* it holds the generation from now on, and the key */
		}
		pthread_mutex_unlock(&g->reading);
	}
	*out = part;
	if (made)
		return 0;
	free(key);
	if (processes)
		view_part_release(processes);
	release(g); /* a found part holds it */
	return rc;
}

/* What the part of a query is a part of: all that its processes did. */
static int hold_processes(struct generation *g, const struct view_query *q, struct part **out,
			  struct heft_error *err)
{
	struct profile_selection s;
	struct view_query alone = processes_of(q);
	select_part(&s, &alone, VIEW_NO_SIZES, g);
	pthread_mutex_lock(&g->recording->lock);
	g->holders++;
	pthread_mutex_unlock(&g->recording->lock);
	return hold_part(g, &s, &alone, NULL, out, err);
}

int view_recording_part(struct view_recording *r, const struct view_query *q,
			enum view_extent extent, const struct view_part **out,
			struct heft_error *err)
{
	struct profile_selection s;
	struct part *part = NULL, *processes = NULL;
	int rc = 0;
	*out = NULL;
	view_recording_refresh(r, NULL, NULL);
	struct generation *g = hold_now(r);
	select_part(&s, q, extent, g);
	if (is_everything(&s, q, g->whole)) {
		*out = &g->whole_part->seen;
		return 0;
	}
	if (chooses_processes(q) && !is_processes_alone(&s, q))
		rc = hold_processes(g, q, &processes, err);
	if (rc < 0) {
		release(g);
		return rc;
	}
	rc = hold_part(g, &s, q, processes, &part, err);
	*out = part ? &part->seen : NULL;
	return rc;
}

int view_recording_processes(struct view_recording *r, const struct view_query *q,
			     const struct view_part **out, struct heft_error *err)
{
	struct view_query alone = processes_of(q);
	return view_recording_part(r, &alone, VIEW_NO_SIZES, out, err);
}

const struct profile_site *view_part_site(const struct view_part *part, uint32_t id)
{
	const struct profile *whole = part->whole;
	uint32_t everything = ((const struct part *)part)->generation->whole->site_count;
	if (!id || id > everything)
		return NULL;
	uint32_t site = part->site_of_id ? part->site_of_id[id] : id - 1;
	return site < whole->site_count ? &whole->sites[site] : NULL;
}

int view_recording_whole(struct view_recording *r, const struct view_part **out,
			 struct heft_error *err)
{
	(void)err;
	view_recording_refresh(r, NULL, NULL);
	*out = &hold_now(r)->whole_part->seen;
	return 0;
}

/* ---- events */

bool view_part_has_events(const struct view_part *part)
{
	const struct trace_contents *c = view_part_contents(part);
	return c && !c->samples_count;
}

const struct trace_contents *view_part_contents(const struct view_part *part)
{
	const struct generation *g = ((const struct part *)part)->generation;
	return g->reader ? trace_reader_contents(g->reader) : NULL;
}

int view_part_events(const struct view_part *part, uint64_t from_ns, uint64_t to_ns,
		     trace_each_fn *each, void *ctx, struct heft_error *err)
{
	struct generation *g = ((const struct part *)part)->generation;
	pthread_mutex_lock(&g->reading);
	int rc = trace_reader_events(g->reader, from_ns, to_ns, each, ctx, err);
	pthread_mutex_unlock(&g->reading);
	return rc;
}

const struct view_heat *view_part_heat(const struct view_part *part)
{
	const struct part *own = (const struct part *)part;
	pthread_mutex_lock(&own->generation->recording->lock);
	const struct view_heat *heat = own->heat;
	pthread_mutex_unlock(&own->generation->recording->lock);
	return heat;
}

void view_part_keep_heat(const struct view_part *part, struct view_heat *heat)
{
	struct part *own = (struct part *)part;
	pthread_mutex_lock(&own->generation->recording->lock);
	if (!own->heat) {
		own->heat = heat;
		heat = NULL;
	}
	pthread_mutex_unlock(&own->generation->recording->lock);
	view_heat_free(heat);
}
