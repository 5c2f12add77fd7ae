/* Thinning takes every n-th state instead of means: a state is something that was,
 * and the lines of several sites then still add up to that of all. A trend stands alone and is
 * small: of the states that become one point it keeps the greatest, so that a short peak is seen.
 * Its last point is the last state. */
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
	const uint64_t *values = s && s->history < h->row_count ? h->rows[s->history].bytes : NULL;
	uint32_t step = view_series_step(h, VIEW_TREND_POINTS - 1);
	json_write_key(w, key);
	json_write_array(w);
	for (uint32_t i = 0; values && step && i + 1 < h->slot_count;) {
		uint64_t most = 0;
		for (uint32_t k = 0; k < step && i + 1 < h->slot_count; k++, i++)
			most = values[i] > most ? values[i] : most;
		json_write_uint(w, most);
	}
	if (values && h->slot_count)
		json_write_uint(w, values[h->slot_count - 1]);
	json_write_array_end(w);
}
