/* The documents "sites" and "site": a table of call sites, and one of them in full.
 *
 * Numbers are of the selection, but for the part of the peak and for what is left in the
 * end: those are of the whole run. So are lifetimes where an instant is chosen, because
 * what is live has none yet. A site's course over the run is that of the chosen processes; who frees its blocks was recorded of all together,
 * where its id leads to. */
#include "profile/site_callers.h"
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"
#include "pages/view_series.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RELEASES_SHOWN = 8, HANDOVERS_SHOWN = 32 };

struct sorted {
	uint64_t key;
	uint32_t site;
};

static int greatest_first(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

/* The site whose lifetimes are shown, or NULL: no block had any. */
static const struct profile_site *lifetime_site(const struct view_query *q,
						const struct view_part *part, uint32_t site)
{
	const struct profile *p = part->p;
	uint64_t counted = 0;
	if (q->mode == VIEW_LIVE && q->at == VIEW_AT_TIME) /* of a thread alone it is not kept */
		return q->thread ? NULL : view_part_site(part, p->sites[site].id);
	for (int i = 0; p->behaviour.lifetimes && i < PROFILE_LIFE_BUCKETS; i++)
		counted += p->behaviour.lifetimes[site][i];
	return counted ? &p->sites[site] : NULL;
}

static uint64_t sort_key(const struct view_query *q, const struct view_measure *m,
			 const struct view_part *part, uint32_t site)
{
	const struct profile *p = part->p;
	const struct profile_site *s = &p->sites[site], *whole = view_part_site(part, s->id);
	static const enum measure_id sorts[] = {
		[VIEW_BY_PEAK] = MEASURE_PEAK_BYTES,
		[VIEW_BY_ALLOCATED] = MEASURE_ALLOCATED_BYTES,
		[VIEW_BY_COUNT] = MEASURE_ALLOCATIONS,
		[VIEW_BY_TEMPORARY] = MEASURE_TEMPORARY,
		[VIEW_BY_LIFETIME] = MEASURE_LIFETIME,
	};
	switch (q->sort) {
	case VIEW_BY_VALUE: return view_value(m, p, site);
	case VIEW_BY_LIVE: /* what the table shows of it */
		return measure_of_site(whole ? whole : s, view_left_bytes(q, p));
	case VIEW_BY_LIFETIME: s = lifetime_site(q, part, site); return s ? s->lifetime.mean_ns : 0;
	default:
		return measure_of_site(q->sort == VIEW_BY_PEAK && whole ? whole : s,
				       sorts[q->sort]);
	}
}

/* Nodes with a frame on their stack in which the text is found. NULL: no memory. */
static bool *search_nodes(const struct view_query *q, const struct profile *p)
{
	bool *frames = calloc((size_t)p->stacks.frame_count + 1, sizeof *frames);
	bool *nodes = calloc((size_t)p->stacks.node_count + 1, sizeof *nodes);
	if (!frames || !nodes) {
		free(frames);
		free(nodes);
		return NULL;
	}
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		frames[i] = view_frame_found(q, p, i);
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		nodes[i] = frames[p->stacks.nodes[i].frame] ||
			   (parent != PROFILE_NONE && nodes[parent]);
	}
	free(frames);
	return nodes;
}

/* Behaviour is that of everything: it is not known by process. */
static const struct profile_site *recorded_site(const struct profile *p, uint32_t id,
						const struct profile **everything)
{
	*everything = p->stacks.lender ? p->stacks.lender : p;
	return id && id <= (*everything)->site_count ? &(*everything)->sites[id - 1] : NULL;
}

/* "consumer() 98 %" */
static void write_freed_by(struct json_writer *w, const struct view_query *q,
			   const struct profile *p, uint32_t id)
{
	const struct profile *whole;
	const struct profile_site *s = recorded_site(p, id, &whole);
	uint64_t all = 0;
	char text[MODEL_JSON_NAME_BYTES + 40] = "";
	for (uint32_t i = 0; s && i < s->release_count; i++)
		all += whole->behaviour.releases[s->release_first + i].samples;
	if (all) {
		struct view_name room;
		const struct profile_release *first = &whole->behaviour.releases[s->release_first];
		const char *function = view_user_function(whole, first->node);
		snprintf(text, sizeof text, "%s %.0f %%", view_cut(q, function, &room),
			 (double)first->samples * 100 / (double)all);
	}
	json_write_key_string(w, "freed_by", text);
}

static void write_row(struct json_writer *w, const struct view_query *q,
		      const struct view_part *part, const struct view_measure *m, uint32_t site,
		      const char *callers)
{
	const struct profile *p = part->p;
	const struct profile_site *s = &p->sites[site], *whole = view_part_site(part, s->id);
	const struct profile_site *lived = lifetime_site(q, part, site);
	enum measure_id left = view_left_bytes(q, p);
	struct profile_site shown = *s;
	uint64_t error;
	shown.labels = PROFILE_NONE; /* the page does not show them */
	if (whole)
		shown.peak_bytes = whole->peak_bytes;
	json_write_object(w);
	json_write_key_uint(w, "id", s->id);
	json_write_key(w, "place");
	view_write_place(w, q, p, s->node);
	model_json_key_name(w, &q->limits, "callers", callers);
	view_write_callers(w, q, p, "called_by", s->node);
	json_write_key_uint(w, "value", view_value(m, p, site));
	if (view_error(m, p, site, &error))
		json_write_key_uint(w, "error95", error);
	json_write_key_uint(w, "end_bytes", measure_of_site(whole ? whole : s, left));
	json_write_key_uint(w, "end_blocks",
			    measure_of_site(whole ? whole : s, measures[left].blocks));
	/* A part of the run has no peak of its own, but the whole run has. */
	model_json_site(w, &q->limits, part->whole, &shown, false);
	if (lived)
		model_json_lifetime(w, p, &lived->lifetime);
	view_write_trend(w, "trend", part->whole, whole);
	write_freed_by(w, q, p, s->id);
	json_write_object_end(w);
}

static int write_sites(FILE *out, const struct view_query *q, const struct view_part *part,
		       const struct view_measure *m)
{
	const struct profile *p = part->p;
	bool *found = q->search ? search_nodes(q, p) : NULL;
	struct sorted *list = malloc(((size_t)p->site_count + 1) * sizeof *list);
	uint32_t count = 0;
	if (!list || (q->search && !found)) {
		free(found);
		free(list);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		if (!found || (node != PROFILE_NONE && found[node]))
			list[count++] = (struct sorted){sort_key(q, m, part, i), i};
	}
	qsort(list, count, sizeof *list, greatest_first);
	uint32_t shown = count < q->rows ? count : q->rows;
	uint32_t *sites = malloc(((size_t)shown + 1) * sizeof *sites);
	for (uint32_t i = 0; sites && i < shown; i++)
		sites[i] = list[i].site;
	struct site_callers *callers = sites ? site_callers_new(p, sites, shown) : NULL;
	if (!callers) {
		free(sites);
		free(found);
		free(list);
		return HEFT_ENOMEM;
	}
	struct json_writer w;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_uint(&w, "count", count);
	json_write_key_uint(&w, "sum", view_sum(m, p));
	json_write_key(&w, "rows");
	json_write_array(&w);
	for (uint32_t i = 0; i < shown; i++)
		write_row(&w, q, part, m, list[i].site, site_callers_text(callers, i));
	json_write_array_end(&w);
	json_write_object_end(&w);
	site_callers_free(callers);
	free(sites);
	free(found);
	free(list);
	return 0;
}

int view_sites(FILE *out, struct view_recording *r, const struct view_query *q,
	       struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct view_measure m;
	int rc = view_recording_part(r, q, VIEW_NO_SIZES, &part, err);
	if (rc < 0)
		return rc;
	rc = view_measure_of(&m, q, part->p, err);
	if (rc == 0 && write_sites(out, q, part, &m) < 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this table");
	view_part_drop(part);
	return rc;
}

/* ---- one of them */

static void write_releases(struct json_writer *w, const struct view_query *q,
			   const struct profile *p, const struct profile_site *s)
{
	uint64_t all = 0;
	for (uint32_t i = 0; i < s->release_count; i++)
		all += p->behaviour.releases[s->release_first + i].samples;
	json_write_key(w, "freed_by");
	json_write_array(w);
	for (uint32_t i = 0; all && i < s->release_count && i < RELEASES_SHOWN; i++) {
		const struct profile_release *x = &p->behaviour.releases[s->release_first + i];
		json_write_object(w);
		json_write_key(w, "share");
		json_write_real(w, (double)x->samples / (double)all);
		view_write_stack(w, q, p, "stack", x->node);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static void write_handover(struct json_writer *w, const struct profile *p,
			   const struct profile_site *s)
{
	const struct profile_handover *h = s->handover < p->behaviour.handover_count
						   ? &p->behaviour.handovers[s->handover]
						   : NULL;
	json_write_key(w, "handover");
	json_write_array(w);
	for (uint32_t i = 0; h && i < h->threads_count && i < HANDOVERS_SHOWN; i++)
		model_json_handover(w, p, s, &p->behaviour.handover_threads[h->threads_first + i]);
	json_write_array_end(w);
}

static void write_course(struct json_writer *w, const struct profile *p,
			 const struct profile_site *s)
{
	const struct profile_history *h = &p->behaviour.history;
	bool known = s->history < h->row_count;
	uint32_t step = known ? view_series_step(h, VIEW_SLOTS) : 0;
	view_write_times(w, "times_ns", p, step);
	view_write_series(w, "bytes", h, known ? h->rows[s->history].bytes : NULL, step);
}

static void write_first_user(struct json_writer *w, const struct profile *p, uint32_t node)
{
	uint32_t user = node == PROFILE_NONE ? node : profile_first_user_node(p, node), place = 0;
	for (; node != user && node != PROFILE_NONE; node = p->stacks.nodes[node].parent)
		place++;
	json_write_key_uint(w, "first_user", place);
}

int view_site(FILE *out, struct view_recording *r, const struct view_query *q,
	      struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct view_measure m;
	struct view_query whole = *q;
	whole.mode = VIEW_LIVE;
	whole.at = VIEW_AT_PEAK;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	const struct profile *p = part->p, *everything;
	const struct profile_site *s = view_part_site(part, q->site),
				  *recorded = recorded_site(p, q->site, &everything);
	if (!s)
		rc = heft_fail(err, HEFT_ENOTFOUND, "no site %" PRIu32 " in this %s", q->site,
			       part->site_of_id ? "process: it allocated nothing there"
						: "recording");
	/* A file of allocations alone has no live ones to show. */
	if (rc == 0 && view_measure_of(&m, &whole, p, err) < 0) {
		whole.mode = VIEW_ALLOCATED;
		rc = view_measure_of(&m, &whole, p, err);
	}
	if (rc == 0) {
		struct json_writer w;
		uint32_t site = (uint32_t)(s - p->sites);
		json_write_init(&w, out);
		json_write_object(&w);
		json_write_key(&w, "row");
		write_row(&w, q, part, &m, site, NULL);
		view_write_stack(&w, q, p, "stack", s->node);
		write_first_user(&w, p, s->node);
		write_course(&w, p, s);
		if (p->behaviour.lifetimes)
			model_json_lifetime_log2(&w, p->behaviour.lifetimes[site]);
		write_releases(&w, q, everything, recorded);
		write_handover(&w, everything, recorded);
		json_write_object_end(&w);
	}
	view_part_drop(part);
	return rc;
}
