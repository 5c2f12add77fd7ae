/* The run in JSON: what was recorded and how it ended, its totals, processes and threads.
 *
 * Totals have the names of the table of measures (profile/measure.c): a row with a field in totals is
 * written without another line, as one with a field in sites is in model_json_site.c. Lifetimes, growth
 * and threads are written by hand. A measure that a process has only after a replay of all events is
 * named in `needs_events`. */
#include "model_json/model_json.h"

#include "hosted/program_name.h"
#include "profile/estimate.h"

#include <string.h>
#include <time.h>

static bool is_foreign(const struct profile *p)
{
	return strcmp(p->run.format, "heft") != 0;
}

uint32_t model_json_entries(const struct model_json_limits *l, uint32_t count)
{
	return l && l->entries && l->entries < count ? l->entries : count;
}

static void write_if(struct json_writer *w, bool known, const char *key, uint64_t n)
{
	if (known)
		json_write_key_uint(w, key, n);
}

void model_json_command(struct json_writer *w, const struct model_json_limits *l,
			const char *const *argv, uint32_t argc, const char *exe)
{
	struct model_json_name space;
	json_write_key(w, "command");
	json_write_array(w);
	for (uint32_t i = 0; i < model_json_entries(l, argc); i++)
		json_write_string(w, model_json_cut(l, argv[i], &space));
	if (!argc && exe && *exe)
		json_write_string(w, model_json_cut(l, exe, &space));
	json_write_array_end(w);
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

/* NULL: it is not known. */
static void write_number(struct json_writer *w, const char *key, const int32_t *n)
{
	json_write_key(w, key);
	if (n)
		json_write_int(w, *n);
	else
		json_write_null(w);
}

static void write_end(struct json_writer *w, enum profile_end end, int32_t exit_status,
		      int32_t signal)
{
	bool known = end != PROFILE_END_UNKNOWN;
	json_write_key_string(w, "end", end_name(end));
	write_number(w, "exit_status", known ? &exit_status : NULL);
	write_number(w, "signal", known ? &signal : NULL);
}

static void write_start(struct json_writer *w, const struct profile *p)
{
	char start[40] = "";
	time_t seconds = (time_t)(p->run.start_unix_ns / 1000000000);
	struct tm tm;
	if (gmtime_r(&seconds, &tm))
		strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_write_key_string(w, "start", start);
}

void model_json_run(struct json_writer *w, const struct model_json_limits *l,
		    const struct profile *p)
{
	json_write_key_string(w, "recorded_by", p->run.heft_version);
	model_json_command(w, l, p->run.argv, p->run.argc, NULL);
	json_write_key_int(w, "pid", p->run.pid);
	json_write_key_string(w, "format", p->run.format);
	json_write_key_string(w, "mode", p->run.rate_bytes ? "sample" : "exact");
	json_write_key_uint(w, "rate_bytes", p->run.rate_bytes);
	if (p->estimates.errors)
		json_write_key_uint(w, "unseen_bytes",
				    estimate_rounded(estimate_unseen_bytes(p->run.rate_bytes)));
	if (!is_foreign(p) || p->run.start_unix_ns)
		write_start(w, p);
	write_if(w, p->run.has & PROFILE_HAS_TIMES, "duration_ns", p->run.duration_ns);
	if (!is_foreign(p)) { /* other tools do not record how it ended */
		write_end(w, p->run.end, p->run.exit_status, p->run.signal);
		if (p->run.attached)
			json_write_key_bool(w, "attached", true);
		if (p->run.way)
			json_write_key_string(w, "way", p->run.way);
		if (p->run.oom_killed)
			json_write_key_bool(w, "oom_killed", true);
		write_if(w, p->run.memory_limit_bytes != 0, "memory_limit_bytes",
			 p->run.memory_limit_bytes);
	}
	json_write_key_bool(w, "complete", p->run.complete);
	write_if(w, !p->run.complete, "cut_offset", p->run.cut_offset);
	json_write_key_uint(w, "events", p->run.events);
	json_write_key_uint(w, "file_bytes", p->run.file_bytes);
}

void model_json_errors(struct json_writer *w, const struct profile_errors *errors)
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
	case MEASURE_OLDER_FREES: /* sampled, only frees of samples are seen */
		return p->run.attached && !p->run.rate_bytes;
	case MEASURE_PEAK_RSS_BYTES:
	case MEASURE_PEAK_ANONYMOUS_BYTES: return value;
	default: return measure_known(p, id);
	}
}

/* Whether a process has it only after a walk over all events (profile.chosen.process_totals). */
static bool needs_events(enum measure_id id)
{
	switch (id) {
	case MEASURE_PEAK_SLACK_BYTES:
	case MEASURE_LIVE_BYTES:
	case MEASURE_LIVE_BLOCKS:
	case MEASURE_LIVE_SLACK_BYTES:
	case MEASURE_START_BYTES:
	case MEASURE_START_BLOCKS:
	case MEASURE_REALLOCATED_BYTES:
	case MEASURE_TEMPORARY: return true;
	default: return false;
	}
}

/* all: also what needs a walk over all events. */
static void write_totals(struct json_writer *w, const struct model_json_limits *l,
			 const struct profile *p, const struct profile_totals *t,
			 const struct profile_errors *errors, bool all)
{
	json_write_key(w, "totals");
	json_write_object(w);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		uint64_t value = measure_of_totals(t, i);
		if (!measures[i].totals || !model_json_wants(l, i) || (!all && needs_events(i)))
			continue;
		/* What is mapped is known of all processes together. */
		if (measures[i].needs & PROFILE_HAS_MAPPED && t != &p->totals)
			continue;
		/* Not every process has a ledger. */
		if (measures[i].needs & PROFILE_HAS_LEDGER && !t->resident.rss_bytes)
			continue;
		write_if(w, is_shown(p, i, value), measures[i].name, value);
		/* The program ended before anybody looked. */
		if (i == MEASURE_PEAK_RSS_BYTES && !value && p->run.has & PROFILE_HAS_FREES) {
			json_write_key(w, measures[i].name);
			json_write_null(w);
		}
	}
	if (errors)
		model_json_errors(w, errors);
	json_write_object_end(w);
}

void model_json_totals(struct json_writer *w, const struct profile *p)
{
	write_totals(w, NULL, p, &p->totals,
		     p->estimates.errors ? &p->estimates.total_errors : NULL, true);
}

void model_json_heap(struct json_writer *w, const struct profile *p)
{
	const struct profile_heap *h = &p->heap;
	if (!h->parts && !h->note)
		return;
	json_write_key(w, "heap");
	json_write_object(w);
	json_write_key_uint(w, "took_ns", h->took_ns);
	if (p->run.has & PROFILE_HAS_PINNED) {
		json_write_key_uint(w, "heap_bytes", h->heap_bytes);
		json_write_key_uint(w, "pinned_bytes", h->pinned_bytes);
		json_write_key_uint(w, "releasable_bytes", h->releasable_bytes);
		json_write_key_uint(w, "trim_bytes", h->trim_bytes);
	}
	json_write_key_string(w, "note", h->note ? h->note : "");
	json_write_object_end(w);
}

void model_json_image(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct profile_process *q)
{
	char name[PROGRAM_NAME];
	model_json_command(w, l, q->argv, q->argc, q->exe);
	model_json_key_name(w, l, "name", program_name(name, q->exe, q->argc ? q->argv[0] : NULL));
	model_json_key_name(w, l, "exe", q->exe);
	if (!is_foreign(p)) {
		json_write_key_uint(w, "start_ns", q->start_ns);
		json_write_key_uint(w, "end_ns", q->end_ns);
		write_end(w, q->end, q->exit_status, q->signal);
	}
	write_totals(w, l, p, &q->totals, p->estimates.errors ? &q->errors : NULL,
		     p->chosen.process_totals);
}

void model_json_process(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p, const struct profile_process *q)
{
	json_write_key_int(w, "pid", q->pid);
	json_write_key_int(w, "ppid", q->ppid);
	model_json_image(w, l, p, q);
}

void model_json_thread(struct json_writer *w, const struct profile *p,
		       const struct profile_thread *t)
{
	bool frees = p->run.has & PROFILE_HAS_FREES, sampled = p->estimates.errors != NULL;
	/* Samples tell what a thread has live; their sums are by site only. */
	bool allocated = (p->run.has & PROFILE_HAS_ALLOCATED) && !sampled;
	json_write_key_int(w, "pid", t->pid);
	json_write_key_int(w, "tid", t->tid);
	json_write_key_string(w, "name", t->name);
	write_if(w, allocated, "allocations", t->allocations);
	write_if(w, allocated, "allocated_bytes", t->allocated_bytes);
	write_if(w, frees, "reallocations", t->reallocations);
	write_if(w, frees, "frees", t->frees);
	/* Recordings know what frees a thread made, not what it has live. */
	write_if(w, !frees, "live_bytes", t->live_bytes);
	write_if(w, !frees, "live_blocks", t->live_blocks);
	write_if(w, sampled, "live_bytes_error95", t->errors.live_bytes);
	write_if(w, sampled, "live_blocks_error95", t->errors.live_blocks);
}
