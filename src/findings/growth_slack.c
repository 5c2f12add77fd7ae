/* growth-slack: arrays that grow by realloc and end with bytes that nobody used.
 *
 * The finding claims only what was seen: when a large block ends, the recorder looks how many bytes at its
 * end were never written. Sizes alone are not enough, because a doubling array may end exactly full. The
 * blocks of a site need not have been live together, so the finding claims at most that share of what was
 * live at the peak. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

/* One realloc is a change of mind; a growing array does it again and again. */
#define SLACK_LEAST_STEPS 3
/* A doubling array ends between full and half empty, a quarter on average; below an eighth it is
 * well used. */
#define SLACK_LEAST_SHARE 0.125
#define SLACK_LEAST_BYTES (16u << 10)
#define SLACK_LEAST_PEAK_SHARE 0.01

static int look_at(struct diagnosis *d, uint32_t site, const struct profile_growth *g)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	if (!g->measured_blocks || !g->measured_bytes || g->unused_bytes > g->measured_bytes)
		return 0;
	double share = share_of(g->unused_bytes, g->measured_bytes);
	uint64_t slack = g->unused_bytes;
	if (g->measured_bytes > s->peak_bytes)
		slack = whole_number(share * (double)s->peak_bytes);
	struct rule r = rule_begin("Arrays that grow step by step ended with space at their end "
				   "that was never written.");
	if (!rule_at_least(&r, "growth steps", UNIT_COUNT, (double)g->steps, SLACK_LEAST_STEPS) ||
	    !rule_at_least(&r, "unused share of the examined arrays", UNIT_SHARE, share,
			   SLACK_LEAST_SHARE) ||
	    !rule_at_least(&r, "unused bytes at the peak", UNIT_BYTES, (double)slack,
			   SLACK_LEAST_BYTES) ||
	    !rule_at_least(&r, "share of the peak heap that is unused here", UNIT_SHARE,
			   share_of(slack, p->totals.peak_bytes), SLACK_LEAST_PEAK_SHARE))
		return 0;
	uint32_t name = d->named[site];
	bool once = g->measured_blocks == 1;
	struct draft f = draft_begin(FINDING_GROWTH_SLACK, site, slack);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, slack);
	f.finding.summary = diagnosis_text(
		d, "%s grown at %s ended with %s of %s unused (%s) after %s that copied %s",
		once ? "the array" : words_many(g->measured_blocks, "array", "arrays").text,
		phrase_place(p, name).text, words_exact_size(g->unused_bytes).text,
		words_exact_size(g->measured_bytes).text, words_percent(share).text,
		words_many(g->steps, "growth step", "growth steps").text,
		words_size(g->copied_bytes).text);
	f.finding.advice = diagnosis_text(
		d, "Reserve the final size if it is known before (this also saves the copies), or "
		   "give "
		   "the rest back with one realloc (shrink_to_fit) when the array is complete.");
	draft_text(&f, "function",
		   name == PROFILE_NONE ? "unknown"
					: p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "steps", g->steps);
	draft_count(&f, "moved_steps", g->moved_steps);
	draft_bytes(&f, "copied_bytes", g->copied_bytes);
	draft_bytes(&f, "slack_bytes", slack);
	draft_count(&f, "blocks", g->measured_blocks);
	draft_bytes(&f, "measured_bytes", g->measured_bytes);
	draft_bytes(&f, "unused_bytes", g->unused_bytes);
	draft_bytes(&f, "largest_bytes", g->largest_bytes);
	return draft_add(d, &f);
}

int diagnose_growth_slack(struct diagnosis *d)
{
	const struct profile *p = d->p;
	int rc = 0;
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		if (p->sites[i].growth < p->behaviour.growth_count)
			rc = look_at(d, i, &p->behaviour.growths[p->sites[i].growth]);
	return rc;
}
