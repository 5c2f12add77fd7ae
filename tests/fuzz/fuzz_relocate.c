/* Fuzzes the mover of function entries. The first byte says how long the function is; the rest is its code and what
 * follows. A copy that is made has whole instructions, leads back, and maps every pc there and back again. */
#include "attach/relocate.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

#define FROM UINT64_C(0x7f0000001000)

static void check(const struct relocated *r, uint64_t copy_at)
{
	if (r->displaced < JUMP_BYTES || r->displaced > RELOCATE_MOST || !r->copy_bytes ||
	    r->copy_bytes > RELOCATE_COPY_MOST || !r->steps || r->steps > RELOCATE_STEPS)
		abort();
	for (unsigned i = 0; i < r->steps; i++) {
		if (r->to[i] >= r->copy_bytes || (i && r->to[i] <= r->to[i - 1]))
			abort();
		if (relocated_back(r, FROM, copy_at, copy_at + r->to[i]) != FROM + r->from[i])
			abort();
		if (r->from[i] == r->displaced) {
			if (i + 1u != r->steps ||
			    jump_target(r->copy + r->to[i], copy_at + r->to[i]) !=
				    FROM + r->displaced)
				abort();
		} else if (r->from[i] >= JUMP_BYTES ||
			   relocated_pc(r, FROM, copy_at, FROM + r->from[i]) !=
				   copy_at + r->to[i]) {
			abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct relocated r;
	struct heft_error err;
	if (size < 1 || size > 4096)
		return 0;
	size_t n = size - 1;
	/* A copy of its own, so that a sanitizer sees what is read behind it. */
	uint8_t *code = malloc(n ? n : 1);
	memcpy(code, data + 1, n);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t copy_at = i == 0 ? FROM - 0x7fff0000 : i == 1 ? FROM + 0x1000 : 0x10000;
		int rc = relocate(&r, code, n, FROM, copy_at, data[0], &err);
		if (rc == 0)
			check(&r, copy_at);
		else if (rc > 0 || !memchr(err.message, 0, sizeof err.message))
			abort();
	}
	struct branch_range ranges[2] = {{FROM, FROM + 8, 0}, {FROM + 64, FROM + 70, 0}};
	relocate_find_branches(code, n, FROM - n / 2, ranges, 2);
	for (unsigned i = 0; i < 2; i++)
		if (ranges[i].from && ranges[i].from - (FROM - n / 2) >= n)
			abort();
	free(code);
	return 0;
}

#include "fuzz_corpus.h"
