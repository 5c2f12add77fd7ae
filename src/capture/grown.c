/* How much of a grown array is used. An array that doubles is on average a
 * quarter empty, and only its contents tell: so a large block that a realloc made
 * larger is remembered, and when it is freed, the zero words at its end are
 * counted. Memory fresh from the kernel is zero; a used one ends in something.
 *
 * The block is still the program's property while free() is being called, so it
 * stays mapped. But the program may have protected some of its pages (a guard at
 * the end), so the kernel is asked about each page before it is looked at. At the
 * end of the process blocks stay only as long as no other thread can free them
 * meanwhile; so with several threads nothing is looked at then.
 *
 * The table is small and newer blocks replace older ones: this is a measurement
 * of the blocks that matter, not a record of all. */
#include "capture/hotpath.h"

enum { SLOTS = HEFT_GROWN_SLOTS, LOOK_AT_MOST = 8 << 20, PAGE = 4096 };

struct heft_grown heft_grown[HEFT_GROWN_SLOTS];

void heft_grown_add(const void *p, size_t size)
{
	unsigned i = heft_grown_slot(p);
	atomic_store_explicit(&heft_grown[i].size, size, memory_order_relaxed);
	if (!atomic_exchange_explicit(&heft_grown[i].addr, (uintptr_t)p, memory_order_relaxed))
		atomic_fetch_add_explicit(&heft_unusual.grown_blocks, 1, memory_order_relaxed);
}

/* Its size if it was there; 0. */
static size_t take(const void *p)
{
	unsigned i = heft_grown_slot(p);
	uintptr_t addr = (uintptr_t)p;
	size_t size = atomic_load_explicit(&heft_grown[i].size, memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&heft_grown[i].addr, &addr, 0, memory_order_relaxed,
						     memory_order_relaxed))
		return 0;
	atomic_fetch_sub_explicit(&heft_unusual.grown_blocks, 1, memory_order_relaxed);
	return size;
}

void heft_grown_forget(const void *p)
{
	take(p);
}

static void measure(struct heft_thread *t, const void *p, size_t size)
{
	size_t words = size / sizeof(uint64_t);
	size_t least = size > LOOK_AT_MOST ? words - LOOK_AT_MOST / sizeof(uint64_t) : 0;
	const uint64_t *data = p;
	size_t used = words;
	uintptr_t page = 0;
	for (; used > least; used--) {
		uintptr_t at = (uintptr_t)&data[used - 1];
		if (UNLIKELY(at / PAGE != page)) {
			page = at / PAGE;
			if (!sys_readable(&data[used - 1]))
				return; /* protected by the program: nobody knows */
		}
		if (data[used - 1])
			break;
	}
	if (!used)
		return; /* all zero: untouched, or an array of zeros. Who knows */
	const uint64_t told[2] = {(uint64_t)p, size - used * sizeof(uint64_t)};
	heft_emit_ext(t, WIRE_EXT_UNUSED, told, 2);
}

NOINLINE void heft_grown_freed(struct heft_tls *tls, const void *p)
{
	size_t size = take(p);
	/* The usable size bounds it, whatever the table says. */
	if (!size || !heft_next.usable || size > heft_next.usable((void *)(uintptr_t)p))
		return;
	struct heft_thread *t = room(tls);
	if (t)
		measure(t, p, size);
}

static __attribute__((destructor)) void at_exit(void)
{
	struct heft_tls *tls = &heft_tls;
	struct heft_process *p = heft_process;
	if (!p || atomic_load(&p->phase) != HEFT_OPEN || atomic_load(&heft_several) ||
	    !atomic_load(&heft_unusual.grown_blocks) || !enter(tls, HERE()))
		return;
	for (unsigned i = 0; i < SLOTS; i++) {
		const void *block = (const void *)atomic_load(&heft_grown[i].addr);
		/* A free that passed heft by (from inside a hook) may have unmapped it. */
		if (block && sys_readable((const uint64_t *)block - 1))
			heft_grown_freed(tls, block);
	}
	leave(tls);
}
