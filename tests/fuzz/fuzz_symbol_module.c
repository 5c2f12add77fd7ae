/* Fuzzes the lookup of names in a module: ELF, packed sections, DWARF, split units, symbol and unwind tables, and
 * demangling, with libelf and libdw below it. The first two bytes choose addresses, the rest is the file. */
#include "symbol/symbol_module.h"

#include "hosted/error.h"

#include <elfutils/libdwelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ADDRESSES = 16 };

/* A module is used only if it has the recorded build id: so that of the file is taken. */
static size_t build_id_of(const uint8_t *file, size_t size, uint8_t id[64])
{
	const void *bytes;
	elf_version(EV_CURRENT);
	char *copy = malloc(size + 1);
	if (!copy)
		abort();
	memcpy(copy, file, size);
	Elf *elf = elf_memory(copy, size);
	ssize_t length = elf ? dwelf_elf_gnu_build_id(elf, &bytes) : -1;
	if (length > 64)
		length = 64;
	if (length > 0)
		memcpy(id, bytes, (size_t)length);
	elf_end(elf);
	free(copy);
	return length > 0 ? (size_t)length : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct symbol_options options = {.debug_roots = "/nonexistent"};
	struct symbol_search search;
	struct symbol_module *m = NULL;
	enum symbol_state state;
	struct symbol_query queries[ADDRESSES];
	uint8_t id[64];
	char path[64];
	if (size < 2 || size > 1 << 20)
		return 0;
	int fd = memfd_create("module", MFD_CLOEXEC);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, data + 2, size - 2) != (ssize_t)(size - 2))
		abort();
	size_t length = build_id_of(data + 2, size - 2, id);
	struct name_pool *pool = name_pool_new();
	symbol_search_init(&search, &options);
	const struct symbol_module_id module = {path, id, length};
	if (!pool || symbol_module_open(&m, &state, pool, &search, &module) < 0)
		abort();
	if (m) {
		for (uint64_t i = 0; i < ADDRESSES; i++)
			queries[i] = (struct symbol_query){.address = data[0] * UINT64_C(64) +
								      i * (data[1] + 1u)};
		int rc = symbol_module_lookup(m, queries, ADDRESSES);
		size_t sum = 0;
		for (int i = 0; i < ADDRESSES && rc == 0; i++)
			for (uint32_t k = 0; k < queries[i].frame_count; k++) {
				const struct symbol_frame *f = &queries[i].frames[k];
				sum += f->function ? strlen(f->function) : 0;
				sum += f->file ? strlen(f->file) : 0;
			}
		if (rc > 0 || sum == SIZE_MAX)
			abort();
		symbol_module_close(m);
	}
	name_pool_free(pool);
	close(fd);
	return 0;
}

#include "fuzz_corpus.h"
