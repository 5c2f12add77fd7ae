/* What is live, by when it was made: for sampled profiles, which know the birth of every live sample.
 * A bar of sixteen parts of the run shows what a median does not: a leak is level, a working set stands
 * at the right end, what start-up left at the left. The sites with most bytes from the first half of
 * the run come first, because a long run keeps those. */
#include "report/report_parts.h"

#include "hosted/ranking.h"
#include "profile/estimate.h"
#include "profile/site_callers.h"
#include "report/report_words.h"

#include <stdlib.h>

enum { PARTS = 16, SITES_SHOWN = 6, INDENT = 61, NARROW = 86, NARROW_INDENT = 40 };
/* Sites below this part of what is live are not shown: no run grows by them. */
#define AGES_LEAST_SHARE 0.02

static void print_births(FILE *out, const struct profile *p, const struct profile_age *a, bool utf8)
{
	double parts[PARTS] = {0}, most = 0;
	for (uint32_t i = a->first; i < a->first + a->count; i++) {
		const struct profile_birth *b = &p->estimates.live_births.list[i];
		unsigned at = b->at < 1 ? (unsigned)(b->at * PARTS) : PARTS - 1;
		parts[at] += b->bytes;
		most = parts[at] > most ? parts[at] : most;
	}
	for (unsigned i = 0; i < PARTS; i++)
		words_print_level(out, estimate_rounded(parts[i]), estimate_rounded(most), utf8);
}

static void print_site(FILE *out, const struct profile *p, uint32_t site, const char *callers,
		       const struct report_options *o)
{
	const struct profile_age *a = &p->estimates.ages[site];
	bool narrow = report_width(o) < NARROW;
	fprintf(out, "%11s ", words_bytes(p->sites[site].live_bytes).text);
	if (!narrow)
		fprintf(out, "%11s ", words_bytes(p->estimates.errors[site].live_bytes).text);
	fprintf(out, "%8s ", words_duration(a->p50_ns).text);
	if (!narrow)
		fprintf(out, "%8s ", words_percent(a->old_share).text);
	putc(' ', out);
	print_births(out, p, a, o->utf8);
	fputs("  ", out);
	report_print_site(out, p, &p->sites[site], callers,
			  report_width(o) - (narrow ? NARROW_INDENT : INDENT));
	putc('\n', out);
}

static void print_head(FILE *out, const struct report_options *o)
{
	bool narrow = report_width(o) < NARROW;
	words_style(out, o->color, STYLE_BOLD);
	putc('\n', out);
	words_print_wrapped(out,
			    "Live memory by age (bars span the run: an even bar is growth, one at "
			    "the right end a working set)",
			    0, report_width(o));
	words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, "\n%11s ", "live");
	if (!narrow)
		fprintf(out, "%11s ", "+-95 %");
	fprintf(out, "%8s ", "age p50");
	if (!narrow)
		fprintf(out, "%8s ", "old");
	fprintf(out, " %-*s  site\n", PARTS, "made");
}

int report_print_ages(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (!p->estimates.ages || !o->limit)
		return 0;
	struct ranked *list = malloc(((size_t)p->site_count + 1) * sizeof *list);
	uint32_t count = 0;
	if (!list)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (!measure_is_rough(p, i, MEASURE_LIVE_BYTES) &&
		    (double)p->sites[i].live_bytes >=
			    AGES_LEAST_SHARE * (double)p->totals.live_bytes)
			list[count++] = (struct ranked){rank_value(p->estimates.ages[i].old_share *
								   (double)p->sites[i].live_bytes),
							i};
	rank_greatest_first(list, count);
	if (count)
		print_head(out, o);
	uint32_t sites[SITES_SHOWN], shown = 0;
	for (; shown < count && shown < SITES_SHOWN && shown < o->limit; shown++)
		sites[shown] = list[shown].index;
	struct site_callers *callers = site_callers_new(p, sites, shown);
	for (uint32_t i = 0; i < shown; i++)
		print_site(out, p, sites[i], site_callers_text(callers, i), o);
	site_callers_free(callers);
	free(list);
	return 0;
}
