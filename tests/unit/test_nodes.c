/* The stack table under several threads: every path gets a node, its parents
 * spell the path, the same path is found again. Run under ThreadSanitizer too. */
#include "capture/inside.h"
#include "unit_test.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct heft_process *heft_process;
_Atomic uint64_t sys_forbidden;
struct heft_part heft_part = HEFT_PART_ALL;

enum { THREADS = 4, PATHS = 30000, DEPTH = 6 };

static void begin(void)
{
	void *file = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	heft_process = mmap(NULL, sizeof *heft_process, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	assert_ptr_not_equal(heft_process, MAP_FAILED);
	heft_process->session = wire_session_at(file);
	atomic_store(&heft_process->session.header->node_count, 1);
}

static void end(void)
{
	for (int i = 0; i < HEFT_INDEX_LEVELS; i++)
		if (heft_process->index[HEFT_NODES][i].slots)
			munmap((void *)heft_process->index[HEFT_NODES][i].slots, 8);
	munmap(heft_process->session.header, WIRE_FILE_BYTES);
	munmap(heft_process, sizeof *heft_process);
}

/* The path of number n: DEPTH pcs; paths of near numbers share their outer frames. */
static uint64_t pc_of(uint32_t n, int level)
{
	static const uint32_t divisor[DEPTH] = {20000, 4000, 500, 60, 7, 1};
	return 0x400000 + n / divisor[level] * 16 + (uint64_t)level;
}

static uint32_t node_of(uint32_t n)
{
	uint64_t hash = 1;
	uint32_t parent = 0;
	for (int level = 0; level < DEPTH; level++) {
		hash = heft_mix(hash, pc_of(n, level));
		uint32_t id = heft_index_find(HEFT_NODES, hash);
		if (!id)
			id = heft_node_add(HEFT_NODES, parent, pc_of(n, level), hash);
		if (!id)
			return 0;
		parent = id;
	}
	return parent;
}

static int spells(uint32_t id, uint32_t n)
{
	const struct wire_node *nodes = heft_process->session.nodes;
	for (int level = DEPTH - 1; level >= 0; level--) {
		if ((nodes[id].pc_flags & WIRE_PC_MASK) != pc_of(n, level) ||
		    nodes[id].check != ~nodes[id].parent || nodes[id].parent >= id)
			return 0;
		id = nodes[id].parent;
	}
	return id == 0;
}

static void *worker(void *arg)
{
	uint64_t rng = (uint64_t)(uintptr_t)arg + 1;
	uintptr_t wrong = 0;
	for (int i = 0; i < PATHS; i++) {
		rng = rng * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t n = (uint32_t)(rng >> 33) % PATHS;
		uint32_t id = node_of(n);
		wrong += !id || !spells(id, n);
		wrong += node_of(n) == 0;
	}
	return (void *)wrong;
}

TEST(test_threads_share_the_table)
{
	begin();
	pthread_t t[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, worker, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;
		pthread_join(t[i], &wrong);
		assert_int_equal((uintptr_t)wrong, 0);
	}
	/* Found again from now on, under one number. */
	uint32_t before = atomic_load(&heft_process->session.header->node_count);
	for (uint32_t n = 0; n < PATHS; n += 11) {
		uint32_t id = node_of(n);
		if (id < before) /* made by the threads */
			assert_int_equal(node_of(n), id);
	}
	end();
}

TEST(test_a_full_table_says_so)
{
	begin();
	atomic_store(&heft_process->session.header->node_count, WIRE_NODES - 2);
	assert_int_not_equal(heft_node_add(HEFT_NODES, 0, 0x1000, 11), 0);
	assert_int_not_equal(heft_node_add(HEFT_NODES, 0, 0x2000, 22ull << 32), 0);
	assert_int_equal(heft_node_add(HEFT_NODES, 0, 0x3000, 33ull << 40), 0);
	assert_int_equal(heft_node_add(HEFT_NODES, 0, 0x3000, 33ull << 40), 0);
	end();
}

UNIT_TESTS(NULL, NULL)
