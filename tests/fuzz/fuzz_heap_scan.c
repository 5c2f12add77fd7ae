/* Fuzzes a look at the live blocks of a process: memory is what that process wrote. The input makes blocks that do not
 * overlap, pages, roots, registers and free memory, in records of 6 bytes, and words of memory that lead from one block to
 * another. What is lost is compared with a search that is slow and simple; sums are those of the blocks. */
#include "hosted/error.h"
#include "ledger/heap_scan.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD = 6, BLOCKS = 64, RANGES = 16, SITES = 8, AREA = 256 << 10, LARGEST = 4096 };
enum record { BLOCK, LARGE_BLOCK, PAGES, ROOT, POINTER, REGISTER, FREE, BYTES, RECORDS };
#define BASE UINT64_C(0x7f0000000000)
#define LARGE_BYTES (UINT64_C(5) << 20)

static struct world {
	struct heap_block blocks[BLOCKS];
	struct heap_range roots[RANGES];
	uint64_t registers[RANGES];
	struct heap_free free[RANGES];
	struct ledger_run runs[RANGES];
	struct ledger_pages pages;
	struct heap_input in;
	uint64_t end, root_end, free_end, page_end; /* of what was made so far */
	uint8_t memory[AREA];                       /* from BASE on; zeros behind it */
	bool aligned;                               /* all blocks begin at multiples of 8 */
} w;

static bool has_page(uint64_t at)
{
	for (size_t i = 0; i < w.pages.count; i++)
		if (w.runs[i].start <= at && at < w.runs[i].end)
			return true;
	return false;
}

static bool read_memory(void *ctx, uint64_t at, void *to, size_t bytes)
{
	(void)ctx;
	/* What was never touched must not be read. */
	for (uint64_t page = at & ~(uint64_t)(LEDGER_PAGE - 1); page < at + bytes;
	     page += LEDGER_PAGE)
		if (!has_page(page))
			abort();
	memset(to, 0, bytes);
	if (at >= BASE && at - BASE < AREA)
		memcpy(to, w.memory + (at - BASE),
		       bytes < AREA - (at - BASE) ? bytes : AREA - (size_t)(at - BASE));
	return true;
}

/* ---- the world */

static uint16_t half(const uint8_t *at)
{
	uint16_t value;
	memcpy(&value, at, sizeof value);
	return value;
}

static void make_block(const uint8_t *r, bool large)
{
	struct heap_block *b = &w.blocks[w.in.block_count];
	if (w.in.block_count == BLOCKS)
		return;
	b->at = w.end + (r[1] & 1 ? r[1] : r[1] * 8u);
	b->bytes = (large ? LARGE_BYTES : 0) + half(r + 2);
	b->slack = r[4];
	b->site = r[5] % (SITES + 1) == SITES ? HEAP_NO_SITE : r[5] % (SITES + 1);
	w.aligned &= b->at % 8 == 0;
	/* Two blocks are never at one address. */
	w.end = b->at + b->bytes + b->slack + (b->bytes + b->slack == 0);
	w.in.block_count++;
}

static void make_pages(const uint8_t *r)
{
	struct ledger_run *run = &w.runs[w.pages.count];
	if (w.pages.count == RANGES)
		return;
	run->start = w.page_end + (uint64_t)r[1] * LEDGER_PAGE;
	run->end = w.page_end = run->start + (half(r + 2) % 256 + 1ull) * LEDGER_PAGE;
	run->flags = r[4] % 16;
	if (!(run->flags & (LEDGER_IN_MEMORY | LEDGER_SWAPPED)))
		run->flags |= LEDGER_IN_MEMORY;
	w.pages.count++;
}

static void make_pointer(const uint8_t *r)
{
	uint64_t at, to;
	if (!w.in.block_count)
		return;
	at = w.blocks[r[1] % w.in.block_count].at + half(r + 2) % 512 * 8u - BASE;
	to = w.blocks[r[4] % w.in.block_count].at + r[5];
	if (at < AREA - 8)
		memcpy(w.memory + at, &to, sizeof to);
}

static void make_range(const uint8_t *r, enum record what)
{
	if (what == ROOT && w.in.root_count < RANGES) {
		struct heap_range *root = &w.roots[w.in.root_count++];
		root->start = w.root_end + half(r + 1);
		root->end = w.root_end = root->start + half(r + 3) + 1;
	} else if (what == FREE && w.in.free_count < RANGES) {
		struct heap_free *f = &w.free[w.in.free_count++];
		f->at = w.free_end + half(r + 1);
		f->bytes = half(r + 3) + 1u;
		f->kind = r[5] % 4;
		w.free_end = f->at + f->bytes;
	} else if (what == REGISTER && w.in.register_count < RANGES && w.in.block_count) {
		w.registers[w.in.register_count++] = w.blocks[r[1] % w.in.block_count].at +
						     half(r + 2);
	} else if (what == BYTES) {
		memcpy(w.memory + half(r + 1) * 4u % (AREA - 8), r + 3, 3);
	}
}

static void make_world(const uint8_t *data, size_t size)
{
	memset(&w, 0, sizeof w);
	w.aligned = true;
	w.end = w.root_end = w.free_end = w.page_end = BASE;
	w.pages.items = w.runs;
	w.in = (struct heap_input){.blocks = w.blocks,
				   .site_count = SITES,
				   .roots = w.roots,
				   .registers = w.registers,
				   .pages = &w.pages,
				   .read = read_memory,
				   .free = w.free,
				   .free_known = data[0] & 16,
				   .header_bytes = data[0] & 32 ? 8 : 0,
				   .parts = data[0] & 15};
	for (data++, size--; size >= RECORD; data += RECORD, size -= RECORD)
		switch (data[0] % RECORDS) {
		case BLOCK: make_block(data, false); break;
		case LARGE_BLOCK: make_block(data, true); break;
		case PAGES: make_pages(data); break;
		case POINTER: make_pointer(data); break;
		default: make_range(data, data[0] % RECORDS);
		}
}

/* ---- the slow search */

static size_t block_of(uint64_t value)
{
	for (size_t i = 0; i < w.in.block_count; i++) {
		const struct heap_block *b = &w.blocks[i];
		uint64_t end = b->at + (b->bytes ? b->bytes : 1);
		if (b->bytes < LARGE_BYTES && i + 1 < w.in.block_count)
			end = (end + 7) & ~UINT64_C(7);
		if (value >= b->at && value < end)
			return i;
	}
	return BLOCKS;
}

static uint64_t word_at(uint64_t at)
{
	uint64_t word = 0;
	/* A page that is not there holds zeros; a word is never in two pages. */
	if (at >= BASE && at - BASE <= AREA - 8 && has_page(at))
		memcpy(&word, w.memory + (at - BASE), sizeof word);
	return word;
}

/* Marks what the words of [start, end) lead to; true: something new. */
static bool mark(uint64_t start, uint64_t end, size_t self, bool *marked)
{
	bool found = false;
	for (uint64_t at = (start + 7) & ~UINT64_C(7); at + 8 <= end && at < BASE + AREA; at += 8) {
		size_t to = block_of(word_at(at));
		if (to == BLOCKS || to == self || marked[to])
			continue;
		found = marked[to] = true;
	}
	return found;
}

static void check_lost(const struct heap_look *out)
{
	bool reached[BLOCKS + 1] = {0};
	uint64_t lost_blocks = 0, lost_bytes = 0;
	for (size_t i = 0; i < w.in.root_count; i++)
		mark(w.roots[i].start, w.roots[i].end & ~UINT64_C(7), BLOCKS, reached);
	for (size_t i = 0; i < w.in.register_count; i++)
		reached[block_of(w.registers[i])] = true;
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < w.in.block_count; i++)
			if (reached[i])
				more |= mark(w.blocks[i].at, w.blocks[i].at + w.blocks[i].bytes, i,
					     reached);
	}
	for (size_t i = 0; i < w.in.block_count; i++)
		if (!reached[i] && w.blocks[i].site != HEAP_NO_SITE) {
			lost_blocks++;
			lost_bytes += w.blocks[i].bytes;
		}
	for (size_t i = 0; i < out->count; i++) {
		lost_blocks -= out->items[i].direct_blocks + out->items[i].indirect_blocks;
		lost_bytes -= out->items[i].direct_bytes + out->items[i].indirect_bytes;
	}
	if (lost_blocks || lost_bytes)
		abort();
}

/* ---- what came back */

static void check(const struct heap_look *out)
{
	uint64_t blocks = 0, bytes = 0, pinned = 0;
	for (size_t i = 0; i < w.in.block_count; i++)
		if (w.blocks[i].site != HEAP_NO_SITE) {
			blocks++;
			bytes += w.blocks[i].bytes;
		}
	if (out->blocks != blocks || out->bytes != bytes || out->parts != w.in.parts)
		abort();
	for (size_t i = 0; i < out->count; i++) {
		const struct heap_site *s = &out->items[i];
		if (s->site >= SITES || (i && s->site <= out->items[i - 1].site) ||
		    s->direct_blocks + s->indirect_blocks > s->blocks ||
		    s->direct_bytes + s->indirect_bytes > s->bytes ||
		    s->untouched_blocks > s->blocks || s->untouched_bytes > s->bytes ||
		    s->duplicate_blocks + s->zero_blocks > s->blocks ||
		    s->duplicate_bytes + s->zero_bytes > s->bytes)
			abort();
		pinned += s->pinned_bytes;
	}
	/* Shares are rounded. */
	if (pinned > out->pinned_bytes + SITES || out->trim_bytes > out->heap_bytes ||
	    out->releasable_bytes > out->heap_bytes)
		abort();
	if ((w.in.parts & HEAP_REACHABLE) && w.aligned)
		check_lost(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heap_look out;
	struct heft_error err;
	if (!size || size > LARGEST)
		return 0;
	make_world(data, size);
	if (heap_scan(&w.in, &out, &err))
		abort();
	check(&out);
	heap_look_fini(&out);
	return 0;
}

#include "fuzz_corpus.h"
