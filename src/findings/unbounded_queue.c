/* unbounded-queue: one place makes blocks, another frees them and does not keep up (queue_rule.c).
 *
 * Sites that share a thread and the times are one queue and one finding: an item is often several blocks, and
 * several places may send to one queue. A pipeline has several queues, and only its last stage frees the items.
 * The blocks of a channel itself (nodes, chunks) live exactly as long as an item is in that channel. So those
 * whose wait is about that of the items say between which threads the items wait. */
#include "findings/made_together.h"
#include "findings/queue_parts.h"

#include "findings/site_names.h"
#include "hosted/compare.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Once a site is known to feed a queue, its companions (a list's chunks of 31 slots) may be fewer. */
#define QUEUE_LEAST_COMPANION_FREES 8
/* So many places are looked at, the largest first: comparing all with all takes time. */
#define QUEUE_MOST_PLACES 1000
/* A smaller backlog is not worth reporting. */
#define QUEUE_LEAST_BYTES (64u << 10)
#define QUEUE_LEAST_PEAK_SHARE 0.01
/* Two sites feed one queue if births and frees begin and end together: within this part of the
 * time from first birth to last free. */
#define QUEUE_SAME_TIME 0.1
#define ITEM_COUNTS_WITHIN 0.02
/* Items that came within this part of the time that it took to take them out came at once. */
#define QUEUE_BURST 0.2
/* A channel's own blocks: small nodes, as many as there are items, or chunks of several items each. */
#define CARRIER_LARGEST_NODE 64
#define CARRIER_CHUNK 0.125
/* They live about as long as the items that wait in this channel. An item also spends time in the other stages;
 * a chunk lives until its last item is taken. */
#define CARRIER_LEAST_WAIT 0.5
#define CARRIER_MOST_WAIT 1.25
/* Growth without end: the backlog was highest in the last tenth of the run, nine tenths of it were never
 * taken out, and the producer worked for half of the run. */
#define QUEUE_ENDLESS_LATE 0.9
#define QUEUE_ENDLESS_LEFT 0.9
#define QUEUE_ENDLESS_SPAN 0.5

/* A thread that frees less of a place than this is not named: the rest, at the end. */
#define ACTOR_LEAST_SHARE 0.05

enum { NAMES_SHOWN = 8 };

struct queue_group {
	const struct queue_place *main; /* the place with the most bytes */
	const struct queue_place
		*carrier; /* the channel's own blocks; NULL: not known, or not needed */
	struct queue_items items;
	uint64_t backlog_blocks, backlog_bytes;
	uint64_t first_birth_ns, last_birth_ns, first_free_ns, last_free_ns;
};

/* ---- which places feed one queue */

static bool near(uint64_t a, uint64_t b, double within)
{
	return fabs((double)a - (double)b) <= within;
}

/* Whether b has the blocks of a channel through which the items of a go. */
static bool is_carrier(const struct profile *p, const struct queue_place *a,
		       const struct queue_place *b)
{
	const struct profile_site *own = &p->sites[b->site];
	return (double)b->made <= CARRIER_CHUNK * (double)a->made ||
	       (own->allocations &&
		own->allocated_bytes / own->allocations <= CARRIER_LARGEST_NODE);
}

/* Whether each item has one block of both: made in turn by one thread, and waiting as long. Others may free them: the
 * worker drops the request, who waits for the task drops the task. */
static bool in_one_item(const struct queue_places *q, const struct queue_place *a,
			const struct queue_place *b)
{
	double wait = a->waits.wait_mean_ns;
	return near(a->made, b->made, ITEM_COUNTS_WITHIN * (double)a->made) &&
	       fabs(wait - b->waits.wait_mean_ns) <= QUEUE_SAME_TIME * wait &&
	       queue_same_producer(q, a, b) &&
	       made_together(q->d->p, a->site, b->site, 1) == TOGETHER_IN_ORDER;
}

static bool same_queue(const struct queue_places *q, const struct queue_place *a,
		       const struct queue_place *b)
{
	const struct profile_handover *x = &a->waits, *y = &b->waits;
	double within = QUEUE_SAME_TIME * (double)(x->last_free_ns - x->first_birth_ns);
	/* A chunk is freed when its last item is taken: the first one late. */
	bool carrier = is_carrier(q->d->p, a, b);
	return near(x->first_birth_ns, y->first_birth_ns, within) &&
	       near(x->last_birth_ns, y->last_birth_ns, within) &&
	       (carrier || near(x->first_free_ns, y->first_free_ns, within)) &&
	       near(x->last_free_ns, y->last_free_ns, within) &&
	       (queue_same_consumer(q, a, b) || (carrier && queue_same_producer(q, a, b)) ||
		in_one_item(q, a, b));
}

/* The channel in which the items wait, if its blocks pass between other threads than the items: the one whose
 * blocks wait the shortest of those that wait long enough. NULL: none. */
static const struct queue_place *carrier_of(const struct queue_places *q, uint32_t group)
{
	const struct queue_place *items = &q->list[group], *best = NULL;
	for (uint32_t i = group + 1; i < q->count; i++) {
		const struct queue_place *x = &q->list[i];
		struct profile_handover_threads own = queue_main_threads(q->d->p, x);
		double wait = x->waits.wait_mean_ns;
		if (x->group == group && is_carrier(q->d->p, items, x) &&
		    (!queue_has_producer(q, items, own.from) ||
		     !queue_has_consumer(q, items, own.to)) &&
		    wait >= CARRIER_LEAST_WAIT * items->waits.wait_mean_ns &&
		    wait <= CARRIER_MOST_WAIT * items->waits.wait_mean_ns &&
		    (!best || wait < best->waits.wait_mean_ns))
			best = x;
	}
	return best;
}

static int add_up(const struct queue_places *q, uint32_t group, struct queue_group *g)
{
	*g = (struct queue_group){.main = &q->list[group],
				  .carrier = carrier_of(q, group),
				  .first_birth_ns = UINT64_MAX,
				  .first_free_ns = UINT64_MAX};
	for (uint32_t i = group; i < q->count; i++) {
		const struct profile_handover *h = &q->list[i].waits;
		if (q->list[i].group != group)
			continue;
		g->backlog_blocks += h->backlog_blocks;
		g->backlog_bytes += h->backlog_bytes;
		g->first_birth_ns = lesser(g->first_birth_ns, h->first_birth_ns);
		g->last_birth_ns = greater(g->last_birth_ns, h->last_birth_ns);
		g->first_free_ns = lesser(g->first_free_ns, h->first_free_ns);
		g->last_free_ns = greater(g->last_free_ns, h->last_free_ns);
	}
	/* The sites need not have been at their highest together. */
	if (g->backlog_bytes > q->d->p->totals.peak_bytes && q->d->p->totals.peak_bytes)
		g->backlog_bytes = q->d->p->totals.peak_bytes;
	return queue_count_items(q, group, &g->items);
}

/* ---- words */

struct actors {
	const char *const *texts;
	uint32_t count;
	const char *first; /* the most frequent name, "" if there is none, */
	uint32_t threads;  /* and how many threads have it */
};

/* Thread names, each once, with how many threads have it */
struct name_list {
	const char *name[NAMES_SHOWN];
	uint32_t threads[NAMES_SHOWN], count;
};

static void add_thread(const struct profile *p, struct name_list *names, bool *seen,
		       uint32_t thread)
{
	if (thread >= p->thread_count || seen[thread])
		return;
	seen[thread] = true;
	const char *its = p->threads[thread].name ? p->threads[thread].name : "";
	uint32_t same = 0;
	while (same < names->count && strcmp(names->name[same], its) != 0)
		same++;
	if (same == NAMES_SHOWN)
		return;
	if (same == names->count) {
		names->name[names->count] = its;
		names->threads[names->count++] = 0;
	}
	names->threads[same]++;
}

/* Names the producing or consuming threads of the group, the most frequent first. Threads of one name are
 * together: "worker (16 threads)". only: of this place alone; NULL: of the whole group. */
static int thread_names(struct diagnosis *d, const struct queue_places *q, uint32_t group,
			const struct queue_place *only, bool consumers, struct actors *out)
{
	const struct profile *p = d->p;
	const char **texts = name_pool_alloc(d->pool, NAMES_SHOWN * sizeof *texts);
	bool *seen = calloc((size_t)p->thread_count + 1, sizeof *seen);
	struct name_list names = {.count = 0};
	int rc = texts && seen ? 0 : HEFT_ENOMEM;
	for (uint32_t i = group; i < q->count && rc == 0; i++) {
		const struct queue_place *x = &q->list[i];
		if (x->group != group ||
		    (only ? x != only : i != group && is_carrier(p, &q->list[group], x)))
			continue;
		for (uint32_t k = 0; k < x->sites; k++) {
			uint32_t pairs;
			const struct profile_handover_threads *pair = queue_threads(
				p, q->sites[x->first + k], &pairs);
			for (uint32_t t = 0; t < pairs; t++)
				if ((double)pair[t].frees >=
				    ACTOR_LEAST_SHARE * (double)x->waits.frees)
					add_thread(p, &names, seen,
						   consumers ? pair[t].to : pair[t].from);
		}
	}
	uint32_t n = names.count;
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		texts[i] = names.threads[i] == 1 ? names.name[i]
						 : diagnosis_text(d, "%s (%u threads)",
								  names.name[i], names.threads[i]);
		rc = texts[i] ? 0 : HEFT_ENOMEM;
	}
	free(seen);
	*out = (struct actors){texts, n, n ? names.name[0] : "", n ? names.threads[0] : 0};
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

static const char *function_of(const struct profile *p, uint32_t node)
{
	return node < p->stacks.node_count ? p->stacks.frames[p->stacks.nodes[node].frame].function
					   : "unknown";
}

/* Who puts items in and who takes them out */
struct ends {
	uint32_t maker, producer,
		consumer; /* nodes; the maker of items may be another than who queues them */
	struct actors producers, consumers;
	bool same_thread; /* one thread does both */
};

/* Whether a name, without its parameters, ends in this word: "pop" of Queue::pop(), queue_pop or pop. */
static bool ends_in_word(const char *function, const char *word)
{
	size_t length = strcspn(function, "(<"), n = strlen(word);
	return length >= n && strncmp(function + length - n, word, n) == 0 &&
	       (length == n || !isalnum((unsigned char)function[length - n - 1]));
}

/* The function that uses a queue, for a node in a function of the queue itself: its caller. */
static uint32_t user_of_queue(const struct profile *p, uint32_t node)
{
	static const char *const words[] = {
		"pop",  "pop_front", "pop_back", "recv", "receive",   "dequeue",
		"take", "get",       "next",     "push", "push_back", "send",
		"put",  "enqueue",   "emplace",  "post", "append"};
	for (uint32_t at = node; at != PROFILE_NONE; at = user_caller(p, at)) {
		bool of_queue = false;
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			of_queue |= ends_in_word(function_of(p, at), words[i]);
		if (!of_queue)
			return at;
	}
	return node;
}

static int find_ends(struct diagnosis *d, const struct queue_places *q, uint32_t group,
		     const struct queue_group *g, struct ends *e)
{
	const struct profile *p = d->p;
	struct profile_handover_threads own = queue_main_threads(p, g->main);
	const struct queue_place *in = NULL, *out = NULL; /* the carrier, where it knows more */
	*e = (struct ends){.maker = g->items.maker,
			   .producer = g->items.maker,
			   .consumer = release_name(p, queue_freed_at(p, g->main))};
	if (g->carrier) {
		uint32_t named = d->named[g->carrier->site], freed = queue_freed_at(p, g->carrier);
		own = queue_main_threads(p, g->carrier);
		if (!queue_has_producer(q, g->main, own.from) && named != PROFILE_NONE) {
			e->producer = user_of_queue(p, named);
			in = g->carrier;
		}
		if (!queue_has_consumer(q, g->main, own.to) && freed != PROFILE_NONE) {
			e->consumer = user_of_queue(p, release_name(p, freed));
			out = g->carrier;
		}
	}
	e->same_thread = own.from == own.to && own.from != PROFILE_NONE;
	int rc = thread_names(d, q, group, in, false, &e->producers);
	return rc < 0 ? rc : thread_names(d, q, group, out, true, &e->consumers);
}

/* The sentences about one queue, in the pool. */
static const char *summary_of(struct diagnosis *d, const struct queue_group *g,
			      const struct ends *e, double arrival, double service, double growth,
			      double share)
{
	const struct profile *p = d->p;
	struct phrase producer = phrase_place(p, e->producer), made = phrase_place(p, e->maker);
	const char *who, *queued = "";
	if (e->producer != e->maker)
		queued = diagnosis_text(d, " (made at %s)", made.text);
	if (e->same_thread)
		who = diagnosis_text(d, "%s makes an item every %s%s, but %s takes %s for each",
				     producer.text, words_time(arrival).text, queued ? queued : "",
				     phrase_place(p, e->consumer).text, words_time(service).text);
	else
		who = diagnosis_text(
			d, "%s an item every %s at %s%s, but %s %s for each at %s",
			phrase_actor(e->producers.first, e->producers.threads,
				     *queued ? "queues" : "makes", *queued ? "queue" : "make")
				.text,
			words_time(arrival).text, producer.text, queued ? queued : "",
			phrase_actor(e->consumers.first, e->consumers.threads, "takes", "take")
				.text,
			words_time(service).text, phrase_place(p, e->consumer).text);
	return who ? diagnosis_text(
			     d,
			     "unbounded queue: %s. Each item waits %s longer than the one "
			     "before; up to %s of %s were waiting, %s in %s: %s of the peak "
			     "heap.",
			     who, words_time(growth).text, words_count(g->items.backlog).text,
			     words_count(g->items.made).text, words_size(g->backlog_bytes).text,
			     words_many(g->backlog_blocks, "block", "blocks").text,
			     words_percent(share).text)
		   : NULL;
}

/* Adds what the program itself said about the wait. */
static void add_stage(struct diagnosis *d, struct draft *f, const struct queue_stage *s)
{
	if (!s->name || !f->finding.summary)
		return;
	double mean = (double)s->total_ns / (double)s->blocks;
	f->finding.summary = diagnosis_text(d, "%s Blocks that are followed wait %s at \"%.60s\".",
					    f->finding.summary, words_time(mean).text, s->name);
	draft_text(f, "stage", s->name);
	draft_count(f, "stage_blocks", s->blocks);
	draft_time(f, "stage_mean_ns", mean);
}

static bool is_endless(const struct queue_places *q, const struct queue_place *x)
{
	const struct profile *p = q->d->p;
	const struct profile_handover *h = &x->waits;
	double run = (double)p->run.duration_ns;
	uint64_t live = 0;
	for (uint32_t i = 0; i < x->sites; i++)
		live += p->sites[q->sites[x->first + i]].live_blocks;
	return (double)h->backlog_time_ns >= QUEUE_ENDLESS_LATE * run &&
	       (double)live >= QUEUE_ENDLESS_LEFT * (double)h->backlog_blocks &&
	       (double)(h->last_birth_ns - h->first_birth_ns) >= QUEUE_ENDLESS_SPAN * run;
}

static int report_group(struct diagnosis *d, const struct queue_places *q, uint32_t group)
{
	const struct profile *p = d->p;
	struct queue_group g;
	struct ends e;
	struct queue_stage stage;
	if (add_up(q, group, &g) < 0)
		return HEFT_ENOMEM;
	struct rule r = rule_begin("Blocks wait in a queue, first in, first out, and each waits "
				   "longer than the one before: the consumer does not keep up, and "
				   "the producer does not wait for it.");
	double share = share_of(g.backlog_bytes, p->totals.peak_bytes);
	if (!queue_is_certain(&r, q, g.main) ||
	    !rule_at_least(&r, "bytes that waited at once", UNIT_BYTES, (double)g.backlog_bytes,
			   QUEUE_LEAST_BYTES) ||
	    !rule_at_least(&r, "bytes that waited at once, of the peak heap", UNIT_SHARE, share,
			   QUEUE_LEAST_PEAK_SHARE))
		return 0;
	if (find_ends(d, q, group, &g, &e) < 0 || queue_longest_stage(q, group, &stage) < 0)
		return HEFT_ENOMEM;
	const struct profile_handover *h = &g.main->waits;
	double arrival = queue_interval(g.first_birth_ns, g.last_birth_ns, g.items.taken);
	double service = queue_interval(g.first_free_ns, g.last_free_ns, g.items.taken);
	/* Items leave in order, so the last free is of the last one made: the wait grew by this for each item. */
	double growth = service > arrival ? service - arrival : 0;
	uint32_t freed = queue_freed_at(p, g.main);

	struct draft f = draft_begin(FINDING_UNBOUNDED_QUEUE, g.main->site, g.backlog_bytes);
	draft_rule(&f, &r);
	f.finding.severity = is_endless(q, g.main) ? FINDING_HIGH : severity_of(d, g.backlog_bytes);
	f.finding.summary = summary_of(d, &g, &e, arrival, service, growth, share);
	/* A list of work that is known from the start looks like a quick producer. */
	bool burst = (double)(g.last_birth_ns - g.first_birth_ns) <=
		     QUEUE_BURST * (double)(g.last_free_ns - g.first_free_ns);
	f.finding.advice = diagnosis_text(
		d,
		"Bound the queue so that the producer waits (or drops) when it is full, or let "
		"the consumer take several items at a time. Copying less into each item does "
		"not help.%s",
		burst ? " If this is a list of work that is known from the start, make each item "
			"when its turn comes."
		      : "");
	draft_text(&f, "producer_function", function_of(p, e.producer));
	draft_texts(&f, "producer_threads", e.producers.texts, e.producers.count);
	draft_text(&f, "consumer_function", function_of(p, e.consumer));
	draft_texts(&f, "consumer_threads", e.consumers.texts, e.consumers.count);
	draft_count(&f, "backlog_blocks", g.backlog_blocks);
	draft_bytes(&f, "backlog_bytes", g.backlog_bytes);
	draft_count(&f, "backlog_items", g.items.backlog);
	draft_share(&f, "backlog_share", share);
	draft_time(&f, "arrival_ns", arrival);
	draft_time(&f, "service_ns", service);
	draft_time(&f, "wait_growth_ns", growth);
	draft_time(&f, "wait_mean_ns", h->wait_mean_ns);
	draft_count(&f, "items", g.items.made);
	draft_share(&f, "in_order", share_of(h->in_order, h->frees));
	draft_share(&f, "freed_by_others", share_of(g.main->frees_by_others, g.main->frees));
	draft_text(&f, "maker_function", function_of(p, e.maker));
	draft_text(&f, "freeing_function",
		   function_of(p, freed < p->stacks.node_count ? profile_first_user_node(p, freed)
							       : PROFILE_NONE));
	add_stage(d, &f, &stage);
	for (uint32_t i = group; i < q->count; i++)
		for (uint32_t k = 0; q->list[i].group == group && k < q->list[i].sites; k++)
			d->told[q->sites[q->list[i].first + k]] = TOLD_EXPLAINED;
	return draft_add(d, &f);
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct queue_place *x = a, *y = b;
	return y->certain - x->certain
		       ?: compare_numbers(y->waits.backlog_bytes, x->waits.backlog_bytes)
		       ?: compare_numbers(x->site, y->site);
}

/* Keeps the places that are a queue or may belong to one, the certain ones with the most bytes first. */
static void choose_places(struct queue_places *q)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < q->count; i++) {
		struct rule tried = rule_begin("");
		q->list[i].certain = queue_is_certain(&tried, q, &q->list[i]);
		tried.count = 0;
		if (q->list[i].certain ||
		    queue_is_in_order(&tried, &q->list[i], QUEUE_LEAST_COMPANION_FREES))
			q->list[kept++] = q->list[i];
	}
	if (kept)
		qsort(q->list, kept, sizeof *q->list, most_bytes_first);
	q->count = kept < QUEUE_MOST_PLACES ? kept : QUEUE_MOST_PLACES;
}

int diagnose_unbounded_queue(struct diagnosis *d)
{
	struct queue_places q;
	int rc = queue_places_init(&q, d);
	if (rc == 0)
		choose_places(&q);
	for (uint32_t i = 0; i < q.count && rc == 0; i++) {
		struct queue_place *x = &q.list[i];
		for (uint32_t k = 0; k < i && x->group == PROFILE_NONE; k++)
			if (q.list[k].group == k && same_queue(&q, &q.list[k], x))
				x->group = k;
		if (x->group == PROFILE_NONE && x->certain)
			x->group = i;
	}
	for (uint32_t i = 0; i < q.count && rc == 0; i++)
		if (q.list[i].group == i)
			rc = report_group(d, &q, i);
	queue_places_fini(&q);
	return rc;
}
