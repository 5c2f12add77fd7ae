/* Thinning takes every n-th state instead of means: a state is something that was,
 * and the lines of several sites then still add up to that of all. */
#include "pages/view_series.h"

uint32_t view_series_step(const struct profile_history *h, uint32_t points)
{
	if (!points)
		points = 1;
	return h->slot_count / points + (h->slot_count % points != 0);
}

/* The first slot such that the last one is among them. */
static uint32_t first_slot(const struct profile_history *h, uint32_t step)
{
	return step ? (h->slot_count - 1) % step : 0;
}

void view_write_series(struct json_writer *w, const char *key, const struct profile_history *h,
		       const uint64_t *values, uint32_t step)
{
	json_write_key(w, key);
	json_write_array(w);
	if (values && h->slot_count && step)
		for (uint32_t i = first_slot(h, step); i < h->slot_count; i += step)
			json_write_uint(w, values[i]);
	json_write_array_end(w);
}

void view_write_times(struct json_writer *w, const char *key, const struct profile *p,
		      uint32_t step)
{
	const struct profile_history *h = &p->behaviour.history;
	json_write_key(w, key);
	json_write_array(w);
	if (h->slot_count && step)
		for (uint32_t i = first_slot(h, step); i < h->slot_count; i += step)
			json_write_uint(w, h->start_ns + (uint64_t)(i + 1) * h->slot_ns);
	json_write_array_end(w);
}

void view_write_trend(struct json_writer *w, const char *key, const struct profile *p,
		      const struct profile_site *s)
{
	const struct profile_history *h = &p->behaviour.history;
	bool known = s && s->history < h->row_count;
	view_write_series(w, key, h, known ? h->rows[s->history].bytes : NULL,
			  view_series_step(h, VIEW_TREND_POINTS));
}
