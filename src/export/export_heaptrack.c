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
 * Invariants: one allocation, the last one of the steps before the peak, brings the live bytes to the
 * peak; they never exceed it later. Sums of sizes of a kind are exact. A filtered profile may have more
 * at another time than its part of the peak: heaptrack then shows that greater sum as the peak.
 *
 * One line an event is the format's nature: the file is streamed, and packed by its name. */
#include "export/export_formats.h"

#include "export/export_names.h"
#include "export/heaptrack_plan.h"
#include "hosted/name_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE_BYTES = 4096,
	HEAPTRACK_VERSION = 0x10500,
	FILE_VERSION = 3,
};
#define EVENTS_MAX (UINT64_C(1) << 32) /* some 30 GB as text: nobody would read it */

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
	if (ms <= x->last_ms)
		return;
	put_event(x, 'c', ms);
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
	const struct profile_frame *frames = x->p->stacks.frames;
	const struct profile_frame *outer =
		&frames[pairs[export_place_outermost(&x->places, place)].a];
	uint32_t module = outer->module != PROFILE_NONE
				  ? string(x, x->p->stacks.modules[outer->module].path)
				  : 0;
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
	for (uint32_t i = 0; i < x->p->stacks.node_count; i++) {
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

/* ---- the table of allocations */

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
			write_info(x, heaptrack_size(b, large), plan->trace);
}

/* No event uses index 0: readers take it for "none". */
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

/* The next block of the rest: small ones first. */
static uint32_t next_rest(struct plan *plan, bool other, uint64_t *size)
{
	struct blocks *b = &plan->rest;
	bool large = b->made++ >= b->count - b->large;
	*size = heaptrack_size(b, large);
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
		    x->live + heaptrack_size(&plan->rest, true) < x->peak)
			make_temporary(x, plan);
	}
	release(x, index, x->pending_size);
}

/* Frees the block of the peak when another one came after it, or at once if it must be. */
static void release_final(struct heaptrack *x, bool at_once)
{
	if (!x->final.live || (x->last == x->final.index && !at_once))
		return;
	x->final.live = false;
	release(x, x->final.index, x->final.size);
}

/* Before a block is made: frees the blocks that wait for it, if all together are too much. */
static void free_space_for(struct heaptrack *x, uint64_t size)
{
	if (x->live + size >= x->peak)
		release_pending(x);
	if (x->live + size > x->peak)
		release_final(x, true);
}

/* Not temporary: another block is made before it is freed. Equal blocks take two indices in turn,
 * because heaptrack compares indices. */
static void make_and_free(struct heaptrack *x, struct plan *plan)
{
	uint64_t size;
	uint32_t index = next_rest(plan, plan->rest.made & 1, &size);
	free_space_for(x, size);
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
	uint64_t due = heaptrack_share(others, nth + 1, steps),
		 due_temporary = heaptrack_share(plan->temporary, nth + 1, steps);
	while (plan->rest_done < due) {
		make_and_free(x, plan);
		plan->rest_done++;
	}
	while (plan->temporary_done < due_temporary) {
		free_space_for(x, heaptrack_size(&plan->rest, true));
		if (plan->temporary_done < due_temporary) /* not by release_pending() */
			make_temporary(x, plan);
	}
}

/* Makes small ones first, so that the sum is never more than the share. A block that waits to be freed
 * is freed after the next one, or before it if both are too much. */
static void make_until(struct heaptrack *x, struct blocks *b, double level, bool empty_only)
{
	uint64_t due = level >= 1 ? b->count : (uint64_t)((double)b->count * level);
	while (b->made < due && b->made < b->count) {
		bool large = b->made >= b->count - b->large;
		uint64_t size = heaptrack_size(b, large);
		if (empty_only && size)
			break;
		free_space_for(x, size);
		make(x, b->index + large, size);
		b->made++;
		release_pending(x);
	}
}

/* Frees large ones first, so that the sum is never less than the share. */
static void free_until(struct heaptrack *x, struct blocks *b, double level)
{
	double exact = (double)b->count * level;
	uint64_t due = level >= 1 ? b->count : (uint64_t)exact;
	due += level < 1 && (double)due < exact;
	for (; b->freed < due && b->freed < b->count; b->freed++) {
		bool large = b->freed < b->large;
		release(x, b->index + large, heaptrack_size(b, large));
	}
}

/* The first step from which on more than `done` of the blocks are due. Levels never fall. */
static uint8_t due_step(const struct heaptrack *x, int way, uint64_t count, uint64_t done,
			bool free)
{
	uint32_t low = 0, high = x->steps[way];
	if (done >= count)
		return HEAPTRACK_STEPS;
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
	return low < x->steps[way] ? (uint8_t)low : HEAPTRACK_STEPS;
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
		x->rest_due[i] = plan->rest.count ? 0 : HEAPTRACK_STEPS;
		x->first_due[i] = due_step(x, 0, plan->peak.count, 0, false);
		x->second_due[i] = due_step(x, 0, plan->kept.count, 0, false);
	}
	for (uint32_t step = 0; step < x->steps[0]; step++) {
		bool top = step + 1 == x->steps[0];
		for (uint32_t i = 0; i < x->plan_count; i++)
			if (x->rest_due[i] < HEAPTRACK_STEPS && step < x->plans[i].before)
				do_rest(x, &x->plans[i], step);
		put_time(x, heaptrack_share(peak_ns, step + 1, x->steps[0]));
		/* At the top empty blocks first: after the peak is reached they are too late. */
		for (int pass = top ? 0 : 1; pass < 2; pass++) {
			for (uint32_t i = 0; i < x->plan_count; i++)
				make_due(x, &x->plans[i].peak, 0, step, pass == 0,
					 &x->first_due[i]);
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
			if (x->rest_due[i] == HEAPTRACK_STEPS)
				continue;
			uint32_t skipped = x->steps[1] - plan->after;
			if (step >= skipped)
				do_rest(x, plan, plan->before + step - skipped);
			release_final(x, false);
		}
		put_time(x, peak_ns + heaptrack_share(end_ns - peak_ns, step + 1, x->steps[1]));
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
	uint64_t end_ns = p->run.duration_ns > peak_ns ? p->run.duration_ns : peak_ns;
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
				return heft_fail(err, HEFT_EREFUSED,
						 "heaptrack's format needs a line for each "
						 "allocation, and there are too many\nexport to "
						 "pprof instead: it has the same numbers");
	}
	return 0;
}

static void write_all(struct heaptrack *x)
{
	heaptrack_plan(x);
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
	x.trace = calloc((size_t)p->stacks.node_count + 1, sizeof *x.trace);
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
