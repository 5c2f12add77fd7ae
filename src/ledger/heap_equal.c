/* Which live blocks are equal to others: by a hash of their bytes. The set has nothing but hashes, so a block is called
 * equal if one of the same 64 bits was there before: with ten million blocks, one in 400,000 looks has one wrong pair.
 *
 * Small blocks are left out: their headers cost as much as sharing them would save. Blocks that hold nothing but zeros
 * are counted apart, since they are empty rather than equal.
 *
 * Blocks larger than a window come in pieces, and pieces that were never touched do not come at all. So each piece is
 * hashed with its offset. The set is larger than the caches: places in it are asked for a batch early. */
#include "ledger/heap_parts.h"

#include "hosted/error.h"

enum { EQUAL_LEAST = 64, BATCH = 32 };

struct pending {
	uint64_t hash, resident;
	uint32_t site;
};

struct heap_equal {
	uint64_t *slots; /* 0: empty */
	unsigned bits;
	uint64_t state;
	uint64_t any; /* all words of the block so far: 0 if it holds zeros */
	struct pending batch[BATCH];
	size_t batched;
};

int heap_equal_new(struct heap_equal **out, const struct heap_input *in, struct heft_error *err)
{
	struct heap_equal *e = calloc(1, sizeof *e);
	size_t count = 0;
	*out = e;
	for (size_t i = 0; i < in->block_count; i++)
		count += in->blocks[i].bytes >= EQUAL_LEAST;
	if (e) {
		e->bits = 6;
		while (count > ((size_t)1 << e->bits) / 4 * 3)
			e->bits++;
		e->slots = calloc((size_t)1 << e->bits, sizeof *e->slots);
	}
	return e && e->slots ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
}

void heap_equal_free(struct heap_equal *e)
{
	if (e)
		free(e->slots);
	free(e);
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t load(const uint8_t *at, size_t bytes)
{
	uint64_t word = 0;
	memcpy(&word, at, bytes);
	return word;
}

/* The turn brings high bits down: a product alone never does, and two changed signs would cancel out. */
static uint64_t mix(uint64_t state, uint64_t word)
{
	return rotate((state ^ word) * UINT64_C(0x9e3779b97f4a7c15), 27);
}

void heap_equal_piece(struct heap_equal *e, uint64_t offset, const uint8_t *bytes, size_t count)
{
	uint64_t a = mix(e->state, offset), b = ~a, c = rotate(a, 21), d = rotate(a, 42);
	uint64_t any = e->any;
	size_t i = 0;
	for (; i + 32 <= count; i += 32) {
		uint64_t w = load(bytes + i, 8), x = load(bytes + i + 8, 8);
		uint64_t y = load(bytes + i + 16, 8), z = load(bytes + i + 24, 8);
		any |= w | x | y | z;
		a = mix(a, w);
		b = mix(b, x);
		c = mix(c, y);
		d = mix(d, z);
	}
	for (; i < count; i += 8) {
		uint64_t word = load(bytes + i, count - i < 8 ? count - i : 8);
		any |= word;
		a = mix(a, word);
	}
	e->state = mix(mix(mix(a, b), c), d);
	e->any = any;
}

static void put(struct heap_equal *e, struct heap_site *sites)
{
	const uint64_t mask = (UINT64_C(1) << e->bits) - 1;
	for (size_t i = 0; i < e->batched; i++) {
		const struct pending *p = &e->batch[i];
		uint64_t at = p->hash >> (64 - e->bits);
		while (e->slots[at] && e->slots[at] != p->hash)
			at = (at + 1) & mask;
		if (e->slots[at] && p->site != HEAP_NO_SITE) {
			sites[p->site].duplicate_blocks++;
			sites[p->site].duplicate_bytes += p->resident;
		}
		e->slots[at] = p->hash;
	}
	e->batched = 0;
}

void heap_equal_block(struct heap_equal *e, const struct heap_block *b, uint64_t resident,
		      struct heap_site *sites)
{
	uint64_t hash = mix(mix(e->state, b->bytes), 0) | 1, any = e->any;
	e->state = e->any = 0;
	if (b->bytes < EQUAL_LEAST)
		return;
	if (!any) {
		if (b->site != HEAP_NO_SITE) {
			sites[b->site].zero_blocks++;
			sites[b->site].zero_bytes += resident;
		}
		return;
	}
	__builtin_prefetch(&e->slots[hash >> (64 - e->bits)]);
	e->batch[e->batched++] = (struct pending){hash, resident, b->site};
	if (e->batched == BATCH)
		put(e, sites);
}

void heap_equal_end(struct heap_equal *e, struct heap_site *sites)
{
	put(e, sites);
}
