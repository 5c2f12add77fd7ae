/* Findings say what is wrong, where, with which evidence, and what to do about it.
 *
 * Each diagnosis is one file. It looks at the profile and adds the findings that it is sure of. A wrong
 * finding is worse than none: every rule has its thresholds as named constants with their reasons, and is
 * tested on programs for which it must stay silent (docs/findings.md). */
#ifndef HEFT_FINDINGS_FINDING_H
#define HEFT_FINDINGS_FINDING_H

#include "profile/profile.h"

enum finding_kind {
	FINDING_UNBOUNDED_QUEUE,
	FINDING_PER_INSTANCE_COST,
	FINDING_GROWTH_SLACK,
	FINDING_ALLOCATOR_ROUNDING,
	FINDING_GROWING_SITE,
	FINDING_COPIED_RECORDS,
	FINDING_TEMPORARY_CHURN,
	FINDING_LEAK_UNREACHABLE,
	FINDING_UNTOUCHED_MEMORY,
	FINDING_FRAGMENTATION,
	FINDING_DUPLICATE_CONTENT,
	FINDING_BOOKS_DO_NOT_CLOSE,
	FINDING_POOL_LEAK,
	FINDING_PROFILE_QUALITY,
	FINDING_KINDS
};

enum finding_severity { FINDING_LOW, FINDING_MEDIUM, FINDING_HIGH };

enum evidence_type {
	EVIDENCE_COUNT,   /* number */
	EVIDENCE_BYTES,   /* number */
	EVIDENCE_RATE,    /* number: bytes a second */
	EVIDENCE_TIME_NS, /* number */
	EVIDENCE_SHARE,   /* share: 0 to 1 */
	EVIDENCE_TEXT,    /* text */
	EVIDENCE_TEXTS,   /* texts, count of them */
	EVIDENCE_PARTS,   /* parts, count of them, largest first */
};

struct evidence_part {
	const char *function;
	const char *where; /* "file:line"; "" or NULL: not known */
	uint64_t bytes;
	double share;  /* of the whole, 0 to 1 */
	uint32_t site; /* profile site index */
};

struct evidence {
	const char *name; /* its key in JSON: contract names such as "backlog_blocks" */
	enum evidence_type type;
	uint64_t number;
	double share;
	const char *text;
	const char *const *texts;
	const struct evidence_part *parts;
	uint32_t count;
};

/* What a number of a condition counts */
enum condition_unit {
	UNIT_COUNT,      /* blocks, steps, objects, ... */
	UNIT_BYTES,      /* bytes */
	UNIT_RATE,       /* bytes a second */
	UNIT_PER_SECOND, /* a count a second */
	UNIT_TIME_NS,    /* nanoseconds */
	UNIT_SHARE,      /* 0 to 1, shown as a percentage */
	UNIT_NUMBER,     /* a plain number, such as a ratio */
	UNIT_FACT,       /* 1: it holds. There is no limit to be near to. */
};

/* One condition that the finding's rule asked for, and that held */
struct condition {
	const char *what;      /* a noun phrase: "blocks that another thread freed" */
	const char *otherwise; /* facts only: the opposite, in words */
	enum condition_unit unit;
	double measured, limit;
	bool at_most; /* measured must be at most the limit; else at least */
};

struct finding {
	enum finding_kind kind;
	enum finding_severity severity;
	uint64_t bytes;      /* how much memory it is about; orders findings of one severity */
	uint32_t site;       /* the profile site that it names first, or PROFILE_NONE */
	const char *summary; /* one sentence with numbers */
	const char *advice;  /* what to do */
	const struct evidence *evidence;
	uint32_t evidence_count;
	const char *severity_reason; /* why it is as severe as it is, in a sentence */
	/* Why it is reported: the rule in one or two sentences (NULL: not recorded), and its conditions in
	 * the order in which they were asked. */
	const char *rule;
	const struct condition *conditions;
	uint32_t condition_count;
};

/* What to know about the profile itself: nothing is wrong with the program. */
struct finding_note {
	const char *about;  /* "profile-quality", "runtime", "resident-memory" */
	bool warning;       /* numbers may mislead without it */
	const char *text;   /* one sentence */
	const char *advice; /* what to do, or "" */
	const struct evidence *evidence;
	uint32_t evidence_count;
};

struct findings; /* owns everything its findings point to; the profile must outlive it */

/* Runs every diagnosis and sorts the findings by severity, then by bytes. 0 or HEFT_ENOMEM. */
int findings_new(struct findings **out, const struct profile *p);
void findings_free(struct findings *f);
uint32_t findings_count(const struct findings *f);
const struct finding *findings_get(const struct findings *f, uint32_t index);
uint32_t findings_note_count(const struct findings *f);
const struct finding_note *findings_note(const struct findings *f, uint32_t index);

const char *finding_kind_name(enum finding_kind kind); /* "unbounded-queue" */
/* What only recordings have in which somebody looked for it (enum profile_has); 0: all are looked at. */
uint32_t finding_kind_needs(enum finding_kind kind);
const char *finding_severity_name(enum finding_severity severity); /* "high" */

/* Conditions in words. Both are written where the rule is, so that text, JSON and page say the same. */
struct condition_words {
	char text[240];
};
struct condition_words condition_value(const struct condition *c, double value); /* "12.5 %" */
/* What would have made the rule silent: "blocks that another thread freed: fewer than 100 instead of 4,980". */
struct condition_words condition_reversed(const struct condition *c);
const char *condition_unit_name(enum condition_unit unit); /* "bytes" */
/* How far the measured value is beyond the limit: 1 at the limit, 2 at twice what is needed (at most: at half
 * of what is allowed). 0: there is no such number (a fact, a limit or a value of 0). */
double condition_margin(const struct condition *c);
/* Writes the numbers of the finding's conditions into `order`, the nearest to its limit first, facts last. */
void conditions_by_margin(const struct finding *f, uint32_t *order);

#endif
