/* Budgets: rules about a profile's numbers, one a line, that hold or do not (docs/budgets.md).
 *
 *     peak_bytes <= 20M            # a comment
 *     allocations in parse_* <= 1000
 *     finding unbounded-queue == 0
 *     allocated_bytes <= baseline + 5 %
 */
#ifndef HEFT_PROFILE_BUDGET_H
#define HEFT_PROFILE_BUDGET_H

#include "profile/measure.h"

enum budget_scope {
	BUDGET_ALL,
	BUDGET_IN_FUNCTION, /* sites with such a function anywhere in their stack */
	BUDGET_IN_FILE,
	BUDGET_IN_MODULE,
	BUDGET_IN_THREAD,
};

enum budget_operator { BUDGET_AT_MOST, BUDGET_BELOW, BUDGET_AT_LEAST, BUDGET_ABOVE, BUDGET_EQUAL };
const char *budget_operator_sign(enum budget_operator op); /* "<=" */

/* A kind of finding that rules may count */
struct budget_kind {
	const char *name;
	uint32_t needs; /* enum profile_has: without these nobody looked for it */
};

/* A limit that depends on what the last accepted run measured (baseline.h). */
struct budget_relative {
	bool is;         /* this rule has such a limit; budget_resolve makes a number of it */
	bool lacking;    /* the baseline does not have the number */
	bool less;       /* "baseline - ..." */
	uint32_t ppm;    /* millionths of the baseline's number */
	uint64_t amount; /* or so much, in the measure's unit */
};

struct budget_rule {
	uint32_t line;         /* from 1 */
	size_t at, length;     /* in the text, without its comment */
	size_t subject_length; /* what is measured, with its part: "allocations in parse_*" */
	size_t limit_at, limit_length;
	const struct measure *measure; /* NULL: counts findings */
	const struct budget_kind *finding;
	enum budget_scope scope;
	const char *pattern; /* as fnmatch(3) has it; NULL with BUDGET_ALL */
	enum budget_operator op;
	uint64_t limit;
	struct budget_relative relative;
	char suffix[4]; /* of the limit as written: "M", "ms", "" */
};

enum { BUDGET_LARGEST = 1 << 20 }; /* bytes of a file */

struct budget {
	char *name, *text; /* the file, whole */
	size_t size;
	struct budget_rule *rules;
	uint32_t count;
};

/* `name` is for messages ("NAME:LINE:COLUMN: expected ..."); kinds are the findings there are,
 * count of them; they must outlive the budget. 0, HEFT_ENOMEM, or HEFT_EFORMAT with err->offset. */
int budget_parse(struct budget **out, const char *name, const char *text, size_t size,
		 const struct budget_kind *kinds, size_t kind_count, struct heft_error *err);
/* The first rule that has a limit relative to a baseline; NULL: none has. */
const struct budget_rule *budget_first_relative(const struct budget *b);
/* Whether two rules are about the same number. */
bool budget_is_same_subject(const struct budget_rule *a, const struct budget_rule *b);
/* The rule of another budget that is about the same number; NULL: there is none. */
const struct budget_rule *budget_same_subject(const struct budget *b, const struct budget_rule *r);
/* Sets the limits that are relative: `measured` has a rule "== N" for each number of the baseline. NULL: there is no
 * baseline yet. */
void budget_resolve(struct budget *b, const struct budget *measured);
/* What a recording must have for the rule to be judged (enum profile_has). */
uint32_t budget_rule_needs(const struct budget_rule *r);
void budget_free(struct budget *b);

/* What a diagnosis found */
struct budget_finding {
	const char *kind, *summary;
};

enum { BUDGET_PARTS = 3 };

/* Who the measured number is made of, largest first */
struct budget_part {
	uint32_t index; /* of a site; of a thread with BUDGET_IN_THREAD; else of a finding */
	uint64_t value;
	bool unlisted; /* of what grew: the baseline does not list this stack */
};

struct budget_parts {
	struct budget_part list[BUDGET_PARTS];
	uint32_t count;
};
/* Keeps the largest few, in order. */
void budget_add_part(struct budget_parts *parts, struct budget_part part);

struct budget_result {
	uint64_t measured;
	uint64_t error95; /* of an estimate; a rule is broken only beyond it (docs/budgets.md) */
	bool holds;
	bool unknown; /* the file does not have the number: the rule cannot hold */
	bool unseen; /* it holds for what was recorded, but most of the memory was not: it cannot hold */
	bool unmatched; /* nothing in the profile matches the pattern, or has this number */
	struct budget_parts parts;
	struct budget_parts grown; /* sites that have more than in the baseline: by how much */
};

/* HEFT_EREFUSED if a rule asks for what this profile cannot answer in the way that people mean it. */
int budget_refuse(const struct budget *b, const struct profile *p, struct heft_error *err);
/* For a rule about a part of the program that is no thread: whether each node of the stacks is in it. For free(). NULL: no
 * memory. */
bool *budget_match_nodes(const struct budget_rule *r, const struct profile *p);
/* results[i] is of rules[i]; 0 or HEFT_ENOMEM. */
int budget_measure(const struct budget *b, const struct profile *p,
		   const struct budget_finding *findings, size_t finding_count,
		   struct budget_result *results);

/* A budget for a program that has none yet, to be updated. */
extern const char budget_starter[];
/* One with limits relative to a baseline, for printf with three headrooms in percent (uint64_t). */
#define BUDGET_RELATIVE_STARTER                                                                    \
	"# The most that this program may use: heft check fails beyond it (see "                   \
	"heft-check(1)).\n# "                                                                      \
	"After an intended change, renew the baseline with: heft check --update-baseline\n"        \
	"peak_bytes <= baseline + %" PRIu64                                                        \
	" %%\nleft_bytes <= baseline\nallocations <= baseline + %" PRIu64                          \
	" %%\nallocated_bytes <= baseline + %" PRIu64 " %%\ndropped == 0\n"

enum budget_update {
	BUDGET_KEPT,
	BUDGET_CHANGED,
	BUDGET_KEPT_BROKEN,    /* it does not hold, and --update must not make it */
	BUDGET_KEPT_UNMATCHED, /* measures nothing */
};
/* The text with limits of what was measured and `headroom_ppm` millionths more (less, where the rule
 * asks for at least something); everything else is as it was. updates[i] is of rules[i]. The new
 * text is for free(). 0 or HEFT_ENOMEM. */
int budget_renew(const struct budget *b, const struct budget_result *results, uint32_t headroom_ppm,
		 enum budget_update *updates, char **text, size_t *size);

#endif
