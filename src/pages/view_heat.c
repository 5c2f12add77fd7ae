/* The heat map of births and lifetimes, counted over the events of a part.
 *
 * A tally keeps lifetimes by site but not when the blocks were born, so this is the
 * one document that walks all events; it is made when somebody looks at it, and kept
 * with the part. A block appears where it ends: a free carries its lifetime, and a
 * block that is never freed has an event at the end of its process.
 *
 * Invariant: ids in events are checked before they are used. */
#include "pages/view_heat.h"

#include "pages/view_recording.h"

#include <stdlib.h>

struct counting {
	struct view_heat *heat;
	const struct view_part *part;
	const bool *threads; /* selected, by the recording's; NULL: all */
	uint32_t thread_count;
	uint64_t slot_ns;
};

static uint32_t bucket_of(uint64_t lifetime_ns)
{
	uint32_t bits = lifetime_ns ? 64u - (uint32_t)__builtin_clzll(lifetime_ns) : 0;
	uint32_t bucket = bits > 9 ? bits - 9 : 0;
	return bucket < PROFILE_LIFE_BUCKETS ? bucket : PROFILE_LIFE_BUCKETS - 1;
}

static int count_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct counting *c = ctx;
	const struct profile *p = c->part->p;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (e->op != TRACE_FREE && e->op != TRACE_GONE)
			continue;
		if (e->site >= p->recorded.site_count || e->birth_thread >= c->thread_count)
			return HEFT_EFORMAT;
		if (p->recorded.sites[e->site] == PROFILE_NONE ||
		    (c->threads && !c->threads[e->birth_thread]))
			continue;
		uint64_t birth = e->time_ns > e->lifetime_ns ? e->time_ns - e->lifetime_ns : 0;
		uint64_t slot = birth > c->heat->from_ns ? (birth - c->heat->from_ns) / c->slot_ns
							 : 0;
		if (slot >= VIEW_HEAT_BIRTHS)
			slot = VIEW_HEAT_BIRTHS - 1;
		uint32_t bucket = bucket_of(e->lifetime_ns);
		(e->op == TRACE_FREE ? c->heat->freed : c->heat->live)[slot][bucket]++;
	}
	return 0;
}

/* Which of the recording's threads are in the part; *out NULL: all. */
static int threads_of(const struct view_part *part, bool **out)
{
	const struct trace_contents *t = view_part_contents(part);
	const struct profile *p = part->p;
	*out = NULL;
	if (p->thread_count == t->thread_count)
		return 0;
	*out = calloc((size_t)t->thread_count + 1, sizeof **out);
	if (!*out)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < t->thread_count; i++) {
		const struct trace_thread *thread = &t->threads[i];
		for (uint32_t k = 0; k < p->thread_count && !(*out)[i]; k++)
			(*out)[i] = thread->process < t->process_count &&
				    p->threads[k].tid == thread->tid &&
				    p->threads[k].process < p->process_count &&
				    p->processes[p->threads[k].process].number == thread->process;
	}
	return 0;
}

int view_heat_of(const struct view_part *part, const struct view_heat **out, struct heft_error *err)
{
	const struct profile *p = part->p;
	bool *threads = NULL;
	*out = view_part_heat(part);
	if (*out)
		return 0;
	struct view_heat *heat = calloc(1, sizeof *heat);
	int rc = heat ? threads_of(part, &threads) : HEFT_ENOMEM;
	if (rc == 0) {
		struct counting c = {.heat = heat,
				     .part = part,
				     .threads = threads,
				     .thread_count = view_part_contents(part)->thread_count};
		heat->from_ns = p->chosen.from_ns;
		heat->to_ns = p->chosen.to_ns;
		c.slot_ns = (heat->to_ns - heat->from_ns) / VIEW_HEAT_BIRTHS + 1;
		/* The last events may carry the time of the end itself. */
		uint64_t to = heat->to_ns < p->run.duration_ns ? heat->to_ns : UINT64_MAX;
		rc = view_part_events(part, heat->from_ns, to, count_batch, &c, err);
	} else {
		heft_fail(err, rc, "not enough memory for the heat map");
	}
	free(threads);
	if (rc < 0) {
		free(heat);
		return rc;
	}
	view_part_keep_heat(part, heat);
	*out = view_part_heat(part);
	return 0;
}

void view_heat_free(struct view_heat *heat)
{
	free(heat);
}
