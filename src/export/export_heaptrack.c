/* heaptrack: a file that heaptrack_print and heaptrack_gui read, version 3, interpreted.
 *
 * The format is a sequence of events, and its readers add them up. The model has sums, so the
 * events are made: for every site as many allocations as it has (reallocations too: to heaptrack a
 * realloc is a free and an allocation), with sizes that add up, in an order whose replay gives the
 * model's numbers: the peak of all and of every site, what is left at the end, and temporary
 * allocations, which to heaptrack are those that are freed directly after. Single blocks and the
 * moments between start, peak and end are not those of the run: sizes are means, and the curve is
 * the history's envelope (what it never again falls below, or never again exceeds).
 *
 * A site's blocks are four kinds. Those live at the peak and at the end ("kept"), at the peak alone,
 * at the end alone, and the rest, which come and go. How many are kept is not known; as many as
 * possible is assumed. The run is cut into steps. Before the peak each step makes a share of the
 * blocks of the peak; after it, each frees a share of those that go and makes a share of those of
 * the end. The rest are spread over the steps in which they fit under the peak.
 *
 * Invariants: the sum of live bytes reaches the peak with one allocation, the last one of the
 * steps before it, and never before; it never exceeds it after. Sums of sizes of a kind are exact.
 * What cannot be shown so (a filtered profile whose part of the peak is less than it has at another
 * time) gives a greater peak in heaptrack: that is the greatest sum of its file.
 *
 * One line an event is the format's nature: the file is streamed, and packed by its name. */
#include "export/export_formats.h"

#include "export/export_names.h"
#include "export/export_places.h"
#include "export/packed_stream.h"
#include "hosted/name_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	STEPS = 200,
	PAGE_BYTES = 4096,
	HEAPTRACK_VERSION = 0x10500,
	FILE_VERSION = 3,
};
#define NEARLY 0.999999
#define EVENTS_MAX (UINT64_C(1) << 32) /* some 30 GB as text: nobody would read it */

/* n blocks whose sizes add up: large of them have small_size + 1 bytes. */
struct blocks {
	uint64_t count, large, small_size;
	uint64_t made, freed;
	uint32_t index; /* in heaptrack's table of allocations: small, then large ones */
};

struct plan {
	uint32_t site, trace;
	struct blocks kept, peak, end; /* live at: peak and end, peak, end */
	struct blocks rest;            /* two indices each, in turn: see make_and_free() */
	uint64_t temporary;            /* of the rest, those freed directly */
	uint64_t rest_done, temporary_done;
	uint32_t before, after; /* in how many steps the rest fits */
};

/* The block with which the peak is reached. It has an index of its own, for the first one to be
 * freed afterwards is temporary to heaptrack if it has the index of the last one made. */
struct final {
	bool exists, live;
	bool temporary; /* freed directly, as it was in the run */
	uint32_t index, site;
	uint64_t size;
};

struct heaptrack {
	const struct profile *p;
	const struct export_options *o;
	struct packed_stream *out;
	struct export_places places;
	struct string_table strings;
	uint32_t *trace; /* by node */
	struct plan *plans;
	uint32_t plan_count, infos;
	/* By plan: the step in which it next has something to do, STEPS: none. Plans are large, and
	 * most of half a million have one block: looking at all of them in every step took longer than
	 * everything else. */
	uint8_t *rest_due, *first_due, *second_due;
	uint64_t peak, end; /* bytes of all */
	uint64_t live, last_ms;
	double level[2][STEPS]; /* share of what each step of before, after reaches */
	uint32_t steps[2];
	uint32_t pending; /* index of a block that is to be freed soon, 0: none */
	uint64_t pending_size;
	uint32_t last;   /* index of the last event if it was an allocation, else 0 */
	uint32_t cursor; /* first plan that may have temporaries left */
	struct final final;
	bool no_memory;
};

/* ---- lines */

static void put_hex(struct heaptrack *x, uint64_t n)
{
	char digits[16];
	int length = 0;
	do
		digits[length++] = "0123456789abcdef"[n & 15];
	while (n >>= 4);
	while (length)
		packed_byte(x->out, (uint8_t)digits[--length]);
}

static void put_field(struct heaptrack *x, uint64_t n)
{
	packed_byte(x->out, ' ');
	put_hex(x, n);
}

static void put_event(struct heaptrack *x, char what, uint64_t n)
{
	packed_byte(x->out, (uint8_t)what);
	put_field(x, n);
	packed_byte(x->out, '\n');
}

static void put_time(struct heaptrack *x, uint64_t time_ns)
{
	uint64_t ms = time_ns / 1000000;
	if (ms > x->last_ms)
		put_event(x, 'c', ms);
	if (ms > x->last_ms)
		x->last_ms = ms;
}

/* Strings are written where they are first needed. */
static uint32_t string(struct heaptrack *x, const char *s)
{
	uint32_t had = x->strings.count, number = 0;
	if (!s || !*s)
		return 0;
	if (string_table_find(&x->strings, s, &number) < 0)
		x->no_memory = true;
	else if (number == had) {
		packed_byte(x->out, 's');
		put_field(x, strlen(x->strings.strings[number]));
		packed_byte(x->out, ' ');
		packed_text(x->out, x->strings.strings[number]);
		packed_byte(x->out, '\n');
	}
	return number;
}

static void put_clean(struct heaptrack *x, const char *s)
{
	char piece[WORDS_GLYPH];
	while (words_glyph(&s, piece))
		packed_text(x->out, piece);
}

static void write_head(struct heaptrack *x)
{
	char *command = export_command(x->p);
	packed_byte(x->out, 'v');
	put_field(x, HEAPTRACK_VERSION);
	put_field(x, FILE_VERSION);
	packed_text(x->out, "\nX ");
	if (command)
		put_clean(x, *command ? command : "unknown");
	else
		x->no_memory = true;
	free(command);
	packed_text(x->out, "\nI");
	put_field(x, PAGE_BYTES);
	put_field(x, 0);
	packed_text(x->out, "\n# made from sums by heft " HEFT_VERSION
			    ": sizes are means, the order is not the program's\n");
}

/* ---- stacks */

static void write_place(struct heaptrack *x, uint32_t place)
{
	const struct pair *pairs = x->places.index.pairs;
	const struct profile_frame *frames = x->p->frames;
	const struct profile_frame *outer =
		&frames[pairs[export_place_outermost(&x->places, place)].a];
	uint32_t module =
		outer->module != PROFILE_NONE ? string(x, x->p->modules[outer->module].path) : 0;
	for (uint32_t i = place; i != PROFILE_NONE; i = pairs[i].b) { /* before the line */
		string(x, frames[pairs[i].a].function);
		string(x, frames[pairs[i].a].file);
	}
	packed_byte(x->out, 'i');
	put_field(x, x->places.address[place]);
	put_field(x, module);
	for (uint32_t i = place; i != PROFILE_NONE; i = pairs[i].b) {
		const struct profile_frame *f = &frames[pairs[i].a];
		put_field(x, string(x, f->function));
		put_field(x, string(x, f->file));
		put_field(x, f->line);
	}
	packed_byte(x->out, '\n');
}

/* Callers have smaller node numbers, so they are written before. */
static void write_stacks(struct heaptrack *x)
{
	uint32_t traces = 0, ips = x->places.used;
	for (uint32_t i = 0; i < x->places.used; i++)
		write_place(x, x->places.in_order[i]);
	for (uint32_t i = 0; i < x->p->node_count; i++) {
		if (!x->places.starts[i])
			continue;
		uint32_t caller = x->places.caller[i];
		packed_byte(x->out, 't');
		put_field(x, x->places.number[x->places.place[i]]);
		put_field(x, caller == PROFILE_NONE ? 0 : x->trace[caller]);
		packed_byte(x->out, '\n');
		x->trace[i] = ++traces;
	}
	uint32_t unknown = 0;
	for (uint32_t i = 0; i < x->plan_count; i++) {
		uint32_t node = x->p->sites[x->plans[i].site].node;
		if (node == PROFILE_NONE && !unknown) {
			uint32_t name = string(x, EXPORT_UNKNOWN_STACK);
			packed_text(x->out, "i 0 0");
			put_field(x, name);
			packed_text(x->out, " 0 0\nt");
			put_field(x, ++ips);
			packed_text(x->out, " 0\n");
			unknown = ++traces;
		}
		x->plans[i].trace = node == PROFILE_NONE ? unknown : x->trace[node];
	}
}

/* ---- the plan */

static struct blocks blocks_of(uint64_t count, uint64_t bytes)
{
	struct blocks b = {.count = count};
	if (count) {
		b.small_size = bytes / count;
		b.large = bytes % count;
	}
	return b;
}

static uint64_t size_of(const struct blocks *b, bool large)
{
	return b->small_size + large;
}

static uint64_t share(uint64_t bytes, uint64_t part, uint64_t of)
{
	return of ? (uint64_t)((unsigned __int128)bytes * part / of) : 0;
}

/* Whether that many blocks can be live at both instants, and how many bytes they have then: all of
 * an instant whose blocks they all are, else no more than their share of either. */
static bool can_keep(uint64_t kept, uint64_t peak_blocks, uint64_t peak_bytes, uint64_t end_blocks,
		     uint64_t end_bytes, uint64_t *bytes)
{
	uint64_t of_peak = share(peak_bytes, kept, peak_blocks);
	uint64_t of_end = share(end_bytes, kept, end_blocks);
	*bytes = kept == peak_blocks  ? peak_bytes
		 : kept == end_blocks ? end_bytes
		 : of_peak < of_end   ? of_peak
				      : of_end;
	return *bytes <= peak_bytes && *bytes <= end_bytes &&
	       (kept < end_blocks || *bytes == end_bytes);
}

/* Some files tell bytes without counts. */
static uint64_t at_least_one(uint64_t blocks, uint64_t bytes)
{
	return blocks ? blocks : bytes > 0;
}

static void plan_site(struct heaptrack *x, uint32_t site)
{
	const struct profile_site *s = &x->p->sites[site];
	uint32_t has = x->p->has;
	struct plan plan = {.site = site};
	uint64_t end_blocks =
		has & PROFILE_HAS_LIVE ? at_least_one(s->live_blocks, s->live_bytes) : 0;
	uint64_t end_bytes = end_blocks ? s->live_bytes : 0;
	/* Without a peak of its own, the file's is what is live at its end. */
	uint64_t peak_blocks = end_blocks, peak_bytes = end_bytes;
	if (has & PROFILE_HAS_PEAK) {
		peak_blocks = at_least_one(s->peak_blocks, s->peak_bytes);
		peak_bytes = s->peak_bytes;
	}
	uint64_t kept = peak_blocks < end_blocks ? peak_blocks : end_blocks, kept_bytes = 0;
	if (kept && !can_keep(kept, peak_blocks, peak_bytes, end_blocks, end_bytes, &kept_bytes))
		can_keep(--kept, peak_blocks, peak_bytes, end_blocks, end_bytes, &kept_bytes);
	plan.kept = blocks_of(kept, kept_bytes);
	plan.peak = blocks_of(peak_blocks - kept, peak_bytes - kept_bytes);
	plan.end = blocks_of(end_blocks - kept, end_bytes - kept_bytes);
	uint64_t made = peak_blocks + end_blocks - kept;
	uint64_t made_bytes = peak_bytes + end_bytes - kept_bytes;
	uint64_t all = s->allocations + s->reallocations, all_bytes = export_foreign_bytes(s);
	if (has & PROFILE_HAS_ALLOCATED && all > made)
		plan.rest =
			blocks_of(all - made, all_bytes > made_bytes ? all_bytes - made_bytes : 0);
	if (has & PROFILE_HAS_TEMPORARY)
		plan.temporary = s->temporary;
	x->peak += peak_bytes;
	x->end += end_bytes;
	if (made || plan.rest.count)
		x->plans[x->plan_count++] = plan;
}

/* How far each step gets: on the way up the most that the history has had so far, on the way down
 * the most that it still will have; without one, evenly. */
static void plan_levels(struct heaptrack *x)
{
	const struct profile *p = x->p;
	const struct profile_history *h = &p->history;
	bool follow = h->slot_count && !p->selection && !x->o->focus && !x->o->ignore;
	uint64_t peak_ns = p->totals.peak_time_ns, end_ns = p->duration_ns;
	if (peak_ns > end_ns)
		end_ns = peak_ns;
	x->steps[0] = end_ns ? (uint32_t)((double)peak_ns / (double)end_ns * STEPS) : STEPS / 2;
	x->steps[0] = x->steps[0] < 1 ? 1 : x->steps[0] > STEPS - 1 ? STEPS - 1 : x->steps[0];
	x->steps[1] = STEPS - x->steps[0];
	uint64_t most = 0;
	uint32_t slot = 0;
	for (uint32_t i = 0; i < x->steps[0]; i++) {
		uint64_t until = share(peak_ns, i + 1, x->steps[0]);
		for (; follow && slot < h->slot_count && (slot + 1) * h->slot_ns <= until; slot++)
			if (h->bytes[slot] > most)
				most = h->bytes[slot];
		x->level[0][i] = follow && x->peak ? (double)most / (double)x->peak
						   : (double)(i + 1) / x->steps[0];
		if (x->level[0][i] > NEARLY) /* the peak is not reached before its time */
			x->level[0][i] = NEARLY;
		if (i + 1 == x->steps[0])
			x->level[0][i] = 1;
	}
	double way = (double)x->peak - (double)x->end;
	most = x->end;
	slot = h->slot_count;
	for (uint32_t i = x->steps[1]; i-- > 0;) {
		uint64_t from = peak_ns + share(end_ns - peak_ns, i, x->steps[1]);
		for (; follow && slot > 0 && slot * h->slot_ns > from; slot--)
			if (h->bytes[slot - 1] > most)
				most = h->bytes[slot - 1];
		x->level[1][i] = follow && way > 0 ? ((double)x->peak - (double)most) / way
						   : (double)(i + 1) / x->steps[1];
		if (i + 1 == x->steps[1])
			x->level[1][i] = 1;
		if (x->level[1][i] < 0)
			x->level[1][i] = 0;
	}
}

/* In which steps two more blocks of the rest stay under the peak: the first ones before it, the
 * last ones after it. A block that never fits is made smaller. */
static void plan_rest(struct heaptrack *x, struct plan *plan)
{
	struct blocks *b = &plan->rest;
	if (plan->temporary > b->count)
		plan->temporary = b->count;
	if (!b->count)
		return;
	if (x->peak && size_of(b, b->large) >= x->peak)
		*b = (struct blocks){.count = b->count, .small_size = x->peak - 1};
	double two = 2.0 * (double)size_of(b, b->large), peak = (double)x->peak;
	plan->before = 1;
	while (plan->before < x->steps[0] && x->level[0][plan->before - 1] * peak + two < peak)
		plan->before++;
	double down = peak - (double)x->end;
	while (plan->after + 1 < x->steps[1] &&
	       two <= x->level[1][x->steps[1] - 2 - plan->after] * down)
		plan->after++;
}

/* Takes the last block of the peak out of its site's others: of a site with more temporaries than
 * blocks of the rest, for one of those was live at the peak. Without such a site it is a block that
 * is kept, which needs no care; if none is, any. */
static void plan_final(struct heaptrack *x)
{
	struct plan *of = NULL;
	bool kept = false;
	for (uint32_t i = 0; i < x->plan_count && !x->final.temporary; i++) {
		struct plan *plan = &x->plans[i];
		kept = kept || (plan->kept.count && size_of(&plan->kept, plan->kept.large));
		if (!plan->peak.count || !size_of(&plan->peak, plan->peak.large))
			continue;
		x->final.temporary = plan->temporary > plan->rest.count;
		if (!of || x->final.temporary)
			of = plan;
	}
	if (!of || (kept && !x->final.temporary))
		return;
	x->final.size = size_of(&of->peak, of->peak.large);
	x->final.site = of->site;
	x->final.exists = true;
	of->peak.large -= of->peak.large > 0;
	of->peak.count--;
}

static void write_info(struct heaptrack *x, uint64_t size, uint32_t trace)
{
	packed_byte(x->out, 'a');
	put_field(x, size);
	put_field(x, trace);
	packed_byte(x->out, '\n');
	x->infos++;
}

static void write_blocks_info(struct heaptrack *x, struct plan *plan, struct blocks *b, int times)
{
	if (!b->count)
		return;
	b->index = x->infos;
	for (int large = 0; large < 2; large++)
		for (int i = 0; i < times; i++)
			write_info(x, size_of(b, large), plan->trace);
}

/* Index 0 is not used by any event: readers take it for "none". */
static void write_infos(struct heaptrack *x)
{
	if (x->plan_count)
		write_info(x, 0, x->plans[0].trace);
	for (uint32_t i = 0; i < x->plan_count; i++) {
		struct plan *plan = &x->plans[i];
		if (x->final.exists && x->final.site == plan->site) {
			x->final.index = x->infos;
			write_info(x, x->final.size, plan->trace);
		}
		write_blocks_info(x, plan, &plan->kept, 1);
		write_blocks_info(x, plan, &plan->peak, 1);
		write_blocks_info(x, plan, &plan->end, 1);
		write_blocks_info(x, plan, &plan->rest, 2);
	}
}

/* ---- events */

static void make(struct heaptrack *x, uint32_t index, uint64_t size)
{
	put_event(x, '+', index);
	x->last = index;
	x->live += size;
}

static void release(struct heaptrack *x, uint32_t index, uint64_t size)
{
	put_event(x, '-', index);
	x->last = 0;
	x->live -= size;
}

/* The rest in the order small, large. */
static uint32_t next_rest(struct plan *plan, bool other, uint64_t *size)
{
	struct blocks *b = &plan->rest;
	bool large = b->made++ >= b->count - b->large;
	*size = size_of(b, large);
	return b->index + 2 * large + other;
}

/* Made and freed at once: temporary. */
static void make_temporary(struct heaptrack *x, struct plan *plan)
{
	uint64_t size;
	uint32_t index = next_rest(plan, false, &size);
	make(x, index, size);
	release(x, index, size);
	plan->temporary_done++;
}

/* Frees the block that waits for it. If nothing was between, heaptrack would call it temporary, so
 * a temporary one of any site goes between if there is one that fits. */
static void release_pending(struct heaptrack *x)
{
	uint32_t index = x->pending;
	if (!index)
		return;
	x->pending = 0;
	if (x->last == index) {
		while (x->cursor < x->plan_count &&
		       x->plans[x->cursor].temporary_done == x->plans[x->cursor].temporary)
			x->cursor++;
		struct plan *plan = x->cursor < x->plan_count ? &x->plans[x->cursor] : NULL;
		if (plan && plan->rest.made < plan->rest.count &&
		    x->live + size_of(&plan->rest, true) < x->peak)
			make_temporary(x, plan);
	}
	release(x, index, x->pending_size);
}

/* Frees the block of the peak once something came after it, or if it has to be. */
static void release_final(struct heaptrack *x, bool at_once)
{
	if (!x->final.live || (x->last == x->final.index && !at_once))
		return;
	x->final.live = false;
	release(x, x->final.index, x->final.size);
}

/* Before a block is made: what waits to be freed goes if both are too much. */
static void make_room(struct heaptrack *x, uint64_t size)
{
	if (x->live + size >= x->peak)
		release_pending(x);
	if (x->live + size > x->peak)
		release_final(x, true);
}

/* Not temporary: another is made before it is freed. Equal blocks take two indices in turn, for
 * heaptrack compares indices. */
static void make_and_free(struct heaptrack *x, struct plan *plan)
{
	uint64_t size;
	uint32_t index = next_rest(plan, plan->rest.made & 1, &size);
	make_room(x, size);
	if (index == x->pending)
		release_pending(x);
	make(x, index, size);
	if (x->pending)
		release(x, x->pending, x->pending_size);
	x->pending = index;
	x->pending_size = size;
}

/* The rest that is due in the nth of the steps that it has. */
static void do_rest(struct heaptrack *x, struct plan *plan, uint32_t nth)
{
	uint32_t steps = plan->before + plan->after;
	uint64_t others = plan->rest.count - plan->temporary;
	uint64_t due = share(others, nth + 1, steps),
		 due_temporary = share(plan->temporary, nth + 1, steps);
	while (plan->rest_done < due) {
		make_and_free(x, plan);
		plan->rest_done++;
	}
	while (plan->temporary_done < due_temporary) {
		make_room(x, size_of(&plan->rest, true));
		if (plan->temporary_done < due_temporary) /* not by release_pending() */
			make_temporary(x, plan);
	}
}

/* Small ones first: the sum is never more than the share. What waits to be freed is freed as soon
 * as a block came between, or before it if both are too much. */
static void make_until(struct heaptrack *x, struct blocks *b, double level, bool empty_only)
{
	uint64_t due = level >= 1 ? b->count : (uint64_t)((double)b->count * level);
	while (b->made < due && b->made < b->count) {
		bool large = b->made >= b->count - b->large;
		uint64_t size = size_of(b, large);
		if (empty_only && size)
			break;
		make_room(x, size);
		make(x, b->index + large, size);
		b->made++;
		release_pending(x);
	}
}

/* Large ones first: the sum is never less than the share. */
static void free_until(struct heaptrack *x, struct blocks *b, double level)
{
	double exact = (double)b->count * level;
	uint64_t due = level >= 1 ? b->count : (uint64_t)exact;
	due += level < 1 && (double)due < exact;
	for (; b->freed < due && b->freed < b->count; b->freed++) {
		bool large = b->freed < b->large;
		release(x, b->index + large, size_of(b, large));
	}
}

/* The first step from which on more than `done` of the blocks are due. Levels never fall. */
static uint8_t due_step(const struct heaptrack *x, int way, uint64_t count, uint64_t done,
			bool free)
{
	uint32_t low = 0, high = x->steps[way];
	if (done >= count)
		return STEPS;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		double level = x->level[way][middle], exact = (double)count * level;
		uint64_t due = level >= 1 ? count : (uint64_t)exact;
		due += free && level < 1 && (double)due < exact;
		if (due > done)
			high = middle;
		else
			low = middle + 1;
	}
	return low < x->steps[way] ? (uint8_t)low : STEPS;
}

static void make_due(struct heaptrack *x, struct blocks *b, int way, uint32_t step, bool empty_only,
		     uint8_t *due)
{
	if (*due > step)
		return;
	make_until(x, b, x->level[way][step], empty_only);
	*due = due_step(x, way, b->count, b->made, false);
}

/* Up to the peak, which the last event reaches. */
static void write_way_up(struct heaptrack *x, uint64_t peak_ns)
{
	for (uint32_t i = 0; i < x->plan_count; i++) {
		const struct plan *plan = &x->plans[i];
		x->rest_due[i] = plan->rest.count ? 0 : STEPS;
		x->first_due[i] = due_step(x, 0, plan->peak.count, 0, false);
		x->second_due[i] = due_step(x, 0, plan->kept.count, 0, false);
	}
	for (uint32_t step = 0; step < x->steps[0]; step++) {
		bool top = step + 1 == x->steps[0];
		for (uint32_t i = 0; i < x->plan_count; i++)
			if (x->rest_due[i] < STEPS && step < x->plans[i].before)
				do_rest(x, &x->plans[i], step);
		put_time(x, share(peak_ns, step + 1, x->steps[0]));
		/* At the top empty blocks first: after the peak is reached they are too late. */
		for (int pass = top ? 0 : 1; pass < 2; pass++) {
			for (uint32_t i = 0; i < x->plan_count; i++)
				make_due(x, &x->plans[i].peak, 0, step, pass == 0, &x->first_due[i]);
			for (uint32_t i = 0; i < x->plan_count; i++)
				make_due(x, &x->plans[i].kept, 0, step, pass == 0,
					 &x->second_due[i]);
		}
	}
	release_pending(x);
	if (x->final.exists) {
		make(x, x->final.index, x->final.size);
		x->final.live = true;
	}
}

static void write_way_down(struct heaptrack *x, uint64_t peak_ns, uint64_t end_ns)
{
	if (x->final.temporary)
		release_final(x, true);
	for (uint32_t i = 0; i < x->plan_count; i++) {
		const struct plan *plan = &x->plans[i];
		x->first_due[i] = due_step(x, 1, plan->peak.count, plan->peak.freed, true);
		x->second_due[i] = due_step(x, 1, plan->end.count, plan->end.made, false);
	}
	for (uint32_t step = 0; step < x->steps[1]; step++) {
		/* First, for then something comes after what waits to be freed. */
		for (uint32_t i = 0; i < x->plan_count; i++) {
			struct plan *plan = &x->plans[i];
			if (x->rest_due[i] == STEPS)
				continue;
			uint32_t skipped = x->steps[1] - plan->after;
			if (step >= skipped)
				do_rest(x, plan, plan->before + step - skipped);
			release_final(x, false);
		}
		put_time(x, peak_ns + share(end_ns - peak_ns, step + 1, x->steps[1]));
		for (uint32_t i = 0; i < x->plan_count; i++) {
			struct blocks *b = &x->plans[i].peak;
			if (x->first_due[i] > step)
				continue;
			free_until(x, b, x->level[1][step]);
			x->first_due[i] = due_step(x, 1, b->count, b->freed, true);
		}
		release_final(x, false);
		for (uint32_t i = 0; i < x->plan_count; i++)
			make_due(x, &x->plans[i].end, 1, step, false, &x->second_due[i]);
	}
	release_final(x, x->pending != 0);
	release_pending(x);
	release_final(x, true);
}

static void write_events(struct heaptrack *x)
{
	const struct profile *p = x->p;
	uint64_t peak_ns = p->totals.peak_time_ns;
	uint64_t end_ns = p->duration_ns > peak_ns ? p->duration_ns : peak_ns;
	packed_text(x->out, "c 0\n");
	write_way_up(x, peak_ns);
	if (p->totals.peak_rss_bytes)
		put_event(x, 'R', p->totals.peak_rss_bytes / PAGE_BYTES);
	write_way_down(x, peak_ns, end_ns);
}

static int check_events(const struct profile *p, struct heft_error *err)
{
	uint64_t events = 0;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		uint64_t n[] = {s->allocations, s->reallocations, s->live_blocks, s->peak_blocks};
		for (size_t k = 0; k < sizeof n / sizeof *n; k++)
			if (n[k] > EVENTS_MAX || (events += n[k]) > EVENTS_MAX)
				return heft_fail(
					err, HEFT_EREFUSED,
					"heaptrack's format has a line for each allocation, "
					"and here are too many\npprof has the same numbers");
	}
	return 0;
}

static void write_all(struct heaptrack *x)
{
	for (uint32_t i = 0; i < x->p->site_count; i++)
		plan_site(x, i);
	plan_levels(x);
	plan_final(x);
	for (uint32_t i = 0; i < x->plan_count; i++)
		plan_rest(x, &x->plans[i]);
	write_head(x);
	write_stacks(x);
	write_infos(x);
	write_events(x);
}

int export_heaptrack(FILE *out, const struct profile *p, const struct export_options *o,
		     struct heft_error *err)
{
	struct heaptrack x = {.p = p, .o = o, .no_memory = true};
	int rc = check_events(p, err);
	if (rc < 0)
		return rc;
	x.out = malloc(sizeof *x.out);
	x.trace = calloc((size_t)p->node_count + 1, sizeof *x.trace);
	x.plans = calloc((size_t)p->site_count + 1, sizeof *x.plans);
	x.rest_due = calloc((size_t)p->site_count + 1, 3);
	x.first_due = x.rest_due ? x.rest_due + p->site_count + 1 : NULL;
	x.second_due = x.rest_due ? x.first_due + p->site_count + 1 : NULL;
	if (x.out && x.trace && x.plans && x.rest_due && string_table_init(&x.strings) == 0 &&
	    export_places_init(&x.places, p) == 0 &&
	    packed_open(x.out, out, packing_of_name(o->name)) == 0) {
		x.no_memory = false;
		write_all(&x);
		if (packed_close(x.out) == HEFT_ENOMEM)
			x.no_memory = true;
	}
	free(x.out);
	free(x.trace);
	free(x.plans);
	free(x.rest_due);
	string_table_fini(&x.strings);
	export_places_fini(&x.places);
	return x.no_memory ? heft_fail(err, HEFT_ENOMEM,
				       "not enough memory to write heaptrack's format")
			   : 0;
}
