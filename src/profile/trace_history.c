/* Live bytes over time of a part of a recording: what chosen processes had. The recorder keeps this
 * only for all processes together (behaviour), so this replays the events. As there, only sites that
 * were ever large have a line of their own, and what a process leaves behind goes with it; only the
 * last process keeps it up to the end of the line. The line covers the time in which one of the
 * processes ran: a compiler that ran for 50 ms in a build of an hour would be a dot otherwise.
 *
 * Invariants: slot i is the state at start_ns + (i + 1) * slot_ns; ids in events are checked before they are
 * used; a sum never goes below 0, whatever the file says. */
#include "profile/process_groups.h"
#include "profile/trace_load.h"

#include <stdlib.h>

enum { SLOTS = 400, MOST_ROWS = 300, LEAST_PART = 1000 /* of the peak is large */ };

struct level {
	uint64_t bytes, blocks;
};

struct course {
	struct load *l;
	struct profile_history *h;
	struct level all, *now; /* by row */
	uint64_t events;
	uint32_t slot; /* the first that is not filled */
};

static void add(struct level *x, uint64_t bytes, uint64_t blocks)
{
	x->bytes += bytes;
	x->blocks += blocks;
}

static void take(struct level *x, uint64_t bytes, uint64_t blocks)
{
	x->bytes -= bytes < x->bytes ? bytes : x->bytes;
	x->blocks -= blocks < x->blocks ? blocks : x->blocks;
}

/* Writes the present state into every slot that ends before `time_ns`. */
static void fill_slots(struct course *c, uint64_t time_ns)
{
	struct profile_history *h = c->h;
	for (; c->slot < h->slot_count &&
	       h->start_ns + (uint64_t)(c->slot + 1) * h->slot_ns < time_ns;
	     c->slot++) {
		h->bytes[c->slot] = c->all.bytes;
		h->blocks[c->slot] = c->all.blocks;
		h->events[c->slot] = c->events;
		for (uint32_t i = 0; i < h->row_count; i++) {
			h->rows[i].bytes[c->slot] = c->now[i].bytes;
			h->rows[i].blocks[c->slot] = c->now[i].blocks;
		}
	}
}

static struct level *level_of(struct course *c, uint32_t recorded_site)
{
	const struct profile *p = c->l->p;
	uint32_t site = p->recorded.sites[recorded_site];
	uint32_t row = site < p->site_count ? p->sites[site].history : PROFILE_NONE;
	return row < c->h->row_count ? &c->now[row] : NULL;
}

static void change(struct course *c, uint32_t site, uint64_t bytes, uint64_t blocks,
		   void (*how)(struct level *, uint64_t, uint64_t))
{
	struct level *own = level_of(c, site);
	how(&c->all, bytes, blocks);
	if (own)
		how(own, bytes, blocks);
}

static int follow_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct course *c = ctx;
	const struct trace_contents *t = c->l->c;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (!trace_event_is_valid(t, e))
			return HEFT_EFORMAT;
		fill_slots(c, e->time_ns);
		if (!c->l->threads[e->birth_thread])
			continue;
		c->events += e->op != TRACE_GONE;
		switch ((enum trace_op)e->op) {
		case TRACE_ALLOC: change(c, e->site, e->size, 1, add); break;
		case TRACE_GONE:
			if (trace_ends_last(c->l, e->birth_thread))
				break;
			/* fall through */
		case TRACE_FREE: change(c, e->site, e->size, 1, take); break;
		case TRACE_REALLOC:
			change(c, e->old_site, e->old_size, 1, take);
			change(c, e->site, e->size, 1, add);
			break;
		}
	}
	return 0;
}

/* Lines for the sites that were ever large: they are in the order of their part of the peak. */
static int choose_rows(struct profile *p)
{
	struct profile_history *h = &p->behaviour.history;
	h->rows = calloc(MOST_ROWS, sizeof *h->rows);
	if (!h->rows)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && h->row_count < MOST_ROWS; i++) {
		struct profile_history_row *row = &h->rows[h->row_count];
		if (!p->sites[i].own_peak_bytes ||
		    p->sites[i].own_peak_bytes < p->totals.peak_bytes / LEAST_PART)
			continue;
		*row = (struct profile_history_row){.site = i,
						    .bytes = calloc(SLOTS, sizeof *row->bytes),
						    .blocks = calloc(SLOTS, sizeof *row->blocks)};
		p->sites[i].history = h->row_count++;
		if (!row->bytes || !row->blocks)
			return HEFT_ENOMEM;
	}
	return 0;
}

int trace_load_history(struct load *l)
{
	struct profile *p = l->p;
	struct course c = {.l = l, .h = &p->behaviour.history};
	uint64_t end_ns;
	if (!l->sel->history || !p->stacks.lender || l->spread || l->split)
		return 0;
	process_span(p, &c.h->start_ns, &end_ns);
	uint64_t span = end_ns - c.h->start_ns;
	if (!span)
		return 0;
	int rc = choose_rows(p);
	c.h->bytes = calloc(SLOTS, sizeof *c.h->bytes);
	c.h->blocks = calloc(SLOTS, sizeof *c.h->blocks);
	c.h->events = calloc(SLOTS, sizeof *c.h->events);
	c.now = calloc((size_t)c.h->row_count + 1, sizeof *c.now);
	if (rc == 0 && c.h->bytes && c.h->blocks && c.h->events && c.now) {
		c.h->slot_count = SLOTS;
		c.h->slot_ns = span / SLOTS + (span < SLOTS);
		rc = trace_reader_events(l->reader, 0, UINT64_MAX, follow_batch, &c, l->err);
		fill_slots(&c, UINT64_MAX);
	} else {
		rc = HEFT_ENOMEM;
	}
	free(c.now);
	return rc;
}
