/*
 * What the micro benchmarks share: a lane is one thread's share of the work.
 */
#ifndef HEFT_BENCH_MICRO_H
#define HEFT_BENCH_MICRO_H

#include <stddef.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Keeps the compiler from seeing that a block is never used and dropping the pair. */
#define KEEP(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

struct lane {
	long iterations;
	long operations; /* allocations made: what ns_per_op is per */
	long mark;       /* touched by every frame, so that none folds away */
	long long start_ns;
	long long end_ns;
	long long cpu_ns;
	const char *text; /* json: the document */
	size_t text_bytes;
};

/* A document of about size_bytes with objects, arrays, strings and numbers; caller frees. */
char *json_generate(size_t size_bytes, size_t *length);

/* Parses and frees the document lane->iterations times, counting allocations. */
void json_run(struct lane *lane);

#endif
