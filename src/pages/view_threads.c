/* The document "threads": who allocates, who frees, and who hands blocks to whom.
 * Hand-overs are kept by site; here those of one pair of threads are added up, with
 * the mean wait weighted by their number. */
#include "pages/view_documents.h"

#include <stdlib.h>

enum { MOST_CELLS = 5000 };

struct cell {
	uint32_t from, to;
	uint64_t frees;
	double wait_ns; /* summed */
};

static int by_pair(const void *a, const void *b)
{
	const struct cell *x = a, *y = b;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static int by_frees(const void *a, const void *b)
{
	const struct cell *x = a, *y = b;
	return x->frees > y->frees ? -1 : x->frees < y->frees ? 1 : by_pair(a, b);
}

static struct cell *cells_of(const struct profile *p, uint32_t *count)
{
	struct cell *cells = malloc(((size_t)p->behaviour.handover_threads_count + 1) *
				    sizeof *cells);
	uint32_t n = 0, kept = 0;
	*count = 0;
	if (!cells)
		return NULL;
	for (uint32_t i = 0; i < p->behaviour.handover_count; i++) {
		const struct profile_handover *h = &p->behaviour.handovers[i];
		for (uint32_t k = 0;
		     k < h->threads_count && n < p->behaviour.handover_threads_count; k++) {
			const struct profile_handover_threads *t =
				&p->behaviour.handover_threads[h->threads_first + k];
			cells[n++] = (struct cell){t->from, t->to, t->frees,
						   h->wait_mean_ns * (double)t->frees};
		}
	}
	qsort(cells, n, sizeof *cells, by_pair);
	for (uint32_t i = 0; i < n; i++) {
		if (kept && by_pair(&cells[kept - 1], &cells[i]) == 0) {
			cells[kept - 1].frees += cells[i].frees;
			cells[kept - 1].wait_ns += cells[i].wait_ns;
		} else {
			cells[kept++] = cells[i];
		}
	}
	qsort(cells, kept, sizeof *cells, by_frees);
	*count = kept;
	return cells;
}

static void write_thread(struct json_writer *w, const struct profile *p, uint32_t thread)
{
	json_write_object(w);
	model_json_thread(w, p, &p->threads[thread]);
	json_write_object_end(w);
}

/* Where a thread stands in the list, by its number in the profile of everything; PROFILE_NONE: not of
 * the chosen processes, or beyond what is listed. NULL: no memory. */
static uint32_t *places_of(const struct view_query *q, const struct profile *everything,
			   const struct profile *p)
{
	bool *chosen = calloc((size_t)everything->process_count + 1, sizeof *chosen);
	uint32_t *places = malloc(((size_t)everything->thread_count + 1) * sizeof *places);
	uint32_t count = 0;
	if (!chosen || !places) {
		free(chosen);
		free(places);
		return NULL;
	}
	/* Everything has all processes of the file, so a number is a place there. */
	for (uint32_t i = 0; i < p->process_count; i++)
		if (p->processes[i].number < everything->process_count)
			chosen[p->processes[i].number] = true;
	for (uint32_t i = 0; i < everything->thread_count; i++) {
		uint32_t process = everything->threads[i].process;
		bool listed = p == everything ||
			      (process < everything->process_count && chosen[process]);
		places[i] = listed && (!q->limits.entries || count < q->limits.entries)
				    ? count++
				    : PROFILE_NONE;
	}
	free(chosen);
	return places;
}

static void write_cell(struct json_writer *w, uint32_t from, uint32_t to, const struct cell *c)
{
	json_write_object(w);
	json_write_key_int(w, "from", from == PROFILE_NONE ? -1 : (int64_t)from);
	json_write_key_int(w, "to", to == PROFILE_NONE ? -1 : (int64_t)to);
	json_write_key_uint(w, "frees", c->frees);
	json_write_key_uint(w, "wait_mean_ns",
			    c->frees ? (uint64_t)(c->wait_ns / (double)c->frees) : 0);
	json_write_object_end(w);
}

/* Those whose threads are listed. Cells of other threads stand for every process. */
static void write_cells(struct json_writer *w, const struct cell *cells, uint32_t count,
			const uint32_t *places, bool everything)
{
	uint32_t written = 0;
	json_write_key(w, "cells");
	json_write_array(w);
	for (uint32_t i = 0; i < count && written < MOST_CELLS; i++) {
		const struct cell *c = &cells[i];
		bool named_from = c->from != PROFILE_NONE, named_to = c->to != PROFILE_NONE;
		uint32_t from = named_from ? places[c->from] : PROFILE_NONE;
		uint32_t to = named_to ? places[c->to] : PROFILE_NONE;
		if ((named_from && from == PROFILE_NONE) || (named_to && to == PROFILE_NONE) ||
		    (!everything && !named_from && !named_to))
			continue;
		write_cell(w, from, to, c);
		written++;
	}
	json_write_array_end(w);
}

int view_threads(FILE *out, struct view_recording *r, const struct view_query *q,
		 struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	uint32_t count;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	const struct profile *everything = part->p->stacks.lender ? part->p->stacks.lender
								  : part->p;
	struct cell *cells = cells_of(everything, &count);
	uint32_t *places = places_of(q, everything, part->p);
	if (cells && places) {
		json_write_init(&w, out);
		json_write_object(&w);
		json_write_key(&w, "threads");
		json_write_array(&w);
		for (uint32_t i = 0; i < everything->thread_count; i++)
			if (places[i] != PROFILE_NONE)
				write_thread(&w, everything, i);
		json_write_array_end(&w);
		write_cells(&w, cells, count, places, part->p == everything);
		json_write_object_end(&w);
	} else {
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for the threads");
	}
	free(cells);
	free(places);
	view_part_drop(part);
	return rc;
}
