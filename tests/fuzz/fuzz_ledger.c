/* Fuzzes what a ledger and a look at the heap make of the memory of a running program, of its mappings, pages and threads,
 * and of the blocks that it had recorded. All of that is the program's to forge. The input is records: a byte that says what
 * it is, its length (2 bytes), and so many bytes. Addresses take 5 bytes: one of the places below, and an offset from it.
 * What comes back adds up: every page that is in memory is in exactly one line.
 *
 * The memory is a sparse file, with addresses for offsets. */
#include "fuzz_heap.h"
#include "hosted/error.h"
#include "hosted/heap_look.h"
#include "hosted/name_pool.h"
#include "ledger/heap_look_take.h"
#include "ledger/heap_roots.h"
#include "ledger/ledger_parts.h"
#include "ledger/ledger_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGEST = 64 << 10, MOST = 64, SITES = 64, RUN_PAGES = 256, WORDS_SPAN = 64 << 20 };
enum record { FLAGS, MAPS, MEMORY, PAGES, THREADS, BLOCKS, MAPPINGS, OWN, REGISTERS, RECORDS };
enum flag {
	RECORDED = 1,  /* somebody records it */
	WITH_HEAP = 2, /* its memory has the heap of fuzz_heap.h */
	LOOK = 4,
	PAGEMAP = 8, /* pages are read as words */
	ALL_KNOWN = 16,
	OTHER_ALLOCATOR = 32,
	DROP = 64, /* pages of the first mapping are of hugetlbfs */
	NO_SITES = 128,
};
#define TOP (UINT64_C(1) << 47)

static const uint64_t places[] = {
	0x7f0000000000, 0x7f0000100000, 0x555500000000, 0x7f4000000000, 0x7f2000000000,
	0x7f6000000000, 0xc000000000,   0x10000000,     0x7fffffff0000, 0,
};

static struct world {
	unsigned flags;
	struct ledger_taking t;
	VECTOR(char) text;
	VECTOR(struct ledger_run) runs;
	VECTOR(struct ledger_block) blocks;
	uint64_t registers[MOST];
	size_t register_count;
	int memory;
} w;

/* ---- instead of a process that stands still (see link_args) */

void __wrap_stop_wait_late(struct stop *s, uint64_t limit_ns);
void __wrap_stop_wait_late(struct stop *s, uint64_t limit_ns)
{
	(void)s;
	(void)limit_ns;
}

size_t __wrap_stop_registers(struct stop *s, pid_t tid, uint64_t *words, size_t most);
size_t __wrap_stop_registers(struct stop *s, pid_t tid, uint64_t *words, size_t most)
{
	size_t count = w.register_count < most ? w.register_count : most;
	(void)s;
	(void)tid;
	memcpy(words, w.registers, count * sizeof *words);
	return count;
}

/* ---- instead of a recorder */

static int begin(void *ctx, struct ledger_blocks *blocks, struct heft_error *err)
{
	(void)ctx;
	(void)blocks;
	(void)err;
	return 0;
}

static void each_block(void *ctx, ledger_block_fn *fn, void *fn_ctx)
{
	(void)ctx;
	for (size_t i = 0; i < w.blocks.count; i++)
		fn(fn_ctx, &w.blocks.items[i]);
}

static void step(void *ctx)
{
	(void)ctx;
}

/* ---- records */

static uint64_t address(const uint8_t *at)
{
	uint32_t offset;
	memcpy(&offset, at + 1, sizeof offset);
	return places[at[0] % (sizeof places / sizeof *places)] + offset;
}

static uint32_t word(const uint8_t *at)
{
	uint32_t value;
	memcpy(&value, at, sizeof value);
	return value;
}

static void add_maps(const uint8_t *text, size_t size)
{
	if (!vector_reserve(&w.text, size + 2))
		abort();
	memcpy(w.text.items + w.text.count, text, size);
	w.text.count += size;
	w.text.items[w.text.count++] = '\n';
	w.text.items[w.text.count] = 0;
}

static void add_pages(const uint8_t *r)
{
	struct ledger_run run = {.start = address(r) & ~UINT64_C(4095), .flags = r[6] % 16};
	run.end = run.start + (r[5] % RUN_PAGES + 1ull) * LEDGER_PAGE;
	if (run.flags & (LEDGER_IN_MEMORY | LEDGER_SWAPPED) && run.end <= TOP &&
	    w.runs.count < MOST && !vector_push(&w.runs, run))
		abort();
}

static void add_thread(const uint8_t *r)
{
	struct stop_thread thread = {.tid = (pid_t)word(r) & INT32_MAX,
				     .sp = address(r + 4),
				     .thread_pointer = address(r + 9),
				     .stopped = r[14] & 1};
	if (w.t.threads.count < MOST && !vector_push(&w.t.threads, thread))
		abort();
}

static void add_block(const uint8_t *r)
{
	struct ledger_block b = {.address = address(r),
				 .size_bytes = word(r + 5),
				 .usable_bytes = word(r + 9),
				 .site = r[13] % SITES};
	if (r[13] & 128) /* beyond all bounds */
		b.size_bytes <<= 32;
	if (w.blocks.count < MOST && !vector_push(&w.blocks, b))
		abort();
}

static void add_record(enum record what, const uint8_t *r, size_t size)
{
	struct ledger_blocks *b = &w.t.blocks;
	static const size_t least[RECORDS] = {1, 1, 5, 7, 15, 14, 11, 10, 5};
	if (size < least[what])
		return;
	switch (what) {
	case FLAGS: w.flags = r[0]; break;
	case MAPS: add_maps(r, size); break;
	case MEMORY:
		if (address(r) < TOP &&
		    pwrite(w.memory, r + 5, size - 5, (off_t)address(r)) != (ssize_t)(size - 5))
			abort();
		break;
	case PAGES: add_pages(r); break;
	case THREADS: add_thread(r); break;
	case BLOCKS: add_block(r); break;
	case MAPPINGS:
		if (b->mapped.count < MOST &&
		    !vector_push(&b->mapped,
				 (struct ledger_mapped){address(r), address(r + 5), r[10]}))
			abort();
		break;
	case OWN:
		if (b->own_count < LEDGER_OWNS)
			b->own[b->own_count++] = (struct ledger_own){address(r), address(r + 5)};
		break;
	default:
		if (w.register_count < MOST)
			w.registers[w.register_count++] = address(r);
	}
}

/* ---- the world */

/* What the heap of fuzz_heap.h needs; records may come over it. */
static void put_heap(void)
{
	fuzz_heap_make();
	for (unsigned i = 0; i < PARTS; i++)
		if (pwrite(w.memory, fuzz_heap_parts[i], PART_BYTES, (off_t)fuzz_heap_starts[i]) !=
		    PART_BYTES)
			abort();
}

static int by_run(const void *a, const void *b)
{
	uint64_t x = ((const struct ledger_run *)a)->start,
		 y = ((const struct ledger_run *)b)->start;
	return (x > y) - (x < y);
}
static int by_block(const void *a, const void *b)
{
	uint64_t x = ((const struct ledger_block *)a)->address,
		 y = ((const struct ledger_block *)b)->address;
	return (x > y) - (x < y);
}
static int by_mapped(const void *a, const void *b)
{
	uint64_t x = ((const struct ledger_mapped *)a)->start,
		 y = ((const struct ledger_mapped *)b)->start;
	return (x > y) - (x < y);
}

/* In order of address, without those that overlap: so they come from the kernel, and from the recorder */
static void sort_all(void)
{
	size_t kept = 0;
	uint64_t end = 0;
	if (w.runs.count)
		qsort(w.runs.items, w.runs.count, sizeof *w.runs.items, by_run);
	for (size_t i = 0; i < w.runs.count; i++)
		if (w.runs.items[i].start >= end) {
			end = w.runs.items[i].end;
			w.runs.items[kept++] = w.runs.items[i];
		}
	w.runs.count = kept;
	if (w.blocks.count)
		qsort(w.blocks.items, w.blocks.count, sizeof *w.blocks.items, by_block);
	struct ledger_blocks *b = &w.t.blocks;
	if (b->mapped.count)
		qsort(b->mapped.items, b->mapped.count, sizeof *b->mapped.items, by_mapped);
	kept = 0;
	end = 0;
	for (size_t i = 0; i < b->mapped.count; i++)
		if (b->mapped.items[i].start >= end &&
		    b->mapped.items[i].end > b->mapped.items[i].start) {
			end = b->mapped.items[i].end;
			b->mapped.items[kept++] = b->mapped.items[i];
		}
	b->mapped.count = kept;
}

static void parse_maps(struct target_maps *to)
{
	struct heft_error err;
	char *copy = strdup(w.text.items);
	if (!copy || target_maps_parse(to, copy, &err))
		abort();
	free(copy);
}

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

/* As target_modules_read does it */
static void find_modules(struct target_modules *m)
{
	const struct target_memory memory = {read_memory, m};
	for (size_t i = 0; i < m->maps.count && m->count < MOST; i++) {
		const struct target_mapping *at = &m->maps.items[i];
		struct target_module module = {.path = at->name, .low = at->start, .mapping = i};
		if (!at->inode || at->offset || at->shared ||
		    !target_image_read(&module.image, &memory, at->start))
			continue;
		for (uint32_t k = 0; k < module.image.segment_count; k++) {
			const struct target_segment *s = &module.image.segments[k];
			uint64_t end = module.image.bias + s->address + s->bytes;
			if (end <= TOP && end > module.high)
				module.high = end;
		}
		if (!vector_push(m, module))
			abort();
	}
}

/* Words as /proc/PID/pagemap has them */
static void read_pagemap(struct ledger_pages *p)
{
	const struct target_maps *maps = &w.t.modules.maps;
	struct heft_error err;
	char *text = NULL;
	size_t size;
	uint64_t all = 0;
	FILE *out = open_memstream(&text, &size);
	for (size_t i = 0; out && i < maps->count; i++) {
		/* The kernel maps whole pages. */
		uint64_t start = (maps->items[i].start + LEDGER_PAGE - 1) / LEDGER_PAGE;
		uint64_t end = maps->items[i].end / LEDGER_PAGE;
		if (start < end)
			fprintf(out, "%" PRIx64 "-%" PRIx64 " rw-p %s\n", start * LEDGER_PAGE,
				end * LEDGER_PAGE, maps->items[i].name);
		all += maps->items[i].end - maps->items[i].start;
	}
	if (!out || fclose(out))
		abort();
	if (all > WORDS_SPAN) {
		free(text);
		return;
	}
	p->fd = memfd_create("pages", MFD_CLOEXEC);
	if (p->fd < 0 || ftruncate(p->fd, (off_t)(TOP / LEDGER_PAGE * 8)))
		abort();
	for (size_t i = 0; i < w.runs.count; i++)
		for (uint64_t at = w.runs.items[i].start; at < w.runs.items[i].end;
		     at += LEDGER_PAGE) {
			uint32_t flags = w.runs.items[i].flags;
			uint64_t value = (uint64_t)(flags & LEDGER_IN_MEMORY) << 63 |
					 (uint64_t)!!(flags & LEDGER_SWAPPED) << 62 |
					 (uint64_t)!!(flags & LEDGER_OF_FILE) << 61 |
					 (uint64_t)!!(flags & LEDGER_HUGE) << 56;
			if (pwrite(p->fd, &value, 8, (off_t)(at / LEDGER_PAGE * 8)) != 8)
				abort();
		}
	if (ledger_pages_read(p, text, LEDGER_PAGEMAP, 0, &err))
		abort();
	free(text);
}

static void make_pages(void)
{
	struct ledger_pages *p = &w.t.pages;
	p->fd = -1;
	for (size_t i = 0; i < w.runs.count; i++)
		if (!vector_push(p, w.runs.items[i]))
			abort();
	if (w.flags & PAGEMAP)
		read_pagemap(p);
	if (w.flags & DROP && w.t.modules.maps.count) {
		const struct target_mapping *m = &w.t.modules.maps.items[0];
		struct ledger_bytes left = {0};
		ledger_pages_drop(p, m->start, m->end);
		ledger_pages_measure(p, m->start, m->end, &left);
		if (left.resident || left.swapped)
			abort();
	}
	for (size_t i = 0; i < p->count; i++)
		if (p->items[i].start >= p->items[i].end ||
		    (i && p->items[i].start < p->items[i - 1].end))
			abort();
}

/* ---- what comes back */

static void check_spans(const struct ledger_spans *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct ledger_span *one = &s->items[i];
		if (one->start >= one->end || (one->start | one->end) % LEDGER_PAGE ||
		    one->kind >= LEDGER_KINDS || !one->name ||
		    (i && one->start < s->items[i - 1].end))
			abort();
	}
}

static void check_lines(const struct ledger *l)
{
	struct ledger_bytes sum = ledger_sum(l);
	uint64_t swapped = 0;
	for (size_t i = 0; i < w.t.pages.count; i++)
		if (w.t.pages.items[i].flags & LEDGER_SWAPPED)
			swapped += w.t.pages.items[i].end - w.t.pages.items[i].start;
	if (sum.resident != l->rss_bytes || sum.swapped > swapped)
		abort();
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].kind >= LEDGER_KINDS || !l->items[i].name ||
		    l->items[i].bytes.resident > l->rss_bytes ||
		    l->items[i].bytes.own > l->rss_bytes)
			abort();
}

static void check_look(const struct heap_look *look)
{
	uint64_t blocks = 0, bytes = 0;
	if (!memchr(look->note, 0, sizeof look->note))
		abort();
	for (size_t i = 0; i < look->count; i++) {
		const struct heap_site *s = &look->items[i];
		if (s->site >= HEAP_SIZE_SITES || (i && s->site <= look->items[i - 1].site) ||
		    s->direct_blocks + s->indirect_blocks > s->blocks ||
		    s->direct_bytes + s->indirect_bytes > s->bytes ||
		    s->untouched_bytes > s->bytes ||
		    s->duplicate_blocks + s->zero_blocks > s->blocks)
			abort();
		blocks += s->blocks;
		bytes += s->bytes;
	}
	if (blocks > look->blocks || bytes > look->bytes || look->trim_bytes > look->heap_bytes ||
	    look->pinned_bytes > TOP || look->releasable_bytes > look->heap_bytes)
		abort();
}

static void check_roots(void)
{
	struct heap_ranges roots = {0};
	struct heft_error err;
	if (heap_roots(&w.t, &roots, &err))
		abort();
	for (size_t i = 0; i < roots.count; i++)
		if (roots.items[i].start >= roots.items[i].end ||
		    (i && roots.items[i].start < roots.items[i - 1].end))
			abort();
	vector_free(&roots);
}

/* ---- all of it */

static bool read_view(struct ledger_view *view, uint64_t at, void *to, size_t bytes)
{
	return ledger_read(view->taking, at, to, bytes);
}

static void look_at_heap(void)
{
	struct heap_look look = {0};
	struct heft_error err = {0};
	struct heap_look_order order = {.look = &look, .always = true, .err = &err};
	struct ledger_view view = {.request = w.t.request,
				   .blocks = &w.t.blocks,
				   .maps = &w.t.maps,
				   .modules = &w.t.modules,
				   .pages = &w.t.pages,
				   .threads = w.t.threads.items,
				   .thread_count = w.t.threads.count,
				   .read = read_view,
				   .taking = &w.t};
	check_roots();
	if (!heap_look_take(&order, &view) && !look.parts)
		abort();
	check_look(&look);
	heap_look_fini(&look);
}

static void take(const struct ledger_request *request, const struct ledger_look *asked)
{
	struct ledger_taking *t = &w.t;
	struct ledger l = {.pid = t->pid};
	struct heft_error err;
	const struct target_memory memory = {read_memory, &t->modules};
	static struct target_image libc;
	fuzz_heap_libc(&libc);
	t->request = w.flags & RECORDED ? request : NULL;
	t->look = w.flags & LOOK ? asked : NULL;
	if (w.flags & WITH_HEAP)
		older_open(&t->heap, &memory, &libc, &t->modules.maps, -1, &t->no_heap);
	if (w.flags & OTHER_ALLOCATOR)
		t->allocator = "libjemalloc.so.2";
	t->blocks.live = w.blocks.count;
	if (t->look && t->request && ledger_recorded_list(t, &err))
		abort();
	ledger_heap_read_still(t);
	for (size_t i = 0; i < t->pages.count; i++)
		if (t->pages.items[i].flags & LEDGER_IN_MEMORY)
			l.rss_bytes += t->pages.items[i].end - t->pages.items[i].start;
	if (ledger_claims_make(t, true, &err) || ledger_claims_settle(t, &err))
		abort();
	check_spans(&t->taken);
	if (t->look)
		look_at_heap();
	if (ledger_lines_make(t, &l, &err))
		abort();
	check_lines(&l);
	ledger_sort(&l);
	check_lines(&l);
	ledger_fini(&l);
}

static void make_world(const uint8_t *data, size_t size)
{
	struct world empty = {.memory = memfd_create("fuzz", MFD_CLOEXEC)};
	w = empty;
	w.t.pid = 1000;
	w.t.modules.pid = 1000;
	w.t.modules.memory_fd = w.memory;
	w.t.names = name_pool_new();
	if (w.memory < 0 || !w.t.names || !vector_reserve(&w.text, 1))
		abort();
	w.text.items[0] = 0;
	put_heap();
	while (size > 3) {
		size_t length = data[1] | (size_t)data[2] << 8;
		enum record what = data[0] % RECORDS;
		data += 3;
		size -= 3;
		length = length < size ? length : size;
		add_record(what, data, length);
		data += length;
		size -= length;
	}
	sort_all();
	parse_maps(&w.t.maps);
	parse_maps(&w.t.modules.maps);
	find_modules(&w.t.modules);
	make_pages();
}

static void free_world(void)
{
	older_close(w.t.heap);
	target_modules_fini(&w.t.modules);
	ledger_pages_fini(&w.t.pages);
	target_maps_fini(&w.t.maps);
	vector_free(&w.t.threads);
	vector_free(&w.t.blocks.mapped);
	vector_free(&w.t.blocks);
	vector_free(&w.t.large);
	vector_free(&w.t.taken);
	for (size_t i = 0; i < LEDGER_TURNS; i++)
		vector_free(&w.t.wanted[i]);
	free(w.t.thread_pointers);
	name_pool_free(w.t.names);
	vector_free(&w.text);
	vector_free(&w.runs);
	vector_free(&w.blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heap_look touched = {0};
	const struct ledger_look asked = {0};
	struct ledger_request request = {.pid = 1000,
					 .moment = LEDGER_REQUEST,
					 .begin = begin,
					 .each_block = each_block,
					 .each_large = each_block,
					 .release = step,
					 .step = step};
	if (size > LARGEST)
		return 0;
	make_world(data, size);
	request.all_known = w.flags & ALL_KNOWN;
	request.touched = w.flags & NO_SITES ? NULL : &touched;
	take(&request, &asked);
	heap_look_fini(&touched);
	free_world();
	return 0;
}

#include "fuzz_corpus.h"
