/* An arena that hands out objects from chunks of 256 KiB and says so to heft (include/heft.h).
 *
 *     arena million            1,000,000 objects: of 32 bytes from take_row(), every fourth of 16 bytes from take_cell()
 *                              instead. Then the program ends
 *     arena destroyed          the same; it destroys the pool before it ends
 *     arena leak               400 rounds in 0.4 s: take_request() gives its object of 64 bytes back, take_session() keeps
 *                              its object of 48 bytes
 *     arena leak destroyed     the same, and the pool is destroyed
 *     arena returned           the same, and every session is given back in the end
 *     arena table              400 sessions at the start, then only requests
 *     arena workers            two forked children take 10 rows each from their copy of the parent's pool, one after the
 *                              other, and destroy nothing
 *     arena pools              1,000,000 other pools: each has an object of 10 bytes, and two times no memory for one; its
 *                              owner gives back no object, and destroys it twice
 */
#define _GNU_SOURCE
#include <heft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 256 << 10, MILLION = 1000000, ROUNDS = 400, MOST_CHUNKS = 256, WORKERS = 2 };

static struct arena {
	char *chunks[MOST_CHUNKS];
	size_t count, used;
} rows;
static void *sessions[ROUNDS];

__attribute__((noinline)) static void *arena_take(struct arena *a, size_t size)
{
	if (!a->count || a->used + size > CHUNK) {
		if (a->count == MOST_CHUNKS || !(a->chunks[a->count++] = malloc(CHUNK)))
			abort();
		a->used = 0;
	}
	void *object = a->chunks[a->count - 1] + a->used;
	a->used += size;
	heft_pool_alloc(a, object, size);
	return object;
}

static void arena_destroy(struct arena *a)
{
	heft_pool_destroy(a);
	while (a->count)
		free(a->chunks[--a->count]);
}

__attribute__((noinline)) static void *take_row(void)
{
	return memset(arena_take(&rows, 32), 1, 32);
}

__attribute__((noinline)) static void *take_cell(void)
{
	return memset(arena_take(&rows, 16), 2, 16);
}

__attribute__((noinline)) static void *take_request(void)
{
	return memset(arena_take(&rows, 64), 3, 64);
}

__attribute__((noinline)) static void *take_session(void)
{
	return memset(arena_take(&rows, 48), 4, 48);
}

static void serve(int table)
{
	for (int i = 0; i < ROUNDS && table; i++)
		sessions[i] = take_session();
	for (int i = 0; i < ROUNDS; i++) {
		void *request = take_request();
		if (!table)
			sessions[i] = take_session();
		heft_event("round", (uint64_t)i);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		heft_pool_free(&rows, request);
	}
}

static void work(void)
{
	for (int i = 0; i < WORKERS; i++) {
		pid_t child = fork();
		if (child == 0) {
			for (int k = 0; k < 10; k++)
				take_row();
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

static void many_pools(void)
{
	static char places[MILLION];
	for (int i = 0; i < MILLION; i++) {
		void *pool = &places[i];
		heft_pool_create(pool, "each");
		heft_pool_alloc(pool, pool, 10);
		heft_pool_alloc(pool, NULL, 11);
		heft_pool_alloc(pool, NULL, 12);
		heft_pool_free(pool, NULL);
		heft_pool_destroy(pool);
		heft_pool_destroy(pool);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (strcmp(mode, "pools") == 0) {
		many_pools();
		return 0;
	}
	heft_pool_create(&rows, "rows");
	if (strcmp(mode, "million") == 0 || strcmp(mode, "destroyed") == 0)
		for (int i = 0; i < MILLION; i++)
			i % 4 == 3 ? take_cell() : take_row();
	else if (strcmp(mode, "workers") == 0)
		work();
	else
		serve(strcmp(mode, "table") == 0);
	for (int i = 0; i < ROUNDS && strcmp(mode, "returned") == 0; i++)
		heft_pool_free(&rows, sessions[i]);
	if (strcmp(argv[argc - 1], "destroyed") == 0)
		arena_destroy(&rows);
	return 0;
}
