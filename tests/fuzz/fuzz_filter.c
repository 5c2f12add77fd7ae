/* Fuzzes the evaluation of filters for system calls: the input is a program of classic BPF, 8 bytes an instruction.
 * Whatever it holds, it is run to an end, and touches nothing but its own memory. Without libFuzzer: runs over the files
 * and folders given, and over damaged copies of each. */
#include "base/filter.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count = size / sizeof(struct sock_filter);
	if (count > BPF_MAXINSNS)
		return 0;
	/* An exact copy, so that one byte too far is noticed. */
	struct sock_filter *program = malloc(count * sizeof *program + !count);
	if (!program)
		return 0;
	memcpy(program, data, count * sizeof *program);
	uint64_t mask = filter_forbids_all(program, (uint32_t)count);
	/* Nothing is deadly that is allowed. */
	if (mask & ~(SYS_ALL | SYS_DEADLY) || mask == SYS_DEADLY || (!count && !mask))
		abort();
	free(program);
	return 0;
}

#include "fuzz_corpus.h"
