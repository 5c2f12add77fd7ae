/* What a budget's rules measure in a profile (budget.h), and who the number is made of.
 *
 * A pattern is tried on each distinct frame once, as filters are (profile_select.c). A C++ name is
 * tried with and without its parameters, so that `in Parser::*` and `in Parser::row` both mean what
 * they say. Sums saturate: a hostile recording makes a number too large, never a small one. */
#include "profile/budget.h"

#include "hosted/saturating.h"
#include "profile/estimate.h"
#include "profile/process_images.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static enum measure_id id_of(const struct budget_rule *r)
{
	return (enum measure_id)(r->measure - measures);
}

static bool function_matches(const char *function, const char *pattern)
{
	char name[1024];
	if (fnmatch(pattern, function, 0) == 0)
		return true;
	const char *at = strrchr(function, ')');
	unsigned depth = 0;
	for (; at && at > function; at--) { /* back to where the parameters begin */
		depth += *at == ')';
		depth -= *at == '(';
		if (!depth)
			break;
	}
	size_t length = at ? (size_t)(at - function) : 0;
	if (!length || length >= sizeof name)
		return false;
	memcpy(name, function, length);
	name[length] = 0;
	return fnmatch(pattern, name, 0) == 0;
}

/* A path matches whole, or by its last part where the pattern has no folders. */
static bool path_matches(const char *path, const char *pattern)
{
	const char *slash = strrchr(path, '/');
	if (fnmatch(pattern, path, 0) == 0)
		return true;
	return slash && !strchr(pattern, '/') && fnmatch(pattern, slash + 1, 0) == 0;
}

static bool frame_matches(const struct profile *p, const struct profile_frame *f, const void *rule)
{
	const struct budget_rule *r = rule;
	switch (r->scope) {
	case BUDGET_IN_FUNCTION: return function_matches(f->function, r->pattern);
	case BUDGET_IN_FILE: return f->file && path_matches(f->file, r->pattern);
	case BUDGET_IN_MODULE:
		return f->module < p->stacks.module_count &&
		       path_matches(p->stacks.modules[f->module].path, r->pattern);
	case BUDGET_ALL:
	case BUDGET_IN_THREAD: break;
	}
	return true;
}

bool *budget_match_nodes(const struct budget_rule *r, const struct profile *p)
{
	return profile_match_nodes(p, frame_matches, r);
}

void budget_add_part(struct budget_parts *parts, struct budget_part part)
{
	if (!part.value)
		return;
	uint32_t at = parts->count;
	while (at > 0 && parts->list[at - 1].value < part.value)
		at--;
	if (at == BUDGET_PARTS)
		return;
	if (parts->count < BUDGET_PARTS)
		parts->count++;
	memmove(&parts->list[at + 1], &parts->list[at],
		(parts->count - 1 - at) * sizeof *parts->list);
	parts->list[at] = part;
}

static void add_part(struct budget_result *result, uint32_t index, uint64_t value)
{
	budget_add_part(&result->parts, (struct budget_part){.index = index, .value = value});
}

static int measure_sites(const struct profile *p, const struct budget_rule *r,
			 struct budget_result *result)
{
	bool *nodes = r->scope == BUDGET_ALL ? NULL : budget_match_nodes(r, p);
	uint32_t matched = 0;
	double variance = 0;
	if (!nodes && r->scope != BUDGET_ALL)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		if (nodes && (s->node == PROFILE_NONE || !nodes[s->node]))
			continue;
		uint64_t value = measure_of_site(s, id_of(r));
		matched++;
		result->measured = saturating_add(result->measured, value);
		if (p->estimates.spreads)
			variance += measure_variance(&p->estimates.spreads[i], id_of(r));
		add_part(result, i, value);
	}
	result->error95 = estimate_rounded(estimate_error95(variance));
	result->unmatched = nodes && !matched;
	free(nodes);
	return 0;
}

static void measure_threads(const struct profile *p, const struct budget_rule *r,
			    struct budget_result *result)
{
	uint32_t matched = 0;
	for (uint32_t i = 0; i < p->thread_count; i++) {
		const struct profile_thread *t = &p->threads[i];
		if (fnmatch(r->pattern, t->name ? t->name : "", 0) != 0)
			continue;
		uint64_t value = measure_of_thread(t, id_of(r));
		matched++;
		result->measured = saturating_add(result->measured, value);
		add_part(result, i, value);
	}
	result->unmatched = !matched;
}

static void measure_findings(const struct budget_rule *r, const struct budget_finding *findings,
			     size_t count, struct budget_result *result)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(findings[i].kind, r->finding->name) != 0)
			continue;
		result->measured++;
		add_part(result, (uint32_t)i, 1);
	}
}

/* An estimate breaks a rule only beyond its error: a check that fails one run in two at its limit
 * would be switched off. A limit of 0 is another matter: a sampled block is there for certain. */
static bool holds(const struct budget_rule *r, const struct budget_result *result)
{
	uint64_t error = r->limit ? result->error95 : 0;
	uint64_t least = result->measured > error ? result->measured - error : 0;
	uint64_t most = saturating_add(result->measured, error);
	switch (r->op) {
	case BUDGET_AT_MOST: return least <= r->limit;
	case BUDGET_BELOW: return least < r->limit;
	case BUDGET_AT_LEAST: return most >= r->limit;
	case BUDGET_ABOVE: return most > r->limit;
	case BUDGET_EQUAL: break;
	}
	return least <= r->limit && r->limit <= most;
}

uint32_t budget_rule_needs(const struct budget_rule *r)
{
	return r->measure ? r->measure->needs : r->finding->needs;
}

int budget_refuse(const struct budget *b, const struct profile *p, struct heft_error *err)
{
	bool several = profile_is_of_several(p);
	for (uint32_t i = 0; several && i < b->count; i++) {
		const struct budget_rule *r = &b->rules[i];
		if (!r->measure ||
		    (id_of(r) != MEASURE_LIVE_BYTES && id_of(r) != MEASURE_LIVE_BLOCKS &&
		     id_of(r) != MEASURE_LIVE_SLACK_BYTES))
			continue;
		return heft_fail(err, HEFT_EREFUSED,
				 "%s counts what is live when the recording ends, but most of the "
				 "%u processes had ended by then\nuse %s: it counts what each "
				 "process had not freed when it ended",
				 r->measure->name, profile_count_processes(p),
				 id_of(r) == MEASURE_LIVE_BLOCKS ? "left_blocks" : "left_bytes");
	}
	return 0;
}

/* Whether a rule that holds still holds if most of the memory was not recorded (profile.unseen). The
 * kernel tells what is resident, and memory that was not recorded can only be more. */
static bool sees_all(const struct budget_rule *r)
{
	if (r->op == BUDGET_AT_LEAST || r->op == BUDGET_ABOVE)
		return true;
	return r->measure && r->measure->kind == MEASURE_OF_RUN && id_of(r) != MEASURE_PEAK_TIME &&
	       id_of(r) != MEASURE_UNKNOWN_FREES && id_of(r) != MEASURE_OLDER_FREES;
}

int budget_measure(const struct budget *b, const struct profile *p,
		   const struct budget_finding *findings, size_t finding_count,
		   struct budget_result *results)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct budget_rule *r = &b->rules[i];
		struct budget_result *result = &results[i];
		memset(result, 0, sizeof *result);
		/* Samples add up by site: they do not tell what a thread allocated. */
		result->unknown = r->measure
					  ? !measure_known(p, id_of(r)) ||
						    (r->scope == BUDGET_IN_THREAD &&
						     p->estimates.errors)
					  : (p->run.has & r->finding->needs) != r->finding->needs;
		if (result->unknown)
			continue;
		if (!r->measure)
			measure_findings(r, findings, finding_count, result);
		else if (r->scope == BUDGET_IN_THREAD)
			measure_threads(p, r, result);
		else if (r->measure->site && measure_sites(p, r, result) < 0)
			return HEFT_ENOMEM;
		/* A number of the run itself is also the one that a summary shows. */
		if (r->measure && r->scope == BUDGET_ALL) {
			if (r->measure->totals)
				result->measured = measure_of_totals(&p->totals, id_of(r));
			else if (id_of(r) == MEASURE_DURATION)
				result->measured = p->run.duration_ns;
			result->error95 = measure_error95(p, PROFILE_NONE, id_of(r));
		}
		/* No process lives without memory: this one ended before it was measured. */
		if (r->measure && id_of(r) == MEASURE_PEAK_RSS_BYTES)
			result->unmatched = !result->measured;
		result->holds = holds(r, result);
		result->unseen = result->holds && p->unseen && !sees_all(r);
		result->unknown = r->relative.lacking;
		if (result->unseen || result->unknown)
			result->holds = false;
	}
	return 0;
}
