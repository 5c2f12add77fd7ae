/* strdup and strndup.
 *
 * libc's call malloc: we pass calls on to them, by a jump, and see malloc. An
 * allocator that brings its own (mimalloc from 2.1 on) does not go through malloc:
 * we would miss its blocks, and their frees would be unknown. Then the copy is made
 * here, in a block of the same allocator's malloc. */
#include "capture/hotpath.h"
#include "capture/sample.h"

#include <string.h>

/* The next function, if it can be called; NULL: the copy is made here. */
static inline uintptr_t find(_Atomic uintptr_t *known, const char *name)
{
	uintptr_t v = atomic_load_explicit(known, memory_order_acquire);
	if (UNLIKELY(!v))
		v = heft_own_function(known, name, 0);
	return v & 1 ? 0 : v;
}

static inline __attribute__((always_inline)) char *duplicate(const char *text, size_t length,
							     uintptr_t here)
{
	struct heft_tls *tls = heft_tls_now();
	size_t size = length + 1;
	char *p;
	if (heft_is_sampled()) {
		p = heft_next.malloc(size);
		if (heft_gate_now() == WIRE_GATE_COUNT && !heft_passes(size))
			heft_sample_test(p, size, here, WIRE_VIA_MALLOC);
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
	static _Atomic uintptr_t known;
	uintptr_t next = find(&known, "strdup");
	if (LIKELY(next))
		return ((char *(*)(const char *))next)(text);
	return duplicate(text, strlen(text), HERE());
}

EXPORT char *strndup(const char *text, size_t most)
{
	static _Atomic uintptr_t known;
	uintptr_t next = find(&known, "strndup");
	if (LIKELY(next))
		return ((char *(*)(const char *, size_t))next)(text, most);
	return duplicate(text, strnlen(text, most), HERE());
}
