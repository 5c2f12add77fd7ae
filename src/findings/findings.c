/* Runs the diagnoses, keeps what they found and ranks it.
 *
 * A diagnosis sees the whole profile and nothing of the others, with one exception: the queue comes
 * first and marks the sites it explains, because a message that waits is not also an object that is
 * too large.
 *
 * Invariants: a finding's memory is in the pool, so freeing is one call; the order is total
 * (severity, bytes, kind, then the order of finding), so that reports repeat. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct findings {
	struct name_pool *pool;
	struct finding *list;
	uint32_t count, capacity;
};

static const char *const kind_names[FINDING_KINDS] = {
	[FINDING_UNBOUNDED_QUEUE] = "unbounded-queue",
	[FINDING_PER_INSTANCE_COST] = "per-instance-cost",
	[FINDING_GROWTH_SLACK] = "growth-slack",
	[FINDING_ALLOCATOR_ROUNDING] = "allocator-rounding",
	[FINDING_GROWING_SITE] = "growing-site",
	[FINDING_TEMPORARY_CHURN] = "temporary-churn",
	[FINDING_PROFILE_QUALITY] = "profile-quality",
};

const char *finding_kind_name(enum finding_kind kind)
{
	return (unsigned)kind < FINDING_KINDS ? kind_names[kind] : "unknown";
}

const char *finding_severity_name(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_HIGH:
		return "high";
	case FINDING_MEDIUM:
		return "medium";
	case FINDING_LOW:
		break;
	}
	return "low";
}

/* ---- writing one */

double share_of(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

enum finding_severity severity_of(const struct profile *p, uint64_t bytes)
{
	double share = share_of(bytes, p->totals.peak_bytes);
	return share >= SEVERITY_HIGH_SHARE     ? FINDING_HIGH
	       : share >= SEVERITY_MEDIUM_SHARE ? FINDING_MEDIUM
						: FINDING_LOW;
}

struct draft draft_begin(enum finding_kind kind, uint32_t site, uint64_t bytes)
{
	struct draft f;
	memset(&f, 0, sizeof f);
	f.finding.kind = kind;
	f.finding.site = site;
	f.finding.bytes = bytes;
	return f;
}

static struct evidence *next_evidence(struct draft *f, const char *name, enum evidence_type type)
{
	/* A draft has room for what the longest one holds; more would be a mistake of ours, and
	 * then the last one is lost rather than the report. */
	uint32_t at = f->finding.evidence_count;
	if (at < DRAFT_EVIDENCE)
		f->finding.evidence_count++;
	else
		at = DRAFT_EVIDENCE - 1;
	f->evidence[at] = (struct evidence){.name = name, .type = type};
	return &f->evidence[at];
}

void draft_count(struct draft *f, const char *name, uint64_t n)
{
	next_evidence(f, name, EVIDENCE_COUNT)->number = n;
}

void draft_bytes(struct draft *f, const char *name, uint64_t bytes)
{
	next_evidence(f, name, EVIDENCE_BYTES)->number = bytes;
}

uint64_t whole_number(double value)
{
	return value >= 1.8e19 ? UINT64_MAX : value > 0 ? (uint64_t)(value + 0.5) : 0;
}

void draft_rate(struct draft *f, const char *name, double bytes_per_second)
{
	next_evidence(f, name, EVIDENCE_RATE)->number = whole_number(bytes_per_second);
}

void draft_time(struct draft *f, const char *name, double ns)
{
	next_evidence(f, name, EVIDENCE_TIME_NS)->number = whole_number(ns);
}

void draft_share(struct draft *f, const char *name, double share)
{
	next_evidence(f, name, EVIDENCE_SHARE)->share = share;
}

void draft_text(struct draft *f, const char *name, const char *text)
{
	f->no_memory |= !text;
	next_evidence(f, name, EVIDENCE_TEXT)->text = text;
}

void draft_texts(struct draft *f, const char *name, const char *const *texts, uint32_t count)
{
	struct evidence *e = next_evidence(f, name, EVIDENCE_TEXTS);
	e->texts = texts;
	e->count = count;
}

void draft_parts(struct draft *f, const char *name, const struct evidence_part *parts,
		 uint32_t count)
{
	struct evidence *e = next_evidence(f, name, EVIDENCE_PARTS);
	e->parts = parts;
	e->count = count;
}

const char *diagnosis_text(struct diagnosis *d, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int length = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *text = length < 0 ? NULL : name_pool_alloc(d->pool, (size_t)length + 1);
	if (!text)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(text, (size_t)length + 1, fmt, ap);
	va_end(ap);
	return text;
}

const char *diagnosis_keep(struct diagnosis *d, struct phrase phrase)
{
	return name_pool_add(d->pool, phrase.text);
}

int draft_add(struct diagnosis *d, const struct draft *f)
{
	struct findings *out = d->out;
	size_t size = f->finding.evidence_count * sizeof f->evidence[0];
	struct evidence *evidence = name_pool_alloc(d->pool, size ? size : 1);
	if (!evidence || f->no_memory || !f->finding.summary || !f->finding.advice)
		return HEFT_ENOMEM;
	memcpy(evidence, f->evidence, size);
	if (out->count == out->capacity) {
		uint32_t bigger = out->capacity ? out->capacity * 2 : 16;
		struct finding *list = realloc(out->list, bigger * sizeof *list);
		if (!list)
			return HEFT_ENOMEM;
		out->list = list;
		out->capacity = bigger;
	}
	out->list[out->count] = f->finding;
	out->list[out->count++].evidence = evidence;
	return 0;
}

/* ---- all of them */

static bool comes_before(const struct finding *a, const struct finding *b)
{
	if (a->severity != b->severity)
		return a->severity > b->severity;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes;
	return a->kind < b->kind;
}

/* Insertion: there are at most a few dozen, and it keeps the order of equals. */
static void rank(struct findings *f)
{
	for (uint32_t i = 1; i < f->count; i++) {
		struct finding one = f->list[i];
		uint32_t at = i;
		for (; at > 0 && comes_before(&one, &f->list[at - 1]); at--)
			f->list[at] = f->list[at - 1];
		f->list[at] = one;
	}
}

/* Drops what comes after the first few of each kind. */
static void cut(struct findings *f)
{
	uint32_t seen[FINDING_KINDS] = {0}, kept = 0;
	for (uint32_t i = 0; i < f->count; i++)
		if (seen[f->list[i].kind]++ < FINDINGS_OF_A_KIND)
			f->list[kept++] = f->list[i];
	f->count = kept;
}

int findings_new(struct findings **out, const struct profile *p)
{
	/* Most rules know exact numbers: of estimates, counts that agree mean nothing. */
	static const struct {
		int (*diagnose)(struct diagnosis *);
		bool exact, sampled; /* of what profiles it is */
	} diagnoses[] = {
		{diagnose_unbounded_queue, true, false},
		{diagnose_per_instance_cost, true, false},
		{diagnose_growth_slack, true, false},
		{diagnose_allocator_rounding, true, false},
		{diagnose_growing_site, true, false},
		{diagnose_growing_samples, false, true},
		{diagnose_temporary_churn, true, false},
		{diagnose_profile_quality, true, true},
	};
	*out = NULL;
	struct findings *f = calloc(1, sizeof *f);
	if (!f)
		return HEFT_ENOMEM;
	f->pool = name_pool_new();
	struct diagnosis d = {.p = p, .out = f, .pool = f->pool};
	d.named = site_names_new(p);
	if (d.named)
		d.by_function = sites_by_function(p, d.named, &d.by_function_count);
	d.queued = calloc((size_t)p->site_count + 1, sizeof *d.queued);
	int rc = f->pool && d.by_function && d.queued ? 0 : HEFT_ENOMEM;
	bool sampled = p->errors || p->rate_bytes > 1; /* other tools' samples have no errors */
	for (size_t i = 0; i < sizeof diagnoses / sizeof *diagnoses && rc == 0; i++)
		if (sampled ? diagnoses[i].sampled : diagnoses[i].exact)
			rc = diagnoses[i].diagnose(&d);
	free(d.named);
	free(d.by_function);
	free(d.queued);
	if (rc < 0) {
		findings_free(f);
		return rc;
	}
	rank(f);
	cut(f);
	*out = f;
	return 0;
}

void findings_free(struct findings *f)
{
	if (!f)
		return;
	free(f->list);
	name_pool_free(f->pool);
	free(f);
}

uint32_t findings_count(const struct findings *f)
{
	return f->count;
}

const struct finding *findings_get(const struct findings *f, uint32_t index)
{
	return index < f->count ? &f->list[index] : NULL;
}
