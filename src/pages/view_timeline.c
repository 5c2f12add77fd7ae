/* The document "timeline": live heap over time, of everything and of the sites with
 * the greatest part of the peak; resident memory.
 *
 * Besides the history's slots there are points at the start, at the peak and at the
 * end: what was live there is known for every site, and a line that misses its own
 * peak would belie the number beside it.
 *
 * What processes left at their exits stands apart: they ended one after the other, so
 * it was never there at one instant.
 *
 * If processes were chosen it is theirs, from the start of the first to the end of the last.
 *
 * Invariant: every list has as many entries as there are times. */
#include "hosted/ranking.h"
#include "profile/site_callers.h"
#include "pages/view_documents.h"
#include "pages/view_names.h"
#include "pages/view_series.h"

#include <stdio.h>
#include <stdlib.h>

enum { TOP_SITES = 5, RSS_POINTS = 600, MOST_MARKS = 500, MOST_REGIONS = 100 };

enum point_kind { POINT_START, POINT_SLOT, POINT_PEAK, POINT_END };

struct point {
	uint64_t time_ns;
	enum point_kind kind;
	uint32_t slot;
};

struct line {
	const struct profile *p;
	uint64_t start_ns, end_ns; /* of the chosen processes, or of the recording */
	struct point *points;
	uint32_t count, step;
};

static void add_point(struct line *l, uint64_t time_ns, enum point_kind kind, uint32_t slot)
{
	l->points[l->count++] = (struct point){time_ns, kind, slot};
}

static int lay_points(struct line *l, uint32_t slots)
{
	const struct profile *p = l->p;
	const struct profile_history *h = &p->behaviour.history;
	bool peak_due = true;
	l->step = view_series_step(h, slots);
	l->points = malloc(((size_t)h->slot_count + 5) * sizeof *l->points);
	if (!l->points)
		return HEFT_ENOMEM;
	/* Another tool's file, or a sampled recording, has no history and no line. */
	if (!p->recorded.sites || p->run.rate_bytes || !p->run.duration_ns)
		return 0;
	add_point(l, l->start_ns, POINT_START, 0);
	for (uint32_t i = l->step ? (h->slot_count - 1) % l->step : 0; i < h->slot_count;
	     i += l->step) {
		uint64_t time = h->start_ns + (uint64_t)(i + 1) * h->slot_ns;
		if (peak_due && p->totals.peak_time_ns < time)
			add_point(l, p->totals.peak_time_ns, POINT_PEAK, i);
		peak_due = peak_due && p->totals.peak_time_ns >= time;
		if (time < l->end_ns && time != p->totals.peak_time_ns)
			add_point(l, time, POINT_SLOT, i);
	}
	if (peak_due)
		add_point(l, p->totals.peak_time_ns, POINT_PEAK, h->slot_count);
	add_point(l, l->end_ns, POINT_END, h->slot_count);
	return 0;
}

static void write_line(struct json_writer *w, const char *key, const struct line *l,
		       const uint64_t *slots, uint64_t peak, uint64_t end)
{
	uint32_t count = l->p->behaviour.history.slot_count;
	if (l->p->stacks.lender && slots && count) /* of several, what the last one left */
		end = slots[count - 1];
	json_write_key(w, key);
	json_write_array(w);
	for (uint32_t i = 0; i < l->count; i++) {
		const struct point *x = &l->points[i];
		json_write_uint(w, x->kind == POINT_START  ? 0
				   : x->kind == POINT_PEAK ? peak
				   : x->kind == POINT_END  ? end
				   : slots                 ? slots[x->slot]
							   : 0);
	}
	json_write_array_end(w);
}

static void write_site(struct json_writer *w, const struct view_query *q, const struct line *l,
		       const struct profile_site *s, const char *callers)
{
	const struct profile *p = l->p;
	const struct profile_history *h = &p->behaviour.history;
	json_write_object(w);
	json_write_key_uint(w, "site", s->id);
	json_write_key(w, "place");
	view_write_place(w, q, p, s->node);
	model_json_key_name(w, &q->limits, "callers", callers);
	write_line(w, "bytes", l, s->history < h->row_count ? h->rows[s->history].bytes : NULL,
		   s->peak_bytes, s->live_bytes);
	json_write_key_uint(w, "left_bytes", s->left_bytes);
	json_write_object_end(w);
}

static void write_sites(struct json_writer *w, const struct view_query *q, const struct line *l)
{
	const struct profile *p = l->p;
	uint32_t sites[TOP_SITES], shown = 0;
	/* By peak: so they are ordered. One without a history would seem to come from nowhere. */
	for (uint32_t i = 0; l->count && i < p->site_count && shown < TOP_SITES; i++)
		if (p->sites[i].peak_bytes &&
		    (!p->behaviour.history.slot_count ||
		     p->sites[i].history < p->behaviour.history.row_count))
			sites[shown++] = i;
	struct site_callers *callers = site_callers_new(p, sites, shown);
	json_write_key(w, "rows");
	json_write_array(w);
	for (uint32_t i = 0; i < shown; i++)
		write_site(w, q, l, &p->sites[sites[i]], site_callers_text(callers, i));
	json_write_array_end(w);
	site_callers_free(callers);
}

/* Takes the greatest of each stretch: readers look for how far it went. */
static void write_rss(struct json_writer *w, const struct profile *p)
{
	uint32_t step = p->run.rss_count / RSS_POINTS + 1;
	json_write_key(w, "rss");
	json_write_array(w);
	for (uint32_t i = 0; i < p->run.rss_count; i += step) {
		const struct profile_rss *greatest = &p->run.rss[i];
		for (uint32_t k = i; k < i + step && k < p->run.rss_count; k++)
			if (p->run.rss[k].bytes > greatest->bytes)
				greatest = &p->run.rss[k];
		json_write_object(w);
		json_write_key_uint(w, "time_ns", greatest->time_ns);
		json_write_key_uint(w, "bytes", greatest->bytes);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static double rate(uint64_t events, uint64_t ns)
{
	return ns ? (double)events * 1e9 / (double)ns : 0;
}

/* Events a second in the stretch of slots that ends at each point. */
static void write_events(struct json_writer *w, const struct line *l)
{
	const struct profile *p = l->p;
	const struct profile_history *h = &p->behaviour.history;
	/* The file's events are more: what is live when a process ends, ends too. */
	uint64_t calls = p->totals.allocations + p->totals.reallocations + p->totals.frees;
	json_write_key(w, "events");
	json_write_array(w);
	for (uint32_t i = 0; h->events && h->slot_count && i < l->count; i++) {
		uint32_t slot = l->points[i].slot;
		double value;
		if (slot >= h->slot_count) {
			/* The time after the last slot may be nearly nothing: a rate of that alone says little. */
			uint32_t from = h->slot_count > l->step ? h->slot_count - 1 - l->step
								: UINT32_MAX;
			uint64_t before = from == UINT32_MAX ? 0 : h->events[from];
			uint64_t since_ns = h->start_ns + (uint64_t)(from + 1) * h->slot_ns;
			value = l->end_ns > since_ns && calls >= before && !p->stacks.lender
					? rate(calls - before, l->end_ns - since_ns)
					: 0;
		} else {
			uint32_t from = slot >= l->step ? slot - l->step : UINT32_MAX;
			uint64_t before = from == UINT32_MAX ? 0 : h->events[from];
			value = rate(h->events[slot] - before,
				     (uint64_t)(slot - from) * h->slot_ns);
		}
		json_write_uint(w, (uint64_t)(value + 0.5));
	}
	json_write_array_end(w);
}

/* A limit that is far away would flatten everything under it. */
static uint64_t near_limit(const struct profile *p)
{
	uint64_t most = p->totals.peak_rss_bytes > p->totals.peak_bytes ? p->totals.peak_rss_bytes
									: p->totals.peak_bytes;
	return p->run.memory_limit_bytes / 4 <= most ? p->run.memory_limit_bytes : 0;
}

/* Of very many marks every n-th. */
static void write_marks(struct json_writer *w, const struct view_query *q, const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	uint32_t step = (r->mark_count + MOST_MARKS - 1) / MOST_MARKS;
	json_write_key(w, "marks");
	json_write_array(w);
	for (uint32_t i = 0; i < r->mark_count; i += step) {
		json_write_object(w);
		json_write_key_uint(w, "time_ns", r->marks[i].time_ns);
		model_json_key_name(w, &q->limits, "name", r->marks[i].name);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

/* The longest regions: others are too short to be seen. */
static int write_regions(struct json_writer *w, const struct view_query *q, const struct profile *p)
{
	const struct profile_remarks *r = &p->remarks;
	struct ranked *list = malloc(((size_t)r->region_count + 1) * sizeof *list);
	if (!list)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < r->region_count; i++)
		list[i] = (struct ranked){r->regions[i].end_ns - r->regions[i].begin_ns, i};
	rank_greatest_first(list, r->region_count);
	json_write_key(w, "regions");
	json_write_array(w);
	for (uint32_t i = 0; i < r->region_count && i < MOST_REGIONS; i++) {
		const struct profile_region *g = &r->regions[list[i].index];
		json_write_object(w);
		json_write_key_uint(w, "begin_ns", g->begin_ns);
		json_write_key_uint(w, "end_ns", g->end_ns);
		model_json_key_name(w, &q->limits, "name", g->name);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	free(list);
	return 0;
}

int view_timeline(FILE *out, struct view_recording *r, const struct view_query *q,
		  struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	struct line l = {.p = part->p};
	view_span(part, &l.start_ns, &l.end_ns);
	rc = lay_points(&l, q->slots);
	if (rc == 0) {
		json_write_init(&w, out);
		json_write_object(&w);
		json_write_key_uint(&w, "from_ns", l.start_ns);
		json_write_key_uint(&w, "to_ns", l.end_ns);
		json_write_key(&w, "times_ns");
		json_write_array(&w);
		for (uint32_t i = 0; i < l.count; i++)
			json_write_uint(&w, l.points[i].time_ns);
		json_write_array_end(&w);
		write_line(&w, "bytes", &l, l.p->behaviour.history.bytes, l.p->totals.peak_bytes,
			   l.p->totals.live_bytes);
		json_write_key_uint(&w, "left_bytes", l.p->totals.left_bytes);
		write_sites(&w, q, &l);
		write_rss(&w, l.p);
		write_events(&w, &l);
		write_marks(&w, q, l.p);
		rc = write_regions(&w, q, l.p);
		json_write_key_uint(&w, "limit_bytes", near_limit(l.p));
		json_write_object_end(&w);
	}
	if (rc < 0) {
		heft_fail(err, rc, "not enough memory for the timeline");
	}
	free(l.points);
	view_part_drop(part);
	return rc;
}
