/* The text report: a block of totals, what is wrong with the recording, the top
 * sites with their callers, and the next command to try.
 *
 * A site is headed by the innermost frame that is the user's own, because that is
 * the line people can change; frames of the runtime inside it and callers beyond
 * the first few are counted, not listed. Everything left out is marked; nothing is
 * cut in the profile itself. Recursion shows once, with how often it repeats. */
#include "report/report.h"

#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLERS_SHOWN = 4, LONGEST_CYCLE = 8, SITE_INDENT = 34 };

static void row(FILE *out, const char *label)
{
	fprintf(out, "  %-13s ", label);
}

static void print_when(FILE *out, const struct profile *p, uint64_t time_ns)
{
	fprintf(out, "at %s", words_duration(time_ns).text);
	if (p->duration_ns && time_ns <= p->duration_ns)
		fprintf(out, " (%.0f %% of the run)",
			100 * (double)time_ns / (double)p->duration_ns);
}

static void print_notes(FILE *out, const struct profile *p, bool color)
{
	for (uint32_t i = 0; i < p->note_count; i++) {
		const struct profile_note *n = &p->notes[i];
		bool warning = n->kind == PROFILE_NOTE_WARNING;
		words_style(out, color, warning ? STYLE_WARN : STYLE_DIM);
		fputs(warning ? "  ! " : "  - ", out);
		words_print(out, n->text, 400);
		words_style(out, color, STYLE_PLAIN);
		putc('\n', out);
	}
}

static void print_selection(FILE *out, const struct profile *p, const struct report_options *o)
{
	if (!p->selection && !o->focus && !o->ignore)
		return;
	row(out, "only");
	if (p->selection)
		words_print(out, p->selection, 200);
	if (o->focus) {
		fprintf(out, "%sstacks that match '", p->selection ? ", " : "");
		words_print(out, o->focus, 100);
		putc('\'', out);
	}
	if (o->ignore) {
		fprintf(out, "%sno stacks that match '", p->selection || o->focus ? ", " : "");
		words_print(out, o->ignore, 100);
		putc('\'', out);
	}
	fputs("; all numbers are of this part\n", out);
}

static void print_totals(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	words_style(out, o->color, STYLE_BOLD);
	words_print_command(out, p->argv, p->argc, 300);
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
	row(out, "ran");
	fprintf(out, "%s, ", words_duration(p->duration_ns).text);
	words_print_end(out, p);
	if (p->pid)
		fprintf(out, ", pid %" PRId32, p->pid);
	putc('\n', out);
	print_selection(out, p, o);
	row(out, "allocations");
	fprintf(out, "%s (%s), %s in all", words_count(t->allocations).text,
		words_rate(t->allocations, p->duration_ns).text,
		words_bytes(t->allocated_bytes).text);
	if (t->reallocations)
		fprintf(out, "; %s reallocations", words_count(t->reallocations).text);
	putc('\n', out);
	row(out, "peak");
	fprintf(out, "%s in %s ", words_bytes(t->peak_bytes).text,
		words_blocks(t->peak_blocks).text);
	print_when(out, p, t->peak_time_ns);
	putc('\n', out);
	row(out, "live at end");
	fprintf(out, "%s in %s\n", words_bytes(t->live_bytes).text,
		words_blocks(t->live_blocks).text);
	row(out, "temporary");
	fprintf(out, "%s (%s of allocations)\n", words_count(t->temporary).text,
		words_share(t->temporary, t->allocations).text);
	if (t->peak_rss_bytes) {
		row(out, "peak RSS");
		fprintf(out, "%s\n", words_bytes(t->peak_rss_bytes).text);
	}
	row(out, "threads");
	fprintf(out, "%s in %" PRIu32 " process%s\n", words_count(t->threads).text,
		p->process_count, p->process_count == 1 ? "" : "es");
	if (t->unknown_frees) {
		row(out, "unknown frees");
		fprintf(out, "%s (of blocks that heft never saw allocated)\n",
			words_count(t->unknown_frees).text);
	}
	print_notes(out, p, o->color);
}

/* Collapses recursion in a stack, innermost first. items[i].node is a frame, shown `repeat` times
 * in a row together with the cycle - 1 items before it. */
struct shown_frame {
	uint32_t node, repeat, cycle;
	size_t frames; /* of the stack that it stands for: all of them together make the depth */
};

static bool same_function(const struct profile *p, uint32_t a, uint32_t b)
{
	const struct profile_frame *x = &p->frames[p->nodes[a].frame];
	const struct profile_frame *y = &p->frames[p->nodes[b].frame];
	return x->function == y->function && x->module == y->module;
}

static size_t stack_depth(const struct profile *p, uint32_t node)
{
	size_t depth = 0;
	for (; node != PROFILE_NONE; node = p->nodes[node].parent)
		depth++;
	return depth;
}

/* How often the `cycle` frames before `at` come again from there. */
static size_t repeats(const struct profile *p, const uint32_t *nodes, size_t count, size_t at,
		      size_t cycle)
{
	size_t n = 0;
	while (at + (n + 1) * cycle <= count) {
		for (size_t k = 0; k < cycle; k++)
			if (!same_function(p, nodes[at - cycle + k], nodes[at + n * cycle + k]))
				return n;
		n++;
	}
	return n;
}

static size_t fold_recursion(const struct profile *p, const uint32_t *nodes, size_t count,
			     struct shown_frame *shown)
{
	size_t made = 0, first_free = 0; /* items before first_free belong to a finished cycle */
	for (size_t at = 0; at < count;) {
		bool folded = false;
		size_t left = made - first_free;
		for (size_t cycle = 1; cycle <= LONGEST_CYCLE && cycle <= left; cycle++) {
			size_t n = repeats(p, nodes, count, at, cycle);
			if (!n)
				continue;
			shown[made - 1].repeat = (uint32_t)n + 1;
			shown[made - 1].cycle = (uint32_t)cycle;
			shown[made - 1].frames += n * cycle;
			first_free = made;
			at += n * cycle;
			folded = true;
			break;
		}
		if (!folded && at < count)
			shown[made++] = (struct shown_frame){nodes[at++], 1, 1, 1};
	}
	return made;
}

static void print_site_frame(FILE *out, const struct profile *p, const struct shown_frame *f)
{
	words_print_frame(out, p, f->node);
	if (f->repeat > 1 && f->cycle == 1)
		fprintf(out, " [%s times: recursion]", words_count(f->repeat).text);
	else if (f->repeat > 1)
		fprintf(out, " [with the %" PRIu32 " above %s times: recursion]", f->cycle - 1,
			words_count(f->repeat).text);
}

static int print_stack(FILE *out, const struct profile *p, const struct profile_site *s, bool color)
{
	size_t depth = stack_depth(p, s->node);
	uint32_t *nodes = malloc((depth + 1) * sizeof *nodes);
	struct shown_frame *shown = malloc((depth + 1) * sizeof *shown);
	if (!nodes || !shown) {
		free(nodes);
		free(shown);
		return HEFT_ENOMEM;
	}
	size_t at = 0;
	for (uint32_t n = s->node; n != PROFILE_NONE; n = p->nodes[n].parent)
		nodes[at++] = n;
	size_t count = fold_recursion(p, nodes, depth, shown);

	/* Headed by the first user frame; frames inside it are only counted. */
	size_t head = 0;
	while (head < count && !p->frames[p->nodes[shown[head].node].frame].user)
		head++;
	if (head == count)
		head = 0;
	size_t told = 0;
	if (count) {
		words_style(out, color, STYLE_BOLD);
		print_site_frame(out, p, &shown[head]);
		words_style(out, color, STYLE_PLAIN);
		told = shown[head].frames;
	} else {
		fputs("[stack unknown]", out);
	}
	words_style(out, color, STYLE_DIM);
	fprintf(out, " [%s]", profile_via_name(s->via));
	putc('\n', out);
	if (head) {
		/* What the user's line calls says more than where that ends up. */
		fprintf(out, "%*s> ", SITE_INDENT, "");
		words_print_short(out, p->frames[p->nodes[shown[head - 1].node].frame].function,
				  80);
		size_t inside = 0;
		for (size_t i = 0; i < head; i++)
			inside += shown[i].frames;
		if (inside > 1)
			fprintf(out, " and %zu more frame%s inside", inside - 1,
				inside == 2 ? "" : "s");
		told += inside;
		putc('\n', out);
	}
	size_t callers = 0;
	for (size_t i = head + 1; i < count && callers < CALLERS_SHOWN; i++) {
		if (!p->frames[p->nodes[shown[i].node].frame].user)
			continue;
		fprintf(out, "%*s< ", SITE_INDENT, "");
		print_site_frame(out, p, &shown[i]);
		putc('\n', out);
		told += shown[i].frames;
		callers++;
	}
	if (told < depth)
		fprintf(out, "%*s... %zu more frame%s\n", SITE_INDENT, "", depth - told,
			depth - told == 1 ? "" : "s");
	if (depth && (p->nodes[nodes[depth - 1]].flags & PROFILE_TRUNCATED))
		fprintf(out, "%*s... the stack goes on, but could not be followed\n", SITE_INDENT,
			"");
	words_style(out, color, STYLE_PLAIN);
	free(nodes);
	free(shown);
	return 0;
}

static const char *const sort_words[] = {
	[PROFILE_BY_PEAK] = "bytes at the peak",
	[PROFILE_BY_LIVE] = "bytes live at the end",
	[PROFILE_BY_ALLOCATED] = "allocated bytes",
	[PROFILE_BY_COUNT] = "number of allocations",
	[PROFILE_BY_TEMPORARY] = "temporary allocations",
	[PROFILE_BY_LIFETIME] = "mean lifetime",
};

static uint64_t total_of(const struct profile_totals *t, enum profile_sort sort)
{
	switch (sort) {
	case PROFILE_BY_PEAK:
		return t->peak_bytes;
	case PROFILE_BY_LIVE:
		return t->live_bytes;
	case PROFILE_BY_ALLOCATED:
		return t->allocated_bytes;
	case PROFILE_BY_COUNT:
		return t->allocations;
	case PROFILE_BY_TEMPORARY:
		return t->temporary;
	case PROFILE_BY_LIFETIME:
		break;
	}
	return 0;
}

static struct words value_of(uint64_t value, enum profile_sort sort)
{
	switch (sort) {
	case PROFILE_BY_COUNT:
	case PROFILE_BY_TEMPORARY:
		return words_count(value);
	case PROFILE_BY_LIFETIME:
		return words_duration(value);
	case PROFILE_BY_PEAK:
	case PROFILE_BY_LIVE:
	case PROFILE_BY_ALLOCATED:
		break;
	}
	return words_bytes(value);
}

static int print_sites(FILE *out, const struct profile *p, const struct report_options *o)
{
	uint32_t *order = profile_sorted_sites(p, o->sort);
	int rc = 0;
	if (!order)
		return HEFT_ENOMEM;
	size_t shown = o->limit < p->site_count ? o->limit : p->site_count;
	/* Sites without any of what is asked for say nothing. */
	while (shown && !profile_site_measure(&p->sites[order[shown - 1]], o->sort))
		shown--;
	if (!shown) {
		fprintf(out, "\nNo site has %s.\n", sort_words[o->sort]);
		free(order);
		return 0;
	}
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "\nTop %zu of %s sites by %s\n", shown, words_count(p->site_count).text,
		sort_words[o->sort]);
	words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, "%11s %8s %11s  %s\n", profile_sort_name(o->sort),
		o->sort == PROFILE_BY_LIFETIME ? "" : "share",
		o->sort == PROFILE_BY_COUNT ? "bytes" : "count", "site");
	for (size_t i = 0; i < shown && rc == 0; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		uint64_t value = profile_site_measure(s, o->sort);
		fprintf(out, "%11s %8s %11s  ", value_of(value, o->sort).text,
			o->sort == PROFILE_BY_LIFETIME
				? ""
				: words_share(value, total_of(&p->totals, o->sort)).text,
			o->sort == PROFILE_BY_COUNT ? words_bytes(s->allocated_bytes).text
						    : words_count(s->allocations).text);
		rc = print_stack(out, p, s, o->color);
	}
	if (rc == 0 && shown < p->site_count)
		fprintf(out, "... %s more sites\n", words_count(p->site_count - shown).text);
	free(order);
	return rc;
}

/* The question that comes next, with the command that answers it. */
static void print_next(FILE *out, const struct profile *p, const struct report_options *o)
{
	const struct profile_totals *t = &p->totals;
	const char *option = "--tree", *why = "the same as a tree of calls";
	if (!o->path || !p->site_count)
		return;
	if (o->sort == PROFILE_BY_PEAK && t->peak_bytes && t->live_bytes > t->peak_bytes / 4) {
		option = "--sort live";
		why = "what is still there at the end";
	} else if (o->sort != PROFILE_BY_TEMPORARY && t->temporary > t->allocations / 2) {
		option = "--sort temporary";
		why = "who allocates only to free at once";
	}
	fprintf(out, "\nNext: heft report %s ", option);
	words_print_shell(out, o->path);
	fprintf(out, "    (%s)\n", why);
}

int report_text(FILE *out, const struct profile *p, const struct report_options *o)
{
	print_totals(out, p, o);
	int rc = print_sites(out, p, o);
	if (rc == 0)
		print_next(out, p, o);
	return rc;
}
