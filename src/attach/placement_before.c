/* Looks at what was there before (placement_before.h): first while the program runs, which is nearly right and stops
 * nobody. If that took little time, the same is done once more while all threads are stopped, where it is exact: at
 * that moment the program's calls begin to be seen. */
#include "attach/placement_before.h"

#include "attach/attach.h"

#include <fcntl.h>
#include <stdio.h>

enum {
	RUNNING_LIMIT_MS = 500, /* for a heap of some GiB; the rest of it is not counted */
	FROZEN_LIMIT_US = 2000, /* how much longer the program may stand still */
	FROZEN_IF_US = 1000, /* so long it may take while it runs; frozen it takes about as long */
};

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

void before_look(struct before *b, struct target_modules *m, size_t module)
{
	const struct target_memory memory = {read_memory, m};
	struct heft_error err = {0};
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/pagemap", m->pid);
	int pages = open(path, O_RDONLY | O_CLOEXEC);
	if (older_open(&b->heap, &memory, &m->items[module].image, &m->maps, pages, &err)) {
		snprintf(b->refused, sizeof b->refused, "%.150s", err.message);
		return;
	}
	const struct older_reading running = {.limit_ns = RUNNING_LIMIT_MS * UINT64_C(1000000)};
	older_read(b->heap, &running, &b->totals);
	if (b->totals.took_ns <= FROZEN_IF_US * UINT64_C(1000))
		b->frozen_limit_ns = FROZEN_LIMIT_US * UINT64_C(1000);
}

void before_look_again(struct before *b, struct stop *stop)
{
	static uint64_t pointers[GLIBC_THREADS_MOST];
	const struct stop_thread *threads;
	size_t count;
	struct older_totals totals;
	if (!b->heap || !b->frozen_limit_ns || stop_threads(stop, &threads, &count) ||
	    count > GLIBC_THREADS_MOST)
		return;
	for (size_t i = 0; i < count; i++)
		pointers[i] = threads[i].thread_pointer;
	const struct older_reading frozen = {.still = true,
					     .thread_pointers = pointers,
					     .thread_count = count,
					     .limit_ns = b->frozen_limit_ns};
	older_read(b->heap, &frozen, &totals);
	/* In the middle of a malloc something may be amiss that was not before. */
	if (!totals.incomplete || b->totals.incomplete)
		b->totals = totals;
}

void before_report(const struct before *b, struct attach_report *report)
{
	report->older = b->totals;
	if (b->heap)
		older_words(&b->totals, report->before, sizeof report->before);
	else
		snprintf(report->before, sizeof report->before, "before: not known: %s",
			 b->refused);
}

void before_fini(struct before *b)
{
	older_close(b->heap);
	b->heap = NULL;
}
