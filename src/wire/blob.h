/* What passes between heft attach and the blob that it puts into a running program.
 * The blob has one struct wire_blob, under the symbol heft_blob. The outside fills the
 * first half before it runs any of the blob's code; the linker has filled the second
 * half, whose addresses the outside has moved to where the blob lies. */
#ifndef HEFT_WIRE_BLOB_H
#define HEFT_WIRE_BLOB_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_BLOB_MAGIC 0x424f4c4254464548ull /* "HEFTBLOB" */
#define WIRE_BLOB_VERSION 1u
#define WIRE_BLOB_SYMBOL "heft_blob"
#define WIRE_BLOB_NAME "heft-blob.so"

/* The functions whose entries lead to the blob */
#define WIRE_BLOB_ENTRIES(X)                                                                       \
	X(MALLOC, malloc)                                                                          \
	X(CALLOC, calloc)                                                                          \
	X(REALLOC, realloc)                                                                        \
	X(FREE, free)                                                                              \
	X(POSIX_MEMALIGN, posix_memalign)                                                          \
	X(MEMALIGN, memalign)                                                                      \
	X(ALIGNED_ALLOC, aligned_alloc)                                                            \
	X(VALLOC, valloc)                                                                          \
	X(PVALLOC, pvalloc)                                                                        \
	X(REALLOCARRAY, reallocarray)                                                              \
	X(DLCLOSE, dlclose)

#define WIRE_BLOB_ENTRY(name, function) WIRE_BLOB_##name,
enum wire_blob_entry { WIRE_BLOB_ENTRIES(WIRE_BLOB_ENTRY) WIRE_BLOB_ENTRY_COUNT };
#undef WIRE_BLOB_ENTRY

/* A thread's place in the blob's table: found by its thread pointer, and its own if the number fits too. */
struct wire_blob_thread {
	_Alignas(64) _Atomic uint64_t pointer; /* 0: free */
	_Atomic int32_t tid;
	/* The frame of the hook that runs, or 0: as the inside's struct heft_tls has them */
	uint64_t thread, guard, left, rate_bytes, random, inside;
};

/* Where a thread's place is looked for first; then in the WIRE_BLOB_PROBES - 1 after it. */
#define WIRE_BLOB_THREAD_BITS 14
static inline uint32_t wire_blob_slot(uint64_t pointer)
{
	return (uint32_t)(pointer * 0x9e3779b97f4a7c15ull >> (64 - WIRE_BLOB_THREAD_BITS));
}

struct wire_blob_owned {
	_Atomic uint64_t at; /* 0: given back */
	uint64_t bytes;
};

enum {
	WIRE_BLOB_THREADS = 1 << WIRE_BLOB_THREAD_BITS,
	WIRE_BLOB_OWNED = 1 << 15,
	WIRE_BLOB_PROBES = 64,
	WIRE_BLOB_STACK = 32 << 10,
};

/* fields: one for each fact that the blob needs; it has no other way to know them */
struct wire_blob {
	uint64_t magic;
	uint32_t version, bytes; /* of this struct */

	/* From the outside */
	uint64_t next[WIRE_BLOB_ENTRY_COUNT]; /* the function behind the entry; 0: there is none */
	uint64_t usable;                      /* malloc_usable_size; or 0 */
	uint64_t own_low, own_high; /* the allocator's code: from its first function to its last */
	uint64_t find_object;       /* _dl_find_object */
	uint64_t first_thread, stack_end;  /* of the thread that the program began with */
	uint64_t thread_local_bytes;       /* between a thread's stack and its thread pointer */
	uint64_t phdr, phnum, random;      /* of the auxiliary vector */
	uint64_t tid_offset;               /* from a thread's pointer to its number */
	uint64_t start, end, eh_frame_hdr; /* the blob itself */
	uint64_t headers, header_count;    /* its program headers, as they lie there */
	uint64_t forbidden;                /* sys_forbidden */
	uint64_t sample_bytes;             /* 0: exact */
	uint8_t is_glibc, sample_auto, follow_none;
	char session_dir[512];
	char exe[4096];

	/* From the linker */
	uint64_t hook[WIRE_BLOB_ENTRY_COUNT]; /* where the entry leads to; 0: nowhere */
	uint64_t open;    /* int open(void): opens the session; 0, or a negative errno */
	uint64_t stack;   /* the upper end of WIRE_BLOB_STACK bytes, for the thread that calls it */
	uint64_t threads; /* struct wire_blob_thread[WIRE_BLOB_THREADS] */
	uint64_t owned;   /* struct wire_blob_owned[WIRE_BLOB_OWNED] */
	/* How many of them are in use; more than there are: some are not known */
	_Atomic uint64_t owned_count;
};

#endif
