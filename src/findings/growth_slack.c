/* growth-slack: arrays that grow by realloc and end with bytes that nobody used.
 *
 * The finding claims only what was seen: when a block that grew ends, the recorder looks how many bytes at its
 * end were never written. Sizes alone are not enough, because a doubling array may end exactly full. The
 * blocks of a site need not have been live together, so the finding claims at most that share of what was
 * live at the peak.
 *
 * The recorder looks at every large block, but only at one in 64 of the small ones (capture/grown.c). So at a
 * site that has only small ones the share of those examined is taken for that of all: ten thousand rows
 * with room for one more field each hold more than the one array of rows. */
#include "findings/neighbours.h"

#include <math.h>
#include <stdlib.h>

/* One realloc is a change of mind; a growing array does it again and again. */
/* Two standard errors of a mean of this spread, of one array. */
#define SLACK_SPREAD95 1.2
#define SLACK_LEAST_STEPS 3
/* A doubling array ends between full and half empty, a quarter on average; below a tenth it is well used. */
#define SLACK_LEAST_SHARE 0.1
#define SLACK_LEAST_BYTES (16u << 10)
#define SLACK_LEAST_PEAK_SHARE 0.01
/* Blocks below this size are sampled (HEFT_GROWN_LARGE of capture/inside.h). So many must have been looked at
 * before they stand for the others: with 16, a share of a quarter is known to within a tenth or so. */
#define SLACK_SAMPLED_BELOW (16u << 10)
#define SLACK_LEAST_EXAMINED 16

/* What one site, or several together, have unused */
struct slack {
	uint64_t steps, moved_steps, copied_bytes;
	uint64_t arrays; /* that grew */
	uint64_t blocks, examined,
		unused; /* examined: blocks, their bytes, what was unused there */
	uint64_t held, bytes, largest_bytes; /* at the peak: of the arrays, unused there */
	double share;                        /* of what was examined; of several, the greatest */
	bool estimated;                      /* not every array was examined */
	bool certain;                        /* ... but at one of the sites they were */
};

static struct slack slack_of(const struct profile_site *s, const struct profile_growth *g)
{
	struct slack k = {
		.steps = g->steps,
		.moved_steps = g->moved_steps,
		.copied_bytes = g->copied_bytes,
		.arrays = g->blocks > g->measured_blocks ? g->blocks : g->measured_blocks,
		.blocks = g->measured_blocks,
		.examined = g->measured_bytes,
		.unused = g->unused_bytes,
		.largest_bytes = g->largest_bytes,
	};
	if (!k.blocks || !k.examined || k.unused > k.examined)
		return (struct slack){0};
	k.share = share_of(k.unused, k.examined);
	k.estimated = g->largest_bytes && g->largest_bytes < SLACK_SAMPLED_BELOW &&
		      k.blocks < k.arrays;
	k.certain = !k.estimated;
	k.held = k.estimated ? g->final_bytes : k.examined;
	if (k.held > s->peak_bytes)
		k.held = s->peak_bytes;
	k.bytes = whole_number(k.share * (double)k.held);
	return k;
}

/* The conditions that each site must meet. `k` may also be several that do: then the numbers are those that would
 * have to be smaller for all of them to be silent. */
static bool is_slack(struct rule *r, const struct slack *k)
{
	return rule_at_least(r, "growth steps", UNIT_COUNT, (double)k->steps, SLACK_LEAST_STEPS) &&
	       rule_at_least(r, "unused share of the examined arrays", UNIT_SHARE, k->share,
			     SLACK_LEAST_SHARE) &&
	       (k->certain || rule_at_least(r, "small arrays that were examined", UNIT_COUNT,
					    (double)k->blocks, SLACK_LEAST_EXAMINED));
}

static bool is_reported(const struct profile *p, struct rule *r, const struct slack *k)
{
	return is_slack(r, k) &&
	       rule_at_least(r, "unused bytes at the peak", UNIT_BYTES, (double)k->bytes,
			     SLACK_LEAST_BYTES) &&
	       rule_at_least(r, "share of the peak heap that is unused here", UNIT_SHARE,
			     share_of(k->bytes, p->totals.peak_bytes), SLACK_LEAST_PEAK_SHARE);
}

static void add_slack(struct slack *sum, const struct slack *k)
{
	if (k->share > sum->share)
		sum->share = k->share;
	sum->steps += k->steps;
	sum->moved_steps += k->moved_steps;
	sum->copied_bytes += k->copied_bytes;
	sum->arrays += k->arrays;
	sum->blocks += k->blocks;
	sum->examined += k->examined;
	sum->unused += k->unused;
	sum->held += k->held;
	sum->bytes += k->bytes;
	sum->estimated |= k->estimated;
	sum->certain |= k->certain;
	if (k->largest_bytes > sum->largest_bytes)
		sum->largest_bytes = k->largest_bytes;
}

/* Reports the group of this leader, if it is worth it. */
static int report_group(struct diagnosis *d, const struct spot *spots, uint32_t count,
			uint32_t leader, const struct slack *list)
{
	const struct profile *p = d->p;
	struct slack k = {0};
	for (uint32_t i = leader; i < count; i++)
		if (spots[i].leader == leader)
			add_slack(&k, &list[spots[i].index]);
	struct rule r = rule_begin("Arrays that grow step by step ended with space at their end "
				   "that was never written.");
	if (!is_reported(p, &r, &k))
		return 0;
	uint32_t site = spots[leader].site, name = d->named[site];
	struct draft f = draft_begin(FINDING_GROWTH_SLACK, site, k.bytes);
	draft_rule(&f, &r);
	/* What is unused differs from array to array: by 0.6 of the mean where arrays double. */
	double error = k.estimated && k.blocks ? SLACK_SPREAD95 / sqrt((double)k.blocks) : 0;
	/* Small arrays may hold what was there before them, so even this is rather too little. */
	uint64_t least = (uint64_t)((double)k.bytes * (error < 1 ? 1 - error : 0));
	f.finding.severity = severity_of(d, least);
	const char *at_least = error > 0
				       ? diagnosis_text(d, ", at least %s", words_size(least).text)
				       : "";
	const char *places = spots_places(d, spots, count, leader);
	struct words steps = words_many(k.steps, "growth step", "growth steps");
	struct words copied = words_size(k.copied_bytes);
	if (!k.estimated && k.bytes == k.unused)
		f.finding.summary = diagnosis_text(
			d, "%s grown at %s ended with %s of %s unused (%s) after %s that copied %s",
			k.blocks == 1 ? "the array" : words_many(k.blocks, "array", "arrays").text,
			places ? places : "", words_exact_size(k.unused).text,
			words_exact_size(k.examined).text,
			words_percent(share_of(k.unused, k.examined)).text, steps.text,
			copied.text);
	else
		f.finding.summary = diagnosis_text(
			d,
			"%s grown at %s hold %s at the peak; about %s of that (%s%s) is unused, "
			"measured on %s of them; %s copied %s",
			words_many(k.arrays, "array", "arrays").text, places ? places : "",
			words_size(k.held).text, words_size(k.bytes).text,
			words_percent(share_of(k.bytes, k.held)).text, at_least ? at_least : "",
			words_count(k.blocks).text, steps.text, copied.text);
	f.no_memory |= !places || !at_least;
	f.finding.advice =
		"Reserve the final size if it is known before (this also saves the "
		"copies), or give the rest back with one realloc (shrink_to_fit) when the "
		"array is complete.";
	draft_text(&f, "function",
		   name == PROFILE_NONE ? "unknown"
					: p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "steps", k.steps);
	draft_count(&f, "moved_steps", k.moved_steps);
	draft_bytes(&f, "copied_bytes", k.copied_bytes);
	draft_bytes(&f, "slack_bytes", k.bytes);
	draft_count(&f, "arrays", k.arrays);
	draft_count(&f, "blocks", k.blocks);
	draft_bytes(&f, "measured_bytes", k.examined);
	draft_bytes(&f, "unused_bytes", k.unused);
	draft_bytes(&f, "largest_bytes", k.largest_bytes);
	spots_evidence(d, &f, spots, count, leader, k.bytes);
	return draft_add(d, &f);
}

int diagnose_growth_slack(struct diagnosis *d)
{
	const struct profile *p = d->p;
	size_t most = (size_t)p->behaviour.growth_count + 1;
	struct slack *list = malloc(most * sizeof *list);
	struct spot *spots = malloc(most * sizeof *spots);
	uint32_t count = 0;
	int rc = list && spots ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count && rc == 0 && count + 1 < most; i++) {
		if (p->sites[i].growth >= p->behaviour.growth_count ||
		    d->named[i] >= p->stacks.node_count)
			continue;
		struct slack k = slack_of(&p->sites[i], &p->behaviour.growths[p->sites[i].growth]);
		struct rule own = rule_begin(NULL);
		if (!k.arrays || !is_slack(&own, &k))
			continue;
		struct rule alone = rule_begin(NULL);
		list[count] = k;
		spots[count] = (struct spot){.site = i,
					     .rank = k.bytes,
					     .bytes = k.bytes,
					     .alone = is_reported(p, &alone, &k),
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
