/* `heft map --leaks PID` (map_leaks.h). There are two ways to the blocks of a running process:
 *
 * - heft records it exactly: then its recorder knows them, and who made each. It is asked for a look
 *   (session/look_call.h), and writes what it saw into the recording, which is read here.
 * - All others: glibc's heap is read from outside, and says which blocks are in use. Nobody knows who made them, so they
 *   are told by size. What of a process is recorded as samples does not help: most blocks are in no sample.
 *
 * What is looked for, and how, is the same in both (ledger/heap_look_take.h). */
#include "cli/map_leaks.h"

#include "cli/cli.h"
#include "cli/map_events.h"
#include "hosted/error.h"
#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "ledger/heap_look_take.h"
#include "ledger/ledger_take.h"
#include "model_json/model_json.h"
#include "profile/profile_from_trace.h"
#include "profile/profile_ledgers.h"
#include "record/recording_of.h"
#include "session/look_call.h"

#include <limits.h>
#include <stdlib.h>

enum { DEFAULT_WIDTH = 100, NARROWEST = 72, NUMBER_COLUMNS = 11 };

/* ---- from outside */

static int look_from_outside(struct map_leaks *l, pid_t pid, struct heft_error *err)
{
	struct heft_error why = {0};
	struct heap_look_order order = {.look = &l->look, .always = true, .err = &why};
	const struct ledger_look look = {.ctx = &order, .while_stopped = heap_look_take};
	int rc = ledger_take(&l->ledger, pid, &look, err);
	if (rc)
		return rc;
	if (l->look.parts & HEAP_REACHABLE)
		return 0;
	*err = why;
	map_leaks_fini(l);
	return HEFT_EREFUSED;
}

/* ---- by its recorder */

static const struct heap_look *last_look(const struct trace_contents *c, pid_t pid)
{
	const struct heap_look *last = NULL;
	for (size_t i = 0; i < c->look_count; i++)
		if (c->looks[i].look.pid == pid && (c->looks[i].look.parts & HEAP_REACHABLE))
			last = &c->looks[i].look;
	return last;
}

static int copy_look(struct map_leaks *l, const struct heap_look *look, struct heft_error *err)
{
	l->look = *look;
	l->look.items = NULL;
	l->look.count = l->look.capacity = 0;
	if (!vector_reserve(&l->look, look->count + 1))
		return heft_fail(err, HEFT_ENOMEM, "no memory for what the look has found");
	for (size_t i = 0; i < look->count; i++)
		l->look.items[l->look.count++] = look->items[i];
	return 0;
}

/* The ledger and the look that the recorder has just written */
static int take_written(struct map_leaks *l, struct trace_reader *r, pid_t pid,
			struct heft_error *err)
{
	const struct profile_selection selection = {.keep = true};
	const struct trace_contents *c = trace_reader_contents(r);
	const struct heap_look *look = last_look(c, pid);
	int rc = look ? 0
		      : heft_fail(
				err, HEFT_EREFUSED,
				"the heft that records process %d could not look at it: the notes "
				"of its recording say why",
				(int)pid);
	for (size_t i = 0; i < c->ledger_count && !rc; i++)
		if (c->ledgers[i].pid == pid && c->ledgers[i].time_ns == look->time_ns &&
		    !l->ledger.count)
			rc = ledger_copy(&l->ledger, &c->ledgers[i]);
	if (!rc)
		rc = map_events_name_lines(&l->ledger, 1, r, err);
	if (!rc)
		rc = copy_look(l, look, err);
	return rc ? rc : profile_from_trace(&l->p, r, &selection, err);
}

static int read_recording(struct map_leaks *l, pid_t pid, struct heft_error *err)
{
	char path[PATH_MAX];
	struct trace_reader *r;
	int rc = recording_of(pid, path, sizeof path, err);
	if (!rc)
		rc = trace_reader_open(&r, path, err);
	if (rc)
		return rc;
	rc = take_written(l, r, pid, err);
	trace_reader_close(r);
	if (rc)
		map_leaks_fini(l);
	return rc;
}

/* ---- both */

int map_leaks_take(struct map_leaks *l, pid_t pid, struct heft_error *err)
{
	*l = (struct map_leaks){0};
	int rc = look_call(pid, err);
	if (rc == HEFT_ENOTFOUND)
		return look_from_outside(l, pid, err);
	return rc ? rc : read_recording(l, pid, err);
}

void map_leaks_fini(struct map_leaks *l)
{
	ledger_fini(&l->ledger);
	heap_look_fini(&l->look);
	profile_free(l->p);
	*l = (struct map_leaks){0};
}

/* ---- rows */

/* Blocks that one function has made in one line, or that have one size */
struct row {
	const struct profile_frame *frame; /* NULL: not known */
	uint64_t size_bytes;               /* where nobody records: of each */
	uint64_t blocks, bytes;            /* lost directly */
	uint64_t held_blocks, held_bytes;  /* and through these */
};

struct rows {
	VECTOR_MEMBERS(struct row);
	uint64_t blocks, bytes, indirect_blocks, indirect_bytes;
};

/* Who made the blocks of a site of the recording */
static const struct profile_frame *frame_of(const struct profile *p, uint32_t recorded)
{
	const struct profile_recorded *r = &p->recorded;
	uint32_t site = r->sites && recorded < r->site_count ? r->sites[recorded] : PROFILE_NONE;
	uint32_t node = site < p->site_count ? profile_first_user_node(p, p->sites[site].node)
					     : PROFILE_NONE;
	return node == PROFILE_NONE ? NULL : &p->stacks.frames[p->stacks.nodes[node].frame];
}

static int by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return x->frame != y->frame
		       ? (x->frame > y->frame) - (x->frame < y->frame)
		       : (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int by_bytes(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	uint64_t p = x->bytes + x->held_bytes, q = y->bytes + y->held_bytes;
	return p != q ? (p < q) - (p > q) : by_place(a, b);
}

static bool collect_rows(const struct map_leaks *l, struct rows *rows)
{
	size_t count = 0;
	*rows = (struct rows){0};
	for (size_t i = 0; i < l->look.count; i++) {
		const struct heap_site *s = &l->look.items[i];
		struct row row = {.frame = l->p ? frame_of(l->p, s->site) : NULL,
				  .blocks = s->direct_blocks,
				  .bytes = s->direct_bytes,
				  .held_blocks = s->held_blocks,
				  .held_bytes = s->held_bytes};
		rows->blocks += s->direct_blocks + s->indirect_blocks;
		rows->bytes += s->direct_bytes + s->indirect_bytes;
		rows->indirect_blocks += s->indirect_blocks;
		rows->indirect_bytes += s->indirect_bytes;
		if (!row.blocks)
			continue;
		if (!l->p)
			row.size_bytes = s->bytes / s->blocks;
		if (!vector_push(rows, row))
			return false;
	}
	if (rows->count)
		qsort(rows->items, rows->count, sizeof *rows->items, by_place);
	/* Several call stacks lead to one place. */
	for (size_t i = 0; i < rows->count; i++) {
		struct row *last = count ? &rows->items[count - 1] : NULL;
		const struct row row = rows->items[i];
		if (!last || by_place(last, &row)) {
			rows->items[count++] = row;
			continue;
		}
		last->blocks += row.blocks;
		last->bytes += row.bytes;
		last->held_blocks += row.held_blocks;
		last->held_bytes += row.held_bytes;
	}
	rows->count = count;
	if (count)
		qsort(rows->items, count, sizeof *rows->items, by_bytes);
	return true;
}

/* ---- text */

static void print_row(FILE *out, const struct map_leaks *l, const struct row *row, size_t width)
{
	char what[512];
	if (row->frame)
		profile_frame_words(what, sizeof what, row->frame);
	else if (l->p)
		snprintf(what, sizeof what, "?");
	else if (row->size_bytes < UINT64_C(16) * HEAP_SIZES)
		snprintf(what, sizeof what, "blocks of %s bytes",
			 words_count(row->size_bytes).text);
	else
		snprintf(what, sizeof what, "blocks of about %s",
			 words_bytes(row->size_bytes).text);
	fprintf(out, "%*s%*s%*s  ", NUMBER_COLUMNS, words_count(row->blocks).text, NUMBER_COLUMNS,
		words_bytes(row->bytes).text, NUMBER_COLUMNS,
		row->held_bytes ? words_bytes(row->held_bytes).text : "-");
	words_print_fit(out, what, width - 3 * NUMBER_COLUMNS - 2);
	putc('\n', out);
}

static void print_sums(FILE *out, const struct map_leaks *l, const struct rows *rows, size_t width)
{
	char text[400];
	const struct heap_look *look = &l->look;
	if (!rows->blocks)
		snprintf(text, sizeof text,
			 "Nothing is lost: pointers lead to all %s blocks in use (%s).",
			 words_count(look->blocks).text, words_bytes(look->bytes).text);
	else
		snprintf(
			text, sizeof text,
			"Lost: no pointer leads to %s of %s (%s of %s); %s of them only from other "
			"lost blocks.",
			words_count(rows->blocks).text,
			words_many(look->blocks, "block", "blocks").text,
			words_bytes(rows->bytes).text, words_bytes(look->bytes).text,
			words_count(rows->indirect_blocks).text);
	words_print_wrapped(out, text, 0, width);
	putc('\n', out);
}

int map_leaks_text(FILE *out, const struct map_leaks *l, size_t limit, size_t width)
{
	struct rows rows;
	width = !width || width > WORDS_PROSE ? DEFAULT_WIDTH
		: width < NARROWEST           ? NARROWEST
					      : width;
	if (!collect_rows(l, &rows)) {
		vector_free(&rows);
		return HEFT_ENOMEM;
	}
	print_sums(out, l, &rows, width);
	if (rows.count)
		fprintf(out, "%*s%*s%*s  %s\n", NUMBER_COLUMNS, "blocks", NUMBER_COLUMNS, "bytes",
			NUMBER_COLUMNS, "lead to", l->p ? "made by" : "what");
	for (size_t i = 0; i < rows.count && i < limit; i++)
		print_row(out, l, &rows.items[i], width);
	if (rows.count > limit)
		fprintf(out, "... %s more: -n %zu shows all\n",
			words_count(rows.count - limit).text, rows.count);
	if (!l->p) {
		words_print_wrapped(out,
				    "Sizes are usable ones. Who made the blocks is known if heft "
				    "records the program: heft run --leaks, heft attach --leaks.",
				    0, width);
		putc('\n', out);
	}
	vector_free(&rows);
	return 0;
}

/* ---- JSON */

static void write_row(struct json_writer *w, const struct map_leaks *l, const struct row *row)
{
	json_write_newline(w);
	json_write_object(w);
	json_write_key_uint(w, "direct_blocks", row->blocks);
	json_write_key_uint(w, "direct_bytes", row->bytes);
	json_write_key_uint(w, "held_blocks", row->held_blocks);
	json_write_key_uint(w, "held_bytes", row->held_bytes);
	if (row->size_bytes)
		json_write_key_uint(w, "size_bytes", row->size_bytes);
	if (row->frame)
		model_json_place(w, NULL, l->p, row->frame);
	json_write_object_end(w);
}

int map_leaks_json(struct json_writer *w, const struct map_leaks *l)
{
	struct rows rows;
	int rc = collect_rows(l, &rows) ? 0 : HEFT_ENOMEM;
	json_write_key(w, "leaks");
	json_write_object(w);
	json_write_key_string(w, "known_from", l->p ? "recording" : "heap");
	json_write_key_uint(w, "took_ns", l->look.took_ns);
	json_write_key_uint(w, "blocks", l->look.blocks);
	json_write_key_uint(w, "bytes", l->look.bytes);
	json_write_key_uint(w, "lost_blocks", rows.blocks);
	json_write_key_uint(w, "lost_bytes", rows.bytes);
	json_write_key_uint(w, "indirect_blocks", rows.indirect_blocks);
	json_write_key_uint(w, "indirect_bytes", rows.indirect_bytes);
	json_write_key(w, "places");
	json_write_array(w);
	for (size_t i = 0; i < rows.count && !rc; i++)
		write_row(w, l, &rows.items[i]);
	json_write_array_end(w);
	json_write_object_end(w);
	vector_free(&rows);
	return rc;
}
