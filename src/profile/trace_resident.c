/* Resident memory: the greatest sample of each process, and for all together the sum over
 * time and its greatest value. A process counts with its last sample until it ends, so one
 * sweep over the samples needs only the processes in the order of their ends. Pages that
 * processes share count in each, as in every RSS. */
#include "profile/trace_resident.h"

#include "hosted/compare.h"
#include <stdlib.h>

struct ending {
	uint64_t time_ns;
	uint32_t process;
};

static int by_time(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	return compare_numbers(x->time_ns, y->time_ns);
}

int trace_resident_peak(struct profile *p, const struct trace_contents *c,
			const uint32_t *processes, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t *now = calloc((size_t)c->process_count + 1, sizeof *now);
	struct ending *ends = calloc((size_t)c->process_count + 1, sizeof *ends);
	uint64_t all = 0;
	size_t end_count = 0, next_end = 0;
	if (!now || !ends) {
		free(now);
		free(ends);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->process_count; i++)
		if (c->processes[i].end != TRACE_END_RUNNING)
			ends[end_count++] = (struct ending){c->processes[i].end_ns, i};
	qsort(ends, end_count, sizeof *ends, by_time);
	p->run.rss = c->rss_count < UINT32_MAX ? malloc((c->rss_count + 1) * sizeof *p->run.rss)
					       : NULL;
	if (!p->run.rss) {
		free(now);
		free(ends);
		return HEFT_ENOMEM;
	}

	/* The kernel does not say when a process was at its maximum: that is no part of a sum or a
	 * window. */
	bool whole = !from_ns && to_ns == UINT64_MAX;
	bool told = false; /* older recordings have no maximum of any process */
	bool known = false;
	for (uint32_t i = 0; i < c->process_count && whole; i++) {
		told |= c->processes[i].peak_rss_bytes != 0;
		known |= c->processes[i].peak_rss_bytes && processes[i] != PROFILE_NONE;
	}
	for (uint32_t i = 0; i < c->process_count && whole; i++)
		if (processes[i] != PROFILE_NONE) {
			uint64_t highest = c->processes[i].peak_rss_bytes;
			p->processes[processes[i]].totals.peak_rss_bytes = highest;
			if (highest > p->totals.peak_rss_bytes)
				p->totals.peak_rss_bytes = highest;
		}
	for (size_t i = 0; i < c->rss_count; i++) {
		const struct trace_rss *s = &c->rss[i];
		for (; next_end < end_count && ends[next_end].time_ns < s->time_ns; next_end++) {
			all -= now[ends[next_end].process];
			now[ends[next_end].process] = 0;
		}
		if (s->process >= c->process_count || processes[s->process] == PROFILE_NONE ||
		    s->time_ns < from_ns || s->time_ns > to_ns)
			continue;
		/* A sample from after its end does not count: it was subtracted already. */
		const struct trace_process *q = &c->processes[s->process];
		if (q->end != TRACE_END_RUNNING && s->time_ns > q->end_ns)
			continue;
		all += s->rss_bytes - now[s->process];
		now[s->process] = s->rss_bytes;
		struct profile_totals *own = &p->processes[processes[s->process]].totals;
		/* If the maximum of an ended process is not known, its samples are from before it. */
		bool counts = !told || q->end == TRACE_END_RUNNING || q->peak_rss_bytes;
		known |= counts;
		if (counts && s->rss_bytes > own->peak_rss_bytes)
			own->peak_rss_bytes = s->rss_bytes;
		if (all > p->totals.peak_rss_bytes)
			p->totals.peak_rss_bytes = all;
		/* Samples of several processes at one time make one sum, the last. */
		if (!p->run.rss_count || p->run.rss[p->run.rss_count - 1].time_ns != s->time_ns)
			p->run.rss_count++;
		p->run.rss[p->run.rss_count - 1] = (struct profile_rss){s->time_ns, all};
	}
	if (!known)
		p->totals.peak_rss_bytes = 0;
	p->run.rss_was_seen = whole && !told;
	free(now);
	free(ends);
	return 0;
}
