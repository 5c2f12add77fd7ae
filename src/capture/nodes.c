/* The stack table: an append-only log of nodes in the session file and a
 * private hash index of it.
 *
 * A node is (parent, pc). The index finds it by the 64-bit hash of its whole path. An
 * index entry is one word: 40 bits of hash and 24 bits of node index, so it
 * appears at once or not at all, and no thread ever waits for another. Two
 * threads that create the same path at the same time make duplicates in the
 * log; the outside merges them.
 *
 * The index starts small and grows by levels: a level that is 5/8 full stays as it
 * is, and a larger one begins. A hit in an older level is copied to the newest, so
 * hot paths are found at the first probe. Two paths are confused only if 40 hash bits
 * and the region of the slot agree; with 50,000 nodes the chance that any pair does is
 * below 1e-6.
 *
 * When the table is full, the caller records the allocation under the deepest ancestor
 * that exists, and counts it. */
#include "capture/inside.h"
#include "capture/own_memory.h"

#include <sys/mman.h>

enum { ID_BITS = 24, PROBES = 32, HUGE_PAGE = 2 << 20 };
/* The last three are whole huge pages. */
static const uint8_t level_bits[HEFT_INDEX_LEVELS] = {12, 15, 18, 20, 21};
#define ID_MASK ((1ull << ID_BITS) - 1)

/* Look-ups go to random places: with small pages each would miss the TLB too. */
static void *map_huge(size_t bytes)
{
	char *p = sys_mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!p)
		return NULL;
	size_t before = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (before)
		sys_munmap(p, before);
	sys_munmap(p + before + bytes, HUGE_PAGE - before);
	sys_madvise(p + before, bytes, MADV_HUGEPAGE);
	return p + before;
}

static _Atomic uint64_t *level_slots(struct heft_index_level *l, unsigned level)
{
	_Atomic uint64_t *slots = atomic_load_explicit(&l->slots, memory_order_acquire);
	if (slots)
		return slots;
	size_t bytes = sizeof(uint64_t) << level_bits[level];
	void *mem = bytes >= HUGE_PAGE ? map_huge(bytes)
				       : sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!mem)
		return NULL;
	_Atomic uint64_t *expected = NULL;
	if (!atomic_compare_exchange_strong(&l->slots, &expected, (_Atomic uint64_t *)mem)) {
		sys_munmap(mem, bytes);
		return expected;
	}
	heft_mapped_own(mem, bytes);
	return mem;
}

static uint32_t find_in(const struct heft_index_level *l, unsigned level, uint64_t hash)
{
	_Atomic uint64_t *slots = atomic_load_explicit(&l->slots, memory_order_acquire);
	if (!slots)
		return 0;
	uint64_t mask = (1ull << level_bits[level]) - 1, tag = hash >> ID_BITS;
	for (uint64_t i = hash; i < hash + PROBES; i++) {
		uint64_t e = atomic_load_explicit(&slots[i & mask], memory_order_acquire);
		if (e >> ID_BITS == tag && (e & ID_MASK))
			return (uint32_t)(e & ID_MASK);
		if (!e)
			return 0;
	}
	return 0;
}

/* Returns the id now in the index for hash: id, or another thread's, or id though it found no
 * place (then the path will be created again next time: rare, merged outside). */
static uint32_t insert(enum heft_index_kind kind, uint64_t hash, uint32_t id)
{
	struct heft_process *p = heft_process;
	_Atomic uint32_t *newest = &p->index_level[kind];
	unsigned level = atomic_load_explicit(newest, memory_order_relaxed);
	for (; level < HEFT_INDEX_LEVELS; level++) {
		struct heft_index_level *l = &p->index[kind][level];
		uint32_t most = (1u << level_bits[level]) / 8 * 5;
		if (atomic_load_explicit(&l->used, memory_order_relaxed) < most) {
			_Atomic uint64_t *slots = level_slots(l, level);
			if (!slots)
				return id;
			uint64_t mask = (1ull << level_bits[level]) - 1;
			uint64_t entry = (hash & ~ID_MASK) | id;
			for (uint64_t i = hash; i < hash + PROBES; i++) {
				uint64_t e = 0;
				if (atomic_compare_exchange_strong(&slots[i & mask], &e, entry)) {
					atomic_fetch_add_explicit(&l->used, 1,
								  memory_order_relaxed);
					return id;
				}
				if (e >> ID_BITS == hash >> ID_BITS)
					return (uint32_t)(e & ID_MASK);
			}
		}
		uint32_t expected = level;
		if (level + 1 < HEFT_INDEX_LEVELS)
			atomic_compare_exchange_strong(newest, &expected, level + 1);
	}
	return id;
}

/* In large programs a look-up is a cache miss. Several can be under way at once, if all are begun before
 * the first is used. */
static inline void begin_look_up(const struct heft_index_level *l, unsigned level, uint64_t hash)
{
	_Atomic uint64_t *slots = atomic_load_explicit(&l->slots, memory_order_acquire);
	if (LIKELY(slots))
		__builtin_prefetch((const void *)&slots[hash & ((1ull << level_bits[level]) - 1)],
				   1);
}

void heft_index_prefetch(enum heft_index_kind kind, uint64_t hash)
{
	unsigned newest = atomic_load_explicit(&heft_process->index_level[kind],
					       memory_order_relaxed);
	begin_look_up(&heft_process->index[kind][newest], newest, hash);
}

uint32_t heft_index_find(enum heft_index_kind kind, uint64_t hash)
{
	struct heft_process *p = heft_process;
	unsigned newest = atomic_load_explicit(&p->index_level[kind], memory_order_relaxed);
	uint32_t id = find_in(&p->index[kind][newest], newest, hash);
	if (LIKELY(id))
		return id;
	for (unsigned level = newest; level-- > 0;)
		begin_look_up(&p->index[kind][level], level, hash);
	for (unsigned level = newest; level-- > 0;) {
		id = find_in(&p->index[kind][level], level, hash);
		if (id)
			return insert(kind, hash, id);
	}
	return 0;
}

uint32_t heft_node_add(enum heft_index_kind kind, uint32_t parent, uint64_t pc_flags, uint64_t hash)
{
	struct wire_session *s = &heft_process->session;
	const uint32_t most = atomic_load_explicit(&heft_part.nodes, memory_order_relaxed);
	if (atomic_load_explicit(&s->header->node_count, memory_order_relaxed) >= most)
		return 0;
	uint32_t id = atomic_fetch_add(&s->header->node_count, 1);
	if (id >= most)
		return 0;
	struct wire_node *n = &s->nodes[id];
	/* Asks for the page after this one, before anybody needs it. */
	if (id % HEFT_NODES_A_PAGE == 0 && id + 2 * HEFT_NODES_A_PAGE <= most &&
	    sys_populate(n + HEFT_NODES_A_PAGE, HEFT_NODES_A_PAGE * sizeof *n)) {
		atomic_store(&s->header->node_count, WIRE_NODES); /* no memory: the table is full */
		return 0;
	}
	n->parent = parent;
	n->check = ~parent;
	atomic_store_explicit(&n->pc_flags,
			      pc_flags | (uint64_t)WIRE_NODE_PRESENT << WIRE_FLAG_SHIFT,
			      memory_order_release);
	return insert(kind, hash, id);
}
