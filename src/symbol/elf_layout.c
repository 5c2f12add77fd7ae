/* Reads the segments and the build id of an ELF file (elf_layout.h).
 *
 * A mapping in /proc/PID/maps says which bytes of a file stand where in memory; the
 * segment that holds those bytes says which addresses the file itself gives them. The
 * two differ for good reasons (linkers shift later segments by a page), so guessing
 * from the mapping alone is wrong for data and for some code. */
#include "symbol/elf_layout.h"

#include "symbol/elf_file.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>

static void read_loads(Elf *elf, struct elf_layout *layout)
{
	size_t count = 0;
	if (elf_getphdrnum(elf, &count) < 0)
		return;
	for (size_t i = 0; i < count && layout->load_count < ELF_LAYOUT_LOADS; i++) {
		GElf_Phdr ph;
		if (!gelf_getphdr(elf, (int)i, &ph))
			return;
		if (ph.p_type != PT_LOAD || !ph.p_filesz)
			continue;
		layout->loads[layout->load_count++] = (struct elf_load){
			.offset = ph.p_offset,
			.address = ph.p_vaddr,
			.file_bytes = ph.p_filesz,
			.executable = ph.p_flags & PF_X,
		};
	}
}

bool elf_layout_read(const char *path, struct elf_layout *layout)
{
	struct elf_file file;
	const void *id = NULL;
	memset(layout, 0, sizeof *layout);
	if (elf_file_open(&file, path) != ELF_FILE_OPEN)
		return false;
	ssize_t length = dwelf_elf_gnu_build_id(file.elf, &id);
	if (length > 0 && length <= ELF_LAYOUT_ID_MAX) {
		memcpy(layout->build_id, id, (size_t)length);
		layout->build_id_len = (uint32_t)length;
	}
	read_loads(file.elf, layout);
	elf_file_close(&file);
	return true;
}

bool elf_layout_slide(const struct elf_layout *layout, uint64_t start, uint64_t end,
		      uint64_t offset, uint64_t *slide)
{
	const uint64_t page = 4096;
	const struct elf_load *best = NULL;
	for (uint32_t i = 0; i < layout->load_count; i++) {
		const struct elf_load *l = &layout->loads[i];
		uint64_t from = l->offset & ~(page - 1);
		if (offset < from ? from - offset >= end - start
				  : offset - from >= l->file_bytes + page)
			continue;
		/* Segments may share a page of the file: code wins, then the one that begins here. */
		if (!best || (l->executable && !best->executable) ||
		    (l->executable == best->executable && from == offset))
			best = l;
	}
	if (best)
		*slide = start - offset + best->offset - best->address;
	return best != NULL;
}
