/* Writing a recording: definitions and events are collected and leave as
 * complete blocks, each with one write(2).
 *
 * The file is readable at any moment: a block is either wholly there or, after a
 * kill or a full disk, the cut last one, which readers ignore. Definitions leave
 * before the events that use them. The first failure is latched: what could not
 * be written is cut off again, and every later call returns the same code at
 * once, so that the recorder can go on serving the program without a file.
 *
 * Invariants: `offset` is where the last complete block ends and where the file
 * position stands; `index` has an entry for every block before it. */
#include "trace/trace.h"

#include "trace/behaviour_block.h"
#include "trace/definitions.h"
#include "trace/events_block.h"
#include "trace/tally_block.h"
#include "trace/trace_block.h"
#include "trace/trace_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
	DEFINITIONS_FLUSH = 1 << 20, /* bytes */
	RSS_FLUSH = 4096,	     /* samples */
	EVENTS_FLUSH = 16 << 20,     /* bytes */
	PIECE_APART = 4096,	     /* bytes: a piece with statistics of its own for zstd */
	NODES_AT_ONCE = 4096,
	/* Of events there are too many for more; tables are few, and repeat themselves from afar. */
	EVENTS_LEVEL = 1,
	TABLES_LEVEL = 3,
	CHECKPOINT_SITE_BYTES = 6,  /* as measured */
	CHECKPOINT_SMALL = 1 << 16, /* bytes: always worth it */
	CHECKPOINT_SHARE = 8,	    /* else at most an eighth of a recording is checkpoints */
};

struct trace_writer {
	int fd;
	bool seekable;
	char *path;
	uint64_t offset;
	uint64_t checkpoint_offset; /* where the last one ends */
	struct heft_error error; /* the first one; code 0: none */
	ZSTD_CCtx *zstd;
	uint8_t *out; /* header and payload of a block as they are written */
	size_t out_capacity;
	struct byte_buffer definitions, scratch;
	struct definitions_run nodes, sites; /* of the same block as definitions, behind them */
	struct trace_rss rss[RSS_FLUSH];
	size_t rss_count;
	struct byte_buffer anonymous;
	uint64_t anonymous_count, anonymous_ns; /* that wait for their block; when the last was */
	struct trace_index index;
	uint32_t module_count, node_count, site_count, thread_count, process_count;
	uint64_t events;
	uint64_t tick_ns;
	bool ended; /* the end is written, or could not be: end_code */
	int end_code;
	struct events_encoder encoder;
};

static int fail_memory(struct trace_writer *w)
{
	if (!w->error.code)
		heft_fail(&w->error, HEFT_ENOMEM, "cannot write %s: out of memory", w->path);
	return w->error.code;
}

static int fail_write(struct trace_writer *w)
{
	heft_fail_errno(&w->error, "cannot write %s", w->path);
	size_t used = strlen(w->error.message);
	/* What was written of this block is worth nothing, and takes room on a full disk. */
	bool cut = w->seekable && ftruncate(w->fd, (off_t)w->offset) == 0;
	snprintf(w->error.message + used, sizeof w->error.message - used,
		 "\nThe recording ends there%s; what was written before can be read.",
		 cut ? "" : " with an incomplete block");
	return w->error.code;
}

static int write_all(struct trace_writer *w, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(w->fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done == 0)
			errno = ENOSPC;
		if (done <= 0)
			return fail_write(w);
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

/* Room in `out` for a block of raw bytes. */
static int reserve_out(struct trace_writer *w, size_t raw_bytes)
{
	size_t need = TRACE_BLOCK_HEADER_BYTES + ZSTD_compressBound(raw_bytes);
	if (need <= w->out_capacity)
		return 0;
	free(w->out);
	w->out_capacity = 0;
	w->out = malloc(need);
	if (!w->out)
		return fail_memory(w);
	w->out_capacity = need;
	return 0;
}

/* One frame of all pieces; its length, or 0 if it is no shorter than they are. Long pieces end with the
 * end of a zstd block, so that neighbours with other statistics do not share their code tables. */
static size_t compress(struct trace_writer *w, uint8_t *to, const struct byte_piece *pieces,
		       size_t count, size_t raw_bytes)
{
	ZSTD_outBuffer out = {to, raw_bytes, 0};
	ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(w->zstd, raw_bytes);
	for (size_t i = 0; i < count; i++) {
		ZSTD_inBuffer in = {pieces[i].data, pieces[i].len, 0};
		ZSTD_EndDirective end = i + 1 == count		   ? ZSTD_e_end
					: in.size >= PIECE_APART ? ZSTD_e_flush
								 : ZSTD_e_continue;
		size_t left = ZSTD_compressStream2(w->zstd, &out, &in, end);
		if (ZSTD_isError(left) || in.pos < in.size || (end != ZSTD_e_continue && left))
			return 0;
	}
	return out.pos < raw_bytes ? out.pos : 0;
}

static void join(uint8_t *to, const struct byte_piece *pieces, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].len)
			memcpy(to, pieces[i].data, pieces[i].len);
		to += pieces[i].len;
	}
}

static int write_pieces(struct trace_writer *w, unsigned type, const struct byte_piece *pieces,
			size_t piece_count, uint64_t first_ns, uint64_t last_ns, uint64_t count)
{
	size_t raw_bytes = 0;
	for (size_t i = 0; i < piece_count; i++)
		raw_bytes += pieces[i].len;
	if (raw_bytes > trace_block_limit(type))
		return heft_fail(&w->error, HEFT_EREFUSED,
				 "cannot write %s: a block of %s would have %zu bytes", w->path,
				 trace_block_name(type), raw_bytes);
	int rc = reserve_out(w, raw_bytes);
	if (rc)
		return rc;
	uint8_t *payload = w->out + TRACE_BLOCK_HEADER_BYTES;
	struct trace_block_header h = {
		.magic = TRACE_BLOCK_MAGIC,
		.type = (uint8_t)type,
		.raw_bytes = (uint32_t)raw_bytes,
		.first_ns = first_ns,
		.last_ns = last_ns,
		.count = count,
	};
	size_t stored = 0;
	if (type != TRACE_BLOCK_END) {
		/* The end block is found by its fixed length. */
		ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel,
				       type == TRACE_BLOCK_EVENTS ? EVENTS_LEVEL : TABLES_LEVEL);
		stored = compress(w, payload, pieces, piece_count, raw_bytes);
	}
	if (stored) {
		h.flags = TRACE_BLOCK_ZSTD;
	} else {
		join(payload, pieces, piece_count);
		stored = raw_bytes;
	}
	h.stored_bytes = (uint32_t)stored;
	h.checksum = trace_block_checksum(&h, w->offset, payload);
	memcpy(w->out, &h, sizeof h);
	if (!trace_index_add(&w->index, &(struct trace_index_entry){.offset = w->offset,
								    .first_ns = first_ns,
								    .last_ns = last_ns,
								    .count = count,
								    .type = type}))
		return fail_memory(w);
	rc = write_all(w, w->out, sizeof h + stored);
	if (!rc)
		w->offset += sizeof h + stored;
	return rc;
}

static int write_block(struct trace_writer *w, unsigned type, const void *raw, size_t raw_bytes,
		       uint64_t first_ns, uint64_t last_ns, uint64_t count)
{
	struct byte_piece piece = {raw, raw_bytes};
	return write_pieces(w, type, &piece, 1, first_ns, last_ns, count);
}

static int open_file(struct trace_writer *w, const char *path, bool force, struct heft_error *err)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (force ? O_TRUNC : O_EXCL);
	do
		w->fd = open(path, flags, 0644);
	while (w->fd < 0 && errno == EINTR);
	if (w->fd >= 0) {
		struct stat st;
		w->seekable = fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode);
		return 0;
	}
	struct stat st;
	int saved = errno;
	if ((saved == EEXIST || saved == EISDIR) && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		heft_fail(err, HEFT_EREFUSED, "%s is a directory\nGive -o the name of a file in it.",
			  path);
	} else if (saved == EEXIST) {
		heft_fail(err, HEFT_EREFUSED,
			  "%s exists\nUse --force to overwrite it, or -o to write another file.",
			  path);
	} else {
		errno = saved;
		heft_fail_errno(err, "cannot write the recording %s", path);
		if (err && (saved == EACCES || saved == EPERM || saved == EROFS || saved == ENOENT)) {
			size_t used = strlen(err->message);
			snprintf(err->message + used, sizeof err->message - used,
				 "\nUse -o to write it somewhere else.");
		}
		return HEFT_EIO;
	}
	return HEFT_EREFUSED;
}

static void writer_free(struct trace_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	ZSTD_freeCCtx(w->zstd);
	free(w->path);
	free(w->out);
	buffer_fini(&w->definitions);
	buffer_fini(&w->nodes.elements);
	buffer_fini(&w->sites.elements);
	buffer_fini(&w->scratch);
	buffer_fini(&w->anonymous);
	trace_index_fini(&w->index);
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
	w->fd = -1;
	w->path = strdup(path);
	w->zstd = ZSTD_createCCtx();
	w->tick_ns = meta->tick_ns;
	int rc = events_encoder_init(&w->encoder, (unsigned)__builtin_ctzll(meta->tick_ns));
	if (rc || !w->path || !w->zstd) {
		rc = heft_fail(err, HEFT_ENOMEM, "out of memory");
		goto out;
	}
	rc = open_file(w, path, force, err);
	if (rc)
		goto out;

	struct trace_file_header h;
	trace_file_header_fill(&h);
	rc = write_all(w, (const uint8_t *)&h, sizeof h);
	if (!rc) {
		w->offset = sizeof h;
		definitions_put_meta(&w->scratch, meta);
		rc = w->scratch.failed ? fail_memory(w)
				       : write_block(w, TRACE_BLOCK_META, w->scratch.data,
						     w->scratch.len, 0, 0, 0);
	}
	if (rc && err)
		*err = w->error;
	if (rc && !force)
		unlink(path); /* O_EXCL: it is ours, and there is nothing to read in it */
out:
	if (rc)
		writer_free(w);
	else
		*out = w;
	return rc;
}

static int flush_definitions(struct trace_writer *w)
{
	if (w->error.code)
		return w->error.code;
	definitions_put_runs(&w->definitions, &w->nodes, &w->sites);
	if (w->definitions.failed)
		return fail_memory(w);
	if (!w->definitions.len)
		return 0;
	int rc = write_block(w, TRACE_BLOCK_DEFINITIONS, w->definitions.data, w->definitions.len, 0,
			     0, 0);
	w->definitions.len = 0;
	return rc;
}

/* After every definition: the latched error, or a block that is large enough. */
static int defined(struct trace_writer *w)
{
	if (w->error.code)
		return w->error.code;
	size_t waiting = w->definitions.len + w->nodes.elements.len + w->sites.elements.len;
	bool failed = w->definitions.failed || w->nodes.elements.failed || w->sites.elements.failed;
	return failed || waiting >= DEFINITIONS_FLUSH ? flush_definitions(w) : 0;
}

int trace_writer_module(struct trace_writer *w, const struct trace_module *m)
{
	if (w->error.code)
		return w->error.code;
	w->module_count++;
	definitions_put_module(&w->definitions, m);
	return defined(w);
}

int trace_writer_nodes(struct trace_writer *w, const struct trace_node *nodes, size_t count)
{
	if (w->error.code)
		return w->error.code;
	while (count) {
		size_t n = count < NODES_AT_ONCE ? count : NODES_AT_ONCE;
		definitions_add_nodes(&w->nodes, w->node_count, nodes, n);
		w->node_count += (uint32_t)n;
		nodes += n;
		count -= n;
		int rc = defined(w);
		if (rc)
			return rc;
	}
	return 0;
}

int trace_writer_sites(struct trace_writer *w, const struct trace_site *sites, size_t count)
{
	if (w->error.code)
		return w->error.code;
	if (events_encoder_reserve(&w->encoder, w->site_count + (uint32_t)count, w->thread_count))
		return fail_memory(w);
	while (count) {
		size_t n = count < NODES_AT_ONCE ? count : NODES_AT_ONCE;
		definitions_add_sites(&w->sites, sites, n);
		w->site_count += (uint32_t)n;
		sites += n;
		count -= n;
		int rc = defined(w);
		if (rc)
			return rc;
	}
	return 0;
}

int trace_writer_process(struct trace_writer *w, const struct trace_process *p)
{
	if (w->error.code)
		return w->error.code;
	w->process_count++;
	definitions_put_process(&w->definitions, p);
	return defined(w);
}

int trace_writer_process_end(struct trace_writer *w, uint32_t process, const struct trace_process *p)
{
	if (w->error.code)
		return w->error.code;
	definitions_put_process_end(&w->definitions, process, p);
	return defined(w);
}

int trace_writer_thread(struct trace_writer *w, const struct trace_thread *t)
{
	if (w->error.code)
		return w->error.code;
	if (events_encoder_reserve(&w->encoder, w->site_count, w->thread_count + 1))
		return fail_memory(w);
	w->thread_count++;
	definitions_put_thread(&w->definitions, t);
	return defined(w);
}

int trace_writer_thread_name(struct trace_writer *w, uint32_t thread, const char *name)
{
	if (w->error.code)
		return w->error.code;
	definitions_put_thread_name(&w->definitions, thread, name);
	return defined(w);
}

int trace_writer_note(struct trace_writer *w, const struct trace_note *note)
{
	if (w->error.code)
		return w->error.code;
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
	w->scratch.len = 0;
	definitions_put_rss(&w->scratch, w->rss, w->rss_count);
	if (w->scratch.failed)
		return fail_memory(w);
	rc = write_block(w, TRACE_BLOCK_RSS, w->scratch.data, w->scratch.len, first, last,
			 w->rss_count);
	w->rss_count = 0;
	return rc;
}

int trace_writer_rss(struct trace_writer *w, const struct trace_rss *samples, size_t count)
{
	for (size_t i = 0; i < count && !w->error.code; i++) {
		w->rss[w->rss_count++] = samples[i];
		if (w->rss_count == RSS_FLUSH)
			flush_rss(w);
	}
	return w->error.code;
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
		return fail_memory(w);
	rc = write_block(w, TRACE_BLOCK_ANONYMOUS, w->anonymous.data, w->anonymous.len, last, last,
			 count);
	w->anonymous.len = 0;
	return rc;
}

int trace_writer_anonymous(struct trace_writer *w, const struct trace_anonymous *a)
{
	if (w->error.code)
		return w->error.code;
	definitions_put_anonymous(&w->anonymous, a);
	w->anonymous_count++;
	w->anonymous_ns = a->time_ns;
	return w->anonymous_count == RSS_FLUSH ? flush_anonymous(w) : 0;
}

int trace_writer_samples(struct trace_writer *w, const struct trace_samples *samples)
{
	if (!w->error.code)
		flush_definitions(w);
	if (w->error.code)
		return w->error.code;
	w->scratch.len = 0;
	trace_samples_put(&w->scratch, samples);
	if (w->scratch.failed)
		return fail_memory(w);
	return write_block(w, TRACE_BLOCK_SAMPLES, w->scratch.data, w->scratch.len, samples->time_ns,
			   samples->time_ns, samples->live_count);
}

int trace_writer_peak(struct trace_writer *w, const struct trace_peak *peak)
{
	if (!w->error.code)
		flush_definitions(w);
	if (w->error.code)
		return w->error.code;
	w->scratch.len = 0;
	trace_peak_put(&w->scratch, peak);
	if (w->scratch.failed)
		return fail_memory(w);
	if (w->scratch.len > TRACE_BLOCK_LIMIT)
		return 0; /* millions of samples: readers take what each process has (trace_samples.c) */
	return write_block(w, TRACE_BLOCK_PEAK, w->scratch.data, w->scratch.len, peak->time_ns,
			   peak->time_ns, 0);
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
	rc = write_pieces(w, TRACE_BLOCK_EVENTS, payload.pieces, COLUMN_COUNT + 1,
			  payload.first_tick * w->tick_ns, payload.last_tick * w->tick_ns, count);
	events_encoder_begin(&w->encoder);
	return rc;
}

/* After every piece of work of the encoder. */
static void events_taken(struct trace_writer *w, size_t count)
{
	w->events += count;
	if (w->encoder.count == EVENTS_PER_BLOCK || events_encoder_bytes(&w->encoder) >= EVENTS_FLUSH)
		flush_events(w);
}

int trace_writer_events(struct trace_writer *w, const struct trace_event *events, size_t count)
{
	while (count && !w->error.code) {
		size_t taken = events_encode(&w->encoder, events, count);
		events += taken;
		count -= taken;
		events_taken(w, taken);
	}
	return w->error.code;
}

int trace_writer_batch(struct trace_writer *w, const struct trace_batch *batch)
{
	for (uint32_t done = 0; done < batch->count && !w->error.code;) {
		uint32_t taken = events_encode_batch(&w->encoder, batch, done);
		done += taken;
		events_taken(w, taken);
	}
	return w->error.code;
}

int trace_writer_flush(struct trace_writer *w)
{
	if (!w->error.code)
		flush_events(w);
	if (!w->error.code)
		flush_definitions(w);
	if (!w->error.code)
		flush_rss(w);
	if (!w->error.code)
		flush_anonymous(w);
	return w->error.code;
}

static int write_behaviour(struct trace_writer *w, uint64_t time_ns, const struct tally *tally)
{
	if (!tally->behaviour)
		return 0;
	w->scratch.len = 0;
	behaviour_put(&w->scratch, tally->behaviour, tally);
	if (w->scratch.failed)
		return fail_memory(w);
	/* Far above what the bounds of behaviour.h allow; a reader could not take more. */
	if (w->scratch.len > TRACE_BLOCK_LIMIT)
		return 0;
	return write_block(w, TRACE_BLOCK_BEHAVIOUR, w->scratch.data, w->scratch.len, time_ns, time_ns,
			   0);
}

static int write_tally(struct trace_writer *w, unsigned type, uint64_t time_ns, struct tally *tally)
{
	tally_settle(tally);
	/* A recorder may have reserved more than it has defined: those are all zero. */
	struct tally view = *tally;
	if (view.site_count > w->site_count)
		view.site_count = w->site_count;
	if (view.thread_count > w->thread_count)
		view.thread_count = w->thread_count;
	uint32_t parts = tally_block_parts(&view);
	int rc = 0;
	for (uint32_t part = 0; part < parts && !rc; part++) {
		w->scratch.len = 0;
		tally_block_put(&w->scratch, &view, part);
		rc = w->scratch.failed ? fail_memory(w)
				       : write_block(w, type, w->scratch.data, w->scratch.len,
						     time_ns, time_ns, parts - part - 1);
	}
	return rc;
}

/* With 100,000 sites a tally is as large as a million events. It saves the reader of a cut file to
 * replay what was written since the last one: it is not worth it before that is much more. */
static bool checkpoint_pays(const struct trace_writer *w, const struct tally *tally)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < tally->site_count; i++)
		bytes += tally->sites[i].allocations ? CHECKPOINT_SITE_BYTES : 0;
	return bytes < CHECKPOINT_SMALL ||
	       w->offset - w->checkpoint_offset >= bytes * CHECKPOINT_SHARE;
}

int trace_writer_checkpoint(struct trace_writer *w, uint64_t time_ns, struct tally *tally)
{
	int rc = trace_writer_flush(w);
	if (rc || !checkpoint_pays(w, tally))
		return rc;
	rc = write_behaviour(w, time_ns, tally);
	if (!rc)
		rc = write_tally(w, TRACE_BLOCK_CHECKPOINT, time_ns, tally);
	w->checkpoint_offset = w->offset;
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
	end.tally_offset = w->offset;
	rc = write_tally(w, TRACE_BLOCK_TALLY, duration_ns, tally);
	if (rc)
		return rc;
	end.blocks = w->index.count;
	w->scratch.len = 0;
	trace_index_put(&w->scratch, &w->index);
	if (w->scratch.failed)
		return fail_memory(w);
	/* A recording of months may have more blocks than an index can hold: readers then scan. */
	if (w->scratch.len <= TRACE_BLOCK_LIMIT) {
		end.index_offset = w->offset;
		rc = write_block(w, TRACE_BLOCK_INDEX, w->scratch.data, w->scratch.len, 0, 0,
				 end.blocks);
		if (rc)
			return rc;
	}
	return write_block(w, TRACE_BLOCK_END, &end, sizeof end, duration_ns, duration_ns, 0);
}

int trace_writer_end(struct trace_writer *w, uint64_t duration_ns, struct tally *tally)
{
	if (w->ended)
		return w->end_code;
	w->end_code = write_end(w, duration_ns, tally);
	w->ended = true;
	if (!w->error.code) /* latched as a failure is, so that nothing follows the end */
		heft_fail(&w->error, HEFT_EREFUSED, "%s has ended", w->path);
	return w->end_code;
}

/* Length of a block of these bytes. */
static uint64_t block_bytes(struct trace_writer *w, const struct byte_buffer *raw)
{
	struct byte_piece piece = {raw->data, raw->len};
	if (raw->failed || reserve_out(w, raw->len))
		return 0;
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, TABLES_LEVEL);
	size_t stored = compress(w, w->out, &piece, 1, raw->len);
	return TRACE_BLOCK_HEADER_BYTES + (stored ? stored : raw->len);
}

uint64_t trace_writer_end_bytes(struct trace_writer *w, struct tally *tally)
{
	uint64_t bytes = 0;
	if (w->error.code)
		return 0;
	tally_settle(tally);
	if (tally->behaviour) {
		w->scratch.len = 0;
		behaviour_put(&w->scratch, tally->behaviour, tally);
		bytes += block_bytes(w, &w->scratch);
	}
	uint32_t parts = tally_block_parts(tally);
	for (uint32_t part = 0; part < parts; part++) {
		w->scratch.len = 0;
		tally_block_put(&w->scratch, tally, part);
		bytes += block_bytes(w, &w->scratch);
	}
	return bytes;
}

uint64_t trace_writer_waiting_bytes(const struct trace_writer *w)
{
	return w->definitions.len + w->nodes.elements.len + w->sites.elements.len +
	       (w->encoder.count ? events_encoder_bytes(&w->encoder) : 0) +
	       w->rss_count * sizeof *w->rss + w->anonymous.len;
}

int trace_writer_close(struct trace_writer *w, uint64_t duration_ns, struct tally *tally,
		       struct heft_error *err)
{
	int rc = trace_writer_end(w, duration_ns, tally);
	int fd = w->fd;
	w->fd = -1;
	if (close(fd) && errno != EINTR && !rc)
		rc = heft_fail_errno(&w->error, "cannot write %s", w->path);
	if (rc && err)
		*err = w->error;
	writer_free(w);
	return rc;
}

void trace_writer_abandon(struct trace_writer *w)
{
	if (w)
		writer_free(w);
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->offset;
}
