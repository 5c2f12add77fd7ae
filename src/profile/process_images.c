/* Processes and threads across exec (process_images.h).
 *
 * Images of one pid are in the order of time. The next one is the same process if the one before ended
 * by exec. If the kernel gave a number out again, the image before ended otherwise.
 *
 * exec ends all threads but the caller's, which gets the number of the process. So an entry of a later
 * image with the same number is the same thread. Two entries of one image are two threads, whatever
 * their numbers.
 *
 * Images outside the selected window are in no process: their first is PROFILE_NONE.
 *
 * A process has one image at a time: its peak is the greatest of theirs, the rest adds up.
 *
 * Invariants: first[i] <= i by time, first[first[i]] == first[i]; the same holds for threads. */
#include "profile/process_images.h"

#include "hosted/compare.h"
#include "profile/estimate.h"

#include <stdlib.h>
#include <string.h>

enum { COMM_LENGTH = 15 }; /* of a thread's name */

static int by_pid(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	return compare_numbers((uint32_t)p->processes[i].pid, (uint32_t)p->processes[k].pid)
		       ?: compare_numbers(i, k);
}

static void link_images(struct process_images *x, const struct profile *p, uint32_t *order)
{
	for (uint32_t i = 0; i < p->process_count; i++)
		order[i] = i;
	if (p->process_count)
		qsort_r(order, p->process_count, sizeof *order, by_pid, (void *)p);
	uint32_t last = PROFILE_NONE;
	for (uint32_t i = 0; i < p->process_count; i++) {
		const struct profile_process *q = &p->processes[order[i]];
		const struct profile_process *before = last != PROFILE_NONE ? &p->processes[last]
									    : NULL;
		/* Two that run at the same time under one number are of different namespaces. */
		bool same = before && before->pid == q->pid && before->end == PROFILE_END_EXEC;
		x->next[order[i]] = x->first[order[i]] = PROFILE_NONE;
		if (q->is_outside)
			continue;
		x->first[order[i]] = same ? x->first[last] : order[i];
		if (same)
			x->next[last] = order[i];
		x->count += !same;
		last = order[i];
	}
}

struct found_in {
	const struct process_images *x;
	const struct profile *p;
};

static uint32_t process_of(const struct found_in *f, uint32_t thread)
{
	uint32_t process = f->p->threads[thread].process;
	return process < f->p->process_count ? f->x->first[process] : PROFILE_NONE;
}

static int by_thread(const void *a, const void *b, void *ctx)
{
	const struct found_in *f = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint32_t of = process_of(f, i), other = process_of(f, k);
	const struct profile_thread *t = &f->p->threads[i], *u = &f->p->threads[k];
	return compare_numbers(of, other) ?: compare_numbers((uint32_t)t->tid, (uint32_t)u->tid) ?: compare_numbers(t->process, u->process) ?: compare_numbers(i, k);
}

static void link_threads(struct process_images *x, const struct profile *p, uint32_t *order)
{
	struct found_in f = {x, p};
	for (uint32_t i = 0; i < p->thread_count; i++)
		order[i] = i;
	if (p->thread_count)
		qsort_r(order, p->thread_count, sizeof *order, by_thread, &f);
	for (uint32_t i = 0; i < p->thread_count; i++) {
		uint32_t at = order[i], before = i ? order[i - 1] : PROFILE_NONE;
		bool same = i && process_of(&f, at) != PROFILE_NONE &&
			    process_of(&f, at) == process_of(&f, before) &&
			    p->threads[at].tid == p->threads[before].tid &&
			    p->threads[at].process != p->threads[before].process;
		x->next_thread[at] = x->first_thread[at] = PROFILE_NONE;
		if (p->threads[at].process < p->process_count &&
		    p->processes[p->threads[at].process].is_outside)
			continue;
		x->first_thread[at] = same ? x->first_thread[before] : at;
		if (same)
			x->next_thread[before] = at;
		x->thread_count += !same;
		if (!same && process_of(&f, at) != PROFILE_NONE)
			x->threads[process_of(&f, at)]++;
	}
}

int process_images_init(struct process_images *x, const struct profile *p)
{
	size_t images = (size_t)p->process_count + 1, threads = (size_t)p->thread_count + 1;
	uint32_t *order = malloc((images > threads ? images : threads) * sizeof *order);
	*x = (struct process_images){.first = malloc(images * sizeof *x->first),
				     .next = malloc(images * sizeof *x->next),
				     .threads = calloc(images, sizeof *x->threads),
				     .first_thread = malloc(threads * sizeof *x->first_thread),
				     .next_thread = malloc(threads * sizeof *x->next_thread)};
	if (!order || !x->first || !x->next || !x->threads || !x->first_thread || !x->next_thread) {
		free(order);
		process_images_fini(x);
		return HEFT_ENOMEM;
	}
	link_images(x, p, order);
	link_threads(x, p, order);
	free(order);
	return 0;
}

void process_images_fini(struct process_images *x)
{
	free(x->first);
	free(x->next);
	free(x->threads);
	free(x->first_thread);
	free(x->next_thread);
	*x = (struct process_images){0};
}

static uint64_t error_together(uint64_t a, uint64_t b)
{
	return estimate_rounded(estimate_together((double)a, (double)b));
}

static void add_totals(struct profile_process *to, const struct profile_process *q)
{
	struct profile_totals *t = &to->totals;
	const struct profile_totals *more = &q->totals;
	if (more->peak_bytes > t->peak_bytes) {
		t->peak_bytes = more->peak_bytes;
		t->peak_blocks = more->peak_blocks;
		t->peak_time_ns = more->peak_time_ns;
		t->peak_slack_bytes = more->peak_slack_bytes;
		to->errors.peak_bytes = q->errors.peak_bytes;
		to->errors.peak_blocks = q->errors.peak_blocks;
	}
	if (more->peak_rss_bytes > t->peak_rss_bytes)
		t->peak_rss_bytes = more->peak_rss_bytes;
	if (more->peak_anonymous_bytes > t->peak_anonymous_bytes)
		t->peak_anonymous_bytes = more->peak_anonymous_bytes;
	if (more->resident.rss_bytes > t->resident.rss_bytes)
		t->resident = more->resident;
	t->allocations += more->allocations;
	t->reallocations += more->reallocations;
	t->frees += more->frees;
	t->allocated_bytes += more->allocated_bytes;
	t->reallocated_bytes += more->reallocated_bytes;
	t->left_bytes += more->left_bytes;
	t->left_blocks += more->left_blocks;
	t->start_bytes += more->start_bytes;
	t->start_blocks += more->start_blocks;
	t->temporary += more->temporary;
	t->dropped += more->dropped;
	t->unknown_frees += more->unknown_frees;
	t->older_frees += more->older_frees;
	to->errors.left_bytes = error_together(to->errors.left_bytes, q->errors.left_bytes);
	to->errors.left_blocks = error_together(to->errors.left_blocks, q->errors.left_blocks);
	to->errors.allocations = error_together(to->errors.allocations, q->errors.allocations);
	to->errors.allocated_bytes = error_together(to->errors.allocated_bytes,
						    q->errors.allocated_bytes);
}

static void take_live(struct profile_process *to, const struct profile_process *q)
{
	to->totals.live_bytes = q->totals.live_bytes;
	to->totals.live_blocks = q->totals.live_blocks;
	to->totals.live_slack_bytes = q->totals.live_slack_bytes;
	to->errors.live_bytes = q->errors.live_bytes;
	to->errors.live_blocks = q->errors.live_blocks;
}

struct profile_process process_of_images(const struct process_images *x, const struct profile *p,
					 uint32_t first)
{
	struct profile_process all = p->processes[first];
	if (x->next[first] != PROFILE_NONE)
		all.totals.threads = x->threads[first];
	for (uint32_t i = x->next[first]; i != PROFILE_NONE; i = x->next[i]) {
		const struct profile_process *q = &p->processes[i];
		add_totals(&all, q);
		if (!q->begins_after) /* an exec ends what the image before had */
			take_live(&all, q);
		all.exe = q->exe;
		all.argv = q->argv;
		all.argc = q->argc;
		all.end_ns = q->end_ns;
		all.end = q->end;
		all.exit_status = q->exit_status;
		all.signal = q->signal;
	}
	return all;
}

struct profile_thread thread_of_images(const struct process_images *x, const struct profile *p,
				       uint32_t first)
{
	struct profile_thread all = p->threads[first];
	for (uint32_t i = x->next_thread[first]; i != PROFILE_NONE; i = x->next_thread[i]) {
		const struct profile_thread *t = &p->threads[i];
		all.allocations += t->allocations;
		all.allocated_bytes += t->allocated_bytes;
		all.reallocations += t->reallocations;
		all.frees += t->frees;
		all.live_bytes += t->live_bytes;
		all.live_blocks += t->live_blocks;
		all.errors.live_bytes = error_together(all.errors.live_bytes, t->errors.live_bytes);
		all.errors.live_blocks = error_together(all.errors.live_blocks,
							t->errors.live_blocks);
		if (t->name && *t->name)
			all.name = t->name;
	}
	return all;
}

struct profile_thread *profile_whole_threads(const struct profile *p, uint32_t *count)
{
	struct process_images x;
	*count = 0;
	if (process_images_init(&x, p) < 0)
		return NULL;
	struct profile_thread *list = malloc(((size_t)x.thread_count + 1) * sizeof *list);
	for (uint32_t i = 0; list && i < p->thread_count; i++)
		if (x.first_thread[i] == i)
			list[(*count)++] = thread_of_images(&x, p, i);
	process_images_fini(&x);
	return list;
}

int profile_add_silent_threads(struct profile *p)
{
	struct process_images x;
	int rc = process_images_init(&x, p);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < p->process_count && rc == 0; i++) {
		if (x.first[i] != i || x.threads[i])
			continue;
		/* The kernel calls a thread that nobody named by its program's file. */
		const char *exe = p->processes[i].exe ? p->processes[i].exe : "",
			   *slash = strrchr(exe, '/');
		const char *file = slash ? slash + 1 : exe;
		const char *name = name_pool_add_n(p->names, file, strnlen(file, COMM_LENGTH));
		if (!name)
			rc = HEFT_ENOMEM;
		p->processes[i].totals.threads = 1;
		rc = rc < 0 ? rc
			    : profile_add_thread(
				      p, &(struct profile_thread){.pid = p->processes[i].pid,
								  .tid = p->processes[i].pid,
								  .process = i,
								  .name = name});
	}
	process_images_fini(&x);
	return rc;
}

uint32_t profile_count_processes(const struct profile *p)
{
	struct process_images x;
	if (process_images_init(&x, p) < 0)
		return p->process_count;
	uint32_t count = x.count;
	process_images_fini(&x);
	return count;
}

uint64_t profile_count_threads(const struct profile *p)
{
	struct process_images x;
	/* Some formats have only the number of threads. */
	if (p->totals.threads > p->thread_count || process_images_init(&x, p) < 0)
		return p->totals.threads;
	uint64_t count = x.thread_count;
	for (uint32_t i = 0; i < p->process_count && p->run.rate_bytes && count; i++)
		count += x.first[i] == i && !x.threads[i];
	process_images_fini(&x);
	return count;
}
