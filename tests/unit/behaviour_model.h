/* Random histories of a heap and a brute-force account of them, for the tests of
 * what is kept beside a tally.
 *
 * A history keeps every block it ever made. The account shares nothing with src:
 * it walks the steps, scans all blocks wherever it needs a live number, takes
 * births from the blocks rather than from the events, and adds up in long double. */
#ifndef HEFT_TESTS_BEHAVIOUR_MODEL_H
#define HEFT_TESTS_BEHAVIOUR_MODEL_H

#include "tally/behaviour.h"
#include "tally/event.h"
#include "tally/tally.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum model_shape {
	MODEL_ONE_THREAD,
	MODEL_MANY_THREADS, /* whoever comes frees */
	MODEL_FIFO,         /* producers and consumers; the oldest block goes first */
	MODEL_LIFO,
	MODEL_CHAINS,     /* most steps are reallocs */
	MODEL_MANY_SITES, /* more than have a row */
	MODEL_SHAPES
};

enum { MODEL_SITES = 700, MODEL_THREADS = 6, MODEL_FREE_SITES = 5 };

struct model_block {
	uint64_t birth_ns, size;
	uint32_t site, thread, slack;
	bool live, grown;
};

struct step {
	struct trace_event e;
	uint32_t block;
};

struct history {
	enum model_shape shape;
	uint32_t sites, threads; /* sites to free at are the last MODEL_FREE_SITES of sites */
	struct step *steps;
	size_t count;
	struct model_block *blocks; /* as they ended; a block's birth and thread never change */
	uint32_t block_count;
	uint64_t random;
};

static inline uint32_t model_draw(struct history *h, uint32_t below)
{
	h->random = h->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((h->random >> 33) % below);
}

static inline uint64_t model_size(struct history *h, uint32_t site)
{
	if (h->shape == MODEL_MANY_SITES) /* very different ones; of many sites, most are notable */
		return (64ull << (site % (h->sites > 500 ? 5 : 17))) + model_draw(h, 8);
	return model_draw(h, 20) ? 16 + model_draw(h, 4000) : model_draw(h, 2) * 300000;
}

static inline uint32_t model_site(struct history *h)
{
	return model_draw(h, h->sites - MODEL_FREE_SITES);
}

/* Which live block a step is about; UINT32_MAX: none is live. */
static inline uint32_t model_pick(struct history *h)
{
	uint32_t live = 0, n = 0;
	for (uint32_t i = 0; i < h->block_count; i++)
		live += h->blocks[i].live;
	if (!live)
		return UINT32_MAX;
	uint32_t which = model_draw(h, live);
	if (h->shape == MODEL_FIFO)
		which = model_draw(h, 30) ? 0 : which; /* now and then one overtakes */
	if (h->shape == MODEL_LIFO)
		which = live - 1;
	for (uint32_t i = 0; i < h->block_count; i++)
		if (h->blocks[i].live && n++ == which)
			return i;
	return UINT32_MAX;
}

static inline void model_end(struct history *h, struct step *s, uint64_t now)
{
	struct model_block *b = &h->blocks[s->block];
	bool gone = model_draw(h, 25) == 0;
	s->e.op = gone ? TRACE_GONE : TRACE_FREE;
	if (gone)
		s->e.thread = b->thread;
	s->e.site = b->site;
	s->e.size = b->size;
	s->e.slack = b->slack;
	s->e.lifetime_ns = now - b->birth_ns;
	if (!gone && b->thread == s->e.thread && model_draw(h, 4) == 0)
		s->e.flags |= TRACE_TEMPORARY;
	if (!gone && model_draw(h, 3) == 0) {
		s->e.flags |= TRACE_FREED_AT;
		s->e.free_site = h->sites - 1 - model_draw(h, MODEL_FREE_SITES);
	}
	if (b->grown) {
		s->e.flags |= TRACE_GROWN;
		if (model_draw(h, 2)) { /* a hostile measure may exceed the block */
			s->e.flags |= TRACE_MEASURED;
			s->e.unused_bytes = model_draw(h, 10) ? model_draw(h, (uint32_t)b->size + 1)
							      : b->size + 7;
		}
	}
	b->live = false;
}

static inline void model_step(struct history *h, struct step *s, uint64_t now)
{
	memset(s, 0, sizeof *s);
	s->e.time_ns = now;
	s->e.thread = model_draw(h, h->threads);
	uint32_t chance = model_draw(h, 100);
	uint32_t allocs = h->shape == MODEL_CHAINS ? 25 : 55, reallocs = 8;
	if (h->shape == MODEL_CHAINS)
		reallocs = 55;
	if (h->shape == MODEL_FIFO || h->shape == MODEL_LIFO) {
		/* the first half of the threads makes, the other half frees */
		bool makes = chance < allocs;
		s->e.thread = model_draw(h, h->threads / 2) + (makes ? 0 : h->threads / 2);
	}
	s->block = chance < allocs ? UINT32_MAX : model_pick(h);
	if (s->block == UINT32_MAX) {
		struct model_block *b = &h->blocks[s->block = h->block_count++];
		b->site = model_site(h);
		*b = (struct model_block){now,         model_size(h, b->site), b->site,
					  s->e.thread, model_draw(h, 40),      true,
					  false};
		s->e.op = TRACE_ALLOC;
		s->e.site = b->site;
		s->e.size = b->size;
		s->e.slack = b->slack;
		s->e.birth_thread = b->thread;
		return;
	}
	struct model_block *b = &h->blocks[s->block];
	s->e.birth_thread = b->thread;
	if (chance >= allocs + reallocs) {
		model_end(h, s, now);
		return;
	}
	s->e.op = TRACE_REALLOC;
	s->e.old_site = b->site;
	s->e.old_size = b->size;
	s->e.old_slack = b->slack;
	b->site = model_draw(h, 2) ? b->site : model_site(h);
	b->size = model_draw(h, 3) ? b->size + b->size / 2 + 1 : model_size(h, b->site);
	if (b->size > 1 << 24)
		b->size = 100;
	b->slack = model_draw(h, 40);
	b->grown = true;
	s->e.site = b->site;
	s->e.size = b->size;
	s->e.slack = b->slack;
	if (model_draw(h, 2))
		s->e.flags = (uint8_t)(model_draw(h, 2) ? TRACE_MOVED : TRACE_MOVED | TRACE_COPIED);
}

/* pace: how far steps are apart, on average, in ns. */
static inline struct history *history_new(enum model_shape shape, uint64_t seed, size_t count,
					  uint32_t sites, uint32_t pace)
{
	struct history *h = calloc(1, sizeof *h);
	h->shape = shape;
	h->random = seed * 7919 + shape;
	h->sites = sites + MODEL_FREE_SITES;
	h->threads = shape == MODEL_ONE_THREAD ? 1 : MODEL_THREADS;
	h->count = count;
	h->steps = calloc(count, sizeof *h->steps);
	h->blocks = calloc(count + 1, sizeof *h->blocks);
	uint64_t now = 1000;
	for (size_t i = 0; i < count; i++) {
		if (model_draw(h, 4)) /* else at the same moment */
			now += model_draw(h, 2 * pace);
		if (model_draw(h, 500) == 0)
			now += 50ull * pace;
		model_step(h, &h->steps[i], now);
	}
	return h;
}

static inline void history_free(struct history *h)
{
	free(h->steps);
	free(h->blocks);
	free(h);
}

struct account_handover {
	uint64_t frees, bytes, in_order, backlog_blocks, backlog_bytes, backlog_time_ns;
	uint64_t first_birth_ns, last_birth_ns, first_free_ns, last_free_ns;
	long double x, y, xx, xy, yy; /* us */
};

struct account_growth {
	uint64_t steps, moved, copied, blocks, final, largest, measured, measured_bytes, unused;
};

/* What one site has live, or all sites together */
struct account_state {
	uint64_t bytes, blocks, slack;
};

struct account {
	struct account_handover handovers[MODEL_SITES];
	struct account_growth growths[MODEL_SITES];
	uint64_t pairs[MODEL_SITES][MODEL_THREADS][MODEL_THREADS];
	uint64_t releases[MODEL_SITES][MODEL_FREE_SITES];
	struct account_state now[MODEL_SITES], at_peak[MODEL_SITES], total, peak;
	uint64_t peak_time_ns, own_peak[MODEL_SITES];
};

/* Live numbers of a site by looking at every block there is. */
static inline struct account_state account_scan(const struct model_block *blocks, uint32_t count,
						uint32_t site)
{
	struct account_state s = {0};
	for (uint32_t i = 0; i < count; i++)
		if (blocks[i].live && blocks[i].site == site) {
			s.bytes += blocks[i].size;
			s.blocks++;
			s.slack += blocks[i].slack;
		}
	return s;
}

static inline void account_handed(struct account *a, const struct trace_event *e, uint64_t birth_ns,
				  struct account_state live)
{
	struct account_handover *h = &a->handovers[e->site];
	uint64_t wait = e->time_ns - birth_ns;
	if (!h->frees++) {
		h->first_birth_ns = birth_ns;
		h->last_birth_ns = 0;
		h->first_free_ns = e->time_ns;
	}
	h->bytes += e->size;
	h->in_order += birth_ns + wait / 8 >= h->last_birth_ns;
	h->last_birth_ns = birth_ns > h->last_birth_ns ? birth_ns : h->last_birth_ns;
	h->last_free_ns = e->time_ns;
	/* Births before that of the first one freed count as at its time. */
	long double x = birth_ns > h->first_birth_ns ? birth_ns - h->first_birth_ns : 0, y = wait;
	x /= 1000, y /= 1000;
	h->x += x, h->y += y, h->xx += x * x, h->xy += x * y, h->yy += y * y;
	if (live.blocks > h->backlog_blocks) {
		h->backlog_blocks = live.blocks;
		h->backlog_bytes = live.bytes;
		h->backlog_time_ns = e->time_ns;
	}
	a->pairs[e->site][e->birth_thread][e->thread]++;
}

static inline void account_ended(struct account *a, const struct history *h,
				 const struct trace_event *e)
{
	if (e->flags & TRACE_FREED_AT)
		a->releases[e->site][h->sites - 1 - e->free_site]++;
	struct account_growth *g = &a->growths[e->site];
	if (!(e->flags & TRACE_GROWN))
		return;
	g->blocks++;
	g->final += e->size;
	g->largest = e->size > g->largest ? e->size : g->largest;
	if (e->flags & TRACE_MEASURED) {
		g->measured++;
		g->measured_bytes += e->size;
		g->unused += e->unused_bytes > e->size ? e->size : e->unused_bytes;
	}
}

/* The state after steps [0, count), from nothing. `each`, if given, sees it after every step. */
static inline struct account *account_new(const struct history *h, size_t count,
					  void (*each)(void *, const struct account *, size_t),
					  void *ctx)
{
	struct account *a = calloc(1, sizeof *a);
	struct model_block *blocks = calloc(h->block_count + 1u, sizeof *blocks);
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &h->steps[i].e;
		struct model_block *b = &blocks[h->steps[i].block];
		uint32_t old = b->site;
		if (e->op == TRACE_FREE && e->thread != e->birth_thread)
			account_handed(a, e, b->birth_ns,
				       account_scan(blocks, h->block_count, e->site));
		if (e->op == TRACE_FREE || e->op == TRACE_GONE) {
			account_ended(a, h, e);
			b->live = false;
		} else {
			if (e->op == TRACE_ALLOC) {
				b->birth_ns = e->time_ns;
				b->thread = e->thread;
			} else if (e->size > b->size) {
				struct account_growth *g = &a->growths[e->site];
				g->steps++;
				g->moved += (e->flags & TRACE_MOVED) != 0;
				g->copied += e->flags & TRACE_COPIED ? b->size : 0;
			}
			b->live = true;
			b->site = e->site;
			b->size = e->size;
			b->slack = e->slack;
		}
		a->now[old] = account_scan(blocks, h->block_count, old);
		a->now[e->site] = account_scan(blocks, h->block_count, e->site);
		a->total = (struct account_state){0};
		for (uint32_t s = 0; s < h->sites; s++) {
			a->total.bytes += a->now[s].bytes;
			a->total.blocks += a->now[s].blocks;
			a->total.slack += a->now[s].slack;
		}
		if (a->now[e->site].bytes > a->own_peak[e->site])
			a->own_peak[e->site] = a->now[e->site].bytes;
		if (a->total.bytes > a->peak.bytes) {
			a->peak = a->total;
			a->peak_time_ns = e->time_ns;
			memcpy(a->at_peak, a->now, sizeof a->now);
		}
		if (each)
			each(ctx, a, i);
	}
	free(blocks);
	return a;
}

#endif
