/* Keeps what each site had live at some time.
 *
 * The numbers of sites change from one profile of a growing recording to the next, so a sample finds a
 * site by a hash of the names in its stack. A sample has 24 bytes a site: the view can keep several, where
 * whole profiles would take too much memory.
 *
 * Invariant: keys are never 0; 0 means no row. */
#include "top/top.h"

#include "hosted/compare.h"
#include "top/top_key.h"

#include <stdlib.h>
#include <string.h>

uint64_t *top_site_keys(const struct profile *p)
{
	uint64_t *nodes = malloc(((size_t)p->stacks.node_count + 1) * sizeof *nodes);
	uint64_t *keys = malloc(((size_t)p->site_count + 1) * sizeof *keys);
	if (!nodes || !keys) {
		free(nodes);
		free(keys);
		return NULL;
	}
	for (uint32_t i = 0; i < p->stacks.node_count; i++) { /* callers have smaller indices */
		const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[i].frame];
		uint32_t parent = p->stacks.nodes[i].parent;
		uint64_t key = top_key_number(parent < i ? nodes[parent] : TOP_KEY_BEGIN, f->line);
		key = top_key_text(key, f->function);
		key = top_key_text(key, f->file);
		nodes[i] = top_key_text(key, f->module < p->stacks.module_count
						     ? p->stacks.modules[f->module].path
						     : NULL);
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		uint64_t key = s->node < p->stacks.node_count ? nodes[s->node] : TOP_KEY_BEGIN;
		key = top_key_number(key, s->via);
		if (s->labels < p->label_set_count)
			key = top_key_text(key, p->label_sets[s->labels].identity);
		keys[i] = key ? key : 1;
	}
	free(nodes);
	return keys;
}

static int by_key(const void *a, const void *b)
{
	const struct top_site_sample *x = a, *y = b;
	return compare_numbers(x->key, y->key);
}

struct top_sample *top_sample_new(const struct profile *p)
{
	uint64_t *keys = top_site_keys(p);
	struct top_sample *s = keys ? malloc(sizeof *s + (size_t)p->site_count * sizeof *s->sites)
				    : NULL;
	if (s) {
		*s = (struct top_sample){p->run.duration_ns, p->totals.live_bytes, p->site_count};
		for (uint32_t i = 0; i < p->site_count; i++)
			s->sites[i] = (struct top_site_sample){keys[i], p->sites[i].live_bytes,
							       p->sites[i].lifetime.p50_ns};
		qsort(s->sites, s->count, sizeof *s->sites, by_key);
	}
	free(keys);
	return s;
}

const struct top_site_sample *top_sample_find(const struct top_sample *s, uint64_t key)
{
	const struct top_site_sample wanted = {.key = key};
	return bsearch(&wanted, s->sites, s->count, sizeof wanted, by_key);
}
