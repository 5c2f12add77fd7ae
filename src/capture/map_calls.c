/* The functions by which a program maps memory: mmap and its kin, brk, shmat, madvise.
 * Each calls on to libc's, and what succeeded is recorded with its call stack. In a
 * sampled process they only call on.
 *
 * Everybody calls these functions: allocators inside of malloc, which is inside of a
 * hook of ours, and signal handlers that interrupt one. There nothing may be written
 * to the stream. Such a call waits in the thread's memory, and the stream is closed for
 * short records (limit 0), so that the hook takes its slow way (heft_record_slowly) as
 * soon as the real malloc returns. That way writes the waiting calls first, with
 * the call stack of the malloc. So malloc and free pay nothing for all this.
 *
 * A record is written after the real call. The stamp from before it says what the
 * call cannot have taken away: memory that somebody mapped there meanwhile.
 *
 * libc maps memory for itself without calling these functions. Of that the library
 * sees one thing: whether the program's break has moved (heft_break_look). */
#include "capture/hotpath.h"
#include "capture/ledger_request.h"
#include "capture/map_calls.h"
#include "capture/sample.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>

enum { PAGE = 4096 };

static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t);
static void *(*next_mremap)(void *, size_t, size_t, int, void *);
static int (*next_madvise)(void *, size_t, int);
static int (*next_brk)(void *);
static void *(*next_sbrk)(intptr_t);
static void *(*next_shmat)(int, const void *, int);
static int (*next_shmdt)(const void *);
static void *const volatile *libc_break; /* libc's note of the break */

void heft_map_calls_init(void)
{
#define TAKE(name) next_##name = (__typeof__(next_##name))heft_next_symbol(#name)
	TAKE(mmap);
	TAKE(munmap);
	TAKE(mremap);
	TAKE(madvise);
	TAKE(brk);
	TAKE(sbrk);
	TAKE(shmat);
	TAKE(shmdt);
#undef TAKE
	libc_break = (void *const volatile *)heft_next_symbol("__curbrk");
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* ---- records */

/* The process goes on unrecorded. What is missing counts allocations, not these calls. */
static int is_off(void)
{
	struct heft_process *p = heft_process;
	return p && atomic_load_explicit(&p->phase, memory_order_relaxed) == HEFT_OPEN &&
	       atomic_load_explicit(&p->session.header->state, memory_order_relaxed) == WIRE_OFF;
}

/* old: the memory that mremap has moved; else NULL */
static void emit(struct heft_tls *tls, const struct heft_map_call *c,
		 const struct heft_map_call *old, uint32_t site)
{
	struct heft_thread *t = is_off() ? NULL : thread_with_space(tls);
	const uint64_t words[] = {
		c->addr,
		c->bytes,
		wire_map_word(site, (enum wire_map_call)c->call, c->detail),
		c->before,
		old ? old->addr : 0,
		old ? old->bytes : 0,
	};
	if (t)
		heft_emit_ext(t, WIRE_EXT_MAPPING, words, old ? 6 : 4);
}

void heft_waiting_write(struct heft_tls *tls, uintptr_t here, uint32_t site)
{
	struct heft_waiting *w = &tls->waiting;
	uint32_t count = w->count < HEFT_WAITING_MOST ? w->count : HEFT_WAITING_MOST;
	for (uint32_t i = 0; i < count; i++) {
		const struct heft_map_call *c = &w->calls[i];
		bool moves = c->call == WIRE_MAP_MREMAP && ++i < count;
		emit(tls, c, moves ? c + 1 : NULL, here && w->guard == here ? site : 0);
	}
	w->count = 0;
}

/* A hook is under way in this thread. */
static void wait_for_hook(struct heft_tls *tls, const struct heft_map_call *c,
			  const struct heft_map_call *old)
{
	struct heft_waiting *w = &tls->waiting;
	struct heft_thread *t = tls->thread;
	if (w->count + (old != NULL) >= HEFT_WAITING_MOST) {
		if (heft_process && atomic_load(&heft_process->phase) == HEFT_OPEN)
			atomic_fetch_add_explicit(&heft_process->session.header->reentrant, 1,
						  memory_order_relaxed);
		return;
	}
	w->guard = !w->count || w->guard == tls->guard ? tls->guard : 0;
	w->calls[w->count++] = *c;
	if (old)
		w->calls[w->count++] = *old;
	if (t && t->limit) {
		w->limit = t->limit;
		w->chunk = t->chunk;
		t->limit = 0;
	}
}

static NOINLINE void record_both(uintptr_t here, const struct heft_map_call *c,
				 const struct heft_map_call *old)
{
	struct heft_tls *tls = heft_tls_now();
	if (UNLIKELY(tls->guard)) {
		wait_for_hook(tls, c, old);
		return;
	}
	set_guard(tls, here);
	struct heft_thread *t = is_off() ? NULL : thread_with_space(tls);
	if (t) {
		if (UNLIKELY(tls->waiting.count))
			heft_waiting_write(tls, 0, 0);
		emit(tls, c, old, heft_site(t, here, WIRE_VIA_FREE));
	}
	leave(tls);
}

static void record(uintptr_t here, const struct heft_map_call *c)
{
	record_both(here, c, NULL);
}

/* ---- the break */

/* Notes that the break is at `now`. Returns where it was last time; 0: nobody had looked, or another thread has
 * just noted the same. */
static uintptr_t note_break(uintptr_t now)
{
	struct heft_process *p = heft_process;
	if (!p || atomic_load_explicit(&p->phase, memory_order_relaxed) != HEFT_OPEN || !now)
		return 0;
	uintptr_t was = atomic_load_explicit(&p->break_seen, memory_order_relaxed);
	if (was == now || !atomic_compare_exchange_strong(&p->break_seen, &was, now))
		return 0;
	return was;
}

uintptr_t heft_break_now(void)
{
	uintptr_t now = libc_break ? (uintptr_t)*libc_break : 0;
	return now ? now : (uintptr_t)sys_break();
}

void heft_break_look(struct heft_thread *t)
{
	uintptr_t now = libc_break ? (uintptr_t)*libc_break : 0, was = note_break(now);
	if (!atomic_load_explicit(&heft_process->described, memory_order_relaxed) &&
	    !atomic_exchange(&heft_process->described, 1) && heft_next.is_glibc) {
		const uint64_t glibc[] = {0, 0, wire_map_word(0, WIRE_MAP_GLIBC, 0), 0};
		heft_emit_ext(t, WIRE_EXT_MAPPING, glibc, 4);
	}
	if (LIKELY(!was))
		return;
	const uint64_t words[] = {now > was ? was : now, now > was ? now - was : was - now,
				  wire_map_word(0, WIRE_MAP_BREAK_MOVED, now < was), arch_stamp()};
	heft_emit_ext(t, WIRE_EXT_MAPPING, words, 4);
}

void heft_break_look_last(void)
{
	struct heft_tls *tls = heft_tls_now();
	struct heft_process *p = heft_process;
	if (tls->guard || heft_sampling || !sys_may_stamp() || !p ||
	    atomic_load(&p->phase) != HEFT_OPEN || is_off())
		return;
	set_guard(tls, HERE());
	struct heft_thread *t = thread_with_space(tls);
	if (t)
		heft_break_look(t);
	leave(tls);
}

/* The program itself has moved it. */
static NOINLINE void break_moved(uintptr_t here, uintptr_t was, uintptr_t now, uint64_t before)
{
	struct heft_map_call c = {.addr = now > was ? was : now,
				  .bytes = now > was ? now - was : was - now,
				  .call = WIRE_MAP_BRK,
				  .detail = now < was,
				  .before = before};
	note_break(now);
	if (now != was)
		record(here, &c);
}

/* ---- the functions */

/* Whether calls are to be recorded. */
static inline int recorded(void)
{
	return !heft_is_sampled() && sys_may_stamp();
}

/* An allocator's own mmap may be the next one, and make the call by number (tcmalloc): that is the same call. */
#define CALL_ON(call)                                                                              \
	({                                                                                         \
		struct heft_tls *tls_ = heft_tls_now();                                            \
		tls_->waiting.maps = 1;                                                            \
		__auto_type result_ = (call);                                                      \
		tls_->waiting.maps = 0;                                                            \
		result_;                                                                           \
	})

static uint32_t detail_of_mmap(int prot, int flags)
{
	return ((uint32_t)flags & ((1u << WIRE_MAP_PROT_SHIFT) - 1)) |
	       (uint32_t)(prot & 7) << WIRE_MAP_PROT_SHIFT;
}

static void mapped(uintptr_t here, void *p, size_t bytes, int prot, int flags)
{
	const struct heft_map_call c = {.addr = (uintptr_t)p,
					.bytes = whole_pages(bytes),
					.call = WIRE_MAP_MMAP,
					.detail = detail_of_mmap(prot, flags),
					.before = arch_stamp()};
	record(here, &c);
}

/* Both names are one function: files of any size are no option on 64 bits. */
#define MMAP(name)                                                                                 \
	EXPORT void *heft_##name(void *at, size_t bytes, int prot, int flags, int fd,              \
				 off_t offset) __asm__(#name);                                     \
	EXPORT void *heft_##name(void *at, size_t bytes, int prot, int flags, int fd,              \
				 off_t offset)                                                     \
	{                                                                                          \
		heft_resolve_next();                                                               \
		if ((flags & MAP_FIXED) && recorded())                                             \
			heft_ledger_before_giving_back(bytes);                                     \
		void *p = next_mmap ? CALL_ON(next_mmap(at, bytes, prot, flags, fd, offset))       \
				    : (void *)heft_as_libc(sys_call6(SYS_mmap, (long)at,           \
								     (long)bytes, prot, flags, fd, \
								     offset));                     \
		if (p != MAP_FAILED && recorded())                                                 \
			mapped(HERE(), p, bytes, prot, flags);                                     \
		return p;                                                                          \
	}
MMAP(mmap)
MMAP(mmap64)
#undef MMAP

static void unmapped(uintptr_t here, const void *p, size_t bytes, enum wire_map_call call,
		     uint64_t before)
{
	const struct heft_map_call c = {.addr = (uintptr_t)p,
					.bytes = whole_pages(bytes),
					.call = (uint32_t)call,
					.before = before};
	record(here, &c);
}

EXPORT int munmap(void *at, size_t bytes)
{
	heft_resolve_next();
	int on = recorded();
	if (on)
		heft_ledger_before_giving_back(bytes);
	uint64_t before = on ? arch_stamp() : 0;
	int rc = next_munmap
			 ? CALL_ON(next_munmap(at, bytes))
			 : (int)heft_as_libc(sys_call4(SYS_munmap, (long)at, (long)bytes, 0, 0));
	if (!rc && on && recorded())
		unmapped(HERE(), at, bytes, WIRE_MAP_MUNMAP, before);
	return rc;
}

/* An old length of 0 asks for a second view of shared memory; the first one stays. */
static void remapped(uintptr_t here, void *old, size_t old_bytes, void *p, size_t bytes, int flags,
		     uint64_t before)
{
	const struct heft_map_call c = {.addr = (uintptr_t)p,
					.bytes = whole_pages(bytes),
					.call = WIRE_MAP_MREMAP,
					.before = before};
	const struct heft_map_call from = {
		.addr = (uintptr_t)old,
		.bytes = flags & MREMAP_DONTUNMAP ? 0 : whole_pages(old_bytes),
		.call = WIRE_MAP_CALLS};
	record_both(here, &c, &from);
}

/* libc's header declares the last argument with "...". */
EXPORT void *heft_mremap(void *old, size_t old_bytes, size_t bytes, int flags,
			 void *to) __asm__("mremap");

EXPORT void *heft_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
	heft_resolve_next();
	int on = recorded();
	if (on && bytes < old_bytes)
		heft_ledger_before_giving_back(old_bytes - bytes);
	uint64_t before = on ? arch_stamp() : 0;
	void *p = next_mremap
			  ? CALL_ON(next_mremap(old, old_bytes, bytes, flags, to))
			  : (void *)heft_as_libc(sys_call6(SYS_mremap, (long)old, (long)old_bytes,
							   (long)bytes, flags, (long)to, 0));
	if (p != MAP_FAILED && on && recorded())
		remapped(HERE(), old, old_bytes, p, bytes, flags, before);
	return p;
}

static void advised(uintptr_t here, void *at, size_t bytes, int advice)
{
	const struct heft_map_call c = {.addr = (uintptr_t)at,
					.bytes = whole_pages(bytes),
					.call = WIRE_MAP_MADVISE,
					.detail = (uint32_t)advice,
					.before = arch_stamp()};
	record(here, &c);
}

static bool gives_back(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE;
}

EXPORT int madvise(void *at, size_t bytes, int advice)
{
	heft_resolve_next();
	if (gives_back(advice) && recorded())
		heft_ledger_before_giving_back(bytes);
	int rc = next_madvise ? CALL_ON(next_madvise(at, bytes, advice))
			      : (int)heft_as_libc(
					sys_call4(SYS_madvise, (long)at, (long)bytes, advice, 0));
	if (!rc && recorded())
		advised(HERE(), at, bytes, advice);
	return rc;
}

EXPORT int brk(void *to)
{
	heft_resolve_next();
	if (!next_brk || !next_sbrk) {
		errno = ENOMEM; /* only while libc's functions are looked up */
		return -1;
	}
	int on = recorded();
	uint64_t before = on ? arch_stamp() : 0;
	uintptr_t was = on ? (uintptr_t)next_sbrk(0) : 0;
	int rc = next_brk(to);
	if (!rc && on && recorded())
		break_moved(HERE(), was, (uintptr_t)next_sbrk(0), before); /* it may have stayed */
	return rc;
}

EXPORT void *sbrk(intptr_t more)
{
	heft_resolve_next();
	if (!next_sbrk) {
		errno = ENOMEM;
		return (void *)-1;
	}
	int on = more && recorded();
	uint64_t before = on ? arch_stamp() : 0;
	void *was = next_sbrk(more);
	if (was != (void *)-1 && on && recorded())
		break_moved(HERE(), (uintptr_t)was, (uintptr_t)was + (uintptr_t)more, before);
	return was;
}

/* Only the kernel knows how large the memory is. In a sandbox heft does not ask. */
static NOINLINE void attached(uintptr_t here, int id, const void *p)
{
	struct shmid_ds facts;
	uint64_t bytes = 0;
	if (!heft_sandbox_has_filter() && sys_call4(SYS_shmctl, id, IPC_STAT, (long)&facts, 0) >= 0)
		bytes = whole_pages(facts.shm_segsz);
	const struct heft_map_call c = {.addr = (uintptr_t)p,
					.bytes = bytes,
					.call = WIRE_MAP_SHMAT,
					.before = arch_stamp()};
	record(here, &c);
}

EXPORT void *shmat(int id, const void *at, int flags)
{
	heft_resolve_next();
	void *p = next_shmat ? CALL_ON(next_shmat(id, at, flags))
			     : (void *)heft_as_libc(sys_call4(SYS_shmat, id, (long)at, flags, 0));
	if (p != (void *)-1 && recorded())
		attached(HERE(), id, p);
	return p;
}

EXPORT int shmdt(const void *at)
{
	heft_resolve_next();
	int on = recorded();
	uint64_t before = on ? arch_stamp() : 0;
	int rc = next_shmdt ? next_shmdt(at)
			    : (int)heft_as_libc(sys_call4(SYS_shmdt, (long)at, 0, 0, 0));
	if (!rc && on && recorded())
		unmapped(HERE(), at, 0, WIRE_MAP_SHMDT, before);
	return rc;
}

/* The same calls by number: syscall() jumps here (sandbox.c). */
long heft_syscall_that_maps(long n, long a, long b, long c, long d, long e, long f)
{
	heft_resolve_next();
	int on = recorded() && !heft_tls_now()->waiting.maps;
	if (on && (n == SYS_munmap || (n == SYS_madvise && gives_back((int)c))))
		heft_ledger_before_giving_back((size_t)b);
	uint64_t before = on ? arch_stamp() : 0;
	uintptr_t was = on && n == SYS_brk ? (uintptr_t)sys_break() : 0;
	long rc = heft_next_syscall(n, a, b, c, d, e, f);
	if (rc == -1 || !on || !recorded())
		return rc;
	switch (n) {
	case SYS_mmap: mapped(HERE(), (void *)rc, (size_t)b, (int)c, (int)d); break;
	case SYS_munmap: unmapped(HERE(), (void *)a, (size_t)b, WIRE_MAP_MUNMAP, before); break;
	case SYS_mremap:
		remapped(HERE(), (void *)a, (size_t)b, (void *)rc, (size_t)c, (int)d, before);
		break;
	case SYS_madvise: advised(HERE(), (void *)a, (size_t)b, (int)c); break;
	case SYS_brk:
		if (was)
			break_moved(HERE(), was, (uintptr_t)rc, before);
		break;
	case SYS_shmat: attached(HERE(), (int)a, (void *)rc); break;
	default: break;
	}
	return rc;
}
