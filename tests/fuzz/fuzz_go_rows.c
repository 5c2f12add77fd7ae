/* Fuzzes the reader of Go's tables inside the target: the input is the one segment of an object, with a
 * moduledata at its end whose words are addresses in it. Rows are asked for at every address in and around it.
 * Nothing outside the input may be read (ASan sees to that). Without libFuzzer: runs over the files and folders
 * given, and over damaged copies of each. */
#include "base/sys.h"
#include "capture/go_rows.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MODULEDATA_WORDS = 23 };

_Atomic uint64_t sys_forbidden;

/* As the loader does: an address in the object becomes one in memory. */
static void relocate(uint8_t *copy, size_t size)
{
	for (unsigned i = 0; i < MODULEDATA_WORDS && size >= MODULEDATA_WORDS * 8ul; i++) {
		uint8_t *at = copy + (size & ~7ul) - MODULEDATA_WORDS * 8ul + i * 8ul;
		uint64_t word;
		memcpy(&word, at, 8);
		word += word ? (uintptr_t)copy : 0;
		memcpy(at, &word, 8);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	relocate(copy, size);
	const Elf64_Phdr header = {.p_type = PT_LOAD,
				   .p_flags = PF_R | PF_W | PF_X,
				   .p_filesz = size,
				   .p_memsz = size};
	struct cfi_image im = {.low = (uintptr_t)copy,
			       .high = (uintptr_t)copy + size,
			       .segments = {&header, 1, (uintptr_t)copy}};
	for (size_t at = 0; at < size + 64; at++)
		for (int exact = 0; exact < 2; exact++) {
			cfi_row row = go_row_at(&im, (uintptr_t)copy + at, exact);
			if (row == 0 ||
			    (cfi_row_kind(row) == CFI_ROW_RSP &&
			     (cfi_row_offset(row) < 8 || cfi_row_rbp(row) > cfi_row_offset(row))))
				abort();
		}
	go_rows_forget();
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
