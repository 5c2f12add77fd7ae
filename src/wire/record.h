/* One record: what a hook writes for one event, in 8-byte words.
 *
 *   word 0   type:3 | dt:17 | addr>>3:44
 *   word 1   site:24 | size:28 | slack:12 (base/block_word.h), in ALLOC and REALLOC_END
 *
 * dt counts time-stamp-counter cycles since the stream's previous record. What
 * does not fit (more than 50 us, 256 MiB, an address not divisible by 8) takes
 * a longer form: SYNC sets the time, EXT carries full words.
 *
 *   FREE           word 0
 *   ALLOC          word 0, word 1
 *   REALLOC_BEGIN  word 0: the old address. Its bytes stay live, the address may be reused
 *   REALLOC_END    word 0, word 1: the new block; completes this stream's BEGIN
 *   REALLOC_FAIL   word 0 (addr 0): the old block stays as it was
 *   REALLOC_FREED  as REALLOC_FAIL, in EXT: realloc(p, 0) gave the block back
 *   SYNC           type:3 | tsc:61, the time itself
 *   EXT            type:3 | dt:17 | kind:8 | words:12 | 0, then `words` more words
 */
#ifndef HEFT_WIRE_RECORD_H
#define HEFT_WIRE_RECORD_H

#include "base/block_word.h"

enum wire_type {
	WIRE_NOTHING = 0, /* never written: memory that no record is in yet */
	WIRE_ALLOC = 1,
	WIRE_FREE = 2,
	WIRE_REALLOC_BEGIN = 3,
	WIRE_REALLOC_END = 4,
	WIRE_REALLOC_FAIL = 5,
	WIRE_SYNC = 6,
	WIRE_EXT = 7,
};

enum wire_ext {
	WIRE_EXT_ALLOC = 1,         /* addr, size, usable (~0: unknown), site */
	WIRE_EXT_FREE = 2,          /* addr */
	WIRE_EXT_REALLOC_BEGIN = 3, /* addr */
	WIRE_EXT_REALLOC_END = 4,   /* as EXT_ALLOC */
	WIRE_EXT_REALLOC_FREED = 5, /* nothing */
	WIRE_EXT_FREE_AT = 6,       /* addr, site of the free */
	WIRE_EXT_UNUSED = 7,        /* addr, bytes at its end that were never written */
	/* A call that mapped memory or gave it back, once it has succeeded: addr, bytes, wire_map_word, the stamp from
	 * before the call; of mremap also the old address and the old bytes (0: the old memory stays) */
	WIRE_EXT_MAPPING = 8,
	WIRE_EXT_REMARK =
		9, /* the program says something: wire_remark_word, and three words that depend on the kind */
};

/* A recording has the same numbers (tally/remark.h). The words: */
enum wire_remark {
	WIRE_REMARK_MARK,         /* none */
	WIRE_REMARK_REGION_BEGIN, /* the region's number, enum heft_scope */
	WIRE_REMARK_REGION_END,   /* the same */
	WIRE_REMARK_STAGE,        /* the address of a followed block */
	WIRE_REMARK_STAGE_END,    /* the same: it will be freed at once */
	WIRE_REMARK_EVENT,        /* weight */
	WIRE_REMARK_POOL_CREATE,  /* pool */
	WIRE_REMARK_POOL_ALLOC,   /* pool, block, bytes */
	WIRE_REMARK_POOL_FREE,    /* pool, block */
	WIRE_REMARK_POOL_DESTROY, /* pool */
	WIRE_REMARK_STOP,         /* none: from here on new blocks are not recorded */
	WIRE_REMARK_START,        /* none */
	/* For the recorder alone, which makes stages' ends of them: a realloc of a followed block begins, ... */
	WIRE_REMARK_STAGE_MOVES, /* its address */
	WIRE_REMARK_STAGE_MOVED, /* ... and is over: where the block is; 0: it was freed */
	WIRE_REMARKS
};

/* A recording has the same numbers (tally/mapping.h). */
enum wire_map_call {
	WIRE_MAP_MMAP,
	WIRE_MAP_MUNMAP,
	WIRE_MAP_MREMAP,
	WIRE_MAP_BRK, /* the program's break was raised; detail 1: lowered */
	WIRE_MAP_MADVISE,
	WIRE_MAP_SHMAT, /* bytes 0: not known */
	WIRE_MAP_SHMDT, /* bytes 0: all that was attached there */
	/* As BRK, but nobody saw the call: the break was found elsewhere. It has no call stack. */
	WIRE_MAP_BREAK_MOVED,
	/* No call: the allocator is glibc's, which maps large blocks one by one. Their usable sizes show which. */
	WIRE_MAP_GLIBC,
	WIRE_MAP_CALLS
};

enum {
	WIRE_DT_BITS = 17,
	WIRE_ADDR_SHIFT = 20, /* in word 0 */
	WIRE_EXT_MAX_WORDS = 6,
	WIRE_MAP_PROT_SHIFT = 21, /* in the detail of an mmap: flags below, then what is allowed */
};
#define WIRE_DT_MAX ((1ull << WIRE_DT_BITS) - 1)
#define WIRE_USABLE_UNKNOWN UINT64_MAX

static inline uint64_t wire_word0(enum wire_type type, uint64_t dt, uint64_t addr)
{
	return (uint64_t)type | dt << 3 | addr >> 3 << WIRE_ADDR_SHIFT;
}
static inline unsigned wire_type_of(uint64_t w)
{
	return (unsigned)(w & 7);
}
static inline uint64_t wire_dt_of(uint64_t w)
{
	return w >> 3 & WIRE_DT_MAX;
}
static inline uint64_t wire_addr_of(uint64_t w)
{
	return w >> WIRE_ADDR_SHIFT << 3;
}
static inline uint64_t wire_ext_word(unsigned kind, uint64_t dt, unsigned words)
{
	return (uint64_t)WIRE_EXT | dt << 3 | (uint64_t)kind << 20 | (uint64_t)words << 28;
}
static inline unsigned wire_ext_kind(uint64_t w)
{
	return (unsigned)(w >> 20 & 0xff);
}
static inline unsigned wire_ext_words(uint64_t w)
{
	return (unsigned)(w >> 28 & 0xfff);
}

/* name: as in the log, 24 bits; site: 0 where the kind has none */
static inline uint64_t wire_remark_word(uint32_t site, enum wire_remark kind, uint32_t name)
{
	return (uint64_t)site | (uint64_t)kind << 32 | (uint64_t)(name & 0xffffff) << 40;
}

/* detail: 24 bits */
static inline uint64_t wire_map_word(uint32_t site, enum wire_map_call call, uint32_t detail)
{
	return (uint64_t)site | (uint64_t)call << 32 | (uint64_t)(detail & 0xffffff) << 40;
}

#endif
