/* Replays the events of a recording for what its tally does not have: a selection by
 * process, thread or time, allocations by size, processes one by one.
 *
 * A window begins with what is live then and counts what happens in it. Without a
 * choice of threads its beginning comes from the nearest checkpoint, and with a ladder
 * nothing between its ends is replayed at all: only a peak needs the events.
 *
 * Invariant: ids in events are checked before they are used. */
#include "profile/trace_load.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

static int apply(struct load *l, struct trace_event *events, size_t count)
{
	const struct trace_thread *threads = l->c->threads;
	for (size_t i = 0; l->split && i < count; i++) {
		struct trace_event *e = &events[i];
		uint32_t process = threads[e->birth_thread].process;
		if (trace_split_find(l->split, e->site, process, &e->site) < 0 ||
		    (e->op == TRACE_REALLOC &&
		     trace_split_find(l->split, e->old_site, process, &e->old_site) < 0))
			return HEFT_ENOMEM;
	}
	if (l->split && tally_reserve(&l->replayed, l->split->count, l->c->thread_count) < 0)
		return HEFT_ENOMEM;
	tally_apply(&l->replayed, events, count);
	return 0;
}

static int replay_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct load *l = ctx;
	const struct trace_contents *c = l->c;
	struct trace_event kept[256];
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (!trace_event_is_valid(c, e))
			return HEFT_EFORMAT;
		if (!l->threads[e->birth_thread])
			continue;
		kept[n++] = *e;
		if (n == sizeof kept / sizeof *kept) {
			if (apply(l, kept, n) < 0)
				return HEFT_ENOMEM;
			n = 0;
		}
	}
	return apply(l, kept, n);
}

/* What is live stays, what was counted before the window does not. */
static void begin_window(struct load *l, uint64_t from_ns)
{
	struct tally *t = &l->replayed;
	for (uint32_t i = 0; i < t->site_count; i++) {
		const struct tally_site *s = &t->sites[i];
		l->start[i] = (struct live_sums){s->live_bytes, s->live_blocks, s->live_slack};
		t->sites[i] = (struct tally_site){
			.live_bytes = s->live_bytes,
			.live_blocks = s->live_blocks,
			.live_slack = s->live_slack,
			.peak_bytes = s->live_bytes,
			.peak_blocks = s->live_blocks,
			.peak_slack = s->live_slack,
			.own_peak_bytes = s->live_bytes,
		};
	}
	memset(t->threads, 0, t->thread_count * sizeof *t->threads);
	t->peak_bytes = t->live_bytes;
	t->peak_blocks = t->live_blocks;
	t->peak_time_ns = from_ns;
	t->peak_epoch = 0;
	t->events = 0;
}

static uint64_t since(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

/* What one site counted between two moments; live numbers stay as they are. */
static void subtract(struct tally_site *s, const struct tally_site *start)
{
	s->allocations = since(start->allocations, s->allocations);
	s->allocated_bytes = since(start->allocated_bytes, s->allocated_bytes);
	s->frees = since(start->frees, s->frees);
	s->lifetime_sum_ns = since(start->lifetime_sum_ns, s->lifetime_sum_ns);
	s->temporary = since(start->temporary, s->temporary);
	s->cross_thread_frees = since(start->cross_thread_frees, s->cross_thread_frees);
	s->reallocations = since(start->reallocations, s->reallocations);
	s->reallocated_bytes = since(start->reallocated_bytes, s->reallocated_bytes);
	s->end_bytes = since(start->end_bytes, s->end_bytes);
	s->end_blocks = since(start->end_blocks, s->end_blocks);
	s->end_slack = since(start->end_slack, s->end_slack);
	for (int i = 0; i < TALLY_BUCKETS; i++)
		s->lifetime[i] = (uint32_t)since(start->lifetime[i], s->lifetime[i]);
	s->peak_bytes = s->peak_blocks = s->peak_slack = s->own_peak_bytes = 0;
}

/* The recording's tally as it was before `time_ns`. */
static int tally_before(struct load *l, uint64_t time_ns, struct tally *out)
{
	return l->sel->ladder ? trace_ladder_before(l->sel->ladder, l->reader, time_ns, out, l->err)
			      : trace_reader_tally_before(l->reader, time_ns, out, l->err);
}

/* A window as the difference of its ends. */
static int load_difference(struct load *l, uint64_t from, uint64_t to)
{
	struct tally start, *end = &l->replayed;
	tally_init(&start);
	int rc = tally_before(l, from, &start);
	if (rc == 0)
		rc = tally_before(l, to + (to != UINT64_MAX), end);
	if (rc == 0)
		rc = tally_reserve(end, l->c->site_count, l->c->thread_count);
	for (uint32_t i = 0; rc == 0 && i < start.site_count && i < end->site_count; i++) {
		const struct tally_site *s = &start.sites[i];
		l->start[i] = (struct live_sums){s->live_bytes, s->live_blocks, s->live_slack};
		subtract(&end->sites[i], s);
	}
	for (uint32_t i = 0; rc == 0 && i < start.thread_count && i < end->thread_count; i++) {
		struct tally_thread *t = &end->threads[i];
		t->allocations -= start.threads[i].allocations;
		t->allocated_bytes -= start.threads[i].allocated_bytes;
		t->reallocations -= start.threads[i].reallocations;
		t->frees -= start.threads[i].frees;
	}
	end->peak_bytes = end->peak_blocks = end->peak_time_ns = 0;
	l->p->run.has &= ~(uint32_t)(PROFILE_HAS_PEAK | PROFILE_HAS_OWN_PEAK);
	l->tally = end;
	tally_fini(&start);
	return rc;
}

int trace_grow_sums(struct live_sums **list, uint32_t *capacity, uint32_t count)
{
	uint32_t had = *capacity;
	if (*list && count <= had)
		return 0;
	if (!array_reserve(*list, had, *capacity, count - had))
		return HEFT_ENOMEM;
	memset(*list + had, 0, (*capacity - had) * sizeof **list);
	return 0;
}

/* The replayed tally is what the sites' numbers come from. */
static int use_replayed(struct load *l)
{
	tally_update_peaks(&l->replayed);
	l->tally = &l->replayed;
	return trace_grow_sums(&l->start, &l->start_count, l->replayed.site_count);
}

int trace_load_replay(struct load *l)
{
	uint64_t from = trace_counts_from(l);
	uint64_t to = l->sel->has_window ? l->sel->to_ns : UINT64_MAX;
	int rc = 0;
	bool as_recorded = l->all_threads && !l->split; /* the recording's tallies will do */
	if (trace_grow_sums(&l->start, &l->start_count, l->c->site_count) < 0)
		return HEFT_ENOMEM;
	if (as_recorded && trace_is_instant(l) && to != UINT64_MAX) {
		rc = tally_before(l, to + 1, &l->replayed);
		if (rc == 0)
			rc = tally_reserve(&l->replayed, l->c->site_count, l->c->thread_count);
		return rc < 0 ? rc : use_replayed(l);
	}
	if (l->sel->ladder && as_recorded && from < to)
		return load_difference(l, from, to);
	if (from > 0 && as_recorded) {
		rc = tally_before(l, from, &l->replayed); /* from the nearest checkpoint */
	} else {
		rc = tally_reserve(&l->replayed, l->split ? 0 : l->c->site_count,
				   l->c->thread_count);
		if (rc == 0 && from > 0)
			rc = trace_reader_events(l->reader, 0, from - 1, replay_batch, l, l->err);
	}
	if (rc == 0)
		rc = trace_grow_sums(&l->start, &l->start_count, l->replayed.site_count);
	if (rc == 0 && from > 0)
		begin_window(l, from);
	if (rc == 0)
		rc = trace_reader_events(l->reader, from, to, replay_batch, l, l->err);
	return rc < 0 ? rc : use_replayed(l);
}

static int sizes_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct load *l = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (e->birth_thread >= l->c->thread_count)
			return HEFT_EFORMAT;
		if (!l->threads[e->birth_thread])
			continue;
		if (l->sizes_from_ns && e->time_ns >= l->sizes_from_ns) {
			trace_sizes_begin(l->sizes);
			l->sizes_from_ns = 0;
		}
		trace_sizes_apply(l->sizes, e, !l->sizes_from_ns,
				  trace_ends_last(l, e->birth_thread));
	}
	return 0;
}

int trace_load_sizes(struct load *l)
{
	uint64_t to = l->sel->has_window ? l->sel->to_ns : UINT64_MAX;
	if (!l->sel->sizes)
		return 0;
	l->sizes_from_ns = trace_counts_from(l);
	l->sizes = calloc(1, sizeof *l->sizes);
	if (!l->sizes)
		return HEFT_ENOMEM;
	int rc = trace_reader_events(l->reader, 0, to, sizes_batch, l, l->err);
	if (l->sizes_from_ns) /* nothing happened in the window */
		trace_sizes_begin(l->sizes);
	return rc < 0 ? rc : trace_sizes_load(l->sizes, l->p);
}

static void begin_processes(struct load *l)
{
	for (uint32_t i = 0; i < l->p->process_count; i++) {
		struct profile_totals *t = &l->replayed_processes[i];
		*t = (struct profile_totals){
			.live_bytes = t->live_bytes,
			.live_blocks = t->live_blocks,
			.live_slack_bytes = t->live_slack_bytes,
			.start_bytes = t->live_bytes,
			.start_blocks = t->live_blocks,
			.peak_bytes = t->live_bytes,
			.peak_blocks = t->live_blocks,
			.peak_slack_bytes = t->live_slack_bytes,
			.peak_time_ns = l->processes_from_ns,
		};
	}
	l->processes_from_ns = 0;
}

/* Each process alone: only a few numbers, so that a build with thousands of processes fits. */
static int process_batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct load *l = ctx;
	const struct trace_contents *c = l->c;
	bool instant = trace_is_instant(l);
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (e->birth_thread >= c->thread_count)
			return HEFT_EFORMAT;
		uint32_t process = c->threads[e->birth_thread].process;
		if (!l->threads[e->birth_thread] || process >= c->process_count ||
		    l->processes[process] == PROFILE_NONE)
			continue;
		if (l->processes_from_ns && e->time_ns >= l->processes_from_ns)
			begin_processes(l);
		struct profile_totals *t = &l->replayed_processes[l->processes[process]];
		switch ((enum trace_op)e->op) {
		case TRACE_ALLOC:
			t->allocations++;
			t->allocated_bytes += e->size;
			t->live_bytes += e->size;
			t->live_blocks++;
			t->live_slack_bytes += e->slack;
			break;
		case TRACE_FREE:
			t->frees++;
			t->temporary += e->flags & TRACE_TEMPORARY;
			t->live_bytes -= e->size;
			t->live_blocks--;
			t->live_slack_bytes -= e->slack;
			break;
		case TRACE_REALLOC:
			t->reallocations++;
			t->reallocated_bytes += e->size;
			t->allocated_bytes += e->size > e->old_size ? e->size - e->old_size : 0;
			t->live_bytes += e->size - e->old_size;
			t->live_slack_bytes += (uint64_t)e->slack - e->old_slack;
			break;
		case TRACE_GONE: /* live at the end: stays counted, unless that was before the window */
			if (instant) {
				t->left_bytes += e->size;
				t->left_blocks++;
			}
			if (instant || l->processes_from_ns) {
				t->live_bytes -= e->size;
				t->live_blocks--;
				t->live_slack_bytes -= e->slack;
			}
			break;
		}
		if (t->live_bytes > t->peak_bytes) {
			t->peak_bytes = t->live_bytes;
			t->peak_blocks = t->live_blocks;
			t->peak_slack_bytes = t->live_slack_bytes;
			t->peak_time_ns = e->time_ns;
		}
	}
	return 0;
}

int trace_load_process_totals(struct load *l)
{
	struct profile *p = l->p;
	p->chosen.process_totals = true;
	if (p->process_count == 1) {
		p->processes[0].totals = p->totals;
		return 0;
	}
	l->replayed_processes = calloc((size_t)p->process_count + 1, sizeof *l->replayed_processes);
	if (!l->replayed_processes)
		return HEFT_ENOMEM;
	uint64_t to = l->sel->has_window ? l->sel->to_ns : UINT64_MAX;
	l->processes_from_ns = trace_counts_from(l);
	int rc = trace_reader_events(l->reader, 0, to, process_batch, l, l->err);
	if (l->processes_from_ns)
		begin_processes(l);
	for (uint32_t i = 0; i < p->process_count && rc == 0; i++) {
		struct profile_totals *t = &p->processes[i].totals, r = l->replayed_processes[i];
		r.left_bytes += r.live_bytes;
		r.left_blocks += r.live_blocks;
		r.threads = t->threads;
		r.dropped = t->dropped;
		r.unknown_frees = t->unknown_frees;
		r.older_frees = t->older_frees;
		r.peak_rss_bytes = t->peak_rss_bytes;
		r.peak_anonymous_bytes = t->peak_anonymous_bytes;
		*t = r;
	}
	return rc;
}
