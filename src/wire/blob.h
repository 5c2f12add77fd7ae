/* What passes between heft attach and the blob that it puts into a running program.
 * The blob has one struct wire_blob, under the symbol heft_blob. The outside fills the
 * first half before it runs any of the blob's code; the linker has filled the second
 * half, whose addresses the outside has moved to where the blob lies. */
#ifndef HEFT_WIRE_BLOB_H
#define HEFT_WIRE_BLOB_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_BLOB_MAGIC 0x424f4c4254464548ull /* "HEFTBLOB" */
#define WIRE_BLOB_VERSION 3u
#define WIRE_BLOB_SYMBOL "heft_blob"
#define WIRE_BLOB_NAME "heft-blob.so"

/* The functions of C whose entries lead to the blob: those of the malloc that all modules call, dlclose, and
 * those that execute a program */
#define WIRE_BLOB_FUNCTIONS(X)                                                                     \
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
	X(DLCLOSE, dlclose)                                                                        \
	X(EXECVE, execve)                                                                          \
	X(EXECVEAT, execveat)                                                                      \
	X(FEXECVE, fexecve)
/* What any other function can be: base/own_functions.h says what they mean. */
#define WIRE_BLOB_OWN(X)                                                                           \
	X(OWN_ALLOCATE, own_allocate)                                                              \
	X(OWN_STRING, own_string)                                                                  \
	X(OWN_POSIX_MEMALIGN, own_posix_memalign)                                                  \
	X(OWN_NEW, own_new)                                                                        \
	X(OWN_REALLOCATE, own_reallocate)                                                          \
	X(OWN_REALLOCATE_OR_FREE, own_reallocate_or_free)                                          \
	X(OWN_EXPAND, own_expand)                                                                  \
	X(OWN_XALLOCX, own_xallocx)                                                                \
	X(OWN_FREE, own_free)

#define WIRE_BLOB_HOOK(name, function) WIRE_BLOB_##name,
enum wire_blob_hook {
	WIRE_BLOB_FUNCTIONS(WIRE_BLOB_HOOK) WIRE_BLOB_FUNCTION_COUNT,
	WIRE_BLOB_OWN_FIRST = WIRE_BLOB_FUNCTION_COUNT,
	WIRE_BLOB_BEFORE_OWN = WIRE_BLOB_OWN_FIRST - 1, /* so that the next one is the first */
	WIRE_BLOB_OWN(WIRE_BLOB_HOOK) WIRE_BLOB_HOOK_COUNT
};
#undef WIRE_BLOB_HOOK

enum {
	WIRE_BLOB_ENTRIES = 256,   /* functions whose entries lead to the blob, at most */
	WIRE_BLOB_ALLOCATORS = 16, /* that these belong to */
	WIRE_BLOB_ARGUMENTS = 5, /* that a function may have: the sixth register says which it is */
};

/* A function whose entry leads to the blob. Functions of several allocators may have the same hook: each calls what
 * is behind its own entry. */
struct wire_blob_entry {
	uint64_t next; /* the function as it was */
	uint64_t twin; /* OWN_NEW, OWN_REALLOCATE: the same without exceptions; 0: there are none */
	uint64_t usable; /* size_t usable(void *block), of its allocator; 0: it has none */
	uint32_t hook;   /* enum wire_blob_hook */
	uint16_t via;    /* enum wire_via */
	/* Which arguments, from 1, have these; 0: none. Only of OWN hooks. */
	uint8_t size, count, old;
	uint8_t allocator;
};

/* An allocator's code, from its first function to its last: calls from there are its own. Its file, as maps has it. */
struct wire_blob_allocator {
	uint64_t low, high;
	uint64_t device, inode;
};

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

/* Where the loader does not tell which module has an address (there is none, or it is too old), the outside lists the
 * modules that it has found. Offsets are from `tables` of struct wire_blob on. */
struct wire_blob_module {
	uint64_t start, end, bias;
	uint64_t dynamic;      /* where its dynamic section is; 0: it has none */
	uint64_t eh_frame_hdr; /* 0: it has none */
	uint32_t path;         /* offset of a text; an empty one: it is the program */
	uint32_t headers, header_count;
	uint32_t unwind,
		unwind_count; /* in place of eh_frame_hdr: struct wire_blob_unwind, in order */
	uint32_t unused;
};
/* Where the code of an entry of .eh_frame begins, and where the entry is: from the module's start on */
struct wire_blob_unwind {
	uint32_t code, entry;
};

enum {
	WIRE_BLOB_MODULES = 256, /* at most */
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
	struct wire_blob_entry entries[WIRE_BLOB_ENTRIES];
	struct wire_blob_allocator allocators[WIRE_BLOB_ALLOCATORS]; /* [0]: the malloc of all */
	uint32_t entry_count, allocator_count;
	/* Where malloc's own code is, if no other code can lie there: then a free from there is none of the program's. */
	uint64_t own_low, own_high;
	uint64_t find_object; /* _dl_find_object; 0: there are tables */
	uint64_t tables;      /* struct wire_blob_module[module_count] first */
	uint64_t module_count;
	/* Of the thread that the program began with; 0: it has no pointer yet */
	uint64_t first_thread, stack_end;
	uint64_t thread_local_bytes;  /* between a thread's stack and its thread pointer */
	uint64_t phdr, phnum, random; /* of the auxiliary vector */
	uint64_t tid_offset; /* from a thread's pointer to its number; 0: the blob finds out */
	uint64_t start, end, eh_frame_hdr; /* the blob itself */
	uint64_t headers, header_count;    /* its program headers, as they lie there */
	uint64_t forbidden;                /* sys_forbidden */
	uint64_t sample_bytes;             /* 0: exact */
	uint8_t is_glibc, sample_auto, follow_none;
	uint8_t program_hooked; /* some of the functions are in the executable */
	char session_dir[512];
	/* For programs that it executes: heft's library, "": they are not followed; the value of HEFT_SAMPLE, or "" */
	char preload_path[512], mode_variable[48];
	/* Its descriptor in the program, if that does not see the path; 0: it does */
	int32_t session_fd;
	uint64_t session_device, session_inode; /* which folder it is */
	char exe[4096];

	/* From the linker */
	uint64_t hook[WIRE_BLOB_HOOK_COUNT]; /* where entries lead to */
	uint64_t open;    /* int open(void): opens the session; 0, or a negative errno */
	uint64_t stack;   /* the upper end of WIRE_BLOB_STACK bytes, for the thread that calls it */
	uint64_t threads; /* struct wire_blob_thread[WIRE_BLOB_THREADS] */
	uint64_t owned;   /* struct wire_blob_owned[WIRE_BLOB_OWNED] */
	/* How many of them are in use; more than there are: some are not known */
	_Atomic uint64_t owned_count;
};

#endif
