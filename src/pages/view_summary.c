/* The document "summary": what was recorded, how well, its totals, and its findings,
 * each with the selection that shows its proof. */
#include "profile/site_callers.h"
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"
#include "pages/view_series.h"

#include "profile/process_groups.h"
#include "profile/process_images.h"
#include "report/report_words.h"

#include <stdlib.h>
#include <string.h>

void view_span(const struct view_part *part, uint64_t *start_ns, uint64_t *end_ns)
{
	*start_ns = 0;
	*end_ns = part->p->run.duration_ns;
	if (part->site_of_id)
		process_span(part->p, start_ns, end_ns);
}

static uint64_t peak_rss_time(const struct profile *p)
{
	const struct profile_rss *most = NULL;
	for (uint32_t i = 0; i < p->run.rss_count; i++)
		if (!most || p->run.rss[i].bytes > most->bytes)
			most = &p->run.rss[i];
	return most ? most->time_ns : 0;
}

static void write_head(struct json_writer *w, const struct view_query *q, struct view_recording *r,
		       const struct view_part *part)
{
	const struct profile *p = part->p;
	uint64_t start_ns, end_ns;
	json_write_key_string(w, "id", view_recording_id(r));
	json_write_key_string(w, "name", view_recording_name(r));
	model_json_run(w, &q->limits, p);
	view_span(part, &start_ns, &end_ns);
	json_write_key_uint(w, "start_ns", start_ns);
	json_write_key_uint(w, "end_ns", end_ns);
	json_write_key_uint(w, "peak_rss_time_ns", peak_rss_time(p));
	json_write_key_string(w, "end_words",
			      part->live                           ? "still running"
			      : strcmp(p->run.format, "heft") == 0 ? words_end(p).text
								   : "");
	json_write_key_bool(w, "live", part->live);
}

/* What is not freed in the end, as view_left_bytes chooses it. */
static void write_left(struct json_writer *w, const struct view_query *q, const struct profile *p)
{
	enum measure_id bytes = view_left_bytes(q, p), blocks = measures[bytes].blocks;
	json_write_key_uint(w, "end_bytes", measure_of_totals(&p->totals, bytes));
	json_write_key_uint(w, "end_blocks", measure_of_totals(&p->totals, blocks));
	if (!p->estimates.errors)
		return;
	json_write_key_uint(w, "end_bytes_error95", measure_error95(p, PROFILE_NONE, bytes));
	json_write_key_uint(w, "end_blocks_error95", measure_error95(p, PROFILE_NONE, blocks));
}

static bool names_files(const struct profile *p)
{
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (p->stacks.frames[i].file)
			return true;
	return false;
}

static void write_has(struct json_writer *w, const struct view_part *part)
{
	const struct profile *p = part->p, *everything = p->stacks.lender ? p->stacks.lender : p;
	bool events = view_part_has_events(part);
	json_write_key(w, "has");
	json_write_object(w);
	json_write_key_bool(w, "peak", p->run.has & PROFILE_HAS_PEAK);
	json_write_key_bool(w, "live", p->run.has & PROFILE_HAS_LIVE);
	json_write_key_bool(w, "allocated", p->run.has & PROFILE_HAS_ALLOCATED);
	json_write_key_bool(w, "times", events && p->run.duration_ns);
	json_write_key_bool(w, "windows", events);
	json_write_key_bool(w, "lifetimes",
			    p->behaviour.lifetimes && (p->run.has & PROFILE_HAS_LIFETIMES));
	json_write_key_bool(w, "heatmap", events);
	/* Samples name their threads. */
	bool threads = (p->run.has & PROFILE_HAS_THREADS) || p->estimates.errors;
	json_write_key_bool(w, "threads", threads && everything->thread_count);
	json_write_key_bool(w, "matrix",
			    (p->run.has & PROFILE_HAS_THREADS) &&
				    (p->run.has & PROFILE_HAS_CROSS_FREES));
	json_write_key_bool(w, "sizes", events || p->behaviour.size_count);
	json_write_key_bool(w, "temporary", p->run.has & PROFILE_HAS_TEMPORARY);
	json_write_key_bool(w, "ledger", everything->ledger_count);
	json_write_key_bool(w, "remarks", profile_remarks_any(&everything->remarks));
	json_write_key_bool(w, "source", names_files(p));
	json_write_object_end(w);
}

/* ---- quality: the badge, and why */

enum quality { QUALITY_GOOD, QUALITY_FAIR, QUALITY_POOR };

static void worsen(enum quality *level, enum quality to)
{
	if (to > *level)
		*level = to;
}

static bool is_about_quality(const struct finding_note *n)
{
	return strcmp(n->about, "profile-quality") == 0;
}

static enum quality quality_of(const struct view_part *part)
{
	const struct profile *p = part->p;
	enum quality level = p->run.rate_bytes ? QUALITY_FAIR : QUALITY_GOOD;
	for (uint32_t i = 0; i < p->note_count; i++)
		/* A recording that is still being written does not miss its end. */
		if (p->notes[i].kind == PROFILE_NOTE_WARNING && !part->live)
			worsen(&level, QUALITY_FAIR);
	if (p->unseen) /* the numbers are of a small part of the program's memory */
		worsen(&level, QUALITY_POOR);
	for (uint32_t i = 0; part->findings && i < findings_note_count(part->findings); i++)
		if (is_about_quality(findings_note(part->findings, i)))
			worsen(&level, QUALITY_FAIR);
	for (uint32_t i = 0; part->findings && i < findings_count(part->findings); i++)
		if (findings_get(part->findings, i)->kind == FINDING_PROFILE_QUALITY)
			worsen(&level, QUALITY_POOR);
	if (p->totals.dropped)
		worsen(&level, QUALITY_POOR);
	return level;
}

static void write_quality(struct json_writer *w, const struct view_part *part)
{
	static const char *const names[] = {"good", "fair", "poor"};
	const struct profile *p = part->p;
	json_write_key(w, "quality");
	json_write_object(w);
	json_write_key_string(w, "level", names[quality_of(part)]);
	json_write_key(w, "words");
	json_write_array(w);
	if (p->run.rate_bytes) {
		char text[120];
		snprintf(text, sizeof text, "estimates: one sample per %s on average",
			 words_bytes(p->run.rate_bytes).text);
		json_write_string(w, text);
	} else if (strcmp(p->run.format, "heft") == 0) {
		json_write_string(w, p->unseen ? "every allocation by malloc was recorded"
					       : "exact: every allocation was recorded");
	}
	for (uint32_t i = 0; i < p->note_count; i++)
		if (p->notes[i].kind == PROFILE_NOTE_WARNING &&
		    (!part->live || p->notes[i].text == p->unseen))
			json_write_string(w, p->notes[i].text);
	for (uint32_t i = 0; part->findings && i < findings_count(part->findings); i++)
		if (findings_get(part->findings, i)->kind == FINDING_PROFILE_QUALITY)
			json_write_string(w, findings_get(part->findings, i)->summary);
	for (uint32_t i = 0; part->findings && i < findings_note_count(part->findings); i++)
		if (is_about_quality(findings_note(part->findings, i)))
			json_write_string(w, findings_note(part->findings, i)->text);
	json_write_array_end(w);
	json_write_object_end(w);
}

/* ---- findings */

/* A function's name as an expression that matches it and nothing else that is likely. */
static void write_focus(struct json_writer *w, const char *function)
{
	char text[600];
	size_t n = 0;
	for (const char *c = function; *c && n + 3 < sizeof text && c - function < 250; c++) {
		if (strchr("\\^$.|?*+()[]{}", *c))
			text[n++] = '\\';
		text[n++] = *c;
	}
	text[n] = 0;
	json_write_key_string(w, "focus", text);
}

/* What shows the proof of a finding. */
static const struct proof {
	const char *view, *mode, *metric;
	bool late; /* from a fifth of the run on: what a start builds up is no growth */
	bool all;  /* the view does not filter by function */
} proofs[FINDING_KINDS] = {
	[FINDING_UNBOUNDED_QUEUE] = {"lifetimes", "live", "bytes", false, false},
	[FINDING_PER_INSTANCE_COST] = {"flame", "live", "bytes", false, false},
	[FINDING_GROWTH_SLACK] = {"flame", "allocated", "bytes", false, false},
	[FINDING_ALLOCATOR_ROUNDING] = {"sizes", "live", "bytes", false, true},
	[FINDING_GROWING_SITE] = {"flame", "grew", "bytes", true, false},
	[FINDING_COPIED_RECORDS] = {"flame", "live", "bytes", false, false},
	[FINDING_TEMPORARY_CHURN] = {"flame", "churn", "count", false, false},
	[FINDING_POOL_LEAK] = {"marks", "live", "bytes", false, true},
	[FINDING_PROFILE_QUALITY] = {"findings", "live", "bytes", false, false},
};

static void write_explain(struct json_writer *w, const struct view_part *part,
			  const struct profile *p, const struct finding *f)
{
	uint64_t start_ns, end_ns;
	const struct proof *proof = &proofs[f->kind];
	json_write_key(w, "explain");
	json_write_object(w);
	json_write_key_string(w, "view", proof->view ? proof->view : "sites");
	json_write_key_string(w, "mode", proof->mode ? proof->mode : "live");
	json_write_key_string(w, "metric", proof->metric ? proof->metric : "bytes");
	if (strcmp(proof->mode ? proof->mode : "live", "live") == 0)
		json_write_key_string(w, "at", "peak");
	if (proof->late) {
		view_span(part, &start_ns, &end_ns);
		json_write_key_uint(w, "from", start_ns + (end_ns - start_ns) / 5);
		json_write_key_uint(w, "to", end_ns);
	}
	if (!proof->all && f->site < p->site_count && p->sites[f->site].node != PROFILE_NONE)
		write_focus(w, view_user_function(p, p->sites[f->site].node));
	json_write_object_end(w);
}

static void write_finding(struct json_writer *w, const struct view_query *q,
			  const struct view_part *part, const struct profile *p,
			  const struct finding *f, const char *callers)
{
	uint32_t id = f->site < p->site_count ? p->sites[f->site].id : 0;
	json_write_object(w);
	model_json_finding(w, &q->limits, p, f);
	json_write_key(w, "where");
	if (id)
		view_write_place(w, q, p, p->sites[f->site].node);
	else
		json_write_null(w);
	model_json_key_name(w, &q->limits, "callers", callers);
	view_write_trend(w, "trend", part->whole, view_part_site(part, id));
	write_explain(w, part, p, f);
	json_write_object_end(w);
}

static void write_findings(struct json_writer *w, const struct view_query *q,
			   const struct view_part *part)
{
	/* They name sites of everything. */
	const struct profile *p = part->p->stacks.lender ? part->p->stacks.lender : part->p;
	uint32_t count = part->findings ? findings_count(part->findings) : 0, listed = 0, at = 0;
	uint32_t *sites = malloc(((size_t)count + 1) * sizeof *sites);
	for (uint32_t i = 0; sites && i < count; i++) {
		uint32_t site = findings_get(part->findings, i)->site;
		if (site < p->site_count)
			sites[listed++] = site;
	}
	/* Without memory for it, findings that read the same do. */
	struct site_callers *callers = sites ? site_callers_new(p, sites, listed) : NULL;
	json_write_key(w, "findings");
	json_write_array(w);
	for (uint32_t i = 0; i < count; i++) {
		const struct finding *f = findings_get(part->findings, i);
		bool has_site = f->site < p->site_count;
		const char *behind = has_site ? site_callers_text(callers, at++) : NULL;
		/* Those of chosen processes are about sites that these have. */
		if (!part->site_of_id || (has_site && view_part_site(part, p->sites[f->site].id)))
			write_finding(w, q, part, p, f, behind);
	}
	json_write_array_end(w);
	site_callers_free(callers);
	free(sites);
}

/* ---- processes and threads */

/* How many words of a command a table shows. */
static uint32_t shown_words(const struct profile_process *x)
{
	enum { SHOWN_BYTES = 200 };
	uint32_t words = 0;
	for (size_t bytes = 0; words < x->argc && bytes < SHOWN_BYTES; words++)
		bytes += strlen(x->argv[words]);
	return words;
}

static void write_process(struct json_writer *w, const struct view_query *q,
			  const struct profile *p, const struct profile_process *x)
{
	struct profile_process shown = *x;
	shown.argc = shown_words(x);
	json_write_object(w);
	json_write_key_uint(w, "number", x->number);
	model_json_key_name(w, &q->limits, "program", process_program(x));
	json_write_key_uint(w, "run_ns", process_run_ns(p, x));
	model_json_process(w, &q->limits, p, &shown);
	json_write_object_end(w);
}

/* Greatest first, so that a file that holds only some has those. */
static int write_processes(struct json_writer *w, const struct view_query *q,
			   const struct profile *p)
{
	struct process_groups g;
	int rc = process_groups_init(&g, p, PROCESSES_EACH);
	if (rc < 0)
		return rc;
	json_write_key_uint(w, "process_count", profile_count_processes(p));
	json_write_key_string(w, "thread_words", words_threads(p).text);
	json_write_key(w, "processes");
	json_write_array(w);
	for (uint32_t i = 0; i < g.count && (!q->limits.entries || i < q->limits.entries); i++)
		write_process(w, q, p, &p->processes[g.list[i].greatest]);
	json_write_array_end(w);
	process_groups_fini(&g);
	return 0;
}

static int write_threads(struct json_writer *w, const struct view_query *q, const struct profile *p)
{
	uint32_t count;
	struct profile_thread *threads = profile_whole_threads(p, &count);
	if (!threads)
		return HEFT_ENOMEM;
	json_write_key(w, "threads");
	json_write_array(w);
	for (uint32_t i = 0; i < count && (!q->limits.entries || i < q->limits.entries); i++) {
		json_write_object(w);
		model_json_thread(w, p, &threads[i]);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	free(threads);
	return 0;
}

int view_summary_pruned(FILE *out, struct view_recording *r, const struct view_query *q,
			const char *const *pruned, struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	json_write_init(&w, out);
	json_write_object(&w);
	write_head(&w, q, r, part);
	write_has(&w, part);
	write_left(&w, q, part->p);
	model_json_totals(&w, part->p);
	write_quality(&w, part);
	model_json_notes(&w, &q->limits, part->p, part->findings);
	write_findings(&w, q, part);
	if (write_processes(&w, q, part->p) < 0 || write_threads(&w, q, part->p) < 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for processes and threads");
	if (pruned) {
		json_write_key(&w, "pruned");
		json_write_array(&w);
		for (; *pruned; pruned++)
			json_write_string(&w, *pruned);
		json_write_array_end(&w);
	}
	json_write_object_end(&w);
	view_part_drop(part);
	return rc;
}

int view_summary(FILE *out, struct view_recording *r, const struct view_query *q,
		 struct heft_error *err)
{
	return view_summary_pruned(out, r, q, NULL, err);
}
