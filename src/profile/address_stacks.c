/* Stacks of addresses, symbolised as a recording's are: an address is a place in a
 * module whatever file told it, so the nodes are handed on in the form that
 * trace_stacks.c takes. Addresses here are inside the call already, hence "exact". */
#include "profile/address_stacks.h"

#include "profile/trace_stacks.h"

#include <stdlib.h>
#include <string.h>

int address_stacks_load(struct profile *p, const struct address_node *nodes, uint32_t count,
			const struct profile_selection *sel, uint32_t *out, uint32_t *calls)
{
	struct trace_contents c = {.node_count = count, .module_count = p->stacks.module_count};
	struct trace_node *copies = malloc(((size_t)count + 1) * sizeof *copies);
	uint32_t *modules = malloc(((size_t)p->stacks.module_count + 1) * sizeof *modules);
	bool *wanted = malloc((size_t)count + 1);
	int rc = HEFT_ENOMEM;
	if (!copies || !modules || !wanted)
		goto out;
	for (uint32_t i = 0; i < count; i++)
		copies[i] = (struct trace_node){.parent = nodes[i].parent,
						.module = nodes[i].module,
						.offset = nodes[i].address,
						.flags = TRACE_FRAME_EXACT_PC};
	for (uint32_t i = 0; i < p->stacks.module_count; i++)
		modules[i] = i;
	memset(wanted, true, count);
	c.nodes = copies;
	rc = trace_stacks_load(p, &c, modules, wanted, sel, out, calls);
out:
	free(copies);
	free(modules);
	free(wanted);
	return rc;
}

int address_frames_load(struct profile *p, const struct address_node *nodes, uint32_t count,
			const struct profile_selection *sel, struct address_frames *frames,
			uint32_t **ids)
{
	struct address_node *roots = calloc((size_t)count + 1, sizeof *roots);
	uint32_t *found = malloc(((size_t)count + 1) * sizeof *found);
	uint32_t *calls = malloc(((size_t)count + 1) * sizeof *calls);
	bool keep_calls = p->chosen.keep_calls;
	uint32_t first = p->stacks.node_count, total = 0;
	int rc = HEFT_ENOMEM;
	*ids = NULL;
	if (!roots || !found || !calls)
		goto out;
	p->chosen.keep_calls = false; /* these are single places, no stacks */
	for (uint32_t i = 0; i < count; i++) {
		roots[i] = nodes[i];
		roots[i].parent = PROFILE_NONE;
	}
	rc = address_stacks_load(p, roots, count, sel, found, calls);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		for (uint32_t n = found[i]; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
			total++;
	if (rc == 0 && !(*ids = malloc(((size_t)total + 1) * sizeof **ids)))
		rc = HEFT_ENOMEM;
	total = 0;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		frames[i].first = total;
		for (uint32_t n = found[i]; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
			(*ids)[total++] = p->stacks.nodes[n].frame;
		frames[i].count = total - frames[i].first;
	}
	profile_forget_nodes(p, first);
out:
	p->chosen.keep_calls = keep_calls;
	free(roots);
	free(found);
	free(calls);
	return rc;
}
