/* Reads a recording.
 *
 * A complete one is opened from its end: the end block names the index, the index names all others, and only tables and
 * the final tally are loaded, never an events block. Without an end block (the recorder was killed, the disk was full,
 * or it is still being written) the file is scanned block by block up to the first that is not whole; the last tally
 * found is taken, and the events after it are replayed into it.
 *
 * Invariants: `index` has the events blocks in file order, which is time order;
 * tables are complete before any event is decoded; ids in events are checked
 * against them. */
#include "trace/trace.h"

#include "hosted/vector.h"
#include "trace/behaviour_block.h"
#include "trace/definitions.h"
#include "trace/events_block.h"
#include "trace/mappings_block.h"
#include "trace/remarks_block.h"
#include "trace/tally_block.h"
#include "trace/trace_file.h"
#include "trace/trace_index.h"

#include <stdlib.h>
#include <string.h>

struct trace_reader {
	struct trace_file file;
	struct definitions tables;
	struct remark_names names;
	struct trace_index index;
	struct tally tally;
	struct behaviour behaviour;
	struct trace_samples *samples; /* the last ones of each sampled process */
	uint32_t samples_count, samples_capacity;
	struct trace_peak peak; /* the last one */
	struct trace_contents contents;
	bool have_meta;
	struct events_decoder decoder;
	struct trace_event batch[EVENTS_BATCH];
};

static int no_memory(const struct trace_reader *r, struct heft_error *err)
{
	return heft_fail(err, HEFT_ENOMEM, "%s: out of memory", r->file.path);
}

/* Keeps the samples of a block, in place of earlier ones of the same process. */
static const char *take_samples(struct trace_reader *r, struct byte_cursor *c)
{
	struct trace_samples s = {0};
	const char *expected = trace_samples_get(c, &s, r->tables.site_count,
						 r->tables.process_count);
	uint32_t at = 0;
	while (!expected && at < r->samples_count && r->samples[at].process != s.process)
		at++;
	if (!expected && at == r->samples_count) {
		if (!array_reserve(r->samples, r->samples_count, r->samples_capacity, 1))
			expected = "enough memory for its samples";
		else
			r->samples[r->samples_count++] = (struct trace_samples){0};
	}
	if (expected) {
		trace_samples_fini(&s);
		return expected;
	}
	trace_samples_fini(&r->samples[at]);
	r->samples[at] = s;
	return NULL;
}

static const char *take_peak(struct trace_reader *r, struct byte_cursor *c)
{
	struct trace_peak p = {0};
	const char *expected = trace_peak_get(c, &p, r->tables.site_count, r->tables.process_count);
	if (expected) {
		trace_peak_fini(&p);
		return expected;
	}
	trace_peak_fini(&r->peak);
	r->peak = p;
	return NULL;
}

/* Reads a loaded block, if it holds tables. */
static int take_tables(struct trace_reader *r, struct trace_block *b, struct heft_error *err)
{
	const char *expected = NULL;
	unsigned type = b->header.type;
	if (!r->have_meta && type != TRACE_BLOCK_META)
		return heft_fail_format(err, r->file.path, b->offset,
					"expected the meta block first");
	if (type == TRACE_BLOCK_SAMPLES)
		expected = take_samples(r, &b->payload);
	else if (type == TRACE_BLOCK_PEAK)
		expected = take_peak(r, &b->payload);
	else if (type != TRACE_BLOCK_META || !r->have_meta)
		expected = definitions_get_block(&r->tables, type, b->header.count, &b->payload);
	r->have_meta = true;
	return expected ? trace_file_expected(&r->file, b, expected, err) : 0;
}

static bool holds_tables(unsigned type)
{
	return type == TRACE_BLOCK_META || type == TRACE_BLOCK_DEFINITIONS ||
	       type == TRACE_BLOCK_RSS || type == TRACE_BLOCK_SAMPLES || type == TRACE_BLOCK_PEAK ||
	       type == TRACE_BLOCK_ANONYMOUS || type == TRACE_BLOCK_LEDGER ||
	       type == TRACE_BLOCK_HEAP;
}

/* Loads a block that must be there. */
static int load(struct trace_reader *r, uint64_t offset, struct trace_block *b,
		struct heft_error *err)
{
	int rc = trace_file_load(&r->file, offset, b, err);
	if (rc == TRACE_LOAD_CUT)
		return heft_fail_format(err, r->file.path, offset,
					"expected a block, but the file ends");
	return rc;
}

/* Loads the tally whose first part is at offset into t, which is empty. */
static int load_tally(struct trace_reader *r, struct tally *t, uint64_t offset, unsigned type,
		      struct heft_error *err)
{
	uint32_t site_limit = r->tables.site_count;
	uint32_t thread_limit = r->tables.thread_count;
	uint32_t left = 1, parts = 0;
	struct trace_block b;
	while (left) {
		int rc = load(r, offset, &b, err);
		if (rc)
			return rc;
		uint32_t before = left;
		const char *expected = b.header.type != type
					       ? "another part of a tally"
					       : tally_block_get(&b.payload, t, site_limit,
								 thread_limit, &left);
		/* Parts count down: a first one that is not the first would never end. */
		if (!expected && parts++ && left != before - 1)
			expected = "the next part of a tally";
		if (expected)
			return trace_file_expected(&r->file, &b, expected, err);
		offset = b.next_offset;
	}
	if (tally_reserve(t, site_limit, thread_limit))
		return no_memory(r, err);
	return 0;
}

/* Takes over the recorder's tally, which may have reserved more than was defined. */
static int take_written(struct trace_reader *r, struct heft_error *err)
{
	struct tally *t = &r->tally;
	t->behaviour = NULL;
	if (t->site_count > r->tables.site_count)
		t->site_count = r->tables.site_count;
	if (t->thread_count > r->tables.thread_count)
		t->thread_count = r->tables.thread_count;
	return tally_reserve(t, r->tables.site_count, r->tables.thread_count) ? no_memory(r, err)
									      : 0;
}

/* The behaviour that stands directly before the tally at tally_offset, if there is one at offset. */
static int load_behaviour(struct trace_reader *r, uint64_t offset, uint64_t tally_offset,
			  struct heft_error *err)
{
	struct trace_block b;
	if (!offset)
		return 0;
	int rc = load(r, offset, &b, err);
	if (rc || b.next_offset != tally_offset)
		return rc;
	const char *expected = b.header.type != TRACE_BLOCK_BEHAVIOUR
				       ? "what the index says"
				       : behaviour_get(&b.payload, &r->behaviour,
						       r->tables.site_count,
						       r->tables.thread_count);
	return expected ? trace_file_expected(&r->file, &b, expected, err) : 0;
}

/* Whether the file ends in a valid end block, with a valid index. */
static bool find_end(struct trace_reader *r, struct trace_end_payload *end)
{
	struct trace_block b;
	const uint64_t length = TRACE_BLOCK_HEADER_BYTES + TRACE_END_PAYLOAD_BYTES;
	if (r->file.size < TRACE_FILE_HEADER_BYTES + length)
		return false;
	uint64_t at = r->file.size - length;
	if (trace_file_load(&r->file, at, &b, NULL) || b.header.type != TRACE_BLOCK_END ||
	    b.header.raw_bytes != sizeof *end)
		return false;
	memcpy(end, b.payload.at, sizeof *end);
	if (end->index_offset < TRACE_FILE_HEADER_BYTES || end->index_offset >= at ||
	    end->tally_offset >= end->index_offset)
		return false;
	if (trace_file_load(&r->file, end->index_offset, &b, NULL) ||
	    b.header.type != TRACE_BLOCK_INDEX ||
	    trace_index_get(&b.payload, &r->index, b.header.count, end->index_offset)) {
		r->index.count = 0;
		return false;
	}
	return true;
}

static int open_complete(struct trace_reader *r, const struct trace_end_payload *end,
			 struct heft_error *err)
{
	uint64_t behaviour_offset = 0;
	for (size_t i = 0; i < r->index.count; i++) {
		const struct trace_index_entry *e = &r->index.entries[i];
		if (e->type == TRACE_BLOCK_BEHAVIOUR && e->offset < end->tally_offset)
			behaviour_offset = e->offset;
		if (!holds_tables(e->type))
			continue;
		struct trace_block b;
		int rc = load(r, e->offset, &b, err);
		if (!rc && b.header.type != e->type)
			rc = trace_file_expected(&r->file, &b, "what the index says", err);
		if (!rc)
			rc = take_tables(r, &b, err);
		if (rc)
			return rc;
	}
	if (!r->have_meta)
		return heft_fail_format(err, r->file.path, end->index_offset,
					"expected a meta block in the index");
	int rc = r->tally.sites
			 ? take_written(r, err)
			 : load_tally(r, &r->tally, end->tally_offset, TRACE_BLOCK_TALLY, err);
	if (!rc)
		rc = load_behaviour(r, behaviour_offset, end->tally_offset, err);
	if (rc)
		return rc;
	r->contents.complete = true;
	r->contents.cut_offset = r->file.size;
	r->contents.duration_ns = end->duration_ns;
	r->contents.events = end->events;
	return 0;
}

/* Decodes one events block and hands its events on; `from` and `to` as in trace_reader_events. */
static int walk_block(struct trace_reader *r, const struct trace_index_entry *e, uint64_t from,
		      uint64_t to, trace_each_fn *each, void *ctx, struct heft_error *err)
{
	struct trace_block b;
	int rc = load(r, e->offset, &b, err);
	if (rc)
		return rc;
	const char *expected = b.header.type != TRACE_BLOCK_EVENTS
				       ? "an events block where the index says so"
				       : events_decode_begin(
						 &r->decoder, b.payload.at, cursor_left(&b.payload),
						 r->tables.site_count, r->tables.thread_count);
	while (!expected) {
		size_t count;
		expected = events_decode(&r->decoder, r->batch, &count);
		if (expected || !count)
			break;
		const struct trace_event *first = r->batch, *last = r->batch + count;
		if (first->time_ns > to)
			break;
		/* Times never go back: what is outside lies at the ends. */
		while (first < last && first->time_ns < from)
			first++;
		while (first < last && last[-1].time_ns > to)
			last--;
		if (first < last)
			rc = each(ctx, first, (size_t)(last - first));
		if (rc < 0)
			return rc;
	}
	return expected ? trace_file_expected(&r->file, &b, expected, err) : 0;
}

static int replay(void *ctx, const struct trace_event *events, size_t count)
{
	tally_apply(ctx, events, count);
	return 0;
}

/* What a scan finds in a file without an end. */
struct scan {
	uint64_t part_offset; /* the first part of the tally that is being read; 0: none */
	uint64_t parts_left;  /* of that tally */
	unsigned type;        /* of that tally */
	uint64_t tally_offset, behaviour_offset; /* the last complete tally, and its behaviour */
	uint64_t behaviour_seen;                 /* the last one */
	size_t replay_from;                      /* in the index: what follows that tally */
};

/* Notes a block, which may be a part of a tally: a tally counts once all its parts are there. */
static void note_tally(struct scan *s, const struct trace_block *b, size_t index_count)
{
	const struct trace_block_header *h = &b->header;
	if (h->type != TRACE_BLOCK_CHECKPOINT && h->type != TRACE_BLOCK_TALLY) {
		s->part_offset = 0;
		if (h->type == TRACE_BLOCK_BEHAVIOUR)
			s->behaviour_seen = b->offset;
		return;
	}
	if (!s->part_offset || h->count + 1 != s->parts_left || h->type != s->type)
		s->part_offset = b->offset;
	s->parts_left = h->count;
	s->type = h->type;
	if (s->parts_left)
		return;
	s->tally_offset = s->part_offset;
	s->behaviour_offset = s->behaviour_seen;
	s->replay_from = index_count;
	s->part_offset = 0;
}

/* Whether the times in the header of such a block are those of the recording. */
static bool has_times(unsigned type)
{
	return type == TRACE_BLOCK_EVENTS || type == TRACE_BLOCK_RSS ||
	       type == TRACE_BLOCK_CHECKPOINT || type == TRACE_BLOCK_TALLY ||
	       type == TRACE_BLOCK_SAMPLES || type == TRACE_BLOCK_PEAK || type == TRACE_BLOCK_END ||
	       type == TRACE_BLOCK_MAPPINGS || type == TRACE_BLOCK_REMARKS;
}

/* Reads block by block, up to the end or the first that is not whole. */
static int scan_blocks(struct trace_reader *r, struct scan *s, struct heft_error *err)
{
	struct trace_contents *c = &r->contents;
	const struct trace_block_header *h;
	struct trace_block b;
	c->cut_offset = TRACE_FILE_HEADER_BYTES;
	do {
		int rc = trace_file_scan(&r->file, c->cut_offset, &b, NULL);
		if (rc == HEFT_EIO || rc == HEFT_ENOMEM)
			return trace_file_scan(&r->file, c->cut_offset, &b, err);
		if (rc)
			return 0; /* cut, or damaged: the blocks before it are what there is */
		rc = take_tables(r, &b, err);
		if (rc)
			return rc;
		h = &b.header;
		note_tally(s, &b, r->index.count);
		if (has_times(h->type) && h->last_ns > c->duration_ns)
			c->duration_ns = h->last_ns;
		if ((h->type == TRACE_BLOCK_EVENTS || h->type == TRACE_BLOCK_CHECKPOINT ||
		     h->type == TRACE_BLOCK_MAPPINGS || h->type == TRACE_BLOCK_REMARKS) &&
		    !trace_index_add(&r->index, b.offset, h))
			return no_memory(r, err);
		c->cut_offset = b.next_offset;
	} while (h->type != TRACE_BLOCK_END);
	c->complete = true;
	return 0;
}

static int open_cut(struct trace_reader *r, struct heft_error *err)
{
	struct scan found = {0};
	struct trace_block b;
	int rc = scan_blocks(r, &found, err);
	if (rc)
		return rc;
	if (!r->have_meta)
		return heft_fail_format(err, r->file.path, r->contents.cut_offset,
					"expected a complete meta block: nothing was recorded");
	if (found.tally_offset) {
		rc = trace_file_load(&r->file, found.tally_offset, &b, err);
		if (!rc)
			rc = load_tally(r, &r->tally, found.tally_offset, b.header.type, err);
		if (!rc)
			rc = load_behaviour(r, found.behaviour_offset, found.tally_offset, err);
		if (rc)
			return rc;
	} else if (tally_reserve(&r->tally, r->tables.site_count, r->tables.thread_count)) {
		return no_memory(r, err);
	}
	r->decoder.tick_shift = (unsigned)__builtin_ctzll(r->tables.meta.tick_ns);
	/* From here on as the recorder would have gone on, as far as stored events allow it. */
	for (uint32_t i = 0; i < r->behaviour.row_count; i++)
		r->tally.sites[r->behaviour.rows[i]->site].watched = 1;
	r->tally.behaviour = &r->behaviour;
	for (size_t i = found.replay_from; i < r->index.count; i++) {
		if (r->index.entries[i].type != TRACE_BLOCK_EVENTS)
			continue;
		rc = walk_block(r, &r->index.entries[i], 0, UINT64_MAX, replay, &r->tally, err);
		if (rc)
			return rc;
	}
	r->contents.events = r->tally.events;
	return 0;
}

int trace_reader_open(struct trace_reader **out, const char *path, struct heft_error *err)
{
	struct tally none;
	tally_init(&none);
	return trace_reader_open_written(out, path, &none, err);
}

int trace_reader_open_written(struct trace_reader **out, const char *path, struct tally *tally,
			      struct heft_error *err)
{
	*out = NULL;
	struct trace_reader *r = calloc(1, sizeof *r);
	if (!r)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	behaviour_init(&r->behaviour);
	int rc = trace_file_open(&r->file, path, err);
	if (rc) {
		free(r);
		return rc;
	}
	events_decoder_init(&r->decoder, 0);
	struct trace_end_payload end;
	if (find_end(r, &end)) {
		r->tally = *tally;
		tally_init(tally);
		rc = open_complete(r, &end, err);
	} else {
		rc = open_cut(r, err);
	}
	if (rc) {
		trace_reader_close(r);
		return rc;
	}
	r->decoder.tick_shift = (unsigned)__builtin_ctzll(r->tables.meta.tick_ns);
	tally_update_peaks(&r->tally);
	definitions_compare_with_peaks(&r->tables);

	struct trace_contents *c = &r->contents;
	const struct definitions *d = &r->tables;
	c->meta = d->meta;
	c->modules = d->modules;
	c->module_count = d->module_count;
	c->nodes = d->nodes;
	c->node_count = d->node_count;
	c->sites = d->sites;
	c->site_count = d->site_count;
	c->threads = d->threads;
	c->thread_count = d->thread_count;
	c->processes = d->processes;
	c->process_count = d->process_count;
	c->rss = d->rss;
	c->rss_count = d->rss_count;
	c->anonymous = d->anonymous;
	c->anonymous_count = d->anonymous_count;
	c->ledgers = d->ledgers;
	c->ledger_count = d->ledger_count;
	c->looks = d->looks;
	c->look_count = d->look_count;
	c->notes = d->notes;
	c->note_count = d->note_count;
	c->tally = &r->tally;
	c->behaviour = &r->behaviour;
	c->samples = r->samples;
	c->samples_count = r->samples_count;
	c->peak = &r->peak;
	c->file_bytes = r->file.size;
	for (size_t i = 0; i < r->index.count; i++)
		if (r->index.entries[i].type == TRACE_BLOCK_MAPPINGS)
			c->mappings += r->index.entries[i].count;
		else if (r->index.entries[i].type == TRACE_BLOCK_REMARKS)
			c->remarks += r->index.entries[i].count;
	*out = r;
	return 0;
}

void trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return;
	trace_file_close(&r->file);
	definitions_fini(&r->tables);
	remark_names_fini(&r->names);
	trace_index_fini(&r->index);
	tally_fini(&r->tally);
	behaviour_fini(&r->behaviour);
	for (uint32_t i = 0; i < r->samples_count; i++)
		trace_samples_fini(&r->samples[i]);
	free(r->samples);
	trace_peak_fini(&r->peak);
	events_decoder_fini(&r->decoder);
	free(r);
}

const struct trace_contents *trace_reader_contents(const struct trace_reader *r)
{
	return &r->contents;
}

int trace_reader_events(struct trace_reader *r, uint64_t from_ns, uint64_t to_ns,
			trace_each_fn *each, void *ctx, struct heft_error *err)
{
	for (size_t i = 0; i < r->index.count; i++) {
		const struct trace_index_entry *e = &r->index.entries[i];
		if (e->type != TRACE_BLOCK_EVENTS || e->last_ns < from_ns)
			continue;
		if (e->first_ns > to_ns)
			break;
		int rc = walk_block(r, e, from_ns, to_ns, each, ctx, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int trace_reader_mappings(struct trace_reader *r, trace_mapping_fn *each, void *ctx,
			  struct heft_error *err)
{
	for (size_t i = 0; i < r->index.count; i++) {
		const struct trace_index_entry *e = &r->index.entries[i];
		struct mappings_base base = {0};
		struct trace_mapping m;
		struct trace_block b;
		if (e->type != TRACE_BLOCK_MAPPINGS)
			continue;
		int rc = load(r, e->offset, &b, err);
		if (rc)
			return rc;
		const char *expected = b.header.type == e->type ? NULL : "what the index says";
		while (!expected && cursor_left(&b.payload)) {
			expected = mappings_get(&b.payload, &base, &m, r->tables.site_count,
						r->tables.thread_count);
			if (!expected && (rc = each(ctx, &m)) < 0)
				return rc;
		}
		if (expected)
			return trace_file_expected(&r->file, &b, expected, err);
	}
	return 0;
}

int trace_reader_remarks(struct trace_reader *r, trace_remark_fn *each, void *ctx,
			 struct heft_error *err)
{
	int rc = 0;
	r->names.count = 0; /* the texts stay: each read gives the same */
	for (size_t i = 0; i < r->index.count && rc >= 0; i++) {
		const struct trace_index_entry *e = &r->index.entries[i];
		struct remarks_base base = {0};
		struct trace_remark m;
		struct trace_block b;
		bool end = e->type != TRACE_BLOCK_REMARKS;
		if (end)
			continue;
		if ((rc = load(r, e->offset, &b, err)))
			return rc;
		const char *expected = b.header.type == e->type ? NULL : "what the index says";
		while (!expected && !end && rc >= 0) {
			expected = remarks_get(&b.payload, &base, &r->names, &m,
					       r->tables.site_count, r->tables.thread_count, &end);
			if (!expected && !end)
				rc = each(ctx, &m);
		}
		if (expected)
			return trace_file_expected(&r->file, &b, expected, err);
	}
	return rc < 0 ? rc : 0;
}

/* The checkpoint whose first part is entry i: whether all its parts follow, so that it can be
 * loaded. */
static bool is_whole(const struct trace_index *x, size_t i)
{
	uint64_t left = x->entries[i].count;
	if (i && x->entries[i - 1].type == TRACE_BLOCK_CHECKPOINT &&
	    x->entries[i - 1].count == left + 1)
		return false; /* a later part */
	for (; left; left--)
		if (++i >= x->count || x->entries[i].type != TRACE_BLOCK_CHECKPOINT ||
		    x->entries[i].count != left - 1)
			return false;
	return true;
}

int trace_reader_tally_before(struct trace_reader *r, uint64_t before_ns, struct tally *t,
			      struct heft_error *err)
{
	size_t from = 0;
	for (size_t i = r->index.count; i-- > 0 && !from;) {
		const struct trace_index_entry *e = &r->index.entries[i];
		if (e->type != TRACE_BLOCK_CHECKPOINT || e->last_ns >= before_ns ||
		    !is_whole(&r->index, i))
			continue;
		int rc = load_tally(r, t, e->offset, TRACE_BLOCK_CHECKPOINT, err);
		if (rc)
			return rc;
		from = i + 1;
	}
	if (!from && tally_reserve(t, r->tables.site_count, r->tables.thread_count))
		return no_memory(r, err);
	for (size_t i = from; i < r->index.count && before_ns; i++) {
		const struct trace_index_entry *e = &r->index.entries[i];
		if (e->type != TRACE_BLOCK_EVENTS)
			continue;
		if (e->first_ns >= before_ns)
			break;
		int rc = walk_block(r, e, 0, before_ns - 1, replay, t, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
