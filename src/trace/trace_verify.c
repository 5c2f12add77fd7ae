/* Checks a recording from its first to its last byte.
 *
 * Stricter than the reader, which takes what it can get: definitions must stand
 * before what uses them, every tally (checkpoints too) must equal the replay of
 * the events before it, block headers must say what their blocks hold, the index
 * must list exactly the blocks that are there. Only a file that simply ends too
 * early is not an error but reported as cut. */
#include "trace/trace.h"

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

struct verifier {
	struct trace_file file;
	struct definitions tables;
	struct remark_names names;
	struct trace_index seen;
	struct tally replayed, stored;
	struct behaviour behaviour; /* the last ones, only read */
	struct trace_samples samples;
	struct trace_peak peak;
	uint32_t parts_left;
	unsigned tally_type;
	uint64_t tally_offset; /* of the last complete TALLY */
	uint64_t index_offset;
	uint64_t last_ns;
	struct events_decoder decoder;
	struct trace_event batch[EVENTS_BATCH];
};

static const char *check_events(struct verifier *v, struct trace_block *b)
{
	uint32_t sites = v->tables.site_count;
	uint32_t threads = v->tables.thread_count;
	const struct trace_block_header *h = &b->header;
	uint64_t count = 0, first_ns = 0;
	size_t n;
	v->decoder.tick_shift = (unsigned)__builtin_ctzll(v->tables.meta.tick_ns);
	const char *expected = events_decode_begin(&v->decoder, b->payload.at,
						   cursor_left(&b->payload), sites, threads);
	if (expected)
		return expected;
	if (tally_reserve(&v->replayed, sites, threads))
		return "enough memory for its sites";
	if (h->first_ns < v->last_ns)
		return "times that do not go back from one block to the next";
	for (;;) {
		expected = events_decode(&v->decoder, v->batch, &n);
		if (expected)
			return expected;
		if (!n)
			break;
		if (!count)
			first_ns = v->batch[0].time_ns;
		count += n;
		v->last_ns = v->batch[n - 1].time_ns;
		tally_apply(&v->replayed, v->batch, n);
	}
	if (count != h->count || first_ns != h->first_ns || v->last_ns != h->last_ns)
		return "the number and times of events that its header says";
	return NULL;
}

static const char *check_tally(struct verifier *v, struct trace_block *b)
{
	uint32_t before = v->parts_left, left;
	if (before == 0) {
		tally_fini(&v->stored);
		tally_init(&v->stored);
		v->tally_type = b->header.type;
		if (b->header.type == TRACE_BLOCK_TALLY)
			v->tally_offset = b->offset;
	}
	const char *expected = tally_block_get(&b->payload, &v->stored, v->tables.site_count,
					       v->tables.thread_count, &left);
	if (expected)
		return expected;
	if (left != b->header.count || (before && left != before - 1) ||
	    v->tally_type != b->header.type)
		return "the next part of a tally";
	v->parts_left = left;
	if (left)
		return NULL;
	tally_update_peaks(&v->replayed);
	return tally_block_difference(&v->stored, &v->replayed, v->tables.meta.tick_ns);
}

static const char *check_mappings(const struct verifier *v, struct trace_block *b)
{
	const struct trace_block_header *h = &b->header;
	struct mappings_base base = {0};
	struct trace_mapping m;
	uint64_t count = 0, first_ns = UINT64_MAX, last_ns = 0;
	while (cursor_left(&b->payload)) {
		const char *expected = mappings_get(&b->payload, &base, &m, v->tables.site_count,
						    v->tables.thread_count);
		if (expected)
			return expected;
		first_ns = m.time_ns < first_ns ? m.time_ns : first_ns;
		last_ns = m.time_ns > last_ns ? m.time_ns : last_ns;
		count++;
	}
	return count && count == h->count && first_ns == h->first_ns && last_ns == h->last_ns
		       ? NULL
		       : "the number and times of calls that its header says";
}

static const char *check_remarks(struct verifier *v, struct trace_block *b)
{
	const struct trace_block_header *h = &b->header;
	struct remarks_base base = {0};
	struct trace_remark m;
	uint64_t count = 0, first_ns = UINT64_MAX, last_ns = 0;
	for (bool end = false;;) {
		const char *expected = remarks_get(&b->payload, &base, &v->names, &m,
						   v->tables.site_count, v->tables.thread_count,
						   &end);
		if (expected)
			return expected;
		if (end)
			break;
		first_ns = m.time_ns < first_ns ? m.time_ns : first_ns;
		last_ns = m.time_ns > last_ns ? m.time_ns : last_ns;
		count++;
	}
	return count && count == h->count && first_ns == h->first_ns && last_ns == h->last_ns
		       ? NULL
		       : "the number and times of remarks that its header says";
}

static const char *check_index(struct verifier *v, struct trace_block *b)
{
	struct trace_index stored = {0};
	const char *expected = trace_index_get(&b->payload, &stored, b->header.count, b->offset);
	if (!expected && stored.count != v->seen.count)
		expected = "an entry for every block";
	for (size_t i = 0; i < stored.count && !expected; i++) {
		const struct trace_index_entry *x = &stored.entries[i], *y = &v->seen.entries[i];
		if (x->offset != y->offset || x->type != y->type || x->count != y->count ||
		    x->first_ns != y->first_ns || x->last_ns != y->last_ns)
			expected = "entries that agree with the blocks";
	}
	trace_index_fini(&stored);
	v->index_offset = b->offset;
	return expected;
}

static const char *check_end(struct verifier *v, struct trace_block *b)
{
	struct trace_end_payload end;
	if (b->header.raw_bytes != sizeof end)
		return "40 bytes";
	memcpy(&end, b->payload.at, sizeof end);
	if (end.index_offset != v->index_offset || end.tally_offset != v->tally_offset ||
	    !end.tally_offset)
		return "the offsets of the index and of the final tally";
	if (end.events != v->replayed.events)
		return "the number of events";
	/* The index and the end itself are not counted. */
	if (end.blocks != v->seen.count - (v->index_offset != 0))
		return "the number of blocks";
	if (b->next_offset != v->file.size)
		return "nothing after it";
	return NULL;
}

static const char *check_block(struct verifier *v, struct trace_block *b, uint64_t blocks)
{
	unsigned type = b->header.type;
	const struct definitions *t = &v->tables;
	if ((type == TRACE_BLOCK_META) != (blocks == 0))
		return "the meta block first, and once";
	if (v->parts_left && type != v->tally_type)
		return "the next part of a tally";
	switch (type) {
	case TRACE_BLOCK_EVENTS: return check_events(v, b);
	case TRACE_BLOCK_MAPPINGS: return check_mappings(v, b);
	case TRACE_BLOCK_REMARKS: return check_remarks(v, b);
	case TRACE_BLOCK_CHECKPOINT:
	case TRACE_BLOCK_TALLY: return check_tally(v, b);
	case TRACE_BLOCK_BEHAVIOUR:
		behaviour_fini(&v->behaviour);
		behaviour_init(&v->behaviour);
		return behaviour_get(&b->payload, &v->behaviour, t->site_count, t->thread_count);
	case TRACE_BLOCK_SAMPLES:
		trace_samples_fini(&v->samples);
		return trace_samples_get(&b->payload, &v->samples, t->site_count, t->process_count);
	case TRACE_BLOCK_PEAK:
		trace_peak_fini(&v->peak);
		return trace_peak_get(&b->payload, &v->peak, t->site_count, t->process_count);
	case TRACE_BLOCK_INDEX: return check_index(v, b);
	case TRACE_BLOCK_END: return check_end(v, b);
	default: return definitions_get_block(&v->tables, type, b->header.count, &b->payload);
	}
}

static int verify(struct verifier *v, struct trace_verify *result, struct heft_error *err)
{
	uint64_t offset = TRACE_FILE_HEADER_BYTES;
	for (;;) {
		struct trace_block b;
		int rc = trace_file_load(&v->file, offset, &b, err);
		if (rc < 0)
			return rc;
		if (rc == TRACE_LOAD_CUT)
			break;
		const char *expected = check_block(v, &b, result->blocks);
		if (expected)
			return trace_file_expected(&v->file, &b, expected, err);
		if (!trace_index_add(&v->seen, offset, &b.header))
			return heft_fail(err, HEFT_ENOMEM, "%s: out of memory", v->file.path);
		result->blocks++;
		offset = b.next_offset;
		result->events = v->replayed.events;
		result->bytes = offset;
		if (b.header.type == TRACE_BLOCK_END) {
			result->complete = true;
			break;
		}
	}
	result->cut_offset = offset;
	if (!result->blocks)
		return heft_fail_format(err, v->file.path, offset,
					"expected a complete meta block: nothing was recorded");
	return 0;
}

int trace_verify(const char *path, struct trace_verify *result, struct heft_error *err)
{
	memset(result, 0, sizeof *result);
	struct verifier *v = calloc(1, sizeof *v);
	if (!v)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	tally_init(&v->replayed);
	tally_init(&v->stored);
	events_decoder_init(&v->decoder, 0);
	int rc = trace_file_open(&v->file, path, err);
	if (!rc) {
		rc = verify(v, result, err);
		trace_file_close(&v->file);
	}
	definitions_fini(&v->tables);
	remark_names_fini(&v->names);
	trace_index_fini(&v->seen);
	tally_fini(&v->replayed);
	tally_fini(&v->stored);
	behaviour_fini(&v->behaviour);
	trace_samples_fini(&v->samples);
	trace_peak_fini(&v->peak);
	events_decoder_fini(&v->decoder);
	free(v);
	return rc;
}
