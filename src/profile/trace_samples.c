/* From samples to estimates (estimate.h), sample by sample. Numbers are rounded once, by site, and
 * totals are sums of the rounded ones.
 *
 * The peak of a sampled process is the greatest estimate that the recorder saw. The peak of several is
 * the greatest sum at one instant (trace_peak.c). */
#include "profile/trace_samples.h"

#include "profile/estimate.h"
#include "profile/trace_load.h"

#include <stdlib.h>

struct sums {
	double live_bytes, live_blocks, gone_bytes, gone_blocks, peak_bytes, peak_blocks,
		allocated_bytes, allocations;
};

const struct trace_sample *trace_samples_peak(const struct trace_samples *s, uint32_t *count,
					      uint64_t *time_ns)
{
	bool live = !s->peak_time_ns; /* it has most at the end */
	*count = live ? s->live_count : s->peak_count;
	*time_ns = live ? s->time_ns : s->peak_time_ns;
	return live ? s->live : s->peak;
}

/* Adds a block that was not freed. is_last: its process lives to the end of the recording. */
static void add_left(const struct trace_sample *b, bool is_last, struct sums *e,
		     struct profile_spread *s)
{
	struct estimate_weight w = estimate_of_block(b->size, b->rate_bytes);
	s->left_blocks += w.objects_variance;
	s->left_bytes += w.bytes_variance;
	s->left_samples++;
	if (!is_last) {
		e->gone_blocks += w.objects;
		e->gone_bytes += w.bytes;
		return;
	}
	e->live_blocks += w.objects;
	e->live_bytes += w.bytes;
	s->live_blocks += w.objects_variance;
	s->live_bytes += w.bytes_variance;
	s->live_samples++;
}

static void add_peak(const struct trace_sample *b, struct sums *e, struct profile_spread *s)
{
	struct estimate_weight w = estimate_of_block(b->size, b->rate_bytes);
	e->peak_blocks += w.objects;
	e->peak_bytes += w.bytes;
	s->peak_blocks += w.objects_variance;
	s->peak_bytes += w.bytes_variance;
	s->peak_samples++;
}

static void add_ever(const struct trace_sample_sum *x, struct sums *e, struct profile_spread *s)
{
	e->allocated_bytes += x->bytes;
	e->allocations += x->objects;
	s->allocated_bytes += x->bytes_variance;
	s->allocations += x->objects_variance;
	s->samples += x->samples;
}

static void fill(struct tally *t, const struct sums *sites)
{
	for (uint32_t i = 0; i < t->site_count; i++) {
		struct tally_site *s = &t->sites[i];
		s->allocations = estimate_rounded(sites[i].allocations);
		s->allocated_bytes = estimate_rounded(sites[i].allocated_bytes);
		s->live_bytes = estimate_rounded(sites[i].live_bytes);
		s->live_blocks = estimate_rounded(sites[i].live_blocks);
		s->end_bytes = estimate_rounded(sites[i].gone_bytes);
		s->end_blocks = estimate_rounded(sites[i].gone_blocks);
		s->peak_bytes = estimate_rounded(sites[i].peak_bytes);
		s->peak_blocks = estimate_rounded(sites[i].peak_blocks);
		s->own_peak_bytes = s->peak_bytes;
		uint64_t left = s->live_blocks + s->end_blocks;
		s->frees = s->allocations > left ? s->allocations - left : 0;
		t->peak_bytes += s->peak_bytes;
		t->peak_blocks += s->peak_blocks;
	}
}

/* Numbers every site of the wanted processes, so that none is new afterwards. */
static int split_samples(const struct trace_contents *c, const bool *processes,
			 const struct trace_at_peak *peak, struct trace_split *split)
{
	uint32_t id;
	int rc = 0;
	for (size_t i = 0; i < peak->count && rc == 0; i++)
		rc = trace_split_find(split, peak->list[i].sample->site, peak->list[i].process,
				      &id);
	for (uint32_t i = 0; i < c->samples_count && rc == 0; i++) {
		const struct trace_samples *s = &c->samples[i];
		if (!processes[s->process])
			continue;
		for (uint32_t k = 0; k < s->live_count && rc == 0; k++)
			rc = trace_split_find(split, s->live[k].site, s->process, &id);
		for (uint32_t k = 0; k < s->sum_count && rc == 0; k++)
			rc = trace_split_find(split, s->sums[k].site, s->process, &id);
	}
	return rc;
}

static uint32_t site_in(struct trace_split *split, uint32_t site, uint32_t process)
{
	uint32_t id = site;
	if (split)
		trace_split_find(split, site, process, &id); /* is there, so it cannot fail */
	return id;
}

int trace_samples_tally(const struct trace_contents *c, const bool *processes, const bool *last,
			struct trace_split *split, struct tally *t, struct profile_spread **spread)
{
	struct trace_at_peak peak;
	struct sums *sites = NULL;
	struct profile_spread *v = NULL;
	*spread = NULL;
	int rc = trace_samples_at_peak(c, processes, &peak);
	if (rc == 0 && split)
		rc = split_samples(c, processes, &peak, split);
	uint32_t site_count = split ? split->count : c->site_count;
	if (rc == 0) {
		sites = calloc((size_t)site_count + 1, sizeof *sites);
		v = calloc((size_t)site_count + 1, sizeof *v);
	}
	if (!sites || !v || tally_reserve(t, site_count, c->thread_count)) {
		free(peak.list);
		free(sites);
		free(v);
		return HEFT_ENOMEM;
	}
	*spread = v;
	for (size_t i = 0; i < peak.count; i++) {
		const struct trace_sample *b = peak.list[i].sample;
		uint32_t site = site_in(split, b->site, peak.list[i].process);
		add_peak(b, &sites[site], &v[site]);
	}
	t->peak_time_ns = peak.time_ns;
	free(peak.list);
	for (uint32_t i = 0; i < c->samples_count; i++) {
		const struct trace_samples *s = &c->samples[i];
		if (!processes[s->process])
			continue;
		bool is_last = !last || last[s->process];
		for (uint32_t k = 0; k < s->live_count; k++) {
			uint32_t site = site_in(split, s->live[k].site, s->process);
			add_left(&s->live[k], is_last, &sites[site], &v[site]);
		}
		for (uint32_t k = 0; k < s->sum_count; k++) {
			uint32_t site = site_in(split, s->sums[k].site, s->process);
			add_ever(&s->sums[k], &sites[site], &v[site]);
		}
	}
	fill(t, sites);
	free(sites);
	return 0;
}

/* ---- by process and by thread */

static void add_process(struct load *l, const struct trace_samples *s)
{
	struct profile_process *q = &l->p->processes[l->processes[s->process]];
	struct profile_totals *t = &q->totals;
	struct sums e = {0};
	struct profile_spread v = {0};
	uint32_t peak_count;
	const struct trace_sample *peak = trace_samples_peak(s, &peak_count, &t->peak_time_ns);
	for (uint32_t k = 0; k < s->live_count; k++)
		add_left(&s->live[k], true, &e, &v);
	for (uint32_t k = 0; k < peak_count; k++)
		add_peak(&peak[k], &e, &v);
	for (uint32_t k = 0; k < s->sum_count; k++)
		add_ever(&s->sums[k], &e, &v);
	t->allocations = estimate_rounded(e.allocations);
	t->allocated_bytes = estimate_rounded(e.allocated_bytes);
	t->live_bytes = estimate_rounded(e.live_bytes);
	t->live_blocks = estimate_rounded(e.live_blocks);
	t->left_bytes = t->live_bytes;
	t->left_blocks = t->live_blocks;
	t->peak_bytes = estimate_rounded(e.peak_bytes);
	t->peak_blocks = estimate_rounded(e.peak_blocks);
	q->errors = estimate_errors(&v, s->rate_bytes,
				    e.allocations > 0 ? e.allocated_bytes / e.allocations : 0);
}

struct by_thread {
	uint32_t process;
	const struct trace_sample *sample;
};

static int compare_threads(const void *a, const void *b)
{
	const struct by_thread *x = a, *y = b;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->sample->tid < y->sample->tid ? -1 : x->sample->tid > y->sample->tid;
}

static int compare_known(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct profile_thread *x = &p->threads[i], *y = &p->threads[k];
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return i < k ? -1 : i > k;
}

/* The recording's threads, in the order of the samples'. NULL: no memory. */
static uint32_t *known_threads(struct profile *p)
{
	uint32_t *known = malloc(((size_t)p->thread_count + 1) * sizeof *known);
	for (uint32_t i = 0; known && i < p->thread_count; i++)
		known[i] = i;
	if (known)
		qsort_r(known, p->thread_count, sizeof *known, compare_known, p);
	return known;
}

/* Finds the thread of a sample: the last of that number from known[*at] on. A thread that the recording
 * does not list is added. */
static int find_thread(struct profile *p, const uint32_t *known, uint32_t count, uint32_t *at,
		       const struct by_thread *b, uint32_t *id)
{
	int32_t tid = b->sample->tid;
	*id = PROFILE_NONE;
	for (; *at < count; ++*at) {
		const struct profile_thread *t = &p->threads[known[*at]];
		if (t->process > b->process || (t->process == b->process && t->tid > tid))
			break;
		if (t->process == b->process && t->tid == tid)
			*id = known[*at];
	}
	if (*id != PROFILE_NONE)
		return 0;
	*id = p->thread_count;
	return profile_add_thread(p, &(struct profile_thread){.pid = p->processes[b->process].pid,
							      .tid = tid,
							      .process = b->process,
							      .name = ""});
}

static int add_threads(struct load *l)
{
	struct profile *p = l->p;
	uint64_t count = 0, used = 0;
	uint32_t known_count = p->thread_count, at = 0;
	for (uint32_t i = 0; i < l->c->samples_count; i++)
		count += l->c->samples[i].live_count;
	struct by_thread *list = malloc((count + 1) * sizeof *list);
	uint32_t *known = known_threads(p);
	int rc = list && known ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < l->c->samples_count && rc == 0; i++) {
		const struct trace_samples *s = &l->c->samples[i];
		for (uint32_t k = 0; k < s->live_count; k++)
			if (l->processes[s->process] != PROFILE_NONE)
				list[used++] = (struct by_thread){l->processes[s->process],
								  &s->live[k]};
	}
	if (rc == 0)
		qsort(list, used, sizeof *list, compare_threads);
	for (uint64_t i = 0, next; i < used && rc == 0; i = next) {
		struct sums e = {0};
		struct profile_spread v = {0};
		uint32_t id;
		for (next = i; next < used && !compare_threads(&list[i], &list[next]); next++)
			add_left(list[next].sample, true, &e, &v);
		rc = find_thread(p, known, known_count, &at, &list[i], &id);
		if (rc < 0)
			break;
		p->threads[id].live_bytes = estimate_rounded(e.live_bytes);
		p->threads[id].live_blocks = estimate_rounded(e.live_blocks);
		p->threads[id].errors = estimate_errors(&v, p->run.rate_bytes, 0);
	}
	free(list);
	free(known);
	return rc;
}

int trace_load_sampled_parts(struct load *l)
{
	struct profile *p = l->p;
	for (uint32_t i = 0; i < l->c->samples_count; i++)
		if (l->processes[l->c->samples[i].process] != PROFILE_NONE)
			add_process(l, &l->c->samples[i]);
	if (p->process_count == 1) { /* the same to the last digit, whatever was rounded */
		p->processes[0].totals = p->totals;
		p->processes[0].errors = p->estimates.total_errors;
	}
	p->chosen.process_totals = true;
	return add_threads(l);
}
