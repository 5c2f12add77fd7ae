/* How much of a grown array is used. An array that doubles is on average a
 * quarter empty, and only its contents show that. So we remember a large block that a
 * realloc made larger, and when it is freed, count the zero words at its end. Memory
 * fresh from the kernel is zero; the used part ends in something else.
 *
 * Thousands of small arrays may hold more unused space than one large one. We remember
 * one in 64 of them, chosen by address, and measure it in the same way; the reader takes
 * their share for that of all. A small block may have been used before by another one,
 * whose bytes are still there: the share is then too small, never too large.
 *
 * The block is still the program's while it calls free(), so it stays mapped. But the
 * program may have protected some of its pages (a guard at the end), so we ask the
 * kernel about each page of a large block before we read it. A small one is read only
 * within the page of its header, which free() reads too: a program's filter of system
 * calls may not allow for the question. At the end of the process another thread
 * could free a block while we read it; so with several threads we read none then. And a
 * block may have been freed past us (by the free of libc itself), so we do not ask the
 * allocator about it: it would take what is there now for its own.
 *
 * The tables are small and newer blocks replace older ones: this measures the blocks
 * that matter and does not record all. */
#include "capture/hotpath.h"

enum { SLOTS = HEFT_GROWN_SLOTS, LOOK_AT_MOST = 8 << 20, PAGE = 4096 };

struct heft_grown heft_grown[HEFT_GROWN_SLOTS];

static _Atomic uint16_t *count_of(unsigned slot)
{
	return slot < HEFT_GROWN_LARGE_SLOTS ? &heft_unusual.grown_large
					     : &heft_unusual.grown_small;
}

void heft_grown_add(const void *p, size_t size)
{
	uint64_t hash = heft_grown_hash(p);
	unsigned i = size >= HEFT_GROWN_LARGE ? heft_grown_large_slot(hash)
					      : heft_grown_small_slot(hash);
	atomic_store_explicit(&heft_grown[i].size, size, memory_order_relaxed);
	if (!atomic_exchange_explicit(&heft_grown[i].addr, (uintptr_t)p, memory_order_relaxed))
		atomic_fetch_add_explicit(count_of(i), 1, memory_order_relaxed);
}

/* Removes a block. Returns its size; 0: it was not there. */
static size_t take(const void *p)
{
	uint64_t hash = heft_grown_hash(p);
	unsigned i = heft_grown_is_in(heft_grown_large_slot(hash), p) ? heft_grown_large_slot(hash)
								      : heft_grown_small_slot(hash);
	uintptr_t addr = (uintptr_t)p;
	size_t size = atomic_load_explicit(&heft_grown[i].size, memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&heft_grown[i].addr, &addr, 0,
						     memory_order_relaxed, memory_order_relaxed))
		return 0;
	atomic_fetch_sub_explicit(count_of(i), 1, memory_order_relaxed);
	return size;
}

void heft_grown_forget(const void *p)
{
	take(p);
}

/* Whether glibc's size before the block fits the size that we remember. malloc_usable_size would read the
 * header of the next block as well, which the program may have protected. */
static int is_still_there(const void *p, size_t size)
{
	const uint64_t chunk = ((const uint64_t *)p)[-1], whole = chunk & ~7ull;
	const int mapped = (chunk & 2) != 0;
	const uint64_t header = mapped ? 16 : 8, most = mapped ? 2 * PAGE : 64;
	return whole >= header && size <= whole - header && whole - size <= most;
}

static void measure(struct heft_thread *t, const void *p, size_t size)
{
	const uintptr_t first = ((uintptr_t)p - 8) / PAGE, last = ((uintptr_t)p + size - 1) / PAGE;
	const int asks = size >= HEFT_GROWN_LARGE;
	if (!asks && first != last)
		return;
	size_t count = size / sizeof(uint64_t);
	size_t least = size > LOOK_AT_MOST ? count - LOOK_AT_MOST / sizeof(uint64_t) : 0;
	const uint64_t *data = p;
	size_t used = count;
	uintptr_t page = 0;
	for (; used > least; used--) {
		uintptr_t at = (uintptr_t)&data[used - 1];
		if (UNLIKELY(at / PAGE != page)) {
			page = at / PAGE;
			if (asks && !sys_readable(&data[used - 1]))
				return; /* the program has protected it: not known */
		}
		if (data[used - 1])
			break;
	}
	if (!used)
		return; /* all zero: never used, or an array of zeros. Not known */
	const uint64_t words[2] = {(uint64_t)p, size - used * sizeof(uint64_t)};
	heft_emit_ext(t, WIRE_EXT_UNUSED, words, 2);
}

NOINLINE void heft_grown_freed(struct heft_tls *tls, const void *p)
{
	size_t size = take(p);
	/* The usable size is the limit, whatever the table says. */
	if (!size || (heft_next.is_glibc
			      ? !is_still_there(p, size)
			      : !heft_next.usable || size > heft_next.usable((void *)(uintptr_t)p)))
		return;
	struct heft_thread *t = thread_with_space(tls);
	if (t)
		measure(t, p, size);
}

static __attribute__((destructor)) void at_exit(void)
{
	struct heft_tls *tls = heft_tls_now();
	struct heft_process *p = heft_process;
	if (!p || atomic_load(&p->phase) != HEFT_OPEN || atomic_load(&heft_several_threads) ||
	    !(atomic_load(&heft_unusual.grown_large) + atomic_load(&heft_unusual.grown_small)) ||
	    !enter(tls, HERE()))
		return;
	/* Another allocator must be asked for the size; only few blocks are large. */
	unsigned slots = heft_next.is_glibc ? SLOTS : HEFT_GROWN_LARGE_SLOTS;
	for (unsigned i = 0; i < slots; i++) {
		const void *block = (const void *)atomic_load(&heft_grown[i].addr);
		/* A free that we did not record (inside a hook) may have unmapped it. */
		if (block && sys_readable((const uint64_t *)block - 1))
			heft_grown_freed(tls, block);
	}
	leave(tls);
}
