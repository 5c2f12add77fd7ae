/* The page of /debug/pprof/: the processes, and links to their profiles. Plain HTML without scripts,
 * readable in a terminal's browser too. Names come from strangers' programs: they are escaped, and
 * what would not show is spelt out (export_names.h).
 *
 * Running processes come first, in order of their start, then the ended ones, the latest first. A link names a pid, so
 * an image that another one has replaced has none: it would lead to the other's profile. */
#include "pprof/pprof_pages.h"

#include "export/export_names.h"
#include "hosted/number_words.h"
#include "hosted/program_name.h"
#include "hosted/saturating.h"
#include "pprof/latest_images.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LETTERS = 60, COMMAND_LETTERS = 160 };

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<title>/debug/pprof/</title>\n"
	"<style>\n"
	"body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color-scheme: light dark }\n"
	"table { border-collapse: collapse }\n"
	"th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0 }\n"
	"th { font-weight: 600; border-bottom: 1px solid }\n"
	".n { text-align: right; font-variant-numeric: tabular-nums }\n"
	"code { font-size: 13px; overflow-wrap: anywhere }\n"
	"</style></head><body>\n<h1>/debug/pprof/</h1>\n";

static void write_bytes(FILE *out, double bytes)
{
	char words[NUMBER_WORDS];
	number_bytes(words, saturating_whole(bytes), "byte", "bytes");
	fputs(words, out);
}

/* The whole of a parameter, so that nothing in it means anything to the address. */
static void write_encoded(FILE *out, const char *text)
{
	for (; *text; text++)
		fprintf(out, "%%%02X", (unsigned char)*text);
}

static void write_link(FILE *out, const struct source_process *p, const char *up, const char *name,
		       const char *query, const char *token, const char *words)
{
	fprintf(out, "<a href=\"%s%" PRId32 "/%s", up, p->pid, name);
	if (*query || token)
		putc('?', out);
	fputs(query, out);
	if (token) {
		fputs(*query ? "&amp;token=" : "token=", out);
		write_encoded(out, token);
	}
	fprintf(out, "\">%s</a> ", words);
}

static void write_command(FILE *out, const struct source_process *p)
{
	const char *end = p->command + p->command_bytes;
	size_t most = COMMAND_LETTERS;
	for (const char *at = p->command; at < end && most > 1;) {
		if (at != p->command)
			putc(' ', out);
		most -= export_name_xml(out, at, most);
		at += strnlen(at, (size_t)(end - at)) + 1;
	}
}

static void write_state(FILE *out, const struct source_process *p)
{
	if (p->running)
		fputs("running", out);
	else if (*p->ended)
		export_name_xml(out, p->ended, sizeof p->ended);
	else
		fputs("ended", out);
}

static void write_rate(FILE *out, const struct source_process *p)
{
	if (!p->sampled) {
		fputs("every allocation", out);
		return;
	}
	if (!p->on) {
		fputs("off", out);
		return;
	}
	fputs("a sample each ", out);
	write_bytes(out, (double)p->rate_bytes);
	fputs(p->automatic ? " (auto)" : "", out);
}

/* Under the row of the process: what heft does not see, and why. */
static void write_unseen(FILE *out, const struct source_process *p)
{
	if (!p->partly)
		return;
	fprintf(out, "<tr><td></td><td colspan=\"6\"><b>%s</b>",
		p->blind ? "heft cannot see into this process."
			 : "Most of its memory is not seen.");
	for (const char *line = p->unseen; *line;) {
		char one[sizeof p->unseen];
		size_t length = strcspn(line, "\n");
		memcpy(one, line, length);
		one[length] = 0;
		fputs("<br>", out);
		export_name_xml(out, one, sizeof one);
		line += length + (line[length] != 0);
	}
	fputs("</td></tr>\n", out);
}

static void write_links(FILE *out, const struct source_process *p, const char *up,
			const char *token)
{
	write_link(out, p, up, "heap", "", token, "heap");
	write_link(out, p, up, "heap", "debug=1", token, "(text)");
	write_link(out, p, up, "allocs", "", token, "allocs");
	write_link(out, p, up, "allocs", "debug=1", token, "(text)");
	write_link(out, p, up, "cmdline", "", token, "cmdline");
}

static void write_process(FILE *out, const struct source_process *p, bool replaced, const char *up,
			  const char *token)
{
	char name[PROGRAM_NAME], count[NUMBER_WORDS];
	fprintf(out, "<tr><td class=\"n\">%" PRId32 "</td><td title=\"", p->pid);
	export_name_xml(out, p->exe, sizeof p->exe);
	fputs("\">", out);
	export_name_xml(out, program_name(name, p->exe, p->command), NAME_LETTERS);
	fputs("<br><code>", out);
	write_command(out, p);
	fputs("</code></td><td>", out);
	write_state(out, p);
	fputs("</td><td>", out);
	write_rate(out, p);
	fputs("</td><td class=\"n\">", out);
	if (p->blind) {
		fputs("not seen</td><td class=\"n\">-</td><td>", out);
	} else {
		write_bytes(out, p->live_bytes);
		number_count(count, saturating_whole(p->live_objects));
		fprintf(out, "</td><td class=\"n\">%s</td><td>", count);
	}
	if (replaced)
		fputs("in its recording only", out);
	else
		write_links(out, p, up, token);
	fputs("</td></tr>\n", out);
	write_unseen(out, p);
}

static void write_none(FILE *out)
{
	fputs("<p>No process is being profiled. <code>heft agent</code> shows programs that "
	      "were started with <code>LD_PRELOAD</code>, <code>HEFT_SAMPLE</code> and "
	      "<code>HEFT_DIR</code>: see <code>man heft-agent</code>.</p>\n",
	      out);
}

static void write_table(FILE *out, const struct pprof_list *l, const char *up, const char *token)
{
	bool *replaced = latest_images_replaced(l->processes, l->count, false);
	fputs("<table><tr><th>pid</th><th>program</th><th>state</th><th>sampling</th>"
	      "<th>live</th><th>objects</th><th>profiles</th></tr>\n",
	      out);
	for (uint32_t i = 0; i < l->count; i++)
		if (l->processes[i].running)
			write_process(out, &l->processes[i], replaced && replaced[i], up, token);
	for (uint32_t i = l->count; i-- > 0;)
		if (!l->processes[i].running)
			write_process(out, &l->processes[i], replaced && replaced[i], up, token);
	fputs("</table>\n", out);
	free(replaced);
}

void pprof_write_index(FILE *out, const struct pprof_list *l, const char *up, const char *token)
{
	fputs(head, out);
	if (l->count)
		write_table(out, l, up, token);
	else if (!l->silent)
		write_none(out);
	if (l->silent)
		fprintf(out,
			"<p>Not shown: %" PRIu32 " %s. The worker that reads the samples does not "
			"answer; the log of heft agent says why. Please try again.</p>\n",
			l->silent, l->silent == 1 ? "process" : "processes");
	fputs("<p><b>heap</b>: what is live now. <b>allocs</b>: all that was allocated. With "
	      "<code>?seconds=30</code>: what changed meanwhile.</p>\n"
	      "<p><code>go tool pprof http://HOST:PORT/debug/pprof/PID/heap</code></p>\n"
	      "<p>heft " HEFT_VERSION "</p>\n</body></html>\n",
	      out);
}
