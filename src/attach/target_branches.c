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

int target_branches_find(const struct target_modules *m, struct branch_range *ranges, size_t count,
			 struct heft_error *err)
{
	struct branch_range *own = calloc(count + 1, sizeof *own); /* those of one module */
	size_t *numbers = calloc(count + 1, sizeof *numbers);
	int rc = own && numbers ? 0 : heft_fail(err, HEFT_ENOMEM, "out of memory");
	for (size_t k = 0; k < m->count && rc == 0; k++) {
		const struct target_module *module = &m->items[k];
		size_t n = 0;
		for (size_t i = 0; i < count; i++)
			if (ranges[i].low - module->low < module->high - module->low) {
				own[n] = ranges[i];
				numbers[n++] = i;
			}
		if (n)
			rc = search_module(m, k, own, n, err);
		for (size_t i = 0; i < n; i++)
			ranges[numbers[i]].from = own[i].from;
	}
	free(own);
	free(numbers);
	return rc;
}
