/* Choosing from a finished profile: filters over frames, and moments.
 *
 * A filter tests each distinct frame once and passes the answer down the tree of
 * stacks, so a regular expression runs some thousand times, not once for every frame
 * of every stack. Filters remove sites, and totals become the sums over the sites that
 * are left. The peak stays the instant of the whole recording: the sites that are left
 * show their part of it. */
#include "profile/profile.h"

#include "hosted/compare.h"
#include "profile/estimate.h"
#include "profile/measure.h"
#include "profile/process_images.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

bool profile_is_of_several(const struct profile *p)
{
	for (uint32_t i = 1; i < p->process_count; i++)
		if (p->processes[i].pid != p->processes[0].pid)
			return true;
	return profile_count_processes(p) > 1; /* a number that was given out twice */
}

static double mean_bytes(uint64_t bytes, uint64_t blocks)
{
	return blocks ? (double)bytes / (double)blocks : 0;
}

void profile_compute_errors(struct profile *p)
{
	const struct profile_totals *t = &p->totals;
	for (uint32_t i = 0; i < p->site_count; i++)
		p->estimates.errors[i] = estimate_errors(
			&p->estimates.spreads[i], p->run.rate_bytes,
			mean_bytes(p->sites[i].allocated_bytes, p->sites[i].allocations));
	p->estimates.total_errors = estimate_errors(&p->estimates.total_spread, p->run.rate_bytes,
						    mean_bytes(t->allocated_bytes, t->allocations));
}

static int compile(regex_t *re, const char *text, const char *option, struct heft_error *err)
{
	char why[256];
	int rc = regcomp(re, text, REG_EXTENDED | REG_NOSUB);
	if (rc == 0)
		return 0;
	regerror(rc, re, why, sizeof why);
	return heft_fail(err, HEFT_EUSAGE, "--%s: '%s' is not a regular expression: %s", option,
			 text, why);
}

static bool frame_matches(const struct profile *p, const struct profile_frame *f, const void *re)
{
	if (regexec(re, f->function, 0, NULL, 0) == 0)
		return true;
	if (f->file && regexec(re, f->file, 0, NULL, 0) == 0)
		return true;
	return f->module < p->stacks.module_count &&
	       regexec(re, p->stacks.modules[f->module].path, 0, NULL, 0) == 0;
}

bool *profile_match_nodes(const struct profile *p, profile_frame_test *matches, const void *ctx)
{
	bool *frames = calloc((size_t)p->stacks.frame_count + 1, sizeof *frames);
	bool *nodes = frames ? calloc((size_t)p->stacks.node_count + 1, sizeof *nodes) : NULL;
	for (uint32_t i = 0; nodes && i < p->stacks.frame_count; i++)
		frames[i] = matches(p, &p->stacks.frames[i], ctx);
	for (uint32_t i = 0; nodes && i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		nodes[i] = frames[n->frame] || (n->parent != PROFILE_NONE && nodes[n->parent]);
	}
	free(frames);
	return nodes;
}

/* *nodes becomes those that match the expression; NULL without one. */
static int match_expression(const struct profile *p, const char *text, const char *option,
			    bool **nodes, struct heft_error *err)
{
	regex_t re;
	*nodes = NULL;
	if (!text)
		return 0;
	int rc = compile(&re, text, option, err);
	if (rc < 0)
		return rc;
	*nodes = profile_match_nodes(p, frame_matches, &re);
	regfree(&re);
	return *nodes ? 0 : HEFT_ENOMEM;
}

static void recount_errors(struct profile *p)
{
	p->estimates.total_spread = (struct profile_spread){0};
	for (uint32_t i = 0; i < p->site_count; i++)
		estimate_add_spread(&p->estimates.total_spread, &p->estimates.spreads[i]);
	profile_compute_errors(p);
}

static int by_stack(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;
	return compare_numbers(x->node, y->node) ?: compare_numbers(x->via, y->via) ?: compare_numbers(x->id, y->id);
}

/* Formats with labels have neither histograms nor behaviour: only sums move. */
void profile_drop_labels(struct profile *p)
{
	uint32_t kept = 0;
	if (!p->label_set_count || p->behaviour.lifetimes || !p->site_count)
		return;
	qsort(p->sites, p->site_count, sizeof *p->sites, by_stack);
	for (uint32_t i = 0; i < p->site_count; i++) {
		struct profile_site *last = kept ? &p->sites[kept - 1] : NULL;
		if (last && last->node == p->sites[i].node && last->via == p->sites[i].via)
			measure_add_site(last, &p->sites[i]);
		else
			p->sites[kept++] = p->sites[i];
		p->sites[kept - 1].labels = PROFILE_NONE;
	}
	p->site_count = kept;
	profile_finish_sites(p);
}

/* Keeps the sites that have a number in `to`, which are `kept`, and what belongs to them. */
static void keep_sites(struct profile *p, const uint32_t *to, uint32_t kept)
{
	for (uint32_t i = 0; i < p->site_count; i++) {
		if (to[i] == PROFILE_NONE)
			continue;
		if (p->behaviour.lifetimes)
			memmove(p->behaviour.lifetimes[to[i]], p->behaviour.lifetimes[i],
				sizeof *p->behaviour.lifetimes);
		if (p->estimates.spreads)
			p->estimates.spreads[to[i]] = p->estimates.spreads[i];
		if (p->estimates.ages)
			p->estimates.ages[to[i]] = p->estimates.ages[i];
		p->sites[to[i]] = p->sites[i];
	}
	p->site_count = kept;
	profile_sites_moved(p, to);
	measure_sum_sites(&p->totals, p->sites, p->site_count);
	if (p->estimates.spreads)
		recount_errors(p);
}

int profile_filter(struct profile *p, const char *focus, const char *ignore, struct heft_error *err)
{
	bool *wanted = NULL, *unwanted = NULL;
	uint32_t *to = malloc(((size_t)p->site_count + 1) * sizeof *to), kept = 0;
	int rc = to ? match_expression(p, focus, "focus", &wanted, err) : HEFT_ENOMEM;
	if (rc == 0)
		rc = match_expression(p, ignore, "ignore", &unwanted, err);
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		uint32_t node = p->sites[i].node;
		bool keep = node == PROFILE_NONE
				    ? !wanted
				    : (!wanted || wanted[node]) && !(unwanted && unwanted[node]);
		to[i] = keep ? kept++ : PROFILE_NONE;
	}
	if (rc == 0)
		keep_sites(p, to, kept);
	free(wanted);
	free(unwanted);
	free(to);
	if (rc == HEFT_ENOMEM)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory to filter %u sites",
				 p->site_count);
	return rc;
}

static void select_errors(struct profile_errors *e, struct profile_spread *s, bool peak)
{
	e->live_bytes = peak ? e->peak_bytes : e->left_bytes;
	e->live_blocks = peak ? e->peak_blocks : e->left_blocks;
	s->live_bytes = peak ? s->peak_bytes : s->left_bytes;
	s->live_blocks = peak ? s->peak_blocks : s->left_blocks;
	s->live_samples = peak ? s->peak_samples : s->left_samples;
}

int profile_select_moment(struct profile *p, enum profile_moment moment, struct heft_error *err)
{
	bool peak = moment == PROFILE_AT_PEAK;
	if (!(p->run.has & (peak ? PROFILE_HAS_PEAK : PROFILE_HAS_LIVE)))
		return heft_fail(err, HEFT_EREFUSED,
				 "a %s file does not record what is live at the %s",
				 p->run.format ? p->run.format : "foreign", peak ? "peak" : "end");
	if (moment == PROFILE_AT_END)
		return 0;
#define SELECT(x)                                                                                  \
	((x)->live_bytes = peak ? (x)->peak_bytes : (x)->left_bytes,                               \
	 (x)->live_blocks = peak ? (x)->peak_blocks : (x)->left_blocks,                            \
	 (x)->live_slack_bytes = peak ? (x)->peak_slack_bytes : (x)->live_slack_bytes)
	for (uint32_t i = 0; i < p->site_count; i++)
		SELECT(&p->sites[i]);
	SELECT(&p->totals);
#undef SELECT
	p->run.has |= PROFILE_HAS_LIVE;
	for (uint32_t i = 0; i < p->site_count && p->estimates.errors; i++)
		select_errors(&p->estimates.errors[i], &p->estimates.spreads[i], peak);
	select_errors(&p->estimates.total_errors, &p->estimates.total_spread, peak);
	if (peak || profile_is_of_several(p)) {
		free(p->estimates.ages); /* they tell of what is live at the end */
		p->estimates.ages = NULL;
	}
	return 0;
}

void profile_take_live(struct profile *p, const struct profile *instant)
{
#define TAKE(to, from)                                                                             \
	((to)->live_bytes = (from)->live_bytes, (to)->live_blocks = (from)->live_blocks,           \
	 (to)->live_slack_bytes = (from)->live_slack_bytes)
	const struct profile_site nothing = {0};
	for (uint32_t i = 0; i < p->site_count; i++)
		TAKE(&p->sites[i], &nothing);
	for (uint32_t i = 0; i < instant->site_count; i++) {
		const struct profile_site *s = &instant->sites[i];
		uint32_t at = s->id - 1; /* ids count from 1; after a filter some are missing */
		if (at >= p->site_count || p->sites[at].id != s->id)
			for (at = 0; at < p->site_count && p->sites[at].id != s->id;)
				at++;
		if (at < p->site_count)
			TAKE(&p->sites[at], s);
	}
	TAKE(&p->totals, &instant->totals);
#undef TAKE
	free(p->estimates.ages); /* they tell of what is live at the end */
	p->estimates.ages = NULL;
}

bool profile_is_snapshot(const struct profile *p)
{
	if (strcmp(p->run.format, "heft") == 0)
		return p->run.rate_bytes && p->run.complete && p->run.end == PROFILE_END_RUNNING;
	return !(p->run.has & PROFILE_HAS_TIMES) && !(p->run.has & PROFILE_HAS_PEAK);
}
