/* Inside src/findings: what a diagnosis works with. A diagnosis is a function that looks at the profile and
 * adds the findings that it is sure of. 0 or HEFT_ENOMEM. */
#ifndef HEFT_FINDINGS_DIAGNOSIS_H
#define HEFT_FINDINGS_DIAGNOSIS_H

#include "findings/finding.h"
#include "findings/finding_words.h"

/* The share of the peak from which a finding is medium (finding_severity.c has the rest). */
#define SEVERITY_MEDIUM_SHARE 0.05

/* So many findings of one kind are shown at most: later ones are small, and a page of findings hides the
 * first. */
enum { FINDINGS_OF_A_KIND = 5 };

struct diagnosis {
	const struct profile
		*p; /* what is looked at: the whole profile, or one process of several */
	const struct profile *whole; /* the whole profile */
	struct findings *out;
	struct name_pool *pool; /* lives as long as the findings */
	uint32_t *named;        /* by site, the node that names it: site_names.h */
	uint32_t *by_function;  /* sites, ordered by function: site_names.h */
	uint32_t by_function_count;
	uint8_t *told; /* by site: enum told */
};

/* What the findings so far say of a site */
enum told {
	TOLD_NOTHING,
	TOLD_TO_GROW,   /* growing-site, but it may be data that the program is meant to keep */
	TOLD_EXPLAINED, /* unbounded-queue, or growth that is certain */
};

int diagnose_unbounded_queue(struct diagnosis *d); /* first: it fills `told` */
int diagnose_copied_records(struct diagnosis *d);
int diagnose_growth_slack(struct diagnosis *d);
int diagnose_allocator_rounding(struct diagnosis *d);
int diagnose_growing_site(struct diagnosis *d); /* before the next one: it adds to `told` */
int diagnose_per_instance_cost(struct diagnosis *d);
int diagnose_growing_samples(struct diagnosis *d); /* the same for a sampled profile */
int diagnose_temporary_churn(struct diagnosis *d);
/* From a look at the heap of the process, if there was one */
int diagnose_leak_unreachable(struct diagnosis *d);
int diagnose_untouched_memory(struct diagnosis *d);
int diagnose_fragmentation(struct diagnosis *d);
int diagnose_duplicate_content(struct diagnosis *d);
/* From what the program says of its own allocators */
int diagnose_pool_leak(struct diagnosis *d);
/* From ledgers, if there are any */
int diagnose_books_do_not_close(struct diagnosis *d);
int diagnose_profile_quality(struct diagnosis *d);
/* Notes only */
int note_runtime(struct diagnosis *d);
int note_memory_holders(struct diagnosis *d);

/* ---- a rule and what it measured
 *
 * A rule decides and records with the same call, so that `heft report --explain` cannot say anything else than
 * what was decided. How to write one:
 *
 *	struct rule r = rule_begin("Arrays that grow step by step end with unused space.");
 *	if (!rule_at_least(&r, "growth steps", UNIT_COUNT, (double)g->steps, SLACK_LEAST_STEPS) ||
 *	    !rule_at_least(&r, "unused share of the arrays", UNIT_SHARE, share, SLACK_LEAST_SHARE))
 *		return 0;
 *	struct draft f = draft_begin(...);
 *	draft_rule(&f, &r);
 *
 * - `what` is a noun phrase that stands before a colon, and a constant or a text in the pool. The limit is
 *   the named constant, never a copy of it.
 * - If one of several ways is enough, mark the place before the first and forget the way that failed:
 *	uint32_t mark = r.count;
 *	if (!first_way(&r)) { r.count = mark; if (!second_way(&r)) return 0; }
 * - A yes or no that has no limit is a fact: rule_fact(&r, "a signal ended the program",
 *   "the program ended by itself", was_stopped).
 * - A helper that asks on behalf of a rule takes the rule: bool wait_grows(struct rule *r, ...). One that
 *   nobody will explain (a search over candidates) may use a rule of its own and drop it.
 * - A condition over many sites of which each must hold is recorded once, with the worst of them. */
enum { RULE_CONDITIONS = 24 };
struct rule {
	const char *words; /* one or two sentences */
	struct condition conditions[RULE_CONDITIONS];
	uint32_t count;
};

struct rule rule_begin(const char *words);
/* Whether measured >= limit (measured <= limit). What held is recorded; what did not is not. */
bool rule_at_least(struct rule *r, const char *what, enum condition_unit unit, double measured,
		   double limit);
bool rule_at_most(struct rule *r, const char *what, enum condition_unit unit, double measured,
		  double limit);
bool rule_fact(struct rule *r, const char *what, const char *otherwise, bool holds);

/* A finding that is being written. Texts must live as long as the findings: in the profile, in the pool, or
 * as constants. A text that is NULL (no memory) makes draft_add fail, so callers need not check it. */
enum { DRAFT_EVIDENCE = 20 };
struct draft {
	struct finding finding;
	struct evidence evidence[DRAFT_EVIDENCE];
	struct rule rule;
	bool no_memory;
};

struct draft draft_begin(enum finding_kind kind, uint32_t site, uint64_t bytes);
void draft_count(struct draft *f, const char *name, uint64_t n);
void draft_bytes(struct draft *f, const char *name, uint64_t bytes);
void draft_rate(struct draft *f, const char *name, double bytes_per_second);
void draft_time(struct draft *f, const char *name, double ns);
void draft_share(struct draft *f, const char *name, double share);
void draft_text(struct draft *f, const char *name, const char *text);
void draft_texts(struct draft *f, const char *name, const char *const *texts, uint32_t count);
void draft_parts(struct draft *f, const char *name, const struct evidence_part *parts,
		 uint32_t count);
void draft_rule(struct draft *f, const struct rule *r);
int draft_add(struct diagnosis *d, struct draft *f);
/* Adds the draft as a note instead: summary, advice and evidence of it count. */
int draft_add_note(struct diagnosis *d, const struct draft *f, const char *about, bool warning);

/* By the bytes' share of the whole peak: all memory of a small process may be a small share of it. A diagnosis
 * of growth without end says FINDING_HIGH instead. draft_add lowers what is below the floors. */
enum finding_severity severity_of(const struct diagnosis *d, uint64_t bytes);
void finding_weigh(struct diagnosis *d, struct draft *f); /* the floors; fills in severity_reason */
/* False: it is about the insides of an interpreter without names, where advice helps nobody. */
bool finding_is_advice(const struct diagnosis *d, const struct finding *f);
bool module_is_interpreter(const struct profile *p, uint32_t module); /* bash, libpython3.11.so */
/* Formatted text in the pool; NULL: no memory. */
const char *diagnosis_text(struct diagnosis *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Copies a phrase into the pool. */
const char *diagnosis_keep(struct diagnosis *d, struct phrase phrase);
/* "in worker -n 4 (pid 12), one of 8 processes of this program: ...", in the pool. */
const char *diagnosis_in_process(struct diagnosis *d, const struct profile *whole, uint32_t process,
				 const char *summary);
double share_of(uint64_t part, uint64_t whole); /* 0 if the whole is 0 */

#endif
