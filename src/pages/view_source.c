/* The document "source": a file line by line, with what its lines allocate.
 *
 * The file is one that frames of the recording name, or there is no document. A line
 * counts once for a stack that goes through it more than once. */
#include "pages/view_documents.h"
#include "pages/view_measure.h"
#include "pages/view_names.h"
#include "pages/view_paths.h"
#include "pages/view_sums.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 200000 };

struct listing {
	struct view_sums *lines; /* by number, [0] unused */
	uint32_t count;          /* of the highest number that has any */
};

static uint32_t highest_line(const struct profile *p, const struct view_paths *paths, uint32_t file)
{
	uint32_t highest = 0;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (paths->by_frame[i] == file && p->stacks.frames[i].line > highest &&
		    p->stacks.frames[i].line <= MOST_LINES)
			highest = p->stacks.frames[i].line;
	return highest;
}

static int add_up(struct listing *l, const struct profile *p, const struct view_measure *m,
		  const struct view_paths *paths, uint32_t file)
{
	l->count = highest_line(p, paths, file);
	l->lines = calloc((size_t)l->count + 1, sizeof *l->lines);
	if (!l->lines)
		return HEFT_ENOMEM;
	uint64_t *values = view_values(m, p);
	uint32_t *groups = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *groups);
	int rc = values && groups ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count && rc == 0; i++)
		groups[i] = paths->by_frame[i] == file && p->stacks.frames[i].line <= l->count
				    ? p->stacks.frames[i].line
				    : PROFILE_NONE;
	if (rc == 0)
		rc = view_add_up(l->lines, l->count + 1, p, values, groups);
	free(values);
	free(groups);
	return rc;
}

static void write_line(struct json_writer *w, const struct listing *l, uint32_t number,
		       const char *text)
{
	bool counted = number <= l->count;
	json_write_object(w);
	json_write_key_uint(w, "line", number);
	json_write_key_string(w, "text", text);
	json_write_key_uint(w, "self", counted ? l->lines[number].self : 0);
	json_write_key_uint(w, "total", counted ? l->lines[number].total : 0);
	json_write_object_end(w);
}

/* All lines of the text; or, without one, those that have a number. */
static void write_lines(struct json_writer *w, const struct listing *l, char *text, size_t length)
{
	json_write_key(w, "lines");
	json_write_array(w);
	uint32_t number = 0;
	char *at = text, *end = text ? text + length : NULL;
	while (at < end && number < MOST_LINES) {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		stop = stop ? stop : end;
		*stop = 0; /* there is a byte behind the end */
		write_line(w, l, ++number, at);
		at = stop + 1;
	}
	for (number++; number <= l->count; number++)
		if (l->lines[number].total)
			write_line(w, l, number, "");
	json_write_array_end(w);
}

static void write_source(FILE *out, const struct profile *p, const struct listing *l,
			 const char *path, uint64_t sum)
{
	struct json_writer w;
	const char *words = "";
	size_t length = 0;
	int64_t changed = 0;
	char *text = view_path_read(path, &length, &changed, &words);
	if (text && p->run.start_unix_ns && changed > p->run.start_unix_ns)
		words = "the file is newer than the program: lines may have moved";
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_string(&w, "file", path);
	json_write_key_string(&w, "words", words);
	write_lines(&w, l, text, length);
	json_write_key_uint(&w, "sum", sum);
	json_write_object_end(&w);
	free(text);
}

static uint32_t find_file(const struct view_paths *paths, const char *file)
{
	for (uint32_t i = 0; i < paths->count; i++)
		if (strcmp(paths->items[i], file) == 0)
			return i;
	return PROFILE_NONE;
}

int view_source(FILE *out, struct view_recording *r, const struct view_query *q,
		struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct view_measure m;
	struct view_paths paths = {0};
	struct listing listing = {0};
	uint32_t file = PROFILE_NONE;
	if (!q->file)
		return heft_fail(err, HEFT_EUSAGE, "name a file with file=PATH");
	int rc = view_recording_part(r, q, VIEW_NO_SIZES, &part, err);
	if (rc < 0)
		return rc;
	rc = view_measure_of(&m, q, part->p, err);
	if (rc < 0)
		goto out;
	rc = view_paths_of(&paths, part->p);
	if (rc == 0 && (file = find_file(&paths, q->file)) == PROFILE_NONE) {
		rc = heft_fail(err, HEFT_ENOTFOUND, "the recording does not name this file");
		goto out;
	}
	if (rc == 0)
		rc = add_up(&listing, part->p, &m, &paths, file);
	if (rc == 0)
		write_source(out, part->p, &listing, paths.items[file], view_sum(&m, part->p));
	else
		heft_fail(err, rc, "not enough memory for this file");
out:
	free(listing.lines);
	view_paths_fini(&paths);
	view_part_drop(part);
	return rc;
}
