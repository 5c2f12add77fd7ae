/* Prints a ledger (report_ledger.h). Lines stand in sections, and sections in the order of what people can change:
 * the heap first. Within a section the largest is first, and after a few rows the rest is one row, so that the sum
 * of what is printed is always the resident memory. */
#include "report/report_ledger.h"

#include "hosted/ledger_words.h"
#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "profile/profile_ledgers.h"

#include <inttypes.h>

enum { DEFAULT_WIDTH = 100, NARROWEST = 72, NUMBER_COLUMNS = 11, SHARE_COLUMNS = 9, INDENT = 2 };
#define NEAR_PEAK 0.9
enum { MAKER_MOST = 60 }; /* bytes of its name in a short row */

/* What the table shows */
struct table {
	FILE *out;
	uint64_t rss;
	size_t name_columns;
	bool swapped; /* there is something to show in that column */
};

static void print_number(const struct table *t, uint64_t bytes)
{
	fprintf(t->out, "%*s", NUMBER_COLUMNS, bytes ? words_bytes(bytes).text : "-");
}

static void print_numbers(const struct table *t, const struct ledger_bytes *b)
{
	print_number(t, b->resident);
	fprintf(t->out, "%*s", SHARE_COLUMNS,
		words_percent(t->rss ? (double)b->resident / (double)t->rss : 0).text);
	print_number(t, b->own);
	if (t->swapped)
		print_number(t, b->swapped);
	print_number(t, b->mapped);
	putc('\n', t->out);
}

static void print_row(const struct table *t, size_t indent, const char *name, const char *kind,
		      const struct ledger_bytes *b)
{
	size_t room = t->name_columns - indent - strlen(kind);
	fprintf(t->out, "%*s", (int)indent, "");
	size_t used = words_print_fit(t->out, name, room);
	fprintf(t->out, "%s%*s", kind, (int)(room - used), "");
	print_numbers(t, b);
}

static void print_section(const struct table *t, size_t section, const struct ledger *l,
			  const struct ledger_line **lines, size_t limit)
{
	struct ledger_bytes sum = {0}, rest = {0};
	size_t count = 0;
	for (size_t i = 0; i < l->count; i++)
		if (ledger_section_of(l->items[i].kind) == section &&
		    (l->items[i].bytes.resident || l->items[i].bytes.swapped)) {
			lines[count++] = &l->items[i];
			ledger_bytes_add(&sum, &l->items[i].bytes);
		}
	if (!count)
		return;
	qsort(lines, count, sizeof *lines, ledger_line_by_size);
	print_row(t, 0, ledger_sections[section].title, "", &sum);
	for (size_t i = 0; i < count; i++) {
		char text[LEDGER_BEHIND];
		const struct ledger_line *line = lines[i];
		if (i >= limit && count - limit > 1) {
			ledger_bytes_add(&rest, &line->bytes);
			continue;
		}
		print_row(t, INDENT, ledger_line_name(line), ledger_line_behind(line, text),
			  &line->bytes);
		if (line->maker && line->kind != LEDGER_ANONYMOUS) {
			fprintf(t->out, "%*smapped by ", 2 * INDENT, "");
			words_print_fit(t->out, line->maker, t->name_columns);
			putc('\n', t->out);
		}
	}
	if (count > limit && count - limit > 1) {
		char text[64];
		snprintf(text, sizeof text, "%s more", words_count(count - limit).text);
		print_row(t, INDENT, text, "", &rest);
	}
}

static void print_beside(FILE *out, const struct ledger *l, size_t width)
{
	char text[512];
	int n = snprintf(text, sizeof text, "Beside it: page tables %s",
			 words_bytes(l->page_table_bytes).text);
	if (l->reserved_bytes)
		n += snprintf(text + n, sizeof text - (size_t)n, "; %s reserved and not usable",
			      words_bytes(l->reserved_bytes).text);
	if (l->hugetlb_bytes)
		n += snprintf(text + n, sizeof text - (size_t)n, "; %s in pages of hugetlbfs",
			      words_bytes(l->hugetlb_bytes).text);
	if (l->huge_bytes)
		n += snprintf(text + n, sizeof text - (size_t)n,
			      "; %s of the resident memory in huge pages",
			      words_bytes(l->huge_bytes).text);
	snprintf(text + n, sizeof text - (size_t)n, ".");
	words_print_wrapped(out, text, 0, width);
	putc('\n', out);
	if (l->note[0]) {
		words_print_wrapped(out, l->note, 0, width);
		putc('\n', out);
	}
}

static void print_moment(FILE *out, const struct ledger *l, bool recorded)
{
	if (recorded)
		fprintf(out, "Taken %s, at %s, with %s of the peak's live bytes. ",
			l->moment == LEDGER_PEAK && l->share_of_peak < NEAR_PEAK
				? "near an earlier peak of its heap"
				: ledger_moment_words(l->moment),
			words_duration(l->time_ns).text, words_percent(l->share_of_peak).text);
}

void report_ledger_text(FILE *out, const struct ledger *l, const struct report_ledger_options *o)
{
	size_t width = !o->width ? DEFAULT_WIDTH : o->width < NARROWEST ? NARROWEST : o->width;
	const struct ledger_bytes sum = ledger_sum(l);
	struct table t = {.out = out, .rss = l->rss_bytes, .swapped = sum.swapped != 0};
	const struct ledger_line **lines = malloc((l->count + 1) * sizeof *lines);
	width = width > WORDS_PROSE ? WORDS_PROSE : width;
	t.name_columns = width - (t.swapped ? 4u : 3u) * NUMBER_COLUMNS - SHARE_COLUMNS;
	if (!lines)
		return;
	fprintf(out, "process %d", l->pid);
	if (o->command && *o->command) {
		fputs(", ", out);
		words_print(out, o->command, width / 2);
	}
	fprintf(out, ": %s resident", words_bytes(l->rss_bytes).text);
	if (l->peak_rss_bytes > l->rss_bytes)
		fprintf(out, " (most so far: %s)", words_bytes(l->peak_rss_bytes).text);
	putc('\n', out);
	print_moment(out, l, o->recorded);
	if (o->ended && *o->ended)
		fprintf(out, "There is none of its end: %s, %s later. ", o->ended,
			words_duration(o->end_ns > l->time_ns ? o->end_ns - l->time_ns : 0).text);
	fprintf(out, "It stood still for %s.\n\n", words_duration(l->pause_ns).text);
	fprintf(out, "%*s%*s%*s%*s", (int)t.name_columns, "", NUMBER_COLUMNS, "resident",
		SHARE_COLUMNS, "share", NUMBER_COLUMNS, "private");
	if (t.swapped)
		fprintf(out, "%*s", NUMBER_COLUMNS, "swapped");
	fprintf(out, "%*s\n", NUMBER_COLUMNS, "mapped");
	for (size_t i = 0; i < LEDGER_SECTIONS; i++)
		print_section(&t, i, l, lines, o->limit);
	print_row(&t, 0, "all", "", &sum);
	putc('\n', out);
	print_beside(out, l, width);
	free(lines);
}

/* ---- in short */

/* A section's part of one sentence */
struct brief {
	const char *name;
	uint64_t bytes;
	const struct ledger_line *largest;
};

static struct brief brief_of(size_t section, const struct ledger *l)
{
	struct brief b = {ledger_sections[section].brief, ledger_section_bytes(l, section), NULL};
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = &l->items[i];
		if (ledger_section_of(line->kind) == section &&
		    (!b.largest || line->bytes.resident > b.largest->bytes.resident))
			b.largest = line;
	}
	if (!b.name)
		b.name = b.largest ? b.largest->name : ledger_sections[section].title;
	return b;
}

/* Who has mapped most of it: "(mapped by pool_grow)", or "(18.2 mapped by pool_grow)" if that is not all. File and line
 * are in heft map. */
static size_t print_maker(char *text, size_t size, const struct brief *b)
{
	const double mib = 1 << 20;
	const struct ledger_line *line = b->largest;
	char part[32] = "", who[WORDS_SHORT], function[WORDS_SHORT];
	if (!line || !line->maker || (double)line->bytes.resident < mib / 20)
		return 0;
	const char *place = strrchr(line->maker, '(');
	bool has_place = place && place > line->maker && place[-1] == ' ';
	size_t length = has_place ? (size_t)(place - 1 - line->maker) : strlen(line->maker);
	snprintf(who, sizeof who, "%.*s", (int)length, line->maker);
	if (!words_shorten(function, who))
		snprintf(function, sizeof function, "%s", who);
	if ((double)b->bytes - (double)line->bytes.resident >= mib / 20)
		snprintf(part, sizeof part, "%.1f ", (double)line->bytes.resident / mib);
	return (size_t)snprintf(text, size, " (%smapped by %.*s)", part, MAKER_MOST, function);
}

static int by_bytes(const void *a, const void *b)
{
	uint64_t x = ((const struct brief *)a)->bytes, y = ((const struct brief *)b)->bytes;
	return (x < y) - (x > y);
}

static void report_ledger_short(char *text, size_t size, const struct ledger *l)
{
	const double mib = 1 << 20;
	struct brief parts[LEDGER_SECTIONS];
	for (size_t i = 0; i < LEDGER_SECTIONS; i++)
		parts[i] = brief_of(i, l);
	qsort(parts, LEDGER_SECTIONS, sizeof *parts, by_bytes);
	size_t n = (size_t)snprintf(text, size, "%.1f MiB:", (double)l->rss_bytes / mib);
	for (size_t i = 0; i < LEDGER_SECTIONS && n < size; i++)
		if ((double)parts[i].bytes >= mib / 20) {
			n += (size_t)snprintf(text + n, size - n, "%s %s %.1f", i ? "," : "",
					      parts[i].name, (double)parts[i].bytes / mib);
			if (n < size)
				n += print_maker(text + n, size - n, &parts[i]);
		}
}

const char *report_ledger_row(const struct profile *p, char *text, size_t size)
{
	const struct ledger *l = ledger_largest(p->ledgers, p->ledger_count);
	if (!l)
		return NULL;
	report_ledger_short(text, size, l);
	if (l->moment == LEDGER_EXIT)
		return "RSS at exit";
	if (l->moment == LEDGER_REQUEST)
		return "RSS";
	size_t n = strlen(text);
	uint32_t process = profile_ledger_process(p, l);
	uint64_t end_ns = process == PROFILE_NONE ? 0 : p->processes[process].end_ns;
	uint64_t peak = process == PROFILE_NONE ? 0 : p->processes[process].totals.peak_rss_bytes;
	bool of_rss = l->moment == LEDGER_INTERVAL && peak;
	double share = !of_rss ? l->share_of_peak : (double)l->rss_bytes / (double)peak;
	snprintf(text + n, size - n, " (%s of the peak %s%s%s%s)",
		 words_percent(share < 1 ? share : 1).text, of_rss ? "RSS" : "live",
		 end_ns > l->time_ns ? ", " : "",
		 end_ns > l->time_ns ? words_duration(end_ns - l->time_ns).text : "",
		 end_ns > l->time_ns ? " before the end" : "");
	bool is_near = share >= NEAR_PEAK && (of_rss || l->moment == LEDGER_PEAK);
	return is_near ? "RSS at peak" : "RSS";
}

void report_ledger_list(FILE *out, const struct ledger *ledgers, size_t count,
			const struct ledger *shown)
{
	for (size_t i = 0; i < count; i++)
		if (&ledgers[i] != shown)
			fprintf(out, "process %d, %s, at %s: %s resident\n", ledgers[i].pid,
				ledger_moment_words(ledgers[i].moment),
				words_duration(ledgers[i].time_ns).text,
				words_bytes(ledgers[i].rss_bytes).text);
}

/* ---- CSV */

static void print_field(FILE *out, const char *name)
{
	char glyph[WORDS_GLYPH];
	putc('"', out);
	while (words_glyph(&name, glyph))
		fputs(!strcmp(glyph, "\"") ? "\"\"" : glyph, out);
	putc('"', out);
}

void report_ledger_csv(FILE *out, const struct ledger *ledgers, size_t count)
{
	fputs("pid,moment,time_ns,kind,name,resident_bytes,private_bytes,swapped_bytes,virtual_"
	      "bytes,"
	      "blocks\n",
	      out);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < ledgers[i].count; k++) {
			const struct ledger *l = &ledgers[i];
			const struct ledger_line *line = &l->items[k];
			fprintf(out, "%d,%s,%" PRIu64 ",%s,", l->pid, ledger_moment_name(l->moment),
				l->time_ns, ledger_kind_name(line->kind));
			print_field(out, line->name);
			fprintf(out,
				",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
				line->bytes.resident, line->bytes.own, line->bytes.swapped,
				line->bytes.mapped, line->blocks);
		}
}
