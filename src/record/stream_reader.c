/* The streams of one session file (layout: wire/session.h, wire/record.h): which
 * records are published, and what they say. The program can write to these pages as
 * well as we can. So every index is checked before it is used, every word is read
 * once, and the number of chunks bounds every walk: garbage makes the file `corrupt`,
 * but the recorder neither crashes nor spins.
 *
 * Everything about streams is here, with one exception: match_plain.c reads the
 * commonest records itself, because a call for each would be too slow. */
#include "record/stream_reader.h"

#include "hosted/vector.h"
#include "session/session_view.h"
#include "trace/trace.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread that is stopped (by a debugger, by SIGSTOP) between stamp and publication holds up the merge for
 * this long at most. Its record is then sorted in late. */
enum { OPEN_PATIENCE_MS = 500 };
/* BEHIND_CHUNKS: a recorder that keeps up reads fewer than this in one round. */
enum { CHECK_ALL_ROUNDS = 1024, GIVE_AT_ONCE = 64, BEHIND_CHUNKS = 256 };

/* ---- chunks */

/* Gives the chunks that were read back to the process. */
static void return_chunks(struct session_view *v)
{
	struct wire_header *h = v->session.header;
	if (!v->give_first)
		return;
	uint64_t head = atomic_load_explicit(&h->free_head, memory_order_relaxed), want;
	do {
		atomic_store_explicit(&v->session.chunks[v->give_last - 1].next, (uint32_t)head,
				      memory_order_relaxed);
		want = ((head >> 32) + 1) << 32 | v->give_first;
	} while (!atomic_compare_exchange_weak_explicit(
		&h->free_head, &head, want, memory_order_release, memory_order_relaxed));
	v->give_first = v->give_last = v->give_count = 0;
}

/* Lets threads that wait for a chunk look again. */
static void wake(struct session_view *v, bool behind)
{
	struct wire_header *h = v->session.header;
	if (atomic_load_explicit(&h->behind, memory_order_relaxed) != behind)
		atomic_store_explicit(&h->behind, behind, memory_order_relaxed);
	atomic_fetch_add(&h->progress, 1);
	if (atomic_load(&h->waiters))
		syscall(SYS_futex, &h->progress, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static int take_chunk(struct stream *s, uint32_t index_plus_one)
{
	if (!index_plus_one || index_plus_one > WIRE_CHUNKS)
		return HEFT_EFORMAT;
	s->chunk = &s->view->session.chunks[index_plus_one - 1];
	s->pos = 0;
	s->end = 0;
	uint64_t base = s->chunk->base_tsc;
	if (base > s->tsc)
		s->tsc = base;
	return 0;
}

/* Reads how much of the current chunk is published. */
static int look_at_chunk(struct stream *s)
{
	uint64_t pos = atomic_load_explicit(&s->chunk->pos, memory_order_acquire);
	s->open = pos & WIRE_OPEN;
	pos &= ~WIRE_OPEN;
	if (pos > sizeof s->chunk->data || pos & 7 || pos < s->pos)
		return HEFT_EFORMAT;
	s->end = (uint32_t)pos;
	return 0;
}

int stream_advance(struct stream *s)
{
	struct session_view *v = s->view;
	for (uint32_t hops = 0; hops <= WIRE_CHUNKS; hops++) {
		while (s->pos < s->end) {
			uint64_t w = s->chunk->data[s->pos / 8];
			unsigned type = wire_type_of(w);
			if (type == WIRE_SYNC) {
				uint64_t t = w >> 3;
				if (t > s->tsc)
					s->tsc = t;
				s->pos += 8;
				continue;
			}
			if (type == WIRE_NOTHING)
				return HEFT_EFORMAT;
			s->next_tsc = s->tsc + wire_dt_of(w);
			s->more = true;
			return 0;
		}
		s->more = false;
		/* All that is published was read. Has the thread gone on to another chunk? */
		uint32_t next = atomic_load_explicit(&s->chunk->next, memory_order_acquire);
		if (!next)
			return 0;
		int rc = look_at_chunk(s);
		if (rc)
			return rc;
		if (s->pos < s->end)
			continue; /* the thread published more before it went on */
		uint32_t old = (uint32_t)(s->chunk - v->session.chunks) + 1;
		if ((rc = take_chunk(s, next)) || (rc = look_at_chunk(s)))
			return rc;
		/* The old chunk goes onto our list. Long lists are given back at once, not at the end of the
		 * round: threads may be waiting, and a chunk that was just read is still in a cache. */
		atomic_store_explicit(&v->session.chunks[old - 1].next, v->give_first,
				      memory_order_relaxed);
		if (!v->give_first)
			v->give_last = old;
		v->give_first = old;
		if (++v->give_count >= GIVE_AT_ONCE) {
			return_chunks(v);
			v->round_chunks += GIVE_AT_ONCE;
			if (v->round_chunks % BEHIND_CHUNKS == 0)
				wake(v, true);
		}
	}
	return HEFT_EFORMAT;
}

/* ---- records */

/* No block is larger than the address space, and none lies at 0. */
static int check_block(const struct stream_record *r)
{
	return r->size >> 47 || !r->addr ? HEFT_EFORMAT : 0;
}

/* A call that maps memory, with n words behind the first. */
static int decode_mapping(const uint64_t *w, unsigned n, uint32_t left, struct stream_record *r)
{
	if ((n != 4 && n != 6) || 8 + n * 8 > left)
		return HEFT_EFORMAT;
	const uint64_t word = w[3];
	*r = (struct stream_record){.call = STREAM_MAPPING,
				    .addr = w[1],
				    .size = w[2],
				    .node = (uint32_t)word,
				    .map_call = word >> 32 & 0xff,
				    .detail = (uint32_t)(word >> 40),
				    .before_tsc = w[4]};
	if ((r->map_call == WIRE_MAP_MREMAP) != (n == 6) || r->map_call >= WIRE_MAP_CALLS)
		return HEFT_EFORMAT;
	if (n == 6) {
		r->old_addr = w[5];
		r->old_size = w[6];
	}
	/* Addresses of five levels of page tables have 57 bits. */
	if (r->addr >> 57 || r->size >> 57 || r->old_addr >> 57 || r->old_size >> 57)
		return HEFT_EFORMAT;
	return (int)(8 + n * 8);
}

static int decode_remark(const uint64_t *w, unsigned n, uint32_t left, struct stream_record *r)
{
	if (n != 4 || 8 + n * 8 > left)
		return HEFT_EFORMAT;
	const uint64_t word = w[1];
	*r = (struct stream_record){.call = STREAM_REMARK,
				    .node = (uint32_t)word,
				    .map_call = word >> 32 & 0xff,
				    .detail = (uint32_t)(word >> 40),
				    .addr = w[2],
				    .size = w[3],
				    .old_size = w[4]};
	return r->map_call < WIRE_REMARKS ? (int)(8 + n * 8) : HEFT_EFORMAT;
}

/* A record in its long form at w; `left` bytes are published from there. */
static int decode_ext(const uint64_t *w, uint32_t left, struct stream_record *r)
{
	static const struct {
		uint8_t words, call;
	} kinds[] = {
		[WIRE_EXT_ALLOC] = {4, STREAM_ALLOC},
		[WIRE_EXT_FREE] = {1, STREAM_FREE},
		[WIRE_EXT_REALLOC_BEGIN] = {1, STREAM_REALLOC_BEGIN},
		[WIRE_EXT_REALLOC_END] = {4, STREAM_REALLOC_END},
		[WIRE_EXT_REALLOC_FREED] = {0, STREAM_REALLOC_FREED},
		[WIRE_EXT_FREE_AT] = {2, STREAM_FREE},
		[WIRE_EXT_UNUSED] = {2, STREAM_UNUSED},
	};
	const uint64_t word = w[0];
	const unsigned kind = wire_ext_kind(word), n = wire_ext_words(word);
	if (kind == WIRE_EXT_MAPPING)
		return decode_mapping(w, n, left, r);
	if (kind == WIRE_EXT_REMARK)
		return decode_remark(w, n, left, r);
	if (kind < WIRE_EXT_ALLOC || kind > WIRE_EXT_UNUSED || n != kinds[kind].words ||
	    8 + n * 8 > left)
		return HEFT_EFORMAT;
	*r = (struct stream_record){.call = kinds[kind].call, .addr = n ? w[1] : 0};
	if (n == 4) {
		const uint64_t usable = w[3];
		r->size = w[2];
		r->node = (uint32_t)w[4];
		r->slack_unknown = usable == WIRE_USABLE_UNKNOWN || usable < r->size;
		if (!r->slack_unknown)
			r->slack = usable - r->size < 0xffff ? (uint32_t)(usable - r->size)
							     : 0xffff;
		if (check_block(r))
			return HEFT_EFORMAT;
	} else if (kind == WIRE_EXT_FREE_AT) {
		r->has_free_node = true;
		r->free_node = (uint32_t)w[2];
	} else if (kind == WIRE_EXT_UNUSED)
		r->unused_bytes = w[2];
	return (int)(8 + n * 8);
}

/* An allocation or a completed realloc at w, in two words. */
static int decode_block(const uint64_t *w, enum stream_call call, struct stream_record *r)
{
	const uint64_t block = w[1];
	const uint32_t slack = block_slack(block);
	*r = (struct stream_record){
		.call = call,
		.slack_unknown = slack == BLOCK_SLACK_UNKNOWN,
		.addr = wire_addr_of(w[0]),
		.size = block_size(block),
		.slack = slack == BLOCK_SLACK_UNKNOWN ? 0 : slack,
		.node = block_site(block),
	};
	return check_block(r) ? HEFT_EFORMAT : 16;
}

int stream_decode(const struct stream *s, struct stream_record *r)
{
	const uint64_t *w = &s->chunk->data[s->pos / 8], word = w[0];
	uint32_t left = s->end - s->pos;
	enum stream_call call;
	switch (wire_type_of(word)) {
	case WIRE_ALLOC: return left < 16 ? HEFT_EFORMAT : decode_block(w, STREAM_ALLOC, r);
	case WIRE_REALLOC_END:
		return left < 16 ? HEFT_EFORMAT : decode_block(w, STREAM_REALLOC_END, r);
	case WIRE_EXT: return decode_ext(w, left, r);
	case WIRE_FREE: call = STREAM_FREE; break;
	case WIRE_REALLOC_BEGIN: call = STREAM_REALLOC_BEGIN; break;
	case WIRE_REALLOC_FAIL: call = STREAM_REALLOC_FAILED; break;
	default: return HEFT_EFORMAT;
	}
	*r = (struct stream_record){.call = call, .addr = wire_addr_of(word)};
	return 8;
}

/* ---- rounds */

int streams_look(struct session_view *v, uint64_t round_tsc, uint64_t now_ns, bool over)
{
	struct wire_header *h = v->session.header;
	uint32_t high = atomic_load_explicit(&h->stream_high, memory_order_acquire);
	/* It never falls. Streams that were open would stay so for ever. */
	if (high > WIRE_STREAMS || high < v->slots)
		return HEFT_EFORMAT;
	if (high > v->slots) {
		if (!array_reserve(v->streams, v->slots, v->stream_capacity, high - v->slots))
			return HEFT_ENOMEM;
		memset(v->streams + v->slots, 0, (high - v->slots) * sizeof *v->streams);
		v->slots = high;
	}
	int ready = 0;
	for (uint32_t i = 0; i < high; i++) {
		struct stream *s = &v->streams[i];
		struct wire_stream *w = &v->session.streams[i];
		if (!s->active) {
			if (atomic_load_explicit(&w->state, memory_order_acquire) ==
			    WIRE_STREAM_FREE)
				continue;
			uint32_t first = atomic_load_explicit(&w->first, memory_order_acquire);
			if (!first || v->sampled) /* a sampled process has no chunks */
				continue;
			memset(s, 0, sizeof *s);
			s->view = v;
			s->slot = i;
			s->thread.number = TRACE_NONE;
			int rc = take_chunk(s, first);
			if (rc)
				return rc;
			s->active = true;
		}
		int rc = look_at_chunk(s);
		if (!rc)
			rc = stream_advance(s);
		if (rc)
			return rc;
		ready += s->more;
		uint64_t place = (uint64_t)(s->chunk - v->session.chunks) << 32 | s->end;
		if (!s->open || over) {
			s->open = false;
			s->open_since = 0;
			s->bound = round_tsc;
		} else if (!s->open_since || s->open_pos != place) {
			s->open_since = now_ns;
			s->open_pos = place;
		} else if (now_ns - s->open_since > OPEN_PATIENCE_MS * 1000000ull) {
			s->open = false;
			s->bound = round_tsc;
		}
	}
	return ready;
}

static bool thread_is_gone(pid_t pid, int32_t tid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
	if (!access(path, F_OK) || errno != ENOENT)
		return false;
	snprintf(path, sizeof path, "/proc/%d/task/%d", pid, pid);
	return !access(path, F_OK);
}

void streams_give_back(struct session_view *v, pid_t pid)
{
	bool all = v->rounds++ % CHECK_ALL_ROUNDS == 0;
	for (uint32_t i = 0; i < v->slots && pid; i++) {
		struct stream *s = &v->streams[i];
		struct wire_stream *w = &v->session.streams[i];
		if (!s->active || s->more || s->pos != s->end)
			continue;
		/* Most threads say that they end. The others are looked for now and then. */
		if (!all &&
		    atomic_load_explicit(&w->state, memory_order_acquire) != WIRE_STREAM_CLOSED)
			continue;
		if (!thread_is_gone(pid, w->tid))
			continue;
		/* It may have written before it ended. It cannot write any more: look once more. */
		if (look_at_chunk(s) || s->pos != s->end ||
		    atomic_load_explicit(&s->chunk->next, memory_order_acquire))
			continue;
		uint32_t last = (uint32_t)(s->chunk - v->session.chunks) + 1;
		atomic_store_explicit(&s->chunk->next, v->give_first, memory_order_relaxed);
		if (!v->give_first)
			v->give_last = last;
		v->give_first = last;
		v->give_count++;
		v->dropped += atomic_exchange(&w->dropped, 0);
		s->active = false;
		atomic_store(&w->first, 0);
		atomic_store_explicit(&w->state, WIRE_STREAM_FREE, memory_order_release);
	}
	return_chunks(v);
	wake(v, v->round_chunks >= BEHIND_CHUNKS);
	v->round_chunks = 0;
}
