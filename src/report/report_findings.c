/* Findings in text: number, severity, the claim in a sentence, where it is, the evidence in a few
 * aligned lines, what to do.
 *
 * This file does not know the diagnoses. Names such as backlog_blocks and backlog_bytes share their
 * first word, so they stand together under it, and the type of a value says how to print it. Every
 * word has a row of its own. There are at most eight rows, and the parts of an object below them; JSON
 * and --all have the rest, which is less important. */
#include "report/report_parts.h"

#include "profile/site_callers.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	FINDINGS_SHOWN = 7,
	EVIDENCE_ROWS = 8,
	PARTS_SHOWN = 6,
	TEXTS_SHOWN = 4,
	LONGEST_TEXT = 70,
	LONGEST_NAME = 40,
	INDENT = 13,
	LABEL = 11
};

/* Length of the name's first word. */
static size_t first_word(const char *name)
{
	return strcspn(name, "_");
}

static bool same_first_word(const struct evidence *a, const struct evidence *b)
{
	size_t length = first_word(a->name);
	return length == first_word(b->name) && strncmp(a->name, b->name, length) == 0;
}

/* Names that do not read well as words. */
static const struct {
	const char *name, *word, *rest;
} unlike[] = {
	{"per_second", "rate", "a second"},
	{"fit_in_1gib", "capacity", "objects in 1 GiB"},
	{"bytes_per_second", "growth", ""},
	{"level_bytes", "held", "in the end"},
	{"time_to_limit_ns", "reached", "in"},
	{"allocations", "blocks", "allocated"},
	{"arrival_ns", "arrival", "one item every"},
	{"service_ns", "service", "one item every"},
	{"wait_growth_ns", "wait", "each longer by"},
	{"wait_mean_ns", "wait", "on average"},
	{"in_order", "order", "first in, first out"},
	{"header_bytes", "headers", ""},
	{"instances", "objects", ""},
	{"bytes_each", "size", "each"},
};

/* The first word of a name as it is shown; *length becomes its length. */
static const char *shown_word(const struct evidence *e, size_t *length)
{
	*length = first_word(e->name);
	for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
		if (strcmp(unlike[i].name, e->name) == 0) {
			*length = strlen(unlike[i].word);
			return unlike[i].word;
		}
	return e->name;
}

/* The rest of the name as words, without the units that the value shows anyway. */
static size_t rest_of_name(char *out, size_t size, const struct evidence *e)
{
	static const char *const units[] = {"ns", "bytes", "function", "share", "second", "per"};
	const char *s = e->name + first_word(e->name);
	size_t used = 0;
	for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
		if (strcmp(unlike[i].name, e->name) == 0)
			return (size_t)snprintf(out, size, "%s", unlike[i].rest);
	while (*s == '_') {
		size_t length = strcspn(++s, "_");
		bool unit = false;
		for (size_t i = 0; i < sizeof units / sizeof *units; i++)
			unit |= strlen(units[i]) == length && strncmp(units[i], s, length) == 0;
		if (!unit && used + length + 2 < size) {
			if (used)
				out[used++] = ' ';
			memcpy(out + used, s, length);
			used += length;
		}
		s += length;
	}
	out[used] = 0;
	return used;
}

static void print_value(FILE *out, const struct evidence *e, bool alone)
{
	char rest[64];
	const char *gap = rest_of_name(rest, sizeof rest, e) ? " " : "";
	if (strcmp(rest, "error95") == 0) { /* +- 221.6 KiB/s */
		fputs("+- ", out);
		rest[0] = 0;
		gap = "";
	}
	switch (e->type) {
	case EVIDENCE_COUNT:                       /* 4,980 blocks */
		if (strcmp(e->name, "pid") == 0) { /* a number, not an amount */
			fprintf(out, "%" PRIu64, e->number);
			break;
		}
		fprintf(out, "%s%s%s", words_count(e->number).text, gap, rest);
		break;
	case EVIDENCE_BYTES: /* 294.7 KiB (301,772 B) each */
		fputs(words_bytes(e->number).text, out);
		if (e->number >= 1024)
			fprintf(out, " (%s)", words_exact_bytes(e->number).text);
		fprintf(out, "%s%s", gap, rest);
		break;
	case EVIDENCE_RATE: fprintf(out, "%s/s%s%s", words_bytes(e->number).text, gap, rest); break;
	case EVIDENCE_TIME_NS: /* growth 178 us */
		fprintf(out, "%s%s%s", rest, gap, words_duration(e->number).text);
		break;
	case EVIDENCE_SHARE:
		fprintf(out, "%s%s%s", alone || *gap ? rest : "share ", gap,
			words_percent(e->share).text);
		break;
	case EVIDENCE_TEXT:
		fprintf(out, "%s%s", rest, gap);
		words_print_function(out, e->text ? e->text : "", LONGEST_TEXT);
		break;
	case EVIDENCE_TEXTS:
		fprintf(out, "%s%s", rest, gap);
		for (uint32_t i = 0; i < e->count && i < TEXTS_SHOWN; i++) {
			fputs(i ? ", " : "", out);
			words_print_fit(out, e->texts[i], LONGEST_NAME);
		}
		if (e->count > TEXTS_SHOWN)
			fprintf(out, " and %" PRIu32 " more", e->count - TEXTS_SHOWN);
		break;
	case EVIDENCE_PARTS: break;
	}
}

/* Parts have their own lines, and values of 0 are not shown. */
static bool is_listed(const struct evidence *e)
{
	switch (e->type) {
	case EVIDENCE_COUNT:
	case EVIDENCE_BYTES:
	case EVIDENCE_RATE:
	case EVIDENCE_TIME_NS: return e->number != 0;
	case EVIDENCE_SHARE: return e->share > 0;
	case EVIDENCE_TEXT: return e->text && *e->text;
	case EVIDENCE_TEXTS: return e->count != 0;
	case EVIDENCE_PARTS: break;
	}
	return false;
}

/* Whether e is the first with its first word. */
static bool opens_group(const struct finding *f, uint32_t at)
{
	if (!is_listed(&f->evidence[at]))
		return false;
	for (uint32_t i = 0; i < at; i++)
		if (is_listed(&f->evidence[i]) &&
		    same_first_word(&f->evidence[i], &f->evidence[at]))
			return false;
	return true;
}

static bool has_several(const struct finding *f, uint32_t first)
{
	for (uint32_t i = first + 1; i < f->evidence_count; i++)
		if (is_listed(&f->evidence[i]) &&
		    same_first_word(&f->evidence[i], &f->evidence[first]))
			return true;
	return false;
}

static void print_group(FILE *out, const struct finding *f, uint32_t first)
{
	bool alone = !has_several(f, first);
	for (uint32_t i = first; i < f->evidence_count; i++) {
		if (!is_listed(&f->evidence[i]) ||
		    !same_first_word(&f->evidence[i], &f->evidence[first]))
			continue;
		fputs(i > first ? ", " : "", out);
		print_value(out, &f->evidence[i], alone);
	}
}

static void label(FILE *out, const struct report_options *o, const char *word, size_t length)
{
	fprintf(out, "%*s", INDENT, "");
	words_print_styled(out, o->color, STYLE_DIM, "%-*.*s", LABEL - 1,
			   (int)(length < LABEL - 1 ? length : LABEL - 1), word);
	putc(' ', out);
}

/* The text of the group that this evidence opens; NULL: no memory. */
static char *group_text(const struct finding *f, uint32_t first)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	print_group(out, f, first);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/* `known`: the function that the finding's place has named already, or NULL. */
static int print_evidence(FILE *out, const struct finding *f, const struct report_options *o,
			  const char *known)
{
	unsigned rows = 0;
	for (uint32_t i = 0; i < f->evidence_count && (rows < EVIDENCE_ROWS || o->all_findings);
	     i++) {
		const struct evidence *e = &f->evidence[i];
		size_t word;
		const char *name = shown_word(e, &word);
		if (!opens_group(f, i) ||
		    (known && e->type == EVIDENCE_TEXT && strcmp(e->text, known) == 0 &&
		     strcmp(e->name, "function") == 0))
			continue;
		char *text = group_text(f, i);
		if (!text)
			return HEFT_ENOMEM;
		label(out, o, name, word);
		words_print_wrapped(out, text, INDENT + LABEL, report_width(o));
		putc('\n', out);
		free(text);
		rows++;
	}
	return 0;
}

static void print_parts(FILE *out, const struct evidence *e, const struct report_options *o)
{
	size_t room = report_width(o) - INDENT - LABEL - 24;
	for (uint32_t i = 0; i < e->count && (i < PARTS_SHOWN || o->all_findings); i++) {
		const struct evidence_part *part = &e->parts[i];
		label(out, o, i ? "" : e->name, first_word(e->name));
		fprintf(out, "%13s %8s  ", words_exact_bytes(part->bytes).text,
			words_percent(part->share).text);
		const bool known = part->where && *part->where;
		size_t place = known ? words_columns(part->where) + 4 : 0;
		if (place > room - 8)
			place = room - 8;
		words_print_function(out, part->function ? part->function : "?", room - place);
		if (known) {
			fputs(" at ", out);
			words_print_fit(out, part->where, place - 4);
		}
		putc('\n', out);
	}
	if (e->count > PARTS_SHOWN && !o->all_findings) {
		label(out, o, "", 0);
		fprintf(out, "... %" PRIu32 " more, with --all\n", e->count - PARTS_SHOWN);
	}
}

int report_print_finding(FILE *out, const struct profile *p, const struct finding *f,
			 uint32_t number, const char *callers, const struct report_options *o)
{
	static const enum style styles[] = {
		[FINDING_LOW] = STYLE_LOW,
		[FINDING_MEDIUM] = STYLE_MEDIUM,
		[FINDING_HIGH] = STYLE_HIGH,
	};
	size_t width = report_width(o);
	fprintf(out, "%3" PRIu32 "  ", number);
	words_style(out, o->color, styles[f->severity]);
	fprintf(out, "%-6s", finding_severity_name(f->severity));
	words_style(out, o->color, STYLE_PLAIN);
	fputs("  ", out);
	words_style(out, o->color, STYLE_BOLD);
	words_print_wrapped(out, f->summary, INDENT, width);
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
	const char *known = NULL;
	if (f->site < p->site_count) {
		char id[32];
		uint32_t node = profile_first_user_node(p, p->sites[f->site].node);
		if (node < p->stacks.node_count)
			known = profile_node_frame(p, node)->function;
		int length = snprintf(id, sizeof id, " (site %" PRIu32 ")", p->sites[f->site].id);
		label(out, o, "where", 5);
		size_t room = width - INDENT - LABEL - (size_t)length;
		size_t used = words_print_frame(out, p, node, callers ? room / 2 : room);
		report_print_callers(out, callers, room > used ? room - used : 0);
		fprintf(out, "%s\n", id);
	}
	int rc = print_evidence(out, f, o, known);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < f->evidence_count; i++)
		if (f->evidence[i].type == EVIDENCE_PARTS)
			print_parts(out, &f->evidence[i], o);
	if (f->advice && *f->advice) {
		label(out, o, "do", 2);
		words_print_wrapped(out, f->advice, INDENT + LABEL, width);
		putc('\n', out);
	}
	return 0;
}

/* The way out stands under what a note says. */
static void print_note(FILE *out, const struct finding_note *n, const struct report_options *o)
{
	report_print_note(out, o, n->warning, n->text);
	if (!n->advice || !*n->advice)
		return;
	fputs("    ", out);
	words_print_wrapped(out, n->advice, 4, report_width(o));
	putc('\n', out);
}

void report_print_notes(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct findings *f = report_is_selection(o) ? NULL : o->findings;
	uint32_t count = f ? findings_note_count(f) : 0, infos = 0;
	for (uint32_t i = 0; i < p->note_count; i++)
		infos += p->notes[i].kind == PROFILE_NOTE_INFO;
	if (!count && !infos)
		return;
	words_print_styled(out, o->color, STYLE_BOLD, "\nNotes\n");
	for (uint32_t i = 0; i < count; i++)
		print_note(out, findings_note(f, i), o);
	for (uint32_t i = 0; i < p->note_count; i++)
		if (p->notes[i].kind == PROFILE_NOTE_INFO)
			report_print_note(out, o, false, p->notes[i].text);
}

int report_print_findings(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (report_is_selection(o)) {
		report_print_note(
			out, o, false,
			"heft looks for findings in whole recordings only: select nothing "
			"to see them");
		return 0;
	}
	if (!o->findings)
		return 0;
	uint32_t count = findings_count(o->findings);
	int rc = 0;
	words_print_styled(out, o->color, STYLE_BOLD, "\nFindings\n");
	if (!count)
		fputs(p->unseen ? "  none in what was recorded, which is a small part of the "
				  "program's "
				  "memory\n"
				: "  none: heft found none of the problems that it looks for\n",
		      out);
	uint32_t shown = count < FINDINGS_SHOWN || o->all_findings ? count : FINDINGS_SHOWN;
	uint32_t *sites = malloc(((size_t)shown + 1) * sizeof *sites), listed = 0, at = 0;
	for (uint32_t i = 0; sites && i < shown; i++) {
		uint32_t site = findings_get(o->findings, i)->site;
		if (site < p->site_count)
			sites[listed++] = site;
	}
	struct site_callers *callers = sites ? site_callers_new(p, sites, listed) : NULL;
	for (uint32_t i = 0; i < shown && rc == 0; i++) {
		const struct finding *f = findings_get(o->findings, i);
		const char *behind = f->site < p->site_count ? site_callers_text(callers, at++)
							     : NULL;
		if (i)
			putc('\n', out);
		rc = report_print_finding(out, p, f, i + 1, behind, o);
	}
	site_callers_free(callers);
	free(sites);
	if (count > FINDINGS_SHOWN && !o->all_findings)
		fprintf(out, "  ... %" PRIu32 " more finding%s, with --all\n",
			count - FINDINGS_SHOWN, count - FINDINGS_SHOWN == 1 ? "" : "s");
	return rc;
}
