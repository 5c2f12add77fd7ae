/* Looks at what was there before (placement_before.h): first while the program runs, which is nearly right and stops
 * nobody. If that took little time, or if a list of all blocks is wanted, the same is done once more while all threads are stopped, where it is exact: at
 * that moment the program's calls begin to be seen. */
#include "attach/placement_before.h"

#include "attach/attach.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	RUNNING_LIMIT_MS = 500, /* for a heap of some GiB; the rest of it is not counted */
	LIST_LIMIT_MS = 5000,   /* how much longer if somebody wants the list */
	LIST_SPARE = 100000,    /* blocks that may come between the first look and the second */
	FROZEN_LIMIT_US = 2000, /* how much longer the program may stand still */
	LATE_LIMIT_US =
		500, /* how long to wait for threads that are late: with them nothing is exact */
	FROZEN_IF_US = 1000, /* so long it may take while it runs; frozen it takes about as long */
};

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

/* Memory for the list is had before the program stands still. */
static void make_list(struct before *b)
{
	b->room = b->totals.used.blocks + b->totals.used.blocks / 4 + LIST_SPARE;
	b->list_fd = memfd_create("heft-older-blocks", MFD_CLOEXEC);
	size_t bytes = (size_t)b->room * sizeof *b->list;
	if (b->list_fd >= 0 && !ftruncate(b->list_fd, (off_t)bytes)) {
		void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
				 b->list_fd, 0);
		b->list = map == MAP_FAILED ? NULL : map;
	}
	if (!b->list) {
		b->room = 0;
		snprintf(b->refused, sizeof b->refused, "no memory for the list of its blocks");
	}
}

static void take_block(void *ctx, uint64_t at, uint64_t bytes)
{
	struct before *b = ctx;
	if (b->listed < b->room)
		b->list[b->listed] = (struct older_block){at, bytes};
	b->listed++;
}

void before_look(struct before *b, struct target_modules *m, size_t module, bool list)
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
	if (list)
		make_list(b);
	if (b->totals.took_ns <= FROZEN_IF_US * UINT64_C(1000))
		b->frozen_limit_ns = FROZEN_LIMIT_US * UINT64_C(1000);
}

void before_look_again(struct before *b, struct stop *stop)
{
	static uint64_t pointers[GLIBC_THREADS_MOST];
	const struct stop_thread *threads;
	size_t count;
	struct older_totals totals;
	if (!b->heap || !(b->frozen_limit_ns || b->list))
		return;
	stop_wait_late(stop, LATE_LIMIT_US * UINT64_C(1000));
	if (stop_threads(stop, &threads, &count) || count > GLIBC_THREADS_MOST)
		return;
	for (size_t i = 0; i < count; i++) {
		/* It may be about to change the heap, or hold up whoever reads the memory (stop_memory.c). */
		if (!threads[i].stopped && !b->list)
			return;
		pointers[i] = threads[i].thread_pointer;
	}
	struct older_reading frozen = {.still = true,
				       .thread_pointers = pointers,
				       .thread_count = count,
				       .limit_ns = b->frozen_limit_ns};
	if (b->list) {
		frozen.limit_ns = LIST_LIMIT_MS * UINT64_C(1000000);
		frozen.each = take_block;
		frozen.ctx = b;
		b->listed = 0;
	}
	older_read(b->heap, &frozen, &totals);
	b->listing_ns = b->list ? totals.took_ns : 0;
	/* In the middle of a malloc something may be amiss that was not before. */
	if (!totals.incomplete || b->totals.incomplete)
		b->totals = totals;
}

void before_report(struct before *b, struct attach_report *report)
{
	report->older = b->totals;
	if (b->list && b->listed && b->listed <= b->room) {
		report->listed = b->listed;
		report->listing_ns = b->listing_ns;
		report->list_fd = b->list_fd;
		munmap(b->list, (size_t)b->room * sizeof *b->list);
		b->list = NULL;
	}
	if (b->heap)
		older_words(&b->totals, report->before, sizeof report->before);
	else
		snprintf(report->before, sizeof report->before, "before: not known: %s",
			 b->refused);
}

void before_fini(struct before *b)
{
	if (b->list) {
		munmap(b->list, (size_t)b->room * sizeof *b->list);
		close(b->list_fd);
		b->list = NULL;
	}
	older_close(b->heap);
	b->heap = NULL;
}
