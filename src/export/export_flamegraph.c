/* The flame graph: one SVG file that needs nothing but itself. Root on top, a frame as wide as its
 * share, greatest first.
 *
 * What is written here is a finished picture for a width of 1200, so that it reads in any viewer,
 * as an image, on paper and without scripts: every frame has a title with its whole name, place
 * and exact numbers. The script (flamegraph.js) then fits it to the window and adds search, zoom and
 * keys; it takes all it shows from these titles and from data-f="depth start value".
 *
 * Colours and order are those of the page (web/src/colours.ts, flame_view.tsx), and a test compares
 * them: no two modules have one colour, what is not the user's is paler, and siblings stand as the tree
 * has them.
 *
 * The file stays under a megabyte whatever the recording: frames are taken greatest first until
 * their text fills the budget, or until they are too narrow to matter, and one line says what was
 * left out. A parent is never smaller than its child and always has the smaller index, so what is
 * taken is a whole tree. Names are the profiled program's: spelt out where they would not be text
 * (export_names.h), escaped, and cut. */
#include "export/export_formats.h"
#include "export/export_names.h"
#include "export/flamegraph_parts.h"
#include "hosted/utf8.h"
#include "profile/call_tree.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	WIDTH = 1200,
	PAD = 10,
	PITCH = 19,
	BAR = 18,        /* height of a frame */
	LETTER = 73,     /* tenths of a pixel: a letter of a label */
	TOP = 150,       /* where the frames begin */
	BUDGET = 940000, /* bytes of all frames; head, style and script take about 20,000 */
	HUES = 8, /* that flamegraph.css has for modules, and grey; further modules have made ones */
	HUE_GREY = HUES,   /* a process, or an unknown stack */
	LEGEND = 6,        /* modules in it */
	FRAME_LEAST = 100, /* bytes that the text of a frame has at least */
	SMALLEST = 10000,  /* frames under this part of all are not drawn */
	NAME_LETTERS = 400,
	PLACE_LETTERS = 200,
	COMMAND_LETTERS = 300,
	HEAD_LETTERS = 150,
};

struct graph {
	const struct profile *p;
	const struct export_options *o;
	struct call_tree tree;
	uint64_t total;
	bool *drawn;     /* by node */
	uint32_t *hues;  /* by function: its module's colour; HUE_GREY is left out */
	bool has_system; /* a frame that is drawn is the runtime's */
	uint32_t drawn_count, deepest;
	uint64_t pruned;
};

static void write_command(FILE *out, const struct graph *g, size_t most)
{
	if (g->o->title) {
		export_name_xml(out, g->o->title, most);
		return;
	}
	for (uint32_t i = 0; i < g->p->run.argc && most > 3; i++) {
		if (i) {
			putc(' ', out);
			most--;
		}
		most -= export_name_xml(out, g->p->run.argv[i], most);
	}
}

/* "5,105,664 bytes (4.9 MiB)" */
static void write_value(FILE *out, const struct graph *g, uint64_t value)
{
	enum measure_id measure = g->o->measure;
	const char *unit = measure_unit_name(measure);
	fputs(words_count(value).text, out);
	if (strcmp(unit, "bytes") == 0) {
		fputs(value == 1 ? " byte" : " bytes", out);
		if (value >= 1024)
			fprintf(out, " (%s)", export_bytes(value).text);
	} else if (strcmp(unit, "ns") == 0) {
		fputs(" ns", out);
		if (value >= 1000)
			fprintf(out, " (%s)", words_duration(value).text);
	} else {
		fprintf(out, " %sallocation%s", measure == MEASURE_TEMPORARY ? "temporary " : "",
			value == 1 ? "" : "s");
	}
}

static bool is_instant(const struct profile *p)
{
	return p->chosen.words && p->chosen.from_ns == p->chosen.to_ns;
}

/* What the numbers are, after the total: "live at the peak". */
static void write_meaning(FILE *out, const struct graph *g)
{
	switch (g->o->measure) {
	case MEASURE_PEAK_BYTES: fputs(" live at the peak", out); break;
	case MEASURE_LIVE_BYTES:
		if (is_instant(g->p))
			fprintf(out, " live at %s", words_duration(g->p->chosen.to_ns).text);
		else
			fputs(profile_is_snapshot(g->p) ? " live" : " live at the end", out);
		break;
	case MEASURE_ALLOCATED_BYTES: fputs(" allocated in all", out); break;
	case MEASURE_LIFETIME: fputs(" of lifetimes, added up", out); break;
	case MEASURE_LEFT_BYTES: fputs(" left at exit", out); break;
	default: /* the number says it: "12 allocations" */ break;
	}
}

/* ---- colours */

/* The colour that a module's name asks for. As the page counts it: over UTF-16, which is what JavaScript's
 * strings are. */
static uint32_t wanted_hue(const char *name)
{
	uint32_t hash = 7;
	for (const unsigned char *c = (const unsigned char *)name; *c;) {
		static const unsigned char masks[] = {0x7f, 0x7f, 0x1f, 0x0f, 0x07};
		size_t length = *c < 0x80 ? 1 : utf8_sequence_length(c);
		uint32_t letter = length ? *c & masks[length] : 0xfffd;
		for (size_t i = 1; i < length; i++)
			letter = letter << 6 | (c[i] & 0x3f);
		if (letter > 0xffff) {
			hash = hash * 31 + (0xd7c0 + (letter >> 10));
			letter = 0xdc00 | (letter & 0x3ff);
		}
		hash = hash * 31 + letter;
		c += length ? length : 1;
	}
	return hash % HUES;
}

static int by_module(const void *a, const void *b, void *functions)
{
	const struct call_function *f = functions;
	return strcmp(f[*(const uint32_t *)a].module, f[*(const uint32_t *)b].module);
}

/* Modules in the order of their names; each takes the colour that it wants, or else the next one that is
 * free, so that no two have the same. Beyond the palette they are numbered from HUES + 1. */
static int give_hues(struct graph *g)
{
	const struct call_functions *functions = &g->tree.functions;
	uint32_t *order = malloc(((size_t)functions->count + 1) * sizeof *order);
	uint32_t count = 0, more = HUES + 1;
	bool taken[HUES] = {false};
	g->hues = malloc(((size_t)functions->count + 1) * sizeof *g->hues);
	if (!order || !g->hues) {
		free(order);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < functions->count; i++)
		g->hues[i] = HUE_GREY;
	/* Those of the tree alone: a profile knows more. */
	for (uint32_t i = 1; i < g->tree.count; i++) {
		uint32_t f = g->tree.nodes[i].function;
		if (f == PROFILE_NONE || !g->tree.nodes[i].total || functions->items[f].process ||
		    g->hues[f] != HUE_GREY)
			continue;
		g->hues[f] = 0; /* it is in the list */
		order[count++] = f;
	}
	qsort_r(order, count, sizeof *order, by_module, functions->items);
	for (uint32_t i = 0; i < count; i++) {
		const char *name = functions->items[order[i]].module;
		uint32_t tried = 0, hue = wanted_hue(name);
		if (i && strcmp(name, functions->items[order[i - 1]].module) == 0) {
			g->hues[order[i]] = g->hues[order[i - 1]];
			continue;
		}
		for (; taken[hue] && tried < HUES; tried++)
			hue = (hue + 1) % HUES;
		if (tried < HUES)
			taken[hue] = true;
		g->hues[order[i]] = tried < HUES ? hue : more++;
	}
	free(order);
	return 0;
}

static uint32_t hue_of(const struct graph *g, uint32_t node)
{
	uint32_t function = g->tree.nodes[node].function;
	return function == PROFILE_NONE ? HUE_GREY : g->hues[function];
}

static bool is_runtime(const struct graph *g, uint32_t node)
{
	uint32_t function = g->tree.nodes[node].function;
	if (function == PROFILE_NONE || g->tree.functions.items[function].process)
		return false;
	return !g->p->stacks.frames[g->tree.functions.items[function].frame].user;
}

/* The class of a colour, in the middle of a list of classes; made ones say their hue behind it. The numbers
 * are those of moduleHue (colours.ts). */
static void write_hue(FILE *out, uint32_t hue, const char *more)
{
	if (hue <= HUE_GREY)
		fprintf(out, "k%" PRIu32 "%s\"", hue, more);
	else
		fprintf(out, "m%s\" style=\"--h:%.1f\"", more, fmod((hue - 1) * 137.508 + 20, 360));
}

/* ---- frames */

static void write_title(FILE *out, const struct graph *g, uint32_t node)
{
	const struct call_tree *t = &g->tree;
	const struct call_node *n = &t->nodes[node];
	fputs("<title>", out);
	export_name_xml(out, call_tree_name(t, node), NAME_LETTERS);
	putc('\n', out);
	if (n->function != PROFILE_NONE) {
		const struct call_function *f = &t->functions.items[n->function];
		const char *between = "";
		if (f->file && *f->file) {
			export_name_xml(out, f->file, PLACE_LETTERS);
			if (f->line)
				fprintf(out, ":%" PRIu32, f->line);
			between = ", ";
		}
		if (*f->module && !f->process) {
			fputs(between, out);
			export_name_xml(out, f->module, PLACE_LETTERS);
			between = ", ";
		}
		if (f->inlined)
			fprintf(out, "%sinlined", between);
	}
	putc('\n', out);
	write_value(out, g, n->total);
	fprintf(out, ", %s of all", export_share(n->total, g->total).text);
	if (n->self && n->self < n->total)
		fprintf(out, "; %s by itself", words_count(n->self).text);
	fputs("</title>", out);
}

static double scaled(const struct graph *g, uint64_t value)
{
	return g->total ? (double)value * (WIDTH - 2 * PAD) / (double)g->total : 0;
}

static void write_box(FILE *out, double x, double width, uint32_t depth)
{
	fprintf(out,
		"<rect x=\"%.1f\" y=\"%" PRIu32 "\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>"
		"<text x=\"%.1f\" y=\"%" PRIu32 "\">",
		PAD + x, TOP + depth * PITCH, width, BAR, PAD + x + 4, TOP + depth * PITCH + 13);
}

static size_t letters_in(double width)
{
	return width > 8 + 2 * LETTER / 10.0 ? (size_t)((width - 8) * 10 / LETTER) : 0;
}

static void write_frame(FILE *out, const struct graph *g, uint32_t node, uint64_t start,
			uint32_t depth)
{
	const struct call_node *n = &g->tree.nodes[node];
	const char *name = call_tree_name(&g->tree, node);
	double width = scaled(g, n->total);
	fputs("<g class=\"f ", out);
	write_hue(out, hue_of(g, node), is_runtime(g, node) ? " pale" : "");
	fprintf(out, " data-f=\"%" PRIu32 " %" PRIu64 " %" PRIu64 "\">", depth, start, n->total);
	write_title(out, g, node);
	write_box(out, scaled(g, start), width, depth);
	if (letters_in(width))
		export_name_xml(out, name, letters_in(width));
	fputs("</text></g>\n", out);
}

/* The frames that are wide enough, greatest first; of those that no budget holds the smallest are not
 * there. */
static uint32_t *rank_frames(struct graph *g, uint32_t *count)
{
	uint32_t most = BUDGET / FRAME_LEAST, others;
	uint32_t *order = malloc(((size_t)most + 1) * sizeof *order);
	g->drawn = call_tree_keep(&g->tree, 0, most, g->total / SMALLEST, &others);
	*count = 0;
	for (uint32_t i = 1; order && g->drawn && i < g->tree.count; i++)
		if (g->drawn[i])
			order[(*count)++] = i;
	if (order)
		qsort_r(order, *count, sizeof *order, call_tree_greatest_first, &g->tree);
	return order;
}

/* Takes frames, greatest first, while their text fits. */
static int choose_frames(struct graph *g)
{
	uint32_t count, *order = rank_frames(g, &count);
	char *text = NULL;
	size_t size, used = 0;
	FILE *measured = open_memstream(&text, &size);
	int rc = order && g->drawn && measured ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (used <= BUDGET) {
			rewind(measured);
			/* Where it will stand is not known yet: the longest numbers there can be. */
			write_frame(measured, g, order[i], g->total, g->tree.count - 1);
			used += (size_t)ftell(measured);
		}
		g->drawn[order[i]] = used <= BUDGET;
		g->drawn_count += used <= BUDGET;
		g->has_system |= used <= BUDGET && is_runtime(g, order[i]);
	}
	if (measured)
		fclose(measured);
	free(text);
	free(order);
	return rc;
}

static void measure_picture(struct graph *g)
{
	const struct call_tree *t = &g->tree;
	struct call_walk w = {.t = t, .kept = g->drawn};
	while (call_walk_step(&w)) {
		if (w.depth > g->deepest)
			g->deepest = w.depth;
		for (uint32_t i = w.rest; w.left && i < t->first[w.node + 1]; i++)
			g->pruned += t->nodes[t->children[i]].total;
	}
}

/* next: by depth, where the next frame begins. */
static void write_frames(FILE *out, const struct graph *g, uint64_t *next)
{
	struct call_walk w = {.t = &g->tree, .kept = g->drawn};
	next[0] = 0;
	while (call_walk_step(&w)) {
		if (w.left)
			continue;
		uint64_t start = next[w.depth];
		next[w.depth] += g->tree.nodes[w.node].total;
		next[w.depth + 1] = start;
		if (w.node)
			write_frame(out, g, w.node, start, w.depth);
	}
}

/* ---- the rest of the picture */

/* A module's weight is what its functions are the first user frame of. NULL: no memory. */
static uint64_t *weigh_modules(const struct graph *g)
{
	const struct profile *p = g->p;
	uint64_t *weights = calloc((size_t)p->stacks.module_count + 1, sizeof *weights);
	for (uint32_t i = 0; weights && i < p->site_count; i++) {
		uint32_t node = profile_first_user_node(p, p->sites[i].node);
		const struct profile_frame *f =
			node == PROFILE_NONE ? NULL
					     : &p->stacks.frames[p->stacks.nodes[node].frame];
		uint64_t value = measure_of_stack(&p->sites[i], g->o->measure);
		if (f && f->user && f->module < p->stacks.module_count)
			weights[f->module] = weights[f->module] > UINT64_MAX - value
						     ? UINT64_MAX
						     : weights[f->module] + value;
	}
	return weights;
}

/* Returns where the next one begins. */
static int write_key(FILE *out, int x, uint32_t hue, const char *more, const char *name)
{
	fputs("<g class=\"legend\"><rect class=\"", out);
	write_hue(out, hue, more);
	fprintf(out,
		" x=\"%d\" y=\"81\" width=\"12\" "
		"height=\"12\" rx=\"2\"/><text class=\"key\" x=\"%d\" y=\"92\">",
		x, x + 18);
	x += 34 + 7 * (int)export_name_xml(out, name, 50);
	fputs("</text></g>\n", out);
	return x;
}

static uint32_t hue_of_module(const struct graph *g, const char *name)
{
	const struct call_functions *functions = &g->tree.functions;
	for (uint32_t i = 0; i < functions->count; i++)
		if (g->hues[i] != HUE_GREY && strcmp(functions->items[i].module, name) == 0)
			return g->hues[i];
	return HUE_GREY;
}

/* The modules that hold most, then what paler means. */
static int write_legend(FILE *out, const struct graph *g)
{
	uint64_t *weights = weigh_modules(g);
	int x = PAD;
	for (int i = 0; weights && i < LEGEND; i++) {
		uint32_t best = 0;
		for (uint32_t m = 1; m < g->p->stacks.module_count; m++)
			if (weights[m] > weights[best])
				best = m;
		if (!weights[best] || weights[best] < g->total / SMALLEST)
			break;
		const char *name = profile_module_name(g->p, best);
		x = write_key(out, x, hue_of_module(g, name), "", name);
		weights[best] = 0;
	}
	if (g->has_system)
		write_key(out, x, HUE_GREY, " pale",
			  "paler: runtime (libc, allocator, C++ and Rust libraries)");
	free(weights);
	return weights ? 0 : HEFT_ENOMEM;
}

static void write_facts(FILE *out, const struct graph *g)
{
	const struct profile *p = g->p;
	const char *between = "";
	char when[40];
	struct tm tm;
	time_t seconds = (time_t)(p->run.start_unix_ns / 1000000000);
	fputs("<text class=\"facts\" x=\"10\" y=\"66\">", out);
	if (p->run.start_unix_ns > 0 && gmtime_r(&seconds, &tm) &&
	    strftime(when, sizeof when, "%Y-%m-%d %H:%M UTC", &tm)) {
		fputs(when, out);
		between = ", ";
	}
	if ((p->run.has & PROFILE_HAS_TIMES) && p->run.duration_ns) {
		fprintf(out, "%sran %s", between, words_duration(p->run.duration_ns).text);
		between = ", ";
	}
	if (p->run.rate_bytes)
		fprintf(out, "%sone sample per %s: estimates", between,
			export_bytes(p->run.rate_bytes).text);
	else
		fprintf(out, "%sexact", between);
	if (!p->run.complete)
		fputs(", recording cut", out);
	if (p->chosen.words) {
		fputs(", only ", out);
		export_name_xml(out, p->chosen.words, 100);
	}
	if (g->o->focus) {
		fputs(", focus ", out);
		export_name_xml(out, g->o->focus, 60);
	}
	if (g->o->ignore) {
		fputs(", ignore ", out);
		export_name_xml(out, g->o->ignore, 60);
	}
	if (g->o->invert)
		fputs(", callers below", out);
	fputs("</text>\n", out);
	uint32_t left_out = g->tree.count - 1 - g->drawn_count;
	if (!left_out)
		return;
	fprintf(out,
		"<text class=\"facts more\" x=\"700\" y=\"66\">Not drawn: the %s narrowest "
		"frame%s, %s of all</text>\n",
		words_count(left_out).text, left_out == 1 ? "" : "s",
		export_share(g->pruned, g->total).text);
}

static int write_head(FILE *out, const struct graph *g)
{
	fputs("<g class=\"head\"><rect class=\"paper\" width=\"1200\" height=\"144\"/>\n"
	      "<text class=\"what\" x=\"10\" y=\"28\">",
	      out);
	write_value(out, g, g->total);
	write_meaning(out, g);
	fputs("</text>\n<text class=\"command\" x=\"10\" y=\"47\">", out);
	write_command(out, g, HEAD_LETTERS);
	fputs("</text>\n", out);
	write_facts(out, g);
	int rc = write_legend(out, g);
	fputs("<text class=\"detail help\" x=\"10\" y=\"124\">", out);
	if (g->total)
		fputs("Click or Enter zooms, Escape resets, arrow keys move, / searches, n finds "
		      "the "
		      "next one",
		      out);
	else
		fputs("This recording has nothing of this measure", out);
	fputs("</text></g>\n", out);
	return rc;
}

static int write_svg(FILE *out, const struct graph *g, uint64_t *next)
{
	uint32_t height = TOP + (g->deepest + 1) * PITCH + 14;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu32
		"\" viewBox=\"0 0 %d %" PRIu32 "\" data-unit=\"%s\">\n<title>heft: ",
		WIDTH, height, WIDTH, height,
		strcmp(measure_unit_name(g->o->measure), "count") == 0
			? "allocations"
			: measure_unit_name(g->o->measure));
	write_command(out, g, COMMAND_LETTERS);
	fprintf(out, "</title>\n<style><![CDATA[\n%s]]></style>\n", flamegraph_style);
	int rc = write_head(out, g);
	fprintf(out, "<g class=\"frames\">\n<g class=\"f root\" data-f=\"0 0 %" PRIu64 "\"><title>",
		g->total);
	fputs("all\n", out);
	write_command(out, g, COMMAND_LETTERS);
	putc('\n', out);
	write_value(out, g, g->total);
	write_meaning(out, g);
	fputs("</title>", out);
	write_box(out, 0, WIDTH - 2 * PAD, 0);
	write_value(out, g, g->total);
	fputs(": ", out);
	write_command(out, g, letters_in(WIDTH - 2 * PAD) - 50);
	fputs("</text></g>\n", out);
	write_frames(out, g, next);
	fprintf(out, "</g>\n<script><![CDATA[\n%s]]></script>\n</svg>\n", flamegraph_script);
	return rc;
}

int export_flamegraph(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	struct graph g = {.p = p, .o = o};
	uint64_t *next = NULL;
	int rc = call_tree_of(&g.tree, p, o->measure, o->invert ? CALL_TREE_INVERTED : 0);
	if (rc == 0) {
		g.total = g.tree.nodes[0].total;
		rc = give_hues(&g);
	}
	if (rc == 0) {
		rc = choose_frames(&g);
	}
	if (rc == 0) {
		measure_picture(&g);
		next = malloc(((size_t)g.deepest + 2) * sizeof *next);
		rc = next ? 0 : HEFT_ENOMEM;
	}
	if (rc == 0)
		rc = write_svg(out, &g, next);
	if (rc < 0)
		heft_fail(err, rc, "not enough memory for the flame graph");
	free(next);
	free(g.drawn);
	free(g.hues);
	call_tree_fini(&g.tree);
	return rc;
}
