/* temporary-churn: one function makes hundreds of thousands of blocks that are freed before their thread
 * allocates anything else.
 *
 * This costs time, not memory: a reused buffer would be as large as the largest of them. So the severity is
 * low, or medium if such blocks are most of what a very busy allocator does for a while. `bytes` is what they
 * ever held at once. Every program has some temporaries. Only functions that make a large share of all allocations,
 * at a rate that costs noticeable time, are named. */
#include "findings/neighbours.h"

#include "findings/site_names.h"
#include "hosted/vector.h"

#include <stdlib.h>

/* An allocation and its free cost about 20 ns: 100,000 of them are 2 ms. */
#define CHURN_LEAST_TEMPORARIES 100000
#define CHURN_LEAST_RATE 50000.0 /* a second: 0.1 % of a core */
#define CHURN_LEAST_SHARE 0.1    /* of all allocations */
/* The share of the function's own blocks that are temporary. With less, its blocks are not scratch buffers
 * but sometimes live shortly. */
#define CHURN_LEAST_OWN_SHARE 0.9
/* Medium severity needs half of all allocations, at least 2 % of a core, and a tenth of a second in all. */
#define CHURN_MEDIUM_SHARE 0.5
#define CHURN_MEDIUM_RATE 1e6
#define CHURN_MEDIUM_TEMPORARIES 5000000
/* A function that makes fewer does not matter beside its neighbours either. */
#define CHURN_LEAST_PLACE 10000

struct churn {
	uint32_t site; /* the busiest one */
	uint64_t temporary, allocations, own_peak_bytes;
	/* The temporary blocks, taken to be as large as the site's blocks are on average. */
	double bytes, blocks;
};

static bool is_scratch(struct rule *r, const struct churn *c)
{
	return rule_at_least(r, "temporary share of the function's own blocks", UNIT_SHARE,
			     share_of(c->temporary, c->allocations), CHURN_LEAST_OWN_SHARE);
}

static double rate_of(const struct profile *p, const struct churn *c)
{
	return p->run.duration_ns ? (double)c->temporary * 1e9 / (double)p->run.duration_ns : 0;
}

static bool is_reported(const struct profile *p, struct rule *r, const struct churn *c)
{
	return rule_at_least(r, "temporary blocks", UNIT_COUNT, (double)c->temporary,
			     CHURN_LEAST_TEMPORARIES) &&
	       rule_at_least(r, "temporary blocks a second", UNIT_PER_SECOND, rate_of(p, c),
			     CHURN_LEAST_RATE) &&
	       rule_at_least(r, "share of all allocations", UNIT_SHARE,
			     share_of(c->temporary, p->totals.allocations), CHURN_LEAST_SHARE) &&
	       is_scratch(r, c);
}

/* Reports the functions of this leader's group, if they make enough together. */
static int report_group(struct diagnosis *d, const struct spot *spots, uint32_t count,
			uint32_t leader, const struct churn *list)
{
	const struct profile *p = d->p;
	struct churn sum = {.site = spots[leader].site}, *c = &sum;
	for (uint32_t i = leader; i < count; i++) {
		const struct churn *one = &list[spots[i].index];
		if (spots[i].leader != leader)
			continue;
		sum.temporary += one->temporary;
		sum.allocations += one->allocations;
		sum.own_peak_bytes += one->own_peak_bytes;
		sum.bytes += one->bytes;
		sum.blocks += one->blocks;
	}
	double share = share_of(c->temporary, p->totals.allocations);
	double rate = rate_of(p, c);
	struct rule r = rule_begin("One function makes very many blocks that its thread frees "
				   "before it allocates anything else.");
	if (!is_reported(p, &r, c))
		return 0;
	uint64_t mean = c->blocks > 0 ? whole_number(c->bytes / c->blocks) : 0;
	struct draft f = draft_begin(FINDING_TEMPORARY_CHURN, c->site, c->own_peak_bytes);
	draft_rule(&f, &r);
	f.finding.severity = share >= CHURN_MEDIUM_SHARE && rate >= CHURN_MEDIUM_RATE &&
					     c->temporary >= CHURN_MEDIUM_TEMPORARIES
				     ? FINDING_MEDIUM
				     : FINDING_LOW;
	const char *places = spots_places(d, spots, count, leader);
	uint32_t name = d->named[c->site];
	f.no_memory |= !places;
	f.finding.summary = diagnosis_text(d,
					   "%s temporary blocks of %s on average are made at %s: "
					   "%s, %s of all allocations; each was freed "
					   "before the thread allocated anything else",
					   words_count(c->temporary).text,
					   words_exact_size(mean).text, places ? places : "",
					   phrase_rate(rate).text, words_percent(share).text);
	f.finding.advice = "Reuse one buffer from call to call, or use the stack: this costs time, "
			   "not memory.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "temporary", c->temporary);
	draft_share(&f, "share", share);
	draft_count(&f, "per_second", whole_number(rate));
	draft_bytes(&f, "mean_bytes", mean);
	return draft_add(d, &f);
}

/* Adds up the sites of the function that begins at `first` of d->by_function; returns where the next one begins. */
static uint32_t add_up_function(const struct diagnosis *d, uint32_t first, struct churn *c)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint32_t next = first;
	*c = (struct churn){.site = sites[first]};
	for (; next < d->by_function_count && named_alike(p, d->named, sites[first], sites[next]);
	     next++) {
		const struct profile_site *s = &p->sites[sites[next]];
		if (s->temporary > p->sites[c->site].temporary)
			c->site = sites[next];
		c->temporary += s->temporary;
		c->allocations += s->allocations;
		if (!s->temporary)
			continue;
		/* This is an upper bound: they need not have been live together. */
		c->own_peak_bytes += s->own_peak_bytes;
		if (!s->allocations) /* it only resizes blocks, whose size is not known here */
			continue;
		c->blocks += (double)s->temporary;
		c->bytes += (double)s->temporary * (double)s->allocated_bytes /
			    (double)s->allocations;
	}
	return next;
}

int diagnose_temporary_churn(struct diagnosis *d)
{
	struct churn *list = NULL;
	struct spot *spots = NULL;
	uint32_t count = 0, capacity = 0, spot_capacity = 0;
	int rc = 0;
	for (uint32_t i = 0; i < d->by_function_count && rc == 0;) {
		struct churn c;
		struct rule unused = rule_begin(NULL);
		i = add_up_function(d, i, &c);
		if (c.temporary < CHURN_LEAST_PLACE || !is_scratch(&unused, &c))
			continue;
		if (!array_reserve(list, count, capacity, 1) ||
		    !array_reserve(spots, count, spot_capacity, 1)) {
			rc = HEFT_ENOMEM;
			break;
		}
		struct rule alone = rule_begin(NULL);
		list[count] = c;
		/* The busiest place comes first, not the one with the largest blocks. */
		spots[count] = (struct spot){.site = c.site,
					     .rank = c.temporary,
					     .bytes = c.own_peak_bytes,
					     .alone = is_reported(d->p, &alone, &c),
					     .index = count};
		count++;
	}
	if (rc == 0)
		spots_group(d, spots, count);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (spots[i].leader == i)
			rc = report_group(d, spots, count, i, list);
	free(list);
	free(spots);
	return rc;
}
