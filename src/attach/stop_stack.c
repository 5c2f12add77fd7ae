/* Signal frames on a thread's stack: a handler that runs now returns to the pc in its frame.
 *
 * A stack is full of old words; a frame is told from them by what stands behind the pc. Return addresses are not
 * looked at. */
#include "attach/stop_held.h"

#include <sys/uio.h>

/* A handler whose frame is further from the top of the stack has used more stack than handlers do. */
#define STACK_SEARCH ((uint64_t)1 << 20)
#define STACK_SEARCH_OTHER ((uint64_t)128 << 10)
#define STACK_OF_THREAD ((uint64_t)1 << 30)

/* Up to where a stack is searched. Above its top there is nothing to find, and a look at pages that were
 * never used would make them: the thread's own block is at the top of a thread's stack, and the arguments are at
 * the top of the first. A handler may have a stack of its own, which is small. */
static uint64_t search_end(const struct stop *s, uint64_t sp, uint64_t thread_pointer)
{
	uint64_t most = sp + STACK_SEARCH_OTHER;
	if (thread_pointer > sp && thread_pointer - sp < STACK_OF_THREAD)
		most = thread_pointer;
	else if (s->first_stack > sp && s->first_stack - sp < STACK_OF_THREAD)
		most = s->first_stack;
	return most - sp < STACK_SEARCH ? most : sp + STACK_SEARCH;
}

uint64_t stack_find_frame(struct stop *s, const struct stop_thread *t, uint64_t low, uint64_t high,
			  bool (*wanted)(const void *ctx, uint64_t pc), const void *ctx)
{
	const size_t overlap = 2 * sizeof(uint64_t);
	const uint64_t *words = (const uint64_t *)(const void *)s->stack;
	const uint64_t end = search_end(s, t->sp, t->thread_pointer);
	for (uint64_t at = t->sp & ~7ull; at < end; at += STACK_CHUNK - overlap) {
		size_t bytes = end - at < STACK_CHUNK ? end - at : STACK_CHUNK;
		struct iovec to = {s->stack, bytes}, from = {(void *)at, bytes};
		/* Unlike /proc/PID/mem this respects guard pages. */
		ssize_t got = process_vm_readv(t->tid, &to, 1, &from, 1, 0);
		for (ssize_t i = 0; i + 2 < got / (ssize_t)sizeof *words; i++)
			if (words[i] >= low && words[i] < high && wanted(ctx, words[i]) &&
			    arch_is_signal_frame(&words[i]))
				return at + (uint64_t)i * sizeof *words;
		if (got < STACK_CHUNK)
			break;
	}
	return 0;
}
