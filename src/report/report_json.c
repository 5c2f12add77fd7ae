/* The report for programs: schema 1 of `heft report --json`. Fields may be added,
 * never renamed or removed while "schema" is 1. All sites are written unless a limit
 * is given, so that their sums equal the totals; nothing is cut or folded. */
#include "report/report.h"

#include "hosted/json_writer.h"

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

static void write_totals(struct json_writer *w, const struct profile_totals *t)
{
	json_write_key(w, "totals");
	json_write_object(w);
	json_write_key_uint(w, "allocations", t->allocations);
	json_write_key_uint(w, "reallocations", t->reallocations);
	json_write_key_uint(w, "frees", t->frees);
	json_write_key_uint(w, "allocated_bytes", t->allocated_bytes);
	json_write_key_uint(w, "reallocated_bytes", t->reallocated_bytes);
	json_write_key_uint(w, "peak_bytes", t->peak_bytes);
	json_write_key_uint(w, "peak_blocks", t->peak_blocks);
	json_write_key_uint(w, "peak_time_ns", t->peak_time_ns);
	json_write_key_uint(w, "live_bytes", t->live_bytes);
	json_write_key_uint(w, "live_blocks", t->live_blocks);
	json_write_key_uint(w, "live_slack_bytes", t->live_slack_bytes);
	json_write_key_uint(w, "temporary", t->temporary);
	json_write_key_uint(w, "threads", t->threads);
	json_write_key_uint(w, "dropped", t->dropped);
	json_write_key_uint(w, "peak_rss_bytes", t->peak_rss_bytes);
	json_write_key_uint(w, "unknown_frees", t->unknown_frees);
	json_write_object_end(w);
}

static void write_frame(struct json_writer *w, const struct profile *p, uint32_t node)
{
	/* A site without a stack still has one frame that says so: readers may take stack[0]. */
	static const struct profile_frame unknown = {.function = "[stack unknown]",
						     .module = PROFILE_NONE};
	const struct profile_frame *f =
		node == PROFILE_NONE ? &unknown : &p->frames[p->nodes[node].frame];
	uint32_t flags = node == PROFILE_NONE ? 0 : p->nodes[node].flags;
	char address[24];
	snprintf(address, sizeof address, "0x%" PRIx64, f->address);
	json_write_object(w);
	json_write_key_string(w, "function", f->function);
	json_write_key_string(w, "file", f->file);
	json_write_key_uint(w, "line", f->line);
	json_write_key_string(w, "module",
			      f->module < p->module_count ? p->modules[f->module].path : "");
	json_write_key_string(w, "address", address);
	json_write_key_bool(w, "inlined", f->inlined);
	if (flags & PROFILE_GUESSED)
		json_write_key_bool(w, "guessed", true);
	if (flags & PROFILE_TRUNCATED)
		json_write_key_bool(w, "truncated", true);
	if (flags & PROFILE_LOST)
		json_write_key_bool(w, "lost", true);
	json_write_object_end(w);
}

static void write_site(struct json_writer *w, const struct profile *p, const struct profile_site *s)
{
	json_write_object(w);
	json_write_key_uint(w, "id", s->id);
	json_write_key(w, "stack");
	json_write_array(w);
	if (s->node == PROFILE_NONE)
		write_frame(w, p, PROFILE_NONE);
	for (uint32_t n = s->node; n != PROFILE_NONE; n = p->nodes[n].parent)
		write_frame(w, p, n);
	json_write_array_end(w);
	json_write_key_string(w, "via", profile_via_name(s->via));
	json_write_key_uint(w, "allocations", s->allocations);
	json_write_key_uint(w, "reallocations", s->reallocations);
	json_write_key_uint(w, "frees", s->frees);
	json_write_key_uint(w, "allocated_bytes", s->allocated_bytes);
	json_write_key_uint(w, "reallocated_bytes", s->reallocated_bytes);
	json_write_key_uint(w, "peak_bytes", s->peak_bytes);
	json_write_key_uint(w, "peak_blocks", s->peak_blocks);
	json_write_key_uint(w, "own_peak_bytes", s->own_peak_bytes);
	json_write_key_uint(w, "live_bytes", s->live_bytes);
	json_write_key_uint(w, "live_blocks", s->live_blocks);
	json_write_key_uint(w, "live_slack_bytes", s->live_slack_bytes);
	json_write_key_uint(w, "temporary", s->temporary);
	json_write_key(w, "lifetime_ns");
	json_write_object(w);
	json_write_key_uint(w, "mean", s->lifetime.mean_ns);
	json_write_key_uint(w, "p50", s->lifetime.p50_ns);
	json_write_key_uint(w, "p99", s->lifetime.p99_ns);
	json_write_key_uint(w, "max", s->lifetime.max_ns);
	json_write_object_end(w);
	json_write_key_uint(w, "cross_thread_frees", s->cross_thread_frees);
	json_write_object_end(w);
	json_write_newline(w);
}

static const char *end_name(enum profile_end end)
{
	switch (end) {
	case PROFILE_END_EXIT:
	case PROFILE_END_UNKNOWN: /* it ended, that much is known */
		return "exit";
	case PROFILE_END_SIGNAL:
		return "signal";
	case PROFILE_END_DETACHED:
		return "detached";
	case PROFILE_END_EXEC:
		return "exec";
	case PROFILE_END_RUNNING:
		break;
	}
	return "running";
}

static void write_head(struct json_writer *w, const struct profile *p,
		       const struct report_options *o)
{
	char start[40] = "";
	time_t seconds = (time_t)(p->start_unix_ns / 1000000000);
	struct tm tm;
	if (gmtime_r(&seconds, &tm))
		strftime(start, sizeof start, "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_write_key_uint(w, "schema", 1);
	json_write_key_string(w, "heft", HEFT_VERSION);
	json_write_key_string(w, "recorded_by", p->heft_version);
	write_command(w, p->argv, p->argc, NULL);
	json_write_key_int(w, "pid", p->pid);
	json_write_key_string(w, "mode", "exact");
	json_write_key_uint(w, "rate_bytes", 0);
	json_write_key_string(w, "start", start);
	json_write_key_uint(w, "duration_ns", p->duration_ns);
	json_write_key_string(w, "end", end_name(p->end));
	json_write_key_int(w, "exit_status", p->exit_status);
	json_write_key_int(w, "signal", p->signal);
	json_write_key_bool(w, "complete", p->complete);
	if (!p->complete)
		json_write_key_uint(w, "cut_offset", p->cut_offset);
	json_write_key_uint(w, "events", p->events);
	json_write_key_uint(w, "file_bytes", p->file_bytes);
	if (p->selection)
		json_write_key_string(w, "selection", p->selection);
	if (o->focus)
		json_write_key_string(w, "focus", o->focus);
	if (o->ignore)
		json_write_key_string(w, "ignore", o->ignore);
	json_write_newline(w);
}

static void write_processes(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "processes");
	json_write_array(w);
	for (uint32_t i = 0; i < p->process_count; i++) {
		const struct profile_process *q = &p->processes[i];
		json_write_object(w);
		json_write_key_int(w, "pid", q->pid);
		json_write_key_int(w, "ppid", q->ppid);
		write_command(w, q->argv, q->argc, q->exe);
		json_write_key_string(w, "exe", q->exe);
		json_write_key_uint(w, "start_ns", q->start_ns);
		json_write_key_uint(w, "end_ns", q->end_ns);
		json_write_key_string(w, "end", end_name(q->end));
		json_write_key_int(w, "exit_status", q->exit_status);
		json_write_key_int(w, "signal", q->signal);
		write_totals(w, &q->totals);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_threads(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "threads");
	json_write_array(w);
	for (uint32_t i = 0; i < p->thread_count; i++) {
		const struct profile_thread *t = &p->threads[i];
		json_write_object(w);
		json_write_key_int(w, "pid", t->pid);
		json_write_key_int(w, "tid", t->tid);
		json_write_key_string(w, "name", t->name);
		json_write_key_uint(w, "allocations", t->allocations);
		json_write_key_uint(w, "allocated_bytes", t->allocated_bytes);
		json_write_key_uint(w, "reallocations", t->reallocations);
		json_write_key_uint(w, "frees", t->frees);
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
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

int report_json(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct json_writer w;
	uint32_t *order = profile_sorted_sites(p, o->sort);
	if (!order)
		return HEFT_ENOMEM;
	json_write_init(&w, out);
	json_write_object(&w);
	write_head(&w, p, o);
	write_totals(&w, &p->totals);
	json_write_key(&w, "sites");
	json_write_array(&w);
	json_write_newline(&w);
	for (uint32_t i = 0; i < p->site_count && i < o->limit; i++)
		write_site(&w, p, &p->sites[order[i]]);
	json_write_array_end(&w);
	write_processes(&w, p);
	write_threads(&w, p);
	json_write_key(&w, "findings");
	json_write_array(&w);
	json_write_array_end(&w);
	write_notes(&w, p);
	json_write_object_end(&w);
	json_write_newline(&w);
	free(order);
	return 0;
}
