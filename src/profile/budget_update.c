/* Renewing a budget from what was measured (budget.h).
 *
 * Only the bytes of the limits are replaced; comments, order and spacing stay, so that the change reads
 * well in a review. A limit keeps its unit as far as that makes sense and is rounded to the loose side:
 * what was measured holds under the new rule.
 *
 * Three kinds of rules are not renewed: "== 0", which forbids something, a rule whose pattern matches
 * nothing, whose limit would become 0 by mistake, and one whose limit is relative to a baseline. */
#include "profile/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char budget_starter[] =
	"# The most that this program may use: heft check fails beyond it (see heft-check(1)).\n# "
	"After an intended change, renew the limits with: heft check --update\npeak_bytes <= "
	"1M\nleft_bytes <= 1k\nallocations <= 1\nallocated_bytes <= 1M\ndropped == 0\n";

static uint64_t with_headroom(uint64_t measured, uint32_t ppm)
{
	unsigned __int128 more = ((unsigned __int128)measured * ppm + 999999) / 1000000;
	unsigned __int128 sum = measured + more;
	return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

static uint64_t without_headroom(uint64_t measured, uint32_t ppm)
{
	unsigned __int128 less = ((unsigned __int128)measured * ppm + 999999) / 1000000;
	return less > measured ? 0 : measured - (uint64_t)less;
}

/* The limit a rule needs. */
static uint64_t new_limit(const struct budget_rule *r, uint64_t measured, uint32_t ppm)
{
	uint64_t limit = measured;
	switch (r->op) {
	case BUDGET_AT_MOST: return with_headroom(measured, ppm);
	case BUDGET_BELOW:
		limit = with_headroom(measured, ppm);
		return limit == UINT64_MAX ? limit : limit + 1;
	case BUDGET_AT_LEAST: return without_headroom(measured, ppm);
	case BUDGET_ABOVE: limit = without_headroom(measured, ppm); return limit ? limit - 1 : 0;
	case BUDGET_EQUAL: break;
	}
	return limit;
}

static enum budget_update decide(const struct budget_rule *r, const struct budget_result *result,
				 uint64_t limit)
{
	if (result->unknown || result->unseen)
		return BUDGET_KEPT_BROKEN;
	if (r->relative.is) /* it changes with the baseline */
		return result->holds ? BUDGET_KEPT : BUDGET_KEPT_BROKEN;
	if (result->unmatched)
		return BUDGET_KEPT_UNMATCHED;
	if (r->op == BUDGET_EQUAL && result->holds)
		return BUDGET_KEPT;
	if (r->op == BUDGET_EQUAL && r->limit == 0)
		return BUDGET_KEPT_BROKEN;
	if (r->op == BUDGET_ABOVE && !result->measured) /* nothing is less than nothing */
		return BUDGET_KEPT_BROKEN;
	if (r->op == BUDGET_BELOW && result->measured == UINT64_MAX)
		return BUDGET_KEPT_BROKEN;
	return limit == r->limit ? BUDGET_KEPT : BUDGET_CHANGED;
}

struct unit {
	const char *name;
	uint64_t scale;
};

/* Smaller units of the same family, largest first, from the one that was written. */
static const struct unit *units_from(const struct budget_rule *r)
{
	static const struct unit sizes[] = {{"T", 1ull << 40},
					    {"G", 1ull << 30},
					    {"M", 1ull << 20},
					    {"k", 1ull << 10},
					    {"", 1}};
	static const struct unit times[] = {{"h", 3600000000000}, {"m", 60000000000},
					    {"s", 1000000000},    {"ms", 1000000},
					    {"us", 1000},         {"ns", 1}};
	static const struct unit plain[] = {{"", 1}};
	enum measure_unit unit = r->measure ? r->measure->unit : MEASURE_IS_COUNT;
	if (unit == MEASURE_IS_BYTES) {
		char letter = r->suffix[0] == 'K' ? 'k' : r->suffix[0];
		for (const struct unit *u = sizes; u->scale > 1; u++)
			if (letter && (letter | 0x20) == (u->name[0] | 0x20))
				return u;
	}
	if (unit == MEASURE_IS_TIME)
		for (const struct unit *u = times; u->scale > 1; u++)
			if (strcmp(u->name, r->suffix) == 0)
				return u;
	if (unit == MEASURE_IS_TIME && strcmp(r->suffix, "ns") == 0)
		return &times[5];
	return plain;
}

struct limit_text {
	char text[48];
};

/* At most two decimals; `up` says to which side it is rounded. */
static struct limit_text limit_words(const struct budget_rule *r, uint64_t value)
{
	bool up = r->op == BUDGET_AT_MOST || r->op == BUDGET_BELOW;
	const struct unit *u = units_from(r);
	struct limit_text t;
	while (u->scale > 1 && (value < u->scale || value > UINT64_MAX - u->scale))
		u++;               /* less than one of them, or too large to round up */
	if (r->op == BUDGET_EQUAL) /* exactly */
		while (u->scale > 1 && value % u->scale)
			u++;
	uint64_t whole = value / u->scale;
	uint64_t hundred = u->scale == 1 || whole >= 100 ? 1 : whole >= 10 ? 10 : 100;
	unsigned __int128 scaled = (unsigned __int128)value * hundred;
	uint64_t n = (uint64_t)((scaled + (up ? u->scale - 1 : 0)) / u->scale);
	while (hundred > 1 && n % 10 == 0) {
		n /= 10;
		hundred /= 10;
	}
	if (hundred == 1)
		snprintf(t.text, sizeof t.text, "%" PRIu64 "%s", n, u->name);
	else
		snprintf(t.text, sizeof t.text, "%" PRIu64 ".%0*" PRIu64 "%s", n / hundred,
			 hundred == 100 ? 2 : 1, n % hundred, u->name);
	return t;
}

int budget_renew(const struct budget *b, const struct budget_result *results, uint32_t headroom_ppm,
		 enum budget_update *updates, char **text, size_t *size)
{
	size_t done = 0;
	FILE *out = open_memstream(text, size);
	if (!out)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < b->count; i++) {
		const struct budget_rule *r = &b->rules[i];
		uint64_t limit = new_limit(r, results[i].measured, headroom_ppm);
		struct limit_text words = limit_words(r, limit);
		updates[i] = decide(r, &results[i], limit);
		if (updates[i] == BUDGET_CHANGED && strlen(words.text) == r->limit_length &&
		    memcmp(words.text, b->text + r->limit_at, r->limit_length) == 0)
			updates[i] = BUDGET_KEPT; /* rounded, it is the same */
		if (updates[i] != BUDGET_CHANGED)
			continue;
		fwrite(b->text + done, 1, r->limit_at - done, out);
		fputs(words.text, out);
		done = r->limit_at + r->limit_length;
	}
	fwrite(b->text + done, 1, b->size - done, out);
	bool failed = ferror(out);
	if (fclose(out) != 0 || failed) {
		free(*text);
		*text = NULL;
		return HEFT_ENOMEM;
	}
	return 0;
}
