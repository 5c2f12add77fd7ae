/* A baseline: what the last accepted run of a program measured, as a small text file that is kept beside its budget
 * (docs/budgets.md).
 *
 *     # heft baseline 1
 *     peak_bytes == 110000
 *     allocations in parse_* == 1000
 *
 *     site peak_bytes=100000 allocations=100
 *     	send_message
 *     	main
 *     	__libc_start_call_main	libc.so
 *     end 12
 *
 * Numbers are written as rules of a budget. Sites follow that make up at least a hundredth of one of them: their stacks,
 * innermost first, as names that a rebuild does not change (stack_key.h), a tab and the module where it is not the program
 * itself. The last line says how many sites were smaller. */
#ifndef HEFT_PROFILE_BASELINE_H
#define HEFT_PROFILE_BASELINE_H

#include "profile/budget.h"

#define BASELINE_NAMELESS "?"         /* a function without a name; its module is known */
enum { BASELINE_LARGEST = 16 << 20 }; /* bytes of a file */

/* A site is listed if it has this much of a number. */
static inline uint64_t baseline_least(uint64_t of)
{
	return of / 100 + (of % 100 != 0);
}

struct baseline {
	struct budget *measured; /* a rule "== N" for each number */
	struct profile *sites;   /* stacks and their numbers, nothing else */
	uint64_t left_out;       /* smaller sites */
};

/* As budget_parse: 0, HEFT_ENOMEM, or HEFT_EFORMAT with err->offset. */
int baseline_parse(struct baseline **out, const char *name, const char *text, size_t size,
		   const struct budget_kind *kinds, size_t kind_count, struct heft_error *err);
void baseline_free(struct baseline *b);

/* What a new baseline is made of. */
struct baseline_source {
	const struct profile *profile;
	const struct budget *rules; /* what they measure is in the baseline */
	const struct budget_kind *kinds;
	size_t kind_count;
	const struct budget_finding *findings;
	size_t finding_count;
};
/* The text of a baseline, for free(). 0 or HEFT_ENOMEM. */
int baseline_text(const struct baseline_source *from, char **text, size_t *size);

/* Fills results[i].grown of the rules that do not hold: the sites that have more than in the baseline. 0 or HEFT_ENOMEM. */
int baseline_find_growth(const struct baseline *b, const struct profile *p,
			 const struct budget *rules, struct budget_result *results);

#endif
