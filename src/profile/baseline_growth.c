/* Which sites have more than in the baseline (baseline.h).
 *
 * Stacks are the same if their names are (stack_key.h), or else if the names of their user frames are: a new libc or
 * interpreter changes the frames between. Several sites of one stack are compared together, and the largest stands for them.
 *
 * The baseline leaves out small sites. A site that it does not list may have had nearly as much as the smallest one that it
 * lists; what exceeds that is certainly new. */
#include "profile/baseline.h"

#include "hosted/compare.h"
#include "hosted/saturating.h"
#include "profile/stack_key.h"

#include <stdlib.h>
#include <string.h>

/* Groups: first one for each site of the baseline, then one for each path of the sites that it does not list. */
struct matching {
	const struct baseline *b;
	const struct profile *p;
	uint32_t *group_of_site; /* of p */
	uint32_t group_count;
};

struct sum {
	uint64_t value, largest;
	uint32_t site; /* that has the largest part */
};

static struct stack_key key_of(const struct profile *p, uint32_t site, const struct stack_key *keys)
{
	uint32_t node = p->sites[site].node;
	return node == PROFILE_NONE ? (struct stack_key){0, 0, 0} : keys[node];
}

static uint32_t path_count(const struct stack_key *keys, uint32_t nodes, uint32_t so_far)
{
	for (uint32_t i = 0; i < nodes; i++) {
		uint32_t most = (uint32_t)greater(keys[i].whole, keys[i].user);
		so_far = (uint32_t)greater(so_far, most + 1);
	}
	return so_far;
}

/* By whole paths, then by user frames what is left on both sides. `at` has the baseline's site of a path. */
static int match(struct matching *m, const struct stack_key *old, const struct stack_key *new,
		 uint32_t *at, uint32_t paths)
{
	const struct profile *was = m->b->sites, *p = m->p;
	bool *found = calloc((size_t)was->site_count + 1, sizeof *found);
	if (!found)
		return HEFT_ENOMEM;
	memset(at, 0xff, paths * sizeof *at);
	for (uint32_t i = 0; i < was->site_count; i++)
		at[key_of(was, i, old).whole] = i;
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t whole = key_of(p, i, new).whole;
		m->group_of_site[i] = at[whole] == PROFILE_NONE ? was->site_count + whole
								: at[whole];
		if (at[whole] != PROFILE_NONE)
			found[at[whole]] = true;
	}
	memset(at, 0xff, paths * sizeof *at);
	for (uint32_t i = 0; i < was->site_count; i++)
		if (!found[i] && key_of(was, i, old).user)
			at[key_of(was, i, old).user] = i;
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t user = key_of(p, i, new).user;
		if (m->group_of_site[i] >= was->site_count && at[user] != PROFILE_NONE)
			m->group_of_site[i] = at[user];
	}
	free(found);
	return 0;
}

static int matching_init(struct matching *m)
{
	const struct profile *was = m->b->sites, *p = m->p;
	struct stack_keys *k = stack_keys_new();
	struct stack_key *old = malloc(((size_t)was->stacks.node_count + 1) * sizeof *old);
	struct stack_key *new = malloc(((size_t)p->stacks.node_count + 1) * sizeof *new);
	uint32_t *at = NULL, paths = 1;
	int rc = HEFT_ENOMEM;
	m->group_of_site = malloc(((size_t)p->site_count + 1) * sizeof *m->group_of_site);
	if (k && old && new && m->group_of_site)
		rc = stack_keys_add(k, was, 0, old);
	if (rc == 0)
		rc = stack_keys_add(k, p, 1, new);
	if (rc == 0) {
		paths = path_count(old, was->stacks.node_count, paths);
		paths = path_count(new, p->stacks.node_count, paths);
		at = malloc(paths * sizeof *at);
		rc = at ? 0 : HEFT_ENOMEM;
	}
	if (rc == 0)
		rc = match(m, old, new, at, paths);
	m->group_count = was->site_count + paths;
	free(at);
	free(old);
	free(new);
	stack_keys_free(k);
	return rc;
}

static void add_sites(const struct matching *m, enum measure_id id, const bool *nodes,
		      struct sum *sums)
{
	const struct profile *p = m->p;
	for (uint32_t i = 0; i < p->site_count; i++) {
		if (nodes && (p->sites[i].node == PROFILE_NONE || !nodes[p->sites[i].node]))
			continue;
		struct sum *sum = &sums[m->group_of_site[i]];
		uint64_t value = measure_of_site(&p->sites[i], id);
		sum->value = saturating_add(sum->value, value);
		if (value > sum->largest) {
			sum->largest = value;
			sum->site = i;
		}
	}
}

/* `before`: what the baseline has of the rule's number. */
static int grown_of_rule(const struct matching *m, const struct budget_rule *r, uint64_t before,
			 struct budget_parts *grown)
{
	enum measure_id id = (enum measure_id)(r->measure - measures);
	bool *nodes = r->scope == BUDGET_ALL ? NULL : budget_match_nodes(r, m->p);
	struct sum *sums = calloc(m->group_count, sizeof *sums);
	uint64_t least = baseline_least(before);
	uint64_t most_unlisted = m->b->left_out && least ? least - 1 : 0;
	if (!sums || (!nodes && r->scope != BUDGET_ALL)) {
		free(nodes);
		free(sums);
		return HEFT_ENOMEM;
	}
	add_sites(m, id, nodes, sums);
	for (uint32_t g = 0; g < m->group_count; g++) {
		bool listed = g < m->b->sites->site_count;
		uint64_t was = listed ? measure_of_site(&m->b->sites->sites[g], id) : most_unlisted;
		if (sums[g].value > was)
			budget_add_part(grown, (struct budget_part){.index = sums[g].site,
								    .value = sums[g].value - was,
								    .unlisted = !listed});
	}
	free(nodes);
	free(sums);
	return 0;
}

int baseline_find_growth(const struct baseline *b, const struct profile *p,
			 const struct budget *rules, struct budget_result *results)
{
	struct matching m = {.b = b, .p = p};
	int rc = matching_init(&m);
	for (uint32_t i = 0; rc == 0 && i < rules->count; i++) {
		const struct budget_rule *r = &rules->rules[i];
		const struct budget_rule *was = budget_same_subject(b->measured, r);
		if (was && !results[i].holds && r->measure && measure_adds_up(r->measure) &&
		    r->scope != BUDGET_IN_THREAD)
			rc = grown_of_rule(&m, r, was->limit, &results[i].grown);
	}
	free(m.group_of_site);
	return rc;
}
