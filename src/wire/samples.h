/* Sampled mode: the tables of a process, in its session file in place of the chunks
 * of an exact recording. They hold all that is known of it, while it runs and after
 * its end:
 *
 *   tables of live samples, one a level | tables of sums, one a level | answer
 *
 * A level of live samples has two arrays: addresses, in buckets of eight (a cache
 * line), and the samples at the same indexes. A sample is in the bucket of its hash or
 * in the one beside it, in the first level with a free place. The address
 * WIRE_SAMPLE_BUSY marks a place that is being written. A sum is everything ever
 * sampled at one site, each sample with its own weight (S/p), so that a reader only
 * adds up. A site is in the first level where it found a place. Each level is larger
 * than the one before. The header says how many are in use; the others have no memory.
 *
 * Readers load an address, the sample, and the address again. */
#ifndef HEFT_WIRE_SAMPLES_H
#define HEFT_WIRE_SAMPLES_H

#include "wire/session.h"

enum {
	WIRE_SAMPLE_BUCKET = 8,
	WIRE_SUM_PROBES = 16,
	WIRE_SAMPLE_BUSY = 1,
	WIRE_SAMPLE_BITS_0 = 13,
	WIRE_SAMPLE_BITS_1 = 15,
	WIRE_SAMPLE_BITS_2 = 18,
	WIRE_SUM_BITS_0 = 11,
	WIRE_SUM_BITS_1 = 14,
	WIRE_SUM_BITS_2 = 17,
	WIRE_ANSWER_BYTES = 1 << 20, /* heft_pprof_dump gets its profile in pieces of this size */
};

struct wire_sample {
	uint64_t size;
	uint64_t rate_bytes; /* that its distance was drawn with */
	uint64_t birth_tsc;
	uint64_t progress_bytes; /* of the process (wire_sampling), when it was made */
	uint32_t site;           /* node index */
	int32_t tid;
};

struct wire_sum {
	_Atomic uint32_t site; /* node index; 0: empty */
	uint32_t pad;
	_Atomic uint64_t samples;
	_Atomic uint64_t bytes_16;                         /* estimated bytes, in sixteenths */
	_Atomic uint64_t objects_1024;                     /* estimated objects, in 1024ths */
	_Atomic uint64_t bytes_variance, objects_variance; /* doubles, by their bits */
};

/* Where its parts are */
struct wire_live_level {
	_Atomic uint64_t *addresses;
	struct wire_sample *blocks;
	unsigned bits;
};

struct wire_sum_level {
	struct wire_sum *sums;
	unsigned bits;
};

#define WIRE_LIVE_BYTES (sizeof(uint64_t) + sizeof(struct wire_sample)) /* one slot */
#define WIRE_LIVE_1 (WIRE_CHUNKS_OFFSET + (WIRE_LIVE_BYTES << WIRE_SAMPLE_BITS_0))
#define WIRE_LIVE_2 (WIRE_LIVE_1 + (WIRE_LIVE_BYTES << WIRE_SAMPLE_BITS_1))
#define WIRE_SUMS_0 (WIRE_LIVE_2 + (WIRE_LIVE_BYTES << WIRE_SAMPLE_BITS_2))
#define WIRE_SUMS_1 (WIRE_SUMS_0 + (sizeof(struct wire_sum) << WIRE_SUM_BITS_0))
#define WIRE_SUMS_2 (WIRE_SUMS_1 + (sizeof(struct wire_sum) << WIRE_SUM_BITS_1))
#define WIRE_ANSWER_OFFSET (WIRE_SUMS_2 + (sizeof(struct wire_sum) << WIRE_SUM_BITS_2))
_Static_assert(WIRE_ANSWER_OFFSET + WIRE_ANSWER_BYTES <= WIRE_FILE_BYTES,
	       "fits where the chunks are");

/* level < WIRE_SAMPLE_LEVELS */
static inline struct wire_live_level wire_live_level(void *base, unsigned level)
{
	static const struct {
		uint64_t at;
		unsigned bits;
	} where[WIRE_SAMPLE_LEVELS] = {{WIRE_CHUNKS_OFFSET, WIRE_SAMPLE_BITS_0},
				       {WIRE_LIVE_1, WIRE_SAMPLE_BITS_1},
				       {WIRE_LIVE_2, WIRE_SAMPLE_BITS_2}};
	unsigned char *p = (unsigned char *)base + where[level].at;
	return (struct wire_live_level){
		.addresses = (_Atomic uint64_t *)p,
		.blocks = (struct wire_sample *)(p + (sizeof(uint64_t) << where[level].bits)),
		.bits = where[level].bits,
	};
}

static inline struct wire_sum_level wire_sum_level(void *base, unsigned level)
{
	static const struct {
		uint64_t at;
		unsigned bits;
	} where[WIRE_SAMPLE_LEVELS] = {{WIRE_SUMS_0, WIRE_SUM_BITS_0},
				       {WIRE_SUMS_1, WIRE_SUM_BITS_1},
				       {WIRE_SUMS_2, WIRE_SUM_BITS_2}};
	return (struct wire_sum_level){
		.sums = (struct wire_sum *)((unsigned char *)base + where[level].at),
		.bits = where[level].bits,
	};
}

static inline uint64_t wire_sample_hash(uint64_t addr)
{
	return (addr >> 4) * 0x9e3779b97f4a7c15ull;
}
/* The first slot of the address's bucket; the one beside it is at ^ WIRE_SAMPLE_BUCKET. */
static inline uint32_t wire_sample_bucket(uint64_t addr, unsigned bits)
{
	return (uint32_t)(wire_sample_hash(addr) >> (64 - bits)) &
	       ~(uint32_t)(WIRE_SAMPLE_BUCKET - 1);
}

#endif
