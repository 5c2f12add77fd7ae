/* Limits that are relative to a baseline (budget.h): which numbers two budgets share, and what "baseline + 5 %" comes to.
 *
 * A share is rounded up, so that "baseline + 5 %" of a small number allows at least one more. Nothing wraps round: a
 * baseline is a file, and may say anything. */
#include "profile/budget.h"

#include <string.h>

const struct budget_rule *budget_first_relative(const struct budget *b)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (b->rules[i].relative.is)
			return &b->rules[i];
	return NULL;
}

bool budget_is_same_subject(const struct budget_rule *a, const struct budget_rule *b)
{
	if (a->measure != b->measure || a->scope != b->scope)
		return false;
	if (!a->measure && strcmp(a->finding->name, b->finding->name) != 0)
		return false;
	return a->pattern ? b->pattern && strcmp(a->pattern, b->pattern) == 0 : !b->pattern;
}

const struct budget_rule *budget_same_subject(const struct budget *b, const struct budget_rule *r)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (budget_is_same_subject(&b->rules[i], r))
			return &b->rules[i];
	return NULL;
}

static uint64_t apply(const struct budget_relative *r, uint64_t number)
{
	unsigned __int128 share = ((unsigned __int128)number * r->ppm + 999999) / 1000000;
	unsigned __int128 change = share + r->amount;
	if (r->less)
		return change > number ? 0 : number - (uint64_t)change;
	return change > UINT64_MAX - number ? UINT64_MAX : number + (uint64_t)change;
}

void budget_resolve(struct budget *b, const struct budget *measured)
{
	for (uint32_t i = 0; i < b->count; i++) {
		struct budget_rule *r = &b->rules[i];
		if (!r->relative.is)
			continue;
		const struct budget_rule *was = measured ? budget_same_subject(measured, r) : NULL;
		r->relative.lacking = !was;
		r->limit = was ? apply(&r->relative, was->limit) : 0;
	}
}
