/* The report for programs: schema 1 of `heft report --json`. Fields may be added,
 * never renamed or removed while "schema" is 1. All sites are written unless a limit
 * is given, so that their sums equal the totals. In deep stacks recursion is folded and the
 * middle cut, which is said beside them (model_json_stack.c). Sizes, histograms of lifetimes and who
 * frees whose blocks are long: they are written when asked for.
 *
 * The objects are written by src/model_json; here is which ones, and in what order. */
#include "report/report_parts.h"

#include "model_json/model_json.h"
#include "model_json/model_json_ledger.h"
#include "model_json/model_json_stack.h"
#include "profile/process_images.h"

#include <stdlib.h>

#ifndef HEFT_VERSION
#define HEFT_VERSION "unknown"
#endif

static void write_site(struct json_writer *w, const struct json_stacks *stacks,
		       const struct profile_site *s, const struct report_options *o)
{
	const struct profile *p = stacks->p;
	json_write_object(w);
	json_write_key_uint(w, "id", s->id);
	uint32_t user = json_stacks_write(stacks, w, o->compact ? "stack_frames" : "stack",
					  "stack_", s->node, s->call);
	json_write_key_uint(w, "merged_stacks", s->merged);
	json_write_key_uint(w, "first_user", user);
	model_json_site(w, NULL, p, s, o->span == REPORT_WINDOW);
	model_json_lifetime(w, p, &s->lifetime);
	if (o->lifetimes && p->behaviour.lifetimes && (p->run.has & PROFILE_HAS_LIFETIMES))
		model_json_lifetime_log2(w, p->behaviour.lifetimes[s - p->sites]);
	if (p->estimates.errors)
		model_json_certainty(w, p, (uint32_t)(s - p->sites));
	json_write_object_end(w);
	json_write_newline(w);
}

static void write_head(struct json_writer *w, const struct profile *p,
		       const struct report_options *o)
{
	json_write_key_uint(w, "schema", 1);
	json_write_key_string(w, "heft", HEFT_VERSION);
	model_json_run(w, NULL, p);
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
		model_json_process(w, NULL, p, &whole);
		if (x->next[i] != PROFILE_NONE) {
			json_write_key(w, "images");
			json_write_array(w);
			for (uint32_t k = i; k != PROFILE_NONE; k = x->next[k]) {
				json_write_object(w);
				model_json_image(w, NULL, p, &p->processes[k]);
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
		struct profile_thread whole = thread_of_images(x, p, i);
		json_write_object(w);
		model_json_thread(w, p, &whole);
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
			model_json_handover(w, p, &p->sites[h->site],
					    &p->behaviour.handover_threads[h->threads_first + k]);
		}
	}
	json_write_array_end(w);
}

static void write_sizes(struct json_writer *w, const struct profile *p)
{
	json_write_key(w, "sizes");
	json_write_array(w);
	for (uint32_t i = 0; i < p->behaviour.size_count; i++) {
		model_json_size(w, &p->behaviour.sizes[i]);
		json_write_newline(w);
	}
	json_write_array_end(w);
}

static void write_findings(struct json_writer *w, const struct profile *p,
			   const struct findings *findings)
{
	uint32_t count = findings ? findings_count(findings) : 0;
	json_write_key(w, "findings");
	json_write_array(w);
	for (uint32_t i = 0; i < count; i++) {
		json_write_object(w);
		model_json_finding(w, NULL, p, findings_get(findings, i));
		json_write_object_end(w);
		json_write_newline(w);
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
	model_json_totals(&w, p);
	model_json_heap(&w, p);
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
	const struct findings *findings = report_is_selection(o) ? NULL : o->findings;
	write_findings(&w, p, findings);
	model_json_notes(&w, NULL, p, findings);
	model_json_ledgers(&w, p->ledgers, p->ledger_count);
	if (!o->focus && !o->ignore)
		model_json_remarks(&w, NULL, p);
	json_write_object_end(&w);
	json_write_newline(&w);
	json_stacks_fini(&stacks);
	process_images_fini(&images);
	free(order);
	return 0;
}
