/* What several sampled processes had together at the peak: the greatest sum at one instant.
 *
 * The recorder looks at all of them at once and writes down the samples of the greatest sum that it saw
 * (TRACE_BLOCK_PEAK). That is the peak of the whole recording, sample by sample. A recording may lack
 * it: it was cut or is still being written, an older heft wrote it, or only some processes are wanted.
 * Then the peak comes from the samples of each process. A sample of its greatest estimate was there from
 * its birth up to that moment; one that it had at its end was there from its birth up to its end. The
 * sum of these over time is what was there for certain. Its greatest value is the peak, and the samples
 * that make it up are the sites' shares.
 *
 * The greater of both is taken. So the peak is never below that of any one process, it is never a sum
 * over time, and it is always the sum of samples that were there at one instant. */
#include "profile/trace_samples.h"

#include "hosted/compare.h"
#include "profile/estimate.h"

#include <stdlib.h>
#include <string.h>

/* A sample, and until when it was there for certain. */
struct interval {
	const struct trace_sample *sample;
	uint64_t until_ns;
	uint32_t process;
};

struct step {
	uint64_t time_ns;
	double bytes;
};

struct known {
	struct interval *list;
	size_t count;
	uint64_t time_ns; /* of the greatest sum */
	double bytes;     /* the greatest sum */
};

static double bytes_of(const struct trace_sample *s)
{
	return estimate_of_block(s->size, s->rate_bytes).bytes;
}

uint64_t trace_samples_moment(const struct trace_process *q, uint64_t time_ns)
{
	return q->end != TRACE_END_RUNNING && q->end_ns > q->start_ns && q->end_ns < time_ns
		       ? q->end_ns
		       : time_ns;
}

static int by_sample(const void *a, const void *b)
{
	const struct interval *i = a, *k = b;
	const struct trace_sample *x = i->sample, *y = k->sample;
	return compare_numbers(x->birth_ns, y->birth_ns) ?: compare_numbers((uint32_t)x->tid, (uint32_t)y->tid) ?: compare_numbers(x->site, y->site) ?: compare_numbers(x->size, y->size) ?: compare_numbers(x->rate_bytes, y->rate_bytes);
}

/* The samples of one process, each once: what it had at its peak and at its end overlaps. */
static void add_process(struct known *k, const struct trace_samples *s,
			const struct trace_process *q)
{
	struct interval *own = k->list + k->count;
	size_t n = 0, used = 0;
	uint32_t peak_count;
	uint64_t peak_ns, live_ns = trace_samples_moment(q, s->time_ns);
	const struct trace_sample *peak = trace_samples_peak(s, &peak_count, &peak_ns);
	peak_ns = trace_samples_moment(q, peak_ns);
	for (uint32_t i = 0; i < s->live_count; i++)
		own[n++] = (struct interval){&s->live[i], live_ns, s->process};
	for (uint32_t i = 0; i < peak_count && peak != s->live; i++)
		own[n++] = (struct interval){&peak[i], peak_ns, s->process};
	if (n)
		qsort(own, n, sizeof *own, by_sample);
	for (size_t i = 0; i < n; i++) {
		if (used && by_sample(&own[used - 1], &own[i]) == 0) {
			if (own[i].until_ns > own[used - 1].until_ns)
				own[used - 1].until_ns = own[i].until_ns;
			continue;
		}
		own[used++] = own[i];
	}
	k->count += used;
}

static int by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes; /* the last moment counts */
}

static uint64_t birth_of(const struct interval *i)
{
	return i->sample->birth_ns < i->until_ns ? i->sample->birth_ns : i->until_ns;
}

static int find_instant(struct known *k)
{
	double sum = 0;
	struct step *steps = malloc((2 * k->count + 1) * sizeof *steps);
	if (!steps)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < k->count; i++) {
		double bytes = bytes_of(k->list[i].sample);
		steps[2 * i] = (struct step){birth_of(&k->list[i]), bytes};
		steps[2 * i + 1] = (struct step){k->list[i].until_ns, -bytes};
	}
	if (k->count)
		qsort(steps, 2 * k->count, sizeof *steps, by_time);
	for (size_t i = 0; i < 2 * k->count; i++) {
		sum += steps[i].bytes;
		if (sum > k->bytes) {
			k->bytes = sum;
			k->time_ns = steps[i].time_ns;
		}
	}
	free(steps);
	return 0;
}

static int reserve_samples(struct trace_at_peak *out, size_t count)
{
	out->list = malloc((count + 1) * sizeof *out->list);
	return out->list ? 0 : HEFT_ENOMEM;
}

/* What the recorder saw. */
static int take_seen(const struct trace_peak *p, struct trace_at_peak *out)
{
	size_t count = 0;
	for (uint32_t i = 0; i < p->part_count; i++)
		count += p->parts[i].count;
	if (reserve_samples(out, count))
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->part_count; i++)
		for (uint32_t k = 0; k < p->parts[i].count; k++)
			out->list[out->count++] = (struct trace_peak_sample){
				&p->parts[i].samples[k], p->parts[i].process};
	out->time_ns = p->time_ns;
	return 0;
}

static int take_known(const struct known *k, struct trace_at_peak *out)
{
	if (reserve_samples(out, k->count))
		return HEFT_ENOMEM;
	for (size_t i = 0; i < k->count; i++)
		if (birth_of(&k->list[i]) <= k->time_ns && k->list[i].until_ns >= k->time_ns)
			out->list[out->count++] = (struct trace_peak_sample){k->list[i].sample,
									     k->list[i].process};
	out->time_ns = k->time_ns;
	return 0;
}

static int take_one(const struct trace_samples *s, struct trace_at_peak *out)
{
	uint32_t count = 0;
	const struct trace_sample *peak = s ? trace_samples_peak(s, &count, &out->time_ns) : NULL;
	if (reserve_samples(out, count))
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		out->list[out->count++] = (struct trace_peak_sample){&peak[i], s->process};
	return 0;
}

int trace_samples_at_peak(const struct trace_contents *c, const bool *processes,
			  struct trace_at_peak *out)
{
	const struct trace_samples *only = NULL;
	uint32_t wanted = 0;
	size_t samples = 0;
	double seen = 0;
	memset(out, 0, sizeof *out);
	for (uint32_t i = 0; i < c->samples_count; i++)
		if (processes[c->samples[i].process]) {
			only = &c->samples[i];
			wanted++;
			samples += (size_t)only->live_count + only->peak_count;
		}
	if (wanted <= 1)
		return take_one(only, out);
	struct known k = {.list = malloc((samples + 1) * sizeof *k.list)};
	if (!k.list)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->samples_count; i++)
		if (processes[c->samples[i].process])
			add_process(&k, &c->samples[i], &c->processes[c->samples[i].process]);
	int rc = find_instant(&k);
	for (uint32_t i = 0; wanted == c->samples_count && i < c->peak->part_count; i++)
		for (uint32_t n = 0; n < c->peak->parts[i].count; n++)
			seen += bytes_of(&c->peak->parts[i].samples[n]);
	if (rc == 0)
		rc = seen > 0 && seen >= k.bytes ? take_seen(c->peak, out) : take_known(&k, out);
	free(k.list);
	return rc;
}
