/* The difference of two snapshots, as Go makes it: the second's values less the first's, stack by
 * stack.
 *
 * The stacks of both are copied into a third profile, which merges those that read the same. They need
 * not be in the same order, or be in both. */
#include "profile/profile_delta.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

struct copying {
	struct profile *to;
	struct profile_delta *delta; /* what `to` is part of */
	uint32_t capacity;           /* of its changes */
	const struct profile *from;
	uint32_t *modules, *frames, *nodes; /* ids in `to` by those in `from` */
};

static void add_change(struct profile_delta_change *a, const struct profile_delta_change *b)
{
	a->allocations += b->allocations;
	a->allocated_bytes += b->allocated_bytes;
	a->live_blocks += b->live_blocks;
	a->live_bytes += b->live_bytes;
}

static int copy_module(struct profile *to, const struct profile_module *m, uint32_t *id)
{
	for (uint32_t i = 0; i < to->stacks.module_count; i++) {
		const struct profile_module *have = &to->stacks.modules[i];
		if (strcmp(have->path, m->path) == 0 && have->build_id_len == m->build_id_len &&
		    (!m->build_id_len ||
		     memcmp(have->build_id, m->build_id, m->build_id_len) == 0)) {
			*id = i;
			return 0;
		}
	}
	return profile_add_module(to, m->path, m->build_id, m->build_id_len, id);
}

static int copy_frame(struct copying *c, const struct profile_frame *frame, uint32_t *id)
{
	struct profile_frame f = *frame;
	f.function = name_pool_add(c->to->names, f.function);
	if (f.file && !(f.file = name_pool_add(c->to->names, f.file)))
		return HEFT_ENOMEM;
	if (f.module != PROFILE_NONE)
		f.module = c->modules[f.module];
	int rc = f.function ? profile_add_frame(c->to, &f, id) : HEFT_ENOMEM;
	if (rc == 0)
		c->to->stacks.frames[*id].user =
			frame->user; /* by rules that may not be the built-in ones */
	return rc;
}

static int copy_node(struct copying *c, const struct profile_node *n, uint32_t *id)
{
	uint32_t parent = n->parent == PROFILE_NONE ? PROFILE_NONE : c->nodes[n->parent];
	return profile_add_node(c->to, parent, c->frames[n->frame], n->flags, id);
}

static int add_changes(struct copying *c, const struct profile_site *s, int64_t sign)
{
	struct profile_delta *d = c->delta;
	uint32_t id, before = c->to->site_count;
	uint32_t node = s->node == PROFILE_NONE ? PROFILE_NONE : c->nodes[s->node];
	if (!array_reserve(d->changes, before, c->capacity, 1) ||
	    profile_add_site(c->to, node, s->via, &id) < 0)
		return HEFT_ENOMEM;
	if (id == before)
		d->changes[id] = (struct profile_delta_change){0};
	add_change(&d->changes[id],
		   &(struct profile_delta_change){
			   .allocations = sign * (int64_t)(s->allocations + s->reallocations),
			   .allocated_bytes = sign * (int64_t)s->allocated_bytes,
			   .live_blocks = sign * (int64_t)s->live_blocks,
			   .live_bytes = sign * (int64_t)s->live_bytes,
		   });
	return 0;
}

static int copy_all(struct copying *c, int64_t sign)
{
	const struct profile *p = c->from;
	int rc = 0;
	for (uint32_t i = 0; i < p->stacks.module_count && rc == 0; i++)
		rc = copy_module(c->to, &p->stacks.modules[i], &c->modules[i]);
	for (uint32_t i = 0; i < p->stacks.frame_count && rc == 0; i++)
		rc = copy_frame(c, &p->stacks.frames[i], &c->frames[i]);
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++)
		rc = copy_node(c, &p->stacks.nodes[i], &c->nodes[i]);
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		rc = add_changes(c, &p->sites[i], sign);
	return rc;
}

static int add_signed(struct copying *c, const struct profile *from, int64_t sign)
{
	int rc = HEFT_ENOMEM;
	c->from = from;
	c->modules = calloc((size_t)from->stacks.module_count + 1, sizeof *c->modules);
	c->frames = calloc((size_t)from->stacks.frame_count + 1, sizeof *c->frames);
	c->nodes = calloc((size_t)from->stacks.node_count + 1, sizeof *c->nodes);
	if (c->modules && c->frames && c->nodes)
		rc = copy_all(c, sign);
	free(c->modules);
	free(c->frames);
	free(c->nodes);
	return rc;
}

static int copy_about(struct profile *to, const struct profile *before, const struct profile *after)
{
	to->run.has = before->run.has & after->run.has & (PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED);
	to->run.has |= (before->run.has | after->run.has) & PROFILE_LACKS_BLOCKS;
	to->run.format = name_pool_add(to->names, after->run.format ? after->run.format : "heft");
	to->run.rate_bytes = after->run.rate_bytes;
	to->run.pid = after->run.pid;
	to->run.start_unix_ns = after->run.start_unix_ns;
	to->run.duration_ns = after->run.duration_ns;
	if (after->run.argc) {
		to->run.argv = profile_copy_strings(to, (char *const *)after->run.argv,
						    after->run.argc);
		to->run.argc = to->run.argv ? after->run.argc : 0;
	}
	if (!to->run.format || (after->run.argc && !to->run.argv))
		return HEFT_ENOMEM;
	if (!after->process_count)
		return 0;
	struct profile_process first = {.pid = after->processes[0].pid};
	uint32_t id;
	const char *exe = after->processes[0].exe;
	if (exe && !(first.exe = name_pool_add(to->names, exe)))
		return HEFT_ENOMEM;
	return profile_add_process(to, &first, &id);
}

/* Folds the stacks, and adds up the changes of those that become one. */
static int fold(struct profile_delta *d)
{
	struct folded_profile folded;
	int rc = folded_profile_init(&folded, d->p, false);
	if (rc < 0 || !folded.view)
		return rc;
	struct profile_delta_change *changes = calloc((size_t)folded.view->site_count + 1,
						      sizeof *changes);
	for (uint32_t i = 0; changes && i < d->p->site_count; i++)
		add_change(&changes[folded.sites[i]], &d->changes[i]);
	if (changes) {
		free(d->changes);
		d->changes = changes;
		d->folded = folded;
	} else {
		folded_profile_fini(&folded);
	}
	return changes ? 0 : HEFT_ENOMEM;
}

int profile_delta_init(struct profile_delta *d, const struct profile *before,
		       const struct profile *after, uint64_t time_ns, struct heft_error *err)
{
	*d = (struct profile_delta){.p = profile_new(), .time_ns = time_ns};
	struct copying c = {.to = d->p, .delta = d};
	int rc = d->p ? copy_about(d->p, before, after) : HEFT_ENOMEM;
	if (d->p)
		d->p->chosen.apart = after->chosen.apart;
	if (rc == 0)
		rc = add_signed(&c, after, 1);
	if (rc == 0)
		rc = add_signed(&c, before, -1);
	if (rc == 0)
		rc = fold(d);
	if (rc == 0)
		return 0;
	profile_delta_fini(d);
	return heft_fail(err, rc, "not enough memory for a difference");
}

void profile_delta_fini(struct profile_delta *d)
{
	folded_profile_fini(&d->folded);
	profile_free(d->p);
	free(d->changes);
	*d = (struct profile_delta){0};
}

int64_t profile_change_of(const struct profile_delta_change *c, enum measure_id id)
{
	switch (id) {
	case MEASURE_ALLOCATIONS: return c->allocations;
	case MEASURE_ALLOCATED_BYTES: return c->allocated_bytes;
	case MEASURE_LIVE_BLOCKS: return c->live_blocks;
	case MEASURE_LIVE_BYTES: return c->live_bytes;
	default: return 0;
	}
}
