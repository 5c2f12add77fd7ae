/* Compares resident anonymous memory with recorded memory.
 *
 * Anonymous is what is no file's and not shared: the heap, stacks, relocated data of libraries, and
 * whatever the program maps itself. An ordinary program has a few MiB of it beside its heap (clang:
 * 9 MiB of relocated data), and its allocator makes the heap larger than what was asked for: by
 * headers and rounding, for which a million blocks of one byte take 32 MB, and by what it keeps
 * after frees, which is worst with many threads. So the rule wants a lot of memory, and many times
 * what the recorded blocks need; less will do where next to nothing was recorded.
 *
 * malloc cannot keep what it never gave out: if all allocations together are less than half of the
 * memory, most of it is not malloc's. Otherwise malloc may keep it, and the words say both. */
#include "trace/unseen_memory.h"

#include "hosted/number_words.h"

#include <stdio.h>
#include <string.h>

/* These numbers were chosen on some fifty programs of a Debian system (docs/allocators.md). */
#define LEAST_BYTES (16.0 * (1 << 20))
#define TIMES_RECORDED 3
/* For programs of which next to nothing was recorded: */
#define LITTLE_BYTES (8.0 * (1 << 20))
#define TIMES_LITTLE 32

#define BLOCK_OVERHEAD 32
#define ROUNDING 1.25 /* size classes of jemalloc, mimalloc, tcmalloc: at most a quarter more */

double unseen_memory_footprint(double bytes, double blocks)
{
	return ROUNDING * bytes + BLOCK_OVERHEAD * blocks;
}

enum unseen_memory unseen_memory(const struct trace_anonymous *a, double allocated)
{
	double own = (double)a->peak_bytes - (double)a->inherited_bytes;
	double recorded = unseen_memory_footprint((double)a->recorded_bytes,
						  (double)a->recorded_blocks);
	bool little = own >= LITTLE_BYTES && own >= TIMES_LITTLE * recorded;
	if (!little && (own < LEAST_BYTES || own < TIMES_RECORDED * recorded))
		return UNSEEN_NOTHING;
	return allocated < own / 2 ? UNSEEN_MOST : UNSEEN_OR_KEPT;
}

static bool begins(const char *exe, const char *with)
{
	const char *slash = strrchr(exe, '/');
	return strncmp(slash ? slash + 1 : exe, with, strlen(with)) == 0;
}

void unseen_memory_words(const struct trace_anonymous *a, enum unseen_memory how, const char *exe,
			 bool named, char *text, size_t size)
{
	char recorded[NUMBER_WORDS], resident[NUMBER_WORDS];
	number_bytes(recorded, a->recorded_bytes, "byte", "bytes");
	number_bytes(resident, a->peak_bytes - a->inherited_bytes, "byte", "bytes");
	int n = snprintf(
		text, size,
		"heft recorded a peak of %s, but %s of anonymous memory were resident: most "
		"of %s memory %s",
		recorded, resident, *exe ? "this program's" : "its",
		how == UNSEEN_MOST ? "does not come from malloc"
				   : "does not come from malloc, or malloc keeps it after "
				     "it was freed");
	if (n < 0 || (size_t)n >= size || named)
		return;
	snprintf(text + n, size - (size_t)n, ".\n%s",
		 begins(exe, "python") ? "Python has arenas of its own for small objects: with "
					 "PYTHONMALLOC=malloc "
					 "in its environment heft sees every one."
				       : "It maps memory itself (as Go, a JVM, V8 or Python's "
					 "arenas do), or it has "
					 "an allocator linked in that heft does not know.");
}
