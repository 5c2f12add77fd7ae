/* Where the entries of other allocators' functions lead to. In a sampled process they
 * count bytes down, in an exact one they jump to own_hooks.c.
 *
 * Unlike malloc, such a function often calls another one that is hooked as well
 * (mi_malloc_aligned calls mi_malloc, operator new calls malloc). So a call that counts
 * is waited for, with `inside` set: what it calls does not count again.
 *
 * Built without frame pointers, as entry.c is. */
#include "capture/own.h"
#include "capture/sample.h"

static NOINLINE uint64_t passed_on_own(OWN_PARAMETERS)
{
	return HEFT_WAITED_FOR(uint64_t, OWN_NEXT());
}

/* An exception cannot pass a frame of the blob: nobody could unwind it. So the function that throws is called
 * without one, when the twin has shown that there is no memory. */
static NOINLINE uint64_t passed_on_own_throwing(OWN_PARAMETERS)
{
	uint64_t p = HEFT_WAITED_FOR(uint64_t, OWN_TWIN());
	return p ? p : OWN_NEXT();
}

#define OWN_ENTRY(name, counted, passed)                                                           \
	uint64_t heft_blob_##name(OWN_PARAMETERS)                                                  \
	{                                                                                          \
		switch (heft_gate_now()) {                                                         \
		case WIRE_GATE_PASS: return OWN_NEXT();                                            \
		case WIRE_GATE_EXACT: return heft_exact_##name(OWN_ARGUMENTS);                     \
		default: return LIKELY(counted) ? passed : heft_sampled_##name(OWN_ARGUMENTS);     \
		}                                                                                  \
	}
OWN_ENTRY(own_allocate, heft_passes(OWN_SIZE()), passed_on_own(OWN_ARGUMENTS))
OWN_ENTRY(own_posix_memalign, heft_passes(OWN_SIZE()), passed_on_own(OWN_ARGUMENTS))
OWN_ENTRY(own_new, heft_passes(OWN_SIZE()), passed_on_own_throwing(OWN_ARGUMENTS))
/* Its size is known when it is there. */
OWN_ENTRY(own_string, 0, OWN_NEXT())
OWN_ENTRY(own_reallocate, !heft_may_be_sampled(OWN_OLD()) && heft_passes(OWN_SIZE()),
	  (entry->twin ? passed_on_own_throwing : passed_on_own)(OWN_ARGUMENTS))
OWN_ENTRY(own_reallocate_or_free, !heft_may_be_sampled(OWN_OLD()) && heft_passes(OWN_SIZE()),
	  passed_on_own(OWN_ARGUMENTS))
OWN_ENTRY(own_expand, !heft_may_be_sampled(OWN_OLD()) && heft_passes(OWN_SIZE()),
	  passed_on_own(OWN_ARGUMENTS))
OWN_ENTRY(own_xallocx, !heft_may_be_sampled(OWN_OLD()) && heft_passes(OWN_SIZE()),
	  passed_on_own(OWN_ARGUMENTS))
OWN_ENTRY(own_free, !heft_may_be_sampled(OWN_OLD()), OWN_NEXT())
