/* What is live at the end of a recording of several processes.
 *
 * A block that is never freed ends with its process. What a process left when it
 * ended is one number (left at exit). What is live when the recording ends is
 * another: blocks of the processes that live to the end, the last ones. Their blocks
 * end with the last events of the recording, so only these events are read. In a
 * recording of one process both numbers are the same, and nothing is read.
 *
 * A selection has last processes of its own.
 *
 * What each process left is found the same way: its blocks end where it does. Only the
 * events at the ends of processes are read, and ends that are close together in one go:
 * a long recording of few processes costs little, and one of many is read once. */
#include "profile/trace_load.h"

#include "hosted/compare.h"
#include <stdlib.h>

static bool still_runs(const struct trace_process *p)
{
	return p->end == TRACE_END_RUNNING || p->end == TRACE_END_DETACHED;
}

/* Finds the processes that live to the end, and the time from which on their blocks end. The blocks of
 * a process that still runs (the recording was cut) have not ended. */
static int find_last(struct load *l, uint64_t *from_ns)
{
	const struct trace_contents *c = l->c;
	uint64_t latest = 0;
	bool some_run = false;
	l->last_processes = calloc((size_t)c->process_count + 1, sizeof *l->last_processes);
	if (!l->last_processes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count; i++) {
		if (l->processes[i] == PROFILE_NONE)
			continue;
		some_run |= still_runs(&c->processes[i]);
		if (c->processes[i].end_ns > latest)
			latest = c->processes[i].end_ns;
	}
	*from_ns = UINT64_MAX;
	for (uint32_t i = 0; i < c->process_count; i++) {
		const struct trace_process *p = &c->processes[i];
		l->last_processes[i] = l->processes[i] != PROFILE_NONE &&
				       (some_run ? still_runs(p) : p->end_ns == latest);
		if (l->last_processes[i] && p->end != TRACE_END_RUNNING && p->end_ns < *from_ns)
			*from_ns = p->end_ns;
	}
	/* Times in the file are rounded down. */
	if (*from_ns != UINT64_MAX)
		*from_ns -= *from_ns < c->meta.tick_ns ? *from_ns : c->meta.tick_ns;
	return 0;
}

/* Calls `add` for every block of the batch that ended with its process. */
static int each_gone(struct load *l, const struct trace_event *events, size_t count,
		     int (*add)(struct load *l, const struct trace_event *e, uint32_t process))
{
	const struct trace_contents *c = l->c;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct trace_event *e = &events[i];
		if (e->op != TRACE_GONE)
			continue;
		if (e->birth_thread >= c->thread_count)
			return HEFT_EFORMAT;
		rc = add(l, e, c->threads[e->birth_thread].process);
	}
	return rc;
}

/* A block that lives to the end, if its process does. */
static int add_last(struct load *l, const struct trace_event *e, uint32_t process)
{
	uint32_t site = e->site;
	if (site >= l->c->site_count)
		return HEFT_EFORMAT;
	if (!l->threads[e->birth_thread] || !trace_ends_last(l, e->birth_thread))
		return 0;
	if ((l->split && trace_split_find(l->split, site, process, &site) < 0) ||
	    trace_grow_sums(&l->last, &l->last_count, site + 1) < 0)
		return HEFT_ENOMEM;
	l->last[site].bytes += e->size;
	l->last[site].blocks++;
	l->last[site].slack += e->slack;
	return 0;
}

static int last_batch(void *ctx, const struct trace_event *events, size_t count)
{
	return each_gone(ctx, events, count, add_last);
}

int trace_ends_load(struct load *l)
{
	uint64_t from_ns, to_ns = l->sel->has_window ? l->sel->to_ns : UINT64_MAX;
	if (l->p->process_count < 2)
		return 0;
	int rc = find_last(l, &from_ns);
	if (rc < 0)
		return rc;
	if (l->sel->has_window && from_ns < l->sel->from_ns)
		from_ns = l->sel->from_ns;
	if (trace_grow_sums(&l->last, &l->last_count, l->split ? 0 : l->c->site_count) < 0)
		return HEFT_ENOMEM;
	/* Samples of the last processes are added up apart (trace_samples.c). */
	if (from_ns > to_ns || l->c->samples_count)
		return 0;
	return trace_reader_events(l->reader, from_ns, to_ns, last_batch, l, l->err);
}

/* ---- what each process left */

enum { WALKS = 500 }; /* at most, whatever the number of processes */

struct process_end {
	uint64_t from_ns, to_ns;
};

static int by_time(const void *a, const void *b)
{
	const struct process_end *x = a, *y = b;
	return compare_numbers(x->from_ns, y->from_ns);
}

static int add_left(struct load *l, const struct trace_event *e, uint32_t process)
{
	if (process >= l->c->process_count || l->processes[process] == PROFILE_NONE)
		return 0;
	struct profile_totals *t = &l->p->processes[l->processes[process]].totals;
	t->left_bytes += e->size;
	t->left_blocks++;
	return 0;
}

static int left_batch(void *ctx, const struct trace_event *events, size_t count)
{
	return each_gone(ctx, events, count, add_left);
}

int trace_ends_left(struct load *l)
{
	const struct trace_contents *c = l->c;
	uint64_t near_ns = c->duration_ns / WALKS + c->meta.tick_ns;
	struct process_end *ends = malloc(((size_t)c->process_count + 1) * sizeof *ends);
	uint32_t count = 0, walks = 0;
	int rc = 0;
	if (!ends)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count; i++) {
		uint64_t end = c->processes[i].end_ns, tick = c->meta.tick_ns;
		if (l->processes[i] != PROFILE_NONE)
			ends[count++] = (struct process_end){end > tick ? end - tick : 0, end};
	}
	qsort(ends, count, sizeof *ends, by_time);
	for (uint32_t i = 0; i < count; i++) {
		struct process_end *last = walks ? &ends[walks - 1] : NULL;
		if (!last || ends[i].from_ns > last->to_ns + near_ns)
			ends[walks++] = ends[i];
		else if (ends[i].to_ns > last->to_ns)
			last->to_ns = ends[i].to_ns;
	}
	for (uint32_t i = 0; i < walks && rc == 0; i++)
		rc = trace_reader_events(l->reader, ends[i].from_ns, ends[i].to_ns, left_batch, l,
					 l->err);
	free(ends);
	return rc;
}
