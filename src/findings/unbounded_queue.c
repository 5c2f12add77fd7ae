/* unbounded-queue: one thread makes blocks, another frees them and does not keep up.
 *
 * A queue differs from other ways to pass blocks on:
 *   - another thread frees them, nearly all of them;
 *   - first in, first out;
 *   - each waits longer than the one before. A bounded queue, a cache or a pool that keeps up makes
 *     blocks wait about equally long once it is full;
 *   - consumer and producer work at the same time. A table that one thread builds and another takes
 *     down is also freed in order, and if that is slow its blocks live longer and longer too.
 *
 * An item of a queue is often several blocks (a node, a payload), and several places may send to
 * one queue. Sites that share the consumer and the times are one finding. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"
#include "hosted/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fewer hand-overs do not show a trend. */
#define QUEUE_LEAST_FREES 100
/* Once a site is known to feed a queue, its companions (a list's chunks of 31 slots) may be fewer. */
#define QUEUE_LEAST_COMPANION_FREES 8
/* The producer may free the rest: what it takes back at the end, or messages to itself. */
#define QUEUE_LEAST_CROSS_SHARE 0.9
/* Two consumers, or batches freed back to front, overtake a little. With 0.75 four consumers of
 * irregular speed would pass too, but so did one of 1100 simulated queues that kept up. */
#define QUEUE_LEAST_IN_ORDER 0.9
/* The straight line through the waits must explain most of their variation. Measured by hand: a
 * bound of 64 gives 0.36 at worst (a run of 130 items, of which the first 64 fill the queue). */
#define QUEUE_LEAST_FIT 0.5
/* Growth of the wait from the first to the last item, over the mean wait. A wait that grows evenly
 * from nothing gives 2, one that is three times as long at the end as at the start gives 1, a bound
 * of 64 at most 0.8 (the same 130 items) and 0.1 over 5000. */
#define QUEUE_LEAST_GROWTH 1.0
/* Every queue varies: a backlog of a few items, or of a small share of all items, is normal. */
#define QUEUE_LEAST_BACKLOG 32
#define QUEUE_LEAST_BACKLOG_SHARE 0.05
/* Or the items came in a burst: within a tenth of the time from first birth to last free, three
 * quarters of them were there at once, and they were taken evenly (a mean wait of about half of that
 * time). Then each must wait longer than the one before, and no line is needed: on a busy machine
 * the births of a burst stand in two or three heaps, and the line fits badly (0.2 was seen). */
#define QUEUE_BURST 0.1
#define QUEUE_BURST_BACKLOG 0.75
#define QUEUE_BURST_LEAST_WAIT 0.25
#define QUEUE_BURST_MOST_WAIT 0.75
/* A producer may be done before the first item is freed. Then it is a queue if that item was taken
 * early (0.08 of the whole time was seen on a busy machine), and if items are worked on: to free a
 * block takes a microsecond at most, so a table that is taken down is freed faster than this. */
#define QUEUE_LONGEST_FIRST_WAIT 0.15
#define QUEUE_LEAST_WORK_NS 20000.0
/* A smaller backlog is not worth reporting. */
#define QUEUE_LEAST_BYTES (64u << 10)
#define QUEUE_LEAST_PEAK_SHARE 0.01
/* Two sites feed one queue if births and frees begin and end together: within this part of the
 * time from first birth to last free. */
#define QUEUE_SAME_TIME 0.1
/* Growth without end: the backlog was highest in the last tenth of the run, nine tenths of it were never
 * taken out, and the producer worked for half of the run. */
#define QUEUE_ENDLESS_LATE 0.9
#define QUEUE_ENDLESS_LEFT 0.9
#define QUEUE_ENDLESS_SPAN 0.5

enum { NAMES_SHOWN = 8 };

struct queue_site {
	uint32_t site;
	const struct profile_handover *h;
	uint32_t group; /* index of the first queue_site of its group */
	bool certain;   /* it fulfils every condition itself */
};

struct queue_group {
	uint32_t main;        /* the site with the most bytes */
	uint32_t sites;       /* how many */
	uint64_t made, taken; /* items */
	uint64_t backlog_items, backlog_blocks, backlog_bytes;
	uint64_t first_birth_ns, last_birth_ns, first_free_ns, last_free_ns;
};

static const struct profile_handover *handover_of(const struct profile *p, uint32_t site)
{
	uint32_t at = p->sites[site].handover;
	return at < p->behaviour.handover_count ? &p->behaviour.handovers[at] : NULL;
}

static double interval(uint64_t from, uint64_t to, uint64_t items)
{
	return items > 1 && to > from ? (double)(to - from) / (double)(items - 1) : 0;
}

/* Whether blocks are handed over in order. Companions need this, but not the trend. */
static bool is_handed_over(const struct profile *p, uint32_t site, uint64_t least)
{
	const struct profile_handover *h = handover_of(p, site);
	const struct profile_site *s = &p->sites[site];
	return h && h->frees >= least &&
	       (double)h->frees >= QUEUE_LEAST_CROSS_SHARE * (double)s->frees &&
	       (double)h->in_order >= QUEUE_LEAST_IN_ORDER * (double)h->frees;
}

static bool takes_from_start(const struct profile_handover *h)
{
	double whole = (double)(h->last_free_ns - h->first_birth_ns);
	return h->first_free_ns <= h->last_birth_ns ||
	       ((double)(h->first_free_ns - h->first_birth_ns) <=
			QUEUE_LONGEST_FIRST_WAIT * whole &&
		interval(h->first_free_ns, h->last_free_ns, h->frees) >= QUEUE_LEAST_WORK_NS);
}

static bool is_burst(const struct profile_handover *h)
{
	double whole = (double)(h->last_free_ns - h->first_birth_ns);
	return (double)(h->last_birth_ns - h->first_birth_ns) <= QUEUE_BURST * whole &&
	       (double)h->backlog_blocks >= QUEUE_BURST_BACKLOG * (double)h->frees &&
	       h->wait_mean_ns >= QUEUE_BURST_LEAST_WAIT * whole &&
	       h->wait_mean_ns <= QUEUE_BURST_MOST_WAIT * whole;
}

static bool is_growing(const struct profile_handover *h)
{
	double span = (double)(h->last_birth_ns - h->first_birth_ns);
	return h->wait_fit >= QUEUE_LEAST_FIT &&
	       h->wait_slope * span >= QUEUE_LEAST_GROWTH * h->wait_mean_ns;
}

static bool is_queue(const struct profile *p, uint32_t site)
{
	if (!is_handed_over(p, site, QUEUE_LEAST_FREES))
		return false;
	const struct profile_handover *h = handover_of(p, site);
	if (h->last_birth_ns < h->first_birth_ns || h->first_free_ns < h->first_birth_ns ||
	    h->last_free_ns <= h->first_birth_ns || !isfinite(h->wait_slope) ||
	    !isfinite(h->wait_fit) || h->wait_mean_ns <= 0)
		return false;
	return (is_growing(h) || is_burst(h)) && h->backlog_blocks >= QUEUE_LEAST_BACKLOG &&
	       (double)h->backlog_blocks >= QUEUE_LEAST_BACKLOG_SHARE * (double)h->frees &&
	       takes_from_start(h);
}

/* ---- which sites feed one queue */

static bool near(uint64_t a, uint64_t b, double within)
{
	return fabs((double)a - (double)b) <= within;
}

static uint32_t main_consumer(const struct profile *p, const struct profile_handover *h)
{
	return h->threads_count && h->threads_first < p->behaviour.handover_threads_count
		       ? p->behaviour.handover_threads[h->threads_first].to
		       : PROFILE_NONE;
}

static bool has_consumer(const struct profile *p, const struct profile_handover *h, uint32_t thread)
{
	for (uint32_t i = 0; i < h->threads_count; i++) {
		uint64_t at = (uint64_t)h->threads_first + i;
		if (at < p->behaviour.handover_threads_count &&
		    p->behaviour.handover_threads[at].to == thread)
			return true;
	}
	return false;
}

static bool same_queue(const struct profile *p, const struct profile_handover *a,
		       const struct profile_handover *b)
{
	double within = QUEUE_SAME_TIME * (double)(a->last_free_ns - a->first_birth_ns);
	return has_consumer(p, a, main_consumer(p, b)) && has_consumer(p, b, main_consumer(p, a)) &&
	       near(a->first_birth_ns, b->first_birth_ns, within) &&
	       near(a->last_birth_ns, b->last_birth_ns, within) &&
	       near(a->first_free_ns, b->first_free_ns, within) &&
	       near(a->last_free_ns, b->last_free_ns, within);
}

/* One call makes all blocks of an item: a call of the same function from the same place. */
static bool same_item(const struct diagnosis *d, uint32_t a, uint32_t b)
{
	const struct profile *p = d->p;
	uint32_t x = d->named[a], y = d->named[b];
	if (x == PROFILE_NONE || y == PROFILE_NONE)
		return false;
	uint32_t common = common_user_node(p, p->sites[a].node, p->sites[b].node);
	return common != PROFILE_NONE &&
	       (same_function(p, p->stacks.nodes[common].frame, p->stacks.nodes[x].frame) ||
		same_function(p, p->stacks.nodes[common].frame, p->stacks.nodes[y].frame));
}

static struct queue_group add_up(const struct diagnosis *d, const struct queue_site *list,
				 uint32_t count, uint32_t group)
{
	struct queue_group g = {.main = list[group].site,
				.first_birth_ns = UINT64_MAX,
				.first_free_ns = UINT64_MAX};
	for (uint32_t i = group; i < count; i++) {
		const struct profile_handover *h = list[i].h;
		if (list[i].group != group)
			continue;
		bool counted = false; /* it belongs to an item that has more blocks */
		for (uint32_t k = group; k < i && !counted; k++)
			counted = list[k].group == group &&
				  same_item(d, list[k].site, list[i].site);
		if (!counted && list[i].certain) {
			uint64_t made = d->p->sites[list[i].site].allocations;
			g.taken += h->frees;
			g.made += made > h->frees ? made : h->frees;
			g.backlog_items += h->backlog_blocks;
		}
		g.sites++;
		g.backlog_blocks += h->backlog_blocks;
		g.backlog_bytes += h->backlog_bytes;
		g.first_birth_ns = lesser(g.first_birth_ns, h->first_birth_ns);
		g.last_birth_ns = greater(g.last_birth_ns, h->last_birth_ns);
		g.first_free_ns = lesser(g.first_free_ns, h->first_free_ns);
		g.last_free_ns = greater(g.last_free_ns, h->last_free_ns);
	}
	/* The sites need not have been at their highest together. */
	if (g.backlog_bytes > d->p->totals.peak_bytes && d->p->totals.peak_bytes)
		g.backlog_bytes = d->p->totals.peak_bytes;
	return g;
}

/* ---- words */

struct actors {
	const char *const *texts;
	uint32_t count;
	const char *first; /* the most frequent name, "" if there is none, */
	uint32_t threads;  /* and how many threads have it */
};

/* Names the producing or consuming threads of the group, each name once, the most frequent first. Threads
 * of one name are together: "worker (16 threads)". */
static int thread_names(struct diagnosis *d, const struct queue_site *list, uint32_t count,
			uint32_t group, bool consumers, struct actors *out)
{
	const struct profile *p = d->p;
	const char **texts = name_pool_alloc(d->pool, NAMES_SHOWN * sizeof *texts);
	bool *seen = calloc((size_t)p->thread_count + 1, sizeof *seen);
	const char *name[NAMES_SHOWN];
	uint32_t threads[NAMES_SHOWN], n = 0;
	int rc = texts && seen ? 0 : HEFT_ENOMEM;
	for (uint32_t i = group; i < count && rc == 0; i++) {
		const struct profile_handover *h = list[i].h;
		for (uint32_t k = 0; list[i].group == group && k < h->threads_count; k++) {
			uint64_t at = (uint64_t)h->threads_first + k;
			if (at >= p->behaviour.handover_threads_count)
				break;
			uint32_t thread = consumers ? p->behaviour.handover_threads[at].to
						    : p->behaviour.handover_threads[at].from;
			if (thread >= p->thread_count || seen[thread])
				continue;
			seen[thread] = true;
			const char *its = p->threads[thread].name ? p->threads[thread].name : "";
			uint32_t same = 0;
			while (same < n && strcmp(name[same], its) != 0)
				same++;
			if (same == NAMES_SHOWN)
				continue;
			if (same == n) {
				name[n] = its;
				threads[n++] = 0;
			}
			threads[same]++;
		}
	}
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		texts[i] = threads[i] == 1
				   ? name[i]
				   : diagnosis_text(d, "%s (%u threads)", name[i], threads[i]);
		rc = texts[i] ? 0 : HEFT_ENOMEM;
	}
	free(seen);
	*out = (struct actors){texts, n, n ? name[0] : "", n ? threads[0] : 0};
	return rc;
}

/* Writes who does it, with the verb: 'thread "producer" makes', '16 threads "worker" make', 'a thread without
 * a name makes'. `name` is the most frequent name, which so many threads have. */
static struct phrase phrase_actor(const char *name, uint32_t threads, const char *one,
				  const char *many)
{
	struct phrase w;
	if (threads > 1 && *name)
		snprintf(w.text, sizeof w.text, "%u threads \"%.60s\" %.20s", threads, name, many);
	else if (threads > 1)
		snprintf(w.text, sizeof w.text, "%u threads without names %.20s", threads, many);
	else if (*name)
		snprintf(w.text, sizeof w.text, "thread \"%.60s\" %.20s", name, one);
	else
		snprintf(w.text, sizeof w.text, "a thread without a name %.20s", one);
	return w;
}

static uint32_t producer_node(const struct diagnosis *d, const struct queue_site *list,
			      uint32_t count, uint32_t group)
{
	const struct profile *p = d->p;
	uint32_t main = list[group].site, node = d->named[main];
	for (uint32_t i = group + 1; i < count; i++) {
		if (list[i].group != group || !same_item(d, main, list[i].site))
			continue;
		uint32_t common = common_user_node(p, p->sites[main].node,
						   p->sites[list[i].site].node);
		/* Nodes further out have smaller indices along one stack. */
		if (common != PROFILE_NONE && common < node)
			node = common;
	}
	return node;
}

static const char *function_of(const struct profile *p, uint32_t node)
{
	return node < p->stacks.node_count ? p->stacks.frames[p->stacks.nodes[node].frame].function
					   : "unknown";
}

static int report_group(struct diagnosis *d, const struct queue_site *list, uint32_t count,
			uint32_t group)
{
	const struct profile *p = d->p;
	struct queue_group g = add_up(d, list, count, group);
	double peak_share = share_of(g.backlog_bytes, p->totals.peak_bytes);
	if (g.backlog_bytes < QUEUE_LEAST_BYTES || peak_share < QUEUE_LEAST_PEAK_SHARE)
		return 0;
	const struct profile_site *s = &p->sites[g.main];
	double arrival = interval(g.first_birth_ns, g.last_birth_ns, g.taken);
	double service = interval(g.first_free_ns, g.last_free_ns, g.taken);
	/* Items leave in order, so the last free is of the last one made: the wait grew by this for each item. */
	double growth = service > arrival ? service - arrival : 0;
	uint32_t producer = producer_node(d, list, count, group), consumer = PROFILE_NONE;
	uint32_t freed_in = PROFILE_NONE;
	if (s->release_count && s->release_first < p->behaviour.release_count) {
		uint32_t node = p->behaviour.releases[s->release_first].node;
		consumer = release_name(p, node);
		freed_in = node < p->stacks.node_count ? profile_first_user_node(p, node)
						       : PROFILE_NONE;
	}
	struct actors producers, consumers;
	if (thread_names(d, list, count, group, false, &producers) < 0 ||
	    thread_names(d, list, count, group, true, &consumers) < 0)
		return HEFT_ENOMEM;

	const struct profile_handover *h = list[group].h;
	bool endless = (double)h->backlog_time_ns >=
			       QUEUE_ENDLESS_LATE * (double)p->run.duration_ns &&
		       (double)s->live_blocks >= QUEUE_ENDLESS_LEFT * (double)h->backlog_blocks &&
		       (double)(h->last_birth_ns - h->first_birth_ns) >=
			       QUEUE_ENDLESS_SPAN * (double)p->run.duration_ns;
	struct draft f = draft_begin(FINDING_UNBOUNDED_QUEUE, g.main, g.backlog_bytes);
	f.finding.severity = endless ? FINDING_HIGH : severity_of(d, g.backlog_bytes);
	struct phrase made = phrase_place(p, producer), freed = phrase_place(p, consumer);
	f.finding.summary = diagnosis_text(
		d,
		"unbounded queue: %s items at %s, one every %s, %s "
		"%s for each (freed at %s); each waits %s longer than the one before, and up "
		"to "
		"%s of %s were waiting: %s, %s, %s of the peak heap",
		phrase_actor(producers.first, producers.threads, "makes", "make").text, made.text,
		words_time(arrival).text,
		phrase_actor(consumers.first, consumers.threads, "takes", "take").text,
		words_time(service).text, freed.text, words_time(growth).text,
		words_count(g.backlog_items).text, words_count(g.made).text,
		words_many(g.backlog_blocks, "block", "blocks").text,
		words_size(g.backlog_bytes).text, words_percent(peak_share).text);
	f.finding.advice = diagnosis_text(
		d,
		"Bound the queue so that the producer waits (or drops) when it is full, or let the "
		"consumer take several items at a time; copying less into each item does not "
		"help.");
	draft_text(&f, "producer_function", function_of(p, producer));
	draft_texts(&f, "producer_threads", producers.texts, producers.count);
	draft_text(&f, "consumer_function", function_of(p, consumer));
	draft_texts(&f, "consumer_threads", consumers.texts, consumers.count);
	draft_count(&f, "backlog_blocks", g.backlog_blocks);
	draft_bytes(&f, "backlog_bytes", g.backlog_bytes);
	draft_count(&f, "backlog_items", g.backlog_items);
	draft_share(&f, "backlog_share", peak_share);
	draft_time(&f, "arrival_ns", arrival);
	draft_time(&f, "service_ns", service);
	draft_time(&f, "wait_growth_ns", growth);
	draft_time(&f, "wait_mean_ns", h->wait_mean_ns);
	draft_count(&f, "items", g.made);
	draft_share(&f, "in_order", share_of(h->in_order, h->frees));
	draft_share(&f, "freed_by_others", share_of(h->frees, s->frees));
	draft_text(&f, "freeing_function", function_of(p, freed_in));
	for (uint32_t i = group; i < count; i++)
		if (list[i].group == group)
			d->queued[list[i].site] = true;
	return draft_add(d, &f);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct queue_site *x = a, *y = b;
	return y->certain - x->certain
		       ?: compare_numbers(y->h->backlog_bytes, x->h->backlog_bytes)
		       ?: compare_numbers(x->site, y->site);
}

int diagnose_unbounded_queue(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct queue_site *list = malloc(((size_t)p->behaviour.handover_count + 1) * sizeof *list);
	uint32_t count = 0;
	int rc = list ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0 && count < p->behaviour.handover_count;
	     i++) {
		bool certain = is_queue(p, i);
		if (certain || is_handed_over(p, i, QUEUE_LEAST_COMPANION_FREES))
			list[count++] = (struct queue_site){i, handover_of(p, i), PROFILE_NONE,
							    certain};
	}
	if (count)
		qsort(list, count, sizeof *list, most_bytes_first);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		for (uint32_t k = 0; k < i && list[i].group == PROFILE_NONE; k++)
			if (list[k].group == k && same_queue(p, list[k].h, list[i].h))
				list[i].group = k;
		if (list[i].group == PROFILE_NONE && list[i].certain)
			list[i].group = i;
	}
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (list[i].group == i)
			rc = report_group(d, list, count, i);
	free(list);
	return rc;
}
