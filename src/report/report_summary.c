/* What `heft run` ends with. It has at most 13 lines and two sentences, because it stands under the output of somebody's
 * program: the numbers everyone asks for, the three sites that hold most at the peak, what is wrong
 * with the recording, the first finding, and the command that shows more.
 *
 * The caller decides whether to look for findings, because that needs the whole profile. The summary
 * shows one, if there is one. It never says "none", and it leaves findings about the profile itself to
 * the report. */
#include "report/report_parts.h"

#include "profile/process_images.h"
#include "profile/site_callers.h"
#include "report/report_ledger.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_SITES = 3, NOTES_SHOWN = 2, LEAST_COMMAND = 20 };

static void print_site(FILE *out, const struct profile *p, const struct profile_site *s,
		       const char *callers, size_t width)
{
	uint32_t site = (uint32_t)(s - p->sites);
	int used = fprintf(
		out, "  %11s%s %7s  ", words_bytes(s->peak_bytes).text,
		p->estimates.errors ? words_within(p->estimates.errors[site].peak_bytes).text : "",
		words_share(s->peak_bytes, p->totals.peak_bytes).text);
	if (measure_is_rough(p, site, MEASURE_PEAK_BYTES))
		used += fprintf(out, "(few samples) ");
	size_t indent = used > 0 ? (size_t)used : 0;
	report_print_site(out, p, s, callers, width > indent + 24 ? width - indent : 24);
	putc('\n', out);
}

/* Only warnings, and few of them: the report has the rest. */
static void print_warnings(FILE *out, const struct profile *p, size_t width, bool color)
{
	uint32_t warnings = 0, shown = 0;
	for (uint32_t i = 0; i < p->note_count; i++)
		warnings += p->notes[i].kind == PROFILE_NOTE_WARNING;
	uint32_t room = warnings > NOTES_SHOWN ? NOTES_SHOWN - 1 : NOTES_SHOWN;
	words_style(out, color && warnings, STYLE_WARN);
	for (uint32_t i = 0; i < p->note_count && shown < room; i++) {
		if (p->notes[i].kind != PROFILE_NOTE_WARNING)
			continue;
		/* The second line of a note is the way out: the report has it. */
		char *first = strndup(p->notes[i].text, strcspn(p->notes[i].text, "\n"));
		fputs("  ! ", out);
		words_print(out, first ? first : "", width - 7);
		free(first);
		putc('\n', out);
		shown++;
	}
	if (shown < warnings)
		fprintf(out, "  ! %" PRIu32 " more warnings like this are in the report\n",
			warnings - shown);
	words_style(out, color && warnings, STYLE_PLAIN);
}

/* What to do where most memory belongs to a runtime: with the next recording, so it is worth a line here. */
static void print_hint(FILE *out, const struct findings *findings, size_t width)
{
	uint32_t count = findings ? findings_note_count(findings) : 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct finding_note *n = findings_note(findings, i);
		if (strcmp(n->about, "runtime") != 0 || !*n->advice)
			continue;
		fputs("  hint          ", out);
		words_print_wrapped(out, n->advice, 16, width);
		putc('\n', out);
		return;
	}
}

/* False: there is none. */
static bool print_first_finding(FILE *out, const struct findings *findings, size_t width,
				bool color)
{
	uint32_t count = findings ? findings_count(findings) : 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct finding *f = findings_get(findings, i);
		if (f->kind == FINDING_PROFILE_QUALITY)
			continue;
		words_style(out, color, f->severity == FINDING_HIGH ? STYLE_HIGH : STYLE_WARN);
		fputs("  finding       ", out);
		words_print_wrapped(out, f->summary, 16, width);
		words_style(out, color, STYLE_PLAIN);
		putc('\n', out);
		return true;
	}
	return false;
}

/* Where the memory is, if somebody looked while the process ran. */
static void print_ledger(FILE *out, const struct profile *p, size_t width)
{
	char text[400];
	const char *name = report_ledger_row(p, text, sizeof text);
	if (!name)
		return;
	fprintf(out, "  %-12s  ", name);
	words_print_wrapped(out, text, 16, width);
	putc('\n', out);
}

int report_run_summary(FILE *out, const struct profile *p, const struct findings *findings,
		       const char *recording_path, size_t width, bool color)
{
	width = report_width(&(struct report_options){.width = width});
	const struct profile_totals *t = &p->totals;
	words_style(out, color, STYLE_BOLD);
	fputs("heft: ", out);
	char run[320];
	bool several_threads = profile_count_processes(p) > 1 || t->threads > 1;
	snprintf(run, sizeof run, ": %s, %s%s%s", words_duration(p->run.duration_ns).text,
		 words_end(p).text, several_threads ? ", " : "",
		 several_threads ? words_threads(p).text : "");
	size_t taken = strlen("heft: ") + strlen(run);
	bool together = taken + LEAST_COMMAND <= WORDS_PROSE;
	words_print_command(out, p->run.argv, p->run.argc,
			    WORDS_PROSE - (together ? taken : strlen("heft: :")));
	words_style(out, color, STYLE_PLAIN);
	fprintf(out, "%s%s\n", together ? "" : ":\n     ", together ? run : run + 1);
	print_warnings(out, p, width, color);
	fprintf(out, "  peak          %s%s in %s at %s", words_bytes(t->peak_bytes).text,
		words_error(p, p->estimates.total_errors.peak_bytes).text,
		words_blocks(t->peak_blocks).text, words_duration(t->peak_time_ns).text);
	if (t->peak_rss_bytes)
		fprintf(out, "; peak RSS %s", words_bytes(t->peak_rss_bytes).text);
	putc('\n', out);
	print_ledger(out, p, width);
	/* What is live at the end is then only the last one's. */
	bool several = profile_is_of_several(p);
	fprintf(out, "  %s  %s%s in %s\n", several ? "left at exit" : "live at end ",
		words_bytes(several ? t->left_bytes : t->live_bytes).text,
		words_error(p, several ? p->estimates.total_errors.left_bytes
				       : p->estimates.total_errors.live_bytes)
			.text,
		words_blocks(several ? t->left_blocks : t->live_blocks).text);
	fprintf(out, "  allocations   %s%s (%s)", words_count(t->allocations).text,
		p->estimates.errors ? words_within_count(p->estimates.total_errors.allocations).text
				    : "",
		words_rate(t->allocations, p->run.duration_ns).text);
	if (p->run.has & PROFILE_HAS_TEMPORARY)
		fprintf(out, ", %s temporary", words_share(t->temporary, t->allocations).text);
	if (p->run.rate_bytes)
		fprintf(out, "; estimates from one sample per %s",
			words_bytes(p->run.rate_bytes).text);
	putc('\n', out);
	static const uint32_t first[TOP_SITES] = {0, 1, 2};
	uint32_t shown = 0;
	while (shown < p->site_count && shown < TOP_SITES && p->sites[shown].peak_bytes)
		shown++;
	struct site_callers *callers = site_callers_new(p, first, shown);
	for (uint32_t i = 0; i < shown; i++)
		print_site(out, p, &p->sites[i], site_callers_text(callers, i), width);
	site_callers_free(callers);
	fprintf(out, "  recording     %s", words_bytes(p->run.file_bytes).text);
	if (p->run.events)
		fprintf(out, ", %.2f bytes per event",
			(double)p->run.file_bytes / (double)p->run.events);
	putc('\n', out);
	if (!print_first_finding(out, findings, width, color))
		print_hint(out, findings, width);
	fputs("Next: heft report ", out);
	words_print_shell(out, recording_path);
	putc('\n', out);
	return 0;
}

enum { TOP_SITE_COLUMNS = 100 };

int report_top_sites(FILE *out, const struct profile *p, enum measure_id id, size_t count)
{
	uint32_t *order = measure_sort_sites(p, id);
	if (!order)
		return HEFT_ENOMEM;
	const uint32_t shown = count < p->site_count ? (uint32_t)count : p->site_count;
	struct site_callers *callers = site_callers_new(p, order, shown);
	for (uint32_t i = 0; i < shown; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		const uint64_t value = measure_of_site(s, id);
		if (!value)
			break;
		int used = fprintf(out, "  %11s  ", words_value(value, id).text);
		size_t indent = used > 0 ? (size_t)used : 0;
		report_print_site(out, p, s, site_callers_text(callers, i),
				  TOP_SITE_COLUMNS - indent);
		putc('\n', out);
	}
	site_callers_free(callers);
	free(order);
	return 0;
}
