/* Sites apart by process (trace_split.h).
 *
 * The recorder has one site for the same code in all processes, so only the events tell what a process
 * has of a site. A replay that numbers (site, group) instead of sites gives every measure of every
 * process at once, also its part of the common peak. Most code runs in one program, so there are
 * hardly more of these numbers than sites.
 *
 * Invariant: ids are dense and never change. */
#include "profile/trace_split.h"

#include "hosted/vector.h"

#include <stdlib.h>

enum { ROOT_COLUMNS = 40 }; /* of a command in the name of a group */

static int name_groups(struct trace_split *s, struct profile *p)
{
	s->labels = malloc(((size_t)s->groups.count + 1) * sizeof *s->labels);
	int rc = s->labels ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < s->groups.count && rc == 0; i++) {
		const struct process_group *g = &s->groups.list[i];
		const struct profile_process *q = &p->processes[g->greatest];
		char *name = process_group_name(p, g, ROOT_COLUMNS);
		struct profile_label labels[] = {{.key = PROFILE_LABEL_PROCESS},
						 {.key = "number", .number = q->number}};
		labels[0].text = name ? name_pool_add(p->names, name) : NULL;
		free(name);
		if (g->count > 1)
			labels[1] = (struct profile_label){
				.key = "program",
				.text = name_pool_add(p->names, process_program(q))};
		bool named = labels[0].text && (g->count == 1 || labels[1].text);
		rc = named ? profile_add_label_set(p, labels, 2, &s->labels[i]) : HEFT_ENOMEM;
	}
	return rc;
}

int trace_split_new(struct trace_split **out, struct profile *p, const uint32_t *processes,
		    uint32_t process_count, enum process_merging merging)
{
	struct trace_split *s = calloc(1, sizeof *s);
	*out = NULL;
	int rc = s ? process_groups_init(&s->groups, p, merging) : HEFT_ENOMEM;
	if (rc == 0 && s->groups.count > 1) {
		s->processes = processes;
		s->process_count = process_count;
		s->any_process = p->processes[0].number;
		rc = name_groups(s, p);
		p->chosen.by_process = rc == 0;
		*out = s;
		return rc;
	}
	trace_split_free(s);
	return rc;
}

void trace_split_free(struct trace_split *s)
{
	if (!s)
		return;
	process_groups_fini(&s->groups);
	free(s->labels);
	free(s->sites);
	hash_index_fini(&s->index);
	free(s);
}

int trace_split_find(struct trace_split *s, uint32_t site, uint32_t process, uint32_t *id)
{
	/* In a damaged file, blocks of an unknown process count as the first one's. */
	if (process >= s->process_count || s->processes[process] == PROFILE_NONE)
		process = s->any_process;
	uint32_t group = s->groups.of[s->processes[process]];
	uint32_t hash = hash_pair(group, site), at = hash;
	while ((*id = hash_index_step(&s->index, hash, &at)) != HASH_NONE)
		if (s->sites[*id].site == site && s->sites[*id].group == group)
			return 0;
	if (!array_reserve(s->sites, s->count, s->capacity, 1) ||
	    hash_index_add_at(&s->index, hash, at, s->count) < 0)
		return HEFT_ENOMEM;
	s->sites[s->count] = (struct split_site){site, group};
	*id = s->count++;
	return 0;
}
