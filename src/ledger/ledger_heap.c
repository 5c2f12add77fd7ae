/* The heap in a ledger. glibc's is read from outside, chunk by chunk (attach/older_blocks.h), and every byte of its
 * arenas that is in memory is in use, a header, free in one of several places, or an arena's own. Of blocks that nobody
 * recorded the usable size is known, not what was asked for.
 *
 * A heap that takes long to read is not read in the pause. Then the program runs meanwhile: how much memory the heap has
 * is exact, how much of it is in use is about right, and the ledger says so. */
#include "ledger/ledger_parts.h"

#include "attach/target_allocator.h"
#include "hosted/error.h"
#include "hosted/program_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

const char ledger_heap_name[] = "heap";

#define MS UINT64_C(1000000)
enum {
	FIRST_LIMIT_MS = 100, /* a heap that takes longer to read is not read in the pause */
	RUNNING_LIMIT_MS = 20000,
	STILL_LEAST_US = 1000,  /* a heap that is read in so much, and */
	STILL_US_A_GIB = 10000, /* so much for each GiB in memory, is read in the pause */
	EXIT_LEAST_US = 10000,  /* the same of a process that exits */
	EXIT_US_A_GIB = 20000,
	BLOCK_NS = 20, /* to read a block takes more: about 50 */
};

const char ledger_break_name[] = "the heap at the program's break";

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Allocators of their own that calls of malloc lead to, by what their files are called. heft's library stands before
 * them where it is preloaded, and the loader's order does not say who is next. */
static bool is_allocator(const char *name)
{
	static const char *const known[] = {"libjemalloc",  "libmimalloc", "libtcmalloc",
					    "libtbbmalloc", "libsnmalloc", "libhoard",
					    "librpmalloc",  "libscudo"};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (begins(name, known[i]))
			return true;
	return false;
}

static ssize_t find_module(const struct target_modules *m, bool (*wanted)(const char *))
{
	for (size_t i = 0; i < m->count; i++)
		if (wanted(path_file(m->items[i].path)))
			return (ssize_t)i;
	return -1;
}

static bool is_libc(const char *name)
{
	return begins(name, "libc.so") || begins(name, "libc-2.");
}

/* The module that has malloc; -1: none is known. */
static ssize_t find_allocator(struct ledger_taking *t)
{
	struct target_allocator found;
	struct heft_error ignored;
	if (!target_allocator_find(&found, &t->modules, &ignored) &&
	    !begins(path_file(t->modules.items[found.module].path), "libheft-"))
		return (ssize_t)found.module;
	ssize_t module = find_module(&t->modules, is_allocator);
	if (module < 0)
		module = find_module(&t->modules, is_libc);
	for (size_t i = 0; i < t->modules.count && module < 0; i++)
		if (t->modules.items[i].program) /* linked statically */
			module = (ssize_t)i;
	return module;
}

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

void ledger_heap_open(struct ledger_taking *t)
{
	const struct target_memory memory = {read_memory, &t->modules};
	const struct older_reading reading = {.limit_ns = FIRST_LIMIT_MS * MS};
	char path[64];
	ssize_t module = find_allocator(t);
	if (module < 0)
		return;
	const struct target_module *m = &t->modules.items[module];
	snprintf(path, sizeof path, "/proc/%d/pagemap", t->pid);
	int pages = open(path, O_RDONLY | O_CLOEXEC);
	if (!older_open(&t->heap, &memory, &m->image, &t->modules.maps, pages, &t->no_heap)) {
		if (t->request && t->request->all_known) /* one reading is enough, in the pause */
			return;
		older_read(t->heap, &reading, &t->totals);
		t->heap_took_ns = t->totals.took_ns;
	} else if (!is_libc(path_file(m->path)) && !m->program) {
		t->allocator = path_file(m->path);
	}
}

static void measure(void *ctx, uint64_t start, uint64_t end, struct ledger_bytes *sum)
{
	ledger_pages_measure(ctx, start, end, sum);
}

static uint64_t *thread_pointers(struct ledger_taking *t)
{
	uint64_t *pointers = malloc((t->threads.count + 1) * sizeof *pointers);
	for (size_t i = 0; pointers && i < t->threads.count; i++)
		pointers[i] = t->threads.items[i].thread_pointer;
	free(t->thread_pointers);
	return t->thread_pointers = pointers;
}

static void add_large(void *ctx, const struct ledger_block *b)
{
	struct ledger_taking *t = ctx;
	if (b->size_bytes >= LEDGER_LARGE)
		(void)vector_push(&t->large, (struct older_block){b->address, b->size_bytes});
}

static void list_large(struct ledger_taking *t)
{
	t->large_listed = true;
	if (vector_reserve(&t->large, 1))
		t->request->each_large(t->request->ctx, add_large, t);
}

static void read_heap(struct ledger_taking *t, bool still, uint64_t limit_ns)
{
	struct older_reading reading = {.still = still,
					.limit_ns = limit_ns,
					.only_extents = t->only_extents,
					.measure = measure,
					.ctx = &t->pages};
	if (t->request && t->request->all_known) {
		if (!t->large_listed)
			list_large(t);
		reading.large = t->large.items;
		reading.large_count = t->large.count;
	}
	reading.thread_pointers = thread_pointers(t);
	if (reading.thread_pointers && t->threads.count <= GLIBC_THREADS_MOST)
		reading.thread_count = t->threads.count;
	older_read(t->heap, &reading, &t->totals);
}

void ledger_heap_read_still(struct ledger_taking *t)
{
	uint64_t resident = 0;
	t->heap_was_still = false;
	if (!t->heap)
		return;
	for (size_t i = 0; i < t->pages.count; i++)
		resident += t->pages.items[i].end - t->pages.items[i].start;
	bool exits = t->request && t->request->moment == LEDGER_EXIT;
	uint64_t least_us = exits ? EXIT_LEAST_US : STILL_LEAST_US;
	uint64_t us_a_gib = exits ? EXIT_US_A_GIB : STILL_US_A_GIB;
	uint64_t most_ns = least_us * 1000 + (resident >> 20) * (us_a_gib * 1000 >> 10);
	/* Who wants to know what a process has lost waits for it. */
	bool asked = t->look && !t->request;
	if (t->heap_took_ns > most_ns && !asked)
		return;
	if (t->blocks.live * BLOCK_NS <= most_ns) {
		read_heap(t, true,
			  asked        ? RUNNING_LIMIT_MS * MS
			  : t->request ? most_ns
				       : 2 * most_ns);
		t->heap_was_still = !t->totals.incomplete;
	}
	t->only_extents = t->request && !t->heap_was_still;
	if (t->only_extents)
		read_heap(t, true, RUNNING_LIMIT_MS * MS);
}

int ledger_heap_claim(struct ledger_taking *t, struct heft_error *err)
{
	struct older_block b;
	bool fine = true;
	if (t->heap && !t->heap_was_still && !t->only_extents)
		read_heap(t, false, RUNNING_LIMIT_MS * MS);
	if (!t->heap)
		t->turn = LEDGER_TURN_BREAK;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		if (!strcmp(m->name, "[heap]") && !m->inode)
			fine = t->heap ? ledger_claim(t, m->start, m->end, LEDGER_HELD_FREE,
						      ledger_heap_name)
				       : ledger_claim(t, m->start, m->end, LEDGER_ALLOCATOR,
						      ledger_break_name);
	}
	for (size_t i = 0; t->heap && fine && older_extent(t->heap, i, &b); i++)
		fine = ledger_claim(t, b.at, b.at + b.bytes, LEDGER_HELD_FREE, ledger_heap_name);
	for (size_t i = 0; t->heap && fine && older_large(t->heap, i, &b); i++)
		fine = ledger_claim(t, b.at, b.at + b.bytes, LEDGER_LARGE_MAPPINGS,
				    "large blocks with mappings of their own");
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}

bool ledger_subtract(struct ledger_bytes *a, const struct ledger_bytes *b)
{
	if (a->resident < b->resident || a->own < b->own || a->swapped < b->swapped)
		return false;
	a->resident -= b->resident;
	a->own -= b->own;
	a->swapped -= b->swapped;
	a->mapped -= a->mapped < b->mapped ? a->mapped : b->mapped;
	return true;
}

static void count_blocks(const struct ledger_taking *t, struct ledger *l)
{
	for (size_t i = 0; i < l->count; i++) {
		if (l->items[i].kind == LEDGER_IN_USE)
			l->items[i].blocks = t->totals.used.blocks - t->totals.mapped.blocks;
		if (l->items[i].kind == LEDGER_LARGE_MAPPINGS)
			l->items[i].blocks = t->totals.mapped.blocks;
	}
}

static const struct {
	enum ledger_kind kind;
	const char *name;
} lines[OLDER_KINDS] = {
	[OLDER_IN_USE] = {LEDGER_IN_USE, "blocks in use, usable bytes"},
	[OLDER_HEADERS] = {LEDGER_HEADERS, "headers of blocks in use"},
	[OLDER_IN_BINS] = {LEDGER_HELD_FREE, "free, in bins"},
	[OLDER_IN_FAST_BINS] = {LEDGER_HELD_FREE, "free, in fast bins"},
	[OLDER_IN_CACHES] = {LEDGER_HELD_FREE, "free, in caches of threads"},
	[OLDER_CACHE_TABLES] = {LEDGER_HELD_FREE, "tables of threads' caches"},
	[OLDER_TOP] = {LEDGER_HELD_FREE, "free, at the top of arenas"},
};

int ledger_heap_free_lines(struct ledger_taking *t, struct ledger_bytes *rest, struct ledger *l,
			   struct heft_error *err)
{
	int rc = 0;
	for (size_t i = 0; i < OLDER_KINDS && !rc; i++)
		if (lines[i].kind == LEDGER_HELD_FREE && t->totals.kinds[i].mapped)
			rc = ledger_add(l, lines[i].kind, lines[i].name, &t->totals.kinds[i], err);
	if (!rc && (rest->resident || rest->swapped))
		rc = ledger_add(l, LEDGER_HELD_FREE,
				t->totals.incomplete ? "not known: heft could not follow the heap"
						     : "arenas' own, and pages behind the top",
				rest, err);
	return rc;
}

int ledger_heap_lines(struct ledger_taking *t, const struct ledger_bytes *heap, struct ledger *l,
		      struct heft_error *err)
{
	struct ledger_bytes rest = *heap;
	int rc = 0;
	if (!t->heap)
		return 0;
	for (size_t i = 0; i < OLDER_KINDS && !rc; i++)
		if (!ledger_subtract(&rest, &t->totals.kinds[i]))
			rc = 1;
	if (rc == 1) {
		snprintf(l->note, sizeof l->note,
			 "The heap changed while it was read, so it is not split into what is used "
			 "and "
			 "what is free.");
		return ledger_add(l, LEDGER_ALLOCATOR, "glibc's heap", heap, err);
	}
	for (size_t i = OLDER_IN_USE; i <= OLDER_HEADERS && !rc; i++)
		if (t->totals.kinds[i].mapped)
			rc = ledger_add(l, lines[i].kind, lines[i].name, &t->totals.kinds[i], err);
	if (!rc)
		rc = ledger_heap_free_lines(t, &rest, l, err);
	count_blocks(t, l);
	if (t->totals.incomplete)
		snprintf(
			l->note, sizeof l->note,
			"heft could not follow the heap to its end: a part of it is not split into "
			"what is used and what is free.");
	else if (!t->heap_was_still)
		snprintf(l->note, sizeof l->note,
			 "The heap was read while the program ran: how large it is is exact, what "
			 "of it is in use is about right.");
	return rc;
}
