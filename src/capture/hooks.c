/* The interposed C functions of an exact recording (entry.c leads here). Each calls
 * the next allocator's function of the same name, whatever that allocator is, and
 * records what it returned (hotpath.h). errno is the real call's: nothing in heft
 * sets it. */
#define HEFT_RECORD_INLINE
#include "capture/hooks.h"
#include "capture/hotpath.h"
#include "capture/ledger_request.h"
#include "capture/map_calls.h"

#include <signal.h>

/* The alternate stack of a signal handler may be a part of the stack that it interrupts. Then a hook
 * further down is not gone. */
static bool one_is_on_alternate_stack(uintptr_t a, uintptr_t b)
{
	stack_t s;
	if (!sys_may(SYS_DO_SIGALTSTACK))
		return true; /* nobody can say */
	if (sys_sigaltstack_now(&s) || !(s.ss_flags & SS_ONSTACK))
		return false;
	uintptr_t low = (uintptr_t)s.ss_sp;
	return (a - low < s.ss_size) != (b - low < s.ss_size);
}

NOINLINE bool heft_nested(struct heft_tls *tls, uintptr_t here)
{
	struct heft_thread *t = tls->thread;
	/* The hook's own frame may lie a page deeper than any stack that was walked. */
	if (here >= tls->guard && t && t->stack_top && here < t->stack_top &&
	    heft_near_own_stack(t, tls->guard) && !one_is_on_alternate_stack(here, tls->guard)) {
		/* The frame of that hook is gone. It may have been moving its captures. */
		heft_frames_reset(t, t->frames_memory);
		tls->guard = 0;
		return false;
	}
	if (heft_process && atomic_load(&heft_process->phase) == HEFT_OPEN &&
	    !heft_is_any_allocators_call(((const uintptr_t *)here)[1]))
		atomic_fetch_add_explicit(&heft_process->session.header->reentrant, 1,
					  memory_order_relaxed);
	return true;
}

/* A thread's first frees take a call stack, and then a few do: enough to name who releases a site's blocks,
 * for under a nanosecond a free. Which ones is random, since programs free in patterns. */
enum { FREES_ALL = 32, FREES_OFTEN = 256, OFTEN = 32, SELDOM = 1024 };

NOINLINE void heft_freed_at(struct heft_thread *t, void *p, uintptr_t here)
{
	const uint64_t words[2] = {(uint64_t)p, heft_site(t, here, WIRE_VIA_FREE)};
	t->frees_to_skip = 0;
	t->frees_base++;
	if (t->frees_taken >= FREES_ALL) {
		uint32_t x = t->random ? t->random : (uint32_t)t->last_tsc | 1;
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		t->random = x;
		t->frees_to_skip = x % (2u * (t->frees_taken < FREES_OFTEN ? OFTEN : SELDOM));
		t->frees_base += t->frees_to_skip;
	}
	t->frees_taken++;
	heft_emit_ext(t, WIRE_EXT_FREE_AT, words, 2);
}

NOINLINE void *heft_allocated_unusually(void *p, size_t size, uintptr_t here, unsigned via,
					uint32_t site)
{
	struct heft_tls *tls = heft_tls_now();
	if (!heft_in_arena(p)) {
		if (heft_counts())
			heft_count_new(p, size);
		if (!heft_counts_only() && !heft_is_stopped())
			record_site(tls, WIRE_EXT_ALLOC, p, size, here, via, site);
	}
	leave(tls);
	return p;
}

NOINLINE bool heft_freed_unusually(struct heft_tls *tls, void *p)
{
	heft_followed_ends(tls, p);
	if (heft_counts())
		heft_count_end(p);
	return !heft_counts_only();
}

#define EXACT_HOOK(name, parameters, arguments, size, via)                                         \
	void *heft_exact_##name parameters                                                         \
	{                                                                                          \
		struct heft_tls *tls = heft_tls_now();                                             \
		if (UNLIKELY(!enter(tls, HERE())))                                                 \
			return heft_next.name arguments;                                           \
		uint32_t site = site_before(tls, HERE(), via);                                     \
		return allocated(tls, heft_next.name arguments, size, HERE(), via, site);          \
	}
HEFT_ALLOCATING_FUNCTIONS(EXACT_HOOK)

int heft_exact_posix_memalign(void **out, size_t alignment, size_t size)
{
	struct heft_tls *tls = heft_tls_now();
	if (UNLIKELY(!enter(tls, HERE())))
		return heft_next.posix_memalign(out, alignment, size);
	uint32_t site = site_before(tls, HERE(), WIRE_VIA_POSIX_MEMALIGN);
	int rc = heft_next.posix_memalign(out, alignment, size);
	allocated(tls, rc ? NULL : *out, size, HERE(), WIRE_VIA_POSIX_MEMALIGN, site);
	return rc;
}

/* Its size lies before it, where the real free looks as well. Of other allocators nothing may be there. */
static inline int is_large(const void *p)
{
	return heft_next.is_glibc && UNLIKELY(((const uint64_t *)p)[-1] >= HEFT_LEDGER_BLOCK);
}

/* All that a free may need. heft_exact_free jumps here, so this frame is the hook's. */
static NOINLINE void free_slowly(void *p)
{
	struct heft_tls *tls = heft_tls_now();
	if (!p || UNLIKELY(heft_in_arena(p)))
		return;
	if (is_large(p))
		heft_ledger_before_freeing(p);
	if (LIKELY(enter(tls, HERE()))) {
		freed(tls, p, HERE());
		leave(tls);
	}
	heft_next.free(p);
}

void heft_exact_free(void *p)
{
	struct heft_tls *tls = heft_tls_now();
	struct heft_thread *t = tls->thread;
	if (LIKELY(p && !tls->guard && t && t->pos < t->limit && t->frees_to_skip &&
		   !heft_is_unusual(p) && !is_large(p))) {
		set_guard(tls, HERE());
		bool written = record_address(t, WIRE_FREE, (uint64_t)p);
		leave(tls);
		if (LIKELY(written)) {
			t->frees_to_skip--;
			heft_next.free(p);
			return;
		}
	}
	free_slowly(p);
}

void heft_record_slowly(struct heft_tls *tls, int ext_kind, void *p, size_t size, uintptr_t here,
			unsigned via)
{
	struct heft_thread *t = thread_with_space(tls);
	if (t && heft_calls_wait(tls)) {
		heft_waiting_write(tls, here, heft_site(t, here, WIRE_VIA_FREE));
		t = thread_with_space(tls);
	}
	if (t)
		record_block(t, ext_kind, p, size, usable_bytes(p), heft_site(t, here, via));
}

/* A block of `had` bytes was resized, or could not be. */
static NOINLINE void count_realloc(void *p, size_t had, size_t size)
{
	if (p)
		heft_count_resized(p, had, size);
	else if (!size)
		heft_count_ended(had);
}

/* The real call in the middle is a realloc of `size` bytes in all. */
static inline __attribute__((always_inline)) void *
after_realloc(struct heft_tls *tls, bool announced, void *old, size_t had, void *p, size_t size,
	      uintptr_t here, unsigned via, uint32_t site)
{
	if (!old)
		return allocated(tls, p, size, here, via, site);
	if (UNLIKELY(heft_counts()))
		count_realloc(p, had, size);
	if (UNLIKELY(heft_grown_wants(p, size)) && p)
		heft_grown_add(p, size);
	if (LIKELY(announced && p))
		record_site(tls, WIRE_EXT_REALLOC_END, p, size, here, via, site);
	else if (announced) {
		struct heft_thread *t = thread_with_space(tls);
		if (t && size == 0)
			heft_emit_ext(t, WIRE_EXT_REALLOC_FREED, NULL, 0);
		else if (t)
			heft_emit_address_long(t, WIRE_REALLOC_FAIL, 0, 0);
	}
	leave(tls);
	return p;
}

static inline __attribute__((always_inline)) void *reallocate(void *old, size_t size,
							      uintptr_t here, unsigned via)
{
	struct heft_tls *tls = heft_tls_now();
	bool arena = heft_in_arena(old);
	if (UNLIKELY(!enter(tls, here)))
		return arena ? heft_arena_realloc(old, size) : heft_next.realloc(old, size);
	if (UNLIKELY(arena))
		return allocated(tls, heft_arena_realloc(old, size), size, here, via, HEFT_NO_SITE);
	uint32_t site = site_before(tls, here, via);
	size_t had = UNLIKELY(heft_counts()) && old ? heft_count_size(old) : 0;
	bool announced = announce(tls, old);
	void *p = heft_next.realloc(old, size);
	return after_realloc(tls, announced, old, had, p, size, here, via, site);
}

void *heft_exact_realloc(void *old, size_t size)
{
	return reallocate(old, size, HERE(), WIRE_VIA_REALLOC);
}

/* Once its size is known a reallocarray is a realloc. */
void *heft_exact_reallocarray(void *old, size_t size)
{
	return reallocate(old, size, HERE(), WIRE_VIA_REALLOCARRAY);
}

void heft_after_dlclose(void)
{
	struct heft_process *p = heft_process;
	if (p && atomic_load(&p->phase) == HEFT_OPEN) {
		/* Another library may be loaded where this one was. */
		heft_forget_code();
		atomic_fetch_add(&heft_generation, 1);
		atomic_fetch_add(&p->session.header->flushes, 1);
	}
}
