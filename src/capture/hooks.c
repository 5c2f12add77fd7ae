/* The interposed C functions of an exact recording (entry.c leads here). Each calls the next allocator's function of the
 * same name, whatever that allocator is, and records what came of it
 * (hotpath.h). errno is the real call's: nothing of heft's sets it. */
#include "capture/hooks.h"
#include "capture/hotpath.h"

#include <errno.h>
#include <signal.h>

/* A handler's alternate stack may be a part of the stack that it interrupts: then being further up
 * does not mean that the hook is gone. */
static bool one_is_on_alternate_stack(uintptr_t a, uintptr_t b)
{
	stack_t s;
	if (sys_sigaltstack_now(&s) || !(s.ss_flags & SS_ONSTACK))
		return false;
	uintptr_t low = (uintptr_t)s.ss_sp;
	return (a - low < s.ss_size) != (b - low < s.ss_size);
}

NOINLINE bool heft_nested(struct heft_tls *tls, uintptr_t here)
{
	struct heft_thread *t = tls->thread;
	if (here >= tls->guard && t && t->stack_top && here < t->stack_top &&
	    tls->guard >= t->stack_low && tls->guard < t->stack_top &&
	    !one_is_on_alternate_stack(here, tls->guard)) {
		/* That hook's frame is gone. It may have been about to move its captures. */
		heft_frames_reset(t, t->frames_memory);
		tls->guard = 0;
		return false;
	}
	if (heft_process && atomic_load(&heft_process->phase) == HEFT_OPEN)
		atomic_fetch_add_explicit(&heft_process->session.header->reentrant, 1,
					  memory_order_relaxed);
	return true;
}

/* Who frees is asked of a thread's first frees, and then of a random few: enough to name who
 * releases a site's blocks, for under a nanosecond a free. Random, since programs free in patterns. */
enum { FREES_ALL = 32, FREES_OFTEN = 256, OFTEN = 32, SELDOM = 1024 };

NOINLINE void heft_freed_at(struct heft_thread *t, void *p, uintptr_t here)
{
	const uint64_t *frame = (const uint64_t *)here;
	struct heft_entry e = {.pc = frame[1], .sp = here + 16, .rbp = frame[0]};
	const uint64_t told[2] = {(uint64_t)p, heft_site(t, e, WIRE_VIA_FREE)};
	t->frees_to_skip = 0;
	if (t->frees_taken >= FREES_ALL) {
		uint32_t x = t->random ? t->random : (uint32_t)t->last_tsc | 1;
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		t->random = x;
		t->frees_to_skip = x % (2u * (t->frees_taken < FREES_OFTEN ? OFTEN : SELDOM));
	}
	t->frees_taken++;
	heft_emit_ext(t, WIRE_EXT_FREE_AT, told, 2);
}

void *heft_exact_malloc(size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.malloc(size);
	return allocated(tls, heft_next.malloc(size), size, ENTRY(), WIRE_VIA_MALLOC);
}

void *heft_exact_calloc(size_t n, size_t each)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.calloc(n, each);
	return allocated(tls, heft_next.calloc(n, each), n * each, ENTRY(), WIRE_VIA_CALLOC);
}

void heft_exact_free(void *p)
{
	if (before_free(p, HERE()))
		heft_next.free(p);
}

/* The real call in the middle is a realloc of `size` bytes in all. */
static inline void *after_realloc(struct heft_tls *tls, struct heft_thread *announced, void *old,
				  void *p, size_t size, struct heft_entry e, unsigned via)
{
	if (!old)
		return allocated(tls, p, size, e, via);
	if (UNLIKELY(size >= HEFT_GROWN_MIN) && p)
		heft_grown_add(p, size);
	struct heft_thread *t = announced ? room(tls) : NULL;
	if (LIKELY(t)) {
		if (LIKELY(p))
			record_block(t, WIRE_EXT_REALLOC_END, p, size, e, via);
		else if (size == 0)
			heft_emit_ext(t, WIRE_EXT_REALLOC_FREED, NULL, 0);
		else
			record_address(t, WIRE_REALLOC_FAIL, 0, 0);
	}
	leave(tls);
	return p;
}

static inline struct heft_thread *announce(struct heft_tls *tls, void *old)
{
	struct heft_thread *t = old ? room(tls) : NULL;
	if (old && heft_is_grown(old))
		heft_grown_forget(old); /* what comes of it is remembered anew */
	if (t)
		record_address(t, WIRE_REALLOC_BEGIN, WIRE_EXT_REALLOC_BEGIN, (uint64_t)old);
	return t;
}

/* A block of the start-up arena grows into a real one. Its size stands before it. */
static NOINLINE void *realloc_from_arena(void *old, size_t size)
{
	size_t had = ((size_t *)old)[-1];
	void *p = heft_next.malloc(size);
	if (p)
		__builtin_memcpy(p, old, had < size ? had : size);
	return p;
}

void *heft_exact_realloc(void *old, size_t size)
{
	struct heft_tls *tls = &heft_tls;
	bool arena = heft_in_arena(old);
	if (UNLIKELY(!enter(tls, HERE())))
		return arena ? realloc_from_arena(old, size) : heft_next.realloc(old, size);
	if (UNLIKELY(arena))
		return allocated(tls, realloc_from_arena(old, size), size, ENTRY(), WIRE_VIA_REALLOC);
	struct heft_thread *t = announce(tls, old);
	void *p = heft_next.realloc(old, size);
	return after_realloc(tls, t, old, p, size, ENTRY(), WIRE_VIA_REALLOC);
}

void *heft_exact_reallocarray(void *old, size_t n, size_t each)
{
	struct heft_tls *tls = &heft_tls;
	size_t size;
	if (UNLIKELY(__builtin_mul_overflow(n, each, &size))) {
		errno = ENOMEM;
		return NULL;
	}
	bool arena = heft_in_arena(old);
	if (UNLIKELY(!enter(tls, HERE())))
		return arena ? realloc_from_arena(old, size) : heft_next.realloc(old, size);
	if (UNLIKELY(arena))
		return allocated(tls, realloc_from_arena(old, size), size, ENTRY(),
				 WIRE_VIA_REALLOCARRAY);
	struct heft_thread *t = announce(tls, old);
	void *p = heft_next.realloc(old, size); /* all that any reallocarray does from here */
	return after_realloc(tls, t, old, p, size, ENTRY(), WIRE_VIA_REALLOCARRAY);
}

int heft_exact_posix_memalign(void **out, size_t alignment, size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.posix_memalign(out, alignment, size);
	int rc = heft_next.posix_memalign(out, alignment, size);
	allocated(tls, rc ? NULL : *out, size, ENTRY(), WIRE_VIA_POSIX_MEMALIGN);
	return rc;
}

void *heft_exact_aligned_alloc(size_t alignment, size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.aligned_alloc(alignment, size);
	return allocated(tls, heft_next.aligned_alloc(alignment, size), size, ENTRY(),
			 WIRE_VIA_ALIGNED_ALLOC);
}

void *heft_exact_memalign(size_t alignment, size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.memalign(alignment, size);
	return allocated(tls, heft_next.memalign(alignment, size), size, ENTRY(), WIRE_VIA_MEMALIGN);
}

void *heft_exact_valloc(size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.valloc(size);
	return allocated(tls, heft_next.valloc(size), size, ENTRY(), WIRE_VIA_VALLOC);
}

void *heft_exact_pvalloc(size_t size)
{
	struct heft_tls *tls = &heft_tls;
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.pvalloc(size);
	return allocated(tls, heft_next.pvalloc(size), size, ENTRY(), WIRE_VIA_PVALLOC);
}

/* ---- what else must be known */

EXPORT int dlclose(void *handle)
{
	int rc = heft_next.dlclose ? heft_next.dlclose(handle) : -1;
	struct heft_process *p = heft_process;
	if (p && atomic_load(&p->phase) == HEFT_OPEN) {
		/* Another library may land where this one was. */
		heft_forget_code();
		atomic_fetch_add(&p->generation, 1);
		atomic_fetch_add(&p->session.header->flushes, 1);
	}
	return rc;
}

EXPORT int pthread_setname_np(unsigned long thread, const char *name)
{
	int rc = heft_next.setname ? heft_next.setname(thread, name) : ENOSYS;
	heft_thread_renamed();
	return rc;
}
