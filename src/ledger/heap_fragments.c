/* Free memory that live blocks keep from going back to the system, and what malloc_trim would give back.
 *
 * A page with one live byte stays. Its free bytes are shared among the sites whose blocks are in it, by their bytes
 * there. Pages without a live byte could go back: they are counted apart, and nobody is blamed for them.
 *
 * malloc_trim (glibc 2.35 to 2.41) empties fast bins, so that free chunks merge; then it gives back the whole pages of
 * each free chunk behind its head of 48 bytes, and the top of the main arena up to its last page. What lies in threads'
 * caches stays, and parts its neighbours. */
#include "ledger/heap_parts.h"

#include "hosted/error.h"

enum {
	FREE_HEAD = 48, /* of a free chunk */
	TOP_LEAST = 33, /* of the top chunk that stay, with one byte more than that */
	SIZE_WORD = 8,
};
#define PAGE ((uint64_t)LEDGER_PAGE)

struct part {
	uint32_t site;
	uint64_t bytes;
};

struct page {
	uint64_t at, live;
	VECTOR(struct part) parts;
};

struct fragments {
	const struct heap_input *in;
	struct heap_cursor resident, free_cursor;
	size_t next_free; /* free ranges before it end before the page */
	double *pinned;   /* by site */
	double all_pinned;
	struct page page;
	uint64_t live_resident;
};

/* Free bytes of a page that is in memory. Pages ascend. */
static uint64_t free_in_page(struct fragments *f, const struct page *p)
{
	const struct heap_input *in = f->in;
	uint64_t sum = 0;
	if (!heap_bytes_with(&f->resident, p->at, p->at + 1, LEDGER_IN_MEMORY))
		return 0;
	if (!in->free_known)
		return p->live < PAGE ? PAGE - p->live : 0;
	while (f->next_free < in->free_count &&
	       in->free[f->next_free].at + in->free[f->next_free].bytes <= p->at)
		f->next_free++;
	for (size_t i = f->next_free; i < in->free_count && in->free[i].at < p->at + PAGE; i++) {
		uint64_t start = in->free[i].at, end = start + in->free[i].bytes;
		start = start > p->at ? start : p->at;
		end = end < p->at + PAGE ? end : p->at + PAGE;
		sum += end - start;
	}
	return sum;
}

static void end_page(struct fragments *f)
{
	struct page *p = &f->page;
	if (p->live) {
		double free_bytes = (double)free_in_page(f, p);
		f->all_pinned += free_bytes;
		for (size_t i = 0; i < p->parts.count && free_bytes > 0; i++)
			if (p->parts.items[i].site != HEAP_NO_SITE)
				f->pinned[p->parts.items[i].site] +=
					free_bytes * (double)p->parts.items[i].bytes /
					(double)p->live;
	}
	p->parts.count = 0;
	p->live = 0;
}

static bool add_to_page(struct fragments *f, uint64_t page_at, uint32_t site, uint64_t bytes)
{
	struct page *p = &f->page;
	if (p->at != page_at) {
		end_page(f);
		p->at = page_at;
	}
	p->live += bytes;
	if (p->parts.count && p->parts.items[p->parts.count - 1].site == site) {
		p->parts.items[p->parts.count - 1].bytes += bytes;
		return true;
	}
	return vector_push(&p->parts, (struct part){site, bytes});
}

/* Its first and its last page: those between have nothing else in them. */
static bool add_block(struct fragments *f, const struct heap_block *b)
{
	uint64_t start = b->at - f->in->header_bytes, end = b->at + b->bytes + b->slack;
	uint64_t first = start / PAGE * PAGE, last = (end - 1) / PAGE * PAGE;
	if (end <= start)
		return true;
	if (first == last)
		return add_to_page(f, first, b->site, end - start);
	return add_to_page(f, first, b->site, first + PAGE - start) &&
	       add_to_page(f, last, b->site, end - last);
}

/* ---- malloc_trim */

static uint64_t trimmed(struct fragments *f, const struct heap_free *chunk)
{
	struct heap_cursor c = f->free_cursor;
	uint64_t at = chunk->at - SIZE_WORD, end = at + chunk->bytes;
	if (chunk->kind == HEAP_FREE_CACHED || chunk->kind == HEAP_FREE_END)
		return 0;
	if (chunk->kind == HEAP_FREE_TOP) {
		/* Its last word belongs to nobody, so it is not in the range. */
		end += SIZE_WORD;
		uint64_t give = end - at > TOP_LEAST ? (end - at - TOP_LEAST) / PAGE * PAGE : 0;
		return heap_bytes_with(&c, end - give, end, LEDGER_IN_MEMORY);
	}
	uint64_t from = (at + FREE_HEAD + PAGE - 1) / PAGE * PAGE;
	uint64_t to = from < end ? from + (end - from) / PAGE * PAGE : from;
	return heap_bytes_with(&c, from, to, LEDGER_IN_MEMORY);
}

static void add_free(struct fragments *f, struct heap_look *out)
{
	const struct heap_input *in = f->in;
	struct heap_free merged = {0};
	uint64_t resident = 0;
	f->free_cursor = (struct heap_cursor){.pages = in->pages};
	for (size_t i = 0; i < in->free_count; i++) {
		const struct heap_free *one = &in->free[i];
		resident += heap_bytes_with(&f->free_cursor, one->at, one->at + one->bytes,
					    LEDGER_IN_MEMORY);
		if (merged.bytes && merged.kind == HEAP_FREE && one->kind != HEAP_FREE_CACHED &&
		    merged.at + merged.bytes == one->at) {
			merged.bytes += one->bytes;
			merged.kind = one->kind;
			continue;
		}
		if (merged.bytes)
			out->trim_bytes += trimmed(f, &merged);
		merged = *one;
	}
	if (merged.bytes)
		out->trim_bytes += trimmed(f, &merged);
	out->heap_bytes += resident;
	out->releasable_bytes = resident > out->pinned_bytes ? resident - out->pinned_bytes : 0;
}

int heap_fragments(const struct heap_input *in, struct heap_site *sites, struct heap_look *out,
		   struct heft_error *err)
{
	struct fragments f = {.in = in, .resident = {.pages = in->pages}};
	struct heap_cursor live = {.pages = in->pages};
	f.pinned = calloc((size_t)in->site_count + 1, sizeof *f.pinned);
	bool fine = f.pinned != NULL;
	for (size_t i = 0; i < in->block_count && fine; i++) {
		const struct heap_block *b = &in->blocks[i];
		out->heap_bytes += heap_bytes_with(&live, b->at - in->header_bytes,
						   b->at + b->bytes + b->slack, LEDGER_IN_MEMORY);
		fine = add_block(&f, b);
	}
	if (fine)
		end_page(&f);
	out->pinned_bytes = (uint64_t)(f.all_pinned + 0.5);
	for (uint32_t i = 0; i < in->site_count && fine; i++)
		sites[i].pinned_bytes = (uint64_t)(f.pinned[i] + 0.5);
	if (fine && in->free_known)
		add_free(&f, out);
	vector_free(&f.page.parts);
	free(f.pinned);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a look at the heap");
}
