/* A ledger: where the resident memory of one process was at one moment, line by line. The lines' resident bytes add
 * up to the pages that were counted while the process stood still. src/ledger takes ledgers; recordings, the model and
 * reports hand them on as they are. */
#ifndef HEFT_HOSTED_LEDGER_H
#define HEFT_HOSTED_LEDGER_H

#include "hosted/vector.h"

#include <stdbool.h>
#include <stdint.h>

struct heap_look;
struct heft_error;

/* Recordings hold these numbers: new kinds come at the end, right before LEDGER_KINDS, and reports order them by
 * their sections. */
enum ledger_kind {
	LEDGER_REQUESTED, /* of blocks that were recorded: what was asked for */
	LEDGER_IN_USE, /* of blocks that were not: usable bytes, which is requested and rounding */
	LEDGER_ROUNDING,
	LEDGER_HEADERS,
	LEDGER_HELD_FREE,
	LEDGER_LARGE_MAPPINGS,
	LEDGER_ALLOCATOR,
	LEDGER_MODULES_PRIVATE,
	LEDGER_MODULES_SHARED,
	LEDGER_BSS,
	LEDGER_STACKS,
	LEDGER_FILES,
	LEDGER_SHARED_MEMORY,
	LEDGER_ANONYMOUS,
	LEDGER_HEFT,
	LEDGER_UNEXPLAINED,
	LEDGER_KINDS,
};
/* As JSON and CSV have it: "held_free" */
const char *ledger_kind_name(enum ledger_kind kind);

/* The line of blocks (LEDGER_IN_USE) that heft should have recorded, since it was there from the start of the process */
#define LEDGER_MISSED "blocks in use that are missing from the recording"

enum ledger_moment { LEDGER_PEAK, LEDGER_EXIT, LEDGER_REQUEST, LEDGER_INTERVAL };
const char *ledger_moment_name(enum ledger_moment moment);

/* Bytes in pages that are in memory; of these, in pages that are the process's own (anonymous: neither of a file nor of
 * shared memory); in pages that are swapped out; and all that is mapped, touched or not. */
struct ledger_bytes {
	uint64_t resident, own, swapped, mapped;
};
static inline void ledger_bytes_add(struct ledger_bytes *sum, const struct ledger_bytes *b)
{
	sum->resident += b->resident;
	sum->own += b->own;
	sum->swapped += b->swapped;
	sum->mapped += b->mapped;
}

struct ledger_line {
	enum ledger_kind kind;
	char *name; /* owned; it may hold names that the program chose */
	/* Who has mapped it, in words ("pool_grow (arena.cc:12)"), owned; NULL: not known. Only in reports. */
	char *maker;
	struct ledger_bytes bytes;
	uint64_t blocks; /* that the line is about; 0: it is not about blocks */
	/* Of a call that mapped this memory, plus 1: a number of the recording, and in reports one of theirs. Of anonymous
	 * memory all was mapped there, of an allocator some. 0: not known. */
	uint32_t site;
};

/* A live block of a recorded process */
struct ledger_block {
	uint64_t address, size_bytes, usable_bytes;
	uint32_t site; /* of the recording */
};
/* Memory that a call of the recorded process has mapped */
struct ledger_mapped {
	uint64_t start, end;
	uint32_t site; /* of the recording */
};
enum {
	LEDGER_OWNS = 1024,
	LEDGER_LARGE =
		64 << 10 /* no smaller block has a mapping of its own, but by a rare setting */
};
typedef void ledger_block_fn(void *ctx, const struct ledger_block *block);
/* What is known of the live blocks of a recorded process */
struct ledger_blocks {
	VECTOR_MEMBERS(struct ledger_block); /* for a look: all of them, in order of address */
	VECTOR(struct ledger_mapped) mapped; /* in order of address */
	uint64_t live;                       /* how many there are */
	bool about; /* calls were under way: a few blocks may be missing, or gone */
	/* Memory of heft's own in the process */
	struct ledger_own {
		uint64_t at, bytes;
	} own[LEDGER_OWNS];
	size_t own_count;
};

/* What whoever records a process knows of it and wants to know. Functions are called in another thread, while the
 * caller waits. */
struct ledger_request {
	int32_t pid;
	enum ledger_moment moment;
	bool all_known; /* the list has every block: heft was there from the start */
	struct heap_look
		*look; /* what a look at its heap tells goes there (hosted/heap_look.h); or NULL */
	bool leaks;    /* look however long it takes */
	struct heap_look *
		touched; /* without a look: what of its blocks was never written to goes there; or NULL */
	bool at_once; /* not now is never: it is not tried again */
	bool waits;   /* until all was looked up in its memory, which it is about to give back */
	void *ctx;
	/* While the process stands still: finds out which blocks it has. Fills all but the list. HEFT_ENOMEM. */
	int (*begin)(void *ctx, struct ledger_blocks *blocks, struct heft_error *err);
	/* After that: hands over every block of that moment, in order of address, as often as it is asked. There may be
	 * millions: they are not copied. */
	void (*each_block)(void *ctx, ledger_block_fn *fn, void *fn_ctx);
	/* The same for every block of LEDGER_LARGE bytes and more, and perhaps for some smaller ones. It must be quick: the
	 * process stands still. */
	void (*each_large)(void *ctx, ledger_block_fn *fn, void *fn_ctx);
	/* A process that asked may go on: after the pause, or when all was looked up (waits). Not called after a failure. */
	void (*release)(void *ctx);
	/* Now and then: whoever waits for the caller sees that something is done. */
	void (*step)(void *ctx);
};

enum { LEDGER_NOTE = 240 };

struct ledger {
	VECTOR_MEMBERS(struct ledger_line);
	int32_t pid;
	enum ledger_moment moment;
	uint64_t time_ns;   /* since the recording began; without one, since the process began */
	uint64_t pause_ns;  /* how long the process stood still */
	uint64_t rss_bytes; /* counted by page meanwhile */
	uint64_t peak_rss_bytes; /* by then, as the kernel has it; 0: not known */
	double share_of_peak;    /* of live bytes if they were recorded; else of resident bytes */
	uint64_t live_bytes;     /* requested, as recorded; 0: not known */
	uint32_t process;        /* in a recording: which one it is of */
	uint64_t reserved_bytes; /* mapped without any right to use it: no part of any line */
	uint64_t page_table_bytes;
	uint64_t huge_bytes; /* of the resident ones: in huge pages */
	uint64_t
		hugetlb_bytes; /* in pages of hugetlbfs, which the kernel does not count as resident */
	char note[LEDGER_NOTE]; /* what is not exact and why; "" */
};

/* Adds bytes to the line of this kind and name, which is made if need be. */
int ledger_add(struct ledger *l, enum ledger_kind kind, const char *name,
	       const struct ledger_bytes *bytes, struct heft_error *err);
/* The same of memory with a line for each site. site: as in struct ledger_line. */
int ledger_add_mapped(struct ledger *l, enum ledger_kind kind, const char *name, uint32_t site,
		      const struct ledger_bytes *bytes, struct heft_error *err);
/* Lines of the same kind and name become one. */
void ledger_join(struct ledger *l);
struct ledger_bytes ledger_sum(const struct ledger *l);
/* HEFT_ENOMEM: then there is nothing in `to`. */
int ledger_copy(struct ledger *to, const struct ledger *from);
/* Whether its heap is glibc's: only there headers and large blocks have lines of their own. */
bool ledger_is_of_glibc(const struct ledger *l);
/* The one with most resident bytes, the later one if there are several; NULL: there is none. */
const struct ledger *ledger_largest(const struct ledger *ledgers, size_t count);
/* By kind; the line that has most resident bytes first. */
void ledger_sort(struct ledger *l);
void ledger_fini(struct ledger *l);

#endif
