/* Sites apart by process (trace_split.h).
 *
 * The recorder finds one site for the same code in whichever process, so what a process has of a
 * site stands in events only. A replay that numbers (site, group) instead of sites gives every
 * measure of every process at once, the part in the peak of all together included. Most code runs
 * in one program, so there are hardly more of these than sites.
 *
 * Invariant: ids are dense and never change. */
#include "profile/trace_split.h"

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
				.key = "program", .text = name_pool_add(p->names, process_program(q))};
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
		p->by_process = rc == 0;
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
	free(s->site);
	free(s->group);
	free(s->slots);
	free(s);
}

static uint32_t find_slot(const struct trace_split *s, uint32_t site, uint32_t group)
{
	uint64_t h = ((uint64_t)group << 32 | site) * 0x9e3779b97f4a7c15u;
	uint32_t at = (uint32_t)(h >> 32) & s->mask;
	for (; s->slots[at]; at = (at + 1) & s->mask)
		if (s->site[s->slots[at] - 1] == site && s->group[s->slots[at] - 1] == group)
			break;
	return at;
}

static int grow(struct trace_split *s)
{
	uint32_t capacity = s->capacity ? s->capacity * 2 : 1024;
	if (capacity > UINT32_MAX / 4)
		return HEFT_ENOMEM;
	uint32_t *site = reallocarray(s->site, capacity, sizeof *site);
	if (site)
		s->site = site;
	uint32_t *group = reallocarray(s->group, capacity, sizeof *group);
	if (group)
		s->group = group;
	uint32_t *slots = calloc((size_t)capacity * 2, sizeof *slots);
	if (!site || !group || !slots) {
		free(slots);
		return HEFT_ENOMEM;
	}
	free(s->slots);
	s->slots = slots;
	s->capacity = capacity;
	s->mask = capacity * 2 - 1;
	for (uint32_t i = 0; i < s->count; i++)
		slots[find_slot(s, s->site[i], s->group[i])] = i + 1;
	return 0;
}

int trace_split_find(struct trace_split *s, uint32_t site, uint32_t process, uint32_t *id)
{
	/* What no process is known of counts as the first's: such a file is damaged. */
	if (process >= s->process_count || s->processes[process] == PROFILE_NONE)
		process = s->any_process;
	uint32_t group = s->groups.of[s->processes[process]];
	if (s->count == s->capacity && grow(s) < 0)
		return HEFT_ENOMEM;
	uint32_t at = find_slot(s, site, group);
	if (!s->slots[at]) {
		s->site[s->count] = site;
		s->group[s->count] = group;
		s->slots[at] = ++s->count;
	}
	*id = s->slots[at] - 1;
	return 0;
}
