/* Looks for jumps into displaced bytes (target_branches.h). relocate() has looked through the function itself; but the
 * compiler may have put rare parts of it elsewhere (malloc.cold), and hand-written code may enter a function behind
 * its first instruction, as mempcpy enters memcpy in glibc. Symbols do not tell: stripped libraries have none for
 * such parts. So all code of the module is searched, as it stands in memory. */
#include "attach/target_branches.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

/* Larger than the code of any program */
#define MOST_CODE (UINT64_C(4) << 30)

static int search_segment(const struct target_modules *m, uint64_t at, uint64_t bytes,
			  struct branch_range *ranges, size_t count, struct heft_error *err)
{
	uint8_t *text = bytes < MOST_CODE ? malloc(bytes) : NULL;
	int rc = 0;
	if (!text)
		return heft_fail(err, HEFT_ENOMEM, "no memory to look through %llu bytes of code",
				 (unsigned long long)bytes);
	if (target_modules_memory(m, at, text, bytes))
		relocate_find_branches(text, bytes, at, ranges, count);
	else
		rc = heft_fail(err, HEFT_EIO, "cannot read the code at 0x%llx",
			       (unsigned long long)at);
	free(text);
	return rc;
}

static int search_module(const struct target_modules *m, size_t module, struct branch_range *ranges,
			 size_t count, struct heft_error *err)
{
	const struct target_image *im = &m->items[module].image;
	int rc = 0;
	for (uint32_t i = 0; i < im->segment_count && rc == 0; i++) {
		const struct target_segment *segment = &im->segments[i];
		if (segment->execute)
			rc = search_segment(m, im->bias + segment->address, segment->bytes, ranges,
					    count, err);
	}
	return rc;
}

int target_branches_check(const struct target_modules *m, const struct near_page *page,
			  struct heft_error *err)
{
	struct branch_range ranges[NEAR_PAGE_ENTRIES];
	unsigned count = near_page_count(page);
	int rc = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct near_entry *e = near_page_entry(page, i);
		ranges[i] = (struct branch_range){e->at, e->at + e->displaced, 0};
	}
	for (size_t k = 0; k < m->count && rc == 0; k++)
		for (unsigned i = 0; i < count; i++)
			if (ranges[i].low - m->items[k].low < m->items[k].high - m->items[k].low) {
				rc = search_module(m, k, ranges, count, err);
				break;
			}
	for (unsigned i = 0; i < count && rc == 0; i++)
		if (ranges[i].from)
			rc = heft_fail(err, HEFT_EREFUSED,
				       "the code at 0x%llx leads to the first instructions of %s",
				       (unsigned long long)ranges[i].from,
				       near_page_entry(page, i)->name);
	return rc;
}
