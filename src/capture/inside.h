/* The inside's own state, and how its parts call each other. Glossary:
 *
 *   process state  one struct, in memory that the kernel wipes in a forked
 *                  child (MADV_WIPEONFORK): a child finds zeros, so it cannot
 *                  write into its parent's streams by mistake, whichever way
 *                  it was forked
 *   thread         struct heft_thread, bound to one stream slot of the session
 *                  file, in the same wiped memory
 *   guard          the frame address of the hook that is running in this
 *                  thread; 0 outside of hooks. An allocation inside a hook (of a
 *                  signal handler, or of the allocator itself) passes through
 *                  unrecorded
 *   kept frames    the call stack of the thread's previous capture
 *   tip            the inner end of a call stack, remembered with its site
 *   generation     rises with every dlclose: rows and kept frames from before
 *                  it are void
 *
 * Nothing here allocates from the program's heap, takes a lock or changes errno. */
#ifndef HEFT_CAPTURE_INSIDE_H
#define HEFT_CAPTURE_INSIDE_H

#include "base/arch.h"
#include "base/sys.h"
#include "capture/around.h"
#include "capture/waiting.h"
#include "wire/record.h"
#include "wire/session.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORT __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- frames */

struct heft_frame {
	uint64_t pc;      /* where this frame will go on: a return address, or an interrupted pc */
	uint64_t sp, rbp; /* its registers there */
	union {
		struct {
			/* rbp was read from sp - this; 0: the callee did not save it. */
			uint32_t rbp_slot;
			uint16_t flags;   /* enum wire_node_flag, | HEFT_FRAME_UNSTABLE */
			uint8_t uses_rbp; /* its own row needs rbp to find its caller */
			uint8_t state;    /* enum heft_frame_state; only in kept frames */
		};
		uint64_t meta; /* all four at once; most frames set the low half alone */
	};
};
/* Found by a rule whose inputs verification does not check: unwound again each time. */
#define HEFT_FRAME_UNSTABLE (1u << 15)
enum heft_frame_state {
	HEFT_RBP_MATTERS = 1, /* this rbp is used further out before it is loaded again */
	HEFT_CHECK_MORE =
		2, /* this frame or one further out needs more than its return address checked */
};

struct heft_kept {
	/* [0] is the outermost, [depth - 1] the caller of the hook, [-1] a sentinel; there are
	 * heft_thread.capacity places. */
	struct heft_frame *frames;
	struct heft_frame *top; /* the innermost, &frames[depth - 1] */
	uint64_t *hashes;       /* of the path from the root to frames[i] */
	uint32_t site;          /* of a call of `via` from top */
	uint32_t via;           /* HEFT_NO_VIA: site is not known */
};
#define HEFT_NO_VIA UINT32_MAX

/* The inner end of a call stack that was seen: frames that stood upon kept ones, and the site that they led
 * to. They are the stack again if the caller is the same, each word here is where it was, and the kept
 * frames [0, base) are what they were. */
enum { HEFT_TIP_BITS = 12, HEFT_TIP_BITS_START = 5, HEFT_TIP_CHECKS = 8 };
/* Two cache lines: in large programs a larger one would cost the program more of the cache than it saves. */
struct heft_tip {
	_Alignas(128) uint64_t key; /* pc of the hook's caller, via << 48; 0: none */
	uint64_t sp;
	uint64_t base_hash, base_rbp; /* of frames[base - 1] */
	uint32_t base_words;          /* its sp, in words from ours */
	uint32_t base;
	uint32_t site;
	uint16_t count; /* how many checks: `frames` return addresses, then those rbp that matter */
	uint16_t frames;
	uint64_t value[HEFT_TIP_CHECKS];
	uint16_t at[HEFT_TIP_CHECKS]; /* where, in words from the hook's frame */
};
_Static_assert(sizeof(struct heft_tip) == 128, "two cache lines");

/* A walk between the stack of a thread and those of goroutines (go_switch.c). */
struct heft_go_walk {
	uintptr_t low, high; /* the last goroutine's stack, as far as it is in use: it is mapped */
	uintptr_t page;      /* the page that holds the last goroutine: likewise */
	uintptr_t left;      /* where this walk left the thread's stack; 0: it did not */
	const void *kept;    /* these kept frames begin with ... */
	uint32_t depth;      /* ... as many of a goroutine */
};

enum { HEFT_FRAMES_START = 384, HEFT_FRAMES_MAX = 1 << 20 };
enum {
	HEFT_WORK_BYTES = 2048,
	HEFT_WORK_TABLES = 1536 /* from here on for reading unwind tables */
};

struct heft_thread {
	/* What every call needs, in two cache lines that no other thread uses. */
	_Alignas(64) struct wire_chunk *chunk; /* the stream's */
	uint64_t pos;                          /* bytes written in chunk->data */
	uint64_t limit; /* a record may begin below this; 0 sends every hook to the slow path */
	uint64_t last_tsc;
	uint32_t generation;
	uint32_t frees_to_skip;        /* frees before the next one that takes a call stack */
	struct heft_kept kept;         /* the previous capture */
	struct heft_tip *tips;         /* NULL: no memory yet */
	uint32_t tip_bits;             /* 1 << tip_bits of them are in use: one page at first */
	uint32_t tips_kept, tips_lost; /* since judge_tips last decided whether more are needed */
	struct heft_kept other;        /* one before it that had little in common with it */
	struct heft_frame *scratch;    /* for the capture that is being made; capacity places */
	uint64_t *scratch_hashes;
	char *work; /* HEFT_WORK_BYTES for one function at a time; NULL: no memory yet */
	/* Holds all these arrays; the next thread in this slot gets it. */
	struct heft_frame *frames_memory;
	uint32_t capacity;
	uintptr_t stack_low, stack_top; /* the known part of the thread's own stack */
	uintptr_t foreign_page;         /* the last page that was found to be on another stack */
	struct heft_go_walk go;
	struct wire_stream *stream;
	uint32_t slot;
	uint32_t frees_taken;
	uint32_t frees_base;    /* less frees_to_skip: how many frees there were */
	uint32_t watched_bytes; /* of the chunk, when heft_ledger_watch last looked, */
	uint32_t watched_frees; /* and frees */
	uint64_t yielded_tsc;   /* when it last let the recorder have its processor */
	uint32_t random;
	uint8_t is_open;
};

enum { HEFT_NODES_A_PAGE = 4096 / sizeof(struct wire_node), HEFT_CHUNKS_AT_ONCE = 8 };

enum heft_phase { HEFT_FRESH = 0, HEFT_OPENING = 1, HEFT_OPEN = 2, HEFT_DISABLED = 3 };

enum { HEFT_INDEX_LEVELS = 5 };

/* Every capture looks up a site; only a new stack looks up inner nodes. They are in two indexes, so that the
 * hot ones are close together. */
enum heft_index_kind { HEFT_SITES = 0, HEFT_NODES = 1, HEFT_INDEXES = 2 };

struct heft_index_level {
	_Atomic(_Atomic uint64_t *) slots;
	_Atomic uint32_t used;
	uint32_t bits;
};

struct heft_module {
	uintptr_t start, end;
	const void *map;   /* its link_map: another library at the same address has another */
	uint64_t identity; /* hash of path, build id and range */
	uint32_t generation;
	_Atomic uint32_t ready; /* the other fields are written */
};
enum { HEFT_MODULES = 512 };

struct heft_process {
	_Atomic uint32_t phase; /* enum heft_phase */
	uint32_t is_child;
	_Atomic int opening; /* a thread has opened a page of a library to redirect its calls */
	_Atomic uintptr_t break_seen; /* where the program's break was when we last looked */
	_Atomic uint32_t described;   /* the first record says which allocator there is */
	struct wire_session session;
	struct heft_index_level index[HEFT_INDEXES][HEFT_INDEX_LEVELS];
	_Atomic uint32_t index_level[HEFT_INDEXES]; /* newest */
	_Atomic uint32_t module_count;
	struct heft_module modules[HEFT_MODULES];
	struct heft_thread threads[WIRE_STREAMS];
};

extern HIDDEN struct heft_process *heft_process; /* wiped in a forked child */
extern HIDDEN _Atomic uint32_t heft_generation;
extern HIDDEN _Atomic uint32_t
	heft_several_threads; /* more than one thread of this process has recorded */

struct heft_tls {
	struct heft_thread *thread;
	uintptr_t guard;
	/* sampled mode (sample.h) */
	uint64_t left;       /* bytes to the next sample; 0 at first: nothing is drawn yet */
	uint64_t rate_bytes; /* the rate that `left` was drawn with; 0: it was not drawn */
	uint64_t random;
#ifdef HEFT_BLOB
	uintptr_t inside; /* frame of a hook that waits for a real call without the guard; or 0 */
#else
	struct heft_waiting waiting;
	struct heft_count_slot *count; /* count.h */
	uint8_t moves;                 /* a realloc of a followed block has begun (marks.c) */
#endif
};
#ifdef HEFT_BLOB
#include "capture/blob_thread.h"
/* A real call that a hook without a guard waits for: detaching must know, and calls that the real function makes
 * itself are not to be counted again (the entry of malloc leads here also from inside of libc). */
#define HEFT_WAITED_FOR(type, call)                                                                \
	({                                                                                         \
		struct heft_tls *tls_ = heft_tls_now();                                            \
		uintptr_t outer_ = tls_->inside;                                                   \
		tls_->inside = (uintptr_t)__builtin_frame_address(0);                              \
		__asm__ volatile("" : : : "memory");                                               \
		type result_ = call;                                                               \
		__asm__ volatile("" : : : "memory");                                               \
		tls_->inside = outer_;                                                             \
		result_;                                                                           \
	})
static inline int heft_is_inner_call(const struct heft_tls *tls)
{
	return tls->inside != 0;
}
#else
#define HEFT_WAITED_FOR(type, call) (call)
static inline int heft_is_inner_call(const struct heft_tls *tls)
{
	(void)tls;
	return 0;
}
extern HIDDEN __thread struct heft_tls heft_tls __attribute__((tls_model("initial-exec")));
static inline struct heft_tls *heft_tls_now(void)
{
	return &heft_tls;
}
#endif

/* ---- next_allocator.c: the functions behind ours */

struct heft_next {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	size_t (*usable)(void *); /* malloc_usable_size; NULL: the allocator has none */
	uint32_t is_glibc;        /* the size lies before the block: no call is needed */
	/* An object before ours defines malloc: the program does not call ours. */
	uint32_t own_malloc;
	int (*dlclose)(void *);
	int (*setname)(unsigned long, const char *);
};
extern HIDDEN struct heft_next heft_next; /* callable from the first instruction on */

/* Static memory for allocations before the next allocator is known. */
enum { HEFT_ARENA_BYTES = 256 << 10 };
extern HIDDEN unsigned char heft_arena[HEFT_ARENA_BYTES];
/* Blocks that a free must look at. Mostly there are none of either kind, and one load shows that. */
enum heft_unusual_way {
	HEFT_UNUSUAL_COUNTS = 1 << 30,  /* all blocks: they are counted (count.h) */
	HEFT_UNUSUAL_FOLLOWS = 1 << 29, /* all blocks: some are followed (marks.c) */
	HEFT_UNUSUAL_STOPPED = 1 << 28, /* all blocks: new ones are not recorded (heft_stop) */
	HEFT_UNUSUAL_WAYS = 7 << 28,
};
union heft_unusual {
	struct {
		_Atomic uint32_t arena_used; /* bytes, | enum heft_unusual_way */
		/* How many blocks are remembered (grown.c) */
		_Atomic uint16_t grown_large, grown_small;
	};
	_Atomic uint64_t any;
};
extern HIDDEN union heft_unusual heft_unusual;
static inline int heft_in_arena(const void *p)
{
	return UNLIKELY(atomic_load_explicit(&heft_unusual.arena_used, memory_order_relaxed)) &&
	       (uintptr_t)p - (uintptr_t)heft_arena < HEFT_ARENA_BYTES;
}

/* A block of the arena grows, or shrinks, into a real one. */
HIDDEN void *heft_arena_realloc(void *old, size_t size);

/* 0: heft_next is known. -1: this call comes from the look-up itself. */
HIDDEN int heft_resolve_next(void);
/* The address of `name` in the next object, or NULL. Never allocates from the program. */
HIDDEN void *heft_next_symbol(const char *name);
/* The next function of this name (0: there is none); its low bit is set if the allocator brings it and
 * libc does not: then it does not go through malloc and must be recorded by itself. in_runtimes: look in
 * the C++ runtimes too, which a C program may load later. The answer is kept in *known. */
HIDDEN uintptr_t heft_own_function(_Atomic uintptr_t *known, const char *name, int in_runtimes);

/* Whether malloc's own code calls one of its functions. In the blob that comes to the hook, too. */
static inline int heft_is_allocators_call(uintptr_t caller)
{
#ifdef HEFT_BLOB
	return caller - heft_blob.own_low < heft_blob.own_high - heft_blob.own_low;
#else
	(void)caller;
	return 0;
#endif
}
/* The same of any allocator; only for calls from inside a hook. A function that ends in a jump to another one leaves the
 * hook as its caller. */
static inline int heft_is_any_allocators_call(uintptr_t caller)
{
#ifdef HEFT_BLOB
	if (caller - heft_blob.start < heft_blob.end - heft_blob.start)
		return 1;
	for (uint32_t i = 0; i < heft_blob.allocator_count; i++)
		if (caller - heft_blob.allocators[i].low <
		    heft_blob.allocators[i].high - heft_blob.allocators[i].low)
			return 1;
#endif
	(void)caller;
	return 0;
}

/* ---- open_session.c: the process and its file */

extern HIDDEN void
	*heft_mapped; /* the session file: ours, or just after a fork still the parent's */
/* Opens the session if it is not open; 0 if recording is possible. */
HIDDEN int heft_process_open(void);
/* The thread pointer of the thread that the program began with. A forked child has the one of the thread that
 * forked, and its stack. */
extern HIDDEN void *heft_first_thread;
static inline int heft_is_first_thread(const void *thread_pointer)
{
#ifdef HEFT_BLOB
	return (uintptr_t)thread_pointer == heft_blob.first_thread;
#else
	return thread_pointer == heft_first_thread;
#endif
}
/* Says which allocators are hooked beside the one behind the exported functions. */
static inline void heft_describe_allocators(struct wire_header *h)
{
#ifdef HEFT_BLOB
	_Static_assert((int)WIRE_BLOB_ALLOCATORS <= WIRE_HOOKED, "all fit");
	for (uint32_t i = 0; i < heft_blob.allocator_count; i++)
		h->hooked[i] = (struct wire_hooked){heft_blob.allocators[i].device,
						    heft_blob.allocators[i].inode};
	h->hooked_count = heft_blob.allocator_count;
#else
	(void)h;
#endif
}
/* Why the file could not be made: a negative errno; 0: it was, or nobody wanted one */
extern HIDDEN int heft_open_error;
/* How far the parts of the file that are mapped reach (file_parts.c) */
struct heft_part {
	_Atomic uint32_t nodes, chunks;
	_Atomic uint32_t levels; /* of tables of samples */
};
#define HEFT_PART_ALL {WIRE_NODES, WIRE_CHUNKS, WIRE_SAMPLE_LEVELS}
extern HIDDEN struct heft_part heft_part;
enum { HEFT_PART_SHARE = 128 }; /* of limited addresses, we take one in so many */
/* The program locks its memory, or limits its addresses: unmaps what is not needed. */
HIDDEN void heft_parts_shrink(void);
HIDDEN void heft_limits_init(void);  /* limits.c */
HIDDEN void *heft_parts_map(int fd); /* wherever there is space; NULL: there is none */
HIDDEN void heft_parts_unmap(void *at);
HIDDEN int heft_parts_move(void *at, void *to); /* over the parent's; 0, or -1 */

/* The same for a call that has not set the guard, such as the first of the process. Returns whether the
 * process is sampled. */
HIDDEN int heft_open_now(void);

/* Work of heft's own in the middle of a call: what it allocates passes through the hooks unrecorded, and
 * errno stays. */
struct heft_own_work {
	uintptr_t guard;
	int saved_errno;
};
static inline __attribute__((always_inline)) struct heft_own_work heft_own_work_begin(void)
{
	struct heft_own_work w = {.guard = heft_tls_now()->guard, .saved_errno = errno};
	if (!w.guard)
		heft_tls_now()->guard = (uintptr_t)__builtin_frame_address(0);
	return w;
}
static inline void heft_own_work_end(struct heft_own_work w)
{
	heft_tls_now()->guard = w.guard;
	errno = w.saved_errno;
}

/* ---- stream.c: threads and their chunks */

/* Makes space for one record of any size: opens process and thread, takes a chunk, waits for one.
 * Returns the thread, or NULL if the event cannot be recorded (it has been counted). */
HIDDEN struct heft_thread *heft_make_space(void);
/* Sampled mode: the thread, with a stream slot but no chunk. NULL: there is none (it has been counted). */
HIDDEN struct heft_thread *heft_sample_thread(void);
HIDDEN void heft_thread_renamed(void);
/* Only a hint: other destructors, and libc after all of them, may still free, and those records go into the same
 * stream. The recorder takes the slot back once the thread is gone. */
HIDDEN void heft_thread_ends(struct heft_thread *t);
/* library.c: asks libc to call that when the thread ends. Nobody does in the blob. */
HIDDEN void heft_watch_end_of_thread(const void *of_thread);
/* Writes an EXT record with `count` words. */
HIDDEN void heft_emit_ext(struct heft_thread *t, unsigned kind, const uint64_t *words,
			  unsigned count);
/* Writes a record of nothing but an address, in whatever form it fits. */
HIDDEN void heft_emit_address_long(struct heft_thread *t, unsigned type, unsigned ext_kind,
				   uint64_t addr);
HIDDEN void heft_emit_alloc_long(struct heft_thread *t, int ext_kind, uint64_t tsc, uint64_t addr,
				 uint64_t size, uint64_t usable, uint32_t site);

/* ---- grown.c: how much of grown arrays is used */

/* All blocks from HEFT_GROWN_LARGE on are looked at, and one in 64 of the smaller ones: which is decided by
 * the address, so that the free of any other block need not look. Each kind has slots of its own. */
enum { HEFT_GROWN_LARGE = 16 << 10, HEFT_GROWN_LEAST = 64 };
enum { HEFT_GROWN_LARGE_SLOTS = 64, HEFT_GROWN_SMALL_SLOTS = 256 };
enum { HEFT_GROWN_SLOTS = HEFT_GROWN_LARGE_SLOTS + HEFT_GROWN_SMALL_SLOTS };
struct heft_grown {
	_Atomic(uintptr_t) addr;
	_Atomic(size_t) size;
};
extern HIDDEN struct heft_grown heft_grown[HEFT_GROWN_SLOTS];
/* Rows of one table lie at equal distances. Without the first step, none of 12,000 was chosen, or far too many, at
 * one of 100 distances. */
static inline uint64_t heft_grown_hash(const void *p)
{
	uint64_t granule = (uintptr_t)p >> 4;
	return (granule ^ granule >> 9) * 0x9e3779b97f4a7c15ull;
}
static inline unsigned heft_grown_large_slot(uint64_t hash)
{
	return (unsigned)(hash >> 58);
}
/* Whether a smaller block is one of those that are looked at, and its slot if it is. */
static inline int heft_grown_is_chosen(uint64_t hash)
{
	return !(hash >> 52 & 63);
}
static inline unsigned heft_grown_small_slot(uint64_t hash)
{
	return HEFT_GROWN_LARGE_SLOTS + (unsigned)(hash >> 44 & (HEFT_GROWN_SMALL_SLOTS - 1));
}
static inline int heft_grown_is_in(unsigned slot, const void *p)
{
	return atomic_load_explicit(&heft_grown[slot].addr, memory_order_relaxed) == (uintptr_t)p;
}
static inline int heft_is_grown(const void *p)
{
	uint64_t hash = heft_grown_hash(p);
	return (UNLIKELY(atomic_load_explicit(&heft_unusual.grown_large, memory_order_relaxed)) &&
		heft_grown_is_in(heft_grown_large_slot(hash), p)) ||
	       (UNLIKELY(atomic_load_explicit(&heft_unusual.grown_small, memory_order_relaxed)) &&
		UNLIKELY(heft_grown_is_chosen(hash)) &&
		heft_grown_is_in(heft_grown_small_slot(hash), p));
}
/* Whether a block that a realloc made is to be looked at. */
static inline int heft_grown_wants(const void *p, size_t size)
{
	return UNLIKELY(size >= HEFT_GROWN_LARGE) ||
	       (UNLIKELY(heft_grown_is_chosen(heft_grown_hash(p))) && size >= HEFT_GROWN_LEAST);
}
static inline int heft_all_are_unusual(void)
{
	return atomic_load_explicit(&heft_unusual.arena_used, memory_order_relaxed) >=
	       HEFT_UNUSUAL_STOPPED;
}
static inline int heft_is_unusual(const void *p)
{
	const uint64_t any = atomic_load_explicit(&heft_unusual.any, memory_order_relaxed);
	return UNLIKELY(any) &&
	       ((uint32_t)any >= HEFT_UNUSUAL_STOPPED || heft_in_arena(p) || heft_is_grown(p));
}
HIDDEN void heft_grown_add(const void *p, size_t size);
HIDDEN void heft_grown_forget(const void *p);
/* p is about to be freed. */
HIDDEN void heft_grown_freed(struct heft_tls *tls, const void *p);

/* ---- unwind.c, stack.c: call stacks to sites */

/* The registers of a hook's caller, at the call. A hook has a frame pointer: it points to the rbp that the
 * hook pushed, and the return address lies above it. */
struct heft_entry {
	uint64_t pc, sp, rbp;
};
static inline struct heft_entry heft_entry(uintptr_t hook)
{
	const uint64_t *frame = (const uint64_t *)hook;
	return (struct heft_entry){.pc = frame[1], .sp = hook + 16, .rbp = frame[0]};
}
/* The site (node index) of a call of allocation function `via`; hook: the hook's frame address. */
HIDDEN uint32_t heft_site(struct heft_thread *t, uintptr_t hook, unsigned via);
HIDDEN void heft_forget_code(void);   /* empties the row cache */
HIDDEN void heft_after_dlclose(void); /* hooks.c */
/* unwind.c: how much thread-local memory lies between the end of a thread's stack and its outermost frame */
HIDDEN void heft_set_home_reach(uintptr_t thread_local_bytes);

/* unwind.c */
enum heft_step {
	HEFT_STEP_OK,
	HEFT_STEP_END,     /* it was the outermost frame */
	HEFT_STEP_LOST,    /* nobody knows its caller */
	HEFT_STEP_FOREIGN, /* its caller is on another stack */
	HEFT_STEP_OTHER, /* the same, and the caller is known: only on stacks that are not the thread's own */
};
HIDDEN NOINLINE enum heft_step heft_step_special(struct heft_thread *t, const struct heft_frame *f,
						 uint32_t row, int native,
						 struct heft_frame *caller);
HIDDEN uint32_t heft_row_fill(uint64_t pc, int exact);
HIDDEN int heft_frames_grow(struct heft_thread *t, uint32_t need);
/* Forgets all kept frames. The arrays are in `memory` (NULL: there are none). */
HIDDEN void heft_frames_reset(struct heft_thread *t, struct heft_frame *memory);
/* Whether a hook's caller is on the thread's own stack. Finds out, and remembers how deep that is. */
HIDDEN int heft_on_own_stack(struct heft_thread *t, struct heft_entry e);
/* Whether an address probably is on it; nothing is read there. */
HIDDEN int heft_near_own_stack(const struct heft_thread *t, uintptr_t sp);
HIDDEN int heft_readable(uintptr_t low, uintptr_t high); /* asks the kernel about each page */
extern HIDDEN _Atomic uint64_t heft_rows[];

/* ---- thread_stacks.c */

HIDDEN void heft_thread_stacks_init(void);
/* The lower end of the memory that the program gave to a thread for its stack; 0: not known. */
HIDDEN uintptr_t heft_given_stack_low(uintptr_t thread);

/* ---- new_site.c */

/* What a frame is in the stack table. A wrong unwind table may have led to a word with more bits. */
static inline uint64_t heft_frame_key(const struct heft_frame *f)
{
	return (f->pc & ((1ull << WIRE_FLAG_SHIFT) - 1)) |
	       (uint64_t)(f->flags & ~HEFT_FRAME_UNSTABLE) << WIRE_FLAG_SHIFT;
}
/* Creates the nodes that are missing on the path to frames[depth - 1], then the site, whose hash is given.
 * The outermost `known` frames have been part of a stack before. *lost is set if the table is full: then
 * the answer must not be remembered, so that the next one is counted too. */
HIDDEN NOINLINE uint32_t heft_new_site(const struct heft_frame *frames, const uint64_t *hashes,
				       uint32_t depth, uint32_t known, unsigned via, uint64_t hash,
				       int *lost);

/* ---- nodes.c: the stack table */

HIDDEN uint32_t heft_index_find(enum heft_index_kind kind, uint64_t hash); /* 0: not there */
HIDDEN void heft_index_prefetch(enum heft_index_kind kind, uint64_t hash); /* it will be added */
HIDDEN uint32_t heft_node_add(enum heft_index_kind kind, uint32_t parent, uint64_t pc_flags,
			      uint64_t hash); /* 0: full */

/* ---- modules.c */

/* Begins an entry of `bytes` (a multiple of 8) in the module log; NULL: the log is full. _end: the entry is
 * written. */
HIDDEN struct wire_module *heft_log_begin(struct wire_session *s, uint32_t bytes);
HIDDEN void heft_log_end(struct wire_module *w);
/* work: HEFT_WORK_BYTES, or NULL: there is no memory */
HIDDEN void heft_module_announce(uint64_t pc, char *work);

/* ---- follow.c */

HIDDEN void heft_follow_init(void);

/* ---- sandbox.c: what the program forbids itself, and us */

HIDDEN void heft_sandbox_init(void);
/* A vfork child is about to become another program or to end: its parent is not locked in. Returns what to
 * give to heft_sandbox_return if it could not. */
HIDDEN uint64_t heft_sandbox_leave(void);
HIDDEN void heft_sandbox_return(uint64_t added);
/* Whether the program has installed a filter, or tried to. */
HIDDEN int heft_sandbox_has_filter(void);

/* ---- ends.c: when processes end */

HIDDEN void heft_ends_init(void);
HIDDEN void heft_commands_init(void);
/* The header of this process's own file, or of a vfork child's parent; NULL: there is none, or nothing can be
 * stamped any more. */
static inline struct wire_header *heft_own_header(void)
{
	struct heft_process *p = heft_process; /* a fork wipes it */
	return p && atomic_load(&p->phase) == HEFT_OPEN && sys_may_stamp() ? p->session.header
									   : NULL;
}
/* A child has ended by now; pid 0: one that began after since_tsc. status: see struct wire_reap. */
HIDDEN void heft_reaped(struct wire_header *h, int pid, uint32_t status, uint32_t maxrss_kib,
			uint64_t since_tsc);

/* What libc's functions return for a result of the kernel. */
static inline long heft_as_libc(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

static inline uint64_t heft_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

#endif
