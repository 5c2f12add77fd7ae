/* Which live blocks can be reached: from roots, over pointers in blocks that can be reached themselves.
 *
 * Memory is seen once, in order of address. When words of a block are seen, it is often known already that the block is
 * reached: then what they lead to is reached too. Otherwise its pointers are kept, as numbers of blocks, until all words
 * were seen; then they are followed. So the list of pointers is short where most blocks are reached, and afterwards it has
 * exactly what is needed to say which of the lost blocks lead to others.
 *
 * Any aligned word that is an address inside a block counts as a pointer to it (interior pointers too). Most of the time
 * goes into waiting for memory, so words are looked up a batch at a time: the index is asked for early.
 *
 * A lost block is direct if no other lost block leads to it. In a ring of lost blocks each leads to another one: its
 * first block is direct, as in valgrind, and as many rings, as many direct blocks. */
#include "ledger/heap_parts.h"

#include "hosted/error.h"

enum { BATCH = 64 };

enum state {
	UNSEEN = 0,
	REACHED = 1,
	POINTED_TO = 2, /* lost, and another lost block leads to it */
	COUNTED = 4,    /* lost, and it is known through which block */
};

struct word {
	uint64_t value;
	uint32_t source;
};

struct heap_reach {
	const struct heap_input *in;
	struct heap_index index;
	uint8_t *states;       /* by block */
	uint32_t *first_edges; /* by block, where its pointers begin */
	size_t filled;         /* up to this block, of first_edges */
	VECTOR(uint32_t) edges;
	VECTOR(uint32_t) stack;
	uint32_t *leaders; /* by lost block that is counted: the direct block before it */
	struct word batch[BATCH];
	size_t batched;
	bool no_memory;
};

int heap_reach_new(struct heap_reach **out, const struct heap_input *in, struct heft_error *err)
{
	struct heap_reach *r = calloc(1, sizeof *r);
	*out = r;
	if (!r)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	r->in = in;
	r->states = calloc(in->block_count + 1, 1);
	r->first_edges = malloc((in->block_count + 1) * sizeof *r->first_edges);
	if (!r->states || !r->first_edges)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	return heap_index_init(&r->index, in->blocks, in->block_count, err);
}

void heap_reach_free(struct heap_reach *r)
{
	if (!r)
		return;
	heap_index_fini(&r->index);
	vector_free(&r->edges);
	vector_free(&r->stack);
	free(r->states);
	free(r->first_edges);
	free(r->leaders);
	free(r);
}

/* ---- words */

static void fill_edges(struct heap_reach *r, size_t beyond)
{
	while (r->filled < beyond)
		r->first_edges[r->filled++] = (uint32_t)r->edges.count;
}

static void look_up(struct heap_reach *r)
{
	for (size_t i = 0; i < r->batched; i++) {
		uint32_t source = r->batch[i].source;
		uint32_t target = heap_index_find(&r->index, r->batch[i].value);
		if (target == HEAP_NO_BLOCK || target == source || r->states[target] == REACHED)
			continue;
		if (source == HEAP_ROOT) {
			r->states[target] = REACHED;
		} else if (r->states[source] == REACHED) {
			r->states[target] = REACHED;
			/* Its own words were seen before it was known. */
			if (target < source && !vector_push(&r->stack, target))
				r->no_memory = true;
		} else {
			fill_edges(r, (size_t)source + 1);
			if (r->edges.count >= UINT32_MAX || !vector_push(&r->edges, target))
				r->no_memory = true;
		}
	}
	r->batched = 0;
}

void heap_reach_words(struct heap_reach *r, uint32_t source, const uint8_t *words, size_t count)
{
	const struct heap_index *x = &r->index;
	for (size_t i = 0; i < count; i++) {
		uint64_t value;
		memcpy(&value, words + i * sizeof value, sizeof value);
		if (!heap_index_may(x, value))
			continue;
		const struct heap_region *region = heap_index_region(x, value);
		if (region->cells)
			__builtin_prefetch(heap_index_cell(region, value));
		r->batch[r->batched++] = (struct word){value, source};
		if (r->batched == BATCH)
			look_up(r);
	}
}

/* ---- when all words were seen */

static uint32_t edges_begin(const struct heap_reach *r, uint32_t block)
{
	return r->first_edges[block];
}
static uint32_t edges_end(const struct heap_reach *r, uint32_t block)
{
	return r->first_edges[block + 1];
}

static void follow_reached(struct heap_reach *r)
{
	while (r->stack.count && !r->no_memory) {
		uint32_t block = r->stack.items[--r->stack.count];
		for (uint32_t i = edges_begin(r, block); i < edges_end(r, block); i++) {
			uint32_t target = r->edges.items[i];
			if (r->states[target] == REACHED)
				continue;
			r->states[target] = REACHED;
			if (!vector_push(&r->stack, target))
				r->no_memory = true;
		}
	}
}

/* Everything that a direct block leads to, and that was not counted before, is lost through it. A block of a ring
 * may be found to be direct before one that leads to that ring: then it is so no longer. */
static void count_from(struct heap_reach *r, uint32_t leader)
{
	r->states[leader] |= COUNTED;
	r->leaders[leader] = leader;
	if (!vector_push(&r->stack, leader))
		r->no_memory = true;
	while (r->stack.count && !r->no_memory) {
		uint32_t block = r->stack.items[--r->stack.count];
		for (uint32_t i = edges_begin(r, block); i < edges_end(r, block); i++) {
			uint32_t target = r->edges.items[i];
			bool was_direct = (r->states[target] & COUNTED) && target != leader &&
					  r->leaders[target] == target;
			if ((r->states[target] & (REACHED | COUNTED)) && !was_direct)
				continue;
			r->states[target] |= COUNTED;
			r->leaders[target] = leader;
			/* What it led to stays with it, and it with the new one: see leader_of. */
			if (!was_direct && !vector_push(&r->stack, target))
				r->no_memory = true;
		}
	}
}

/* A direct block that was overtaken leads on to the one that took it. */
static uint32_t leader_of(const struct heap_reach *r, uint32_t block)
{
	while (r->leaders[block] != block)
		block = r->leaders[block];
	return block;
}

static void find_leaders(struct heap_reach *r)
{
	const size_t count = r->in->block_count;
	for (uint32_t b = 0; b < count; b++)
		for (uint32_t i = edges_begin(r, b);
		     !(r->states[b] & REACHED) && i < edges_end(r, b); i++)
			r->states[r->edges.items[i]] |= POINTED_TO;
	for (uint32_t b = 0; b < count; b++)
		if (!(r->states[b] & (REACHED | POINTED_TO)))
			count_from(r, b);
	for (uint32_t b = 0; b < count; b++) /* rings are left */
		if (!(r->states[b] & (REACHED | COUNTED)))
			count_from(r, b);
}

static void add_up(const struct heap_reach *r, struct heap_site *sites)
{
	for (uint32_t b = 0; b < r->in->block_count; b++) {
		const struct heap_block *block = &r->in->blocks[b];
		if (r->states[b] & REACHED)
			continue;
		uint32_t leader = leader_of(r, b), through = r->in->blocks[leader].site;
		if (leader == b && block->site != HEAP_NO_SITE) {
			sites[block->site].direct_blocks++;
			sites[block->site].direct_bytes += block->bytes;
		} else if (leader != b) {
			if (block->site != HEAP_NO_SITE) {
				sites[block->site].indirect_blocks++;
				sites[block->site].indirect_bytes += block->bytes;
			}
			if (through != HEAP_NO_SITE) {
				sites[through].held_blocks++;
				sites[through].held_bytes += block->bytes;
			}
		}
	}
}

int heap_reach_end(struct heap_reach *r, struct heap_site *sites, struct heft_error *err)
{
	look_up(r);
	fill_edges(r, r->in->block_count + 1);
	follow_reached(r);
	r->leaders = malloc((r->in->block_count + 1) * sizeof *r->leaders);
	if (r->leaders && !r->no_memory)
		find_leaders(r);
	if (!r->leaders || r->no_memory)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
	add_up(r, sites);
	return 0;
}
