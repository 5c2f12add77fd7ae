/* Decides the conditions of a rule, records them, and writes them in words.
 *
 * One call compares and records, so that the explanation of a finding is what was decided. Only conditions that
 * held are recorded: a finding exists because all of them did, and the reverse of any one of them would have
 * kept the rule silent.
 *
 * Invariants: deciding never fails for lack of room (a rule with too many conditions loses the record of the
 * last ones, not the decision); NaN holds nothing. */
#include "findings/diagnosis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct rule rule_begin(const char *words)
{
	struct rule r;
	memset(&r, 0, sizeof r);
	r.words = words;
	return r;
}

static void record(struct rule *r, struct condition c)
{
	if (r->count < RULE_CONDITIONS)
		r->conditions[r->count++] = c;
}

bool rule_at_least(struct rule *r, const char *what, enum condition_unit unit, double measured,
		   double limit)
{
	if (!(measured >= limit))
		return false;
	record(r, (struct condition){
			  .what = what, .unit = unit, .measured = measured, .limit = limit});
	return true;
}

bool rule_at_most(struct rule *r, const char *what, enum condition_unit unit, double measured,
		  double limit)
{
	if (!(measured <= limit))
		return false;
	record(r, (struct condition){.what = what,
				     .unit = unit,
				     .measured = measured,
				     .limit = limit,
				     .at_most = true});
	return true;
}

bool rule_fact(struct rule *r, const char *what, const char *otherwise, bool holds)
{
	if (!holds)
		return false;
	record(r, (struct condition){.what = what,
				     .otherwise = otherwise,
				     .unit = UNIT_FACT,
				     .measured = 1,
				     .limit = 1});
	return true;
}

/* ---- in words */

const char *condition_unit_name(enum condition_unit unit)
{
	switch (unit) {
	case UNIT_COUNT: return "count";
	case UNIT_BYTES: return "bytes";
	case UNIT_RATE: return "bytes_per_second";
	case UNIT_PER_SECOND: return "per_second";
	case UNIT_TIME_NS: return "ns";
	case UNIT_SHARE: return "share";
	case UNIT_NUMBER: return "number";
	case UNIT_FACT: break;
	}
	return "fact";
}

struct condition_words condition_value(const struct condition *c, double value)
{
	struct condition_words w = {""};
	struct words number;
	switch (c->unit) {
	case UNIT_COUNT: number = words_count(whole_number(value)); break;
	case UNIT_BYTES: number = words_size(whole_number(value)); break;
	case UNIT_RATE:
		snprintf(w.text, sizeof w.text, "%s a second",
			 words_size(whole_number(value)).text);
		return w;
	case UNIT_PER_SECOND:
		snprintf(w.text, sizeof w.text, "%s", phrase_rate(value).text);
		return w;
	case UNIT_TIME_NS: number = words_time(value); break;
	case UNIT_SHARE: number = words_percent(value); break;
	case UNIT_NUMBER: snprintf(w.text, sizeof w.text, "%.3g", value); return w;
	case UNIT_FACT:
	default: snprintf(w.text, sizeof w.text, "%s", value > 0 ? "yes" : "no"); return w;
	}
	snprintf(w.text, sizeof w.text, "%s", number.text);
	return w;
}

struct condition_words condition_reversed(const struct condition *c)
{
	struct condition_words w;
	if (c->unit == UNIT_FACT)
		snprintf(w.text, sizeof w.text, "%s", c->otherwise ? c->otherwise : "");
	else
		snprintf(w.text, sizeof w.text, "%.130s: %s than %.40s instead of %.40s", c->what,
			 c->at_most              ? "more"
			 : c->unit == UNIT_COUNT ? "fewer"
						 : "less",
			 condition_value(c, c->limit).text, condition_value(c, c->measured).text);
	return w;
}

double condition_margin(const struct condition *c)
{
	double margin = c->at_most ? c->limit / c->measured : c->measured / c->limit;
	return c->unit != UNIT_FACT && isfinite(margin) && margin > 0 ? margin : 0;
}

/* Facts and values without a margin come last. */
static bool is_nearer(const struct condition *a, const struct condition *b)
{
	double x = condition_margin(a), y = condition_margin(b);
	return x > 0 && (y <= 0 || x < y);
}

void conditions_by_margin(const struct finding *f, uint32_t *order)
{
	for (uint32_t i = 0; i < f->condition_count; i++) {
		uint32_t at = i;
		for (; at > 0 && is_nearer(&f->conditions[i], &f->conditions[order[at - 1]]); at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}
