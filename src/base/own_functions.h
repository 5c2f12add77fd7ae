/* The functions of allocators that programs bring themselves: what each is called, and what its arguments mean. This is
 * the one place that knows it; the hooks (capture/own_hooks.c), the search for them (attach/target_own.c) and
 * the names in reports follow from it.
 *
 * X(family, name, hook, size, count, old, twin)
 *   family  whose function it is: the part before the first dot of enum own_family's names
 *   hook    what kind of call it is (wire/blob.h):
 *             ALLOCATE        returns a new block
 *             STRING          returns a new block with a copy of a text: its length and the zero are its size
 *             POSIX_MEMALIGN  stores a new block where its first argument says; returns 0, or an error
 *             NEW             returns a new block, or throws: `twin` is the same function without exceptions
 *             REALLOCATE      returns a block in the place of an old one, which stays if NULL is returned (unless size
 *                             is 0). With a twin: it may throw
 *             REALLOCATE_OR_FREE  the same, but the old one never stays
 *             EXPAND          changes the size of a block where it is; NULL: it has not
 *             XALLOCX         the same; returns the usable size: it has, if that is at least the size
 *             FREE            frees its argument `old`
 *   size, count, old  which arguments have these, counted from 1; 0: none. The block has size * count bytes.
 *
 * The order gives the numbers of `via` in session files and recordings: add new ones at the end of
 * HEFT_OWN_ALLOCATING.
 *
 * What is not here is not a call that gives or takes a block: nallocx, sallocx, mi_usable_size, mi_good_size, mi_heap_new
 * and so on. mi_heap_destroy frees blocks without a call for each: heft does not see that. */
#ifndef HEFT_BASE_OWN_FUNCTIONS_H
#define HEFT_BASE_OWN_FUNCTIONS_H

/* jemalloc, with a prefix. size: xallocx asks for at least that; what it adds beyond is room, not asked for. */
#define HEFT_OWN_JEMALLOC_X(X, p)                                                                  \
	X(JEMALLOC, p "mallocx", ALLOCATE, 1, 0, 0, "")                                            \
	X(JEMALLOC, p "rallocx", REALLOCATE, 2, 0, 1, "")                                          \
	X(JEMALLOC, p "xallocx", XALLOCX, 2, 0, 1, "")
#define HEFT_OWN_JEMALLOC(X, p)                                                                    \
	X(JEMALLOC, p "malloc", ALLOCATE, 1, 0, 0, "")                                             \
	X(JEMALLOC, p "calloc", ALLOCATE, 2, 1, 0, "")                                             \
	X(JEMALLOC, p "realloc", REALLOCATE, 2, 0, 1, "")                                          \
	X(JEMALLOC, p "posix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                               \
	X(JEMALLOC, p "aligned_alloc", ALLOCATE, 2, 0, 0, "")                                      \
	X(JEMALLOC, p "memalign", ALLOCATE, 2, 0, 0, "")                                           \
	X(JEMALLOC, p "valloc", ALLOCATE, 1, 0, 0, "")                                             \
	X(JEMALLOC, p "pvalloc", ALLOCATE, 1, 0, 0, "")                                            \
	HEFT_OWN_JEMALLOC_X(X, p)
#define HEFT_OWN_JEMALLOC_FREES(X, p)                                                              \
	X(JEMALLOC, p "free", FREE, 0, 0, 1, "")                                                   \
	X(JEMALLOC, p "free_sized", FREE, 0, 0, 1, "")                                             \
	X(JEMALLOC, p "free_aligned_sized", FREE, 0, 0, 1, "")                                     \
	X(JEMALLOC, p "cfree", FREE, 0, 0, 1, "")                                                  \
	X(JEMALLOC, p "dallocx", FREE, 0, 0, 1, "")                                                \
	X(JEMALLOC, p "sdallocx", FREE, 0, 0, 1, "")

/* mimalloc: the same functions with and without a heap as the first argument (h: "mi_", "mi_heap_"; n: how many
 * arguments come before) */
#define HEFT_OWN_MIMALLOC(X, h, n)                                                                 \
	X(MIMALLOC, h "malloc", ALLOCATE, n + 1, 0, 0, "")                                         \
	X(MIMALLOC, h "malloc_small", ALLOCATE, n + 1, 0, 0, "")                                   \
	X(MIMALLOC, h "zalloc", ALLOCATE, n + 1, 0, 0, "")                                         \
	X(MIMALLOC, h "zalloc_small", ALLOCATE, n + 1, 0, 0, "")                                   \
	X(MIMALLOC, h "calloc", ALLOCATE, n + 2, n + 1, 0, "")                                     \
	X(MIMALLOC, h "mallocn", ALLOCATE, n + 2, n + 1, 0, "")                                    \
	X(MIMALLOC, h "malloc_aligned", ALLOCATE, n + 1, 0, 0, "")                                 \
	X(MIMALLOC, h "malloc_aligned_at", ALLOCATE, n + 1, 0, 0, "")                              \
	X(MIMALLOC, h "zalloc_aligned", ALLOCATE, n + 1, 0, 0, "")                                 \
	X(MIMALLOC, h "zalloc_aligned_at", ALLOCATE, n + 1, 0, 0, "")                              \
	X(MIMALLOC, h "calloc_aligned", ALLOCATE, n + 2, n + 1, 0, "")                             \
	X(MIMALLOC, h "calloc_aligned_at", ALLOCATE, n + 2, n + 1, 0, "")                          \
	X(MIMALLOC, h "strdup", STRING, 0, 0, 0, "")                                               \
	X(MIMALLOC, h "strndup", STRING, 0, 0, 0, "")                                              \
	X(MIMALLOC, h "realloc", REALLOCATE, n + 2, 0, n + 1, "")                                  \
	X(MIMALLOC, h "reallocn", REALLOCATE, n + 3, n + 2, n + 1, "")                             \
	X(MIMALLOC, h "reallocf", REALLOCATE_OR_FREE, n + 2, 0, n + 1, "")                         \
	X(MIMALLOC, h "rezalloc", REALLOCATE, n + 2, 0, n + 1, "")                                 \
	X(MIMALLOC, h "recalloc", REALLOCATE, n + 3, n + 2, n + 1, "")                             \
	X(MIMALLOC, h "realloc_aligned", REALLOCATE, n + 2, 0, n + 1, "")                          \
	X(MIMALLOC, h "realloc_aligned_at", REALLOCATE, n + 2, 0, n + 1, "")                       \
	X(MIMALLOC, h "rezalloc_aligned", REALLOCATE, n + 2, 0, n + 1, "")                         \
	X(MIMALLOC, h "rezalloc_aligned_at", REALLOCATE, n + 2, 0, n + 1, "")                      \
	X(MIMALLOC, h "recalloc_aligned", REALLOCATE, n + 3, n + 2, n + 1, "")

/* Those that have a number in `via` */
#define HEFT_OWN_ALLOCATING(X)                                                                     \
	HEFT_OWN_JEMALLOC(X, "_rjem_")                                                             \
	HEFT_OWN_JEMALLOC(X, "je_")                                                                \
	HEFT_OWN_JEMALLOC_X(X, "")                                                                 \
	HEFT_OWN_MIMALLOC(X, "mi_", 0)                                                             \
	X(MIMALLOC, "mi_recalloc_aligned_at", REALLOCATE, 3, 2, 1, "")                             \
	X(MIMALLOC, "mi_aligned_recalloc", REALLOCATE, 3, 2, 1, "")                                \
	X(MIMALLOC, "mi_aligned_offset_recalloc", REALLOCATE, 3, 2, 1, "")                         \
	X(MIMALLOC, "mi_reallocarray", REALLOCATE, 3, 2, 1, "")                                    \
	X(MIMALLOC, "mi_expand", EXPAND, 2, 0, 1, "")                                              \
	X(MIMALLOC, "mi_posix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                              \
	X(MIMALLOC, "mi_memalign", ALLOCATE, 2, 0, 0, "")                                          \
	X(MIMALLOC, "mi_aligned_alloc", ALLOCATE, 2, 0, 0, "")                                     \
	X(MIMALLOC, "mi_valloc", ALLOCATE, 1, 0, 0, "")                                            \
	X(MIMALLOC, "mi_pvalloc", ALLOCATE, 1, 0, 0, "")                                           \
	X(MIMALLOC, "mi_new", NEW, 1, 0, 0, "mi_new_nothrow")                                      \
	X(MIMALLOC, "mi_new_nothrow", ALLOCATE, 1, 0, 0, "")                                       \
	X(MIMALLOC, "mi_new_aligned", NEW, 1, 0, 0, "mi_new_aligned_nothrow")                      \
	X(MIMALLOC, "mi_new_aligned_nothrow", ALLOCATE, 1, 0, 0, "")                               \
	X(MIMALLOC, "mi_new_n", NEW, 2, 1, 0, "mi_mallocn")                                        \
	X(MIMALLOC, "mi_new_realloc", REALLOCATE, 2, 0, 1, "mi_realloc")                           \
	X(MIMALLOC, "mi_new_reallocn", REALLOCATE, 3, 2, 1, "mi_reallocn")                         \
	HEFT_OWN_MIMALLOC(X, "mi_heap_", 1)                                                        \
	X(MIMALLOC, "mi_heap_alloc_new", NEW, 2, 0, 0, "mi_heap_malloc")                           \
	X(MIMALLOC, "mi_heap_alloc_new_n", NEW, 3, 2, 0, "mi_heap_mallocn")                        \
	X(TCMALLOC, "tc_malloc", ALLOCATE, 1, 0, 0, "")                                            \
	X(TCMALLOC, "tc_malloc_skip_new_handler", ALLOCATE, 1, 0, 0, "")                           \
	X(TCMALLOC, "tc_calloc", ALLOCATE, 2, 1, 0, "")                                            \
	X(TCMALLOC, "tc_realloc", REALLOCATE, 2, 0, 1, "")                                         \
	X(TCMALLOC, "tc_memalign", ALLOCATE, 2, 0, 0, "")                                          \
	X(TCMALLOC, "tc_posix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                              \
	X(TCMALLOC, "tc_valloc", ALLOCATE, 1, 0, 0, "")                                            \
	X(TCMALLOC, "tc_pvalloc", ALLOCATE, 1, 0, 0, "")                                           \
	X(TCMALLOC, "tc_new", NEW, 1, 0, 0, "tc_new_nothrow")                                      \
	X(TCMALLOC, "tc_new_nothrow", ALLOCATE, 1, 0, 0, "")                                       \
	X(TCMALLOC, "tc_newarray", NEW, 1, 0, 0, "tc_newarray_nothrow")                            \
	X(TCMALLOC, "tc_newarray_nothrow", ALLOCATE, 1, 0, 0, "")                                  \
	X(TCMALLOC, "tc_new_aligned", NEW, 1, 0, 0, "tc_new_aligned_nothrow")                      \
	X(TCMALLOC, "tc_new_aligned_nothrow", ALLOCATE, 1, 0, 0, "")                               \
	X(TCMALLOC, "tc_newarray_aligned", NEW, 1, 0, 0, "tc_newarray_aligned_nothrow")            \
	X(TCMALLOC, "tc_newarray_aligned_nothrow", ALLOCATE, 1, 0, 0, "")                          \
	X(SNMALLOC, "sn_malloc", ALLOCATE, 1, 0, 0, "")                                            \
	X(SNMALLOC, "sn_calloc", ALLOCATE, 2, 1, 0, "")                                            \
	X(SNMALLOC, "sn_realloc", REALLOCATE, 2, 0, 1, "")                                         \
	X(SNMALLOC, "sn_rust_alloc", ALLOCATE, 2, 0, 0, "")                                        \
	X(SNMALLOC, "sn_rust_alloc_zeroed", ALLOCATE, 2, 0, 0, "")                                 \
	X(SNMALLOC, "sn_rust_realloc", REALLOCATE, 4, 0, 1, "")                                    \
	X(RPMALLOC, "rpmalloc", ALLOCATE, 1, 0, 0, "")                                             \
	X(RPMALLOC, "rpzalloc", ALLOCATE, 1, 0, 0, "")                                             \
	X(RPMALLOC, "rpcalloc", ALLOCATE, 2, 1, 0, "")                                             \
	X(RPMALLOC, "rprealloc", REALLOCATE, 2, 0, 1, "")                                          \
	X(RPMALLOC, "rpaligned_realloc", REALLOCATE, 3, 0, 1, "")                                  \
	X(RPMALLOC, "rpaligned_alloc", ALLOCATE, 2, 0, 0, "")                                      \
	X(RPMALLOC, "rpaligned_zalloc", ALLOCATE, 2, 0, 0, "")                                     \
	X(RPMALLOC, "rpaligned_calloc", ALLOCATE, 3, 2, 0, "")                                     \
	X(RPMALLOC, "rpmemalign", ALLOCATE, 2, 0, 0, "")                                           \
	X(RPMALLOC, "rpposix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                               \
	X(TBB, "scalable_malloc", ALLOCATE, 1, 0, 0, "")                                           \
	X(TBB, "scalable_calloc", ALLOCATE, 2, 1, 0, "")                                           \
	X(TBB, "scalable_realloc", REALLOCATE, 2, 0, 1, "")                                        \
	X(TBB, "scalable_posix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                             \
	X(TBB, "scalable_aligned_malloc", ALLOCATE, 1, 0, 0, "")                                   \
	X(TBB, "scalable_aligned_realloc", REALLOCATE, 2, 0, 1, "")

#define HEFT_OWN_FREEING(X)                                                                        \
	HEFT_OWN_JEMALLOC_FREES(X, "_rjem_")                                                       \
	HEFT_OWN_JEMALLOC_FREES(X, "je_")                                                          \
	X(JEMALLOC, "dallocx", FREE, 0, 0, 1, "")                                                  \
	X(JEMALLOC, "sdallocx", FREE, 0, 0, 1, "")                                                 \
	X(MIMALLOC, "mi_free", FREE, 0, 0, 1, "")                                                  \
	X(MIMALLOC, "mi_free_size", FREE, 0, 0, 1, "")                                             \
	X(MIMALLOC, "mi_free_size_aligned", FREE, 0, 0, 1, "")                                     \
	X(MIMALLOC, "mi_free_aligned", FREE, 0, 0, 1, "")                                          \
	X(MIMALLOC, "mi_cfree", FREE, 0, 0, 1, "")                                                 \
	X(TCMALLOC, "tc_free", FREE, 0, 0, 1, "")                                                  \
	X(TCMALLOC, "tc_free_sized", FREE, 0, 0, 1, "")                                            \
	X(TCMALLOC, "tc_cfree", FREE, 0, 0, 1, "")                                                 \
	X(TCMALLOC, "tc_delete", FREE, 0, 0, 1, "")                                                \
	X(TCMALLOC, "tc_delete_sized", FREE, 0, 0, 1, "")                                          \
	X(TCMALLOC, "tc_delete_nothrow", FREE, 0, 0, 1, "")                                        \
	X(TCMALLOC, "tc_deletearray", FREE, 0, 0, 1, "")                                           \
	X(TCMALLOC, "tc_deletearray_sized", FREE, 0, 0, 1, "")                                     \
	X(TCMALLOC, "tc_deletearray_nothrow", FREE, 0, 0, 1, "")                                   \
	X(TCMALLOC, "tc_delete_aligned", FREE, 0, 0, 1, "")                                        \
	X(TCMALLOC, "tc_delete_sized_aligned", FREE, 0, 0, 1, "")                                  \
	X(TCMALLOC, "tc_delete_aligned_nothrow", FREE, 0, 0, 1, "")                                \
	X(TCMALLOC, "tc_deletearray_aligned", FREE, 0, 0, 1, "")                                   \
	X(TCMALLOC, "tc_deletearray_sized_aligned", FREE, 0, 0, 1, "")                             \
	X(TCMALLOC, "tc_deletearray_aligned_nothrow", FREE, 0, 0, 1, "")                           \
	X(SNMALLOC, "sn_free", FREE, 0, 0, 1, "")                                                  \
	X(SNMALLOC, "sn_rust_dealloc", FREE, 0, 0, 1, "")                                          \
	X(RPMALLOC, "rpfree", FREE, 0, 0, 1, "")                                                   \
	X(TBB, "scalable_free", FREE, 0, 0, 1, "")                                                 \
	X(TBB, "scalable_aligned_free", FREE, 0, 0, 1, "")

/* X(via, name, hook, size, count, old, twin): functions that have a name of their own in `via` (wire/via.h). The
 * operators of C++ that an allocator brings; */
#define HEFT_OWN_OPERATORS(X)                                                                      \
	X(NEW, "_Znwm", NEW, 1, 0, 0, "_ZnwmRKSt9nothrow_t")                                       \
	X(NEW_ARRAY, "_Znam", NEW, 1, 0, 0, "_ZnamRKSt9nothrow_t")                                 \
	X(NEW, "_ZnwmRKSt9nothrow_t", ALLOCATE, 1, 0, 0, "")                                       \
	X(NEW_ARRAY, "_ZnamRKSt9nothrow_t", ALLOCATE, 1, 0, 0, "")                                 \
	X(NEW, "_ZnwmSt11align_val_t", NEW, 1, 0, 0, "_ZnwmSt11align_val_tRKSt9nothrow_t")         \
	X(NEW_ARRAY, "_ZnamSt11align_val_t", NEW, 1, 0, 0, "_ZnamSt11align_val_tRKSt9nothrow_t")   \
	X(NEW, "_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOCATE, 1, 0, 0, "")                        \
	X(NEW_ARRAY, "_ZnamSt11align_val_tRKSt9nothrow_t", ALLOCATE, 1, 0, 0, "")                  \
	X(FREE, "_ZdlPv", FREE, 0, 0, 1, "")                                                       \
	X(FREE, "_ZdaPv", FREE, 0, 0, 1, "")                                                       \
	X(FREE, "_ZdlPvm", FREE, 0, 0, 1, "")                                                      \
	X(FREE, "_ZdaPvm", FREE, 0, 0, 1, "")                                                      \
	X(FREE, "_ZdlPvRKSt9nothrow_t", FREE, 0, 0, 1, "")                                         \
	X(FREE, "_ZdaPvRKSt9nothrow_t", FREE, 0, 0, 1, "")                                         \
	X(FREE, "_ZdlPvSt11align_val_t", FREE, 0, 0, 1, "")                                        \
	X(FREE, "_ZdaPvSt11align_val_t", FREE, 0, 0, 1, "")                                        \
	X(FREE, "_ZdlPvmSt11align_val_t", FREE, 0, 0, 1, "")                                       \
	X(FREE, "_ZdaPvmSt11align_val_t", FREE, 0, 0, 1, "")                                       \
	X(FREE, "_ZdlPvSt11align_val_tRKSt9nothrow_t", FREE, 0, 0, 1, "")                          \
	X(FREE, "_ZdaPvSt11align_val_tRKSt9nothrow_t", FREE, 0, 0, 1, "")
/* and those of C, of an allocator that only its own file calls by these names. The last three are also those of
 * an allocator that others call, where that has more of them than libc. */
#define HEFT_OWN_PLAIN(X)                                                                          \
	X(MALLOC, "malloc", ALLOCATE, 1, 0, 0, "")                                                 \
	X(CALLOC, "calloc", ALLOCATE, 2, 1, 0, "")                                                 \
	X(REALLOC, "realloc", REALLOCATE, 2, 0, 1, "")                                             \
	X(POSIX_MEMALIGN, "posix_memalign", POSIX_MEMALIGN, 3, 0, 0, "")                           \
	X(ALIGNED_ALLOC, "aligned_alloc", ALLOCATE, 2, 0, 0, "")                                   \
	X(MEMALIGN, "memalign", ALLOCATE, 2, 0, 0, "")                                             \
	X(VALLOC, "valloc", ALLOCATE, 1, 0, 0, "")                                                 \
	X(PVALLOC, "pvalloc", ALLOCATE, 1, 0, 0, "")                                               \
	X(REALLOCARRAY, "reallocarray", REALLOCATE, 3, 2, 1, "")                                   \
	X(FREE, "free", FREE, 0, 0, 1, "")
#define HEFT_OWN_MORE_PLAIN(X)                                                                     \
	X(FREE, "cfree", FREE, 0, 0, 1, "")                                                        \
	X(FREE, "free_sized", FREE, 0, 0, 1, "")                                                   \
	X(FREE, "free_aligned_sized", FREE, 0, 0, 1, "")

#define HEFT_OWN_ONE(family, name, hook, size, count, old, twin) +1
enum { HEFT_OWN_VIA_COUNT = 0 HEFT_OWN_ALLOCATING(HEFT_OWN_ONE) };
#undef HEFT_OWN_ONE

#endif
