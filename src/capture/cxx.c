/* operator new and delete.
 *
 * Those of the C++ runtime call malloc and free: we pass calls on to them and see
 * malloc. An allocator that brings operators of its own (jemalloc, tcmalloc,
 * mimalloc) does not go through malloc: then the operator is the hook
 * (heft_own_function says which it is).
 *
 * A C program may load C++ code later, with a runtime that RTLD_NEXT cannot
 * see. So what was not found at start is looked for at the first call. */
#include "capture/hotpath.h"
#include "capture/sample.h"

/* The operators, and what the linker calls them: the names are fixed by the C++ ABI. */
#define OPERATORS(X)                                                                               \
	X(NEW, _Znwm)                                                                              \
	X(NEW_ARRAY, _Znam)                                                                        \
	X(NEW_NOTHROW, _ZnwmRKSt9nothrow_t)                                                        \
	X(NEW_ARRAY_NOTHROW, _ZnamRKSt9nothrow_t)                                                  \
	X(NEW_ALIGNED, _ZnwmSt11align_val_t)                                                       \
	X(NEW_ARRAY_ALIGNED, _ZnamSt11align_val_t)                                                 \
	X(NEW_ALIGNED_NOTHROW, _ZnwmSt11align_val_tRKSt9nothrow_t)                                 \
	X(NEW_ARRAY_ALIGNED_NOTHROW, _ZnamSt11align_val_tRKSt9nothrow_t)                           \
	X(DELETE, _ZdlPv)                                                                          \
	X(DELETE_ARRAY, _ZdaPv)                                                                    \
	X(DELETE_SIZED, _ZdlPvm)                                                                   \
	X(DELETE_ARRAY_SIZED, _ZdaPvm)                                                             \
	X(DELETE_NOTHROW, _ZdlPvRKSt9nothrow_t)                                                    \
	X(DELETE_ARRAY_NOTHROW, _ZdaPvRKSt9nothrow_t)                                              \
	X(DELETE_ALIGNED, _ZdlPvSt11align_val_t)                                                   \
	X(DELETE_ARRAY_ALIGNED, _ZdaPvSt11align_val_t)                                             \
	X(DELETE_SIZED_ALIGNED, _ZdlPvmSt11align_val_t)                                            \
	X(DELETE_ARRAY_SIZED_ALIGNED, _ZdaPvmSt11align_val_t)                                      \
	X(DELETE_ALIGNED_NOTHROW, _ZdlPvSt11align_val_tRKSt9nothrow_t)                             \
	X(DELETE_ARRAY_ALIGNED_NOTHROW, _ZdaPvSt11align_val_tRKSt9nothrow_t)

#define OP(op, symbol) op,
enum op { OPERATORS(OP) OPS };
#define NAME(op, symbol) #symbol,
static const char *const names[OPS] = {OPERATORS(NAME)};

static _Atomic uintptr_t next_op[OPS];

/* The next operator; its low bit is set if it must be recorded here. */
static inline uintptr_t find(enum op op)
{
	uintptr_t v = atomic_load_explicit(&next_op[op], memory_order_acquire);
	return LIKELY(v) ? v : heft_own_function(&next_op[op], names[op], 1);
}

/* The allocator's operators may call each other through us, so the guard is set around them. But an
 * exception must not leave it set. So we call the nothrow sibling of a throwing operator first; only if
 * that has no memory we call the throwing one, without the guard, and it throws.
 * call: the arguments of the next function; quiet: the operator to call first, and how. */
#define NEW_HOOK(op, symbol, args, type, call, via, quiet, quiet_type, quiet_call)                 \
	EXPORT void *symbol args;                                                                  \
	EXPORT void *symbol args                                                                   \
	{                                                                                          \
		uintptr_t v = find(op);                                                            \
		type *f = (type *)(v & ~1ul);                                                      \
		if (UNLIKELY(!f))                                                                  \
			return NULL; /* C++ code without a C++ runtime: cannot be */               \
		if (LIKELY(!(v & 1)))                                                              \
			return f call;                                                             \
		if (heft_is_sampled()) {                                                           \
			void *p = f call;                                                          \
			if (heft_gate_now() == WIRE_GATE_COUNT && !heft_passes(size))              \
				heft_sample_test(p, size, HERE(), via);                            \
			return p;                                                                  \
		}                                                                                  \
		struct heft_tls *tls = heft_tls_now();                                             \
		uintptr_t q = find(quiet);                                                         \
		quiet_type *ask = (quiet_type *)(q & ~1ul);                                        \
		if (UNLIKELY(!(q & 1) || !enter(tls, HERE())))                                     \
			return f call;                                                             \
		uint32_t site = site_before(tls, HERE(), via);                                     \
		void *made = ask quiet_call;                                                       \
		if (UNLIKELY(!made)) {                                                             \
			leave(tls);                                                                \
			return f call;                                                             \
		}                                                                                  \
		return allocated(tls, made, size, HERE(), via, site);                              \
	}
#define DELETE_HOOK(op, symbol, args, type, call)                                                  \
	EXPORT void symbol args;                                                                   \
	EXPORT void symbol args                                                                    \
	{                                                                                          \
		uintptr_t v = find(op);                                                            \
		type *f = (type *)(v & ~1ul);                                                      \
		if (UNLIKELY(!f || !p))                                                            \
			return;                                                                    \
		struct heft_tls *tls = heft_tls_now();                                             \
		if (LIKELY(!(v & 1))) {                                                            \
			f call;                                                                    \
			return;                                                                    \
		}                                                                                  \
		if (heft_is_sampled()) {                                                           \
			struct wire_sample was;                                                    \
			if (heft_may_be_sampled(p))                                                \
				heft_sample_remove(p, &was);                                       \
			f call;                                                                    \
			return;                                                                    \
		}                                                                                  \
		bool entered = enter(tls, HERE());                                                 \
		if (LIKELY(entered))                                                               \
			freed(tls, p, HERE());                                                     \
		f call;                                                                            \
		if (LIKELY(entered))                                                               \
			leave(tls);                                                                \
	}

static const char nothrow; /* std::nothrow: only its address is ever taken */

typedef void *new_fn(size_t);
typedef void *new2_fn(size_t, const void *);
typedef void *new_aligned_fn(size_t, size_t);
typedef void *new_aligned2_fn(size_t, size_t, const void *);
typedef void delete_fn(void *);
typedef void delete_size_fn(void *, size_t);
typedef void delete2_fn(void *, const void *);
typedef void delete_size2_fn(void *, size_t, size_t);
typedef void delete_aligned2_fn(void *, size_t, const void *);

NEW_HOOK(NEW, _Znwm, (size_t size), new_fn, (size), WIRE_VIA_NEW, NEW_NOTHROW, new2_fn,
	 (size, &nothrow))
NEW_HOOK(NEW_ARRAY, _Znam, (size_t size), new_fn, (size), WIRE_VIA_NEW_ARRAY, NEW_ARRAY_NOTHROW,
	 new2_fn, (size, &nothrow))
NEW_HOOK(NEW_NOTHROW, _ZnwmRKSt9nothrow_t, (size_t size, const void *n), new2_fn, (size, n),
	 WIRE_VIA_NEW, NEW_NOTHROW, new2_fn, (size, n))
NEW_HOOK(NEW_ARRAY_NOTHROW, _ZnamRKSt9nothrow_t, (size_t size, const void *n), new2_fn, (size, n),
	 WIRE_VIA_NEW_ARRAY, NEW_ARRAY_NOTHROW, new2_fn, (size, n))
NEW_HOOK(NEW_ALIGNED, _ZnwmSt11align_val_t, (size_t size, size_t a), new_aligned_fn, (size, a),
	 WIRE_VIA_NEW, NEW_ALIGNED_NOTHROW, new_aligned2_fn, (size, a, &nothrow))
NEW_HOOK(NEW_ARRAY_ALIGNED, _ZnamSt11align_val_t, (size_t size, size_t a), new_aligned_fn,
	 (size, a), WIRE_VIA_NEW_ARRAY, NEW_ARRAY_ALIGNED_NOTHROW, new_aligned2_fn,
	 (size, a, &nothrow))
NEW_HOOK(NEW_ALIGNED_NOTHROW, _ZnwmSt11align_val_tRKSt9nothrow_t,
	 (size_t size, size_t a, const void *n), new_aligned2_fn, (size, a, n), WIRE_VIA_NEW,
	 NEW_ALIGNED_NOTHROW, new_aligned2_fn, (size, a, n))
NEW_HOOK(NEW_ARRAY_ALIGNED_NOTHROW, _ZnamSt11align_val_tRKSt9nothrow_t,
	 (size_t size, size_t a, const void *n), new_aligned2_fn, (size, a, n), WIRE_VIA_NEW_ARRAY,
	 NEW_ARRAY_ALIGNED_NOTHROW, new_aligned2_fn, (size, a, n))
DELETE_HOOK(DELETE, _ZdlPv, (void *p), delete_fn, (p))
DELETE_HOOK(DELETE_ARRAY, _ZdaPv, (void *p), delete_fn, (p))
DELETE_HOOK(DELETE_SIZED, _ZdlPvm, (void *p, size_t size), delete_size_fn, (p, size))
DELETE_HOOK(DELETE_ARRAY_SIZED, _ZdaPvm, (void *p, size_t size), delete_size_fn, (p, size))
DELETE_HOOK(DELETE_NOTHROW, _ZdlPvRKSt9nothrow_t, (void *p, const void *n), delete2_fn, (p, n))
DELETE_HOOK(DELETE_ARRAY_NOTHROW, _ZdaPvRKSt9nothrow_t, (void *p, const void *n), delete2_fn,
	    (p, n))
DELETE_HOOK(DELETE_ALIGNED, _ZdlPvSt11align_val_t, (void *p, size_t a), delete_size_fn, (p, a))
DELETE_HOOK(DELETE_ARRAY_ALIGNED, _ZdaPvSt11align_val_t, (void *p, size_t a), delete_size_fn,
	    (p, a))
DELETE_HOOK(DELETE_SIZED_ALIGNED, _ZdlPvmSt11align_val_t, (void *p, size_t size, size_t a),
	    delete_size2_fn, (p, size, a))
DELETE_HOOK(DELETE_ARRAY_SIZED_ALIGNED, _ZdaPvmSt11align_val_t, (void *p, size_t size, size_t a),
	    delete_size2_fn, (p, size, a))
DELETE_HOOK(DELETE_ALIGNED_NOTHROW, _ZdlPvSt11align_val_tRKSt9nothrow_t,
	    (void *p, size_t a, const void *n), delete_aligned2_fn, (p, a, n))
DELETE_HOOK(DELETE_ARRAY_ALIGNED_NOTHROW, _ZdaPvSt11align_val_tRKSt9nothrow_t,
	    (void *p, size_t a, const void *n), delete_aligned2_fn, (p, a, n))
