/* Fuzzes the reader of budget files, and what is done with what it accepts. Whatever parses is
 * measured on a small profile and renewed from random numbers; the renewed text must parse to the
 * same rules, and each that was changed must hold of its number. Without libFuzzer: runs over the
 * files and folders given, and over damaged copies of each. */
#include "profile/budget.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct budget_kind kinds[] = {{.name = "unbounded-queue"}, {.name = "growth-slack"}};
static const struct budget_finding found[] = {{"unbounded-queue", "a queue"}};

static struct profile *small_profile(void)
{
	struct profile *p = profile_new();
	struct profile_frame f = {.module = PROFILE_NONE};
	uint32_t frame, node, site;
	if (!p)
		abort();
	f.function = name_pool_add(p->names, "parse_row(int (*)(char))");
	f.file = name_pool_add(p->names, "/x/csv.c");
	if (profile_add_frame(p, &f, &frame) ||
	    profile_add_node(p, PROFILE_NONE, frame, 0, &node) ||
	    profile_add_site(p, node, 0, &site))
		abort();
	p->sites[site].allocations = p->totals.allocations = 3;
	return p;
}

static bool holds(const struct budget_rule *r, uint64_t measured)
{
	switch (r->op) {
	case BUDGET_AT_MOST: return measured <= r->limit;
	case BUDGET_BELOW: return measured < r->limit;
	case BUDGET_AT_LEAST: return measured >= r->limit;
	case BUDGET_ABOVE: return measured > r->limit;
	case BUDGET_EQUAL: return measured == r->limit;
	}
	abort();
}

static void renew(const struct budget *b, struct budget_result *results, uint64_t seed)
{
	enum budget_update *updates = calloc(b->count, sizeof *updates);
	struct budget *again;
	char *text;
	size_t size;
	if (!updates)
		abort();
	for (uint32_t i = 0; i < b->count; i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		results[i].measured = seed >> (seed >> 58); /* of every magnitude */
		results[i].holds = holds(&b->rules[i], results[i].measured);
	}
	if (budget_renew(b, results, (uint32_t)(seed >> 40) % 10000000, updates, &text, &size) ||
	    budget_parse(&again, "renewed", text, size, kinds, 2, NULL))
		abort();
	if (again->count != b->count)
		abort();
	for (uint32_t i = 0; i < b->count; i++) {
		const struct budget_rule *r = &again->rules[i], *was = &b->rules[i];
		if (r->op != was->op || r->measure != was->measure || r->scope != was->scope ||
		    r->line != was->line)
			abort();
		if (updates[i] == BUDGET_CHANGED ? !holds(r, results[i].measured)
						 : r->limit != was->limit)
			abort();
	}
	budget_free(again);
	free(text);
	free(updates);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct profile *p;
	struct heft_error err;
	struct budget *b;
	/* A copy of exactly this size, so that one byte too far is noticed. */
	char *copy = malloc(size ? size : 1);
	if (!p)
		p = small_profile();
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	int rc = budget_parse(&b, "budget", copy, size, kinds, 2, &err);
	free(copy);
	if (rc) {
		if (b || rc != HEFT_EFORMAT || err.offset > size)
			abort();
		return 0;
	}
	struct budget_result *results = calloc(b->count, sizeof *results);
	if (!results || budget_measure(b, p, found, 1, results))
		abort();
	for (uint64_t seed = 1; seed < 8; seed++)
		renew(b, results, seed + size);
	free(results);
	budget_free(b);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_DAMAGE

/* A byte or two wrong, some copies cut. */
static void fuzz_damage(uint8_t *bytes, size_t size)
{
	static const char likely[] = "<>=.0918kMsn* \t\n\r\"#:[\\";
	uint8_t *bad = malloc(size + 1);
	uint64_t rng = 7;
	for (int i = 0; i < 3000 && size && bad; i++) {
		memcpy(bad, bytes, size);
		for (int k = 0; k <= i % 2; k++) {
			rng = rng * 6364136223846793005ull + 1442695040888963407ull;
			bad[(rng >> 33) % size] =
				i % 3 ? (uint8_t)likely[(rng >> 20) % (sizeof likely - 1)]
				      : (uint8_t)(rng >> 20);
		}
		LLVMFuzzerTestOneInput(bad, i % 4 ? size : (rng >> 33) % size);
	}
	free(bad);
}
#endif

#include "fuzz_corpus.h"
