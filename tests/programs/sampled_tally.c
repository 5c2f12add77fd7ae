/* Keeps its own books of what is live at each place, in a shared file, so that they survive its
 * SIGKILL: for sampled recordings, whose estimates of live blocks are held to them. As in
 * own_tally.c a number is raised before each call to what will be, and another one after it to what
 * is; the truth lies between the two.
 *
 * Every place has blocks of one size only: then the number of samples among its live blocks is
 * binomial, and the test can say exactly how likely what it sees is.
 *
 * usage: sampled_tally FILE THREADS ROUNDS (0: until killed) */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	MAX_THREADS = 4,
	SMALL_SLOTS = 20000,
	MEDIUM_SLOTS = 2000,
	GROWN_SLOTS = 1000,
	HUGE_SLOTS = 20
};
enum {
	SMALL_BYTES = 200,
	MEDIUM_BYTES = 3000,
	SEED_BYTES = 1000,
	GROWN_BYTES = 5000,
	HUGE_BYTES = 600000
};

/* The layout is read by tests/fault/test_sampled_kill.py, places in this order. */
enum place { SMALL, MEDIUM, SEED, GROWN, HUGE_ONE, PLACES };

struct book {
	volatile uint64_t made[2], gone[2]; /* begun, done */
};

struct books {
	volatile uint64_t pid, threads, ready, pad;
	struct book book[MAX_THREADS][PLACES];
};

struct slots {
	void *small[SMALL_SLOTS], *medium[MEDIUM_SLOTS], *grown[GROWN_SLOTS], *huge[HUGE_SLOTS];
	uint8_t is_grown[GROWN_SLOTS];
};

static struct books *books;
static struct slots slots[MAX_THREADS];
static uint64_t rounds;

static void raise_to(volatile uint64_t *number, uint64_t value)
{
	__asm__ volatile("" : : : "memory");
	*number = value;
	__asm__ volatile("" : : : "memory");
}

static void begin(volatile uint64_t *pair)
{
	raise_to(&pair[0], pair[1] + 1);
}

static void done(volatile uint64_t *pair)
{
	raise_to(&pair[1], pair[0]);
}

#define PLACE(name, call)                                                                          \
	NOINLINE static void *name(void)                                                           \
	{                                                                                          \
		void *p = call;                                                                    \
                                                                                                   \
		keep(p);                                                                           \
		return p;                                                                          \
	}
PLACE(keep_small, malloc(SMALL_BYTES))
PLACE(keep_medium, malloc(MEDIUM_BYTES))
PLACE(keep_seed, malloc(SEED_BYTES))
PLACE(keep_huge, calloc(1, HUGE_BYTES))

NOINLINE static void *keep_grown(void *old)
{
	void *p = realloc(old, GROWN_BYTES);

	keep(p);
	return p;
}

static void *make(struct book *b, void *(*function)(void))
{
	void *p;

	begin(b->made);
	p = function();
	must(p != NULL, "out of memory");
	done(b->made);
	return p;
}

static void drop(struct book *b, void **slot)
{
	begin(b->gone);
	free(*slot);
	done(b->gone);
	*slot = NULL;
}

static void toggle(struct book *b, void **slot, void *(*function)(void))
{
	if (*slot)
		drop(b, slot);
	else
		*slot = make(b, function);
}

/* A seed, then grown by realloc, then freed. */
static void grow(struct book *b, void **slot, uint8_t *is_grown)
{
	if (!*slot) {
		*slot = make(&b[SEED], keep_seed);
	} else if (!*is_grown) {
		begin(b[SEED].gone);
		begin(b[GROWN].made);
		*slot = keep_grown(*slot);
		must(*slot != NULL, "out of memory");
		done(b[GROWN].made);
		done(b[SEED].gone);
		*is_grown = 1;
	} else {
		*is_grown = 0;
		drop(&b[GROWN], slot);
	}
}

NOINLINE static void *work(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;
	struct book *b = books->book[thread];
	struct slots *s = &slots[thread];
	uint64_t random = 88172645463325252ull + thread;

	for (uint64_t i = 0; rounds == 0 || i < rounds; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		unsigned pick = (unsigned)(random >> 32);
		unsigned kind = random % 1000;

		if (kind == 0)
			toggle(&b[HUGE_ONE], &s->huge[pick % HUGE_SLOTS], keep_huge);
		else if (kind < 600)
			toggle(&b[SMALL], &s->small[pick % SMALL_SLOTS], keep_small);
		else if (kind < 800)
			toggle(&b[MEDIUM], &s->medium[pick % MEDIUM_SLOTS], keep_medium);
		else
			grow(b, &s->grown[pick % GROWN_SLOTS], &s->is_grown[pick % GROWN_SLOTS]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[MAX_THREADS];
	int count, fd;

	must(argc == 4, "usage: sampled_tally FILE THREADS ROUNDS");
	count = atoi(argv[2]);
	rounds = (uint64_t)atoll(argv[3]);
	must(count >= 1 && count <= MAX_THREADS, "threads");
	fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	must(fd >= 0 && ftruncate(fd, sizeof(*books)) == 0, "file");
	books = mmap(NULL, sizeof(*books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(books != MAP_FAILED, "mmap");
	books->threads = (uint64_t)count;
	books->pid = (uint64_t)getpid();
	books->ready = 1;
	for (int i = 1; i < count; i++)
		must(!pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i),
		     "pthread_create");
	work(NULL);
	for (int i = 1; i < count; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
