/* One site's call stack in text.
 *
 * It begins with the innermost frame that is the user's own, because people can change that line.
 * Frames of the runtime inside it and callers beyond the first few are counted, not listed. With --full
 * every frame has its line, innermost first. Recursion shows once, with how often it repeats. Whatever
 * is left out is marked. */
#include "report/report_parts.h"

#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	CALLERS_SHOWN = 3,
	LONGEST_CYCLE = 8,
	NARROWEST = 22,
	SHORTEST = 12,
	WHOLE_INDENT = 14,
	PLACE_LEAST = 16
};

/* A frame of the stack. It repeats `repeat` times together with the cycle - 1 before it. */
struct shown_frame {
	uint32_t node, repeat, cycle;
	size_t frames; /* how many frames of the stack it stands for */
};

static bool same_function(const struct profile *p, uint32_t a, uint32_t b)
{
	const struct profile_frame *x = profile_node_frame(p, a);
	const struct profile_frame *y = profile_node_frame(p, b);
	return x->function == y->function && x->module == y->module;
}

static bool is_user(const struct profile *p, const struct shown_frame *f)
{
	return profile_node_frame(p, f->node)->user;
}

static size_t stack_depth(const struct profile *p, uint32_t node)
{
	size_t depth = 0;
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent)
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

static void print_frame(FILE *out, const struct profile *p, const struct shown_frame *f, size_t max)
{
	char mark[80] = "";
	if (f->repeat > 1 && f->cycle == 1)
		snprintf(mark, sizeof mark, " [recursion x%s]", words_count(f->repeat).text);
	else if (f->repeat > 1)
		snprintf(mark, sizeof mark, " [recursion x%s of %" PRIu32 " frames]",
			 words_count(f->repeat).text, f->cycle);
	size_t marks = strlen(mark);
	if (max < marks + NARROWEST && marks)
		marks = (size_t)snprintf(mark, sizeof mark, " [x%s]", words_count(f->repeat).text);
	words_print_frame(out, p, f->node, max > marks + SHORTEST ? max - marks : SHORTEST);
	fputs(mark, out);
}

struct stack {
	const struct profile *p;
	struct shown_frame *shown;
	size_t count, depth;
	size_t indent, room; /* of the lines */
	const char *callers; /* that distinguish its heading, or NULL */
};

size_t report_print_callers(FILE *out, const char *callers, size_t max)
{
	/* A few letters of a long name say nothing; a short one may fit. */
	if (!callers || (max < 8 && max < words_columns(callers) + 3))
		return 0;
	fputs(" < ", out);
	return 3 + words_print_fit(out, callers, max - 3);
}

/* How many columns of a line the callers after a frame get: what they need, if the function's name and
 * part of its place fit too, else half. */
static size_t callers_room(const struct profile *p, uint32_t node, const char *callers, size_t max)
{
	char text[WORDS_SHORT];
	if (!callers || node >= p->stacks.node_count)
		return 0;
	const struct profile_frame *f = profile_node_frame(p, node);
	size_t wanted = words_columns(callers) + 3;
	size_t name = words_columns(words_shorten(text, f->function) ? text : f->function);
	size_t place = f->file ? PLACE_LEAST : 0;
	size_t most = name + place < max / 2 ? max - name - place : max / 2;
	return wanted < most ? wanted : most;
}

/* Whether a frame before its callers is shown without its module, whose name does not fit. */
static bool drops_module(const struct profile *p, uint32_t node, size_t max)
{
	const struct profile_frame *f = profile_node_frame(p, node);
	return !f->file && f->module < p->stacks.module_count &&
	       words_columns(f->function) + words_columns(profile_module_name(p, f->module)) + 4 >
		       max;
}

static void print_heading(FILE *out, const struct stack *s, size_t head,
			  const struct profile_site *site, bool color)
{
	bool known = site->via < PROFILE_VIA_COUNT; /* other tools do not always tell */
	size_t via = strlen(profile_via_name(site->via)) + 3;
	if (!known || s->room < via + NARROWEST)
		via = 0;
	words_style(out, color, STYLE_BOLD);
	if (s->count) {
		size_t callers = callers_room(s->p, s->shown[head].node, s->callers, s->room - via);
		size_t room = s->room - via - callers;
		uint32_t node = s->shown[head].node;
		if (callers && s->shown[head].repeat < 2 && drops_module(s->p, node, room))
			words_print_function(out, profile_node_frame(s->p, node)->function, room);
		else
			print_frame(out, s->p, &s->shown[head], room);
		report_print_callers(out, s->callers, callers);
	} else
		fputs("[stack unknown]", out);
	words_style(out, color, STYLE_PLAIN);
	words_style(out, color, STYLE_DIM);
	if (via)
		fprintf(out, " [%s]", profile_via_name(site->via));
	putc('\n', out);
	if (site->labels < s->p->label_set_count) {
		fprintf(out, "%*s", (int)s->indent, "");
		words_print_fit(out, s->p->label_sets[site->labels].words, s->room);
		putc('\n', out);
	}
}

static size_t print_inside(FILE *out, const struct stack *s, size_t head)
{
	char more[48] = "";
	size_t inside = 0;
	if (!head)
		return 0;
	for (size_t i = 0; i < head; i++)
		inside += s->shown[i].frames;
	if (inside > 1)
		snprintf(more, sizeof more, " (+%zu inside)", inside - 1);
	if (s->room < strlen(more) + 2 + SHORTEST)
		more[0] = 0;
	size_t used = strlen(more) + 2;
	/* The function that the user's line calls says more than the innermost one. */
	fprintf(out, "%*s> ", (int)s->indent, "");
	words_print_short(out, profile_node_frame(s->p, s->shown[head - 1].node)->function,
			  s->room > used + SHORTEST ? s->room - used : SHORTEST);
	fprintf(out, "%s\n", more);
	return inside;
}

/* Where the first user frame is among what is shown. */
static size_t head_of(const struct stack *s, const struct profile_site *site)
{
	size_t inside = 0, at = 0;
	uint32_t user = profile_first_user_node(s->p, site->node);
	for (uint32_t n = site->node; n != user; n = s->p->stacks.nodes[n].parent)
		inside++;
	for (size_t frames = 0; at + 1 < s->count; at++)
		if ((frames += s->shown[at].frames) > inside)
			break;
	return at;
}

static void print_folded(FILE *out, const struct stack *s, const struct profile_site *site,
			 bool color)
{
	size_t head = head_of(s, site), told = 0, callers = 0;
	print_heading(out, s, head, site, color);
	if (s->count)
		told = s->shown[head].frames + print_inside(out, s, head);
	for (size_t i = head + 1; i < s->count && callers < CALLERS_SHOWN; i++) {
		if (!is_user(s->p, &s->shown[i]))
			continue;
		fprintf(out, "%*s< ", (int)s->indent, "");
		print_frame(out, s->p, &s->shown[i], s->room - 2);
		putc('\n', out);
		told += s->shown[i].frames;
		callers++;
	}
	if (told < s->depth)
		fprintf(out, "%*s... %zu more frame%s\n", (int)s->indent, "", s->depth - told,
			s->depth - told == 1 ? "" : "s");
}

static void print_whole(FILE *out, const struct stack *s, const struct profile_site *site,
			bool color)
{
	/* Whole stacks have long names and no numbers beside them: they may begin further left. */
	size_t indent = s->indent < WHOLE_INDENT ? s->indent : WHOLE_INDENT;
	print_heading(out, s, 0, site, color);
	for (size_t i = 1; i < s->count; i++) {
		fprintf(out, "%*s", (int)indent, "");
		words_style(out, color && is_user(s->p, &s->shown[i]), STYLE_PLAIN);
		print_frame(out, s->p, &s->shown[i], s->room + s->indent - indent);
		words_style(out, color, STYLE_DIM);
		putc('\n', out);
	}
}

int report_print_stack(FILE *out, const struct profile *p, const struct profile_site *site,
		       const char *callers, const struct report_options *o, size_t indent)
{
	size_t width = report_width(o), depth = stack_depth(p, site->node), at = 0;
	uint32_t *nodes = malloc((depth + 1) * sizeof *nodes);
	struct stack s = {.p = p,
			  .shown = malloc((depth + 1) * sizeof *s.shown),
			  .depth = depth,
			  .indent = indent,
			  .callers = o->full ? NULL : callers,
			  .room = width > indent + NARROWEST ? width - indent : NARROWEST};
	if (!nodes || !s.shown) {
		free(nodes);
		free(s.shown);
		return HEFT_ENOMEM;
	}
	for (uint32_t n = site->node; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
		nodes[at++] = n;
	s.count = fold_recursion(p, nodes, depth, s.shown);
	if (o->full)
		print_whole(out, &s, site, o->color);
	else
		print_folded(out, &s, site, o->color);
	if (depth && (p->stacks.nodes[nodes[depth - 1]].flags & PROFILE_TRUNCATED))
		fprintf(out, "%*s... heft could not follow the stack any further\n", (int)indent,
			"");
	words_style(out, o->color, STYLE_PLAIN);
	free(nodes);
	free(s.shown);
	return 0;
}

uint32_t report_called_node(const struct profile *p, const struct profile_site *s)
{
	uint32_t user = profile_first_user_node(p, s->node), called = PROFILE_NONE;
	for (uint32_t n = s->node; n != user; n = p->stacks.nodes[n].parent)
		called = n;
	return called;
}

void report_print_site(FILE *out, const struct profile *p, const struct profile_site *s,
		       const char *callers, size_t max)
{
	uint32_t called = report_called_node(p, s);
	uint32_t user = profile_first_user_node(p, s->node);
	/* What that line calls distinguishes sites that are on one line. */
	size_t room = called == PROFILE_NONE ? max : max - max / 3;
	size_t behind = callers_room(p, user, callers, room);
	size_t used = words_print_frame(out, p, user, room - behind);
	used += report_print_callers(out, callers, behind);
	if (called == PROFILE_NONE)
		return;
	fputs(" > ", out);
	words_print_short(out, profile_node_frame(p, called)->function,
			  max > used + 3 ? max - used - 3 : 3);
}

void report_print_site_via(FILE *out, const struct profile *p, const struct profile_site *s,
			   const char *callers, size_t max)
{
	char via[40] = "";
	if (s->via < PROFILE_VIA_COUNT) /* other tools do not always record it */
		snprintf(via, sizeof via, " [%s]", profile_via_name(s->via));
	if (max < strlen(via) + NARROWEST)
		via[0] = 0;
	report_print_site(out, p, s, callers, max - strlen(via));
	fputs(via, out);
}
