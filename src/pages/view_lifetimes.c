/* The document "lifetimes": how long blocks live, and when those that live long were
 * born. The histogram is what the sites have; the heat map costs a walk over all
 * events and is there only for recordings of every allocation. */
#include "pages/view_documents.h"
#include "pages/view_heat.h"

#include "hosted/json_writer.h"

static void write_buckets(struct json_writer *w, const char *key, const uint64_t *counts)
{
	if (key)
		json_write_key(w, key);
	json_write_array(w);
	for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++)
		json_write_uint(w, counts[i]);
	json_write_array_end(w);
}

static void write_histogram(struct json_writer *w, const struct profile *p)
{
	uint64_t counts[PROFILE_LIFE_BUCKETS] = {0}, low[PROFILE_LIFE_BUCKETS];
	for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++)
		low[i] = i ? UINT64_C(256) << i : 0;
	for (uint32_t s = 0; s < p->site_count; s++)
		for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++)
			counts[i] += p->behaviour.lifetimes[s][i];
	write_buckets(w, "low_ns", low);
	write_buckets(w, "counts", counts);
	json_write_key_uint(w, "live_at_end", p->totals.live_blocks);
}

static void write_cells(struct json_writer *w, const char *key,
			const uint64_t (*cells)[PROFILE_LIFE_BUCKETS])
{
	json_write_key(w, key);
	json_write_array(w);
	for (int i = 0; i < VIEW_HEAT_BIRTHS; i++)
		write_buckets(w, NULL, cells[i]);
	json_write_array_end(w);
}

static void write_heat(struct json_writer *w, const struct view_heat *heat)
{
	uint64_t slot = heat->to_ns > heat->from_ns ? heat->to_ns - heat->from_ns : 0;
	json_write_object(w);
	json_write_key(w, "birth_ns");
	json_write_array(w);
	for (int i = 0; i < VIEW_HEAT_BIRTHS; i++)
		json_write_uint(w, heat->from_ns + (slot / VIEW_HEAT_BIRTHS + 1) * (uint64_t)i);
	json_write_array_end(w);
	write_cells(w, "cells", heat->freed);
	write_cells(w, "live", heat->live);
	json_write_object_end(w);
}

int view_lifetimes(FILE *out, struct view_recording *r, const struct view_query *q,
		   struct heft_error *err)
{
	const struct view_part *part = NULL;
	const struct view_heat *heat = NULL;
	struct json_writer w;
	struct view_query ended = *q;
	/* What is live at an instant has no lifetime yet: then it is of the whole run. */
	if (q->mode == VIEW_LIVE)
		ended.at = VIEW_AT_END;
	int rc = view_recording_part(r, &ended, VIEW_NO_SIZES, &part, err);
	if (rc < 0)
		return rc;
	if (!part->p->behaviour.lifetimes || !(part->p->run.has & PROFILE_HAS_LIFETIMES))
		rc = heft_fail(err, HEFT_EREFUSED, "%s does not record how long blocks live",
			       part->p->run.rate_bytes ? "a sampled recording" : "this file");
	if (rc == 0 && view_part_has_events(part))
		rc = view_heat_of(part, &heat, err);
	if (rc == 0) {
		json_write_init(&w, out);
		json_write_object(&w);
		write_histogram(&w, part->p);
		json_write_key(&w, "heat");
		if (heat) {
			write_heat(&w, heat);
		} else {
			json_write_null(&w);
		}
		json_write_object_end(&w);
	}
	view_part_drop(part);
	return rc;
}
