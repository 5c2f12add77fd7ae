/* Finds the peaks of sampled processes: of each one, and of the sum of all at one instant.
 *
 * The recorder looks at the processes every few ms. Each live sample says when it was made, so a look
 * also shows, for every instant since the last look, what was there then and still is. The sum rises only
 * by births, and falls when a process ends. So it is greatest at a look or when a process ends, and
 * those instants are compared.
 *
 * The recorder notices an end late. A process counts up to its end_tsc (recorder_ends.c), so that
 * processes that ran one after the other are not added.
 *
 * Invariants: part.together of every process, and `closed` for those that are closed, are what they had at
 * the instant s->tsc. s->bytes never falls. */
#include "agent/sampled.h"

#include "agent/sampled_live.h"
#include "base/arch.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

/* ---- of one process */

static void add_bytes(void *ctx, const struct wire_sample *b)
{
	double *sum = ctx;
	*sum += sampled_bytes(b);
}

static double live_bytes(const struct process *p)
{
	double sum = 0;
	sampled_each_live(p->view.base, add_bytes, &sum);
	return sum;
}

/* Every sample raises cost_tsc. While it stays the same there was no sample, and live ones can only have
 * become fewer. So a quiet process costs a look at one word. */
static bool nothing_new(struct process *p)
{
	uint64_t cost = atomic_load_explicit(&p->view.session.header->sampling.cost_tsc,
					     memory_order_relaxed);
	pthread_mutex_lock(&p->samples.lock);
	bool same = cost == p->samples.peak.cost_tsc && p->samples.peak.looked;
	p->samples.peak.cost_tsc = cost;
	p->samples.peak.looked = true;
	pthread_mutex_unlock(&p->samples.lock);
	return same;
}

static bool is_peak(struct process *p, double bytes)
{
	pthread_mutex_lock(&p->samples.lock);
	bool more = bytes > p->samples.peak.bytes;
	pthread_mutex_unlock(&p->samples.lock);
	return more;
}

static double objects_of(const struct sample_list *k)
{
	double objects = 0;
	for (uint32_t i = 0; i < k->count; i++)
		objects += 1 / trace_sample_chance(k->list[i].size, k->list[i].rate_bytes);
	return objects;
}

static void keep_peak(struct process *p, double bytes)
{
	struct sample_list k = {0};
	if (!is_peak(p, bytes))
		return;
	sampled_each_live(p->view.base, sample_list_add, &k);
	if (k.failed) {
		free(k.list);
		return;
	}
	pthread_mutex_lock(&p->samples.lock);
	if (bytes > p->samples.peak.bytes) { /* no other thread has seen more meanwhile */
		struct wire_sample *was = p->samples.peak.samples;
		p->samples.peak.samples = k.list;
		p->samples.peak.count = k.count;
		p->samples.peak.bytes = bytes;
		p->samples.peak.objects = objects_of(&k);
		p->samples.peak.tsc = arch_stamp_after();
		k.list = was;
	}
	pthread_mutex_unlock(&p->samples.lock);
	free(k.list);
}

void sampled_look_for_peak(struct process *p)
{
	keep_peak(p, live_bytes(p));
}

void sampled_see_peak(struct process *p)
{
	if (!nothing_new(p))
		sampled_look_for_peak(p);
}

/* ---- of the sum */

/* A new sample changes the cost, a freed one the number of live ones: if both are the same, nothing happened. */
static void refresh_level(struct process *p)
{
	struct wire_sampling *s = &p->view.session.header->sampling;
	struct process_level *l = &p->part.level;
	uint64_t cost = atomic_load_explicit(&s->cost_tsc, memory_order_relaxed);
	uint32_t live = atomic_load_explicit(&s->live, memory_order_relaxed);
	if (l->version && l->cost_tsc == cost && l->live == live)
		return;
	*l = (struct process_level){live_bytes(p), cost, live, l->version + 1};
	keep_peak(p, l->bytes);
}

static bool is_looked_at(const struct process *p)
{
	return p->view.sampled && !p->closed && !p->view.corrupt;
}

/* A moment at which the sum of all processes changed */
struct step {
	uint64_t tsc;
	double bytes;
};

static int by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes; /* births before ends */
}

struct steps {
	struct step *list;
	size_t count, capacity;
	bool failed;
	double bytes; /* of the process being added */
	uint64_t newest_tsc;
};

static void add_step(struct steps *s, uint64_t tsc, double bytes)
{
	s->failed = s->failed || !array_reserve(s->list, s->count, s->capacity, 1);
	if (!s->failed)
		s->list[s->count++] = (struct step){tsc, bytes};
}

static void add_birth(void *ctx, const struct wire_sample *b)
{
	struct steps *s = ctx;
	double bytes = sampled_bytes(b);
	add_step(s, b->birth_tsc, bytes);
	s->bytes += bytes;
	if (b->birth_tsc > s->newest_tsc)
		s->newest_tsc = b->birth_tsc;
}

/* The instant at which the sum of what the tables still hold was greatest, and *most, that sum. 0: not known. */
static uint64_t greatest_instant(struct process *const *list, uint32_t count, double *most)
{
	struct steps s = {0};
	uint64_t at = 0;
	double sum = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct process *p = list[i];
		if (!is_looked_at(p))
			continue;
		s.bytes = 0;
		s.newest_tsc = 0;
		sampled_each_live(p->view.base, add_birth, &s);
		if (p->ended && p->end_tsc < s.newest_tsc)
			p->end_tsc = s.newest_tsc;
		if (p->ended)
			add_step(&s, p->end_tsc, -s.bytes);
	}
	*most = 0;
	if (!s.failed && s.count)
		qsort(s.list, s.count, sizeof *s.list, by_time);
	for (size_t i = 0; !s.failed && i < s.count; i++) {
		sum += s.list[i].bytes;
		if (sum > *most) {
			*most = sum;
			at = s.list[i].tsc;
		}
	}
	free(s.list);
	return at;
}

struct copy_until {
	struct sample_list copy;
	uint64_t tsc;
};

static void add_older(void *ctx, const struct wire_sample *b)
{
	struct copy_until *c = ctx;
	if (b->birth_tsc <= c->tsc)
		sample_list_add(&c->copy, b);
}

static void drop_together(struct process *p)
{
	free(p->part.together.samples);
	memset(&p->part.together, 0, sizeof p->part.together);
}

/* Keeps what p had at the instant at_tsc. whole: that is all that it has now. */
static void keep_together(struct process *p, uint64_t at_tsc, bool whole)
{
	struct copy_until c = {.tsc = at_tsc};
	if (whole && p->part.together.version == p->part.level.version && p->part.together.version)
		return; /* nothing has changed since it was kept */
	drop_together(p);
	if (!is_looked_at(p) || p->start_tsc > at_tsc || (p->ended && p->end_tsc < at_tsc))
		return;
	sampled_each_live(p->view.base, add_older, &c);
	if (c.copy.failed || !c.copy.count) {
		free(c.copy.list);
		return;
	}
	p->part.together.samples = c.copy.list;
	p->part.together.count = c.copy.count;
	p->part.together.version = whole ? p->part.level.version : 0;
}

static void drop_closed(struct sampled_sum *s)
{
	for (uint32_t i = 0; i < s->closed_count; i++)
		free(s->closed[i].samples);
	free(s->closed);
	s->closed = NULL;
	s->closed_count = 0;
}

void sampled_sum_look(struct sampled_sum *s, struct process *const *list, uint32_t count)
{
	double most = 0;
	bool ended = false;
	uint32_t with = 0; /* processes that had something */
	uint64_t now = arch_stamp_after();
	for (uint32_t i = 0; i < count; i++)
		if (is_looked_at(list[i])) {
			refresh_level(list[i]);
			most += list[i]->part.level.bytes;
			ended |= list[i]->ended;
		}
	/* The sum of all was not greater than this at any instant since the last look. */
	if (most <= s->bytes)
		return;
	if (ended)
		now = greatest_instant(list, count, &most);
	if (!now || most <= s->bytes)
		return;
	for (uint32_t i = 0; i < count; i++)
		if (is_looked_at(list[i]) && list[i]->part.level.bytes > 0)
			with++;
	for (uint32_t i = 0; i < count; i++) {
		if (with > 1)
			keep_together(list[i], now, !ended);
		else
			drop_together(list[i]);
	}
	drop_closed(s);
	*s = (struct sampled_sum){.bytes = most, .tsc = now, .alone = with <= 1, .unsaved = true};
}

/* What p had at the greatest sum, converted for the recording. 0 samples: no memory. */
static struct trace_peak_part part_of(const struct sampled_output *to, struct process *p)
{
	struct trace_peak_part part = {
		.process = p->index, .count = p->part.together.count, .own = true};
	process_stacks_read_log(to->stacks, &p->stacks);
	part.samples = sampled_convert(to, &p->stacks, p->part.together.samples, &part.count);
	if (!part.samples)
		part.count = 0;
	return part;
}

void sampled_sum_close(struct sampled_sum *s, const struct sampled_output *to, struct process *p)
{
	if (!p->part.together.count)
		return;
	struct trace_peak_part *more = reallocarray(s->closed, s->closed_count + 1u, sizeof *more);
	if (more) {
		s->closed = more;
		s->closed[s->closed_count++] = part_of(to, p);
	}
	drop_together(p);
}

static int by_process(const void *a, const void *b)
{
	const struct trace_peak_part *x = a, *y = b;
	return x->process < y->process ? -1 : x->process > y->process;
}

void sampled_sum_write(struct sampled_sum *s, const struct sampled_output *to,
		       struct process *const *list, uint32_t count)
{
	struct trace_peak peak = {.time_ns = tsc_clock_time(to->clock, s->tsc)};
	uint32_t with = s->closed_count;
	for (uint32_t i = 0; i < count; i++)
		with += list[i]->part.together.count > 0;
	if (!s->unsaved || s->alone || !with || !(peak.parts = calloc(with, sizeof *peak.parts)))
		return;
	for (uint32_t i = 0; i < s->closed_count; i++) {
		peak.parts[peak.part_count] = s->closed[i];
		peak.parts[peak.part_count++].own = false;
	}
	for (uint32_t i = 0; i < count; i++)
		if (list[i]->part.together.count)
			peak.parts[peak.part_count++] = part_of(to, list[i]);
	qsort(peak.parts, peak.part_count, sizeof *peak.parts, by_process);
	stack_map_write(to->stacks, to->writer);
	trace_writer_peak(to->writer, &peak); /* latches its failure */
	s->unsaved = false;
	trace_peak_fini(&peak);
}

void sampled_sum_fini(struct sampled_sum *s)
{
	drop_closed(s);
}
