/* The table of processes of a recording with several, greatest peak first. Many processes of one program
 * are one line, because two hundred lines "echo" say nothing. It shows the greatest of them and their
 * sums; peaks are not added, because they were not at one time. */
#include "report/report_parts.h"

#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NUMBER = 11, TIME = 9, PID = 9, COMMAND = 2 + 3 * (NUMBER + 1) + TIME + 1 + PID };

/* A row is a process, or several of one program, or one program of those that a process was. */
static bool rows_are_processes(const struct process_groups *g, uint32_t processes)
{
	uint32_t single = 0;
	for (uint32_t i = 0; i < g->count; i++)
		single += g->list[i].count == 1;
	return single == g->count && g->count == processes;
}

static void print_head(FILE *out, const struct profile *p, const struct process_groups *g,
		       uint32_t programs, uint32_t shown, const struct report_options *o)
{
	uint32_t processes = profile_count_processes(p);
	words_style(out, o->color, STYLE_BOLD);
	putc('\n', out);
	if (shown < g->count)
		fprintf(out, "Top %" PRIu32 " of ", shown);
	if (rows_are_processes(g, processes)) {
		fputs(words_processes(processes).text, out);
	} else {
		if (shown < g->count && g->count != programs)
			fprintf(out, "%s rows: ", words_count(g->count).text);
		fprintf(out, "%s program%s in %s", words_count(programs).text,
			programs == 1 ? "" : "s", words_processes(processes).text);
	}
	fputs(" by peak\n", out);
	words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, "%*s %*s %*s %*s %*s  command\n", NUMBER, "peak", NUMBER, "peak RSS", NUMBER,
		"left", TIME, "ran", PID, "pid");
}

/* The sums over several of one program, under the line of the greatest. */
static void print_sums(FILE *out, const struct process_group *g, const struct report_options *o)
{
	char text[240];
	snprintf(text, sizeof text,
		 "the largest of %s; together they allocated %s and left %s in %s",
		 words_count(g->count).text, words_bytes(g->allocated_bytes).text,
		 words_bytes(g->left_bytes).text, words_blocks(g->left_blocks).text);
	fprintf(out, "%*s", COMMAND, "");
	words_style(out, o->color, STYLE_DIM);
	words_print_wrapped(out, text, COMMAND, report_width(o));
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
}

static void print_group(FILE *out, const struct profile *p, const struct process_group *g,
			const struct report_options *o)
{
	const struct profile_process *q = &p->processes[g->greatest];
	const struct profile_totals *t = &q->totals;
	fprintf(out, "%*s %*s %*s %*s %*" PRId32 "  ", NUMBER, words_bytes(t->peak_bytes).text,
		NUMBER, t->peak_rss_bytes ? words_bytes(t->peak_rss_bytes).text : "-", NUMBER,
		words_bytes(t->left_bytes).text, TIME, words_duration(process_run_ns(p, q)).text,
		PID, q->pid);
	size_t room = report_width(o) - COMMAND;
	if (g->count == 1) {
		process_print_command(out, q, g->words, room);
		putc('\n', out);
		return;
	}
	char *name = process_group_name(p, g, room > 24 ? room - 18 : 6);
	words_print_fit(out, name ? name : "", room);
	putc('\n', out);
	free(name);
	print_sums(out, g, o);
}

int report_print_processes(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct process_groups g;
	if (p->process_count < 2 || !o->processes || o->span != REPORT_WHOLE || o->focus ||
	    o->ignore)
		return 0;
	int rc = process_groups_init(&g, p, PROCESSES_AS_FIT);
	if (rc < 0)
		return rc;
	uint32_t programs = 0;
	rc = process_groups_programs(&g, p, &programs);
	uint32_t shown = g.count < o->processes ? g.count : (uint32_t)o->processes;
	if (rc == 0)
		print_head(out, p, &g, programs, shown, o);
	for (uint32_t i = 0; i < shown && rc == 0; i++)
		print_group(out, p, &g.list[i], o);
	if (shown < g.count && rc == 0)
		fprintf(out, "... %s more\n", words_count(g.count - shown).text);
	if (!o->selection && rc == 0) {
		words_print_styled(out, o->color, STYLE_DIM,
				   "  - --pid PID reports on one process alone\n");
	}
	process_groups_fini(&g);
	return rc;
}
