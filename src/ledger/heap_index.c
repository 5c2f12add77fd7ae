/* Which live block an address is in (heap_index.h).
 *
 * A cell stands for 512 bytes of the heap and has a bit for every 8: where blocks begin, and where they are. The number
 * of blocks before the cell and those that begin in it up to an address give the block's number, so the list of blocks
 * is not touched. Cells lie in regions of 64 MiB, whose memory is used as far as there are blocks.
 *
 * A program may reserve a block of 100 GiB, which would need cells of 5 GiB. Blocks from LARGE_LEAST bytes on have none:
 * a region knows which of them may be in it. */
#include "ledger/heap_index.h"

#include "hosted/error.h"
#include "hosted/sorted.h"

#include <sys/mman.h>

#define LARGE_LEAST (UINT64_C(4) << 20)
#define REGION_CELLS ((size_t)1 << (HEAP_REGION_BITS - HEAP_CELL_BITS))
#define REGION_BYTES (REGION_CELLS * sizeof(struct heap_cell))
#define TABLE_ENTRIES ((size_t)1 << (HEAP_ADDRESS_BITS - HEAP_REGION_BITS))
#define TABLE_BYTES (TABLE_ENTRIES * sizeof(uint32_t))

/* A block without bytes is where a pointer to it leads. */
static uint64_t end_of(const struct heap_block *b)
{
	return b->at + (b->bytes ? b->bytes : 1);
}

static void *map_zeros(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* The region of an address, which is made if need be; NULL: no memory. */
static struct heap_region *region_at(struct heap_index *x, uint64_t at)
{
	uint32_t *number = &x->region_of[at >> HEAP_REGION_BITS];
	if (!*number) {
		if (!array_reserve(x->regions, x->region_count, x->region_capacity, 1))
			return NULL;
		*number = (uint32_t)x->region_count;
		x->regions[x->region_count++] = (struct heap_region){0};
	}
	return &x->regions[*number];
}

static bool add_large(struct heap_index *x, uint32_t number)
{
	const struct heap_block *b = &x->blocks[number];
	if (!array_reserve(x->large, x->large_count, x->large_capacity, 1))
		return false;
	x->large[x->large_count++] = number;
	for (uint64_t at = b->at; at < end_of(b);
	     at = ((at >> HEAP_REGION_BITS) + 1) << HEAP_REGION_BITS) {
		struct heap_region *r = region_at(x, at);
		if (!r)
			return false;
		if (r->first_large == r->beyond_large)
			r->first_large = (uint32_t)x->large_count - 1;
		r->beyond_large = (uint32_t)x->large_count;
	}
	return true;
}

static struct heap_cell *cell_at(struct heap_index *x, uint64_t at)
{
	struct heap_region *r = region_at(x, at);
	if (r && !r->cells)
		r->cells = map_zeros(REGION_BYTES);
	return r && r->cells ? r->cells + (at >> HEAP_CELL_BITS & (REGION_CELLS - 1)) : NULL;
}

static bool add_small(struct heap_index *x, uint32_t number)
{
	const struct heap_block *b = &x->blocks[number];
	const uint64_t cell_bytes = UINT64_C(1) << HEAP_CELL_BITS;
	for (uint64_t at = b->at; at < end_of(b); at = (at / cell_bytes + 1) * cell_bytes) {
		struct heap_cell *c = cell_at(x, at);
		if (!c)
			return false;
		if (!c->covered)
			c->before = number + (at != b->at);
		unsigned first = at >> 3 & 63;
		uint64_t left = end_of(b) - at + (at & 7);
		uint64_t granules = (left + 7) / 8;
		uint64_t bits = granules >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << granules) - 1;
		c->covered |= bits << first;
		if (at == b->at)
			c->starts |= UINT64_C(1) << first;
	}
	return true;
}

int heap_index_init(struct heap_index *x, const struct heap_block *blocks, size_t count,
		    struct heft_error *err)
{
	bool fine = true;
	*x = (struct heap_index){.blocks = blocks, .region_count = 1};
	x->region_of = map_zeros(TABLE_BYTES);
	fine = x->region_of && array_reserve(x->regions, 0, x->region_capacity, 16);
	if (fine)
		x->regions[0] = (struct heap_region){0};
	if (count >= HEAP_NO_BLOCK || (count && end_of(&blocks[count - 1]) >> HEAP_ADDRESS_BITS))
		return heft_fail(err, HEFT_EREFUSED,
				 "blocks beyond what a look at the heap can count");
	for (size_t i = 0; i < count && fine; i++)
		fine = blocks[i].bytes >= LARGE_LEAST ? add_large(x, (uint32_t)i)
						      : add_small(x, (uint32_t)i);
	if (count) {
		x->low = blocks[0].at;
		x->span = end_of(&blocks[count - 1]) - x->low;
	}
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
}

void heap_index_fini(struct heap_index *x)
{
	for (size_t i = 1; x->regions && i < x->region_count; i++)
		if (x->regions[i].cells)
			munmap(x->regions[i].cells, REGION_BYTES);
	if (x->region_of)
		munmap(x->region_of, TABLE_BYTES);
	free(x->regions);
	free(x->large);
	*x = (struct heap_index){0};
}

uint32_t heap_index_large(const struct heap_index *x, const struct heap_region *r, uint64_t at)
{
	const uint32_t *large = x->large + r->first_large;
	size_t count = r->beyond_large - r->first_large;
	size_t i = count_before(k, count, x->blocks[large[k]].at <= at);
	return i && at < end_of(&x->blocks[large[i - 1]]) ? large[i - 1] : HEAP_NO_BLOCK;
}
