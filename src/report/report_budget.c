/* `heft check` in words: one line when every rule holds, else a table of the rules that do not: the
 * rule, its limit, what was measured, by how much it is off, and the sites, threads or findings that
 * make up the number. */
#include "report/report_budget_parts.h"

#include "report/report_parts.h"
#include "hosted/program_name.h"
#include "profile/site_callers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	LONGEST_RULE = 60,
	MESSAGE_WIDTH = 160,
	PART_INDENT = 8,
	PART_COLUMNS = 29,
	TIMES_FROM = 10 /* "x 11", not "+1000 %" */
};

uint32_t report_budget_broken(const struct report_budget *r)
{
	uint32_t broken = 0;
	for (uint32_t i = 0; i < r->budget->count; i++)
		broken += !r->results[i].holds;
	return broken;
}

/* How many of these hold for what was recorded, which is the smaller part of the memory. */
static uint32_t count_unseen(const struct report_budget *r)
{
	uint32_t unseen = 0;
	for (uint32_t i = 0; i < r->budget->count; i++)
		unseen += r->results[i].unseen;
	return unseen;
}

static struct report_options lines_of(const struct report_budget *r)
{
	return (struct report_options){.width = r->width, .color = r->color};
}

struct words report_budget_value(const struct budget_rule *rule, uint64_t value)
{
	return rule->measure ? words_value(value, (enum measure_id)(rule->measure - measures))
			     : words_count(value);
}

void report_budget_print_change(FILE *out, const struct budget_rule *rule, uint64_t from,
				uint64_t to)
{
	bool more = to >= from;
	uint64_t change = more ? to - from : from - to;
	fprintf(out, "%c%s", more ? '+' : '-', report_budget_value(rule, change).text);
	if (from && change / from >= TIMES_FROM)
		fprintf(out, " (x %.3g)", (double)to / (double)from);
	else if (from)
		fprintf(out, " (%c%s)", more ? '+' : '-', words_share(change, from).text);
}

/* Two numbers that differ must read differently. */
static void words_that_differ(const struct budget_rule *rule, uint64_t a, uint64_t b,
			      struct words *x, struct words *y)
{
	*x = report_budget_value(rule, a);
	*y = report_budget_value(rule, b);
	if (a == b || strcmp(x->text, y->text) != 0)
		return;
	const char *unit = rule->measure->unit == MEASURE_IS_TIME ? " ns" : " B";
	*x = words_count(a);
	*y = words_count(b);
	strcat(x->text, unit); /* 26 + 3 at most */
	strcat(y->text, unit);
}

/* In at most `longest` columns, and "..." if it is longer; filled up with blanks to `width`. */
static void print_rule(FILE *out, const struct budget *b, const struct budget_rule *rule, int width,
		       size_t longest)
{
	char text[LONGEST_RULE + 1];
	size_t length = rule->length < longest ? rule->length : longest;
	memcpy(text, b->text + rule->at, length);
	text[length] = 0;
	for (char *c = text; *c; c++)
		if (*c == '\t')
			*c = ' ';
	words_print(out, text, SIZE_MAX);
	fputs(rule->length > longest ? "..." : "", out);
	int shown = (int)(rule->length > longest ? longest + 3 : length);
	if (shown < width)
		fprintf(out, "%*s", width - shown, "");
}

static int rule_width(const struct report_budget *r)
{
	size_t width = strlen("rule");
	for (uint32_t i = 0; i < r->budget->count; i++) {
		size_t length = r->budget->rules[i].length;
		if ((!r->results[i].holds || r->verbose) && length > width)
			width = length;
	}
	return (int)(width > LONGEST_RULE ? LONGEST_RULE + 3 : width);
}

/* ---- who is responsible */

static bool parts_are_sites(const struct budget_rule *rule)
{
	return rule->measure && rule->scope != BUDGET_IN_THREAD;
}

/* What has grown tells more than what is large. */
static const struct budget_parts *told(const struct budget_result *result)
{
	return result->grown.count ? &result->grown : &result->parts;
}

/* NULL: parts that are not sites, or no memory. */
static struct site_callers *callers_of_parts(const struct profile *p,
					     const struct budget_rule *rule,
					     const struct budget_parts *parts)
{
	uint32_t sites[BUDGET_PARTS], count = 0;
	if (!parts_are_sites(rule))
		return NULL;
	while (count < parts->count && count < BUDGET_PARTS) {
		sites[count] = parts->list[count].index;
		count++;
	}
	return site_callers_new(p, sites, count);
}

const struct profile_frame *report_budget_place(const struct report_budget *r, uint32_t rule)
{
	const struct budget_parts *parts = told(&r->results[rule]);
	if (!parts_are_sites(&r->budget->rules[rule]) || !parts->count)
		return NULL;
	uint32_t node = r->profile->sites[parts->list[0].index].node;
	uint32_t user = profile_first_user_node(r->profile, node);
	return user == PROFILE_NONE ? NULL : profile_node_frame(r->profile, user);
}

/* Two columns: how much, and how much that is. */
static void print_amount(FILE *out, const struct budget_rule *rule,
			 const struct budget_result *result, const struct budget_part *part)
{
	bool grown = told(result) == &result->grown;
	struct words value = report_budget_value(rule, part->value);
	struct words share = words_share(part->value, result->measured);
	fprintf(out, "%*s%s%s %8s  ", 17 - (int)strlen(value.text), "", grown ? "+" : " ",
		value.text,
		!grown           ? share.text
		: part->unlisted ? "new"
				 : "");
}

static void print_parts(FILE *out, const struct report_budget *r, uint32_t index)
{
	const struct profile *p = r->profile;
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	struct report_options lines = lines_of(r);
	const struct budget_parts *parts = told(result);
	struct site_callers *callers = callers_of_parts(p, rule, parts);
	for (uint32_t i = 0; i < parts->count; i++) {
		const struct budget_part *part = &parts->list[i];
		if (!rule->measure) {
			fprintf(out, "%*s", PART_INDENT, "");
			words_print_wrapped(out, r->findings[part->index].summary, PART_INDENT,
					    report_width(&lines));
			putc('\n', out);
			continue;
		}
		print_amount(out, rule, result, part);
		if (rule->scope == BUDGET_IN_THREAD) {
			const struct profile_thread *t = &p->threads[part->index];
			fputs("thread ", out);
			words_print(out, t->name ? t->name : "", 40);
			fprintf(out, " (%" PRId32 ")\n", t->tid);
			continue;
		}
		const struct profile_site *s = &p->sites[part->index];
		size_t width = report_width(&lines);
		report_print_site_via(out, p, s, site_callers_text(callers, i),
				      width - PART_COLUMNS);
		putc('\n', out);
	}
	site_callers_free(callers);
}

/* Why a rule cannot be judged */
const char *report_budget_lack(const struct report_budget *r, const struct budget_rule *rule)
{
	if (rule->relative.lacking)
		return "not in the baseline: --update-baseline adds it";
	if (rule->measure && measure_known(r->profile, (enum measure_id)(rule->measure - measures)))
		return "samples do not tell what a thread did";
	return measure_lack_words(budget_rule_needs(rule));
}

char *report_budget_message(const struct report_budget *r, uint32_t index)
{
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	struct report_budget plain = *r;
	struct words limit, measured;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	plain.color = false;
	plain.width = MESSAGE_WIDTH;
	words_that_differ(rule, rule->limit, result->measured, &limit, &measured);
	fprintf(out, "%.*s", (int)rule->length, r->budget->text + rule->at);
	if (result->unknown) {
		fprintf(out, ": cannot be judged: %s\n", report_budget_lack(r, rule));
	} else if (result->unseen) {
		fputs(": not judged, because most of the memory was not recorded\n", out);
	} else {
		fprintf(out, ": measured %s, limit %s, off by ", measured.text, limit.text);
		report_budget_print_change(out, rule, rule->limit, result->measured);
		putc('\n', out);
		print_parts(out, &plain, index);
	}
	bool failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

static void print_result(FILE *out, const struct report_budget *r, uint32_t index, int width)
{
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	struct words limit, measured;
	words_that_differ(rule, rule->limit, result->measured, &limit, &measured);
	fprintf(out, "%6" PRIu32 "  ", rule->line);
	words_style(out, r->color, result->holds ? STYLE_PLAIN : STYLE_WARN);
	print_rule(out, r->budget, rule, width, LONGEST_RULE);
	words_style(out, r->color, STYLE_PLAIN);
	if (result->unknown) {
		fprintf(out, " %13s %13s  %s\n", limit.text, "-", report_budget_lack(r, rule));
		return;
	}
	fprintf(out, " %13s %13s  ", limit.text, measured.text);
	if (result->unseen) {
		fputs("not judged: most of the memory was not recorded\n", out);
		return;
	}
	if (result->error95)
		fprintf(out, "+- %s  ", report_budget_value(rule, result->error95).text);
	if (result->holds) {
		fputs("holds\n", out);
		return;
	}
	report_budget_print_change(out, rule, rule->limit, result->measured);
	putc('\n', out);
}

static void print_warnings(FILE *out, const struct report_budget *r)
{
	static const char *const what[] = {
		[BUDGET_IN_FUNCTION] = "function",
		[BUDGET_IN_FILE] = "file",
		[BUDGET_IN_MODULE] = "module",
		[BUDGET_IN_THREAD] = "thread",
	};
	const struct profile *p = r->profile;
	struct report_options lines = lines_of(r);
	report_print_warnings(out, p, &lines);
	if (r->at) {
		bool exit = strcmp(r->at, "exit") == 0;
		bool named = strcmp(r->at, "peak") == 0 || strcmp(r->at, "end") == 0;
		fputs("  - ", out);
		report_print_prose(out, &lines, 4,
				   "rules for live memory count what %s%s%s; all others count the "
				   "whole run",
				   exit ? "each process had not freed when it ended"
					: "was live at ",
				   named ? "the " : "", exit ? "" : r->at);
	}
	words_style(out, r->color, STYLE_WARN);
	if (p->run.end == PROFILE_END_SIGNAL ||
	    (p->run.end == PROFILE_END_EXIT && p->run.exit_status)) {
		fputs("  ! the recorded program failed: ", out);
		fputs(words_end(p).text, out);
		putc('\n', out);
	}
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_rule *rule = &r->budget->rules[i];
		if (!r->results[i].unmatched)
			continue;
		fprintf(out, "  ! line %" PRIu32 ": ", rule->line);
		if (rule->scope == BUDGET_ALL) {
			fprintf(out, "the run was too short to have a %s", rule->measure->name);
		} else {
			fprintf(out, "no %s that allocates matches ", what[rule->scope]);
			words_print(out, rule->pattern, LONGEST_RULE);
		}
		fputs(": this rule measures nothing\n", out);
	}
	words_style(out, r->color, STYLE_PLAIN);
}

/* The rule that is nearest to its limit, among those with an upper one. */
static uint32_t tightest(const struct report_budget *r)
{
	uint32_t found = PROFILE_NONE;
	double used = -1;
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_rule *rule = &r->budget->rules[i];
		if ((rule->op != BUDGET_AT_MOST && rule->op != BUDGET_BELOW) || !rule->limit)
			continue;
		double share = (double)r->results[i].measured / (double)rule->limit;
		if (share > used) {
			used = share;
			found = i;
		}
	}
	return found;
}

/* One line, so that logs stay short. The name may be a long path; the rule gives way. */
static void print_within(FILE *out, const struct report_budget *r)
{
	enum { LEAST_RULE = 20, SHARES = 24 };
	const struct budget *b = r->budget;
	words_print_styled(out, r->color, STYLE_BOLD, "within budget");
	int used = fprintf(out, b->count == 1 ? ": the rule of " : ": all %" PRIu32 " rules of ",
			   b->count);
	words_print(out, b->name, 80);
	used += fprintf(out, "%s", b->count == 1 ? " holds" : " hold");
	uint32_t near = tightest(r);
	if (near != PROFILE_NONE) {
		used += fprintf(out, "; nearest: ") + (int)words_columns(path_file(b->name));
		size_t taken = strlen("within budget") + (size_t)(used > 0 ? used : 0) + SHARES;
		size_t longest = taken + LEAST_RULE < WORDS_PROSE ? WORDS_PROSE - taken
								  : LEAST_RULE;
		print_rule(out, b, &b->rules[near], 0,
			   longest < LONGEST_RULE ? longest : LONGEST_RULE);
		fprintf(out, " (%s",
			words_share(r->results[near].measured, b->rules[near].limit).text);
		if (r->results[near].error95)
			fprintf(out, ", +- %s",
				report_budget_value(&b->rules[near], r->results[near].error95)
					.text);
		putc(')', out);
	}
	putc('\n', out);
}

static const char *order_for(const struct budget_rule *rule)
{
	static const struct {
		const char *prefix, *order;
	} orders[] = {{"live", "live"},           {"left", "left"},
		      {"allocated", "allocated"}, {"reallocated", "allocated"},
		      {"allocations", "count"},   {"frees", "count"},
		      {"reallocations", "count"}, {"temporary", "temporary"},
		      {"cross", "lifetime"}};
	for (size_t i = 0; rule->measure && i < sizeof orders / sizeof *orders; i++)
		if (strncmp(rule->measure->name, orders[i].prefix, strlen(orders[i].prefix)) == 0)
			return orders[i].order;
	return NULL;
}

static bool is_live(const struct budget_rule *rule)
{
	return rule->measure && strncmp(rule->measure->name, "live", 4) == 0;
}

/* The first rule that does not hold. If a moment was asked for, the first such rule about it, if there
 * is one. */
static uint32_t first_broken(const struct report_budget *r)
{
	uint32_t first = PROFILE_NONE;
	for (uint32_t i = 0; i < r->budget->count; i++) {
		if (r->results[i].holds || r->results[i].unseen)
			continue;
		if (r->at && is_live(&r->budget->rules[i]))
			return i;
		first = first == PROFILE_NONE ? i : first;
	}
	return first;
}

static bool breaks_relative(const struct report_budget *r)
{
	bool broken = false;
	for (uint32_t i = 0; i < r->budget->count; i++)
		broken = broken || (!r->results[i].holds && r->budget->rules[i].relative.is);
	return broken;
}

static void print_next(FILE *out, const struct report_budget *r)
{
	if (breaks_relative(r))
		fputs("\nIf this is intended, --update-baseline accepts what was measured.\n", out);
	if (count_unseen(r) == report_budget_broken(r)) {
		fputs("\nNext: limit such a program by peak_rss_bytes, or judge only what was "
		      "recorded: --ignore-unseen\n",
		      out);
		return;
	}
	const struct budget_rule *rule = &r->budget->rules[first_broken(r)];
	const char *order = order_for(rule);
	if (!r->recording) {
		fputs("\nNext: run this again with -o FILE to keep the recording for heft report\n",
		      out);
		return;
	}
	fputs("\nNext: heft report ", out);
	if (r->at && is_live(rule))
		report_print_option(out, "--at", r->at);
	else if (order)
		fprintf(out, "--sort %s ", order);
	words_print_shell(out, r->recording);
	putc('\n', out);
}

int report_budget_text(FILE *out, const struct report_budget *r)
{
	uint32_t broken = report_budget_broken(r), unseen = count_unseen(r);
	int width = rule_width(r);
	print_warnings(out, r);
	if (!broken)
		print_within(out, r);
	if (broken) {
		bool over = broken > unseen;
		uint32_t shown = over ? broken - unseen : unseen;
		words_print_styled(out, r->color, STYLE_BOLD, "%s",
				   over ? "over budget" : "not judged");
		fprintf(out, ": %" PRIu32 " of %" PRIu32 " rule%s of ", shown, r->budget->count,
			r->budget->count == 1 ? "" : "s");
		words_print(out, r->budget->name, 80);
		if (over)
			fputs(shown == 1 ? " does not hold" : " do not hold", out);
		else
			fputs(shown == 1 ? " holds for what was recorded, but most of the memory "
					   "was not"
					 : " hold for what was recorded, but most of the memory "
					   "was not",
			      out);
		if (over && unseen)
			fprintf(out, ", %" PRIu32 " cannot be judged", unseen);
		putc('\n', out);
	}
	if (!broken && !r->verbose) {
		report_budget_print_changes(out, r);
		return 0;
	}
	fprintf(out, "\n%6s  %-*s %13s %13s  %s\n", "line", width, "rule", "limit", "measured",
		"off by");
	for (uint32_t i = 0; i < r->budget->count; i++) {
		if (r->results[i].holds && !r->verbose)
			continue;
		print_result(out, r, i, width);
		if (!r->results[i].holds && !r->results[i].unseen)
			print_parts(out, r, i);
	}
	if (r->baseline)
		putc('\n', out);
	report_budget_print_changes(out, r);
	if (broken)
		print_next(out, r);
	return 0;
}

int report_budget_update(FILE *out, const struct report_budget *r, const struct budget *renewed,
			 const enum budget_update *updates, double headroom_percent, bool first)
{
	uint32_t changed = 0;
	size_t longest = 0;
	print_warnings(out, r);
	for (uint32_t i = 0; i < r->budget->count; i++) {
		changed += updates[i] == BUDGET_CHANGED;
		if (renewed->rules[i].length > longest)
			longest = renewed->rules[i].length;
	}
	int width = (int)(longest > LONGEST_RULE ? LONGEST_RULE + 3 : longest);
	words_print(out, r->budget->name, 80);
	if (first)
		fprintf(out, ": a first budget, with %g %% headroom\n", headroom_percent);
	else
		fprintf(out,
			": %" PRIu32 " limit%s renewed with %g %% headroom, %" PRIu32 " kept\n",
			changed, changed == 1 ? "" : "s", headroom_percent,
			r->budget->count - changed);
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_rule *rule = &r->budget->rules[i];
		struct words measured = report_budget_value(rule, r->results[i].measured);
		if (updates[i] == BUDGET_KEPT_BROKEN) {
			words_style(out, r->color, STYLE_WARN);
			fprintf(out, "%6" PRIu32 "  ", rule->line);
			print_rule(out, r->budget, rule, width, LONGEST_RULE);
			if (r->results[i].unknown)
				fprintf(out, "    is kept: %s\n", report_budget_lack(r, rule));
			else if (rule->relative.is)
				fprintf(out,
					"    does not hold, measured %s; --update-baseline "
					"accepts it\n",
					measured.text);
			else
				fprintf(out,
					"    does not hold, measured %s; heft does not loosen such "
					"a rule\n",
					measured.text);
			words_style(out, r->color, STYLE_PLAIN);
			print_parts(out, r, i);
		} else if (updates[i] == BUDGET_CHANGED || first) {
			fprintf(out, "%6" PRIu32 "  ", rule->line);
			print_rule(out, renewed, &renewed->rules[i], width, LONGEST_RULE);
			fprintf(out, "    (measured %s", measured.text);
			if (!first)
				fprintf(out, ", was %.*s", (int)rule->limit_length,
					r->budget->text + rule->limit_at);
			fputs(")\n", out);
		}
	}
	return 0;
}
