/* What `heft run` ends with. At most 12 lines, because it stands under the output of
 * somebody's program: the numbers everyone asks for, the three sites that hold most
 * at the peak, what is wrong with the recording, and the command that shows more. */
#include "report/report.h"

#include "report/report_words.h"

#include <inttypes.h>

enum { TOP_SITES = 3, NOTES_SHOWN = 2 };

static void print_site(FILE *out, const struct profile *p, const struct profile_site *s)
{
	fprintf(out, "  %11s %7s  ", words_bytes(s->peak_bytes).text,
		words_share(s->peak_bytes, p->totals.peak_bytes).text);
	uint32_t user = profile_first_user_node(p, s->node);
	words_print_frame(out, p, user);
	/* What that line calls tells apart sites that stand on one line. */
	for (uint32_t n = s->node; n != user; n = p->nodes[n].parent)
		if (p->nodes[n].parent == user) {
			fputs(" > ", out);
			words_print_short(out, p->frames[p->nodes[n].frame].function, 40);
		}
	putc('\n', out);
}

/* Warnings first come to mind; the rest is in the report. */
static void print_warnings(FILE *out, const struct profile *p, bool color)
{
	uint32_t warnings = 0, shown = 0;
	for (uint32_t i = 0; i < p->note_count; i++)
		warnings += p->notes[i].kind == PROFILE_NOTE_WARNING;
	uint32_t room = warnings > NOTES_SHOWN ? NOTES_SHOWN - 1 : NOTES_SHOWN;
	words_style(out, color && warnings, STYLE_WARN);
	for (uint32_t i = 0; i < p->note_count && shown < room; i++) {
		if (p->notes[i].kind != PROFILE_NOTE_WARNING)
			continue;
		fputs("  ! ", out);
		words_print(out, p->notes[i].text, 300);
		putc('\n', out);
		shown++;
	}
	if (shown < warnings)
		fprintf(out, "  ! and %" PRIu32 " more like this: the report has them\n",
			warnings - shown);
	words_style(out, color && warnings, STYLE_PLAIN);
}

int report_run_summary(FILE *out, const struct profile *p, const char *recording_path, bool color)
{
	const struct profile_totals *t = &p->totals;
	words_style(out, color, STYLE_BOLD);
	fputs("heft: ", out);
	words_print_command(out, p->argv, p->argc, 60);
	words_style(out, color, STYLE_PLAIN);
	fprintf(out, ": %s, ", words_duration(p->duration_ns).text);
	words_print_end(out, p);
	if (p->process_count > 1 || t->threads > 1)
		fprintf(out, ", %s thread%s in %" PRIu32 " process%s", words_count(t->threads).text,
			t->threads == 1 ? "" : "s", p->process_count,
			p->process_count == 1 ? "" : "es");
	putc('\n', out);
	print_warnings(out, p, color);
	fprintf(out, "  peak          %s in %s at %s", words_bytes(t->peak_bytes).text,
		words_blocks(t->peak_blocks).text, words_duration(t->peak_time_ns).text);
	if (t->peak_rss_bytes)
		fprintf(out, "; peak RSS %s", words_bytes(t->peak_rss_bytes).text);
	putc('\n', out);
	fprintf(out, "  live at end   %s in %s\n", words_bytes(t->live_bytes).text,
		words_blocks(t->live_blocks).text);
	fprintf(out, "  allocations   %s (%s), %s temporary\n", words_count(t->allocations).text,
		words_rate(t->allocations, p->duration_ns).text,
		words_share(t->temporary, t->allocations).text);
	for (uint32_t i = 0; i < p->site_count && i < TOP_SITES && p->sites[i].peak_bytes; i++)
		print_site(out, p, &p->sites[i]);
	fprintf(out, "  recording     %s", words_bytes(p->file_bytes).text);
	if (p->events)
		fprintf(out, ", %.2f bytes an event", (double)p->file_bytes / (double)p->events);
	fputs("\nNext: heft report ", out);
	words_print_shell(out, recording_path);
	putc('\n', out);
	return 0;
}
