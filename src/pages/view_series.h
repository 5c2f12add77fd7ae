/* Numbers over time, thinned to what a line of a page can show. */
#ifndef HEFT_PAGES_VIEW_SERIES_H
#define HEFT_PAGES_VIEW_SERIES_H

#include "hosted/json_writer.h"
#include "profile/profile.h"

enum { VIEW_TREND_POINTS = 60 };

/* Which slots of the history stand for `points` of them: every step-th, the last one included. */
uint32_t view_series_step(const struct profile_history *h, uint32_t points);
/* "key": [...]; values NULL: an empty list. */
void view_write_series(struct json_writer *w, const char *key, const struct profile_history *h,
		       const uint64_t *values, uint32_t step);
/* When those slots were. */
void view_write_times(struct json_writer *w, const char *key, const struct profile *p,
		      uint32_t step);
/* "key": live bytes of a site of `p` (NULL: none) over the run; empty if it has no history. */
void view_write_trend(struct json_writer *w, const char *key, const struct profile *p,
		      const struct profile_site *s);

#endif
