/* The report for programs: schema 1 of `heft report --json`. Fields may be added,
 * never renamed or removed while "schema" is 1. All sites are written unless a limit
 * is given, so that their sums equal the totals; of deep stacks recursion is folded and the
 * middle cut, which is said beside them (report_json_stack.c). Sizes, histograms of lifetimes and who
 * frees whose blocks are long: they are written when asked for. */
#include "report/report_parts.h"

#include "hosted/program_name.h"
#include "profile/estimate.h"
#include "profile/process_images.h"
#include "report/report_json_stack.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef HEFT_VERSION
#define HEFT_VERSION "unknown"
#endif

static void write_command(struct json_writer *w, const char *const *argv, uint32_t argc,
			  const char *exe)
{
	json_write_key(w, "command");
	json_write_array(w);
	for (uint32_t i = 0; i < argc; i++)
		json_write_string(w, argv[i]);
	if (!argc && exe && *exe)
		json_write_string(w, exe);
	json_write_array_end(w);
}

/* What a file does not tell is not there: 0 would be a number. */
static void write_if(struct json_writer *w, bool told, const char *key, uint64_t n)
{
	if (told)
		json_write_key_uint(w, key, n);
}

/* Estimates: the true number lies within plus or minus this, with 95 % certainty. */
static void write_errors(struct json_writer *w, const struct profile_errors *errors)
{
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		char key[64];
		if (!measures[i].errors)
			continue;
		snprintf(key, sizeof key, "%s_error95", measures[i].name);
		json_write_key_uint(w, key, measure_of_errors(errors, i));
	}
}

/* Numbers that may be there although no format says so are left out while they are 0. */
static bool is_shown(const struct profile *p, enum measure_id id, uint64_t value)
{
	switch (id) {
	case MEASURE_DROPPED:
	case MEASURE_UNKNOWN_FREES: return (p->run.has & PROFILE_HAS_FREES) || value;
	case MEASURE_PEAK_RSS_BYTES:
	case MEASURE_PEAK_ANONYMOUS_BYTES: return value;
	default: return measure_known(p, id);
	}
}

/* errors: NULL if there are none. */
static void write_totals(struct json_writer *w, const struct profile *p,
			 const struct profile_totals *t, const struct profile_errors *errors)
{
	json_write_key(w, "totals");
	json_write_object(w);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		uint64_t value = measure_of_totals(t, i);
		write_if(w, measures[i].totals && is_shown(p, i, value), measures[i].name, value);
		/* The program ended before anybody looked. */
		if (i == MEASURE_PEAK_RSS_BYTES && !value && p->run.has & PROFILE_HAS_FREES) {
			json_write_key(w, measures[i].name);
			json_write_null(w);
		}
	}
	if (errors)
		write_errors(w, errors);
	json_write_object_end(w);
}

/* Number of blocks that lived from 2^(i + 8) ns to twice that, for each i; the first one also less,
 * the last one also more. Zeros at the end are left out. */
static void write_histogram(struct json_writer *w, const uint32_t *buckets)
{
	int count = PROFILE_LIFE_BUCKETS;
	while (count && !buckets[count - 1])
		count--;
	json_write_key(w, "lifetime_log2");
	json_write_array(w);
	for (int i = 0; i < count; i++)
		json_write_uint(w, buckets[i]);
	json_write_array_end(w);
}

static void write_labels(struct json_writer *w, const struct profile_label_set *set)
{
	json_write_key(w, "labels");
	json_write_object(w);
	for (uint32_t i = 0; i < set->count; i++)
		if (set->labels[i].text)
			json_write_key_string(w, set->labels[i].key, set->labels[i].text);
		else
			json_write_key_int(w, set->labels[i].key, set->labels[i].number);
	json_write_object_end(w);
}

/* How far estimates of a site may be believed, and how old is what it has live. */
static void write_certainty(struct json_writer *w, const struct profile *p, uint32_t site)
{
	write_errors(w, &p->estimates.errors[site]);
	json_write_key_uint(w, "samples", p->estimates.spreads[site].samples);
	json_write_key_uint(w, "peak_samples", p->estimates.spreads[site].peak_samples);
	json_write_key_uint(w, "live_samples", p->estimates.spreads[site].live_samples);
	json_write_key_bool(w, "few_samples", measure_is_rough(p, site, MEASURE_ALLOCATED_BYTES));
	json_write_key_bool(w, "peak_few_samples", measure_is_rough(p, site, MEASURE_PEAK_BYTES));
	json_write_key_bool(w, "live_few_samples", measure_is_rough(p, site, MEASURE_LIVE_BYTES));
	if (!p->estimates.ages || !p->estimates.ages[site].count)
		return;
	const struct profile_age *a = &p->estimates.ages[site];
	json_write_key(w, "age_ns");
	json_write_object(w);
	json_write_key_uint(w, "min", a->min_ns);
	json_write_key_uint(w, "p50", a->p50_ns);
	json_write_key_uint(w, "p99", a->p99_ns);
	json_write_key_uint(w, "max", a->max_ns);
	json_write_object_end(w);
	json_write_key(w, "old_share");
	json_write_real(w, a->old_share);
}

static void write_site(struct json_writer *w, const struct json_stacks *stacks,
		       const struct profile_site *s, const struct report_options *o)
{
	const struct profile *p = stacks->p;
	uint32_t has = p->run.has;
	json_write_object(w);
	json_write_key_uint(w, "id", s->id);
	uint32_t user = json_stacks_write(stacks, w, o->compact ? "stack_frames" : "stack",
					  "stack_", s->node, s->call);
	json_write_key_uint(w, "merged_stacks", s->merged);
	json_write_key_uint(w, "first_user", user);
	json_write_key_string(w, "via", profile_via_name(s->via));
	if (s->labels < p->label_set_count)
		write_labels(w, &p->label_sets[s->labels]);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		bool start = i == MEASURE_START_BYTES || i == MEASURE_START_BLOCKS;
		write_if(w,
			 measures[i].site && !measures[i].minus &&
				 measures[i].kind != MEASURE_OF_BLOCKS && measure_known(p, i) &&
				 (!start || o->span == REPORT_WINDOW),
			 measures[i].name, measure_of_site(s, i));
	}
	if (o->span == REPORT_WINDOW)
		json_write_key_int(w, "grew_bytes", (int64_t)(s->live_bytes - s->start_bytes));
	if (has & PROFILE_HAS_MEAN_LIFETIME) {
		json_write_key(w, "lifetime_ns");
		json_write_object(w);
		json_write_key_uint(w, "mean", s->lifetime.mean_ns);
		write_if(w, has & PROFILE_HAS_LIFETIMES, "p50", s->lifetime.p50_ns);
		write_if(w, has & PROFILE_HAS_LIFETIMES, "p99", s->lifetime.p99_ns);
		write_if(w, has & PROFILE_HAS_LIFETIMES, "max", s->lifetime.max_ns);
		json_write_object_end(w);
	}
	if (o->lifetimes && p->behaviour.lifetimes && (has & PROFILE_HAS_LIFETIMES))
		write_histogram(w, p->behaviour.lifetimes[s - p->sites]);
	if (p->estimates.errors)
		write_certainty(w, p, (uint32_t)(s - p->sites));
	json_write_object_end(w);
	json_write_newline(w);
}

static const char *end_name(enum profile_end end)
{
	switch (end) {
	case PROFILE_END_EXIT: return "exit";
	case PROFILE_END_UNKNOWN: return "unknown";
	case PROFILE_END_SIGNAL: return "signal";
	case PROFILE_END_DETACHED: return "detached";
	case PROFILE_END_EXEC: return "exec";
	case PROFILE_END_RUNNING: break;
	}
	return "running";
}

static void write_end(struct json_writer *w, enum profile_end end, int32_t exit_status,
		      int32_t signal)
{
	json_write_key_string(w, "end", end_name(end));
	if (end == PROFILE_END_UNKNOWN) {
		json_write_key(w, "exit_status");
		json_write_null(w);
		json_write_key(w, "signal");
		json_write_null(w);
		return;
	}
	json_write_key_int(w, "exit_status", exit_status);
	json_write_key_int(w, "signal", signal);
}

static void write_head(struct json_writer *w, const struct profile *p,
		       const struct report_options *o)
{
	bool foreign = strcmp(p->run.format, "heft") != 0;
	char start[40] = "";
	time_t seconds = (time_t)(p->run.start_unix_ns / 1000000000);
	struct tm tm;
	if (gmtime_r(&seconds, &tm))
		strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_write_key_uint(w, "schema", 1);
	json_write_key_string(w, "heft", HEFT_VERSION);
	json_write_key_string(w, "recorded_by", p->run.heft_version);
	write_command(w, p->run.argv, p->run.argc, NULL);
	json_write_key_int(w, "pid", p->run.pid);
	json_write_key_string(w, "format", p->run.format);
	json_write_key_string(w, "mode", p->run.rate_bytes ? "sample" : "exact");
	json_write_key_uint(w, "rate_bytes", p->run.rate_bytes);
	if (p->estimates
		    .errors) /* what a site may hold without having been seen, in 5 % of cases */
		json_write_key_uint(w, "unseen_bytes",
				    estimate_rounded(estimate_unseen_bytes(p->run.rate_bytes)));
	if (!foreign || p->run.start_unix_ns)
		json_write_key_string(w, "start", start);
	write_if(w, p->run.has & PROFILE_HAS_TIMES, "duration_ns", p->run.duration_ns);
	if (!foreign) { /* how it ended, other tools do not tell */
		write_end(w, p->run.end, p->run.exit_status, p->run.signal);
		if (p->run.oom_killed)
			json_write_key_bool(w, "oom_killed", true);
		write_if(w, p->run.memory_limit_bytes != 0, "memory_limit_bytes",
			 p->run.memory_limit_bytes);
	}
	json_write_key_bool(w, "complete", p->run.complete);
	if (!p->run.complete)
		json_write_key_uint(w, "cut_offset", p->run.cut_offset);
	json_write_key_uint(w, "events", p->run.events);
	json_write_key_uint(w, "file_bytes", p->run.file_bytes);
	if (p->chosen.words)
		json_write_key_string(w, "selection", p->chosen.words);
	if (o->span != REPORT_WHOLE) {
		json_write_key_uint(w, "from_ns", o->from_ns);
		json_write_key_uint(w, "to_ns", o->to_ns);
	}
	if (o->focus)
		json_write_key_string(w, "focus", o->focus);
	if (o->ignore)
		json_write_key_string(w, "ignore", o->ignore);
	json_write_newline(w);
}

/* What a process and each program that it was have in common. */
static void write_process(struct json_writer *w, const struct profile *p,
			  const struct profile_process *q)
{
	char name[PROGRAM_NAME];
	write_command(w, q->argv, q->argc, q->exe);
	json_write_key_string(w, "name", program_name(name, q->exe, q->argc ? q->argv[0] : NULL));
	json_write_key_string(w, "exe", q->exe);
	if (strcmp(p->run.format, "heft") == 0) {
		json_write_key_uint(w, "start_ns", q->start_ns);
		json_write_key_uint(w, "end_ns", q->end_ns);
		write_end(w, q->end, q->exit_status, q->signal);
	}
	write_totals(w, p, &q->totals, p->estimates.errors ? &q->errors : NULL);
}

/* One that called exec is one process; "images" are the programs that it was. */
static void write_processes(struct json_writer *w, const struct profile *p,
			    const struct process_images *x)
{
	json_write_key(w, "processes");
	json_write_array(w);
	for (uint32_t i = 0; i < p->process_count; i++) {
		if (x->first[i] != i)
			continue;
		struct profile_process whole = process_of_images(x, p, i);
		json_write_object(w);
		json_write_key_int(w, "pid", whole.pid);
		json_write_key_int(w, "ppid", whole.ppid);
		write_process(w, p, &whole);
		if (x->next[i] != PROFILE_NONE) {
			json_write_key(w, "images");
			json_write_array(w);
			for (uint32_t k = i; k != PROFILE_NONE; k = x->next[k]) {
				json_write_object(w);
				write_process(w, p, &p->processes[k]);
				json_write_object_end(w);
			}
			json_write_array_end(w);
		}
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_threads(struct json_writer *w, const struct profile *p,
			  const struct process_images *x)
{
	json_write_key(w, "threads");
	json_write_array(w);
	for (uint32_t i = 0; i < p->thread_count; i++) {
		if (x->first_thread[i] != i)
			continue;
		struct profile_thread whole = thread_of_images(x, p, i), *t = &whole;
		json_write_object(w);
		json_write_key_int(w, "pid", t->pid);
		json_write_key_int(w, "tid", t->tid);
		json_write_key_string(w, "name", t->name);
		/* samples tell what a thread has live, their sums are by site only */
		bool made = (p->run.has & PROFILE_HAS_ALLOCATED) && !p->estimates.errors;
		write_if(w, made, "allocations", t->allocations);
		write_if(w, made, "allocated_bytes", t->allocated_bytes);
		write_if(w, p->run.has & PROFILE_HAS_FREES, "reallocations", t->reallocations);
		write_if(w, p->run.has & PROFILE_HAS_FREES, "frees", t->frees);
		/* recordings know what frees a thread made, not what it has live */
		write_if(w, !(p->run.has & PROFILE_HAS_FREES), "live_bytes", t->live_bytes);
		write_if(w, !(p->run.has & PROFILE_HAS_FREES), "live_blocks", t->live_blocks);
		write_if(w, p->estimates.errors, "live_bytes_error95", t->errors.live_bytes);
		write_if(w, p->estimates.errors, "live_blocks_error95", t->errors.live_blocks);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

/* Frees of blocks by another thread than their own. */
static void write_handovers(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "handovers");
	json_write_array(w);
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++) {
		const struct profile_handover *h = &p->behaviour.handovers[i];
		if (h->site >= p->site_count)
			continue;
		for (uint32_t k = 0; k < h->threads_count; k++) {
			if (h->threads_first + k >= p->behaviour.handover_threads_count)
				break;
			const struct profile_handover_threads *t =
				&p->behaviour.handover_threads[h->threads_first + k];
			json_write_object(w);
			json_write_key_uint(w, "site", p->sites[h->site].id);
			json_write_key_int(w, "from_tid",
					   t->from < p->thread_count ? p->threads[t->from].tid : 0);
			json_write_key_int(w, "to_tid",
					   t->to < p->thread_count ? p->threads[t->to].tid : 0);
			json_write_key_uint(w, "frees", t->frees);
			json_write_object_end(w);
		}
	}
	json_write_array_end(w);
}

static void write_sizes(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "sizes");
	json_write_array(w);
	for (uint32_t i = 0; i < p->behaviour.size_count; i++) {
		const struct profile_size *s = &p->behaviour.sizes[i];
		json_write_object(w);
		json_write_key_uint(w, "low_bytes", s->low_bytes);
		json_write_key_uint(w, "high_bytes", s->high_bytes);
		json_write_key_uint(w, "allocations", s->allocations);
		json_write_key_uint(w, "allocated_bytes", s->allocated_bytes);
		json_write_key_uint(w, "slack_bytes", s->slack_bytes);
		json_write_key_uint(w, "peak_blocks", s->peak_blocks);
		json_write_key_uint(w, "peak_bytes", s->peak_bytes);
		json_write_key_uint(w, "peak_slack_bytes", s->peak_slack_bytes);
		json_write_key_uint(w, "live_blocks", s->live_blocks);
		json_write_key_uint(w, "live_bytes", s->live_bytes);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_part(struct json_writer *w, const struct profile *p,
		       const struct evidence_part *part)
{
	json_write_object(w);
	json_write_key_string(w, "function", part->function);
	if (part->where)
		json_write_key_string(w, "where", part->where);
	json_write_key_uint(w, "bytes", part->bytes);
	json_write_key(w, "share");
	json_write_real(w, part->share);
	if (part->site < p->site_count)
		json_write_key_uint(w, "site", p->sites[part->site].id);
	json_write_object_end(w);
}

static void write_evidence(struct json_writer *w, const struct profile *p, const struct evidence *e)
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
			write_part(w, p, &e->parts[i]);
		json_write_array_end(w);
		break;
	}
}

static void write_findings(struct json_writer *w, const struct profile *p,
			   const struct findings *findings)
{
	uint32_t count = findings ? findings_count(findings) : 0;
	json_write_key(w, "findings");
	json_write_array(w);
	for (uint32_t i = 0; i < count; i++) {
		const struct finding *f = findings_get(findings, i);
		json_write_object(w);
		json_write_key_string(w, "kind", finding_kind_name(f->kind));
		json_write_key_string(w, "severity", finding_severity_name(f->severity));
		json_write_key_uint(w, "bytes", f->bytes);
		json_write_key_string(w, "summary", f->summary);
		json_write_key(w, "evidence");
		json_write_object(w);
		for (uint32_t k = 0; k < f->evidence_count; k++)
			write_evidence(w, p, &f->evidence[k]);
		json_write_object_end(w);
		/* Ids count from 1: 0 is no site in particular. */
		json_write_key_uint(w, "site", f->site < p->site_count ? p->sites[f->site].id : 0);
		json_write_key_string(w, "advice", f->advice);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_notes(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "notes");
	json_write_array(w);
	for (uint32_t i = 0; i < p->note_count; i++) {
		json_write_object(w);
		json_write_key_string(
			w, "kind", p->notes[i].kind == PROFILE_NOTE_WARNING ? "warning" : "info");
		json_write_key_uint(w, "time_ns", p->notes[i].time_ns);
		json_write_key_string(w, "text", p->notes[i].text);
		json_write_key_uint(w, "count", p->notes[i].count);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

int report_json(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct json_writer w;
	struct json_stacks stacks;
	struct process_images images;
	uint32_t *order = measure_sort_sites(p, o->sort);
	if (!order || process_images_init(&images, p) < 0) {
		free(order);
		return HEFT_ENOMEM;
	}
	if (json_stacks_init(&stacks, p, o->full, o->compact) < 0) {
		process_images_fini(&images);
		free(order);
		return HEFT_ENOMEM;
	}
	json_write_init(&w, out);
	json_write_object(&w);
	write_head(&w, p, o);
	write_totals(&w, p, &p->totals, p->estimates.errors ? &p->estimates.total_errors : NULL);
	json_write_key(&w, "sites");
	json_write_array(&w);
	json_write_newline(&w);
	for (uint32_t i = 0; i < p->site_count && i < o->limit; i++)
		write_site(&w, &stacks, &p->sites[order[i]], o);
	json_write_array_end(&w);
	json_stacks_write_table(&stacks, &w);
	write_processes(&w, p, &images);
	write_threads(&w, p, &images);
	if (o->threads)
		write_handovers(&w, p);
	if (o->sizes)
		write_sizes(&w, p);
	/* Findings are of the whole recording: of a part there are none. */
	write_findings(&w, p, report_is_selection(o) ? NULL : o->findings);
	write_notes(&w, p);
	json_write_object_end(&w);
	json_write_newline(&w);
	json_stacks_fini(&stacks);
	process_images_fini(&images);
	free(order);
	return 0;
}
