/* Adds up what a sampled process keeps in its tables, writes it into a recording, and switches
 * sampling on and off. sampled_live.c reads live samples, sampled_peak.c finds peaks. Everything that
 * is read from the tables is checked or bounded: a wild store of the program costs entries, but does
 * not harm the reader. */
#include "agent/sampled.h"

#include "agent/sampled_live.h"
#include "base/arch.h"
#include "hosted/monotonic.h"
#include "hosted/number_words.h"
#include "hosted/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double bits_double(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof value);
	return value >= 0 && value < 1e38 ? value : 0;
}

static struct trace_sample_sum sum_of(struct wire_sum *w)
{
	return (struct trace_sample_sum){
		.site = atomic_load_explicit(&w->site, memory_order_relaxed),
		.samples = atomic_load(&w->samples),
		.bytes = (double)atomic_load(&w->bytes_16) / 16,
		.objects = (double)atomic_load(&w->objects_1024) / 1024,
		.bytes_variance = bits_double(atomic_load(&w->bytes_variance)),
		.objects_variance = bits_double(atomic_load(&w->objects_variance)),
	};
}

static void add_live(void *ctx, const struct wire_sample *b)
{
	struct sampled_sums *sums = ctx;
	double objects = 1 / trace_sample_chance(b->size, b->rate_bytes);
	sums->live_samples++;
	sums->live_objects += objects;
	sums->live_bytes += (double)b->size * objects;
}

void sampled_sums(const struct process *p, struct sampled_sums *sums)
{
	const struct process_rest *rest = atomic_load(&p->samples.rest);
	if (rest) {
		*sums = rest->sums;
		return;
	}
	memset(sums, 0, sizeof *sums);
	sampled_each_live(p->view.base, add_live, sums);
	unsigned n = sampled_levels(&p->view.session.header->sampling.sum_levels);
	for (unsigned k = 0; k < n; k++) {
		struct wire_sum_level l = wire_sum_level(p->view.base, k);
		for (uint32_t i = 0; i < 1u << l.bits; i++) {
			struct trace_sample_sum s = sum_of(&l.sums[i]);
			if (!s.site)
				continue;
			sums->samples += s.samples;
			sums->allocated_bytes += s.bytes;
			sums->allocated_objects += s.objects;
		}
	}
}

uint64_t sampled_last_seen_ns(const struct process *p)
{
	uint64_t newest = sampled_newest_tsc(p->view.base),
		 start = p->view.session.header->start_mono_ns;
	uint64_t tsc = arch_stamp_after(), now = monotonic_ns();
	if (newest <= p->start_tsc || newest >= tsc || now <= start)
		return 0;
	return (uint64_t)((double)(now - start) * (double)(newest - p->start_tsc) /
			  (double)(tsc - p->start_tsc));
}

/* ---- into a recording */

/* Leaves out samples that make no sense. */
struct trace_sample *sampled_convert(const struct sampled_output *to, struct process_stacks *stacks,
				     const struct wire_sample *b, uint32_t *count)
{
	struct trace_sample *list = calloc(*count + 1u, sizeof *list);
	uint32_t used = 0;
	for (uint32_t i = 0; list && i < *count; i++, b++) {
		uint32_t site;
		if (stack_map_site(to->stacks, stacks, b->site, &site))
			continue;
		list[used++] = (struct trace_sample){
			.site = site,
			.tid = b->tid,
			.size = b->size,
			.rate_bytes = b->rate_bytes,
			.birth_ns = tsc_clock_time(to->clock, b->birth_tsc),
			.progress_bytes = b->progress_bytes,
		};
	}
	*count = used;
	return list;
}

static int convert_live(const struct sampled_output *to, void *base, struct process_stacks *stacks,
			const struct process_peak *peak, struct trace_samples *out)
{
	struct sample_list now = {0};
	sampled_each_live(base, sample_list_add, &now);
	out->live_count = now.count;
	out->peak_count = peak->count;
	out->live = sampled_convert(to, stacks, now.list, &out->live_count);
	out->peak = sampled_convert(to, stacks, peak->samples, &out->peak_count);
	out->peak_time_ns = tsc_clock_time(to->clock, peak->tsc);
	if (out->peak_time_ns > out->time_ns) /* the last look came after its end */
		out->peak_time_ns = out->time_ns;
	free(now.list);
	return now.failed || !out->live || !out->peak ? HEFT_ENOMEM : 0;
}

static int convert_sums(const struct sampled_output *to, void *base, struct process_stacks *stacks,
			struct trace_samples *out)
{
	unsigned n = sampled_levels(&wire_session_at(base).header->sampling.sum_levels);
	uint32_t capacity = 0;
	for (unsigned k = 0; k < n; k++) {
		struct wire_sum_level l = wire_sum_level(base, k);
		for (uint32_t i = 0; i < 1u << l.bits; i++) {
			struct trace_sample_sum s = sum_of(&l.sums[i]);
			if (!s.site || stack_map_site(to->stacks, stacks, s.site, &s.site))
				continue;
			if (!array_reserve(out->sums, out->sum_count, capacity, 1))
				return HEFT_ENOMEM;
			out->sums[out->sum_count++] = s;
		}
	}
	return 0;
}

int sampled_convert_all(const struct sampled_output *to, void *base, struct process_stacks *stacks,
			const struct process_peak *peak, struct trace_samples *out)
{
	const struct wire_sampling *s = &wire_session_at(base).header->sampling;
	out->rate_bytes = atomic_load(&s->rate_bytes);
	out->progress_bytes = atomic_load(&s->progress_bytes);
	out->on = atomic_load(&s->on) != 0;
	process_stacks_read_log(to->stacks, stacks); /* what makes no sense ends it */
	int rc = convert_live(to, base, stacks, peak, out);
	return rc ? rc : convert_sums(to, base, stacks, out);
}

void sampled_write(const struct sampled_output *to, struct process *p,
		   struct process_stacks *stacks, uint32_t index, uint64_t time_ns)
{
	struct trace_samples now = {.process = index, .time_ns = time_ns};
	sampled_look_for_peak(p); /* so that the peak is never less than what is live */
	pthread_mutex_lock(&p->samples.lock);
	int rc = sampled_convert_all(to, p->view.base, stacks, &p->samples.peak, &now);
	pthread_mutex_unlock(&p->samples.lock);
	stack_map_write(to->stacks, to->writer);
	if (!rc)
		trace_writer_samples(to->writer, &now); /* latches its failure */
	trace_samples_fini(&now);
}

/* ---- switching */

/* The process itself closes the gate, when it has no live samples left. */
static void set_on(struct wire_sampling *s, bool on)
{
	atomic_store(&s->on, on);
	if (on)
		atomic_store(&s->gate, WIRE_GATE_COUNT);
}

void sampled_control(struct process *p, bool on, uint64_t rate_bytes)
{
	struct wire_sampling *s = &p->view.session.header->sampling;
	if (rate_bytes) {
		atomic_store(&s->rate_bytes, rate_bytes);
		atomic_store(&s->automatic, 0);
	}
	set_on(s, on);
}

void sampled_control_automatic(struct process *p)
{
	struct wire_sampling *s = &p->view.session.header->sampling;
	atomic_store(&s->automatic, 1);
	set_on(s, true);
}

/* A share of less CPU time than this would be noise. */
#define CPU_LEAST_NS 10000000

/* The CPU time of the process so far; 0: not known. */
static uint64_t cpu_ns(const struct process *p)
{
	clockid_t clock;
	struct timespec t;
	if (clock_getcpuclockid(p->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* A rate changes by a factor of two at most, so that one burst does not change it much, and only if it is
 * wrong by a tenth. */
double sampled_follow_budget(struct process *p)
{
	struct wire_sampling *s = &p->view.session.header->sampling;
	uint64_t cpu = cpu_ns(p), cost = atomic_load(&s->cost_tsc), tsc = arch_stamp_after();
	pthread_mutex_lock(&p->samples.lock);
	struct process_cost was = p->samples.cost;
	pthread_mutex_unlock(&p->samples.lock);
	uint64_t now = monotonic_ns();
	if (!cpu)
		return was.share;
	if (was.cpu_ns && cpu < was.cpu_ns + CPU_LEAST_NS)
		return was.share; /* too little CPU time to measure */
	bool measured = was.cpu_ns && tsc > was.tsc && cost >= was.cost_tsc;
	double share = was.share;
	if (measured) {
		double ns_each = (double)(now - was.mono_ns) / (double)(tsc - was.tsc);
		share = (double)(cost - was.cost_tsc) * ns_each / (double)(cpu - was.cpu_ns);
	}
	pthread_mutex_lock(&p->samples.lock);
	p->samples.cost = (struct process_cost){cpu, cost, tsc, now, share};
	pthread_mutex_unlock(&p->samples.lock);
	if (!measured)
		return share;
	uint64_t rate = atomic_load(&s->rate_bytes);
	double factor = share / SAMPLED_BUDGET;
	if (!atomic_load(&s->automatic) || !rate || fabs(factor - 1) < 0.1)
		return share;
	factor = factor < 0.5 ? 0.5 : factor > 2 ? 2 : factor;
	double next = (double)rate * factor;
	next = next < SAMPLED_AUTO_LEAST ? SAMPLED_AUTO_LEAST : next;
	next = next > SAMPLED_RATE_MOST ? SAMPLED_RATE_MOST : next;
	atomic_store(&s->rate_bytes, (uint64_t)next);
	return share;
}

double sampled_cost_share(const struct process *p)
{
	struct wire_header *h = p->view.session.header;
	uint64_t cpu = cpu_ns(p), tsc = arch_stamp_after(), start = h->start_mono_ns;
	uint64_t now = monotonic_ns();
	if (cpu < CPU_LEAST_NS || tsc <= p->start_tsc || now <= start)
		return -1;
	double ns_each = (double)(now - start) / (double)(tsc - p->start_tsc);
	return (double)atomic_load(&h->sampling.cost_tsc) * ns_each / (double)cpu;
}

bool sampled_budget_words(const struct process *p, char *text, size_t size)
{
	struct wire_sampling *s = &p->view.session.header->sampling;
	char rate[NUMBER_WORDS], cost[64] = "the cost is not known yet";
	if (!atomic_load(&s->automatic))
		return false;
	number_bytes(rate, atomic_load(&s->rate_bytes), "byte", "bytes");
	if (p->samples.cost.share >= 0)
		snprintf(cost, sizeof cost, "cost %.2g %%", 100 * p->samples.cost.share);
	snprintf(text, size,
		 "the rate is adjusted to cost %.2g %% of CPU time: now one sample per %s, %s",
		 100 * SAMPLED_BUDGET, rate, cost);
	return true;
}
