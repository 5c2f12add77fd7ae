/* The tables of a sampled process. The process owns these pages as much as we do:
 * an entry is taken if its address is the same before and after, and everything in
 * it is checked or bounded; a wild store costs entries, never the reader. */
#include "record/sampled.h"

#include "base/arch.h"
#include "hosted/monotonic.h"
#include "hosted/number_words.h"
#include "wire/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE_LIMIT (1ull << 47)
#define RATE_LIMIT (1ull << 47)

static unsigned levels(_Atomic uint32_t *in_use)
{
	uint32_t n = atomic_load_explicit(in_use, memory_order_acquire);
	return n < WIRE_SAMPLE_LEVELS ? n : WIRE_SAMPLE_LEVELS;
}

/* The sample at slot i; false: there is none, or it is changing. */
static bool take(const struct wire_live_level *l, uint32_t i, struct wire_sample *out)
{
	uint64_t addr = atomic_load_explicit(&l->addresses[i], memory_order_acquire);
	if (addr <= WIRE_SAMPLE_BUSY)
		return false;
	memcpy(out, &l->blocks[i], sizeof *out);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&l->addresses[i], memory_order_relaxed) == addr &&
	       out->size < SIZE_LIMIT && out->rate_bytes && out->rate_bytes < RATE_LIMIT;
}

typedef void each_sample(void *ctx, const struct wire_sample *b);

static void each_live(const struct process *p, each_sample *each, void *ctx)
{
	struct wire_sample b;
	unsigned n = levels(&p->session.header->sampling.live_levels);
	for (unsigned k = 0; k < n; k++) {
		struct wire_live_level l = wire_live_level(p->base, k);
		for (uint32_t i = 0; i < 1u << l.bits; i++)
			if (take(&l, i, &b))
				each(ctx, &b);
	}
}

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
	memset(sums, 0, sizeof *sums);
	each_live(p, add_live, sums);
	unsigned n = levels(&p->session.header->sampling.sum_levels);
	for (unsigned k = 0; k < n; k++) {
		struct wire_sum_level l = wire_sum_level(p->base, k);
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

static void see_birth(void *ctx, const struct wire_sample *b)
{
	uint64_t *newest = ctx;
	if (b->birth_tsc > *newest)
		*newest = b->birth_tsc;
}

uint64_t sampled_last_seen_ns(const struct process *p)
{
	uint64_t newest = 0, tsc = arch_stamp_after(), start = p->session.header->start_mono_ns;
	uint64_t now = monotonic_ns();
	each_live(p, see_birth, &newest);
	if (newest <= p->start_tsc || newest >= tsc || now <= start)
		return 0;
	return (uint64_t)((double)(now - start) * (double)(newest - p->start_tsc) /
			  (double)(tsc - p->start_tsc));
}

/* ---- the peak */

struct kept { /* live samples, copied */
	struct wire_sample *list;
	uint32_t count, capacity;
	bool failed;
};

static void keep(void *ctx, const struct wire_sample *b)
{
	struct kept *k = ctx;
	if (k->count == k->capacity && !k->failed) {
		uint32_t bigger = k->capacity ? k->capacity * 2 : 256;
		struct wire_sample *list = realloc(k->list, bigger * sizeof *list);
		k->failed = !list;
		if (list) {
			k->list = list;
			k->capacity = bigger;
		}
	}
	if (!k->failed)
		k->list[k->count++] = *b;
}

/* Every sample costs something: while cost_tsc stands still there was none, and the live ones can
 * only have become fewer. So a quiet process costs a look at one word. */
static bool nothing_new(struct process *p)
{
	uint64_t cost = atomic_load_explicit(&p->session.header->sampling.cost_tsc,
					     memory_order_relaxed);
	pthread_mutex_lock(&p->lock);
	bool same = cost == p->peak.cost_tsc && p->peak.tsc;
	p->peak.cost_tsc = cost;
	pthread_mutex_unlock(&p->lock);
	return same;
}

static bool is_peak(struct process *p, double bytes)
{
	pthread_mutex_lock(&p->lock);
	bool more = bytes > p->peak.bytes;
	pthread_mutex_unlock(&p->lock);
	return more;
}

static void look_for_peak(struct process *p)
{
	struct sampled_sums now = {0};
	each_live(p, add_live, &now);
	if (!is_peak(p, now.live_bytes))
		return;
	struct kept k = {0};
	each_live(p, keep, &k);
	if (k.failed) {
		free(k.list);
		return;
	}
	pthread_mutex_lock(&p->lock);
	if (now.live_bytes > p->peak.bytes) { /* nobody else saw more meanwhile */
		struct wire_sample *was = p->peak.samples;
		p->peak.samples = k.list;
		p->peak.count = k.count;
		p->peak.bytes = now.live_bytes;
		p->peak.objects = now.live_objects;
		p->peak.tsc = arch_stamp_after();
		k.list = was;
	}
	pthread_mutex_unlock(&p->lock);
	free(k.list);
}

void sampled_see_peak(struct process *p)
{
	if (!nothing_new(p))
		look_for_peak(p);
}

/* ---- into a recording */

struct converted { /* samples with the sites and times of a recording */
	struct drain *d;
	struct process_stacks *stacks;
	struct trace_sample *list;
	uint32_t count;
};

static uint64_t time_of(const struct drain *d, uint64_t tsc)
{
	uint64_t since = tsc > d->clock.tsc0 ? tsc - d->clock.tsc0 : 0;
	return (uint64_t)((unsigned __int128)since * d->clock.mult >> 32);
}

/* What makes no sense is left out. */
static void convert(struct converted *c, const struct wire_sample *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, b++) {
		uint32_t site;
		if (stack_map_site(&c->d->stacks, c->stacks, b->site, &site))
			continue;
		c->list[c->count++] = (struct trace_sample){
			.site = site,
			.tid = b->tid,
			.size = b->size,
			.rate_bytes = b->rate_bytes,
			.birth_ns = time_of(c->d, b->birth_tsc),
		};
	}
}

static int convert_live(struct drain *d, struct process *p, struct process_stacks *stacks,
			struct trace_samples *out)
{
	struct kept now = {0};
	each_live(p, keep, &now);
	pthread_mutex_lock(&p->lock);
	struct converted live = {d, stacks, calloc(now.count + 1u, sizeof *out->live), 0};
	struct converted peak = {d, stacks, calloc(p->peak.count + 1u, sizeof *out->peak), 0};
	int rc = now.failed || !live.list || !peak.list ? HEFT_ENOMEM : 0;
	if (!rc) {
		convert(&live, now.list, now.count);
		convert(&peak, p->peak.samples, p->peak.count);
		out->peak_time_ns = time_of(d, p->peak.tsc);
		if (out->peak_time_ns > out->time_ns) /* seen for the last time after its end */
			out->peak_time_ns = out->time_ns;
	}
	pthread_mutex_unlock(&p->lock);
	free(now.list);
	out->live = live.list;
	out->live_count = live.count;
	out->peak = peak.list;
	out->peak_count = peak.count;
	return rc;
}

static int convert_sums(struct drain *d, struct process *p, struct process_stacks *stacks,
			struct trace_samples *out)
{
	unsigned n = levels(&p->session.header->sampling.sum_levels);
	size_t room = 1;
	for (unsigned k = 0; k < n; k++)
		room += (size_t)1 << wire_sum_level(p->base, k).bits;
	out->sums = calloc(room, sizeof *out->sums);
	if (!out->sums)
		return HEFT_ENOMEM;
	for (unsigned k = 0; k < n; k++) {
		struct wire_sum_level l = wire_sum_level(p->base, k);
		for (uint32_t i = 0; i < 1u << l.bits; i++) {
			struct trace_sample_sum s = sum_of(&l.sums[i]);
			if (s.site && !stack_map_site(&d->stacks, stacks, s.site, &s.site))
				out->sums[out->sum_count++] = s;
		}
	}
	return 0;
}

void sampled_write(struct drain *d, struct process *p, struct process_stacks *stacks,
		   uint32_t index, uint64_t time_ns)
{
	struct wire_header *h = p->session.header;
	struct trace_samples now = {
		.process = index,
		.time_ns = time_ns,
		.rate_bytes = atomic_load(&h->sampling.rate_bytes),
		.on = atomic_load(&h->sampling.on) != 0,
	};
	look_for_peak(p); /* in any case: the peak is never less than what is written as live */
	process_stacks_read_log(&d->stacks, stacks);
	if (!convert_live(d, p, stacks, &now) && !convert_sums(d, p, stacks, &now))
		trace_writer_samples(d->writer, &now); /* latches its failure */
	trace_samples_fini(&now);
}

/* ---- switching */

/* The process itself shuts the gate, when it has no live samples left. */
static void set_on(struct wire_sampling *s, bool on)
{
	atomic_store(&s->on, on);
	if (on)
		atomic_store(&s->gate, WIRE_GATE_COUNT);
}

void sampled_control(struct process *p, bool on, uint64_t rate_bytes)
{
	struct wire_sampling *s = &p->session.header->sampling;
	if (rate_bytes) {
		atomic_store(&s->rate_bytes, rate_bytes);
		atomic_store(&s->automatic, 0);
	}
	set_on(s, on);
}

void sampled_control_automatic(struct process *p)
{
	struct wire_sampling *s = &p->session.header->sampling;
	atomic_store(&s->automatic, 1);
	set_on(s, true);
}

/* A share of less CPU time than this is noise. */
#define CPU_LEAST_NS 10000000

/* CPU time of the process so far, or 0. */
static uint64_t cpu_ns(const struct process *p)
{
	clockid_t clock;
	struct timespec t;
	if (clock_getcpuclockid(p->pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* A rate is changed by a factor of two at most each time, so that one burst does not throw it far, and
 * only if it is off by a tenth. */
double sampled_follow_budget(struct process *p)
{
	struct wire_sampling *s = &p->session.header->sampling;
	uint64_t cpu = cpu_ns(p), cost = atomic_load(&s->cost_tsc), tsc = arch_stamp_after();
	pthread_mutex_lock(&p->lock);
	struct process_cost was = p->cost;
	pthread_mutex_unlock(&p->lock);
	uint64_t now = monotonic_ns();
	if (!cpu)
		return was.share;
	if (was.cpu_ns && cpu < was.cpu_ns + CPU_LEAST_NS)
		return was.share; /* too little to tell: when there is more */
	bool measured = was.cpu_ns && tsc > was.tsc && cost >= was.cost_tsc;
	double share = was.share;
	if (measured) {
		double ns_each = (double)(now - was.mono_ns) / (double)(tsc - was.tsc);
		share = (double)(cost - was.cost_tsc) * ns_each / (double)(cpu - was.cpu_ns);
	}
	pthread_mutex_lock(&p->lock);
	p->cost = (struct process_cost){cpu, cost, tsc, now, share};
	pthread_mutex_unlock(&p->lock);
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
	struct wire_header *h = p->session.header;
	uint64_t cpu = cpu_ns(p), tsc = arch_stamp_after(), start = h->start_mono_ns;
	uint64_t now = monotonic_ns();
	if (cpu < CPU_LEAST_NS || tsc <= p->start_tsc || now <= start)
		return -1;
	double ns_each = (double)(now - start) / (double)(tsc - p->start_tsc);
	return (double)atomic_load(&h->sampling.cost_tsc) * ns_each / (double)cpu;
}

bool sampled_budget_words(const struct process *p, char *text, size_t size)
{
	struct wire_sampling *s = &p->session.header->sampling;
	char rate[NUMBER_WORDS], cost[64] = "what it costs is not known yet";
	if (!atomic_load(&s->automatic))
		return false;
	number_bytes(rate, atomic_load(&s->rate_bytes), "byte", "bytes");
	if (p->cost.share >= 0)
		snprintf(cost, sizeof cost, "cost %.2g %%", 100 * p->cost.share);
	snprintf(text, size, "rate follows a budget of %.2g %% of CPU: now one sample each %s, %s",
		 100 * SAMPLED_BUDGET, rate, cost);
	return true;
}
