/* From a session file to the tables of a recording. These are what readers of recordings work on, so the model
 * is made of them as of any recording's; no file is written for it.
 *
 * The session file is hostile. It is copied first (sampled_copy.c), so nothing changes while it is read, and
 * everything in it is checked or bounded: stack_map.c for nodes and modules, sampled_live.c for samples. What
 * makes no sense is left out. */
#include "agent/sampled_reading.h"

#include "agent/sampled.h"
#include "agent/sampled_copy.h"
#include "hosted/monotonic.h"
#include "session/process_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is known beside the file */

static int copy_peak(struct process *p, struct sampled_known *k)
{
	sampled_look_for_peak(p);
	pthread_mutex_lock(&p->samples.lock);
	const struct process_peak *peak = &p->samples.peak;
	k->peak = malloc((peak->count + 1u) * sizeof *k->peak);
	if (k->peak && peak->count)
		memcpy(k->peak, peak->samples, peak->count * sizeof *k->peak);
	k->peak_count = k->peak ? peak->count : 0;
	k->peak_tsc = peak->tsc;
	pthread_mutex_unlock(&p->samples.lock);
	return k->peak ? 0 : HEFT_ENOMEM;
}

int sampled_known_of(struct process *p, struct sampled_known *k)
{
	memset(k, 0, sizeof *k);
	if (copy_peak(p, k))
		return HEFT_ENOMEM;
	k->start_tsc = p->start_tsc;
	k->attached = p->attached;
	pthread_mutex_lock(&p->entry.lock);
	k->facts = p->entry.facts;
	k->limit_bytes = p->entry.limit_bytes;
	k->limit_is_cgroup = p->entry.limit_is_cgroup;
	k->rss_bytes = p->entry.rss.bytes;
	k->rss_peak_bytes = p->entry.rss.peak_bytes;
	k->rss_peak_ns = p->entry.rss.peak_ns;
	pthread_mutex_unlock(&p->entry.lock);
	k->has_anonymous = process_anonymous(p, &k->anonymous);
	if (!process_allocator_words(p, k->allocator, sizeof k->allocator))
		k->allocator[0] = 0;
	return 0;
}

void sampled_known_fini(struct sampled_known *k)
{
	free(k->peak);
	memset(k, 0, sizeof *k);
}

/* ---- the file */

/* A clock that began with the process, at the rate between then and now. The header may say anything: if the
 * rate is impossible, the usual one stays. */
static struct tsc_clock clock_of(const struct wire_header *h, uint64_t start_tsc)
{
	struct tsc_clock c;
	tsc_clock_start(&c);
	double each = c.tsc0 > start_tsc && c.ns0 > h->start_mono_ns
			      ? (double)(c.ns0 - h->start_mono_ns) / (double)(c.tsc0 - start_tsc)
			      : 0;
	if (each > 0.05 && each < 10) {
		c.ns0 = h->start_mono_ns;
		c.mult = (uint64_t)(each * 4294967296.0);
	}
	c.tsc0 = start_tsc;
	return c;
}

/* Its times count from its own start: a recorder's count from the recorder's. */
static struct trace_process facts_of(const struct sampled_known *k, struct wire_header *h)
{
	struct trace_process f = k->facts;
	f.end_ns = f.end_ns > f.start_ns ? f.end_ns - f.start_ns : 0;
	f.start_ns = 0;
	f.dropped = atomic_load(&h->dropped);
	f.reentrant = atomic_load(&h->reentrant);
	f.lost_stacks = atomic_load(&h->lost_stacks);
	return f;
}

static void take_memory(struct sampled_reading *r, const struct sampled_known *k, uint64_t now_ns)
{
	struct trace_contents *c = &r->contents;
	uint64_t peak_ns = k->rss_peak_ns < now_ns ? k->rss_peak_ns : now_ns;
	r->rss[0] = (struct trace_rss){peak_ns, 0, k->rss_peak_bytes};
	r->rss[1] = (struct trace_rss){now_ns, 0, k->rss_bytes};
	c->rss = r->rss;
	c->rss_count = !k->rss_peak_bytes ? 0 : k->rss_bytes ? 2 : 1;
	r->anonymous = k->anonymous;
	r->anonymous.process = 0;
	r->anonymous.time_ns = now_ns;
	c->anonymous = &r->anonymous;
	c->anonymous_count = k->has_anonymous;
}

static void take_notes(struct sampled_reading *r, const struct sampled_known *k)
{
	struct trace_contents *c = &r->contents;
	c->notes = r->notes;
	if (k->allocator[0])
		r->notes[c->note_count++] = (struct trace_note){TRACE_NOTE_OWN_MALLOC, 0, 0,
								k->allocator};
	if (!r->process.dropped)
		return;
	snprintf(r->lost, sizeof r->lost, "process %d lost %llu samples, because %s",
		 r->process.pid, (unsigned long long)r->process.dropped,
		 r->in_sandbox ? "it went into a sandbox that does not allow what heft needs"
			       : "its tables were full");
	r->notes[c->note_count++] = (struct trace_note){TRACE_NOTE_LOST, 0, 0, r->lost};
}

static void take_tables(struct sampled_reading *r)
{
	struct trace_contents *c = &r->contents;
	c->modules = r->stacks.modules;
	c->module_count = r->stacks.module_count;
	c->nodes = r->stacks.nodes;
	c->node_count = r->stacks.node_count;
	c->sites = r->stacks.sites;
	c->site_count = r->stacks.site_count;
	c->processes = &r->process;
	c->process_count = 1;
	c->samples = &r->samples;
	c->samples_count = 1;
	c->tally = &r->no_events;
	c->peak = &r->no_peak;
	c->complete = true;
}

int sampled_read(struct sampled_reading *r, int fd, const struct sampled_known *k,
		 struct heft_error *err)
{
	struct sampled_copy copy;
	memset(r, 0, sizeof *r);
	tally_init(&r->no_events);
	int rc = sampled_copy_open(&copy, fd, err);
	if (rc)
		return rc;
	struct wire_header *h = copy.session.header;
	const struct tsc_clock clock = clock_of(h, k->start_tsc);
	const struct sampled_output to = {.stacks = &r->stacks, .clock = &clock};
	struct process_stacks stacks = {.session = &copy.session};
	r->process = facts_of(k, h);
	r->in_sandbox = atomic_load(&h->off_reason) == WIRE_OFF_SANDBOX;
	uint64_t now_ns = r->process.end == TRACE_END_RUNNING ? monotonic_ns() - clock.ns0
							      : r->process.end_ns;
	const struct process_peak peak = {
		.samples = k->peak, .count = k->peak_count, .tsc = k->peak_tsc};
	r->samples.time_ns = r->contents.duration_ns = now_ns;
	rc = sampled_convert_all(&to, copy.base, &stacks, &peak, &r->samples);
	r->contents.meta = (struct trace_meta){
		.heft_version = HEFT_VERSION,
		.start_unix_ns = h->start_unix_ns,
		.argv = r->process.argv,
		.argc = r->process.argc,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.memory_limit_bytes = k->limit_bytes,
		.limit_is_cgroup = k->limit_is_cgroup,
		.attached = k->attached,
		.tick_ns = 2048,
	};
	take_tables(r);
	take_memory(r, k, now_ns);
	take_notes(r, k);
	process_stacks_fini(&stacks);
	sampled_copy_close(&copy);
	if (!rc)
		return 0;
	sampled_reading_fini(r);
	return heft_fail(err, rc, "not enough memory for the samples of process %d", k->facts.pid);
}

void sampled_reading_fini(struct sampled_reading *r)
{
	trace_samples_fini(&r->samples);
	stack_map_fini(&r->stacks);
	tally_fini(&r->no_events);
	memset(r, 0, sizeof *r);
}
