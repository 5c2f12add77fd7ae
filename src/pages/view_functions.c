/* The documents "functions" and "files": every function, every source file with what
 * its own calls allocate and what is allocated below them. A stack counts once for
 * each function or file that stands on it, however often. */
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"
#include "pages/view_paths.h"
#include "pages/view_sums.h"
#include "profile/call_functions.h"

#include <stdlib.h>
#include <string.h>

struct row {
	uint64_t total, self;
	uint32_t at;
};

static int greatest_first(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static struct row *rank(const struct view_sums *sums, const bool *wanted, uint32_t count,
			uint32_t *rows)
{
	struct row *list = malloc(((size_t)count + 1) * sizeof *list);
	*rows = 0;
	for (uint32_t i = 0; list && i < count; i++)
		if (sums[i].total && (!wanted || wanted[i]))
			list[(*rows)++] = (struct row){sums[i].total, sums[i].self, i};
	if (list)
		qsort(list, *rows, sizeof *list, greatest_first);
	return list;
}

static void write_functions(struct json_writer *w, const struct view_query *q,
			    const struct call_functions *f, const struct row *rows, uint32_t count,
			    uint64_t sum)
{
	json_write_object(w);
	json_write_key_uint(w, "count", count);
	json_write_key_uint(w, "sum", sum);
	json_write_key(w, "rows");
	json_write_array(w);
	for (uint32_t i = 0; i < count && i < q->rows; i++) {
		const struct call_function *x = &f->items[rows[i].at];
		json_write_object(w);
		json_write_key(w, "frame");
		view_write_frame(w, q, x->p, x->frame);
		json_write_key_uint(w, "self", rows[i].self);
		json_write_key_uint(w, "total", rows[i].total);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

int view_functions(FILE *out, struct view_recording *r, const struct view_query *q,
		   struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct view_measure m;
	struct call_functions f = {0};
	uint32_t *ids = NULL, rows = 0;
	struct row *list = NULL;
	int rc = view_recording_part(r, q, VIEW_NO_SIZES, &part, err);
	if (rc < 0)
		return rc;
	const struct profile *p = part->p;
	rc = view_measure_of(&m, q, p, err);
	if (rc < 0)
		goto out;
	uint64_t *values = view_values(&m, p);
	rc = values ? call_functions_add(&f, p, values, &ids) : HEFT_ENOMEM;
	struct view_sums *sums = calloc((size_t)f.count + 1, sizeof *sums);
	bool *wanted = calloc((size_t)f.count + 1, sizeof *wanted);
	if (rc == 0 && sums && wanted && view_add_up(sums, f.count, p, values, ids) == 0) {
		for (uint32_t i = 0; i < p->stacks.frame_count; i++)
			wanted[ids[i]] |= view_frame_found(q, p, i);
		list = rank(sums, wanted, f.count, &rows);
	}
	if (list) {
		struct json_writer w;
		json_write_init(&w, out);
		write_functions(&w, q, &f, list, rows, view_sum(&m, p));
	} else {
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this table");
	}
	free(list);
	free(wanted);
	free(sums);
	free(ids);
	free(values);
out:
	call_functions_fini(&f);
	view_part_drop(part);
	return rc;
}

/* ---- files */

static void write_files(struct json_writer *w, const struct view_query *q,
			const struct view_paths *paths, const struct row *rows, uint32_t count)
{
	json_write_object(w);
	json_write_key(w, "files");
	json_write_array(w);
	for (uint32_t i = 0; i < count && i < q->rows; i++) {
		json_write_object(w);
		/* Whole: it is how the file is asked for. */
		json_write_key_string(w, "file", paths->items[rows[i].at]);
		json_write_key_uint(w, "total", rows[i].total);
		json_write_key_uint(w, "self", rows[i].self);
		json_write_key_bool(w, "readable", view_path_readable(paths->items[rows[i].at]));
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

struct ranked_files {
	const struct view_part *part;
	struct view_paths paths;
	struct row *rows;
	uint32_t count;
};

static void close_files(struct ranked_files *f)
{
	free(f->rows);
	view_paths_fini(&f->paths);
	view_part_drop(f->part);
}

static int rank_files(struct ranked_files *f, struct view_recording *r, const struct view_query *q,
		      struct heft_error *err)
{
	struct view_measure m;
	*f = (struct ranked_files){0};
	int rc = view_recording_part(r, q, VIEW_NO_SIZES, &f->part, err);
	if (rc == 0)
		rc = view_measure_of(&m, q, f->part->p, err);
	if (rc < 0)
		return rc;
	uint64_t *values = view_values(&m, f->part->p);
	rc = values ? view_paths_of(&f->paths, f->part->p) : HEFT_ENOMEM;
	struct view_sums *sums = calloc((size_t)f->paths.count + 1, sizeof *sums);
	if (rc == 0 && sums &&
	    view_add_up(sums, f->paths.count, f->part->p, values, f->paths.by_frame) == 0)
		f->rows = rank(sums, NULL, f->paths.count, &f->count);
	free(sums);
	free(values);
	return f->rows ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory for this table");
}

int view_files(FILE *out, struct view_recording *r, const struct view_query *q,
	       struct heft_error *err)
{
	struct ranked_files f;
	struct json_writer w;
	int rc = rank_files(&f, r, q, err);
	json_write_init(&w, out);
	if (rc == 0)
		write_files(&w, q, &f.paths, f.rows, f.count);
	close_files(&f);
	return rc;
}

int view_files_each(struct view_recording *r, const struct view_query *q,
		    int (*each)(void *ctx, const char *path), void *ctx, struct heft_error *err)
{
	struct ranked_files f;
	int rc = rank_files(&f, r, q, err);
	for (uint32_t i = 0, given = 0; rc == 0 && i < f.count && given < q->rows; i++) {
		const char *path = f.paths.items[f.rows[i].at];
		if (!view_path_readable(path))
			continue;
		rc = each(ctx, path);
		given++;
	}
	close_files(&f);
	return rc;
}
