/* Massif: what ms_print and massif-visualizer read: live bytes over time, with trees of callers at
 * some instants.
 *
 * The trees of the peak and of the end are exact. The slots of the history are between them: totals of
 * everything, and now and then a tree of the sites that have a history of their own, if these explain
 * enough of it. The other sites were never large: they are added up as places "below massif's
 * threshold".
 *
 * Rules of the readers: the word after a `#` is a comment, even inside a name, so it becomes a
 * colon; no node may exceed its snapshot; children come greatest first, what is small is one line;
 * a frame is one line; snapshots are numbered from 0 in the order of time. ms_print's reader is
 * recursive and indents, so trees end at a depth, as Massif's own do.
 *
 * mem_heap_extra_B is 0: the model knows the allocator's rounding at the peak and at the end, but
 * not between them, and a curve must be of one thing. */
#include "export/export_formats.h"

#include "export/export_names.h"
#include "export/export_places.h"
#include "hosted/compare.h"
#include "hosted/name_words.h"
#include "profile/stack_fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	SMALL_EXACT = 1000, /* a place below this part of its snapshot is not shown by itself: */
	SMALL_SLOT = 100,   /* at the peak and the end, and in between */
	DEPTH = 200,        /* the most that Massif itself accepts */
	DETAILED = 10,      /* one of this many snapshots has a tree */
	EXPLAINED = 2,      /* if its sites have at least this part of all bytes */
	WHOLE_MS_NS = 1000000000, /* runs from this length on have times without fractions */
};

/* The bytes of a site, and the node that its stack has been followed to, outwards. */
struct part {
	uint32_t node;
	uint32_t frame;
	uint64_t bytes;
};

/* Parts with the same next frame. */
struct group {
	uint32_t first, count;
	uint64_t bytes;
};

struct massif {
	const struct profile *p;
	FILE *out;
	struct part *parts;   /* site_count of them */
	uint32_t small;       /* see SMALL_EXACT */
	uint64_t total;       /* of the snapshot */
	uint32_t small_sites; /* without a history of their own */
	uint32_t snapshots;
	bool no_memory;
};

static void write_name(FILE *out, const char *name)
{
	char piece[WORDS_GLYPH];
	do {
		size_t n = words_plain(name, '#', 0);
		fwrite(name, 1, n, out);
		name += n;
		*piece = 0;
		words_glyph(&name, piece);
		fputs(strcmp(piece, "#") == 0 ? ":" : piece, out);
	} while (*piece);
}

/* ---- trees */

static int by_frame(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	return compare_numbers(x->frame, y->frame) ?: compare_numbers(x->node, y->node);
}

static int greatest_first(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	return compare_numbers(y->bytes, x->bytes) ?: compare_numbers(x->first, y->first);
}

/* Parts that end here (their stacks have no further frame) stand first and are in no group. */
static struct group *make_groups(struct massif *x, uint32_t first, uint32_t count, uint32_t depth,
				 uint32_t *group_count)
{
	struct part *parts = x->parts + first;
	for (uint32_t i = 0; i < count; i++)
		parts[i].frame = parts[i].node == PROFILE_NONE
					 ? PROFILE_NONE
					 : x->p->stacks.nodes[parts[i].node].frame;
	qsort(parts, count, sizeof *parts, by_frame);
	struct group *groups = malloc(((size_t)count + 1) * sizeof *groups);
	uint32_t n = 0;
	for (uint32_t i = 0; groups && i < count; i++) {
		if (parts[i].frame == PROFILE_NONE && depth > 0)
			break; /* the last ones */
		if (n && parts[groups[n - 1].first - first].frame == parts[i].frame) {
			groups[n - 1].count++;
			groups[n - 1].bytes += parts[i].bytes;
		} else
			groups[n++] = (struct group){first + i, 1, parts[i].bytes};
	}
	*group_count = n;
	if (!groups) {
		x->no_memory = true;
		return NULL;
	}
	qsort(groups, n, sizeof *groups, greatest_first);
	struct group *fit = realloc(groups, ((size_t)n + 1) * sizeof *groups);
	return fit ? fit : groups; /* it is kept while all below it is written */
}

static void write_small(struct massif *x, uint32_t depth, uint64_t bytes, uint32_t places)
{
	fprintf(x->out,
		"%*sn0: %" PRIu64 " in %" PRIu32 " place%s below massif's threshold (%.2f%%)\n",
		(int)depth, "", bytes, places, places == 1 ? "," : "s, all", 100.0 / x->small);
}

static void write_frame(struct massif *x, uint32_t frame)
{
	if (frame == PROFILE_NONE) {
		fputs("0x0: " EXPORT_UNKNOWN_STACK, x->out);
	} else {
		char *text = export_valgrind_frame(x->p, &x->p->stacks.frames[frame]);
		if (text)
			write_name(x->out, text);
		else
			x->no_memory = true;
		free(text);
	}
	putc('\n', x->out);
}

/* A node that stands for count parts from `first`; `label` is that of the top. rest: bytes that no
 * part explains. */
static void write_node(struct massif *x, uint32_t first, uint32_t count, uint64_t bytes,
		       uint32_t depth, const char *label, uint64_t rest)
{
	uint32_t frame = label ? PROFILE_NONE : x->parts[first].frame;
	uint32_t group_count = 0, shown = 0;
	struct group *groups = NULL;
	if (!label)
		for (uint32_t i = first; i < first + count; i++)
			if (x->parts[i].node != PROFILE_NONE)
				x->parts[i].node = x->p->stacks.nodes[x->parts[i].node].parent;
	uint64_t cut = 0; /* of stacks that go on */
	if (depth < DEPTH) {
		groups = make_groups(x, first, count, depth, &group_count);
		if (!groups)
			return;
	} else {
		for (uint32_t i = first; i < first + count; i++)
			if (x->parts[i].node != PROFILE_NONE)
				cut += x->parts[i].bytes;
	}
	while (shown < group_count && groups[shown].bytes &&
	       groups[shown].bytes >= x->total / x->small)
		shown++;
	uint64_t small = rest;
	uint32_t places = rest ? x->small_sites : 0;
	for (uint32_t i = shown; i < group_count; i++) {
		small += groups[i].bytes;
		places += groups[i].bytes != 0;
	}
	fprintf(x->out, "%*sn%" PRIu32 ": %" PRIu64 " ", (int)depth, "",
		shown + (small > 0) + (cut > 0), bytes);
	if (label)
		fprintf(x->out, "%s\n", label);
	else
		write_frame(x, frame);
	for (uint32_t i = 0; i < shown; i++)
		write_node(x, groups[i].first, groups[i].count, groups[i].bytes, depth + 1, NULL,
			   0);
	if (cut)
		fprintf(x->out, "%*sn0: %" PRIu64 " 0x0: " STACK_CUT "\n", (int)depth + 1, "", cut);
	if (small)
		write_small(x, depth + 1, small, places ? places : 1);
	free(groups);
}

static void write_tree(struct massif *x, uint32_t parts, uint64_t rest)
{
	write_node(x, 0, parts, x->total, 0,
		   "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", rest);
}

/* ---- snapshots */

static void write_snapshot(struct massif *x, uint64_t time_ns, uint64_t bytes, const char *tree)
{
	x->total = bytes;
	fprintf(x->out, "#-----------\nsnapshot=%" PRIu32 "\n#-----------\n", x->snapshots++);
	if (x->p->run.duration_ns >= WHOLE_MS_NS)
		fprintf(x->out, "time=%" PRIu64 "\n", time_ns / 1000000);
	else
		fprintf(x->out, "time=%" PRIu64 ".%03" PRIu64 "\n", time_ns / 1000000,
			time_ns / 1000 % 1000);
	fprintf(x->out,
		"mem_heap_B=%" PRIu64 "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n", bytes,
		tree);
}

static void write_measured(struct massif *x, uint64_t time_ns, enum measure_id measure,
			   const char *kind)
{
	uint64_t sum = 0;
	uint32_t n = 0;
	for (uint32_t i = 0; i < x->p->site_count; i++) {
		const struct profile_site *s = &x->p->sites[i];
		uint64_t bytes = measure_of_stack(s, measure);
		if (bytes)
			x->parts[n++] = (struct part){s->node, PROFILE_NONE, bytes};
		sum += bytes;
	}
	x->small = SMALL_EXACT;
	write_snapshot(x, time_ns, sum, kind);
	write_tree(x, n, 0);
}

/* The bytes of a slot by site. With a filter these are all bytes: the history of everything is not
 * filtered. */
static uint64_t slot_rows(struct massif *x, uint32_t slot, uint32_t *parts)
{
	const struct profile_history *h = &x->p->behaviour.history;
	uint64_t sum = 0;
	uint32_t n = 0;
	for (uint32_t i = 0; i < h->row_count; i++) {
		uint64_t bytes = h->rows[i].bytes[slot];
		if (bytes)
			x->parts[n++] = (struct part){x->p->sites[h->rows[i].site].node,
						      PROFILE_NONE, bytes};
		sum += bytes;
	}
	*parts = n;
	return sum;
}

static void write_slot(struct massif *x, uint32_t slot, bool filtered)
{
	const struct profile_history *h = &x->p->behaviour.history;
	uint32_t parts;
	uint64_t rows = slot_rows(x, slot, &parts);
	uint64_t bytes = filtered ? rows : h->bytes[slot];
	bool tree = slot % DETAILED == DETAILED - 1 && rows <= bytes && rows >= bytes / EXPLAINED &&
		    bytes;
	x->small = SMALL_SLOT;
	write_snapshot(x, (slot + 1) * h->slot_ns, bytes, tree ? "detailed" : "empty");
	if (tree)
		write_tree(x, parts, bytes - rows);
}

static void write_all(struct massif *x, const struct export_options *o, const char *command)
{
	const struct profile *p = x->p;
	bool has_peak = p->run.has & PROFILE_HAS_PEAK, filtered = o->focus || o->ignore;
	uint64_t from_ns = p->chosen.from_ns;
	uint64_t end_ns = p->chosen.to_ns ? p->chosen.to_ns : p->run.duration_ns;
	uint64_t peak_ns = p->totals.peak_time_ns;
	fputs("desc: heft " HEFT_VERSION "\ncmd: ", x->out);
	write_name(x->out, command);
	fputs("\ntime_unit: ms\n", x->out);
	if (!(p->run.has & PROFILE_HAS_TIMES) || from_ns >= end_ns) { /* an instant, not a course */
		bool live = !has_peak ||
			    (o->measure == MEASURE_LIVE_BYTES && p->run.has & PROFILE_HAS_LIVE);
		write_measured(x, from_ns, live ? MEASURE_LIVE_BYTES : MEASURE_PEAK_BYTES, "peak");
		return;
	}
	peak_ns = peak_ns < from_ns ? from_ns : peak_ns > end_ns ? end_ns : peak_ns;
	write_snapshot(x, from_ns, p->totals.start_bytes, "empty");
	/* The history is of the whole recording: a part has none. */
	for (uint32_t i = 0; !p->chosen.words && i < p->behaviour.history.slot_count; i++) {
		uint64_t time_ns = (i + 1) * p->behaviour.history.slot_ns;
		if (has_peak && peak_ns <= time_ns) {
			write_measured(x, peak_ns, MEASURE_PEAK_BYTES, "peak");
			has_peak = false;
			if (peak_ns == time_ns)
				continue;
		}
		if (time_ns < end_ns)
			write_slot(x, i, filtered);
	}
	if (has_peak)
		write_measured(x, peak_ns, MEASURE_PEAK_BYTES, "peak");
	if (p->run.has & PROFILE_HAS_LIVE)
		write_measured(x, end_ns, MEASURE_LIVE_BYTES, "detailed");
}

int export_massif(FILE *out, const struct profile *p, const struct export_options *o,
		  struct heft_error *err)
{
	struct massif x = {.p = p, .out = out, .no_memory = true};
	char *command = export_command(p);
	x.parts = malloc(((size_t)p->site_count + 1) * sizeof *x.parts);
	if (command && x.parts) {
		x.no_memory = false;
		x.small_sites = p->site_count - p->behaviour.history.row_count;
		write_all(&x, o, command);
	}
	free(command);
	free(x.parts);
	return x.no_memory
		       ? heft_fail(err, HEFT_ENOMEM, "not enough memory to write Massif's format")
		       : 0;
}
