/* The document "threads": who allocates, who frees, and who hands blocks to whom.
 * Hand-overs are kept by site; here those of one pair of threads are added up, with
 * the mean wait weighted by their number. */
#include "server/view_documents.h"

#include "hosted/json_writer.h"

#include <inttypes.h>
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
	struct cell *cells = malloc(((size_t)p->handover_threads_count + 1) * sizeof *cells);
	uint32_t n = 0, kept = 0;
	*count = 0;
	if (!cells)
		return NULL;
	for (uint32_t i = 0; i < p->handover_count; i++) {
		const struct profile_handover *h = &p->handovers[i];
		for (uint32_t k = 0; k < h->threads_count && n < p->handover_threads_count; k++) {
			const struct profile_handover_threads *t =
				&p->handover_threads[h->threads_first + k];
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

static void write_thread(struct json_writer *w, const struct profile_thread *t)
{
	char label[160];
	snprintf(label, sizeof label, "%.100s (%" PRId32 ")", t->name && *t->name ? t->name : "?",
		 t->tid);
	json_write_object(w);
	json_write_key_string(w, "label", label);
	json_write_key_int(w, "pid", t->pid);
	json_write_key_int(w, "tid", t->tid);
	json_write_key_uint(w, "allocations", t->allocations);
	json_write_key_uint(w, "allocatedBytes", t->allocated_bytes);
	json_write_key_uint(w, "frees", t->frees);
	json_write_object_end(w);
}

/* Whether the threads of a cell are listed. */
static bool is_listed(const struct view_query *q, uint32_t thread)
{
	return !q->most || thread == PROFILE_NONE || thread < q->most;
}

static void write_cell(struct json_writer *w, const struct cell *c)
{
	json_write_object(w);
	json_write_key_int(w, "from", c->from == PROFILE_NONE ? -1 : (int64_t)c->from);
	json_write_key_int(w, "to", c->to == PROFILE_NONE ? -1 : (int64_t)c->to);
	json_write_key_uint(w, "frees", c->frees);
	json_write_key_uint(w, "waitMeanNs",
			    c->frees ? (uint64_t)(c->wait_ns / (double)c->frees) : 0);
	json_write_object_end(w);
}

int view_threads(FILE *out, struct view_recording *r, const struct view_query *q,
		 struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	uint32_t count;
	int rc = view_recording_whole(r, &part, err);
	if (rc < 0)
		return rc;
	struct cell *cells = cells_of(part->p, &count);
	if (cells) {
		json_write_init(&w, out);
		json_write_object(&w);
		json_write_key(&w, "threads");
		json_write_array(&w);
		for (uint32_t i = 0; i < part->p->thread_count && (!q->most || i < q->most); i++)
			write_thread(&w, &part->p->threads[i]);
		json_write_array_end(&w);
		json_write_key(&w, "cells");
		json_write_array(&w);
		for (uint32_t i = 0; i < count && i < MOST_CELLS; i++)
			if (is_listed(q, cells[i].from) && is_listed(q, cells[i].to))
				write_cell(&w, &cells[i]);
		json_write_array_end(&w);
		json_write_object_end(&w);
	} else {
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for the threads");
	}
	free(cells);
	view_part_drop(part);
	return rc;
}
