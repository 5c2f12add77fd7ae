/* Stacks that a program gives to its threads.
 *
 * libc puts a closed page below the stack of a thread, so nobody takes what lies below
 * for a part of it. A program that brings the memory itself (pthread_attr_setstack) has
 * none: another stack may lie right there, and nothing tells them apart (unwind.c). So
 * pthread_create is interposed. It notes such memory before the thread begins. After
 * the call it reads nothing: by then the thread may have freed what the call was given.
 *
 * The table keeps the last ones. An entry stays when its thread has ended, and the memory
 * may become something else; so an entry can only say that a place is not on a stack. */
#include "capture/inside.h"

#include <errno.h>
#include <pthread.h>

enum { PLACES = 256 };

static struct {
	_Atomic uintptr_t low, end;
} given[PLACES];
static _Atomic uint32_t count; /* of all so far */

static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

void heft_thread_stacks_init(void)
{
	next_create = (__typeof__(next_create))heft_next_symbol("pthread_create");
}

static unsigned places_in_use(void)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_relaxed);
	return n < PLACES ? n : PLACES;
}

uintptr_t heft_given_stack_low(uintptr_t thread)
{
	for (unsigned i = 0, n = places_in_use(); i < n; i++) {
		uintptr_t low = atomic_load_explicit(&given[i].low, memory_order_relaxed);
		if (thread >= low &&
		    thread < atomic_load_explicit(&given[i].end, memory_order_relaxed))
			return low;
	}
	return 0;
}

static void note_stack(uintptr_t low, uintptr_t end)
{
	unsigned at = 0;
	for (unsigned n = places_in_use(); at < n; at++)
		if (atomic_load(&given[at].low) < end && low < atomic_load(&given[at].end))
			break; /* memory that was a stack before */
	if (at == places_in_use())
		at = atomic_fetch_add(&count, 1) % PLACES;
	atomic_store(&given[at].end, 0);
	atomic_store(&given[at].low, low);
	atomic_store(&given[at].end, end);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*start)(void *), void *argument)
{
	void *low = NULL;
	size_t bytes = 0;
	heft_resolve_next();
	if (!next_create)
		return EAGAIN;
	/* Attributes without a stack have the address 0 less the size. */
	if (attributes && !pthread_attr_getstack(attributes, &low, &bytes) && low &&
	    (uintptr_t)low + bytes > (uintptr_t)low)
		note_stack((uintptr_t)low, (uintptr_t)low + bytes);
	return next_create(thread, attributes, start, argument);
}
