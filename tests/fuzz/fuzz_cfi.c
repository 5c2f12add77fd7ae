/* Fuzzes the reader of unwind tables: the input is an object's mapped range that
 * begins with .eh_frame_hdr. Rules are asked for at addresses in and around it,
 * and every expression they name is evaluated. Nothing outside the input may be
 * read (ASan sees to that). Without libFuzzer: runs over the files and folders
 * given, and over damaged copies of each. */
#include "capture/cfi.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int any_memory(void *ctx, uintptr_t address, uint64_t *value)
{
	(void)ctx;
	*value = address * 0x9e3779b97f4a7c15ull;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that one byte too far is noticed. */
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	static _Alignas(8) char work[CFI_WORK_BYTES];
	struct cfi_image im = {(uintptr_t)copy,
			       (uintptr_t)copy + size,
			       (uintptr_t)copy,
			       {0},
			       size % 2 ? work : NULL,
			       NULL,
			       0};
	const uint64_t regs[CFI_REGS] = {1, 2, 3, 4, 5, 6, (uintptr_t)copy, 0x7000, 9}, cfa = 7;
	for (size_t at = 0; at < size + 64; at += 1 + at / 16) {
		/* Addresses before the image are where a table's code usually is. */
		const uintptr_t pcs[] = {(uintptr_t)copy + at, (uintptr_t)copy - at * 64};
		for (int i = 0; i < 2; i++) {
			struct cfi_rules r;
			uint64_t v;
			if (cfi_row_at(&im, pcs[i]) == 0)
				abort();
			if (cfi_rules_at(&im, pcs[i], &r))
				continue;
			if (r.cfa_expr)
				cfi_evaluate(&im, r.cfa_expr, regs, NULL, any_memory, NULL, &v);
			for (int k = 0; k < CFI_REGS; k++)
				if (r.reg[k].how == CFI_EXPR || r.reg[k].how == CFI_AT_EXPR)
					cfi_evaluate(&im, r.reg[k].value, regs, &cfa, any_memory,
						     NULL, &v);
		}
	}
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
