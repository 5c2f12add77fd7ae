/* Threads, their streams and chunks: everything that a record needs beside the hot
 * path. A hook comes here when its chunk is full, in a thread's first event, after a
 * fork (wiped memory), or when recording is off.
 *
 * Waiting: when there is no free chunk the thread sleeps on the recorder's progress
 * word. It waits as long as that word changes. After a second without a change the
 * recorder is dead or stopped, and the whole process goes on unprofiled: off_tsc says
 * since when, and every stream counts what is missing. */
#include "capture/hotpath.h"
#include "capture/ledger_request.h"
#include "capture/map_calls.h"
#include "capture/sample.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <time.h>

_Atomic uint32_t heft_several_threads;
#ifndef HEFT_BLOB
__thread struct heft_tls heft_tls __attribute__((tls_model("initial-exec")));
#endif

enum {
	RECORD_WORDS = 2 + WIRE_EXT_MAX_WORDS,
	YIELD_CYCLES = 30000,
	STOPPED_AFTER_MS = 1000,
	WAIT_SLICE_MS = 20,
	LONGEST_SLICE_NS = 2 * WAIT_SLICE_MS * 1000000,
	WATCH_BYTES = 512, /* 64 frees */
	STREAMS_A_PAGE = 4096 / sizeof(struct wire_stream)
};
/* The longest record: SYNC, EXT and its WIRE_EXT_MAX_WORDS. */
#define CHUNK_LIMIT ((WIRE_CHUNK_WORDS - RECORD_WORDS) * 8ull)

static uint32_t pop_chunk(struct wire_session *s)
{
	struct wire_header *h = s->header;
	const uint32_t most = atomic_load_explicit(&heft_part.chunks, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&h->free_head, memory_order_acquire);
	while (head & 0xffffffff) {
		uint32_t index = (uint32_t)head - 1;
		if (index >= most)
			break; /* somebody wrote over our pages */
		uint64_t next = atomic_load_explicit(&s->chunks[index].next, memory_order_relaxed);
		uint64_t want = ((head >> 32) + 1) << 32 | (uint32_t)next;
		if (atomic_compare_exchange_weak_explicit(
			    &h->free_head, &head, want, memory_order_acquire, memory_order_acquire))
			return index + 1;
	}
	if (atomic_load_explicit(&h->fresh, memory_order_relaxed) >= most)
		return 0;
	uint32_t index = atomic_fetch_add(&h->fresh, 1);
	if (index >= most)
		return 0;
	/* Asks for pages in batches: that is faster than a fault for each, and fails without a signal. */
	if (index % HEFT_CHUNKS_AT_ONCE == 0) {
		uint32_t batch = most - index < HEFT_CHUNKS_AT_ONCE ? most - index
								    : HEFT_CHUNKS_AT_ONCE;
		if (sys_populate(&s->chunks[index], batch * sizeof *s->chunks)) {
			atomic_store(&h->fresh, WIRE_CHUNKS); /* these are all there will be */
			atomic_store(&h->starved, 1);
			return 0;
		}
	}
	return index + 1;
}

static uint32_t wait_for_chunk(struct wire_session *s)
{
	struct wire_header *h = s->header;
	uint32_t chunk, seen = atomic_load(&h->progress);
	int64_t idle_ns = 0;
	struct timespec last, now;
	atomic_fetch_add(&h->waiters, 1);
	clock_gettime(CLOCK_MONOTONIC, &last);
	while (!(chunk = pop_chunk(s)) && atomic_load(&h->state) == WIRE_ON) {
		struct timespec slice = {0, WAIT_SLICE_MS * 1000000l};
		sys_futex(&h->progress, FUTEX_WAIT, seen, &slice);
		uint32_t progress = atomic_load(&h->progress);
		clock_gettime(CLOCK_MONOTONIC, &now);
		const int64_t ns = (now.tv_sec - last.tv_sec) * 1000000000ll + now.tv_nsec -
				   last.tv_nsec;
		last = now;
		if (progress != seen) {
			seen = progress;
			/* If memory has run out there may be no chunk that could come back: do not wait for ever. */
			if (!atomic_load_explicit(&h->starved, memory_order_relaxed)) {
				idle_ns = 0;
				continue;
			}
		}
		/* A slice that took longer says that we stood still, and with the machine perhaps the recorder, too. */
		idle_ns += ns < LONGEST_SLICE_NS ? ns : LONGEST_SLICE_NS;
		if (idle_ns >= STOPPED_AFTER_MS * 1000000ll) {
			uint32_t on = WIRE_ON;
			uint64_t never = 0;
			atomic_compare_exchange_strong(&h->off_tsc, &never, arch_stamp());
			atomic_compare_exchange_strong(&h->state, &on, WIRE_OFF);
		}
	}
	atomic_fetch_sub(&h->waiters, 1);
	return chunk;
}

static void take_name(struct wire_stream *s)
{
	char name[16] = {0};
	if (!sys_prctl(PR_GET_NAME, (unsigned long)name))
		__builtin_memcpy(s->name, name, 16);
}

/* Takes a free slot: first one that was used before (its memory is warm), then a new one. */
static struct heft_thread *open_thread(struct heft_process *p)
{
	struct wire_session *s = &p->session;
	const int tid = heft_around_tid();
	if (tid <=
	    0) { /* a sandbox does not let us ask, and the outside must know whether it lives */
		atomic_store(&s->header->off_reason, WIRE_OFF_SANDBOX);
		return NULL;
	}
	uint32_t high = atomic_load(&s->header->stream_high);
	uint32_t start = high < WIRE_STREAMS ? high : 0;
	for (uint32_t round = 0; round < 2; round++) {
		uint32_t from = round ? start : 0, to = round ? WIRE_STREAMS : start;
		for (uint32_t i = from; i < to; i++) {
			struct wire_stream *stream = &s->streams[i];
			if (i % STREAMS_A_PAGE == 0 && i >= start &&
			    sys_populate(stream, STREAMS_A_PAGE * sizeof *stream))
				return NULL;
			uint32_t is_free = WIRE_STREAM_FREE;
			if (atomic_load_explicit(&stream->state, memory_order_relaxed) != is_free)
				continue;
			if (!atomic_compare_exchange_strong(&stream->state, &is_free,
							    WIRE_STREAM_ACTIVE))
				continue;
			struct heft_thread *t = &p->threads[i];
			struct heft_frame *memory = t->frames_memory;
			__builtin_memset(t, 0, sizeof *t);
			heft_frames_reset(t, memory); /* it was the last thread's in this slot */
			t->stream = stream;
			t->slot = i;
			t->is_open = 1;
			stream->tid = tid;
			take_name(stream);
			uint32_t seen = atomic_load(&s->header->stream_high);
			while (seen < i + 1 &&
			       !atomic_compare_exchange_weak(&s->header->stream_high, &seen, i + 1))
				;
			if (i > 0)
				atomic_store_explicit(&heft_several_threads, 1,
						      memory_order_relaxed);
			return t;
		}
	}
	return NULL;
}

void heft_thread_ends(struct heft_thread *t)
{
	if (!t->is_open || atomic_load(&heft_process->phase) != HEFT_OPEN ||
	    heft_tls_now()->thread != t)
		return; /* a forked child, whose copy of it is wiped */
	take_name(t->stream);
	atomic_store_explicit(&t->stream->state, WIRE_STREAM_CLOSED, memory_order_release);
}

void heft_thread_renamed(void)
{
	struct heft_thread *t = heft_tls_now()->thread;
	if (t && t->is_open)
		take_name(t->stream);
}

/* The thread. Opens process and thread if they are not open. */
static struct heft_thread *opened(void)
{
	struct heft_process *p = heft_process;
	if (UNLIKELY(!p || atomic_load_explicit(&p->phase, memory_order_acquire) != HEFT_OPEN)) {
		if (heft_process_open())
			return NULL;
		p = heft_process;
	}
	struct wire_header *h = p->session.header;
	struct heft_thread *t = heft_tls_now()->thread;
	if (UNLIKELY(!t || !t->is_open)) {
		heft_tls_now()->thread = t = NULL;
		if (atomic_load_explicit(&h->state, memory_order_relaxed) == WIRE_ON)
			t = open_thread(p);
		if (!t) {
			atomic_fetch_add_explicit(&h->dropped, 1, memory_order_relaxed);
			return NULL;
		}
		heft_tls_now()->thread = t;
		heft_watch_end_of_thread(t);
	}
	return t;
}

struct heft_thread *heft_sample_thread(void)
{
	return opened();
}

/* Where to look next whether the heap shrinks: while that is watched for, every few records. */
static uint64_t next_limit(const struct wire_header *h, const struct heft_thread *t)
{
	const uint64_t next = t->pos + WATCH_BYTES;
	return LIKELY(!atomic_load_explicit(&h->ledger.armed, memory_order_relaxed)) ||
			       next > CHUNK_LIMIT
		       ? CHUNK_LIMIT
		       : next;
}

struct heft_thread *heft_make_space(void)
{
	struct heft_thread *t = opened();
	/* Sampled: a hook of an exact process was interrupted by a handler that forked, and the child is
	 * sampled. It has tables where the chunks would be. */
	if (UNLIKELY(!t || heft_sampling))
		return NULL;
	struct heft_process *p = heft_process;
	struct wire_header *h = p->session.header;
	if (LIKELY(t->limit && t->pos < t->limit))
		return t;
	uint32_t state = atomic_load_explicit(&h->state, memory_order_relaxed);
	if (UNLIKELY(state == WIRE_OFF))
		goto off;
	if (heft_waiting_reopen(t))
		return t;
	if (UNLIKELY(atomic_load_explicit(&h->ledger.armed, memory_order_relaxed)) && t->limit)
		heft_ledger_watch(t);
	if (t->limit && t->pos < CHUNK_LIMIT) {
		t->limit = next_limit(h, t);
		return t;
	}
	/* With more busy threads than processors the recorder would get too little time to keep up, and in
	 * the end all would wait for it. */
	if (atomic_load_explicit(&h->behind, memory_order_relaxed) &&
	    t->last_tsc - t->yielded_tsc > YIELD_CYCLES) {
		sys_yield();
		t->yielded_tsc = t->last_tsc;
	}
	uint32_t index = pop_chunk(&p->session);
	if (UNLIKELY(!index) && !(index = wait_for_chunk(&p->session)))
		goto off;
	struct wire_chunk *c = &p->session.chunks[index - 1];
	uint64_t now = t->last_tsc ? t->last_tsc : arch_stamp();
	atomic_store_explicit(&c->pos, 0, memory_order_relaxed);
	atomic_store_explicit(&c->next, 0, memory_order_relaxed);
	c->stream = t->slot;
	c->base_tsc = now;
	if (t->chunk)
		atomic_store_explicit(&t->chunk->next, index, memory_order_release);
	else
		atomic_store_explicit(&t->stream->first, index, memory_order_release);
	t->chunk = c;
	t->pos = 0;
	t->last_tsc = now;
	t->watched_bytes = 0;
	t->limit = next_limit(h, t);
	heft_break_look(t);
	return t;
off:
	t->limit = 0;
	atomic_store_explicit(&t->stream->dropped,
			      atomic_load_explicit(&t->stream->dropped, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return NULL;
}

/* Returns where the record goes, with its *dt. Writes SYNC first if the time since the last record does not
 * fit. */
static uint64_t *open_record(struct heft_thread *t, uint64_t tsc, uint64_t *dt)
{
	uint64_t *w = (uint64_t *)((char *)t->chunk->data + t->pos);
	*dt = tsc - t->last_tsc;
	if (*dt > WIRE_DT_MAX) {
		*w++ = (uint64_t)WIRE_SYNC | tsc << 3;
		*dt = 0;
	}
	return w;
}

static void close_record(struct heft_thread *t, const uint64_t *end, uint64_t tsc)
{
	publish(t, t->chunk, (uint64_t)((const char *)end - (const char *)t->chunk->data), tsc);
}

/* What does not fit the hook's own short form: a long time since the last record (then the record itself may
 * still be short), a large or oddly placed block, an unknown usable size. */
void heft_emit_alloc_long(struct heft_thread *t, int ext_kind, uint64_t tsc, uint64_t addr,
			  uint64_t size, uint64_t usable, uint32_t site)
{
	uint64_t dt, *w = open_record(t, tsc, &dt);
	uint64_t slack = usable == WIRE_USABLE_UNKNOWN ? BLOCK_SLACK_UNKNOWN : usable - size;
	unsigned short_type = ext_kind == WIRE_EXT_ALLOC ? WIRE_ALLOC : WIRE_REALLOC_END;
	if (!(addr & 7) && addr >> 47 == 0 && size <= BLOCK_SIZE_MAX &&
	    slack <= BLOCK_SLACK_UNKNOWN &&
	    (slack < BLOCK_SLACK_UNKNOWN || usable == WIRE_USABLE_UNKNOWN)) {
		*w++ = wire_word0(short_type, dt, addr);
		*w++ = block_word(site, size, slack);
	} else {
		*w++ = wire_ext_word((unsigned)ext_kind, dt, 4);
		*w++ = addr;
		*w++ = size;
		*w++ = usable;
		*w++ = site;
	}
	close_record(t, w, tsc);
}

void heft_emit_address_long(struct heft_thread *t, unsigned type, unsigned ext_kind, uint64_t addr)
{
	open_word(t->chunk, t->pos);
	uint64_t tsc = stamp_in_order();
	uint64_t dt, *w = open_record(t, tsc, &dt);
	if (!(addr & 7) && addr >> 47 == 0)
		*w++ = wire_word0(type, dt, addr);
	else {
		*w++ = wire_ext_word(ext_kind, dt, 1);
		*w++ = addr;
	}
	close_record(t, w, tsc);
}

void heft_emit_ext(struct heft_thread *t, unsigned kind, const uint64_t *words, unsigned count)
{
	open_word(t->chunk, t->pos);
	uint64_t tsc = stamp_in_order();
	uint64_t dt, *w = open_record(t, tsc, &dt);
	*w++ = wire_ext_word(kind, dt, count);
	for (unsigned i = 0; i < count; i++)
		*w++ = words[i];
	close_record(t, w, tsc);
}
