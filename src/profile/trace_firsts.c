/* The first blocks of each large site, in the order in which they were made, with their sizes. Counts say how
 * many blocks there were; only the order says that they were made together (a struct and its four buffers,
 * then the next struct), and only the sizes in that order say that one is a copy of the other.
 *
 * The recorder keeps no order, so this reads events, but no more than the first million: what belongs
 * together shows in the first hundred blocks. Findings are the only reader, so a profile that nobody judges
 * (profile_selection.judge_events) does not have it, nor has one of several processes.
 *
 * Invariants: ids in events are checked before they are used; the list is ordered by site, then by order. */
#include "profile/trace_load.h"

#include "hosted/compare.h"

#include <limits.h>
#include <stdlib.h>

enum {
	MOST_SITES = 400,      /* the largest ones */
	MOST_OF_A_SITE = 512,  /* blocks */
	LEAST_BLOCKS = 10,     /* a site with fewer shows nothing */
	LEAST_PART = 10000,    /* of the peak heap: smaller sites do not matter */
	MOST_BIRTHS = 1000000, /* 0.1 s */
	ENOUGH = INT_MIN,      /* ends the walk */
};

struct firsts {
	struct load *l;
	uint32_t *found; /* by site of the profile; MOST_OF_A_SITE: enough, or not wanted */
	uint32_t wanted; /* sites that have not enough yet */
	uint64_t order;
};

static int note_birth(struct firsts *f, const struct trace_event *e)
{
	struct profile *p = f->l->p;
	struct profile_behaviour *b = &p->behaviour;
	uint32_t site = p->recorded.sites[e->site];
	f->order++;
	if (site >= p->site_count || f->found[site] >= MOST_OF_A_SITE)
		return 0;
	b->firsts[b->first_count++] = (struct profile_first){
		.site = site, .thread = e->thread, .order = f->order, .size = e->size};
	if (++f->found[site] == MOST_OF_A_SITE && --f->wanted == 0)
		return ENOUGH;
	return 0;
}

static int note_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct firsts *f = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (!trace_event_is_valid(f->l->c, e))
			return HEFT_EFORMAT;
		/* A block that is resized at another place belongs to that place from then on. */
		bool born = e->op == TRACE_ALLOC ||
			    (e->op == TRACE_REALLOC && e->old_site != e->site);
		int rc = born ? note_birth(f, e) : 0;
		if (rc < 0)
			return rc;
	}
	return f->order < MOST_BIRTHS ? 0 : ENOUGH;
}

static int by_site_then_order(const void *a, const void *b)
{
	const struct profile_first *x = a, *y = b;
	return compare_numbers(x->site, y->site) ?: compare_numbers(x->order, y->order);
}

/* Chooses the sites. */
static void choose_sites(struct firsts *f)
{
	const struct profile *p = f->l->p;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		bool large = f->wanted < MOST_SITES && s->peak_blocks >= LEAST_BLOCKS &&
			     s->peak_bytes >= p->totals.peak_bytes / LEAST_PART;
		f->found[i] = large ? 0 : MOST_OF_A_SITE;
		f->wanted += large;
	}
}

bool trace_wants_firsts(const struct load *l)
{
	const struct profile_selection *s = l->sel;
	return s->judge_events && l->reader && l->c->process_count == 1 && !l->c->samples_count &&
	       !l->split && !s->part_of && !s->top_only && !s->has_window && l->all_threads;
}

int trace_load_firsts(struct load *l)
{
	struct profile *p = l->p;
	struct firsts f = {.l = l};
	if (!trace_wants_firsts(l) || !p->recorded.sites)
		return 0;
	f.found = calloc((size_t)p->site_count + 1, sizeof *f.found);
	if (f.found)
		choose_sites(&f);
	if (f.wanted)
		p->behaviour.firsts = malloc((size_t)f.wanted * MOST_OF_A_SITE *
					     sizeof *p->behaviour.firsts);
	int rc = !f.found || (f.wanted && !p->behaviour.firsts) ? HEFT_ENOMEM : 0;
	if (rc == 0 && f.wanted)
		rc = trace_reader_events(l->reader, 0, UINT64_MAX, note_batch, &f, l->err);
	if (rc == ENOUGH)
		rc = 0;
	if (p->behaviour.first_count)
		qsort(p->behaviour.firsts, p->behaviour.first_count, sizeof *p->behaviour.firsts,
		      by_site_then_order);
	free(f.found);
	return rc;
}
