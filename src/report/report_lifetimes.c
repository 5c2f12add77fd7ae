/* How long blocks live, site by site: median, 99th percentile, longest, and a histogram whose buckets
 * double in time. Two buckets share a column, so that a site takes one line and lines can be compared:
 * blocks that live for microseconds stand left, those that stay stand right.
 *
 * Blocks that are live at the end count with the life they had by then. Some formats have only the
 * mean. */
#include "report/report_parts.h"

#include "profile/site_callers.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	COLUMNS = PROFILE_LIFE_BUCKETS / 2,
	INDENT = 62,
	MEAN_INDENT = 22,
	ONE_LINE = 60,
	LEAST = 30,
	BELOW = 14
};

/* Bucket 2 begins at 1 us, 12 at 1 ms, 22 at 1 s, 28 at about 1 min, 34 at about 1 h. */
static const char scale[] = " 1us  1ms  1s 1m 1h ";
_Static_assert(sizeof scale - 1 == COLUMNS, "the scale stands over the histogram");

static void print_histogram(FILE *out, const uint32_t *buckets, bool utf8)
{
	uint64_t columns[COLUMNS], most = 0;
	for (int i = 0; i < COLUMNS; i++) {
		columns[i] = (uint64_t)buckets[2 * i] + buckets[2 * i + 1];
		if (columns[i] > most)
			most = columns[i];
	}
	for (int i = 0; i < COLUMNS; i++)
		words_print_level(out, columns[i], most, utf8);
}

/* Blocks whose lifetimes are known. */
static uint64_t blocks_of(const struct profile *p, const struct profile_site *s)
{
	return p->run.has & PROFILE_HAS_FREES ? s->frees + s->left_blocks : s->allocations;
}

/* "-" where none is known: in a window in which none of a site's blocks was freed. */
static struct words lifetime(const struct profile_site *s, uint64_t ns)
{
	bool none = !s->frees && !s->lifetime.max_ns && !s->lifetime.mean_ns;
	return none ? (struct words){"-"} : words_duration(ns);
}

/* How a line is laid out. */
struct layout {
	bool spread;         /* quantiles and a histogram, not only the mean */
	bool below;          /* the site has a line of its own */
	size_t indent, room; /* of the site */
};

static struct layout plan_lines(const struct profile *p, const struct report_options *o)
{
	struct layout l = {.spread = p->run.has & PROFILE_HAS_LIFETIMES};
	size_t left = l.spread ? INDENT : MEAN_INDENT, width = report_width(o);
	l.below = width < left + LEAST;
	l.indent = l.below ? BELOW : left;
	l.room = width - l.indent;
	return l;
}

static void print_head(FILE *out, const struct profile *p, const struct report_options *o,
		       const struct layout *l)
{
	const char *site = l->below ? "" : "  site";
	char what[80];
	snprintf(what, sizeof what, "lifetimes by site, ordered by %s", measures[o->sort].words);
	report_print_title(out, p, o, what);
	report_print_span(out, p, o);
	report_print_selection(out, o);
	report_print_warnings(out, p, o);
	fputs(l->spread ? "  blocks that are live at the end count as freed then\n\n"
			: "  this format records only the mean lifetime\n\n",
	      out);
	if (l->spread)
		words_print_styled(out, o->color, STYLE_BOLD, "%11s %8s %8s %8s  %s%s\n", "blocks",
				   "p50", "p99", "max", scale, site);
	else
		words_print_styled(out, o->color, STYLE_BOLD, "%11s %8s%s\n", "blocks", "mean",
				   site);
}

static void print_numbers(FILE *out, const struct profile *p, const struct profile_site *s,
			  const struct layout *l, bool utf8)
{
	const struct profile_lifetime *t = &s->lifetime;
	fprintf(out, "%11s ", words_count(blocks_of(p, s)).text);
	if (!l->spread) {
		fprintf(out, "%8s", lifetime(s, t->mean_ns).text);
		return;
	}
	fprintf(out, "%8s %8s %8s  ", lifetime(s, t->p50_ns).text, lifetime(s, t->p99_ns).text,
		lifetime(s, t->max_ns).text);
	if (p->behaviour.lifetimes)
		print_histogram(out, p->behaviour.lifetimes[s - p->sites], utf8);
	else
		fprintf(out, "%*s", COLUMNS, "");
}

/* In one line where there is space, else with what the site calls in a second one. */
static void print_site(FILE *out, const struct profile *p, const struct profile_site *s,
		       const char *callers, const struct layout *l, bool color)
{
	if (l->room >= ONE_LINE) {
		report_print_site(out, p, s, callers, l->room);
		putc('\n', out);
		return;
	}
	uint32_t called = report_called_node(p, s);
	size_t used = words_print_frame(out, p, profile_first_user_node(p, s->node),
					callers ? l->room / 2 : l->room);
	report_print_callers(out, callers, l->room - used);
	putc('\n', out);
	if (called == PROFILE_NONE)
		return;
	words_style(out, color, STYLE_DIM);
	fprintf(out, "%*s> ", (int)l->indent, "");
	words_print_short(out, profile_node_frame(p, called)->function, l->room - 2);
	words_style(out, color, STYLE_PLAIN);
	putc('\n', out);
}

int report_lifetimes(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (!(p->run.has & (PROFILE_HAS_LIFETIMES | PROFILE_HAS_MEAN_LIFETIME))) {
		report_print_title(out, p, o, "lifetimes");
		fprintf(out, "  This file does not record lifetimes.%s\n",
			p->estimates.ages ? " The report shows the ages of live blocks." : "");
		report_print_next(out, o, "", "the report");
		return 0;
	}
	uint32_t *order = measure_sort_sites(p, o->sort);
	struct layout l = plan_lines(p, o);
	size_t any = 0;
	if (!order)
		return HEFT_ENOMEM;
	/* Sites that have 0 of the measure have lifetimes too, unless they have no blocks. */
	for (uint32_t i = 0; i < p->site_count; i++)
		if (blocks_of(p, &p->sites[order[i]]))
			order[any++] = order[i];
	size_t shown = o->limit < any ? o->limit : any;
	print_head(out, p, o, &l);
	struct site_callers *callers = site_callers_new(p, order, (uint32_t)shown);
	for (size_t i = 0; i < shown; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		print_numbers(out, p, s, &l, o->utf8);
		if (l.below)
			fprintf(out, "\n%*s", BELOW, "");
		else
			fputs("  ", out);
		print_site(out, p, s, site_callers_text(callers, (uint32_t)i), &l, o->color);
	}
	site_callers_free(callers);
	if (!any)
		fputs("No site has blocks.\n", out);
	else if (shown < any)
		fprintf(out, "... %s more site%s\n", words_count(any - shown).text,
			any - shown == 1 ? "" : "s");
	free(order);
	if (o->sort == MEASURE_LIFETIME)
		report_print_next(out, o, "--lifetimes --sort count",
				  "the sites that allocate most often");
	else
		report_print_next(out, o, "--lifetimes --sort lifetime",
				  "the sites whose blocks live longest");
	return 0;
}
