/* Runs the diagnoses, keeps what they found and sorts it.
 *
 * A diagnosis sees the whole profile and nothing of the other diagnoses, with one exception: the queue comes
 * first, then growth without end. Both mark the sites they explain, because a message that waits, or one that
 * is never freed, is not also an object that is too large.
 *
 * If there are several processes, each is looked at by itself (profile.judged), and every finding says which
 * process it is of: a sum over processes grows just because one starts after the other. If several processes
 * show the same at the same function (workers), it is reported once, for the process with the most bytes.
 * The quality of a profile is a question about the whole. Samples know their processes
 * (growing_samples.c).
 *
 * Invariants: a finding's memory is in the pool, so freeing is one call; the order is total
 * (severity, bytes, kind, then the order of finding), so that reports repeat. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"
#include "hosted/vector.h"
#include "profile/process_groups.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESS_COLUMNS = 60 }; /* width of a command in a sentence */
#define PROCESSES "processes"

struct findings {
	struct name_pool *pool;
	struct finding *list;
	uint32_t count, capacity;
	struct finding_note *notes;
	uint32_t note_count, note_capacity;
};

static const char *const kind_names[FINDING_KINDS] = {
	[FINDING_UNBOUNDED_QUEUE] = "unbounded-queue",
	[FINDING_PER_INSTANCE_COST] = "per-instance-cost",
	[FINDING_GROWTH_SLACK] = "growth-slack",
	[FINDING_ALLOCATOR_ROUNDING] = "allocator-rounding",
	[FINDING_GROWING_SITE] = "growing-site",
	[FINDING_COPIED_RECORDS] = "copied-records",
	[FINDING_TEMPORARY_CHURN] = "temporary-churn",
	[FINDING_LEAK_UNREACHABLE] = "leak-unreachable",
	[FINDING_UNTOUCHED_MEMORY] = "untouched-memory",
	[FINDING_FRAGMENTATION] = "fragmentation",
	[FINDING_DUPLICATE_CONTENT] = "duplicate-content",
	[FINDING_BOOKS_DO_NOT_CLOSE] = "books-do-not-close",
	[FINDING_POOL_LEAK] = "pool-leak",
	[FINDING_PROFILE_QUALITY] = "profile-quality",
};

const char *finding_kind_name(enum finding_kind kind)
{
	return (unsigned)kind < FINDING_KINDS ? kind_names[kind] : "unknown";
}

uint32_t finding_kind_needs(enum finding_kind kind)
{
	switch (kind) {
	case FINDING_LEAK_UNREACHABLE: return PROFILE_HAS_REACHABLE;
	case FINDING_UNTOUCHED_MEMORY: return PROFILE_HAS_TOUCHED;
	case FINDING_DUPLICATE_CONTENT: return PROFILE_HAS_EQUAL;
	case FINDING_FRAGMENTATION: return PROFILE_HAS_PINNED;
	case FINDING_BOOKS_DO_NOT_CLOSE: return PROFILE_HAS_LEDGER;
	default: return 0;
	}
}

const char *finding_severity_name(enum finding_severity severity)
{
	switch (severity) {
	case FINDING_HIGH: return "high";
	case FINDING_MEDIUM: return "medium";
	case FINDING_LOW: break;
	}
	return "low";
}

/* ---- writing one */

double share_of(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
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
	/* DRAFT_EVIDENCE is enough for every diagnosis. If one has more by mistake, its last evidence
	 * is lost, not the report. */
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

void draft_rule(struct draft *f, const struct rule *r)
{
	f->rule = *r;
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

const char *diagnosis_in_process(struct diagnosis *d, const struct profile *whole, uint32_t process,
				 const char *summary)
{
	const struct profile_process *q = &whole->processes[process];
	struct process_group one = {.greatest = process, .count = 1, .words = q->argc};
	char *name = process_group_name(whole, &one, PROCESS_COLUMNS);
	uint64_t alike = 0;
	for (uint32_t i = 0; i < whole->process_count; i++)
		alike += strcmp(process_program(&whole->processes[i]), process_program(q)) == 0;
	const char *text = NULL;
	if (name && summary && alike > 1)
		text = diagnosis_text(d, "in %s, one of %s of this program: %s", name,
				      words_many(alike, "process", "processes").text, summary);
	else if (name && summary)
		text = diagnosis_text(d, "in %s: %s", name, summary);
	free(name);
	return text;
}

static struct evidence *keep_evidence(struct diagnosis *d, const struct draft *f)
{
	size_t size = f->finding.evidence_count * sizeof f->evidence[0];
	struct evidence *evidence = name_pool_alloc(d->pool, size + 1);
	if (evidence)
		memcpy(evidence, f->evidence, size);
	return evidence;
}

int draft_add(struct diagnosis *d, struct draft *f)
{
	struct findings *out = d->out;
	if (!finding_is_advice(d, &f->finding))
		return 0;
	finding_weigh(d, f);
	struct evidence *evidence = keep_evidence(d, f);
	size_t conditions_size = f->rule.count * sizeof f->rule.conditions[0];
	struct condition *conditions = name_pool_alloc(d->pool, conditions_size + 1);
	if (!evidence || !conditions || f->no_memory || !f->finding.summary || !f->finding.advice)
		return HEFT_ENOMEM;
	memcpy(conditions, f->rule.conditions, conditions_size);
	if (!array_reserve(out->list, out->count, out->capacity, 1))
		return HEFT_ENOMEM;
	struct finding *added = &out->list[out->count++];
	*added = f->finding;
	added->evidence = evidence;
	added->rule = f->rule.words;
	added->conditions = conditions;
	added->condition_count = f->rule.count;
	return 0;
}

int draft_add_note(struct diagnosis *d, const struct draft *f, const char *about, bool warning)
{
	struct findings *out = d->out;
	struct evidence *evidence = keep_evidence(d, f);
	if (!evidence || f->no_memory || !f->finding.summary || !f->finding.advice ||
	    !array_reserve(out->notes, out->note_count, out->note_capacity, 1))
		return HEFT_ENOMEM;
	out->notes[out->note_count++] = (struct finding_note){
		.about = about,
		.warning = warning,
		.text = f->finding.summary,
		.advice = f->finding.advice,
		.evidence = evidence,
		.evidence_count = f->finding.evidence_count};
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

/* Insertion sort keeps the order of equals; there are at most a few dozen. */
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

enum scope {
	OF_ONE = 1,   /* looks at one process */
	OF_ALL = 2,   /* looks at the whole, however many processes there are */
	OF_EXACT = 4, /* compares counts, which mean nothing if they are estimates */
	OF_SAMPLED = 8,
};

static const struct {
	int (*diagnose)(struct diagnosis *);
	unsigned scope;
} diagnoses[] = {
	{diagnose_unbounded_queue, OF_ONE | OF_EXACT},
	{diagnose_copied_records, OF_ONE | OF_EXACT},
	{diagnose_growth_slack, OF_ONE | OF_EXACT},
	{diagnose_allocator_rounding, OF_ONE | OF_EXACT},
	{diagnose_growing_site, OF_ONE | OF_EXACT},
	{diagnose_per_instance_cost, OF_ONE | OF_EXACT},
	{diagnose_growing_samples, OF_ALL | OF_SAMPLED},
	{diagnose_temporary_churn, OF_ONE | OF_EXACT},
	{diagnose_leak_unreachable, OF_ONE | OF_EXACT},
	{diagnose_untouched_memory, OF_ONE | OF_EXACT},
	{diagnose_fragmentation, OF_ONE | OF_EXACT},
	{diagnose_duplicate_content, OF_ONE | OF_EXACT},
	{diagnose_books_do_not_close, OF_ALL | OF_EXACT},
	{diagnose_pool_leak, OF_ALL | OF_EXACT},
	{note_runtime, OF_ALL | OF_EXACT | OF_SAMPLED},
	{note_memory_holders, OF_ALL | OF_EXACT | OF_SAMPLED}, /* after runtimes */
	{diagnose_profile_quality, OF_ALL | OF_EXACT | OF_SAMPLED},
};

/* Runs the diagnoses that have one of `scopes` and fit this profile, exact or sampled. */
static int diagnose(struct findings *f, const struct profile *p, const struct profile *whole,
		    unsigned scopes)
{
	bool sampled = p->estimates.errors ||
		       p->run.rate_bytes > 1; /* samples of other tools have no error bounds */
	unsigned kind = sampled ? OF_SAMPLED : OF_EXACT;
	struct diagnosis d = {.p = p, .whole = whole, .out = f, .pool = f->pool};
	d.named = site_names_new(p);
	if (d.named)
		d.by_function = sites_by_function(p, d.named, &d.by_function_count);
	d.told = calloc((size_t)p->site_count + 1, sizeof *d.told);
	int rc = d.by_function && d.told ? 0 : HEFT_ENOMEM;
	for (size_t i = 0; i < sizeof diagnoses / sizeof *diagnoses && rc == 0; i++)
		if ((diagnoses[i].scope & scopes) && (diagnoses[i].scope & kind))
			rc = diagnoses[i].diagnose(&d);
	free(d.named);
	free(d.by_function);
	free(d.told);
	return rc;
}

/* ---- one process of several */

/* The index of a part's site in the whole profile: both have the same id. PROFILE_NONE: there is none. */
static uint32_t whole_site(const struct profile *whole, uint32_t id)
{
	if (id && id <= whole->site_count && whole->sites[id - 1].id == id)
		return id - 1;
	for (uint32_t i = 0; i < whole->site_count; i++)
		if (whole->sites[i].id == id)
			return i;
	return PROFILE_NONE;
}

/* Whether two findings say the same about two processes. */
static bool same_words(const struct profile *whole, const struct finding *a,
		       const struct finding *b)
{
	if (a->kind != b->kind || a->site == PROFILE_NONE || b->site == PROFILE_NONE)
		return false;
	uint32_t x = profile_first_user_node(whole, whole->sites[a->site].node);
	uint32_t y = profile_first_user_node(whole, whole->sites[b->site].node);
	return x != PROFILE_NONE && y != PROFILE_NONE &&
	       same_function(whole, whole->stacks.nodes[x].frame, whole->stacks.nodes[y].frame);
}

/* Makes a finding of one process one of the whole profile: its words name the process, its sites are those
 * of the whole. */
static int adopt_finding(struct findings *f, const struct profile *p,
			 const struct profile_judged *j, struct finding *one)
{
	struct diagnosis d = {.p = p, .pool = f->pool};
	struct draft more = {.finding = *one};
	if (one->site != PROFILE_NONE)
		more.finding.site = whole_site(p, j->p->sites[one->site].id);
	memcpy(more.evidence, one->evidence, one->evidence_count * sizeof *one->evidence);
	for (uint32_t i = 0; i < one->evidence_count; i++) {
		struct evidence *e = &more.evidence[i];
		if (e->type != EVIDENCE_PARTS)
			continue;
		struct evidence_part *parts = name_pool_alloc(f->pool,
							      e->count * sizeof *parts + 1);
		if (!parts)
			return HEFT_ENOMEM;
		memcpy(parts, e->parts, e->count * sizeof *parts);
		for (uint32_t k = 0; k < e->count; k++)
			parts[k].site = whole_site(p, j->p->sites[parts[k].site].id);
		e->parts = parts;
	}
	draft_count(&more, "pid", (uint64_t)p->processes[j->process].pid);
	draft_count(&more, PROCESSES, 1);
	more.finding.summary = diagnosis_in_process(&d, p, j->process, one->summary);
	size_t size = more.finding.evidence_count * sizeof *more.evidence;
	struct evidence *evidence = name_pool_alloc(f->pool, size);
	if (!evidence || !more.finding.summary)
		return HEFT_ENOMEM;
	memcpy(evidence, more.evidence, size);
	*one = more.finding;
	one->evidence = evidence;
	return 0;
}

/* The evidence that counts the processes with this finding: the last one, in the pool of these findings.
 * NULL: the finding is of the whole. */
static struct evidence *processes_of(const struct finding *f)
{
	if (!f->evidence_count)
		return NULL;
	const struct evidence *last = &f->evidence[f->evidence_count - 1];
	return strcmp(last->name, PROCESSES) == 0 ? (struct evidence *)(uintptr_t)last : NULL;
}

/* Merges the findings from `first` on with the same findings of earlier processes; the greater one stays. */
static void merge_judged(struct findings *f, const struct profile *p, uint32_t first)
{
	uint32_t kept = first;
	for (uint32_t i = first; i < f->count; i++) {
		uint32_t same = 0;
		while (same < first && !(processes_of(&f->list[same]) &&
					 same_words(p, &f->list[same], &f->list[i])))
			same++;
		if (same == first) {
			f->list[kept++] = f->list[i];
			continue;
		}
		struct finding *before = &f->list[same], *now = &f->list[i];
		bool greater = now->severity > before->severity ||
			       (now->severity == before->severity && now->bytes > before->bytes);
		uint64_t seen = processes_of(before)->number;
		if (greater)
			*before = *now;
		processes_of(before)->number = seen + 1;
	}
	f->count = kept;
}

/* "one of 4 processes of this program" becomes "one of 3 processes that show this". */
static int tell_processes(struct findings *f)
{
	static const char begins[] = ", one of ", ends[] = " of this program: ";
	struct diagnosis d = {.out = f, .pool = f->pool};
	for (uint32_t i = 0; i < f->count; i++) {
		const struct evidence *processes = processes_of(&f->list[i]);
		const char *end = strstr(f->list[i].summary, ends), *begin = NULL;
		for (const char *at = f->list[i].summary;
		     end && (at = strstr(at, begins)) && at < end; at++)
			begin = at;
		if (!processes || processes->number < 2 || !begin)
			continue;
		f->list[i].summary = diagnosis_text(
			&d, "%.*s, one of %s that show this: %s", (int)(begin - f->list[i].summary),
			f->list[i].summary,
			words_many(processes->number, "process", "processes").text,
			end + sizeof ends - 1);
		if (!f->list[i].summary)
			return HEFT_ENOMEM;
	}
	return 0;
}

static int judge_process(struct findings *f, const struct profile *p,
			 const struct profile_judged *j)
{
	struct profile *part = j->p;
	uint32_t first = f->count;
	/* Rules for frames may have changed since the part was made. */
	part->stacks.frames = p->stacks.frames;
	part->stacks.nodes = p->stacks.nodes;
	int rc = diagnose(f, part, p, OF_ONE);
	for (uint32_t i = first; i < f->count && rc == 0; i++)
		rc = adopt_finding(f, p, j, &f->list[i]);
	if (rc == 0)
		merge_judged(f, p, first);
	return rc;
}

int findings_new(struct findings **out, const struct profile *p)
{
	*out = NULL;
	struct findings *f = calloc(1, sizeof *f);
	if (!f)
		return HEFT_ENOMEM;
	f->pool = name_pool_new();
	int rc = f->pool ? 0 : HEFT_ENOMEM;
	/* Several processes that were not split up cannot be judged one by one. */
	bool several = p->process_count > 1;
	if (rc == 0)
		rc = diagnose(f, p, p, several ? OF_ALL : OF_ALL | OF_ONE);
	for (uint32_t i = 0; i < p->judged_count && rc == 0; i++)
		rc = judge_process(f, p, &p->judged[i]);
	if (rc == 0)
		rc = tell_processes(f);
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
	free(f->notes);
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

uint32_t findings_note_count(const struct findings *f)
{
	return f->note_count;
}

const struct finding_note *findings_note(const struct findings *f, uint32_t index)
{
	return index < f->note_count ? &f->notes[index] : NULL;
}
