/* Keeps its own books in a shared file while it allocates, so that they survive its
 * SIGKILL: before each call a number is raised to what will be, after it another one
 * to what is. Whatever a recorder has seen must lie between the two, on each thread.
 *
 * usage: own_tally FILE THREADS ROUNDS (0: until killed) */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SLOTS 64

/* The layout is read by tests/fault/test_sigkill.py. */
struct book {
	volatile uint64_t tid;
	volatile uint64_t allocations[2], frees[2], reallocations[2], bytes[2]; /* begun, done */
	volatile uint64_t pad[7];
};

struct books {
	volatile uint64_t pid, threads, ready, pad;
	struct book book[16];
};

static struct books *books;
static uint64_t rounds;

static void raise_to(volatile uint64_t *number, uint64_t value)
{
	__asm__ volatile("" : : : "memory");
	*number = value;
	__asm__ volatile("" : : : "memory");
}

NOINLINE static void *tally_malloc(struct book *b, size_t n)
{
	uint64_t calls = b->allocations[1] + 1, bytes = b->bytes[1] + n;
	void *p;

	raise_to(&b->bytes[0], bytes);
	raise_to(&b->allocations[0], calls);
	p = malloc(n);
	raise_to(&b->allocations[1], calls);
	raise_to(&b->bytes[1], bytes);
	return p;
}

NOINLINE static void tally_free(struct book *b, void *p)
{
	uint64_t calls = b->frees[1] + 1;

	raise_to(&b->frees[0], calls);
	free(p);
	raise_to(&b->frees[1], calls);
}

NOINLINE static void *tally_realloc(struct book *b, void *p, size_t old, size_t n)
{
	uint64_t calls = b->reallocations[1] + 1, bytes = b->bytes[1] + (n > old ? n - old : 0);

	raise_to(&b->bytes[0], bytes);
	raise_to(&b->reallocations[0], calls);
	p = realloc(p, n);
	raise_to(&b->reallocations[1], calls);
	raise_to(&b->bytes[1], bytes);
	return p;
}

NOINLINE static void *work(void *arg)
{
	struct book *b = arg;
	uint64_t random = 88172645463325252ull + (uint64_t)(b - books->book);
	struct {
		void *p;
		size_t n;
	} slot[SLOTS] = {0};

	b->tid = (uint64_t)syscall(SYS_gettid);
	for (uint64_t i = 0; rounds == 0 || i < rounds; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		unsigned at = random % SLOTS;
		size_t n = (random >> 20) % 500 + 1;

		if (!slot[at].p) {
			slot[at].p = tally_malloc(b, n);
			slot[at].n = n;
		} else if ((random >> 40) % 4 == 0) {
			slot[at].p = tally_realloc(b, slot[at].p, slot[at].n, n);
			slot[at].n = n;
		} else {
			tally_free(b, slot[at].p);
			slot[at].p = NULL;
		}
		must(!slot[at].p || slot[at].n == n, "slot");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[16];
	int count, fd;

	must(argc == 4, "usage: own_tally FILE THREADS ROUNDS");
	count = atoi(argv[2]);
	rounds = (uint64_t)atoll(argv[3]);
	must(count >= 1 && count <= 16, "threads");
	fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	must(fd >= 0 && ftruncate(fd, sizeof(*books)) == 0, "file");
	books = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(books != MAP_FAILED, "mmap");
	books->threads = (uint64_t)count;
	books->pid = (uint64_t)getpid();
	for (int i = 1; i < count; i++)
		must(!pthread_create(&thread[i], NULL, work, &books->book[i]), "pthread_create");
	books->ready = 1;
	work(&books->book[0]);
	for (int i = 1; i < count; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
