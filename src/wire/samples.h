/* Sampled mode: what a process keeps of itself, in its session file where the
 * chunks of an exact recording would be. It is all there is, at any moment and
 * after the process's death:
 *
 *   addresses | blocks | sums
 *
 * A live sampled block is an entry of the first two tables at the same index:
 * buckets of eight addresses, one cache line each; a block lies in the bucket of
 * its hash or in the one beside it. An address of WIRE_SAMPLE_BUSY is being
 * written or taken out. Sums are by site: everything ever sampled there, each
 * sample weighted by itself (S/p), so that a reader only adds up.
 *
 * Readers look at an address, the block, and the address again. */
#ifndef HEFT_WIRE_SAMPLES_H
#define HEFT_WIRE_SAMPLES_H

#include "wire/session.h"

enum {
	WIRE_SAMPLE_SLOTS = 1 << 15,
	WIRE_SAMPLE_BUCKET = 8,
	WIRE_SUM_SLOTS = 1 << 14,
	WIRE_SUM_PROBES = 64,
	WIRE_SAMPLE_BUSY = 1,
};

struct wire_sample {
	uint64_t size;
	uint64_t rate_bytes; /* in force when its distance was drawn */
	uint64_t birth_tsc;
	uint32_t site; /* node index */
	int32_t tid;
};

struct wire_sum {
	_Atomic uint32_t site; /* node index; 0: empty */
	uint32_t pad;
	_Atomic uint64_t samples;
	_Atomic uint64_t bytes_16;     /* estimated bytes, in sixteenths */
	_Atomic uint64_t objects_1024; /* estimated objects, in 1024ths */
	_Atomic uint64_t bytes_variance, objects_variance; /* doubles, by their bits */
};

struct wire_samples { /* a mapped session file's, taken apart */
	_Atomic uint64_t *addresses;
	struct wire_sample *blocks;
	struct wire_sum *sums;
};

#define WIRE_SAMPLE_BLOCKS_OFFSET (WIRE_CHUNKS_OFFSET + WIRE_SAMPLE_SLOTS * sizeof(uint64_t))
#define WIRE_SUMS_OFFSET                                                                           \
	(WIRE_SAMPLE_BLOCKS_OFFSET + WIRE_SAMPLE_SLOTS * sizeof(struct wire_sample))
#define WIRE_SAMPLES_END (WIRE_SUMS_OFFSET + WIRE_SUM_SLOTS * sizeof(struct wire_sum))
_Static_assert(WIRE_SAMPLES_END <= WIRE_FILE_BYTES, "fits where the chunks are");

static inline struct wire_samples wire_samples_at(void *base)
{
	unsigned char *p = base;
	return (struct wire_samples){
		.addresses = (_Atomic uint64_t *)(p + WIRE_CHUNKS_OFFSET),
		.blocks = (struct wire_sample *)(p + WIRE_SAMPLE_BLOCKS_OFFSET),
		.sums = (struct wire_sum *)(p + WIRE_SUMS_OFFSET),
	};
}

static inline uint64_t wire_sample_hash(uint64_t addr)
{
	return (addr >> 4) * 0x9e3779b97f4a7c15ull;
}
/* The first slot of the address's bucket; the one beside it is at ^ WIRE_SAMPLE_BUCKET. */
static inline uint32_t wire_sample_bucket(uint64_t addr)
{
	return (uint32_t)(wire_sample_hash(addr) >> (64 - 15)) & ~(uint32_t)(WIRE_SAMPLE_BUCKET - 1);
}

#endif
