/* Makes processes the outermost frames of a profile whose sites are apart by process, for trees and
 * formats that have only stacks. The stacks of a process are one tree under its root.
 *
 * Invariant: parents stay before their children, since new nodes come after all others. */
#include "profile/profile.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

/* Nodes of the site's stack, innermost first */
struct path {
	VECTOR_MEMBERS(uint32_t);
};

static int follow(struct path *path, const struct profile *p, uint32_t node)
{
	path->count = 0;
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent)
		if (!vector_push(path, node))
			return HEFT_ENOMEM;
	return 0;
}

const struct profile_label *profile_find_label(const struct profile_label_set *set, const char *key)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (strcmp(set->labels[i].key, key) == 0)
			return &set->labels[i];
	return NULL;
}

static int root_of(struct profile *p, uint32_t labels, uint32_t *root)
{
	struct profile_frame frame = {
		.function = profile_find_label(&p->label_sets[labels], PROFILE_LABEL_PROCESS)->text,
		.module = PROFILE_NONE};
	uint32_t id;
	int rc = profile_add_frame(p, &frame, &id);
	if (rc == 0) {
		p->stacks.frames[id].user = true; /* so that nobody folds it away */
		rc = profile_add_node(p, PROFILE_NONE, id, 0, root);
	}
	return rc;
}

int profile_root_processes(struct profile *p)
{
	struct path path = {0};
	int rc = 0;
	for (uint32_t i = 0; p->chosen.by_process && i < p->site_count && rc == 0; i++) {
		struct profile_site *s = &p->sites[i];
		uint32_t at;
		if (s->labels >= p->label_set_count)
			continue;
		rc = follow(&path, p, s->node);
		if (rc == 0)
			rc = root_of(p, s->labels, &at);
		while (path.count && rc == 0) {
			struct profile_node n = p->stacks.nodes[path.items[--path.count]];
			rc = profile_add_node(p, at, n.frame, n.flags, &at);
		}
		if (rc == 0) /* a site without a stack has at least its process */
			s->node = at;
		s->labels = PROFILE_NONE;
	}
	p->chosen.by_process = false;
	vector_free(&path);
	return rc;
}
