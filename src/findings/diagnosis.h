/* Inside src/findings: what a diagnosis works with. Each is a function that looks at the profile
 * and adds what it is sure of; 0 or HEFT_ENOMEM. */
#ifndef HEFT_FINDINGS_DIAGNOSIS_H
#define HEFT_FINDINGS_DIAGNOSIS_H

#include "findings/finding.h"
#include "findings/finding_words.h"

/* Severity, from the contract. */
#define SEVERITY_HIGH_SHARE 0.25
#define SEVERITY_MEDIUM_SHARE 0.05

/* Of one kind at most so many are shown: what comes after the fifth is small, and a page of
 * findings hides the first. */
enum { FINDINGS_OF_A_KIND = 5 };

struct diagnosis {
	const struct profile *p;     /* what is looked at: of several processes one of them */
	const struct profile *whole; /* the same, or what it is a part of */
	struct findings *out;
	struct name_pool *pool; /* lives as long as the findings */
	uint32_t *named;        /* by site: site_names.h */
	uint32_t *by_function;  /* sites, those of one function together: site_names.h */
	uint32_t by_function_count;
	bool *queued; /* by site: explained by unbounded-queue */
};

int diagnose_unbounded_queue(struct diagnosis *d); /* first: it fills `queued` */
int diagnose_per_instance_cost(struct diagnosis *d);
int diagnose_growth_slack(struct diagnosis *d);
int diagnose_allocator_rounding(struct diagnosis *d);
int diagnose_growing_site(struct diagnosis *d);
int diagnose_growing_samples(struct diagnosis *d); /* the same of a sampled profile */
int diagnose_temporary_churn(struct diagnosis *d);
int diagnose_profile_quality(struct diagnosis *d);

/* A finding while it is written. Texts that the add functions take must live as long as the
 * findings: in the profile, in the pool, or for ever. A text that is NULL (no memory) makes
 * draft_add fail, so callers need not look. */
enum { DRAFT_EVIDENCE = 20 };
struct draft {
	struct finding finding;
	struct evidence evidence[DRAFT_EVIDENCE];
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
int draft_add(struct diagnosis *d, const struct draft *f);

/* By the peak of the whole: what is all of a small process may be a small part of the memory. */
enum finding_severity severity_of(const struct diagnosis *d, uint64_t bytes);
/* Formatted text in the pool; NULL: no memory. */
const char *diagnosis_text(struct diagnosis *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A phrase in the pool. */
const char *diagnosis_keep(struct diagnosis *d, struct phrase phrase);
/* "in worker -n 4 (pid 12), one of 8 processes of this program: ...", in the pool. */
const char *diagnosis_in_process(struct diagnosis *d, const struct profile *whole, uint32_t process,
				 const char *summary);
double share_of(uint64_t part, uint64_t whole); /* 0 of nothing */
uint64_t whole_number(double value); /* rounded; what does not fit is the nearest that does */

#endif
