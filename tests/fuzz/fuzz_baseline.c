/* Fuzzes the reader of baselines, and what is done with what it accepts. Whatever parses is compared with a small profile: what
 * has grown must not be more than there is, and a baseline that is written of the profile must parse again and differ in
 * nothing. Without libFuzzer: runs over the files and folders given, and over damaged copies of each. */
#include "profile/baseline.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct budget_kind kinds[] = {{.name = "unbounded-queue"}};

/* main > parse_row, main > a function without a name in a library, main > tiny. */
static struct profile *small_profile(void)
{
	static const struct {
		const char *function, *module;
		uint64_t bytes;
	} leaves[] = {{"parse_row", NULL, 900},
		      {"libq.so.1+0x12", "/lib/libq.so.1", 300},
		      {"tiny", NULL, 1}};
	struct profile *p = profile_new();
	struct profile_frame f = {.module = PROFILE_NONE};
	uint32_t frame, root, node, site;
	if (!p)
		abort();
	f.function = name_pool_add(p->names, "main");
	if (profile_add_frame(p, &f, &frame) || profile_add_node(p, PROFILE_NONE, frame, 0, &root))
		abort();
	for (size_t i = 0; i < 3; i++) {
		f.function = name_pool_add(p->names, leaves[i].function);
		f.module = PROFILE_NONE;
		if ((leaves[i].module &&
		     profile_add_module(p, leaves[i].module, NULL, 0, &f.module)) ||
		    profile_add_frame(p, &f, &frame) ||
		    profile_add_node(p, root, frame, 0, &node) ||
		    profile_add_site(p, node, 0, &site))
			abort();
		p->sites[site].allocations = 1;
		p->sites[site].peak_bytes = leaves[i].bytes;
		p->totals.allocations++;
		p->totals.peak_bytes += leaves[i].bytes;
	}
	return p;
}

static struct budget *two_rules(void)
{
	static const char text[] = "peak_bytes < 0\nallocations in parse_* < 0\n";
	struct budget *b;
	if (budget_parse(&b, "rules", text, strlen(text), kinds, 1, NULL))
		abort();
	return b;
}

static void compare(const struct baseline *b, const struct profile *p, const struct budget *rules)
{
	struct budget_result results[2];
	if (budget_measure(rules, p, NULL, 0, results) ||
	    baseline_find_growth(b, p, rules, results))
		abort();
	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < results[i].grown.count; k++)
			if (results[i].grown.list[k].value > results[i].measured ||
			    results[i].grown.list[k].index >= p->site_count)
				abort();
}

/* With the numbers of the baseline as rules. */
static void write_again(const struct baseline *b, const struct profile *p,
			const struct budget *rules)
{
	const struct baseline_source from = {
		.profile = p, .rules = b->measured, .kinds = kinds, .kind_count = 1};
	struct baseline *again;
	struct budget_result results[2];
	char *text;
	size_t size;
	if (baseline_text(&from, &text, &size) ||
	    baseline_parse(&again, "again", text, size, kinds, 1, NULL) ||
	    budget_measure(rules, p, NULL, 0, results) ||
	    baseline_find_growth(again, p, rules, results))
		abort();
	for (int i = 0; i < 2; i++)
		if (results[i].grown.count && !again->left_out)
			abort();
	baseline_free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct profile *p;
	static struct budget *rules;
	struct heft_error err;
	struct baseline *b;
	/* A copy of exactly this size, so that one byte too far is noticed. */
	char *copy = malloc(size ? size : 1);
	if (!p) {
		p = small_profile();
		rules = two_rules();
	}
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	int rc = baseline_parse(&b, "baseline", copy, size, kinds, 1, &err);
	free(copy);
	if (rc) {
		if (b || rc != HEFT_EFORMAT || err.offset > size)
			abort();
		return 0;
	}
	compare(b, p, rules);
	write_again(b, p, rules);
	baseline_free(b);
	return 0;
}

#include "fuzz_corpus.h"
