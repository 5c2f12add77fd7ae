/* What a program says while it is recorded (include/heft.h): marks, regions, followed blocks, events, pools, and where
 * the recording stops and goes on. Each is a record in the thread's stream (WIRE_EXT_REMARK), so it has its place among the
 * allocations. In a process that is sampled or only counts they do nothing.
 *
 * Blocks that heft_mark_block has seen are remembered, so that their free is remarked as well. As long as there are any,
 * every free takes the slow way and looks. The table has place for 64k of them; when a part of it is full, the end of a
 * block is not seen. */
#define HEFT_INSIDE
#include "capture/marks.h"
#include "capture/hotpath.h"
#include "capture/own_memory.h"
#include "capture/program_texts.h"
#include "capture/sample.h"
#include "heft.h"

#include <sys/mman.h>

enum { BUCKETS = 8192, BUCKET = 8 };

static _Atomic(_Atomic uintptr_t *) followed;

static bool records(void)
{
	return heft_own_header() && !heft_sampling && !heft_counts_only();
}

/* False, and nothing is written: in a hook, where nothing may be written to the stream, and in a thread without one. */
static bool remark(uintptr_t here, enum wire_remark kind, uint32_t name, uint64_t a, uint64_t b,
		   uint64_t c)
{
	struct heft_tls *tls = heft_tls_now();
	if (!enter(tls, here))
		return false;
	int saved = errno;
	struct heft_thread *t = thread_with_space(tls);
	if (t) {
		const bool has_site = kind == WIRE_REMARK_EVENT || kind == WIRE_REMARK_POOL_ALLOC ||
				      kind == WIRE_REMARK_STAGE;
		const uint32_t site = has_site ? heft_site(t, here, WIRE_VIA_FREE) : 0;
		const uint64_t words[4] = {wire_remark_word(site, kind, name), a, b, c};
		heft_emit_ext(t, WIRE_EXT_REMARK, words, 4);
	}
	errno = saved;
	leave(tls);
	return t != NULL;
}

void heft_remark_region(uint64_t serial, uint32_t name, unsigned scope, bool ends)
{
	/* A forked child's log does not have the names of its parent's regions yet. */
	if (records())
		remark(HERE(), ends ? WIRE_REMARK_REGION_END : WIRE_REMARK_REGION_BEGIN,
		       heft_text_number(heft_text_of(name)), serial, scope, 0);
}

void heft_mark(const char *name)
{
	if (records())
		remark(HERE(), WIRE_REMARK_MARK, heft_text_number(name), 0, 0, 0);
}

void heft_event(const char *name, uint64_t weight)
{
	if (records())
		remark(HERE(), WIRE_REMARK_EVENT, heft_text_number(name), weight, 0, 0);
}

/* ---- followed blocks */

static _Atomic uintptr_t *bucket_of(const void *p)
{
	_Atomic uintptr_t *table = atomic_load(&followed);
	uint64_t hash = ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ull;
	return table ? table + (hash >> 51) * BUCKET : NULL;
}
_Static_assert(BUCKETS == 1 << (64 - 51), "the upper bits of a hash");

static void follow(const void *p)
{
	if (!atomic_load(&followed)) {
		_Atomic uintptr_t *none = NULL;
		_Atomic uintptr_t *fresh = sys_mmap(
			NULL, BUCKETS * BUCKET * sizeof *fresh, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (fresh && !atomic_compare_exchange_strong(&followed, &none, fresh))
			sys_munmap(fresh, BUCKETS * BUCKET * sizeof *fresh);
		else if (fresh)
			heft_list_own(heft_own_header(), fresh, BUCKETS * BUCKET * sizeof *fresh);
		if (fresh)
			atomic_fetch_or(&heft_unusual.arena_used, HEFT_UNUSUAL_FOLLOWS);
	}
	_Atomic uintptr_t *b = bucket_of(p);
	for (unsigned i = 0; b && i < BUCKET; i++)
		if (atomic_load_explicit(&b[i], memory_order_relaxed) == (uintptr_t)p)
			return;
	for (unsigned i = 0; b && i < BUCKET; i++) {
		uintptr_t empty = 0;
		if (atomic_compare_exchange_strong(&b[i], &empty, (uintptr_t)p))
			return;
	}
}

void heft_mark_block(const void *block, const char *stage)
{
	if (!block || !records())
		return;
	follow(block);
	remark(HERE(), WIRE_REMARK_STAGE, heft_text_number(stage), (uint64_t)block, 0, 0);
}

void heft_followed_ends(struct heft_tls *tls, const void *p)
{
	_Atomic uintptr_t *b = bucket_of(p);
	for (unsigned i = 0; b && i < BUCKET; i++) {
		uintptr_t it = (uintptr_t)p;
		if (atomic_load_explicit(&b[i], memory_order_relaxed) != it ||
		    !atomic_compare_exchange_strong(&b[i], &it, 0))
			continue;
		struct heft_thread *t = thread_with_space(tls);
		const uint64_t words[4] = {wire_remark_word(0, WIRE_REMARK_STAGE_END, 0),
					   (uint64_t)p};
		if (t)
			heft_emit_ext(t, WIRE_EXT_REMARK, words, 4);
		return;
	}
}

/* ---- pools */

void heft_pool_create(void *pool, const char *name)
{
	if (records())
		remark(HERE(), WIRE_REMARK_POOL_CREATE, heft_text_number(name), (uint64_t)pool, 0,
		       0);
}

void heft_pool_alloc(void *pool, const void *block, size_t size)
{
	if (records())
		remark(HERE(), WIRE_REMARK_POOL_ALLOC, 0, (uint64_t)pool, (uint64_t)block, size);
}

void heft_pool_free(void *pool, const void *block)
{
	if (records())
		remark(HERE(), WIRE_REMARK_POOL_FREE, 0, (uint64_t)pool, (uint64_t)block, 0);
}

void heft_pool_destroy(void *pool)
{
	if (records())
		remark(HERE(), WIRE_REMARK_POOL_DESTROY, 0, (uint64_t)pool, 0, 0);
}

bool heft_remark_pool(uintptr_t here, enum wire_remark kind, uint32_t name, uint64_t pool,
		      uint64_t object, uint64_t size)
{
	return records() && remark(here, kind, name, pool, object, size);
}

/* ---- the recording */

static int switch_to(bool on)
{
	struct wire_header *h = heft_own_header();
	if (!h || heft_counts_only()) {
		errno = ENOSYS;
		return -1;
	}
	if (heft_sampling) {
		atomic_store(&h->sampling.on, on);
		if (on)
			atomic_store(&h->sampling.gate, WIRE_GATE_COUNT);
		return 0;
	}
	if (!on) {
		/* First the remark: whoever reads it expects frees of blocks that were not recorded. */
		remark(HERE(), WIRE_REMARK_STOP, 0, 0, 0, 0);
		atomic_fetch_or(&heft_unusual.arena_used, HEFT_UNUSUAL_STOPPED);
	} else {
		atomic_fetch_and(&heft_unusual.arena_used, ~HEFT_UNUSUAL_STOPPED);
		remark(HERE(), WIRE_REMARK_START, 0, 0, 0, 0);
	}
	return 0;
}

int heft_start(void)
{
	return switch_to(true);
}

int heft_stop(void)
{
	return switch_to(false);
}
