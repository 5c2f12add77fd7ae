/* A program whose memory is known: pages of every sort, written or only read. Then it prints what glibc's own count of
 * its heap is, and waits until its input ends.
 *
 *     ledger_life [threads] [churn]
 *
 * threads: three threads come and go, one sleeps, one runs. churn: four threads allocate and free all the time, and check
 * what they wrote. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20, BLOCKS = 1000, STACK = 100000, CHURNED = 500 };

static char zeroed[3 * MIB];
static void *blocks[BLOCKS];
static volatile int stopping;

static void *use_stack(void *how)
{
	char stack[STACK];
	memset(stack, 1, sizeof stack);
	__asm__ volatile("" : : "r"(stack) : "memory");
	if (!how)
		return NULL;
	if (*(const char *)how == 's')
		for (;;)
			pause();
	for (;;)
		__asm__ volatile("pause");
}

static void *churn(void *seed)
{
	unsigned char *mine[CHURNED] = {0};
	unsigned state = (unsigned)(size_t)seed;
	size_t bytes[CHURNED];
	while (!stopping) {
		state = state * 1103515245 + 12345;
		unsigned i = state / 65536 % CHURNED;
		if (mine[i] &&
		    (mine[i][0] != (unsigned char)i || mine[i][bytes[i] - 1] != (unsigned char)i))
			abort();
		free(mine[i]);
		bytes[i] = state % 5000 + 1;
		mine[i] = malloc(bytes[i]);
		mine[i][0] = mine[i][bytes[i] - 1] = (unsigned char)i;
	}
	return NULL;
}

static char *map(size_t bytes, int flags, int fd)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		abort();
	madvise(at, bytes, MADV_NOHUGEPAGE);
	return at;
}

static void make_threads(void)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, use_stack, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	pthread_create(&t[0], NULL, use_stack, "sleep");
	pthread_create(&t[1], NULL, use_stack, "run");
}

static void make_heap(void)
{
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = malloc(100); /* 104 usable */
	/* Not neighbours, and too large for caches of threads: they go to bins */
	void *large[20], *between[20];
	for (int i = 0; i < 20; i++) {
		large[i] = malloc(2000);
		between[i] = malloc(100);
		memset(large[i], 1, 2000);
	}
	for (int i = 0; i < 20; i++)
		free(large[i]);
	for (int i = 0; i < 20; i++)
		free(between[i]); /* some of them to the thread's cache */
}

int main(int argc, char **argv)
{
	pthread_t t[4];
	int sum = 0, threads = argc > 1 && !strcmp(argv[1], "threads");
	int churning = argc > 1 && !strcmp(argv[1], "churn");
	setvbuf(stdout, NULL, _IONBF, 0);
	memset(zeroed, 1, MIB);
	char *anonymous = map(16 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memset(anonymous, 1, 5 * MIB);
	volatile char *only_read = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	for (size_t i = 0; i < MIB; i += PAGE)
		sum += only_read[i];
	memset(map(MIB, MAP_SHARED | MAP_ANONYMOUS, -1), 1, MIB);
	int fd = memfd_create("heft-ledger", 0);
	if (ftruncate(fd, MIB))
		abort();
	memset(map(MIB, MAP_SHARED, fd), 1, MIB / 2);
	if (mmap(NULL, (size_t)1 << 36, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		 0) == MAP_FAILED)
		abort();
	memset(memalign(64 << 10, MIB), 1, MIB);
	memset(malloc(10 * MIB), 1, 2 * MIB);
	make_heap();
	if (threads)
		make_threads();
	for (int i = 0; churning && i < 4; i++)
		pthread_create(&t[i], NULL, churn, (void *)(size_t)(i + 1));
	struct mallinfo2 m = mallinfo2();
	printf("%zu %zu %zu %zu %d\n", m.arena, m.uordblks, m.fordblks, m.hblkhd, sum);
	char byte;
	while (read(0, &byte, 1) > 0)
		;
	stopping = 1;
	for (int i = 0; churning && i < 4; i++)
		pthread_join(t[i], NULL);
	if (churning)
		puts("whole");
	return 0;
}
