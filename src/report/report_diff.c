/* `heft diff` in words: both totals side by side, the stacks that changed, and the next command.
 *
 * "Nothing changed" is an answer too. It comes with both totals, the largest difference and the
 * threshold below which a difference counts as noise, so that the reader can judge. It is said only if
 * no measure changed. If another measure than the asked one changed, that one is named: saving a copy
 * often changes the number of allocations and not the peak. */
#include "report/report_diff.h"
#include "report/report_diff_ledger.h"

#include "hosted/program_name.h"
#include "profile/site_callers.h"
#include "report/report_parts.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS_SHOWN = 2, SITE_INDENT = 49, ERROR_ROOM = 19, LEAST_SITE = 28, LEAST_COMMAND = 30 };

/* Lifetimes differ from run to run, so they alone make no change. What is live at the end and what was
 * left are one number for one process; for several processes people mean the second. */
static bool is_shown(const struct profile_diff *d, const struct report_diff_options *o,
		     enum measure_id measure)
{
	if (o->at) /* the rest is of no moment */
		return measure == o->sort;
	bool several = profile_is_of_several(d->old) || profile_is_of_several(d->new);
	return profile_diff_has(d, measure) && measures[measure].kind != MEASURE_OF_BLOCKS &&
	       (measure != MEASURE_LIVE_BYTES || !several) &&
	       (measure != MEASURE_LEFT_BYTES || several);
}

static bool is_then(const struct report_diff_options *o, enum measure_id measure)
{
	return o->at && measure == MEASURE_LIVE_BYTES;
}

static const char *title_of(const struct report_diff_options *o, enum measure_id measure)
{
	return is_then(o, measure) ? "live" : measures[measure].title;
}

static const char *words_of(const struct report_diff_options *o, enum measure_id measure)
{
	return is_then(o, measure) ? "live bytes" : measures[measure].words;
}

/* ---- numbers */

static uint64_t whole(double value)
{
	return value < 0 ? 0 : value >= 1.8e19 ? UINT64_MAX : (uint64_t)(value + 0.5);
}

/* Divided numbers are seldom whole, and small ones would round away. */
static struct words value_words(double value, enum measure_id measure)
{
	bool whole_number = value == (double)whole(value);
	struct words w;
	switch (measures[measure].unit) {
	case MEASURE_IS_COUNT:
		if (whole_number || value >= 100)
			return words_count(whole(value));
		snprintf(w.text, sizeof w.text, "%.3g", value);
		return w;
	case MEASURE_IS_TIME: return words_duration(whole(value));
	case MEASURE_IS_BYTES: break;
	}
	if (whole_number || value >= 100)
		return words_bytes(whole(value));
	snprintf(w.text, sizeof w.text, "%.3g B", value);
	return w;
}

static struct words change_words(double change, enum measure_id measure)
{
	struct words w = value_words(fabs(change), measure), signed_w;
	if (change == 0)
		snprintf(signed_w.text, sizeof signed_w.text, "0");
	else
		snprintf(signed_w.text, sizeof signed_w.text, "%c%.36s", change < 0 ? '-' : '+',
			 w.text);
	return signed_w;
}

/* "+12.3 %"; "" if nothing changed or there was nothing. */
static struct words share_words(double change, double of)
{
	struct words w = {""};
	if (of <= 0 || change == 0)
		return w;
	double percent = 100 * change / of;
	if (fabs(percent) >= 1000)
		snprintf(w.text, sizeof w.text, "x %.3g", 1 + change / of);
	else if (fabs(percent) < 0.05)
		snprintf(w.text, sizeof w.text, "%c0.0 %%", change < 0 ? '-' : '+');
	else
		snprintf(w.text, sizeof w.text, "%+.1f %%", percent);
	return w;
}

static const char *per_words(const struct profile_diff *d, enum measure_id measure)
{
	if (!profile_diff_divides(d, measure))
		return "";
	return d->per.unit == PROFILE_PER_SECOND ? " per second" : " per operation";
}

/* Behind the label of a row: as words, "not significant" beside it would make the row too wide. */
static const char *per_sign(const struct profile_diff *d, enum measure_id measure)
{
	if (!profile_diff_divides(d, measure))
		return "";
	return d->per.unit == PROFILE_PER_SECOND ? "/s" : "/op";
}

/* ---- totals */

static struct report_options lines_of(const struct report_diff_options *o)
{
	return (struct report_options){.width = o->width, .color = o->color};
}

static void print_run(FILE *out, const char *which, const struct profile *p, const char *path,
		      const struct report_diff_options *o)
{
	const struct report_options lines = lines_of(o);
	bool color = o->color;
	char facts[160];
	if (strcmp(p->run.format, "heft")) /* other tools do not record how it ended */
		snprintf(facts, sizeof facts, "%.100s", p->run.format);
	else
		snprintf(facts, sizeof facts, "%s, %s", words_duration(p->run.duration_ns).text,
			 words_end(p).text);
	/* The command gives way, and the path stays whole: people copy it. Its folders do not count, as in
	 * messages. */
	size_t taken = strlen("old      ") + strlen(facts) + words_columns(path_file(path));
	size_t room = taken + LEAST_COMMAND < WORDS_PROSE ? WORDS_PROSE - taken : LEAST_COMMAND;
	words_style(out, color, STYLE_BOLD);
	fprintf(out, "%s  ", which);
	if (p->run.argc) {
		words_print_command(out, p->run.argv, p->run.argc, room);
		fputs("  ", out);
	}
	words_style(out, color, STYLE_PLAIN);
	fprintf(out, "%s  ", facts);
	words_style(out, color, STYLE_DIM);
	words_print(out, path, SIZE_MAX);
	words_style(out, color, STYLE_PLAIN);
	putc('\n', out);
	report_print_warnings(out, p, &lines);
}

static int label_columns(const struct profile_diff *d)
{
	return d->per.unit == PROFILE_PER_RUN ? 13 : 16;
}

/* error95: the error of the change; below 0: none. per: behind the label. */
static void print_row(FILE *out, const struct profile_diff *d, const char *label, double old,
		      double new, double error95, enum measure_id measure, const char *per)
{
	char whole_label[40];
	snprintf(whole_label, sizeof whole_label, "%s%s", label, per);
	fprintf(out, "  %-*s %12s %12s %12s", label_columns(d), whole_label,
		value_words(old, measure).text, value_words(new, measure).text,
		change_words(new - old, measure).text);
	if (profile_diff_is_estimate(d))
		fprintf(out, " %11s", error95 < 0 ? "" : value_words(error95, measure).text);
	struct words share = share_words(new - old, old);
	bool noise = new != old &&fabs(new - old) <= error95;
	if (share.text[0] || noise)
		fprintf(out, " %9s%s", share.text, noise ? "  ~ not significant" : "");
	putc('\n', out);
}

static double total_error(const struct profile_diff *d, enum measure_id measure)
{
	return profile_diff_is_estimate(d) ? profile_diff_total_error95(d, measure) : -1;
}

static void print_totals(FILE *out, const struct profile_diff *d,
			 const struct report_diff_options *o)
{
	print_run(out, "old", d->old, o->old_path, o);
	print_run(out, "new", d->new, o->new_path, o);
	const struct report_options lines = lines_of(o);
	if (o->focus || o->ignore)
		report_print_prose(out, &lines, 0,
				   "only %s%s%s%s%s%s; all numbers are of this part",
				   o->focus ? "stacks that match '" : "", o->focus ? o->focus : "",
				   o->focus ? o->ignore ? "', " : "'" : "",
				   o->ignore ? "no stacks that match '" : "",
				   o->ignore ? o->ignore : "", o->ignore ? "'" : "");
	if (o->at) {
		fprintf(out, "moment: %s", o->moment);
		if (o->at_time) {
			fputs(" at ", out);
			words_print(out, o->at, 40);
		}
		if (o->has_times)
			fprintf(out, ": %s into the old run, %s into the new one",
				words_duration(o->old_ns).text, words_duration(o->new_ns).text);
		putc('\n', out);
	}
	if (d->per.unit == PROFILE_PER_OPERATIONS)
		fprintf(out, "divided by %.10g and %.10g operations\n", d->per.old, d->per.new);
	fprintf(out, "\n  %-*s %12s %12s %12s", label_columns(d), "", "old", "new", "change");
	if (profile_diff_is_estimate(d))
		fprintf(out, " %11s", "+-95 %");
	putc('\n', out);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (is_shown(d, o, i))
			print_row(out, d, title_of(o, i), profile_diff_old(d, &d->old_total, i),
				  profile_diff_new_value(d, &d->new_total, i), total_error(d, i), i,
				  per_sign(d, i));
	if (o->sort == MEASURE_LIFETIME)
		print_row(out, d, title_of(o, o->sort), profile_diff_old(d, &d->old_total, o->sort),
			  profile_diff_new_value(d, &d->new_total, o->sort), -1, o->sort, "");
	if (d->old->totals.peak_rss_bytes && d->new->totals.peak_rss_bytes && !o->focus &&
	    !o->ignore && !o->at)
		print_row(out, d, "peak RSS", (double)d->old->totals.peak_rss_bytes,
			  (double)d->new->totals.peak_rss_bytes, -1, MEASURE_PEAK_BYTES, "");
}

/* ---- changes */

/* The side whose stack is shown: the new one, unless the stack vanished. */
static const struct profile *shown_side(const struct profile_diff *d,
					const struct profile_diff_entry *e,
					const struct profile_site **site)
{
	const struct profile *p = e->new.sites ? d->new : d->old;
	*site = &p->sites[e->new.sites ? e->new.site : e->old.site];
	return p;
}

static void print_place(FILE *out, const struct profile_diff *d, const struct profile_diff_entry *e)
{
	const struct profile_site *s;
	const struct profile *p = shown_side(d, e, &s);
	words_print_frame(out, p, profile_first_user_node(p, s->node), WORDS_PROSE / 2);
}

static void print_entry(FILE *out, const struct profile_diff *d, const struct profile_diff_entry *e,
			const char *behind, const struct report_diff_options *o,
			enum profile_change kind)
{
	const struct profile_site *s;
	const struct profile *p = shown_side(d, e, &s);
	double change = profile_diff_change(d, e, o->sort);
	bool estimate = profile_diff_is_estimate(d), noise = kind == PROFILE_INSIGNIFICANT;
	int indent = estimate ? SITE_INDENT + ERROR_ROOM : SITE_INDENT;
	words_style(out, o->color, noise ? STYLE_DIM : change > 0 ? STYLE_WARN : STYLE_BOLD);
	struct words shown = change_words(change, o->sort), marked = shown;
	if (noise)
		snprintf(marked.text, sizeof marked.text, "~ %.36s", shown.text);
	fprintf(out, "%12s", marked.text);
	if (estimate)
		fprintf(out, " %11s",
			value_words(profile_diff_error95(d, e, o->sort), o->sort).text);
	if (!noise)
		words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, " %11s %11s  %-*s  ",
		e->old.sites ? value_words(profile_diff_old(d, &e->old, o->sort), o->sort).text
			     : "-",
		e->new.sites
			? value_words(profile_diff_new_value(d, &e->new, o->sort), o->sort).text
			: "-",
		estimate ? 15 : 8, noise ? "not significant" : profile_change_name(kind));
	uint32_t user = profile_first_user_node(p, s->node);
	const struct report_options lines = lines_of(o);
	size_t width = report_width(&lines), left = (size_t)indent;
	size_t room = width > left + LEAST_SITE ? width - left : LEAST_SITE;
	words_style(out, o->color, noise ? STYLE_DIM : STYLE_BOLD);
	report_print_site_via(out, p, s, behind, room + 1);
	words_style(out, o->color, STYLE_PLAIN);
	words_style(out, o->color, STYLE_DIM);
	putc('\n', out);
	const char *last = user == PROFILE_NONE ? NULL : profile_node_frame(p, user)->function;
	unsigned callers = 0;
	for (uint32_t n = user == PROFILE_NONE ? user : p->stacks.nodes[user].parent;
	     n != PROFILE_NONE && callers < CALLERS_SHOWN; n = p->stacks.nodes[n].parent) {
		const struct profile_frame *f = profile_node_frame(p, n);
		if (!f->user || f->function == last) /* recursion says it once */
			continue;
		fprintf(out, "%*s< ", indent, "");
		words_print_frame(out, p, n, room - 2);
		putc('\n', out);
		last = f->function;
		callers++;
	}
	if (e->old.sites && e->new.sites && e->matched == PROFILE_MATCHED_INLINED)
		fprintf(out, "%*s(matched although a function was inlined or split)\n", indent, "");
	words_style(out, o->color, STYLE_PLAIN);
}

static void print_counts(FILE *out, const struct profile_diff_summary *s)
{
	static const enum profile_change order[] = {PROFILE_GROWN, PROFILE_SHRUNK, PROFILE_NEW,
						    PROFILE_VANISHED};
	const char *between = "";
	for (size_t i = 0; i < 4; i++) {
		if (!s->counts[order[i]])
			continue;
		fprintf(out, "%s%s %s", between, words_count(s->counts[order[i]]).text,
			profile_change_name(order[i]));
		between = ", ";
	}
	if (s->counts[PROFILE_INSIGNIFICANT])
		fprintf(out, "%s%s not significant", between,
			words_count(s->counts[PROFILE_INSIGNIFICANT]).text);
}

/* "  differences up to 1.0 KiB (1 % of the larger total) count as noise (--threshold)" */
static void print_noise(FILE *out, const struct profile_diff *d,
			const struct profile_diff_summary *s, const struct report_diff_options *o)
{
	const struct report_options lines = lines_of(o);
	char share[80] = "";
	if (!o->threshold.absolute)
		snprintf(share, sizeof share, " (%g %% of the %s)", 100 * o->threshold.share,
			 o->sort == MEASURE_LIFETIME ? "longer run" : "larger total");
	fputs("  ", out);
	report_print_prose(out, &lines, 2, "differences up to %s%s%s count as noise (--threshold)",
			   value_words(s->threshold, o->sort).text, per_words(d, o->sort), share);
}

static struct words words_stacks(uint32_t count)
{
	struct words w;
	snprintf(w.text, sizeof w.text, "%.20s stack%s", words_count(count).text,
		 count == 1 ? "" : "s together");
	return w;
}

/* The callers that distinguish the listed stacks of both sides. NULL: no memory. */
static struct site_callers *callers_of(const struct profile_diff *d, const uint32_t *order,
				       uint32_t count)
{
	struct site_of *list = malloc(((size_t)count + 1) * sizeof *list);
	for (uint32_t i = 0; list && i < count; i++) {
		const struct profile_site *s;
		const struct profile *p = shown_side(d, &d->entries[order[i]], &s);
		list[i] = (struct site_of){p, (uint32_t)(s - p->sites)};
	}
	struct site_callers *callers = list ? site_callers_new_among(list, count) : NULL;
	free(list);
	return callers;
}

static int print_changes(FILE *out, const struct profile_diff *d,
			 const struct report_diff_options *o, const struct profile_diff_summary *s)
{
	uint32_t *order = profile_diff_sorted(d, o->sort);
	uint32_t changes = d->count - s->counts[PROFILE_SAME];
	if (!order)
		return HEFT_ENOMEM;
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "\nBy %s%s: ", words_of(o, o->sort), per_words(d, o->sort));
	print_counts(out, s);
	if (!changes)
		fputs("no single stack stands out", out);
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
	bool estimate = profile_diff_is_estimate(d);
	if (changes && o->limit)
		fprintf(out, "%12s%s%11s %11s  %-*s  %s\n", "change",
			estimate ? "      +-95 % " : " ", "old", "new", estimate ? 15 : 8, "",
			"site");
	uint32_t shown = changes < o->limit ? changes : (uint32_t)o->limit;
	struct site_callers *callers = callers_of(d, order, shown);
	if (!callers) {
		free(order);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < shown; i++) {
		const struct profile_diff_entry *e = &d->entries[order[i]];
		print_entry(out, d, e, site_callers_text(callers, i), o,
			    profile_diff_classify(d, e, o->sort, s->threshold));
	}
	site_callers_free(callers);
	if (shown < changes)
		fprintf(out, "... %s more change%s\n", words_count(changes - shown).text,
			changes - shown == 1 ? "" : "s");
	if (s->counts[PROFILE_SAME]) {
		fprintf(out, "%12s %*s  %s below the threshold\n",
			change_words(s->below, o->sort).text, estimate ? 35 : 23, "",
			words_stacks(s->counts[PROFILE_SAME]).text);
		print_noise(out, d, s, o);
	}
	free(order);
	return 0;
}

static void print_nothing(FILE *out, const struct profile_diff *d,
			  const struct report_diff_options *o, const struct profile_diff_summary *s,
			  bool anywhere)
{
	const struct report_options lines = lines_of(o);
	const char *significantly = s->counts[PROFILE_INSIGNIFICANT] ? " significantly" : "";
	char *place = NULL;
	size_t size;
	FILE *text = open_memstream(&place, &size);
	if (text && s->largest_entry != PROFILE_NONE)
		print_place(text, d, &d->entries[s->largest_entry]);
	if (text)
		fclose(text);
	putc('\n', out);
	words_style(out, o->color, STYLE_BOLD);
	if (anywhere)
		report_print_prose(out, &lines, 0, "By %s nothing changed%s.", words_of(o, o->sort),
				   significantly);
	else
		report_print_prose(out, &lines, 0, "Nothing changed%s.", significantly);
	words_style(out, o->color, STYLE_PLAIN);
	fputs("  ", out);
	report_print_prose(out, &lines, 2, "%s: %s before, %s now%s", title_of(o, o->sort),
			   value_words(s->old, o->sort).text, value_words(s->new, o->sort).text,
			   per_words(d, o->sort));
	fputs("  ", out);
	if (s->largest_entry == PROFILE_NONE)
		report_print_prose(out, &lines, 2, "no call stack differs at all");
	else
		report_print_prose(out, &lines, 2, "largest difference: %s (%s)",
				   change_words(s->largest, o->sort).text, place ? place : "");
	print_noise(out, d, s, o);
	if (s->counts[PROFILE_INSIGNIFICANT]) {
		fputs("  ", out);
		report_print_prose(out, &lines, 2,
				   "%s larger one%s not significant: within the +-95 %% of samples",
				   words_count(s->counts[PROFILE_INSIGNIFICANT]).text,
				   s->counts[PROFILE_INSIGNIFICANT] == 1 ? " is" : "s are");
	}
	free(place);
}

/* A regular expression that matches this name alone. */
static void expression_of(const char *function, char *text, size_t size)
{
	size_t used = 0;
	text[used++] = '^';
	for (const char *c = function; *c; c++) {
		if (used + 4 >= size) { /* the beginning of a very long name will do */
			text[used] = 0;
			return;
		}
		if (strchr(".[]{}()\\*+?|^$", *c))
			text[used++] = '\\';
		text[used++] = *c;
	}
	text[used++] = '$';
	text[used] = 0;
}

/* Prints what was written to `text` as the next command. */
static void print_next(FILE *out, FILE *text, char **command, const char *why,
		       const struct report_diff_options *o)
{
	const struct report_options lines = lines_of(o);
	fclose(text);
	putc('\n', out);
	if (*command)
		words_print_next(out, *command, why, report_width(&lines));
	free(*command);
}

static void print_next_diff(FILE *out, const struct profile_diff *d,
			    const struct report_diff_options *o, enum measure_id measure)
{
	char *command = NULL;
	size_t size;
	FILE *text = open_memstream(&command, &size);
	if (!text)
		return;
	fprintf(text, "heft diff --sort %s ", measures[measure].option);
	if (d->per.unit == PROFILE_PER_SECOND)
		fputs("--per s ", text);
	if (d->per.unit == PROFILE_PER_OPERATIONS)
		fprintf(text, "--per %.0f,%.0f ", d->per.old, d->per.new);
	report_print_option(text, "--focus", o->focus);
	report_print_option(text, "--ignore", o->ignore);
	words_print_shell(text, o->old_path);
	putc(' ', text);
	words_print_shell(text, o->new_path);
	print_next(out, text, &command, "which stacks", o);
}

/* changed: the stack that changed most; NULL: none did. */
static void print_next_report(FILE *out, const struct profile_diff *d,
			      const struct report_diff_options *o,
			      const struct profile_diff_entry *changed)
{
	char *command = NULL, expression[256] = "";
	size_t size;
	FILE *text = open_memstream(&command, &size);
	if (!text)
		return;
	fputs("heft report ", text);
	report_print_option(text, "--at", o->at);
	if (changed && o->sort != MEASURE_PEAK_BYTES && !o->at)
		fprintf(text, "--sort %s ", measures[o->sort].option);
	if (changed) {
		const struct profile_site *site;
		const struct profile *p = shown_side(d, changed, &site);
		uint32_t user = profile_first_user_node(p, site->node);
		if (user != PROFILE_NONE) {
			expression_of(profile_node_frame(p, user)->function, expression,
				      sizeof expression);
			report_print_option(text, "--focus", expression);
		}
	}
	words_print_shell(text, changed && !changed->new.sites ? o->old_path : o->new_path);
	print_next(out, text, &command, changed ? "the largest change, in full" : "", o);
}

int report_diff_text(FILE *out, const struct profile_diff *d, const struct report_diff_options *o)
{
	struct profile_diff_summary s, other;
	bool resident;
	print_totals(out, d, o);
	int rc = report_diff_ledger_text(out, d, o, &resident);
	if (rc < 0)
		return rc;
	profile_diff_summarise(d, o->sort, &o->threshold, &s);
	if (s.changed) {
		rc = print_changes(out, d, o, &s);
		if (rc == 0 && s.largest_entry != PROFILE_NONE)
			print_next_report(out, d, o, &d->entries[s.next_entry]);
		return rc;
	}
	enum measure_id found = MEASURE_LIFETIME;
	for (enum measure_id i = 0; i < MEASURE_COUNT && found == MEASURE_LIFETIME; i++) {
		if (i == o->sort || !is_shown(d, o, i))
			continue;
		struct profile_threshold t = profile_threshold_for(&o->threshold, o->sort, i);
		profile_diff_summarise(d, i, &t, &other);
		if (other.changed)
			found = i;
	}
	print_nothing(out, d, o, &s, found != MEASURE_LIFETIME || resident);
	if (found == MEASURE_LIFETIME) {
		print_next_report(out, d, o, NULL);
		return 0;
	}
	fprintf(out, "\nBy %s%s it did: ", words_of(o, found), per_words(d, found));
	print_counts(out, &other);
	fprintf(out, "%s%s in total.\n", other.counts[PROFILE_SAME] < d->count ? "; " : "",
		change_words(other.new - other.old, found).text);
	print_next_diff(out, d, o, found);
	return 0;
}
