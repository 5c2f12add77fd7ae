/* Writes baselines (baseline.h).
 *
 * People review this file with a change, so it has only what a change of the program changes: counts and sizes, no times and
 * no resident memory unless a rule asks for them, no addresses, lines or order of sizes. Sites are sorted by their names, so
 * that a site that has grown stays where it was.
 *
 * Sites of one stack of names are one: which of them is which would depend on their lines. */
#include "profile/baseline.h"

#include "hosted/compare.h"
#include "profile/stack_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every baseline has, if the recording does. */
static const enum measure_id always[] = {
	MEASURE_PEAK_BYTES,    MEASURE_PEAK_BLOCKS,     MEASURE_LEFT_BYTES,
	MEASURE_LEFT_BLOCKS,   MEASURE_ALLOCATED_BYTES, MEASURE_ALLOCATIONS,
	MEASURE_REALLOCATIONS, MEASURE_TEMPORARY,       MEASURE_THREADS,
};
enum { ALWAYS = sizeof always / sizeof *always };

struct group {
	uint32_t path; /* whole (stack_key.h) */
	struct profile_site sum;
	bool listed;
	char *stack; /* as it is written */
};

struct writer {
	const struct baseline_source *from;
	const struct profile *p;
	struct budget *subjects; /* rules about the numbers, whose limits mean nothing */
	struct budget_result *results;
	struct stack_keys *keys;
	struct stack_key *key_of_node;
	struct group *groups;
	uint32_t *group_of_site;
	uint32_t group_count;
};

static int close_stream(FILE *out, char **text)
{
	bool failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return 0;
	free(*text);
	*text = NULL;
	return HEFT_ENOMEM;
}

/* ---- the numbers */

static bool is_always(const struct budget_rule *r)
{
	for (int i = 0; i < ALWAYS; i++)
		if (r->scope == BUDGET_ALL && r->measure == &measures[always[i]])
			return true;
	return false;
}

static int measure_subjects(struct writer *w)
{
	const struct baseline_source *from = w->from;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return HEFT_ENOMEM;
	for (int i = 0; i < ALWAYS; i++)
		fprintf(out, "%s == 0\n", measures[always[i]].name);
	for (uint32_t i = 0; i < from->rules->count; i++) {
		const struct budget_rule *r = &from->rules->rules[i];
		if (!is_always(r) && budget_same_subject(from->rules, r) == r)
			fprintf(out, "%.*s == 0\n", (int)r->subject_length,
				from->rules->text + r->at);
	}
	int rc = close_stream(out, &text);
	if (rc == 0)
		rc = budget_parse(&w->subjects, from->rules->name, text, size, from->kinds,
				  from->kind_count, NULL);
	free(text);
	if (rc < 0)
		return HEFT_ENOMEM; /* what was a rule is one again */
	w->results = calloc(w->subjects->count, sizeof *w->results);
	return w->results ? budget_measure(w->subjects, w->p, from->findings, from->finding_count,
					   w->results)
			  : HEFT_ENOMEM;
}

static void write_numbers(FILE *out, const struct writer *w)
{
	const struct budget *b = w->subjects;
	fputs("# heft baseline 1\n"
	      "# What the last accepted run measured. heft check --update-baseline renews this "
	      "file.\n",
	      out);
	for (uint32_t i = 0; i < b->count; i++)
		if (!w->results[i].unknown)
			fprintf(out, "%.*s == %" PRIu64 "\n", (int)b->rules[i].subject_length,
				b->text + b->rules[i].at, w->results[i].measured);
}

/* ---- sites by their stacks of names */

static bool has_sites(const struct writer *w, uint32_t subject)
{
	const struct budget_rule *r = &w->subjects->rules[subject];
	return r->measure && measure_adds_up(r->measure) && r->scope != BUDGET_IN_THREAD &&
	       !w->results[subject].unknown;
}

static uint32_t path_of(const struct writer *w, uint32_t site)
{
	uint32_t node = w->p->sites[site].node;
	return node == PROFILE_NONE ? 0 : w->key_of_node[node].whole;
}

static int by_path(const void *a, const void *b, void *ctx)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return compare_numbers(path_of(ctx, x), path_of(ctx, y)) ?: compare_numbers(x, y);
}

static int make_groups(struct writer *w)
{
	const struct profile *p = w->p;
	size_t count = (size_t)p->site_count + 1;
	uint32_t *order = malloc(count * sizeof *order);
	int rc = HEFT_ENOMEM;
	w->keys = stack_keys_new();
	w->key_of_node = malloc(((size_t)p->stacks.node_count + 1) * sizeof *w->key_of_node);
	w->groups = calloc(count, sizeof *w->groups);
	w->group_of_site = malloc(count * sizeof *w->group_of_site);
	if (order && w->keys && w->key_of_node && w->groups && w->group_of_site)
		rc = stack_keys_add(w->keys, p, 0, w->key_of_node);
	for (uint32_t i = 0; rc == 0 && i < p->site_count; i++)
		order[i] = i;
	if (rc == 0)
		qsort_r(order, p->site_count, sizeof *order, by_path, w);
	for (uint32_t i = 0; rc == 0 && i < p->site_count; i++) {
		uint32_t path = path_of(w, order[i]);
		if (!w->group_count || w->groups[w->group_count - 1].path != path)
			w->groups[w->group_count++].path = path;
		measure_add_sums(&w->groups[w->group_count - 1].sum, &p->sites[order[i]]);
		w->group_of_site[order[i]] = w->group_count - 1;
	}
	free(order);
	return rc;
}

/* Lists the stacks that make up a hundredth of a number. */
static int choose(struct writer *w, uint32_t subject)
{
	const struct budget_rule *r = &w->subjects->rules[subject];
	const struct profile *p = w->p;
	bool *nodes = r->scope == BUDGET_ALL ? NULL : budget_match_nodes(r, p);
	uint64_t *sums = calloc((size_t)w->group_count + 1, sizeof *sums);
	if (!sums || (!nodes && r->scope != BUDGET_ALL)) {
		free(nodes);
		free(sums);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (!nodes || (p->sites[i].node != PROFILE_NONE && nodes[p->sites[i].node]))
			sums[w->group_of_site[i]] += measure_of_site(
				&p->sites[i], (enum measure_id)(r->measure - measures));
	for (uint32_t i = 0; i < w->group_count; i++)
		if (sums[i] && sums[i] >= baseline_least(w->results[subject].measured))
			w->groups[i].listed = true;
	free(nodes);
	free(sums);
	return 0;
}

static void write_name(FILE *out, const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)name[i];
		if (c < 0x20 || c == 0x7f || c == '\\')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static int spell_stack(struct writer *w, struct group *g)
{
	size_t size;
	FILE *out = open_memstream(&g->stack, &size);
	if (!out)
		return HEFT_ENOMEM;
	for (uint32_t path = g->path; path;) {
		struct stack_key_name name;
		path = stack_keys_caller(w->keys, path, &name);
		putc('\t', out);
		if (name.length)
			write_name(out, name.function, name.length);
		else
			fputs(BASELINE_NAMELESS, out);
		if (name.module[0]) {
			putc('\t', out);
			write_name(out, name.module, strlen(name.module));
		}
		putc('\n', out);
	}
	return close_stream(out, &g->stack);
}

/* Those that are listed first, in the order of their names. */
static int by_stack(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	if (x->listed && y->listed)
		return strcmp(x->stack, y->stack);
	return compare_numbers(y->listed, x->listed);
}

static void write_site(FILE *out, const struct writer *w, const struct group *g)
{
	fputs("site", out);
	for (enum measure_id id = 0; id < MEASURE_COUNT; id++) {
		bool wanted = false;
		for (uint32_t i = 0; i < w->subjects->count && !wanted; i++)
			wanted = w->subjects->rules[i].measure == &measures[id] && has_sites(w, i);
		uint64_t value = wanted ? measure_of_site(&g->sum, id) : 0;
		if (value)
			fprintf(out, " %s=%" PRIu64, measures[id].name, value);
	}
	fprintf(out, "\n%s", g->stack);
}

static int write_sites(FILE *out, struct writer *w)
{
	uint32_t listed = 0;
	int rc = make_groups(w);
	for (uint32_t i = 0; rc == 0 && i < w->subjects->count; i++)
		if (has_sites(w, i))
			rc = choose(w, i);
	for (uint32_t i = 0; rc == 0 && i < w->group_count; i++) {
		listed += w->groups[i].listed;
		if (w->groups[i].listed)
			rc = spell_stack(w, &w->groups[i]);
	}
	if (rc < 0)
		return rc;
	qsort(w->groups, w->group_count, sizeof *w->groups, by_stack);
	putc('\n', out);
	for (uint32_t i = 0; i < listed; i++)
		write_site(out, w, &w->groups[i]);
	fprintf(out, "end %" PRIu32 "\n", w->group_count - listed);
	return 0;
}

int baseline_text(const struct baseline_source *from, char **text, size_t *size)
{
	struct writer w = {.from = from, .p = from->profile};
	*text = NULL;
	FILE *out = open_memstream(text, size);
	int rc = out ? measure_subjects(&w) : HEFT_ENOMEM;
	if (rc == 0) {
		write_numbers(out, &w);
		rc = write_sites(out, &w);
	}
	if (out && close_stream(out, text) < 0)
		rc = HEFT_ENOMEM;
	if (rc < 0) {
		free(*text);
		*text = NULL;
	}
	for (uint32_t i = 0; i < w.group_count; i++)
		free(w.groups[i].stack);
	free(w.groups);
	free(w.group_of_site);
	free(w.key_of_node);
	stack_keys_free(w.keys);
	free(w.results);
	budget_free(w.subjects);
	return rc;
}
