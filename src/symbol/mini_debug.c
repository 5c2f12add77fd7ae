/* Opens .gnu_debugdata: some distributions leave the names of all functions in their
 * stripped files, as a small ELF file packed with xz. It has a symbol table and
 * nothing else of use.
 *
 * liblzma unpacks it into memory, with a bound on memory and size, because the
 * section is input. */
#include "symbol/debug_file.h"

#include "hosted/vector.h"
#include "symbol/elf_section.h"

#include <stdlib.h>

#ifdef HEFT_LZMA
#include <lzma.h>

enum { MOST_MEMORY = 128 << 20, MOST_BYTES = 256 << 20 };

static uint8_t *unpack(const uint8_t *packed, size_t packed_size, size_t *size)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	size_t capacity = 0;
	uint8_t *out = NULL;
	size_t most = MOST_BYTES;
	if (packed_size < most / ELF_FILE_UNPACKED_RATIO / 2)
		most = ELF_FILE_UNPACKED_FREE + ELF_FILE_UNPACKED_RATIO * packed_size;
	if (!array_reserve(out, 0, capacity,
			   packed_size < most / 8 ? packed_size * 8 + 4096 : most) ||
	    lzma_stream_decoder(&stream, MOST_MEMORY, 0) != LZMA_OK)
		goto fail;
	stream.next_in = packed;
	stream.avail_in = packed_size;
	for (;;) {
		stream.next_out = out + stream.total_out;
		stream.avail_out = (capacity < most ? capacity : most) - stream.total_out;
		lzma_ret rc = lzma_code(&stream, LZMA_FINISH);
		if (rc == LZMA_STREAM_END)
			break;
		if (rc != LZMA_OK || stream.avail_out || capacity >= most ||
		    !array_reserve(out, capacity, capacity, 1))
			goto fail;
	}
	*size = stream.total_out;
	lzma_end(&stream);
	return out;
fail:
	lzma_end(&stream);
	free(out);
	return NULL;
}

Elf *mini_debug_open(Elf *elf, void **memory)
{
	size_t size = 0;
	struct elf_bytes packed = elf_section_bytes(elf, ".gnu_debugdata");
	*memory = NULL;
	if (!packed.size)
		return NULL;
	uint8_t *bytes = unpack(packed.data, packed.size, &size);
	Elf *inner = bytes && size ? elf_memory((char *)bytes, size) : NULL;
	if (!inner || elf_kind(inner) != ELF_K_ELF) {
		elf_end(inner);
		free(bytes);
		return NULL;
	}
	*memory = bytes;
	return inner;
}

#else

Elf *mini_debug_open(Elf *elf, void **memory)
{
	(void)elf;
	*memory = NULL;
	return NULL;
}

#endif
