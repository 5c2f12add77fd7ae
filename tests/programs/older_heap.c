/* A heap that is counted by hand, for tests that read it from outside. Three threads beside the first have arenas of
 * their own. At each byte from standard input the program does one step and then answers with the blocks that it
 * holds: pairs of words, address and malloc_usable_size, and a pair of zeros. In between it waits in read.
 *
 *   a   the threads are there; it holds nothing (what libc has is there too)
 *   b   blocks of every kind: as caches, fast bins, small and large bins and mappings have them. Of each row every
 *       second one is freed.
 *   c   all of them are freed
 *   d   the second thread allocates more than one heap of 64 MiB holds
 *   e   all threads allocate and free without end; `a` is the only answer */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, MOST = 4096, ROW = 40, LARGE = 65000, LARGE_BLOCKS = 1100 };

static void *held[THREADS][MOST];
static size_t counts[THREADS];
static pthread_barrier_t begin, end;
static volatile char step;

static void keep(int me, void *block)
{
	memset(block, 0x55, malloc_usable_size(block) < 4096 ? malloc_usable_size(block) : 4096);
	held[me][counts[me]++] = block;
}

static void row(int me, size_t size)
{
	void *made[ROW];
	for (int i = 0; i < ROW; i++)
		made[i] = malloc(size);
	for (int i = 0; i < ROW; i++)
		if (i % 2)
			free(made[i]);
		else
			keep(me, made[i]);
}

static void all_kinds(int me)
{
	static const size_t sizes[] = {1,   24,  25,   56,   100,  120,  121,
				       500, 640, 1032, 1040, 5000, 30000};
	void *block;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		row(me, sizes[i]);
	for (int i = 0; i < 3; i++) {
		keep(me, malloc(200000 + (size_t)i * 50000));
		void *volatile gone = malloc(180000);
		free(gone);
		keep(me, memalign(64, 1000));
		keep(me, memalign(4096, 300000));
		keep(me, memalign(256, 150000));
		if (posix_memalign(&block, 65536, 100) == 0)
			keep(me, block);
	}
	keep(me, calloc(1, 640)); /* zeros, as large as a cache */
	row(me, 24); /* what large blocks have emptied: 13 of each row stay in fast bins */
	row(me, 56);
}

static void free_all(int me)
{
	while (counts[me])
		free(held[me][--counts[me]]);
}

static void endless(int me)
{
	void *ring[256] = {0};
	uint32_t random = (uint32_t)me + 1;
	for (unsigned i = 0;; i = (i + 1) % 256) {
		random = random * 1664525 + 1013904223;
		free(ring[i]);
		ring[i] = malloc(random >> 20);
	}
}

static void do_step(int me)
{
	switch (step) {
	case 'b': all_kinds(me); break;
	case 'c': free_all(me); break;
	case 'd':
		for (int i = 0; me == 1 && i < LARGE_BLOCKS; i++)
			keep(me, malloc(LARGE));
		break;
	case 'e':
		if (me)
			endless(me);
		break;
	default:
		keep(me, malloc(10));
		free_all(me);
		break;
	}
}

static void *thread(void *number)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		do_step((int)(intptr_t)number);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void answer(void)
{
	static uint64_t words[THREADS * MOST + 1][2];
	size_t n = 0;
	for (int t = 0; t < THREADS; t++)
		for (size_t i = 0; i < counts[t]; i++, n++) {
			words[n][0] = (uint64_t)(uintptr_t)held[t][i];
			words[n][1] = malloc_usable_size(held[t][i]);
		}
	words[n][0] = words[n][1] = 0;
	const char *from = (const char *)words;
	for (size_t left = (n + 1) * sizeof *words; left;) {
		ssize_t wrote = write(1, from, left);
		if (wrote <= 0)
			_exit(1);
		from += wrote;
		left -= (size_t)wrote;
	}
}

int main(void)
{
	char asked;
	mallopt(M_MMAP_THRESHOLD, 128 << 10); /* else it grows with what is freed */
	pthread_barrier_init(&begin, NULL, THREADS);
	pthread_barrier_init(&end, NULL, THREADS);
	for (int i = 1; i < THREADS; i++) {
		pthread_t id;
		pthread_create(&id, NULL, thread, (void *)(intptr_t)i);
	}
	while (read(0, &asked, 1) == 1) {
		step = asked;
		pthread_barrier_wait(&begin);
		do_step(0);
		if (asked != 'e')
			pthread_barrier_wait(&end);
		answer();
	}
	return 0;
}
