/* `heft check` in words: one line when every rule holds, else a table of the rules that do not: the
 * rule, its limit, what was measured, by how much it is off, and the sites, threads or findings that
 * make up the number. */
#include "report/report_budget.h"

#include "model_json/model_json.h"
#include "report/report_parts.h"
#include "hosted/program_name.h"
#include "profile/site_callers.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <string.h>

enum {
	LONGEST_RULE = 60,
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

static struct words value_words(const struct budget_rule *rule, uint64_t value)
{
	return rule->measure ? words_value(value, (enum measure_id)(rule->measure - measures))
			     : words_count(value);
}

/* Two numbers that differ must read differently. */
static void words_that_differ(const struct budget_rule *rule, uint64_t a, uint64_t b,
			      struct words *x, struct words *y)
{
	*x = value_words(rule, a);
	*y = value_words(rule, b);
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

/* NULL: parts that are not sites, or no memory. */
static struct site_callers *callers_of_parts(const struct profile *p,
					     const struct budget_rule *rule,
					     const struct budget_result *result)
{
	uint32_t sites[BUDGET_PARTS], count = 0;
	if (!rule->measure || rule->scope == BUDGET_IN_THREAD)
		return NULL;
	while (count < result->part_count && count < BUDGET_PARTS) {
		sites[count] = result->parts[count].index;
		count++;
	}
	return site_callers_new(p, sites, count);
}

static void print_parts(FILE *out, const struct report_budget *r, uint32_t index)
{
	const struct profile *p = r->profile;
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	struct report_options lines = lines_of(r);
	struct site_callers *callers = callers_of_parts(p, rule, result);
	for (uint32_t i = 0; i < result->part_count; i++) {
		const struct budget_part *part = &result->parts[i];
		if (!rule->measure) {
			fprintf(out, "%*s", PART_INDENT, "");
			words_print_wrapped(out, r->findings[part->index].summary, PART_INDENT,
					    report_width(&lines));
			putc('\n', out);
			continue;
		}
		fprintf(out, "%18s %8s  ", value_words(rule, part->value).text,
			words_share(part->value, result->measured).text);
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
static const char *lack_words(const struct report_budget *r, const struct budget_rule *rule)
{
	if (rule->measure && measure_known(r->profile, (enum measure_id)(rule->measure - measures)))
		return "samples do not tell what a thread did";
	return measure_lack_words(budget_rule_needs(rule));
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
		fprintf(out, " %13s %13s  %s\n", limit.text, "-", lack_words(r, rule));
		return;
	}
	fprintf(out, " %13s %13s  ", limit.text, measured.text);
	if (result->unseen) {
		fputs("not judged: most of the memory was not recorded\n", out);
		return;
	}
	if (result->error95)
		fprintf(out, "+- %s  ", value_words(rule, result->error95).text);
	if (result->holds) {
		fputs("holds\n", out);
		return;
	}
	bool over = result->measured >= rule->limit;
	uint64_t off = over ? result->measured - rule->limit : rule->limit - result->measured;
	fprintf(out, "%c%s", over ? '+' : '-', value_words(rule, off).text);
	if (rule->limit && off / rule->limit >= TIMES_FROM)
		fprintf(out, " (x %.3g)", (double)result->measured / (double)rule->limit);
	else if (rule->limit)
		fprintf(out, " (%c%s)", over ? '+' : '-', words_share(off, rule->limit).text);
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
				value_words(&b->rules[near], r->results[near].error95).text);
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

static void print_next(FILE *out, const struct report_budget *r)
{
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
	if (!broken && !r->verbose)
		return 0;
	fprintf(out, "\n%6s  %-*s %13s %13s  %s\n", "line", width, "rule", "limit", "measured",
		"off by");
	for (uint32_t i = 0; i < r->budget->count; i++) {
		if (r->results[i].holds && !r->verbose)
			continue;
		print_result(out, r, i, width);
		if (!r->results[i].holds && !r->results[i].unseen)
			print_parts(out, r, i);
	}
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
		struct words measured = value_words(rule, r->results[i].measured);
		if (updates[i] == BUDGET_KEPT_BROKEN) {
			words_style(out, r->color, STYLE_WARN);
			fprintf(out, "%6" PRIu32 "  ", rule->line);
			print_rule(out, r->budget, rule, width, LONGEST_RULE);
			if (r->results[i].unknown)
				fprintf(out, "    is kept: %s\n", lack_words(r, rule));
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

/* ---- JSON */

static void write_parts(struct json_writer *w, const struct report_budget *r, uint32_t index)
{
	const struct profile *p = r->profile;
	const struct budget_rule *rule = &r->budget->rules[index];
	const struct budget_result *result = &r->results[index];
	json_write_key(w, "parts");
	json_write_array(w);
	for (uint32_t i = 0; i < result->part_count; i++) {
		const struct budget_part *part = &result->parts[i];
		json_write_object(w);
		json_write_key_uint(w, "value", part->value);
		if (!rule->measure) {
			json_write_key_string(w, "finding", r->findings[part->index].summary);
		} else if (rule->scope == BUDGET_IN_THREAD) {
			json_write_key_string(w, "thread", p->threads[part->index].name);
			json_write_key_int(w, "tid", p->threads[part->index].tid);
		} else {
			const struct profile_site *s = &p->sites[part->index];
			uint32_t user = profile_first_user_node(p, s->node);
			json_write_key_uint(w, "site", s->id);
			if (user != PROFILE_NONE)
				model_json_place(w, NULL, p, profile_node_frame(p, user));
		}
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

int report_budget_json(FILE *out, const struct report_budget *r)
{
	static const char *const scopes[] = {
		[BUDGET_ALL] = "all",          [BUDGET_IN_FUNCTION] = "function",
		[BUDGET_IN_FILE] = "file",     [BUDGET_IN_MODULE] = "module",
		[BUDGET_IN_THREAD] = "thread",
	};
	const struct profile *p = r->profile;
	struct json_writer w;
	char text[1024];
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_uint(&w, "schema", 1);
	json_write_key_string(&w, "heft", HEFT_VERSION);
	json_write_key_string(&w, "budget", r->budget->name);
	if (r->recording)
		json_write_key_string(&w, "recording", r->recording);
	if (r->at)
		json_write_key_string(&w, "at", r->at);
	model_json_command(&w, NULL, p->run.argv, p->run.argc, NULL);
	json_write_key_bool(&w, "complete", p->run.complete);
	json_write_key_bool(&w, "within", p->run.complete && report_budget_broken(r) == 0);
	if (p->unseen)
		json_write_key_string(&w, "unseen", p->unseen);
	json_write_key(&w, "rules");
	json_write_array(&w);
	json_write_newline(&w);
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_rule *rule = &r->budget->rules[i];
		const struct budget_result *result = &r->results[i];
		snprintf(text, sizeof text, "%.*s",
			 (int)(rule->length < 1000 ? rule->length : 1000),
			 r->budget->text + rule->at);
		json_write_object(&w);
		json_write_key_uint(&w, "line", rule->line);
		json_write_key_string(&w, "rule", text);
		json_write_key_string(&w, "measure",
				      rule->measure ? rule->measure->name : "finding");
		if (!rule->measure)
			json_write_key_string(&w, "finding", rule->finding->name);
		json_write_key_string(&w, "scope", scopes[rule->scope]);
		if (rule->pattern)
			json_write_key_string(&w, "pattern", rule->pattern);
		json_write_key_string(&w, "operator", budget_operator_sign(rule->op));
		json_write_key_uint(&w, "limit", rule->limit);
		json_write_key_uint(&w, "measured", result->measured);
		if (p->estimates.errors && rule->measure && rule->measure->errors)
			json_write_key_uint(&w, "measured_error95", result->error95);
		json_write_key_bool(&w, "holds", result->holds);
		json_write_key_bool(&w, "matched", !result->unmatched);
		if (result->unknown)
			json_write_key_bool(&w, "unknown", true);
		if (result->unknown)
			json_write_key_string(&w, "reason", lack_words(r, rule));
		if (result->unseen)
			json_write_key_bool(&w, "unseen", true);
		write_parts(&w, r, i);
		json_write_object_end(&w);
		json_write_newline(&w);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_newline(&w);
	return 0;
}
