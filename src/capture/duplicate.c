/* strdup and strndup.
 *
 * libc's call malloc: those are passed on to, by a jump, and seen there. An
 * allocator that brings its own (mimalloc from 2.1 on) does not go through malloc:
 * its blocks would be missed and their frees would be unknown. Then the copy is
 * made here, in a block of the same allocator's malloc.
 *
 * Which of the two it is shows in where the next function lives, as for operator
 * new (cxx.c): in the object that has the next malloc, and this is not libc. */
#include "capture/hotpath.h"
#include "capture/sample.h"

#include <dlfcn.h>
#include <string.h>

enum duplicate { STRDUP, STRNDUP, DUPLICATES }; /* the order of `names` */
static const char *const names[DUPLICATES] = {"strdup", "strndup"};

/* Low bit set: the function is the allocator's own, so its work is done here. */
static _Atomic uintptr_t next_function[DUPLICATES];

static bool in_one_object(const void *f, const void *g)
{
	struct dl_find_object a, b;
	return !_dl_find_object((void *)f, &a) && !_dl_find_object((void *)g, &b) &&
	       a.dlfo_link_map == b.dlfo_link_map;
}

static NOINLINE uintptr_t resolve(enum duplicate which)
{
	struct heft_tls *tls = &heft_tls;
	uintptr_t guard = tls->guard;
	tls->guard = guard ? guard : (uintptr_t)__builtin_frame_address(0);
	heft_resolve_next();
	void *f = heft_next_symbol(names[which]);
	tls->guard = guard;
	/* dlsym is libc's. A function that cannot be found is done without. */
	bool own = !f || (in_one_object(f, (const void *)heft_next.malloc) &&
			  !in_one_object(f, (const void *)dlsym));
	uintptr_t v = (uintptr_t)f | own;
	atomic_store_explicit(&next_function[which], v, memory_order_release);
	return v;
}

static inline uintptr_t find(enum duplicate which)
{
	uintptr_t v = atomic_load_explicit(&next_function[which], memory_order_acquire);
	return LIKELY(v) ? v : resolve(which);
}

static inline __attribute__((always_inline)) char *duplicate(const char *text, size_t length,
							     uintptr_t here)
{
	struct heft_tls *tls = &heft_tls;
	size_t size = length + 1;
	char *p;
	if (heft_sampling) {
		p = heft_next.malloc(size);
		if (heft_gate_now() == WIRE_GATE_COUNT && !heft_passes(size))
			heft_sample_taken(p, size, here, WIRE_VIA_MALLOC);
	} else if (UNLIKELY(!enter(tls, here))) {
		p = heft_next.malloc(size);
	} else {
		uint32_t site = site_before(tls, here, WIRE_VIA_MALLOC);
		p = allocated(tls, heft_next.malloc(size), size, here, WIRE_VIA_MALLOC, site);
	}
	if (p) {
		memcpy(p, text, length);
		p[length] = 0;
	}
	return p;
}

EXPORT char *strdup(const char *text)
{
	uintptr_t v = find(STRDUP);
	if (LIKELY(!(v & 1)))
		return ((char *(*)(const char *))v)(text);
	return duplicate(text, strlen(text), HERE());
}

EXPORT char *strndup(const char *text, size_t most)
{
	uintptr_t v = find(STRNDUP);
	if (LIKELY(!(v & 1)))
		return ((char *(*)(const char *, size_t))v)(text, most);
	return duplicate(text, strnlen(text, most), HERE());
}
