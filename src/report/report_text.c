/* The text report: a block of totals, what is wrong with the recording, the findings, the top sites
 * with their callers, and the next command to try; and what all views have in common.
 *
 * Numbers that a file does not have are left out (profile.h, enum profile_has), not shown as 0.
 * Totals and columns depend on the span: a whole run shows what was at the peak, a window what grew
 * in it, an instant what was live then. */
#include "report/report_parts.h"

#include "profile/estimate.h"
#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "profile/site_callers.h"
#include "report/report_ledger.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WIDTH = 100, NARROWEST = 72, MOST_COLUMNS = 5, WIDE_ENOUGH = 80, ROW_INDENT = 16 };

size_t report_width(const struct report_options *o)
{
	if (!o->width)
		return DEFAULT_WIDTH;
	return o->width < NARROWEST ? NARROWEST : o->width;
}

bool report_is_selection(const struct report_options *o)
{
	return o->span != REPORT_WHOLE || o->selection || o->focus || o->ignore;
}

static void print_lines(FILE *out, const struct report_options *o, size_t indent, const char *fmt,
			va_list args)
{
	char *text;
	if (vasprintf(&text, fmt, args) < 0)
		return;
	words_print_wrapped(out, text, indent, report_width(o));
	putc('\n', out);
	free(text);
}

void report_print_prose(FILE *out, const struct report_options *o, size_t indent, const char *fmt,
			...)
{
	va_list args;
	va_start(args, fmt);
	print_lines(out, o, indent, fmt, args);
	va_end(args);
}

/* Prints a label and its text, in as many lines as the text takes. */
__attribute__((format(printf, 4, 5))) static void row(FILE *out, const struct report_options *o,
						      const char *label, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fprintf(out, "  %-13s ", label);
	print_lines(out, o, ROW_INDENT, fmt, args);
	va_end(args);
}

/* "at 6 us (30 % of the run)" */
static struct words when(const struct profile *p, uint64_t time_ns)
{
	struct words w;
	char share[24] = "";
	if (p->run.duration_ns && time_ns <= p->run.duration_ns)
		snprintf(share, sizeof share, " (%.0f %% of the run)",
			 100 * (double)time_ns / (double)p->run.duration_ns);
	snprintf(w.text, sizeof w.text, "at %.12s%s", words_duration(time_ns).text, share);
	return w;
}

void report_print_note(FILE *out, const struct report_options *o, bool warning, const char *text)
{
	words_style(out, o->color, warning ? STYLE_WARN : STYLE_DIM);
	fputs(warning ? "  ! " : "  - ", out);
	words_print_wrapped(out, text, 4, report_width(o));
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
}

void report_print_warnings(FILE *out, const struct profile *p, const struct report_options *o)
{
	bool runtime = false; /* a note of the findings says whose memory it is */
	for (uint32_t i = 0; o->findings && i < findings_note_count(o->findings); i++)
		runtime |= strcmp(findings_note(o->findings, i)->about, "runtime") == 0;
	for (uint32_t i = 0; i < p->note_count; i++) {
		const char *text = p->notes[i].text;
		if (p->notes[i].kind != PROFILE_NOTE_WARNING)
			continue;
		/* The second line guesses why memory is not seen. */
		char *first = runtime && text == p->unseen ? strndup(text, strcspn(text, "\n"))
							   : NULL;
		report_print_note(out, o, true, first ? first : text);
		free(first);
	}
}

void report_print_selection(FILE *out, const struct report_options *o)
{
	bool also = o->focus || o->ignore;
	if (!o->selection && !also)
		return;
	row(out, o, "only", "%s%s%s%s%s%s%s%s%s", o->selection ? o->selection : "",
	    o->selection && also ? ", " : "", o->focus ? "stacks that match '" : "",
	    o->focus ? o->focus : "", o->focus ? "'" : "", o->focus && o->ignore ? ", " : "",
	    o->ignore ? "no stacks that match '" : "", o->ignore ? o->ignore : "",
	    o->ignore ? "'" : "");
}

void report_print_title(FILE *out, const struct profile *p, const struct report_options *o,
			const char *what)
{
	size_t taken = *what ? strlen(what) + 2 : 0, width = report_width(o);
	words_style(out, o->color, STYLE_BOLD);
	size_t room = width > taken + 12 ? width - taken : 12;
	if (p->run.argc)
		words_print_command(out, p->run.argv, p->run.argc, room);
	else if (o->path)
		words_print_fit(out, o->path, room);
	words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, "%s%s\n", *what ? ": " : "", what);
}

void report_print_next(FILE *out, const struct report_options *o, const char *option,
		       const char *why)
{
	char *command = NULL;
	size_t size;
	FILE *text = o->path ? open_memstream(&command, &size) : NULL;
	if (!text)
		return;
	fprintf(text, "heft report %s%s%s%s", o->again ? o->again : "", o->again ? " " : "", option,
		*option ? " " : "");
	words_print_shell(text, o->path);
	fclose(text);
	putc('\n', out);
	if (command)
		words_print_next(out, command, why, report_width(o));
	free(command);
}

void report_print_option(FILE *out, const char *option, const char *value)
{
	if (!value)
		return;
	fprintf(out, "%s ", option);
	words_print_shell(out, value);
	putc(' ', out);
}

void report_print_span(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (o->span == REPORT_WINDOW)
		row(out, o, "window", "from %s to %s: %s of the run",
		    words_duration(o->from_ns).text, words_duration(o->to_ns).text,
		    words_share(o->to_ns - o->from_ns, p->run.duration_ns).text);
	else if (o->span == REPORT_INSTANT && o->moment)
		row(out, o, "moment", "%s%s%s", o->moment,
		    p->run.has & PROFILE_HAS_TIMES && !o->timeless ? ", " : "",
		    p->run.has & PROFILE_HAS_TIMES && !o->timeless ? when(p, o->to_ns).text : "");
	else if (o->span == REPORT_INSTANT)
		row(out, o, "moment", "what was live %s", when(p, o->to_ns).text);
}

void report_print_shrunk(FILE *out, const struct profile *p, const struct report_options *o)
{
	uint64_t by = 0, sites = 0;
	for (uint32_t i = 0; i < p->site_count && o->sort == MEASURE_GREW_BYTES; i++) {
		const struct profile_site *s = &p->sites[i];
		sites += s->start_bytes > s->live_bytes;
		by += s->start_bytes > s->live_bytes ? s->start_bytes - s->live_bytes : 0;
	}
	if (sites)
		row(out, o, "left out", "%s site%s that shrank, by %s; all sites together grew %s",
		    words_count(sites).text, sites == 1 ? "" : "s", words_bytes(by).text,
		    words_growth(p->totals.start_bytes, p->totals.live_bytes).text);
}

static void print_allocations(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	uint64_t span_ns = o->span == REPORT_WINDOW ? o->to_ns - o->from_ns : p->run.duration_ns;
	char rate[64] = "", more[64] = "";
	if (p->run.has & PROFILE_HAS_TIMES)
		snprintf(rate, sizeof rate, " (%s)", words_rate(t->allocations, span_ns).text);
	if (t->reallocations)
		snprintf(more, sizeof more, "; %s reallocation%s",
			 words_count(t->reallocations).text, t->reallocations == 1 ? "" : "s");
	const struct profile_errors *e = p->estimates.errors ? &p->estimates.total_errors : NULL;
	row(out, o, "allocations", "%s%s%s, %s%s in all%s", words_count(t->allocations).text,
	    e ? words_within_count(e->allocations).text : "", rate,
	    words_bytes(t->allocated_bytes).text, e ? words_within(e->allocated_bytes).text : "",
	    more);
}

/* Where the numbers come from: a run, or a file of another tool. */
static void print_source(FILE *out, const struct profile *p, const struct report_options *o)
{
	char pid[24] = "";
	if (p->run.pid)
		snprintf(pid, sizeof pid, ", pid %" PRId32, p->run.pid);
	if (p->run.format && strcmp(p->run.format, "heft") != 0)
		row(out, o, "file", "%s%s", p->run.format, pid);
	else
		row(out, o, "ran", "%s, %s%s", words_duration(p->run.duration_ns).text,
		    words_end(p).text, pid);
	if (p->run.rate_bytes)
		row(out, o, "sampled", "one sample per %s on average; numbers are estimates%s",
		    words_bytes(p->run.rate_bytes).text,
		    p->estimates.errors ? ", within +- of the truth in 95 % of cases" : "");
	if (p->run.rate_bytes && p->estimates.errors)
		row(out, o, "not seen",
		    "a site of less than %s may be missing, and others may be too low by as much",
		    words_bytes(estimate_rounded(estimate_unseen_bytes(p->run.rate_bytes))).text);
}

static struct words blocks_within(const struct profile *p, uint64_t blocks, uint64_t error)
{
	struct words w = words_blocks(blocks);
	if (p->estimates.errors)
		snprintf(w.text, sizeof w.text, "%.14s%.14s blocks", words_count(blocks).text,
			 words_within_count(error).text);
	return w;
}

/* What was not freed. Several processes show what each left, because most of them are gone when the
 * recording ends. */
static void print_end(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	bool left = profile_is_of_several(p) && o->span == REPORT_WHOLE;
	const struct profile_errors *e = &p->estimates.total_errors;
	uint64_t blocks = left ? t->left_blocks : t->live_blocks;
	bool lacks = p->run.has & PROFILE_LACKS_BLOCKS;
	row(out, o,
	    left                     ? "left at exit"
	    : profile_is_snapshot(p) ? "live"
				     : "live at end",
	    "%s%s%s%s%s", words_bytes(left ? t->left_bytes : t->live_bytes).text,
	    words_error(p, left ? e->left_bytes : e->live_bytes).text, lacks ? "" : " in ",
	    lacks ? "" : blocks_within(p, blocks, left ? e->left_blocks : e->live_blocks).text,
	    o->span == REPORT_WINDOW ? " (of the window)" : "");
}

static void print_threads(FILE *out, const struct profile *p, const struct report_options *o)
{
	uint32_t processes = profile_count_processes(p);
	uint64_t threads = p->run.has & PROFILE_HAS_THREADS ? profile_count_threads(p) : 0;
	if (threads && processes)
		row(out, o, "threads", "%s in %s", words_count(threads).text,
		    words_processes(processes).text);
	else if (threads)
		row(out, o, "threads", "%s", words_count(threads).text);
	else if (processes > 1)
		row(out, o, "processes", "%s", words_count(processes).text);
}

/* Most programs get heft's library, which needs no word. */
static void print_way(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (p->run.way && !p->run.attached && strcmp(p->run.way, "entry") == 0)
		row(out, o, "recorded", "by hooks at the entries of its allocator");
}

/* What the program had before is in none of the numbers, unless it was listed. */
static void print_attached(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (p->run.attached && p->run.rate_bytes)
		row(out, o, "attached", "while it ran: what it had before is not known");
	else if (p->run.attached && p->run.older_listed)
		row(out, o, "attached", "while it ran: blocks from before are a site of their own");
	else if (p->run.attached)
		row(out, o, "attached",
		    "while it ran: it freed %s from before, others are not known",
		    words_blocks(p->totals.older_frees).text);
}

/* Where the memory is, if somebody looked while the process ran. */
static void print_ledger(FILE *out, const struct profile *p, const struct report_options *o)
{
	char text[400];
	const char *name = report_ledger_row(p, text, sizeof text);
	if (name && o->span != REPORT_WINDOW)
		row(out, o, name, "%s", text);
}

static void print_totals(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	bool window = o->span == REPORT_WINDOW, times = p->run.has & PROFILE_HAS_TIMES;
	report_print_title(out, p, o, "");
	print_source(out, p, o);
	print_way(out, p, o);
	print_attached(out, p, o);
	report_print_span(out, p, o);
	report_print_selection(out, o);
	if (o->span == REPORT_INSTANT) {
		bool lacks = p->run.has & PROFILE_LACKS_BLOCKS;
		const struct profile_errors *e = &p->estimates.total_errors;
		row(out, o, "live", "%s%s%s%s", words_bytes(t->live_bytes).text,
		    words_error(p, e->live_bytes).text, lacks ? "" : " in ",
		    lacks ? "" : blocks_within(p, t->live_blocks, e->live_blocks).text);
		report_print_warnings(out, p, o);
		return;
	}
	if (p->run.has & PROFILE_HAS_ALLOCATED)
		print_allocations(out, p, o);
	if (window)
		row(out, o, "grew", "%s, from %s in %s at its start",
		    words_growth(t->start_bytes, t->live_bytes).text,
		    words_bytes(t->start_bytes).text, words_blocks(t->start_blocks).text);
	if (p->run.has & PROFILE_HAS_PEAK)
		row(out, o, "peak", "%s%s in %s%s%s", words_bytes(t->peak_bytes).text,
		    words_error(p, p->estimates.total_errors.peak_bytes).text,
		    blocks_within(p, t->peak_blocks, p->estimates.total_errors.peak_blocks).text,
		    times ? " " : "", times ? when(p, t->peak_time_ns).text : "");
	if (p->run.has & PROFILE_HAS_LIVE)
		print_end(out, p, o);
	if (p->run.has & PROFILE_HAS_TEMPORARY)
		row(out, o, "temporary", "%s (%s of allocations)", words_count(t->temporary).text,
		    words_share(t->temporary, t->allocations).text);
	/* heft agent looks about once a second, and cannot ask the kernel once the process is gone. */
	if (t->peak_rss_bytes)
		row(out, o, "peak RSS", "%s%s",
		    p->run.rate_bytes && p->run.rss_was_seen ? "at least " : "",
		    words_bytes(t->peak_rss_bytes).text);
	print_ledger(out, p, o);
	if (p->run.has & PROFILE_HAS_MAPPED)
		row(out, o, "mapped", "%s in %s mapping%s when most was; %s when it ended",
		    words_bytes(t->mapped_bytes).text, words_count(t->mapped_pieces).text,
		    t->mapped_pieces == 1 ? "" : "s", words_bytes(t->mapped_left_bytes).text);
	print_threads(out, p, o);
	if (t->unknown_frees)
		row(out, o, "unknown frees", "%s (of blocks that heft never saw allocated)",
		    words_count(t->unknown_frees).text);
	report_print_warnings(out, p, o);
}

/* ---- sites */

enum column { SORTED, SHARE, COUNT, CALLS, BYTES, GREW, LIVE, ERROR95, SAMPLES, AGE };

struct columns {
	enum column of[MOST_COLUMNS];
	size_t count;
};

static struct words value_of(uint64_t value, enum measure_id sort)
{
	return sort == MEASURE_GREW_BYTES ? words_growth(0, value) : words_value(value, sort);
}

static struct columns choose_columns(const struct profile *p, const struct report_options *o)
{
	if (o->span == REPORT_INSTANT && p->estimates.errors)
		return (struct columns){{SORTED, ERROR95, SHARE, COUNT, SAMPLES}, 5};
	if (o->span == REPORT_INSTANT)
		return (struct columns){{SORTED, SHARE, COUNT},
					p->run.has & PROFILE_LACKS_BLOCKS ? 2 : 3};
	if (o->span == REPORT_WINDOW && o->sort == MEASURE_GREW_BYTES)
		return (struct columns){{SORTED, LIVE, BYTES, CALLS}, 4};
	if (o->span == REPORT_WINDOW)
		return (struct columns){{SORTED, GREW, o->sort == MEASURE_LIVE_BYTES ? BYTES : LIVE,
					 o->sort == MEASURE_ALLOCATIONS ? BYTES : CALLS},
					4};
	if (p->estimates.errors)
		return (struct columns){{SORTED, ERROR95, SHARE, SAMPLES, AGE},
					p->estimates.ages && report_width(o) >= WIDE_ENOUGH ? 5
											    : 4};
	struct columns columns = {{SORTED, SHARE}, 2};
	bool moment = measures[o->sort].kind == MEASURE_AT_MOMENT;
	if (moment && !(p->run.has & PROFILE_LACKS_BLOCKS))
		columns.of[columns.count++] = COUNT;
	if (o->sort == MEASURE_ALLOCATIONS)
		columns.of[columns.count++] = BYTES;
	else if (p->run.has & PROFILE_HAS_ALLOCATED && o->sort != MEASURE_MAPPED_BYTES)
		columns.of[columns.count++] = CALLS;
	return columns;
}

static const char *column_name(enum column c, enum measure_id sort)
{
	switch (c) {
	case SORTED: return measures[sort].option;
	case SHARE: return sort == MEASURE_LIFETIME ? "" : "share";
	case COUNT: return "count";
	case BYTES: return "allocated";
	case CALLS: return "calls";
	case GREW: return "grew";
	case LIVE: return "live";
	case ERROR95: return "+-95 %";
	case SAMPLES: return "samples";
	case AGE: return "age p50";
	}
	return "";
}

static struct words column_value(enum column c, const struct profile *p,
				 const struct profile_site *s, enum measure_id sort)
{
	uint64_t value = measure_of_site(s, sort);
	uint32_t site = (uint32_t)(s - p->sites);
	switch (c) {
	case SORTED: return value_of(value, sort);
	case ERROR95: return value_of(measure_error95(p, site, sort), sort);
	case SAMPLES: {
		struct words w;
		snprintf(w.text, sizeof w.text, "%s%.20s",
			 measure_is_rough(p, site, sort) ? "few: " : "",
			 words_count(measure_samples(p, site, sort)).text);
		return w;
	}
	case AGE: /* of what is live */
		return p->estimates.ages[site].count
			       ? words_duration(p->estimates.ages[site].p50_ns)
			       : (struct words){"-"};
	case SHARE:
		return sort == MEASURE_LIFETIME
			       ? (struct words){""}
			       : words_share(value, measure_of_totals(&p->totals, sort));
	case COUNT: /* blocks at the same moment as the bytes */
		return words_count(measure_of_site(s, measures[sort].blocks));
	case CALLS: /* calls that gave or resized a block */
		return words_count(s->allocations + s->reallocations);
	case BYTES: return words_bytes(s->allocated_bytes);
	case GREW: return words_growth(s->start_bytes, s->live_bytes);
	case LIVE: break;
	}
	return words_bytes(s->live_bytes);
}

static int column_width(enum column c)
{
	return c == SHARE || c == AGE ? 8 : c == SAMPLES || c == COUNT || c == CALLS ? 9 : 11;
}

static void print_about_few(FILE *out, const struct report_options *o)
{
	char text[160];
	snprintf(text, sizeof text,
		 "few: under %d samples, so the number is very uncertain; a smaller --sample rate "
		 "takes more",
		 ESTIMATE_FEW);
	report_print_note(out, o, false, text);
}

static int print_sites(FILE *out, const struct profile *p, const struct report_options *o)
{
	uint32_t *order = measure_sort_sites(p, o->sort);
	bool then = o->span == REPORT_INSTANT || profile_is_snapshot(p);
	const char *by = o->timeless                             ? "bytes left at exit"
			 : then && o->sort == MEASURE_LIVE_BYTES ? "live bytes"
								 : measures[o->sort].words;
	size_t any = p->site_count, indent = 2;
	int rc = 0;
	if (!order)
		return HEFT_ENOMEM;
	/* Sites that have 0 of the measure are not shown. */
	while (any && !measure_of_site(&p->sites[order[any - 1]], o->sort))
		any--;
	size_t shown = o->limit < any ? o->limit : any;
	if (!any)
		fprintf(out, "\nNo site has %s.\n", by);
	if (!shown) {
		free(order);
		return 0;
	}
	/* Most sites have nothing left at the end: they do not count among those to choose from. */
	bool ended = o->sort == MEASURE_LIVE_BYTES || o->sort == MEASURE_LEFT_BYTES;
	size_t sites = ended ? any : p->site_count;
	struct columns columns = choose_columns(p, o);
	words_print_styled(out, o->color, STYLE_BOLD, "\nTop %zu of %s site%s by %s\n", shown,
			   words_count(sites).text, sites == 1 ? "" : "s", by);
	for (size_t i = 0; i < columns.count; i++) {
		fprintf(out, "%*s ", column_width(columns.of[i]),
			column_name(columns.of[i], o->sort));
		indent += (size_t)column_width(columns.of[i]) + 1;
	}
	indent--;
	fputs(" site\n", out);
	struct site_callers *callers = site_callers_new(p, order, (uint32_t)shown);
	rc = callers ? 0 : HEFT_ENOMEM;
	for (size_t i = 0; i < shown && rc == 0; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		for (size_t k = 0; k < columns.count; k++)
			fprintf(out, "%*s ", column_width(columns.of[k]),
				column_value(columns.of[k], p, s, o->sort).text);
		putc(' ', out);
		rc = report_print_stack(out, p, s, site_callers_text(callers, (uint32_t)i), o,
					indent);
	}
	site_callers_free(callers);
	size_t more = (shown == any ? p->site_count : sites) - shown;
	if (rc == 0 && more)
		fprintf(out, "... %s more site%s%s\n", words_count(more).text, more == 1 ? "" : "s",
			shown == any ? " with none" : "");
	bool any_few = false;
	for (size_t i = 0; i < shown && !any_few; i++)
		any_few = measure_is_rough(p, order[i], o->sort);
	if (rc == 0 && any_few)
		print_about_few(out, o);
	free(order);
	return rc;
}

/* The question that comes next, with the command that answers it. */
static void print_next(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	if (!p->site_count) {
		struct report_options whole = *o;
		whole.again = NULL;
		if (report_is_selection(o))
			report_print_next(out, &whole, "", "the whole recording");
		return;
	}
	if (o->span == REPORT_WINDOW && o->sort == MEASURE_GREW_BYTES &&
	    t->live_bytes <= t->start_bytes)
		report_print_next(out, o, "--sort allocated", "what was allocated in the window");
	else if (o->span == REPORT_WINDOW && o->sort != MEASURE_GREW_BYTES)
		report_print_next(out, o, "--sort grew", "what grew in the window");
	else if (o->span == REPORT_WHOLE && o->sort == MEASURE_PEAK_BYTES && t->peak_bytes &&
		 p->process_count > 1 && t->left_bytes > t->peak_bytes / 4)
		report_print_next(out, o, "--sort left", "what each process left");
	else if (o->span == REPORT_WHOLE && o->sort == MEASURE_PEAK_BYTES && t->peak_bytes &&
		 t->live_bytes > t->peak_bytes / 4)
		report_print_next(out, o, "--sort live", "what is still live at the end");
	else if (o->span != REPORT_INSTANT && o->sort != MEASURE_TEMPORARY &&
		 t->temporary > t->allocations / 2)
		report_print_next(out, o, "--sort temporary", "who allocates only to free at once");
	else if (o->span == REPORT_INSTANT || o->sort != MEASURE_LIFETIME)
		report_print_next(out, o, "--tree", "the same as a tree of calls");
	else
		report_print_next(out, o, "--lifetimes", "how long blocks live, site by site");
}

int report_text(FILE *out, const struct profile *p, const struct report_options *o)
{
	print_totals(out, p, o);
	int rc = report_print_processes(out, p, o);
	if (rc == 0)
		rc = report_print_findings(out, p, o);
	if (rc == 0)
		report_print_notes(out, p, o);
	if (rc == 0)
		rc = print_sites(out, p, o);
	if (rc == 0)
		rc = report_print_ages(out, p, o);
	if (rc == 0)
		rc = report_print_remarks(out, p, o);
	if (rc == 0)
		print_next(out, p, o);
	return rc;
}
