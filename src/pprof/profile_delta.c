/* The difference of two snapshots, as Go makes it: values of the first with their sign changed, and
 * both added up stack by stack. What became less stays, as less than nothing.
 *
 * Both are copied into a third profile, whose building merges stacks that read the same: nothing of
 * the two has to be in the same order, or still be there. */
#include "pprof/profile_delta.h"

#include <stdlib.h>
#include <string.h>

struct copying {
	struct profile *to;
	const struct profile *from;
	uint32_t *modules, *frames, *nodes; /* ids in `to` by those in `from` */
};

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

static int copy_site(struct copying *c, const struct profile_site *s, uint64_t sign)
{
	uint32_t id;
	uint32_t node = s->node == PROFILE_NONE ? PROFILE_NONE : c->nodes[s->node];
	int rc = profile_add_site(c->to, node, s->via, &id);
	if (rc < 0)
		return rc;
	struct profile_site *to = &c->to->sites[id];
	to->allocations += sign * s->allocations;
	to->reallocations += sign * s->reallocations;
	to->allocated_bytes += sign * s->allocated_bytes;
	to->live_bytes += sign * s->live_bytes;
	to->live_blocks += sign * s->live_blocks;
	return 0;
}

static int copy_all(struct copying *c, uint64_t sign)
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
		rc = copy_site(c, &p->sites[i], sign);
	return rc;
}

static int add_signed(struct profile *to, const struct profile *from, uint64_t sign)
{
	struct copying c = {.to = to, .from = from};
	int rc = HEFT_ENOMEM;
	c.modules = calloc((size_t)from->stacks.module_count + 1, sizeof *c.modules);
	c.frames = calloc((size_t)from->stacks.frame_count + 1, sizeof *c.frames);
	c.nodes = calloc((size_t)from->stacks.node_count + 1, sizeof *c.nodes);
	if (c.modules && c.frames && c.nodes)
		rc = copy_all(&c, sign);
	free(c.modules);
	free(c.frames);
	free(c.nodes);
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

int profile_delta(const struct profile *before, const struct profile *after, struct profile **out,
		  struct heft_error *err)
{
	struct profile *d = profile_new();
	int rc = d ? copy_about(d, before, after) : HEFT_ENOMEM;
	if (d)
		d->chosen.apart = after->chosen.apart;
	if (rc == 0)
		rc = add_signed(d, after, 1);
	if (rc == 0)
		rc = add_signed(d, before, (uint64_t)-1);
	if (rc < 0) {
		profile_free(d);
		return heft_fail(err, rc, "not enough memory for a difference");
	}
	*out = d;
	return 0;
}
