/* `heft check --json`: every rule with what was measured, and who the number is made of. docs/check.schema.json describes each
 * field. */
#include "report/report_budget_parts.h"

#include "model_json/model_json.h"

#include <stdlib.h>
#include <string.h>

static void write_parts(struct json_writer *w, const struct report_budget *r, uint32_t index,
			const char *key, const struct budget_parts *parts)
{
	const struct profile *p = r->profile;
	const struct budget_rule *rule = &r->budget->rules[index];
	json_write_key(w, key);
	json_write_array(w);
	for (uint32_t i = 0; i < parts->count; i++) {
		const struct budget_part *part = &parts->list[i];
		json_write_object(w);
		json_write_key_uint(w, "value", part->value);
		if (part->unlisted)
			json_write_key_bool(w, "new", true);
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

static char *subject_text(const struct budget *b, const struct budget_rule *rule)
{
	return strndup(b->text + rule->at, rule->subject_length);
}

/* What the baseline has of the rule's number. */
static void write_before(struct json_writer *w, const struct report_budget *r,
			 const struct budget_rule *rule)
{
	const struct budget_rule *was = budget_same_subject(r->baseline->measured, rule);
	if (was)
		json_write_key_uint(w, "baseline", was->limit);
}

static void write_numbers(struct json_writer *w, const struct report_budget *r)
{
	const struct report_baseline *b = r->baseline;
	json_write_key_string(w, "baseline", b->name);
	json_write_key(w, "numbers");
	json_write_array(w);
	for (uint32_t i = 0; i < b->measured->count; i++) {
		char *subject = subject_text(b->measured, &b->measured->rules[i]);
		if (report_baseline_known(r, i)) {
			json_write_object(w);
			json_write_key_string(w, "measure", subject);
			json_write_key_uint(w, "baseline", b->measured->rules[i].limit);
			json_write_key_uint(w, "now", b->now[i].measured);
			json_write_object_end(w);
		}
		free(subject);
	}
	json_write_array_end(w);
	json_write_newline(w);
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
	if (r->baseline)
		write_numbers(&w, r);
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
			json_write_key_string(&w, "reason", report_budget_lack(r, rule));
		if (result->unseen)
			json_write_key_bool(&w, "unseen", true);
		if (r->baseline)
			write_before(&w, r, rule);
		write_parts(&w, r, i, "parts", &result->parts);
		if (result->grown.count)
			write_parts(&w, r, i, "grown", &result->grown);
		json_write_object_end(&w);
		json_write_newline(&w);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_newline(&w);
	return 0;
}
