/* profile-quality: what makes the numbers or names of this profile less trustworthy, and what to do
 * about it. One finding for all of it, because it is one question: how far may I believe this?
 *
 * Losing events falsifies every number, so it is never silent. Names and stacks are judged by the
 * bytes at the peak and the allocations that they concern: a nameless frame in a site of 40 bytes
 * is no news. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <stdlib.h>
#include <string.h>

/* Parts of the peak or of all allocations below which nobody is misled. */
#define QUALITY_LEAST_STACK_SHARE 0.02
#define QUALITY_LEAST_NAME_SHARE 0.1
/* Frees of blocks that nobody saw made: a few are normal when recording began after the program. */
#define QUALITY_LEAST_UNKNOWN_FREES 0.01
/* A quarter of the events missing: the peak itself may be another. */
#define QUALITY_HIGH_DROPPED 0.25
#define QUALITY_MEDIUM_SHARE 0.25
enum { MODULES_NAMED = 4 };

struct quality {
	uint64_t guessed, truncated, lost, nameless; /* peak bytes */
	uint64_t guessed_calls, truncated_calls, lost_calls, nameless_calls;
	uint32_t replaced; /* files */
	uint64_t *module_bytes;
};

/* A stack is as good as its worst frame. */
static uint32_t stack_flags(const struct profile *p, uint32_t node)
{
	uint32_t flags = 0;
	for (; node != PROFILE_NONE; node = p->nodes[node].parent)
		flags |= p->nodes[node].flags;
	return flags;
}

static void look_at_site(const struct diagnosis *d, uint32_t site, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	uint64_t calls = s->allocations + s->reallocations;
	if (s->node >= p->node_count) {
		q->lost += s->peak_bytes;
		q->lost_calls += calls;
		return;
	}
	uint32_t flags = stack_flags(p, s->node);
	if (flags & PROFILE_GUESSED) {
		q->guessed += s->peak_bytes;
		q->guessed_calls += calls;
	}
	if (flags & PROFILE_TRUNCATED) {
		q->truncated += s->peak_bytes;
		q->truncated_calls += calls;
	}
	if (flags & PROFILE_LOST) {
		q->lost += s->peak_bytes;
		q->lost_calls += calls;
	}
	/* What people look at first is the name of the first user frame. */
	uint32_t node = profile_first_user_node(p, s->node);
	if (node_is_nameless(p, node)) {
		uint32_t module = p->frames[p->nodes[node].frame].module;
		q->nameless += s->peak_bytes;
		q->nameless_calls += calls;
		if (module < p->module_count)
			q->module_bytes[module] += s->peak_bytes + 1;
	}
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* Names of the modules with the most nameless bytes. */
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
		uint64_t most = 0;
		for (uint32_t i = 0; i < p->module_count; i++)
			if (q->module_bytes[i] > most) {
				most = q->module_bytes[i];
				worst = i;
			}
		if (worst == PROFILE_NONE)
			break;
		q->module_bytes[worst] = 0;
		texts[(*count)++] = profile_module_name(p, worst);
	}
	*out = texts;
	return 0;
}

/* One clause of the sentence; `text` grows in the pool. */
static const char *and_also(struct diagnosis *d, const char *text, const char *clause)
{
	return !text || !clause ? clause : diagnosis_text(d, "%s; %s", text, clause);
}

static int add_finding(struct diagnosis *d, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_totals *t = &p->totals;
	uint64_t calls = t->allocations + t->reallocations, events = calls + t->frees;
	double dropped = share_of(t->dropped, events + t->dropped);
	double unknown = share_of(t->unknown_frees, t->frees + t->unknown_frees);
	double guessed =
		larger(share_of(q->guessed, t->peak_bytes), share_of(q->guessed_calls, calls));
	double truncated =
		larger(share_of(q->truncated, t->peak_bytes), share_of(q->truncated_calls, calls));
	double lost = larger(share_of(q->lost, t->peak_bytes), share_of(q->lost_calls, calls));
	double nameless =
		larger(share_of(q->nameless, t->peak_bytes), share_of(q->nameless_calls, calls));
	const char *what = NULL, *how = NULL;
	const char *const *modules = NULL;
	uint32_t module_count = 0;
	uint64_t bytes = 0;
	enum finding_severity severity = FINDING_LOW;
	double worst = 0;

	if (t->dropped) {
		what = diagnosis_text(d, "%s (%s of all) are missing",
				      phrase_many(t->dropped, "event", "events").text,
				      phrase_share(dropped).text);
		how = "give the recorder a core of its own or a faster disk, and record again";
		severity = dropped >= QUALITY_HIGH_DROPPED ? FINDING_HIGH : FINDING_MEDIUM;
		bytes = t->peak_bytes;
	}
	if (unknown >= QUALITY_LEAST_UNKNOWN_FREES) {
		what = and_also(d, what,
				diagnosis_text(d,
					       "%s of all frees are of blocks that were made "
					       "before or beside the recording",
					       phrase_share(unknown).text));
		how = and_also(d, how, "record from the program's start");
		worst = larger(worst, unknown);
	}
	if (lost >= QUALITY_LEAST_STACK_SHARE) {
		what = and_also(d, what,
				diagnosis_text(d,
					       "%s of the heap or of all calls is at stacks whose "
					       "inner frames are lost",
					       phrase_share(lost).text));
		how = and_also(d, how, "record a shorter part of the run, so that all stacks fit");
		worst = larger(worst, lost);
		bytes = bytes > q->lost ? bytes : q->lost;
	}
	if (guessed >= QUALITY_LEAST_STACK_SHARE) {
		what = and_also(d, what,
				diagnosis_text(d,
					       "%s of the heap or of all calls is at stacks that "
					       "were partly guessed",
					       phrase_share(guessed).text));
		how = and_also(d, how, "build with unwind tables (-fasynchronous-unwind-tables)");
		worst = larger(worst, guessed);
		bytes = bytes > q->guessed ? bytes : q->guessed;
	}
	if (truncated >= QUALITY_LEAST_STACK_SHARE) {
		what = and_also(d, what,
				diagnosis_text(d,
					       "%s of the heap or of all calls is at stacks whose "
					       "outer frames are missing",
					       phrase_share(truncated).text));
		how = and_also(d, how, "build generated code and assembly with unwind tables");
		worst = larger(worst, truncated);
		bytes = bytes > q->truncated ? bytes : q->truncated;
	}
	if (nameless >= QUALITY_LEAST_NAME_SHARE) {
		if (worst_modules(d, q, &modules, &module_count) < 0)
			return HEFT_ENOMEM;
		what = and_also(d, what,
				diagnosis_text(d,
					       "%s of the heap or of all calls is at functions "
					       "without a name, most of it in %s",
					       phrase_share(nameless).text,
					       module_count ? modules[0] : "unknown modules"));
		how = and_also(d, how,
			       "install the debug symbols of what has no names (a -dbgsym package, "
			       "debuginfod) or build it with -g");
		worst = larger(worst, nameless);
		bytes = bytes > q->nameless ? bytes : q->nameless;
	}
	if (q->replaced) {
		what = and_also(
			d, what,
			diagnosis_text(d, "%s replaced since the recording",
				       phrase_many(q->replaced, "file was", "files were").text));
		how = and_also(d, how, "read the recording where the files of that build are");
	}
	if (!what)
		return 0;
	if (worst >= QUALITY_MEDIUM_SHARE && severity < FINDING_MEDIUM)
		severity = FINDING_MEDIUM;
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE, bytes);
	f.finding.severity = severity;
	f.finding.summary = diagnosis_text(d, "parts of this profile are less certain: %s", what);
	f.finding.advice =
		diagnosis_text(d, "To get a better one: %s.", how ? how : "record again");
	draft_count(&f, "dropped", t->dropped);
	draft_share(&f, "dropped_share", dropped);
	draft_share(&f, "unknown_free_share", unknown);
	draft_share(&f, "lost_share", lost);
	draft_share(&f, "guessed_share", guessed);
	draft_share(&f, "truncated_share", truncated);
	draft_share(&f, "nameless_share", nameless);
	draft_texts(&f, "nameless_modules", modules, module_count);
	draft_count(&f, "replaced_files", q->replaced);
	return draft_add(d, &f);
}

int diagnose_profile_quality(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct quality q = {0};
	q.module_bytes = calloc((size_t)p->module_count + 1, sizeof *q.module_bytes);
	if (!q.module_bytes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++)
		look_at_site(d, i, &q);
	for (uint32_t i = 0; i < p->note_count; i++) /* trace_stacks.c writes them */
		q.replaced += strstr(p->notes[i].text, " was replaced since the recording") != NULL;
	int rc = add_finding(d, &q);
	free(q.module_bytes);
	return rc;
}
