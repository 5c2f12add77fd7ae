/* Writes a recording: definitions and events are collected and written as
 * complete blocks (block_writer.c).
 *
 * Definitions are written before the events that use them. After the first failure every
 * call returns its code at once, so that the recorder can go on serving the program
 * without a file.
 *
 * Invariant: between calls `scratch` is empty. */
#include "trace/trace.h"

#include "trace/behaviour_block.h"
#include "trace/block_writer.h"
#include "trace/definitions.h"
#include "trace/events_block.h"
#include "trace/heap_block.h"
#include "trace/ledger_block.h"
#include "trace/mappings_block.h"
#include "trace/remarks_block.h"
#include "trace/tally_block.h"
#include "trace/trace_block.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DEFINITIONS_FLUSH = 1 << 20, /* bytes */
	RSS_FLUSH = 4096,            /* samples */
	EVENTS_FLUSH = 16 << 20,     /* bytes */
	ITEMS_FLUSH = 1 << 18,       /* bytes of calls that map memory, or of remarks */
	NODES_AT_ONCE = 4096,
	CHECKPOINT_SITE_BYTES = 6,  /* as measured */
	CHECKPOINT_SMALL = 1 << 16, /* bytes: always worth it */
	CHECKPOINT_SHARE = 8,       /* else at most an eighth of a recording is checkpoints */
};

struct waiting_items {
	struct byte_buffer bytes;
	uint64_t count, first_ns, last_ns;
};

struct trace_writer {
	struct block_writer file;
	uint64_t checkpoint_offset; /* where the last one ends */
	struct byte_buffer definitions, scratch;
	struct definitions_run nodes, sites; /* of the same block as definitions, behind them */
	struct trace_rss rss[RSS_FLUSH];
	size_t rss_count;
	struct byte_buffer anonymous;
	uint64_t anonymous_count, anonymous_ns; /* that wait for their block; when the last was */
	struct waiting_items mappings, remarks; /* that wait for their block */
	struct mappings_base mappings_base;
	struct remarks_base remarks_base;
	uint32_t node_count, site_count, thread_count;
	uint64_t events;
	uint64_t tick_ns;
	bool ended; /* the end is written, or could not be: end_code */
	int end_code;
	struct events_encoder encoder;
};

/* Writes a block of what is in scratch, which is then empty again. */
static int write_scratch(struct trace_writer *w, unsigned type, uint64_t first_ns, uint64_t last_ns,
			 uint64_t count)
{
	size_t bytes = w->scratch.len;
	w->scratch.len = 0;
	return w->scratch.failed ? block_writer_no_memory(&w->file)
				 : block_write(&w->file, type, w->scratch.data, bytes, first_ns,
					       last_ns, count);
}

/* Whether scratch has more than a block can hold: then it is dropped. */
static bool too_large(struct trace_writer *w)
{
	bool large = !w->scratch.failed && w->scratch.len > TRACE_BLOCK_LIMIT;
	if (large)
		w->scratch.len = 0;
	return large;
}

static void writer_free(struct trace_writer *w)
{
	block_writer_fini(&w->file);
	buffer_fini(&w->definitions);
	buffer_fini(&w->nodes.elements);
	buffer_fini(&w->sites.elements);
	buffer_fini(&w->scratch);
	buffer_fini(&w->anonymous);
	buffer_fini(&w->mappings.bytes);
	buffer_fini(&w->remarks.bytes);
	events_encoder_fini(&w->encoder);
	free(w);
}

int trace_writer_open(struct trace_writer **out, const char *path, bool force,
		      const struct trace_meta *meta, struct heft_error *err)
{
	*out = NULL;
	if (meta->tick_ns == 0 || (meta->tick_ns & (meta->tick_ns - 1)) ||
	    meta->tick_ns > 1ull << 30)
		return heft_fail(err, HEFT_EUSAGE, "a tick of %llu ns is not a power of two",
				 (unsigned long long)meta->tick_ns);
	struct trace_writer *w = calloc(1, sizeof *w);
	if (!w)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	w->file.fd = -1;
	w->tick_ns = meta->tick_ns;
	int rc = events_encoder_init(&w->encoder, (unsigned)__builtin_ctzll(meta->tick_ns));
	if (rc)
		heft_fail(err, HEFT_ENOMEM, "out of memory");
	else
		rc = block_writer_init(&w->file, path, force, err);
	if (!rc) {
		definitions_put_meta(&w->scratch, meta);
		rc = write_scratch(w, TRACE_BLOCK_META, 0, 0, 0);
		if (rc && err)
			*err = w->file.error;
	}
	if (rc && w->file.fd >= 0 && !force)
		unlink(path); /* O_EXCL: it is ours, and there is nothing to read in it */
	if (rc)
		writer_free(w);
	else
		*out = w;
	return rc;
}

static int flush_definitions(struct trace_writer *w)
{
	if (w->file.error.code)
		return w->file.error.code;
	definitions_put_runs(&w->definitions, &w->nodes, &w->sites);
	if (w->definitions.failed)
		return block_writer_no_memory(&w->file);
	if (!w->definitions.len)
		return 0;
	int rc = block_write(&w->file, TRACE_BLOCK_DEFINITIONS, w->definitions.data,
			     w->definitions.len, 0, 0, 0);
	w->definitions.len = 0;
	return rc;
}

/* Called after every definition. Writes a block if there is enough for one. After a failure, what was just defined
 * is dropped, and the code is returned. */
static int defined(struct trace_writer *w)
{
	if (w->file.error.code) {
		w->definitions.len = w->nodes.elements.len = w->sites.elements.len = 0;
		return w->file.error.code;
	}
	size_t waiting = w->definitions.len + w->nodes.elements.len + w->sites.elements.len;
	bool failed = w->definitions.failed || w->nodes.elements.failed || w->sites.elements.failed;
	return failed || waiting >= DEFINITIONS_FLUSH ? flush_definitions(w) : 0;
}

int trace_writer_module(struct trace_writer *w, const struct trace_module *m)
{
	definitions_put_module(&w->definitions, m);
	return defined(w);
}

int trace_writer_nodes(struct trace_writer *w, const struct trace_node *nodes, size_t count)
{
	while (count) {
		size_t n = count < NODES_AT_ONCE ? count : NODES_AT_ONCE;
		definitions_add_nodes(&w->nodes, w->node_count, nodes, n);
		w->node_count += (uint32_t)n;
		nodes += n;
		count -= n;
		if (defined(w))
			break;
	}
	return w->file.error.code;
}

int trace_writer_sites(struct trace_writer *w, const struct trace_site *sites, size_t count)
{
	if (w->file.error.code)
		return w->file.error.code;
	if (events_encoder_reserve(&w->encoder, w->site_count + (uint32_t)count, w->thread_count))
		return block_writer_no_memory(&w->file);
	while (count) {
		size_t n = count < NODES_AT_ONCE ? count : NODES_AT_ONCE;
		definitions_add_sites(&w->sites, sites, n);
		w->site_count += (uint32_t)n;
		sites += n;
		count -= n;
		if (defined(w))
			break;
	}
	return w->file.error.code;
}

int trace_writer_process(struct trace_writer *w, const struct trace_process *p)
{
	definitions_put_process(&w->definitions, p);
	return defined(w);
}

int trace_writer_process_end(struct trace_writer *w, uint32_t process,
			     const struct trace_process *p)
{
	definitions_put_process_end(&w->definitions, process, p);
	return defined(w);
}

int trace_writer_thread(struct trace_writer *w, const struct trace_thread *t)
{
	if (w->file.error.code)
		return w->file.error.code;
	if (events_encoder_reserve(&w->encoder, w->site_count, w->thread_count + 1))
		return block_writer_no_memory(&w->file);
	w->thread_count++;
	definitions_put_thread(&w->definitions, t);
	return defined(w);
}

int trace_writer_thread_name(struct trace_writer *w, uint32_t thread, const char *name)
{
	definitions_put_thread_name(&w->definitions, thread, name);
	return defined(w);
}

int trace_writer_note(struct trace_writer *w, const struct trace_note *note)
{
	definitions_put_note(&w->definitions, note);
	return defined(w);
}

static int flush_rss(struct trace_writer *w)
{
	if (!w->rss_count)
		return 0;
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	uint64_t first = UINT64_MAX, last = 0;
	for (size_t i = 0; i < w->rss_count; i++) {
		uint64_t t = w->rss[i].time_ns;
		first = t < first ? t : first;
		last = t > last ? t : last;
	}
	definitions_put_rss(&w->scratch, w->rss, w->rss_count);
	rc = write_scratch(w, TRACE_BLOCK_RSS, first, last, w->rss_count);
	w->rss_count = 0;
	return rc;
}

int trace_writer_rss(struct trace_writer *w, const struct trace_rss *samples, size_t count)
{
	for (size_t i = 0; i < count && !w->file.error.code; i++) {
		w->rss[w->rss_count++] = samples[i];
		if (w->rss_count == RSS_FLUSH)
			flush_rss(w);
	}
	return w->file.error.code;
}

int trace_writer_ledger(struct trace_writer *w, const struct ledger *l, uint32_t process)
{
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	ledger_block_put(&w->scratch, l, process);
	return write_scratch(w, TRACE_BLOCK_LEDGER, l->time_ns, l->time_ns, 1);
}

int trace_writer_look(struct trace_writer *w, const struct heap_look *l, uint32_t process)
{
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	heap_block_put(&w->scratch, l, process);
	return write_scratch(w, TRACE_BLOCK_HEAP, l->time_ns, l->time_ns, 1);
}

static int flush_anonymous(struct trace_writer *w)
{
	uint64_t count = w->anonymous_count, last = w->anonymous_ns;
	if (!count)
		return 0;
	w->anonymous_count = 0;
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	if (w->anonymous.failed)
		return block_writer_no_memory(&w->file);
	rc = block_write(&w->file, TRACE_BLOCK_ANONYMOUS, w->anonymous.data, w->anonymous.len, last,
			 last, count);
	w->anonymous.len = 0;
	return rc;
}

int trace_writer_anonymous(struct trace_writer *w, const struct trace_anonymous *a)
{
	if (w->file.error.code)
		return w->file.error.code;
	definitions_put_anonymous(&w->anonymous, a);
	w->anonymous_count++;
	w->anonymous_ns = a->time_ns;
	return w->anonymous_count == RSS_FLUSH ? flush_anonymous(w) : 0;
}

static int flush_items(struct trace_writer *w, struct waiting_items *i, unsigned type)
{
	if (!i->count)
		return 0;
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	if (i->bytes.failed)
		return block_writer_no_memory(&w->file);
	rc = block_write(&w->file, type, i->bytes.data, i->bytes.len, i->first_ns, i->last_ns,
			 i->count);
	i->bytes.len = i->count = 0;
	return rc;
}

/* One more was added, of that time. Returns whether there are enough for a block. */
static bool items_enough(struct waiting_items *i, uint64_t time_ns)
{
	if (!i->count || time_ns < i->first_ns)
		i->first_ns = time_ns;
	if (!i->count || time_ns > i->last_ns)
		i->last_ns = time_ns;
	i->count++;
	return i->bytes.failed || i->bytes.len >= ITEMS_FLUSH;
}

static int flush_mappings(struct trace_writer *w)
{
	w->mappings_base = (struct mappings_base){0};
	return flush_items(w, &w->mappings, TRACE_BLOCK_MAPPINGS);
}

int trace_writer_mapping(struct trace_writer *w, const struct trace_mapping *m)
{
	if (w->file.error.code)
		return w->file.error.code;
	mappings_put(&w->mappings.bytes, &w->mappings_base, m);
	return items_enough(&w->mappings, m->time_ns) ? flush_mappings(w) : 0;
}

static int flush_remarks(struct trace_writer *w)
{
	w->remarks_base = (struct remarks_base){0};
	return flush_items(w, &w->remarks, TRACE_BLOCK_REMARKS);
}

void trace_writer_remark_name(struct trace_writer *w, const char *text)
{
	remarks_put_name(&w->remarks.bytes, text);
}

int trace_writer_remark(struct trace_writer *w, const struct trace_remark *m)
{
	if (w->file.error.code)
		return w->file.error.code;
	remarks_put(&w->remarks.bytes, &w->remarks_base, m);
	return items_enough(&w->remarks, m->time_ns) ? flush_remarks(w) : 0;
}

int trace_writer_samples(struct trace_writer *w, const struct trace_samples *samples)
{
	if (!w->file.error.code)
		flush_definitions(w);
	if (w->file.error.code)
		return w->file.error.code;
	trace_samples_put(&w->scratch, samples);
	return write_scratch(w, TRACE_BLOCK_SAMPLES, samples->time_ns, samples->time_ns,
			     samples->live_count);
}

int trace_writer_peak(struct trace_writer *w, const struct trace_peak *peak)
{
	if (!w->file.error.code)
		flush_definitions(w);
	if (w->file.error.code)
		return w->file.error.code;
	trace_peak_put(&w->scratch, peak);
	/* Millions of samples: readers take what each process has (trace_samples.c). */
	if (too_large(w))
		return 0;
	return write_scratch(w, TRACE_BLOCK_PEAK, peak->time_ns, peak->time_ns, 0);
}

static int flush_events(struct trace_writer *w)
{
	uint32_t count = w->encoder.count;
	if (!count)
		return 0;
	int rc = flush_definitions(w);
	if (rc)
		return rc;
	struct events_payload payload;
	events_encoder_end(&w->encoder, &payload);
	rc = block_write_pieces(&w->file, TRACE_BLOCK_EVENTS, payload.pieces, COLUMN_COUNT + 1,
				payload.first_tick * w->tick_ns, payload.last_tick * w->tick_ns,
				count);
	events_encoder_begin(&w->encoder);
	return rc;
}

/* Called after the encoder took events. Writes the block if it is full. */
static void events_taken(struct trace_writer *w, size_t count)
{
	w->events += count;
	if (w->encoder.count == EVENTS_PER_BLOCK ||
	    events_encoder_bytes(&w->encoder) >= EVENTS_FLUSH)
		flush_events(w);
}

int trace_writer_events(struct trace_writer *w, const struct trace_event *events, size_t count)
{
	while (count && !w->file.error.code) {
		size_t taken = events_encode(&w->encoder, events, count);
		events += taken;
		count -= taken;
		events_taken(w, taken);
	}
	return w->file.error.code;
}

int trace_writer_batch(struct trace_writer *w, const struct trace_batch *batch)
{
	for (uint32_t done = 0; done < batch->count && !w->file.error.code;) {
		uint32_t taken = events_encode_batch(&w->encoder, batch, done);
		done += taken;
		events_taken(w, taken);
	}
	return w->file.error.code;
}

int trace_writer_flush(struct trace_writer *w)
{
	if (!w->file.error.code)
		flush_events(w);
	if (!w->file.error.code)
		flush_definitions(w);
	if (!w->file.error.code)
		flush_rss(w);
	if (!w->file.error.code)
		flush_anonymous(w);
	if (!w->file.error.code)
		flush_mappings(w);
	if (!w->file.error.code)
		flush_remarks(w);
	return w->file.error.code;
}

static int write_behaviour(struct trace_writer *w, uint64_t time_ns, const struct tally *tally)
{
	if (!tally->behaviour)
		return 0;
	behaviour_put(&w->scratch, tally->behaviour, tally);
	/* Far above what the bounds of behaviour.h allow; a reader could not take more. */
	if (too_large(w))
		return 0;
	return write_scratch(w, TRACE_BLOCK_BEHAVIOUR, time_ns, time_ns, 0);
}

static int write_tally(struct trace_writer *w, unsigned type, uint64_t time_ns, struct tally *tally)
{
	tally_update_peaks(tally);
	/* A recorder may have reserved more than it has defined: the rest is all zero. */
	struct tally view = *tally;
	if (view.site_count > w->site_count)
		view.site_count = w->site_count;
	if (view.thread_count > w->thread_count)
		view.thread_count = w->thread_count;
	uint32_t parts = tally_block_parts(&view);
	int rc = 0;
	for (uint32_t part = 0; part < parts && !rc; part++) {
		tally_block_put(&w->scratch, &view, part);
		rc = write_scratch(w, type, time_ns, time_ns, parts - part - 1);
	}
	return rc;
}

/* With 100,000 sites a tally is as large as a million events. It saves the reader of a cut file the replay of
 * what was written since the last one, so it is not worth it before that is much more. */
static bool checkpoint_pays(const struct trace_writer *w, const struct tally *tally)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < tally->site_count; i++)
		bytes += tally->sites[i].allocations ? CHECKPOINT_SITE_BYTES : 0;
	return bytes < CHECKPOINT_SMALL ||
	       w->file.offset - w->checkpoint_offset >= bytes * CHECKPOINT_SHARE;
}

int trace_writer_checkpoint(struct trace_writer *w, uint64_t time_ns, struct tally *tally)
{
	int rc = trace_writer_flush(w);
	if (rc || !checkpoint_pays(w, tally))
		return rc;
	rc = write_behaviour(w, time_ns, tally);
	if (!rc)
		rc = write_tally(w, TRACE_BLOCK_CHECKPOINT, time_ns, tally);
	w->checkpoint_offset = w->file.offset;
	return rc;
}

static int write_end(struct trace_writer *w, uint64_t duration_ns, struct tally *tally)
{
	struct trace_end_payload end = {.duration_ns = duration_ns, .events = w->events};
	int rc = trace_writer_flush(w);
	if (!rc)
		rc = write_behaviour(w, duration_ns, tally);
	if (rc)
		return rc;
	end.tally_offset = w->file.offset;
	rc = write_tally(w, TRACE_BLOCK_TALLY, duration_ns, tally);
	if (rc)
		return rc;
	end.blocks = w->file.index.count;
	trace_index_put(&w->scratch, &w->file.index);
	/* A recording of months may have more blocks than an index can hold: readers then scan. */
	if (!too_large(w)) {
		end.index_offset = w->file.offset;
		rc = write_scratch(w, TRACE_BLOCK_INDEX, 0, 0, end.blocks);
		if (rc)
			return rc;
	}
	return block_write(&w->file, TRACE_BLOCK_END, &end, sizeof end, duration_ns, duration_ns,
			   0);
}

int trace_writer_end(struct trace_writer *w, uint64_t duration_ns, struct tally *tally)
{
	if (w->ended)
		return w->end_code;
	w->end_code = write_end(w, duration_ns, tally);
	w->ended = true;
	if (!w->file.error.code) /* latched as a failure is, so that nothing follows the end */
		heft_fail(&w->file.error, HEFT_EREFUSED, "%s has ended", w->file.path);
	return w->end_code;
}

uint64_t trace_writer_end_bytes(struct trace_writer *w, struct tally *tally)
{
	uint64_t bytes = 0;
	if (w->file.error.code)
		return 0;
	tally_update_peaks(tally);
	if (tally->behaviour) {
		behaviour_put(&w->scratch, tally->behaviour, tally);
		bytes += block_writer_length(&w->file, &w->scratch);
		w->scratch.len = 0;
	}
	uint32_t parts = tally_block_parts(tally);
	for (uint32_t part = 0; part < parts; part++) {
		tally_block_put(&w->scratch, tally, part);
		bytes += block_writer_length(&w->file, &w->scratch);
		w->scratch.len = 0;
	}
	return bytes;
}

uint64_t trace_writer_waiting_bytes(const struct trace_writer *w)
{
	return w->definitions.len + w->nodes.elements.len + w->sites.elements.len +
	       (w->encoder.count ? events_encoder_bytes(&w->encoder) : 0) +
	       w->rss_count * sizeof *w->rss + w->anonymous.len + w->mappings.bytes.len +
	       w->remarks.bytes.len;
}

int trace_writer_close(struct trace_writer *w, uint64_t duration_ns, struct tally *tally,
		       struct heft_error *err)
{
	int rc = block_writer_close(&w->file, trace_writer_end(w, duration_ns, tally));
	if (rc && err)
		*err = w->file.error;
	writer_free(w);
	return rc;
}

void trace_writer_abandon(struct trace_writer *w)
{
	if (w)
		writer_free(w);
}

void trace_writer_write_apart(struct trace_writer *w)
{
	block_output_write_apart(w->file.output);
}

uint64_t trace_writer_behind_bytes(const struct trace_writer *w)
{
	return block_output_behind(w->file.output);
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->file.offset;
}
