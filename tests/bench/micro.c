/*
 * Micro benchmarks of the allocation path.
 *
 *   micro KIND THREADS ITERATIONS [RESULT-FILE [HELD]]
 *
 *   same      malloc(64) + free in a loop 20 calls deep: the stack never changes
 *   top       the same, with the innermost 1 to 3 frames changing from pair to pair
 *   disjoint  two stacks of 20 different functions each, alternating: nothing can be reused
 *   json      a recursive parser that builds a tree and frees it (micro_json.c)
 *   handover  one thread allocates, another one frees (THREADS is ignored: there are two)
 *
 * Each thread does ITERATIONS (pairs, or for json documents) after a short warm-up, started
 * together by a barrier; the result line gives the wall time from the first start to the last end
 * over the operations of one thread, so start-up is outside and the figure is what one thread sees;
 * cpu_ns_per_op is the threads' own processor time over all operations, which other programs on the
 * machine disturb less. HELD blocks of 1 MiB are allocated before, and never touched or freed: they
 * cost address space, and nearly all of them become live samples of a sampling profiler.
 * With one thread the work stays on the main thread and no thread is ever created: glibc's
 * allocator has a single-threaded fast path, and that is the baseline most programs have.
 *
 * Built with -fno-optimize-sibling-calls; every frame does something after its call returns.
 */
#include "micro.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_LANES = 64, BLOCK_BYTES = 64, DOCUMENT_BYTES = 100 * 1000 };
enum { BATCH_BLOCKS = 256, QUEUE_BATCHES = 16 };
enum { HELD_BYTES = 1 << 20, MAX_HELD = 100000 };

typedef void lane_function(struct lane *lane);

struct micro_kind {
	const char *name;
	lane_function *run;
};

static long long clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (long long)time.tv_sec * 1000000000LL + time.tv_nsec;
}

static NOINLINE void pair(struct lane *lane)
{
	void *block = malloc(BLOCK_BYTES);

	KEEP(block);
	free(block);
	lane->mark++;
}

/* FRAME(chain, 3, 2) is a function chain_3 that calls chain_2 and still has work to do after it. */
#define FRAME(chain, n, next)                                                                      \
	static NOINLINE void chain##_##n(struct lane *lane)                                        \
	{                                                                                          \
		lane->mark += n;                                                                   \
		chain##_##next(lane);                                                              \
		lane->mark ^= n;                                                                   \
	}

/* Eighteen frames over chain_1; main and the lane's own make it twenty. */
#define CHAIN(chain)                                                                               \
	FRAME(chain, 2, 1)                                                                         \
	FRAME(chain, 3, 2)                                                                         \
	FRAME(chain, 4, 3)                                                                         \
	FRAME(chain, 5, 4)                                                                         \
	FRAME(chain, 6, 5)                                                                         \
	FRAME(chain, 7, 6)                                                                         \
	FRAME(chain, 8, 7)                                                                         \
	FRAME(chain, 9, 8)                                                                         \
	FRAME(chain, 10, 9)                                                                        \
	FRAME(chain, 11, 10)                                                                       \
	FRAME(chain, 12, 11)                                                                       \
	FRAME(chain, 13, 12)                                                                       \
	FRAME(chain, 14, 13)                                                                       \
	FRAME(chain, 15, 14)                                                                       \
	FRAME(chain, 16, 15)                                                                       \
	FRAME(chain, 17, 16)                                                                       \
	FRAME(chain, 18, 17)

static NOINLINE void same_1(struct lane *lane)
{
	for (long i = 0; i < lane->iterations; i++) {
		void *block = malloc(BLOCK_BYTES);

		KEEP(block);
		free(block);
	}
	lane->operations = lane->iterations;
}
CHAIN(same)

static NOINLINE void top_frame_1(struct lane *lane)
{
	pair(lane);
	lane->mark ^= 1;
}

static NOINLINE void top_frame_2(struct lane *lane)
{
	top_frame_1(lane);
	lane->mark ^= 2;
}

/* The innermost frames in turn: pair; frame_1, pair; frame_2, frame_1, pair. */
static NOINLINE void top_1(struct lane *lane)
{
	for (long i = 0; i < lane->iterations; i++) {
		switch (i % 3) {
		case 0: pair(lane); break;
		case 1: top_frame_1(lane); break;
		default: top_frame_2(lane); break;
		}
	}
	lane->operations = lane->iterations;
}
CHAIN(top)

#define left_1 pair
CHAIN(left)
#define right_1 pair
CHAIN(right)

static NOINLINE void disjoint_run(struct lane *lane)
{
	for (long i = 0; i < lane->iterations; i += 2) {
		left_18(lane);
		right_18(lane);
	}
	lane->operations = lane->iterations;
}

/*
 * The hand-over goes through a bounded queue of batches, so that the price of waking the other
 * thread is spread over 256 blocks and what is left is the price of the blocks.
 */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *blocks[QUEUE_BATCHES][BATCH_BLOCKS];
	unsigned long produced;
	unsigned long consumed;
};

static struct queue queue = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
};

/*
 * Sizes that glibc frees into another thread's arena without its lock: with larger ones the two
 * threads fight for that lock, and the plain run itself varies by half.
 */
static NOINLINE void *produce_block(long i)
{
	void *block = malloc(16 + (size_t)(i % 6) * 16);

	KEEP(block);
	return block;
}

static NOINLINE void consume_block(void *block)
{
	free(block);
}

static void advance(unsigned long *counter)
{
	pthread_mutex_lock(&queue.lock);
	(*counter)++;
	pthread_cond_signal(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

static void *handover_consumer(void *argument)
{
	long batches = *(long *)argument;

	for (long batch = 0; batch < batches; batch++) {
		void **blocks = queue.blocks[batch % QUEUE_BATCHES];

		pthread_mutex_lock(&queue.lock);
		while (queue.produced == queue.consumed)
			pthread_cond_wait(&queue.changed, &queue.lock);
		pthread_mutex_unlock(&queue.lock);
		for (int i = 0; i < BATCH_BLOCKS; i++)
			consume_block(blocks[i]);
		advance(&queue.consumed);
	}
	return NULL;
}

static NOINLINE void handover_run(struct lane *lane)
{
	long batches = (lane->iterations + BATCH_BLOCKS - 1) / BATCH_BLOCKS;
	pthread_t consumer;

	if (pthread_create(&consumer, NULL, handover_consumer, &batches)) {
		fputs("micro: cannot create a thread\n", stderr);
		exit(1);
	}
	for (long batch = 0; batch < batches; batch++) {
		void **blocks = queue.blocks[batch % QUEUE_BATCHES];

		pthread_mutex_lock(&queue.lock);
		while (queue.produced - queue.consumed == QUEUE_BATCHES)
			pthread_cond_wait(&queue.changed, &queue.lock);
		pthread_mutex_unlock(&queue.lock);
		for (int i = 0; i < BATCH_BLOCKS; i++)
			blocks[i] = produce_block(i);
		advance(&queue.produced);
	}
	pthread_join(consumer, NULL);
	lane->operations = batches * BATCH_BLOCKS;
}

static const struct micro_kind kinds[] = {
	{"same", same_18},          {"top", top_18}, {"disjoint", disjoint_run}, {"json", json_run},
	{"handover", handover_run},
};

struct lane_thread {
	struct lane lane;
	lane_function *run;
	pthread_barrier_t *barrier;
};

static void run_lane(struct lane_thread *thread)
{
	long iterations = thread->lane.iterations;

	thread->lane.iterations = iterations / 100 + 2;
	thread->run(&thread->lane);
	thread->lane.iterations = iterations;
	if (thread->barrier)
		pthread_barrier_wait(thread->barrier);
	thread->lane.start_ns = clock_ns(CLOCK_MONOTONIC);
	thread->lane.cpu_ns = -clock_ns(CLOCK_THREAD_CPUTIME_ID);
	thread->run(&thread->lane);
	thread->lane.cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID);
	thread->lane.end_ns = clock_ns(CLOCK_MONOTONIC);
}

static void *lane_main(void *argument)
{
	run_lane(argument);
	return NULL;
}

static int write_result(const char *path, const char *kind, const struct lane_thread *threads,
			int count)
{
	long long start_ns = threads[0].lane.start_ns;
	long long end_ns = threads[0].lane.end_ns;
	long long cpu_ns = threads[0].lane.cpu_ns;
	FILE *out = path ? fopen(path, "w") : stdout;

	if (!out) {
		perror(path);
		return 1;
	}
	for (int i = 1; i < count; i++) {
		if (threads[i].lane.start_ns < start_ns)
			start_ns = threads[i].lane.start_ns;
		if (threads[i].lane.end_ns > end_ns)
			end_ns = threads[i].lane.end_ns;
		cpu_ns += threads[i].lane.cpu_ns;
	}
	fprintf(out,
		"kind=%s lanes=%d operations=%ld steady_ns=%lld ns_per_op=%.2f "
		"cpu_ns_per_op=%.3f\n",
		kind, count, threads[0].lane.operations * count, end_ns - start_ns,
		(double)(end_ns - start_ns) / (double)threads[0].lane.operations,
		(double)cpu_ns / (double)(threads[0].lane.operations * count));
	return fclose(out) ? 1 : 0;
}

static NOINLINE void hold(long count)
{
	static void *held[MAX_HELD]; /* so that a leak checker would find them */

	for (long i = 0; i < count && i < MAX_HELD; i++) {
		held[i] = malloc(HELD_BYTES);
		if (!held[i]) {
			fputs("micro: out of memory\n", stderr);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	static struct lane_thread threads[MAX_LANES];
	static pthread_t ids[MAX_LANES];
	pthread_barrier_t barrier;
	const struct micro_kind *kind = NULL;
	char *document = NULL;
	size_t document_bytes = 0;
	int count;
	int status;

	for (size_t i = 0; argc >= 4 && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(argv[1], kinds[i].name) == 0)
			kind = &kinds[i];
	}
	if (!kind) {
		fputs("usage: micro same|top|disjoint|json|handover THREADS ITERATIONS [FILE "
		      "[HELD]]\n",
		      stderr);
		return 2;
	}
	count = kind->run == handover_run ? 1 : atoi(argv[2]);
	if (count < 1 || count > MAX_LANES)
		return 2;
	if (argc > 5)
		hold(atol(argv[5]));
	if (kind->run == json_run)
		document = json_generate(DOCUMENT_BYTES, &document_bytes);
	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	for (int i = 0; i < count; i++) {
		threads[i].lane.iterations = atol(argv[3]);
		threads[i].lane.text = document;
		threads[i].lane.text_bytes = document_bytes;
		threads[i].run = kind->run;
		threads[i].barrier = count > 1 ? &barrier : NULL;
	}
	if (count == 1) {
		run_lane(&threads[0]);
	} else {
		for (int i = 0; i < count; i++) {
			if (pthread_create(&ids[i], NULL, lane_main, &threads[i])) {
				fputs("micro: cannot create a thread\n", stderr);
				return 1;
			}
		}
		for (int i = 0; i < count; i++)
			pthread_join(ids[i], NULL);
	}
	status = write_result(argc > 4 ? argv[4] : NULL, kind->name, threads, count);
	free(document);
	return status;
}
