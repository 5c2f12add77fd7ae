/* Collects the places whose blocks wait, and says between which threads their blocks pass.
 *
 * A rule must see all blocks of a place. The first thousand messages of a bounded queue wait longer and longer,
 * and if only they had one stack (a task has one when it starts and another when it is woken), a rule would take
 * them for a queue without a bound. */
#include "findings/queue_parts.h"

#include "findings/site_names.h"
#include "hosted/compare.h"
#include "hosted/hash_index.h"

#include <stdlib.h>
#include <string.h>

/* Frees by any thread if they were followed, else those by other threads. NULL: not known. */
static const struct profile_handover *waits_of(const struct profile *p, uint32_t site)
{
	const struct profile_site *s = &p->sites[site];
	if (s->waits < p->behaviour.wait_count)
		return &p->behaviour.waits[s->waits];
	return s->handover < p->behaviour.handover_count ? &p->behaviour.handovers[s->handover]
							 : NULL;
}

const struct profile_handover_threads *queue_threads(const struct profile *p, uint32_t site,
						     uint32_t *count)
{
	const struct profile_behaviour *b = &p->behaviour;
	const struct profile_handover *h = waits_of(p, site);
	bool all = p->sites[site].waits < b->wait_count;
	const struct profile_handover_threads *list = all ? b->wait_threads : b->handover_threads;
	uint32_t known = all ? b->wait_threads_count : b->handover_threads_count;
	*count = 0;
	if (!h || !list || h->threads_first >= known)
		return NULL;
	*count = known - h->threads_first;
	if (h->threads_count < *count)
		*count = h->threads_count;
	return list + h->threads_first;
}

struct profile_handover_threads queue_main_threads(const struct profile *p,
						   const struct queue_place *x)
{
	uint32_t count;
	const struct profile_handover_threads *t = queue_threads(p, x->site, &count);
	return count ? *t : (struct profile_handover_threads){PROFILE_NONE, PROFILE_NONE, 0};
}

static bool has_thread(const struct queue_places *q, const struct queue_place *x, uint32_t thread,
		       bool consumers)
{
	for (uint32_t i = 0; i < x->sites; i++) {
		uint32_t count;
		const struct profile_handover_threads *t = queue_threads(
			q->d->p, q->sites[x->first + i], &count);
		for (uint32_t k = 0; k < count; k++)
			if ((consumers ? t[k].to : t[k].from) == thread)
				return true;
	}
	return false;
}

bool queue_has_producer(const struct queue_places *q, const struct queue_place *x, uint32_t thread)
{
	return has_thread(q, x, thread, false);
}

bool queue_has_consumer(const struct queue_places *q, const struct queue_place *x, uint32_t thread)
{
	return has_thread(q, x, thread, true);
}

bool queue_same_producer(const struct queue_places *q, const struct queue_place *a,
			 const struct queue_place *b)
{
	return queue_has_producer(q, a, queue_main_threads(q->d->p, b).from) &&
	       queue_has_producer(q, b, queue_main_threads(q->d->p, a).from);
}

bool queue_same_consumer(const struct queue_places *q, const struct queue_place *a,
			 const struct queue_place *b)
{
	return queue_has_consumer(q, a, queue_main_threads(q->d->p, b).to) &&
	       queue_has_consumer(q, b, queue_main_threads(q->d->p, a).to);
}

uint32_t queue_freed_at(const struct profile *p, const struct queue_place *x)
{
	const struct profile_site *s = &p->sites[x->site];
	return s->release_count && s->release_first < p->behaviour.release_count
		       ? p->behaviour.releases[s->release_first].node
		       : PROFILE_NONE;
}

/* ---- sites of one place */

struct keyed_site {
	uint64_t key;
	uint32_t site;
};

/* The places are in the order of their keys, which must be the same in every run: hash_mix is not. */
static uint64_t mix(uint64_t key, uint64_t n)
{
	key = (key ^ n) * 0xff51afd7ed558ccdu;
	return key ^ (key >> 32);
}

static uint64_t mix_text(uint64_t key, const char *text)
{
	for (; *text; text++)
		key = mix(key, (unsigned char)*text);
	return key;
}

/* Equal for sites of one place; two places with one key would need a collision of 64 bits. */
static uint64_t place_key(const struct diagnosis *d, uint32_t site)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	uint32_t named = d->named[site];
	if (named == PROFILE_NONE) /* without a stack: a place of its own */
		return mix(1, site);
	uint64_t key = mix(2, s->via);
	for (uint32_t node = s->node; node != PROFILE_NONE; node = p->stacks.nodes[node].parent) {
		key = mix(key, p->stacks.nodes[node].frame);
		if (node == named)
			break;
	}
	uint32_t caller = user_caller(p, named);
	return caller == PROFILE_NONE
		       ? key
		       : mix_text(key, p->stacks.frames[p->stacks.nodes[caller].frame].function);
}

static int by_key(const void *a, const void *b)
{
	const struct keyed_site *x = a, *y = b;
	return compare_numbers(x->key, y->key) ?: compare_numbers(x->site, y->site);
}

static void add_site(struct queue_places *q, struct queue_place *x, uint32_t site)
{
	const struct profile *p = q->d->p;
	const struct profile_site *s = &p->sites[site];
	const struct profile_handover *h = waits_of(p, site);
	const struct profile_handover *crossed = s->handover < p->behaviour.handover_count
							 ? &p->behaviour.handovers[s->handover]
							 : NULL;
	if (!x->sites++)
		x->waits = *h;
	else
		profile_waits_add(&x->waits, h);
	if (x->sites == 1 || h->backlog_bytes > waits_of(p, x->site)->backlog_bytes)
		x->site = site;
	x->frees += s->frees;
	x->frees_by_others += crossed ? crossed->frees : 0;
	x->made += greater(s->allocations, s->frees);
}

/* Blocks that a program had before heft was attached were all there at once: nobody knows when they came. */
static bool is_older(const struct diagnosis *d, uint32_t site)
{
	const struct profile_stacks *s = &d->p->stacks;
	uint32_t node = d->named[site];
	return d->p->run.older_listed && node != PROFILE_NONE &&
	       !strcmp(s->frames[s->nodes[node].frame].function, PROFILE_OLDER_PLACE);
}

int queue_places_init(struct queue_places *q, const struct diagnosis *d)
{
	const struct profile *p = d->p;
	size_t most = (size_t)p->site_count + 1;
	*q = (struct queue_places){.d = d};
	if (!p->behaviour.wait_count && !p->behaviour.handover_count)
		return 0;
	struct keyed_site *keyed = malloc(most * sizeof *keyed);
	q->sites = malloc(most * sizeof *q->sites);
	q->list = calloc(most, sizeof *q->list);
	int rc = keyed && q->sites && q->list ? 0 : HEFT_ENOMEM;
	uint32_t count = 0;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		if (waits_of(p, i) && !is_older(d, i))
			keyed[count++] = (struct keyed_site){place_key(d, i), i};
	if (count)
		qsort(keyed, count, sizeof *keyed, by_key);
	for (uint32_t i = 0; i < count; i++) {
		q->sites[i] = keyed[i].site;
		if (!i || keyed[i].key != keyed[i - 1].key)
			q->list[q->count++] = (struct queue_place){.first = i,
								   .group = PROFILE_NONE};
		add_site(q, &q->list[q->count - 1], keyed[i].site);
	}
	free(keyed);
	return rc;
}

void queue_places_fini(struct queue_places *q)
{
	free(q->sites);
	free(q->list);
}
