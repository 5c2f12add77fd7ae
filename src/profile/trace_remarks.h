/* Inside src/profile: what programs said while they were recorded, on its way into the model. */
#ifndef HEFT_PROFILE_TRACE_REMARKS_H
#define HEFT_PROFILE_TRACE_REMARKS_H

#include "profile/trace_load.h"

struct trace_remarks;

/* Reads what the selected part says, before stacks are named; l->remarks stays NULL if it says nothing. */
int trace_remarks_read(struct load *l);
/* Marks the recording's nodes that it names. */
void trace_remarks_want(const struct load *l, bool *nodes);
/* Fills p->remarks. nodes, sites: the profile's, by the recording's; sites NULL: they are apart by process. */
int trace_remarks_fill(const struct load *l, const uint32_t *nodes, const uint32_t *sites);
void trace_remarks_free(struct trace_remarks *r);

/* The profile's node of a recording site; PROFILE_NONE: it has no stack. */
static inline uint32_t trace_remark_node(const struct load *l, const uint32_t *nodes, uint32_t site)
{
	uint32_t node = l->c->sites[site].node;
	return node < l->c->node_count ? nodes[node] : PROFILE_NONE;
}

/* When the process ended, or the recording if it ran on. */
static inline uint64_t trace_process_end_ns(const struct trace_contents *c, uint32_t process)
{
	const struct trace_process *p = &c->processes[process];
	return p->end == TRACE_END_RUNNING || p->end_ns > c->duration_ns ? c->duration_ns
									 : p->end_ns;
}

/* One remark, checked: its process and its name in the profile. counted: it is in the window, and its thread is selected. */
struct remark {
	const struct trace_remark *m;
	const char *name;
	uint32_t process; /* of the recording */
	bool counted;
};

/* ---- followed blocks (trace_stages.c) */

struct trace_stages;
struct trace_stages *trace_stages_new(void); /* NULL: no memory */
void trace_stages_free(struct trace_stages *s);
int trace_stages_add(struct trace_stages *s, const struct remark *r); /* STAGE, STAGE_END */
int trace_stages_fill(struct trace_stages *s, const struct load *l, uint64_t to_ns,
		      const uint32_t *sites);

/* ---- objects of pools (trace_pools.c) */

struct trace_pools;
struct trace_pools *trace_pools_new(const struct load *l); /* NULL: no memory */
void trace_pools_free(struct trace_pools *s);
int trace_pools_add(struct trace_pools *s, const struct remark *r); /* POOL_* */
/* The window begins: what is live is its first peak. */
void trace_pools_begin(struct trace_pools *s);
/* Processes that ended before this time have left what their pools hold. */
void trace_pools_end_processes(struct trace_pools *s, uint64_t before_ns);
void trace_pools_want(const struct trace_pools *s, const struct load *l, bool *nodes);
int trace_pools_fill(struct trace_pools *s, const struct load *l, const uint32_t *nodes);

/* Marks a recording site's stack as one that is shown (trace_remarks.c). */
void trace_remark_want(const struct trace_contents *c, uint32_t site, bool *nodes);

#endif
