/* profile-quality says what makes the numbers or names of this profile less trustworthy, and what to do
 * about it. It is one finding, because it answers one question: how far can I trust this profile?
 *
 * Lost events falsify every number, so they are always reported. Names and stacks are judged by how many
 * bytes at the peak and how many allocations they concern: a frame without a name in a site of 40 bytes is
 * not worth reporting. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller shares of the peak and of all allocations mislead nobody. */
#define QUALITY_LEAST_STACK_SHARE 0.02
#define QUALITY_LEAST_NAME_SHARE 0.1
/* Frees of blocks whose allocation was not seen. A few are normal if the recording began after the
 * program. */
#define QUALITY_LEAST_UNKNOWN_FREES 0.01
/* If a quarter of the events is missing, even the peak may be at another time. */
#define QUALITY_HIGH_DROPPED 0.25
#define QUALITY_MEDIUM_SHARE 0.25
/* A hundred samples give a total that is right to 20 %. A thousand give a total that is right to 6 %, and
 * its largest sites right to 20 %. The least rate is the smallest that --sample takes. */
#define QUALITY_LEAST_SAMPLES 100
#define QUALITY_SAMPLES 1000
#define QUALITY_LEAST_RATE 1024
enum { MODULES_NAMED = 4 };

/* How much a flaw of stacks concerns */
struct doubt {
	uint64_t bytes, calls; /* at the peak; allocations and reallocations */
};

struct quality {
	struct doubt guessed, truncated, lost, nameless;
	uint32_t replaced;     /* files that were replaced since */
	struct doubt *modules; /* frames without names, by module */
	uint32_t *flags;       /* by node: the flaws of its frame and of all its callers */
};

static void add_doubt(struct doubt *d, const struct profile_site *s)
{
	d->bytes += s->peak_bytes;
	d->calls += s->allocations + s->reallocations;
}

static void look_at_site(const struct diagnosis *d, uint32_t site, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	if (s->node >= p->stacks.node_count) {
		add_doubt(&q->lost, s);
		return;
	}
	uint32_t flags = q->flags[s->node];
	if (flags & PROFILE_GUESSED)
		add_doubt(&q->guessed, s);
	if (flags & PROFILE_TRUNCATED)
		add_doubt(&q->truncated, s);
	if (flags & PROFILE_LOST)
		add_doubt(&q->lost, s);
	/* People look at the name of the first user frame. A stack without one is inside a runtime
	 * library; its names do not matter. */
	uint32_t node = profile_first_user_node(p, s->node);
	if (p->stacks.frames[p->stacks.nodes[node].frame].user && node_is_nameless(p, node)) {
		uint32_t module = p->stacks.frames[p->stacks.nodes[node].frame].module;
		add_doubt(&q->nameless, s);
		if (module < p->stacks.module_count)
			add_doubt(&q->modules[module], s);
	}
}

static double share_of_heap(const struct profile *p, const struct doubt *d)
{
	return share_of(d->bytes, p->totals.peak_bytes);
}

static double share_of_calls(const struct profile *p, const struct doubt *d)
{
	return share_of(d->calls, p->totals.allocations + p->totals.reallocations);
}

/* The larger of its shares of the peak and of the allocations. */
static double share_of_either(const struct profile *p, const struct doubt *d)
{
	double heap = share_of_heap(p, d), calls = share_of_calls(p, d);
	return heap > calls ? heap : calls;
}

/* Writes "12.3 % of the heap comes", or "of allocations come" if only that share is large, or both if the
 * second is larger. The larger share, which is the evidence, is always in the sentence. */
static struct phrase phrase_doubt(const struct profile *p, const struct doubt *d, double least,
				  bool *heap_alone)
{
	struct phrase w;
	double heap = share_of_heap(p, d), calls = share_of_calls(p, d);
	*heap_alone = heap >= least && heap >= calls;
	if (*heap_alone)
		snprintf(w.text, sizeof w.text, "%.40s of the heap comes",
			 words_percent(heap).text);
	else if (heap >= least)
		snprintf(w.text, sizeof w.text, "%.40s of the heap and %.40s of allocations come",
			 words_percent(heap).text, words_percent(calls).text);
	else
		snprintf(w.text, sizeof w.text, "%.40s of allocations come",
			 words_percent(calls).text);
	return w;
}

/* Names the modules with the most bytes at frames without names. */
static int worst_modules(struct diagnosis *d, struct quality *q, const char *const **out,
			 uint32_t *count)
{
	const struct profile *p = d->p;
	const char **texts = name_pool_alloc(d->pool, MODULES_NAMED * sizeof *texts);
	if (!texts)
		return HEFT_ENOMEM;
	*count = 0;
	while (*count < MODULES_NAMED) {
		uint32_t worst = PROFILE_NONE;
		double most = 0;
		for (uint32_t i = 0; i < p->stacks.module_count; i++) {
			double share = share_of_heap(p, &q->modules[i]) +
				       share_of_calls(p, &q->modules[i]);
			if (share > most) {
				most = share;
				worst = i;
			}
		}
		if (worst == PROFILE_NONE)
			break;
		q->modules[worst] = (struct doubt){0, 0};
		texts[(*count)++] = profile_module_name(p, worst);
	}
	*out = texts;
	return 0;
}

/* Adds a clause to the sentence, in the pool. */
static const char *and_also(struct diagnosis *d, const char *text, const char *clause)
{
	return !text || !clause ? clause : diagnosis_text(d, "%s; %s", text, clause);
}

/* The finding while its clauses are collected */
struct verdict {
	const char *what, *how;
	uint64_t bytes;
	double worst; /* the greatest share of the heap */
};

static void add_clause(struct diagnosis *d, struct verdict *v, const struct doubt *doubt,
		       const char *what, const char *how)
{
	v->what = and_also(d, v->what, what);
	v->how = and_also(d, v->how, how);
	if (doubt && doubt->bytes > v->bytes)
		v->bytes = doubt->bytes;
	if (doubt && share_of_heap(d->p, doubt) > v->worst)
		v->worst = share_of_heap(d->p, doubt);
}

static void add_stack_clause(struct diagnosis *d, struct verdict *v, const struct doubt *doubt,
			     const char *flaw, const char *how)
{
	if (share_of_either(d->p, doubt) < QUALITY_LEAST_STACK_SHARE)
		return;
	bool heap;
	struct phrase part = phrase_doubt(d->p, doubt, QUALITY_LEAST_STACK_SHARE, &heap);
	add_clause(d, v, doubt, diagnosis_text(d, "%s from stacks %s", part.text, flaw), how);
}

/* A sampling rate that would give enough samples; 0: there are enough. */
static uint64_t better_rate(const struct profile *p)
{
	uint64_t rate = p->run.rate_bytes;
	if (p->estimates.total_spread.samples >= QUALITY_LEAST_SAMPLES ||
	    !p->totals.allocated_bytes)
		return 0;
	while (rate / 2 >= QUALITY_LEAST_RATE && p->totals.allocated_bytes / rate < QUALITY_SAMPLES)
		rate /= 2;
	return rate < p->run.rate_bytes ? rate : 0;
}

/* Writes a size as --sample takes it. */
static struct phrase size_option(uint64_t bytes)
{
	struct phrase w;
	bool mega = bytes >= 1 << 20;
	snprintf(w.text, sizeof w.text, "%llu%s", (unsigned long long)(bytes >> (mega ? 20 : 10)),
		 mega ? "M" : "k");
	return w;
}

static int add_finding(struct diagnosis *d, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_totals *t = &p->totals;
	/* A sampled profile lacks samples, not events. */
	uint64_t events = t->dropped + (p->estimates.errors
						? p->estimates.total_spread.samples
						: t->allocations + t->reallocations + t->frees);
	double dropped = share_of(t->dropped, events);
	double unknown = share_of(t->unknown_frees, t->frees + t->unknown_frees);
	const char *const *modules = NULL;
	uint32_t module_count = 0;
	struct verdict v = {0};

	if (t->dropped) {
		v.bytes = t->peak_bytes;
		add_clause(
			d, &v, NULL,
			diagnosis_text(d, "%s (%s of all) %s missing",
				       p->estimates.errors
					       ? words_many(t->dropped, "sample", "samples").text
					       : words_many(t->dropped, "event", "events").text,
				       words_percent(dropped).text, t->dropped == 1 ? "is" : "are"),
			p->estimates.errors
				? "sample less often (a larger --sample), so that all of them fit"
				: "give the recorder a core of its own or a faster disk, and "
				  "record again");
	}
	uint64_t better = p->estimates.errors ? better_rate(p) : 0;
	if (better)
		add_clause(d, &v, NULL,
			   diagnosis_text(d, "all numbers come from %s",
					  words_many(p->estimates.total_spread.samples, "sample",
						     "samples")
						  .text),
			   diagnosis_text(d, "sample more often (--sample=%s)",
					  size_option(better).text));
	if (unknown >= QUALITY_LEAST_UNKNOWN_FREES)
		add_clause(d, &v, NULL,
			   diagnosis_text(d,
					  "%s of all frees are of blocks that were made before or "
					  "beside the recording",
					  words_percent(unknown).text),
			   "record from the program's start");
	add_stack_clause(d, &v, &q->lost, "whose inner frames are lost",
			 "record a shorter part of the run, so that all stacks fit");
	add_stack_clause(d, &v, &q->guessed, "that were partly guessed",
			 "build with unwind tables (-fasynchronous-unwind-tables)");
	add_stack_clause(d, &v, &q->truncated, "whose outer frames are missing",
			 "build generated code and assembly with unwind tables");
	if (share_of_either(p, &q->nameless) >= QUALITY_LEAST_NAME_SHARE) {
		bool heap;
		struct phrase part = phrase_doubt(p, &q->nameless, QUALITY_LEAST_NAME_SHARE, &heap);
		if (worst_modules(d, q, &modules, &module_count) < 0)
			return HEFT_ENOMEM;
		add_clause(d, &v, &q->nameless,
			   diagnosis_text(d, "%s from functions without names%s%s%s", part.text,
					  module_count ? ", most of " : "",
					  !module_count ? ""
					  : heap        ? "it in "
							: "them in ",
					  module_count ? modules[0] : ""),
			   "install the debug symbols of what has no names (a -dbgsym package, "
			   "debuginfod) or build it with -g");
	}
	if (q->replaced)
		add_clause(d, &v, NULL,
			   diagnosis_text(d, "%s replaced since the recording",
					  words_many(q->replaced, "file was", "files were").text),
			   "read the recording where the files of that build are");
	if (!v.what)
		return 0;
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE, v.bytes);
	f.finding.severity = dropped >= QUALITY_HIGH_DROPPED                 ? FINDING_HIGH
			     : t->dropped || v.worst >= QUALITY_MEDIUM_SHARE ? FINDING_MEDIUM
									     : FINDING_LOW;
	f.finding.summary = diagnosis_text(d, "parts of this profile are less certain: %s", v.what);
	f.finding.advice = diagnosis_text(d, "To get a better one: %s.", v.how ? v.how : "");
	draft_count(&f, "dropped", t->dropped);
	draft_share(&f, "dropped_share", dropped);
	draft_share(&f, "nameless_share", share_of_either(p, &q->nameless));
	draft_texts(&f, "nameless_modules", modules, module_count);
	draft_share(&f, "guessed_share", share_of_either(p, &q->guessed));
	draft_share(&f, "truncated_share", share_of_either(p, &q->truncated));
	draft_share(&f, "lost_share", share_of_either(p, &q->lost));
	draft_share(&f, "unknown_free_share", unknown);
	draft_count(&f, "replaced_files", q->replaced);
	if (p->estimates.errors)
		draft_count(&f, "samples", p->estimates.total_spread.samples);
	return draft_add(d, &f);
}

int diagnose_profile_quality(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct quality q = {0};
	q.modules = calloc((size_t)p->stacks.module_count + 1, sizeof *q.modules);
	q.flags = calloc((size_t)p->stacks.node_count + 1, sizeof *q.flags);
	int rc = q.modules && q.flags ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		q.flags[i] = p->stacks.nodes[i].flags | (parent < i ? q.flags[parent] : 0);
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		look_at_site(d, i, &q);
	for (uint32_t i = 0; i < p->note_count; i++) /* trace_stacks.c writes them */
		q.replaced += strstr(p->notes[i].text, " was replaced since the recording") != NULL;
	if (rc == 0)
		rc = add_finding(d, &q);
	free(q.modules);
	free(q.flags);
	return rc;
}
