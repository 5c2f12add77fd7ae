/* Findings and notes in JSON. Evidence has plain numbers; the end of a name says the unit (_bytes, _ns, _share). */
#include "model_json/model_json.h"

static void write_part(struct json_writer *w, const struct model_json_limits *l,
		       const struct profile *p, const struct evidence_part *part)
{
	json_write_object(w);
	model_json_key_name(w, l, "function", part->function);
	if (part->where && *part->where)
		model_json_key_name(w, l, "where", part->where);
	json_write_key_uint(w, "bytes", part->bytes);
	json_write_key(w, "share");
	json_write_real(w, part->share);
	if (part->site < p->site_count)
		json_write_key_uint(w, "site", p->sites[part->site].id);
	json_write_object_end(w);
}

static void write_evidence(struct json_writer *w, const struct model_json_limits *l,
			   const struct profile *p, const struct evidence *e)
{
	json_write_key(w, e->name);
	switch (e->type) {
	case EVIDENCE_COUNT:
	case EVIDENCE_BYTES:
	case EVIDENCE_RATE:
	case EVIDENCE_TIME_NS: json_write_uint(w, e->number); break;
	case EVIDENCE_SHARE: json_write_real(w, e->share); break;
	case EVIDENCE_TEXT: json_write_string(w, e->text); break;
	case EVIDENCE_TEXTS:
		json_write_array(w);
		for (uint32_t i = 0; i < e->count; i++)
			json_write_string(w, e->texts[i]);
		json_write_array_end(w);
		break;
	case EVIDENCE_PARTS:
		json_write_array(w);
		for (uint32_t i = 0; i < e->count; i++)
			write_part(w, l, p, &e->parts[i]);
		json_write_array_end(w);
		break;
	}
}

static void write_condition(struct json_writer *w, const struct condition *c)
{
	double margin = condition_margin(c);
	json_write_object(w);
	json_write_key_string(w, "what", c->what);
	json_write_key_string(w, "unit", condition_unit_name(c->unit));
	json_write_key(w, "measured");
	json_write_real(w, c->measured);
	json_write_key(w, "limit");
	json_write_real(w, c->limit);
	json_write_key_string(w, "comparison", c->at_most ? "at-most" : "at-least");
	if (margin > 0) {
		json_write_key(w, "margin");
		json_write_real(w, margin);
	}
	json_write_key_string(w, "measured_words", condition_value(c, c->measured).text);
	json_write_key_string(w, "limit_words", condition_value(c, c->limit).text);
	json_write_key_string(w, "silent_if", condition_reversed(c).text);
	json_write_object_end(w);
}

void model_json_finding(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p, const struct finding *f)
{
	json_write_key_string(w, "kind", finding_kind_name(f->kind));
	json_write_key_string(w, "severity", finding_severity_name(f->severity));
	json_write_key_uint(w, "bytes", f->bytes);
	json_write_key_string(w, "summary", f->summary);
	json_write_key(w, "evidence");
	json_write_object(w);
	for (uint32_t i = 0; i < f->evidence_count; i++)
		write_evidence(w, l, p, &f->evidence[i]);
	json_write_object_end(w);
	/* Ids count from 1: 0 is no site in particular. */
	json_write_key_uint(w, "site", f->site < p->site_count ? p->sites[f->site].id : 0);
	json_write_key_string(w, "advice", f->advice);
	json_write_key_string(w, "severity_reason", f->severity_reason ? f->severity_reason : "");
	json_write_key_string(w, "rule", f->rule ? f->rule : "");
	json_write_key(w, "conditions");
	json_write_array(w);
	for (uint32_t i = 0; i < f->condition_count; i++)
		write_condition(w, &f->conditions[i]);
	json_write_array_end(w);
}

static void begin_note(struct json_writer *w, bool warning, uint64_t time_ns, const char *text,
		       uint32_t count)
{
	json_write_object(w);
	json_write_key_string(w, "kind", warning ? "warning" : "info");
	json_write_key_uint(w, "time_ns", time_ns);
	json_write_key_string(w, "text", text);
	json_write_key_uint(w, "count", count);
}

void model_json_notes(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct findings *findings)
{
	json_write_key(w, "notes");
	json_write_array(w);
	for (uint32_t i = 0; i < model_json_entries(l, p->note_count); i++) {
		const struct profile_note *n = &p->notes[i];
		begin_note(w, n->kind == PROFILE_NOTE_WARNING, n->time_ns, n->text, n->count);
		json_write_object_end(w);
	}
	for (uint32_t i = 0; findings && i < findings_note_count(findings); i++) {
		const struct finding_note *n = findings_note(findings, i);
		begin_note(w, n->warning, 0, n->text, 1);
		json_write_key_string(w, "about", n->about);
		json_write_key_string(w, "advice", n->advice);
		json_write_key(w, "evidence");
		json_write_object(w);
		for (uint32_t k = 0; k < n->evidence_count; k++)
			write_evidence(w, l, p, &n->evidence[k]);
		json_write_object_end(w);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}
