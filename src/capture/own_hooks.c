/* The hooks of other allocators' functions, exact and sampled (own_entry.c leads here).
 * They do what hooks.c and sample_hooks.c do for malloc, with three differences:
 *
 *   - the real free is called with the guard set: operator delete may call free, which
 *     is hooked too, and must not count twice;
 *   - functions that may throw are not called from here: their twin is, and only if
 *     that has no memory we jump to them, and they throw (passed_on_own_throwing);
 *   - the allocator is asked for a block's usable size, if it has a function for that;
 *     nothing is known of what lies before a block.
 *
 * A nested call jumps to the real function, so that no frame of ours is on the stack. */
#include "capture/hotpath.h"
#include "capture/own.h"
#include "capture/sample.h"

#include <string.h>

static inline uint64_t own_usable(const struct wire_blob_entry *entry, uint64_t p)
{
	uint64_t (*usable)(uint64_t) = (__typeof__(usable))(uintptr_t)entry->usable;
	return usable ? usable(p) : WIRE_USABLE_UNKNOWN;
}

static void own_record(struct heft_tls *tls, const struct wire_blob_entry *entry, int ext_kind,
		       uint64_t p, size_t size, uintptr_t here, uint32_t site)
{
	struct heft_thread *t = tls->thread;
	if (UNLIKELY(site == HEFT_NO_SITE || t->pos >= t->limit)) {
		t = thread_with_space(tls);
		if (!t)
			return;
		site = heft_site(t, here, entry->via);
	}
	record_block(t, ext_kind, (void *)p, size, own_usable(entry, p), site);
}

/* ---- exact */

/* size: an expression that may use p, the new block */
#define EXACT_OWN(name, call, block, size)                                                         \
	uint64_t heft_exact_##name(OWN_PARAMETERS)                                                 \
	{                                                                                          \
		struct heft_tls *tls = heft_tls_now();                                             \
		if (UNLIKELY(!enter(tls, HERE())))                                                 \
			return OWN_NEXT();                                                         \
		uint32_t site = site_before(tls, HERE(), entry->via);                              \
		uint64_t result = call, p = block;                                                 \
		if (LIKELY(p))                                                                     \
			own_record(tls, entry, WIRE_EXT_ALLOC, p, size, HERE(), site);             \
		leave(tls);                                                                        \
		return result;                                                                     \
	}
EXACT_OWN(own_allocate, OWN_NEXT(), result, OWN_SIZE())
EXACT_OWN(own_string, OWN_NEXT(), result, strlen((const char *)p) + 1)
EXACT_OWN(own_posix_memalign, OWN_NEXT(), (int)result ? 0 : *(const uint64_t *)a, OWN_SIZE())

uint64_t heft_exact_own_new(OWN_PARAMETERS)
{
	struct heft_tls *tls = heft_tls_now();
	if (UNLIKELY(!enter(tls, HERE())))
		return OWN_NEXT();
	uint32_t site = site_before(tls, HERE(), entry->via);
	uint64_t p = OWN_TWIN();
	if (LIKELY(p))
		own_record(tls, entry, WIRE_EXT_ALLOC, p, OWN_SIZE(), HERE(), site);
	leave(tls);
	return LIKELY(p) ? p : OWN_NEXT();
}

/* What became of an old block that was announced: p is the block now, 0: it is as it was, or freed. */
static void own_resized(struct heft_tls *tls, const struct wire_blob_entry *entry, bool announced,
			uint64_t p, size_t size, bool freed_it, uintptr_t here, uint32_t site)
{
	struct heft_thread *t;
	if (announced && p)
		own_record(tls, entry, WIRE_EXT_REALLOC_END, p, size, here, site);
	else if (announced && (t = thread_with_space(tls))) {
		if (freed_it)
			heft_emit_ext(t, WIRE_EXT_REALLOC_FREED, NULL, 0);
		else
			heft_emit_address_long(t, WIRE_REALLOC_FAIL, 0, 0);
	}
}

static inline __attribute__((always_inline)) uint64_t own_reallocate(OWN_PARAMETERS, bool or_free,
								     uintptr_t here)
{
	struct heft_tls *tls = heft_tls_now();
	if (UNLIKELY(!enter(tls, here)))
		return OWN_NEXT();
	void *old = OWN_OLD();
	size_t size = OWN_SIZE();
	uint32_t site = site_before(tls, here, entry->via);
	bool announced = announce(tls, old);
	uint64_t p = entry->twin ? OWN_TWIN() : OWN_NEXT();
	if (old)
		own_resized(tls, entry, announced, p, size, or_free || !size, here, site);
	else if (p)
		own_record(tls, entry, WIRE_EXT_ALLOC, p, size, here, site);
	leave(tls);
	return LIKELY(p || !entry->twin) ? p : OWN_NEXT();
}

uint64_t heft_exact_own_reallocate(OWN_PARAMETERS)
{
	return own_reallocate(OWN_ARGUMENTS, false, HERE());
}

uint64_t heft_exact_own_reallocate_or_free(OWN_PARAMETERS)
{
	return own_reallocate(OWN_ARGUMENTS, true, HERE());
}

/* has: an expression that says of `result` whether the block has its new size */
#define EXACT_OWN_RESIZE(name, has)                                                                \
	uint64_t heft_exact_##name(OWN_PARAMETERS)                                                 \
	{                                                                                          \
		struct heft_tls *tls = heft_tls_now();                                             \
		void *old = OWN_OLD();                                                             \
		if (UNLIKELY(!old || !enter(tls, HERE())))                                         \
			return OWN_NEXT();                                                         \
		size_t size = OWN_SIZE();                                                          \
		uint32_t site = site_before(tls, HERE(), entry->via);                              \
		bool announced = announce(tls, old);                                               \
		uint64_t result = OWN_NEXT();                                                      \
		own_resized(tls, entry, announced, (has) ? (uintptr_t)old : 0, size, false,        \
			    HERE(), site);                                                         \
		leave(tls);                                                                        \
		return result;                                                                     \
	}
EXACT_OWN_RESIZE(own_expand, result != 0)
EXACT_OWN_RESIZE(own_xallocx, result >= size)

uint64_t heft_exact_own_free(OWN_PARAMETERS)
{
	struct heft_tls *tls = heft_tls_now();
	void *p = OWN_OLD();
	if (UNLIKELY(!p || !enter(tls, HERE())))
		return OWN_NEXT();
	freed(tls, p, HERE());
	uint64_t result = OWN_NEXT();
	leave(tls);
	return result;
}

/* ---- sampled */

#define SAMPLED_OWN(name, block, size)                                                             \
	uint64_t heft_sampled_##name(OWN_PARAMETERS)                                               \
	{                                                                                          \
		uint64_t result = HEFT_WAITED_FOR(uint64_t, OWN_NEXT()), p = block;                \
		heft_sample_test((void *)p, size, HERE(), entry->via);                             \
		return result;                                                                     \
	}
SAMPLED_OWN(own_allocate, result, OWN_SIZE())
SAMPLED_OWN(own_posix_memalign, (int)result ? 0 : *(const uint64_t *)a, OWN_SIZE())

uint64_t heft_sampled_own_string(OWN_PARAMETERS)
{
	uint64_t p = HEFT_WAITED_FOR(uint64_t, OWN_NEXT());
	size_t size = p ? strlen((const char *)p) + 1 : 0;
	if (p && !heft_passes(size))
		heft_sample_test((void *)p, size, HERE(), entry->via);
	return p;
}

uint64_t heft_sampled_own_new(OWN_PARAMETERS)
{
	uint64_t p = HEFT_WAITED_FOR(uint64_t, OWN_TWIN());
	heft_sample_test((void *)p, OWN_SIZE(), HERE(), entry->via);
	return p ? p : OWN_NEXT();
}

/* Whether the result of a call says that the old block has its new size; *block: where. */
static inline bool has_resized(const struct wire_blob_entry *entry, uint64_t result, void *old,
			       size_t size, void **block)
{
	bool in_place = entry->hook == WIRE_BLOB_OWN_EXPAND || entry->hook == WIRE_BLOB_OWN_XALLOCX;
	*block = in_place ? old : (void *)result;
	return entry->hook == WIRE_BLOB_OWN_XALLOCX ? old && result >= size : result && *block;
}

/* All but a call that may throw; hook: the hook's frame. */
static NOINLINE uint64_t heft_sampled_resize(OWN_PARAMETERS, uintptr_t hook)
{
	struct wire_sample was;
	void *old = OWN_OLD(), *block;
	size_t size = OWN_SIZE();
	bool stays = entry->hook == WIRE_BLOB_OWN_REALLOCATE
			     ? size
			     : entry->hook != WIRE_BLOB_OWN_REALLOCATE_OR_FREE;
	/* Before the call: from then on the address may be somebody else's. */
	int sampled = old && heft_sample_remove(old, &was);
	uint64_t result = HEFT_WAITED_FOR(uint64_t, entry->twin ? OWN_TWIN() : OWN_NEXT());
	if (has_resized(entry, result, old, size, &block)) {
		if (!heft_passes(size))
			heft_sample_test(block, size, hook, entry->via);
	} else if (sampled && stays) {
		heft_sample_restore(old, &was);
	}
	return result;
}

#define SAMPLED_OWN_RESIZE(name)                                                                   \
	uint64_t heft_sampled_##name(OWN_PARAMETERS)                                               \
	{                                                                                          \
		uint64_t result = heft_sampled_resize(OWN_ARGUMENTS, HERE());                      \
		return LIKELY(result || !entry->twin) ? result : OWN_NEXT();                       \
	}
SAMPLED_OWN_RESIZE(own_reallocate)
SAMPLED_OWN_RESIZE(own_reallocate_or_free)
SAMPLED_OWN_RESIZE(own_expand)
SAMPLED_OWN_RESIZE(own_xallocx)

static NOINLINE void own_forget(void *p)
{
	struct wire_sample was;
	heft_sample_remove(p, &was);
}

uint64_t heft_sampled_own_free(OWN_PARAMETERS)
{
	own_forget(OWN_OLD());
	return OWN_NEXT();
}
