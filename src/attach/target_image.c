/* Reads the headers of a module from a program's memory (target_image.h). Memory is the truth: the file may have been
 * replaced or deleted since, or lie where we cannot look. The program may have written anything there, so counts and
 * sizes are bounded before they are used, additions cannot wrap, and structures are copied out instead of cast.
 *
 * The header tells where it stands itself: the segment that begins the file has it at its start. */
#include "attach/target_image.h"

#include <elf.h>
#include <string.h>

enum { MOST_NOTE_BYTES = 4096 };
/* No address beyond it: user space of 5-level page tables. */
#define ADDRESS_END (UINT64_C(1) << 56)
#define PAGE UINT64_C(4096)

static bool read_at(const struct target_memory *memory, uint64_t at, void *to, size_t bytes)
{
	return at < ADDRESS_END && memory->read(memory->context, at, to, bytes);
}

static void find_build_id(struct target_image *im, const uint8_t *notes, size_t size)
{
	size_t at = 0;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof note);
		at += sizeof note;
		uint64_t name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		uint64_t value = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
		if (name > size - at || note.n_descsz > size - at - name)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz <= TARGET_BUILD_ID_MOST) {
			memcpy(im->build_id, notes + at + name, note.n_descsz);
			im->build_id_len = note.n_descsz;
			return;
		}
		if (value > size - at - name)
			return;
		at += (size_t)(name + value);
	}
}

static void read_notes(struct target_image *im, const struct target_memory *memory,
		       const Elf64_Phdr *ph)
{
	uint8_t notes[MOST_NOTE_BYTES];
	size_t bytes = ph->p_filesz < sizeof notes ? (size_t)ph->p_filesz : sizeof notes;
	if (read_at(memory, ph->p_vaddr + im->bias, notes, bytes))
		find_build_id(im, notes, bytes);
}

static void take_segment(struct target_image *im, const Elf64_Phdr *ph)
{
	if (im->segment_count == TARGET_IMAGE_SEGMENTS || ph->p_vaddr >= ADDRESS_END ||
	    ph->p_memsz >= ADDRESS_END || !ph->p_memsz)
		return;
	im->segments[im->segment_count++] = (struct target_segment){
		ph->p_vaddr, ph->p_memsz, ph->p_flags & PF_X, ph->p_flags & PF_W};
}

bool target_image_read(struct target_image *im, const struct target_memory *memory,
		       uint64_t header_at)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	bool placed = false;
	memset(im, 0, sizeof *im);
	im->header_at = header_at;
	if (!read_at(memory, header_at, &eh, sizeof eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_machine != EM_X86_64 ||
	    (eh.e_type != ET_DYN && eh.e_type != ET_EXEC) || eh.e_phentsize != sizeof ph)
		return false;
	/* Program headers follow the header wherever there is a loader that finds them by it. */
	uint64_t end = (uint64_t)eh.e_phnum * sizeof ph;
	if (eh.e_phoff > TARGET_HEADER_BYTES || end > TARGET_HEADER_BYTES - eh.e_phoff)
		return false;
	im->header_bytes = (uint32_t)(eh.e_phoff + end);
	if (im->header_bytes < sizeof eh)
		im->header_bytes = sizeof eh;
	if (!read_at(memory, header_at, im->header, im->header_bytes))
		return false;
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < eh.e_phnum; i++) {
			memcpy(&ph, im->header + eh.e_phoff + i * sizeof ph, sizeof ph);
			if (pass == 0) {
				if (ph.p_type == PT_LOAD && ph.p_offset < PAGE && !placed) {
					im->bias = header_at - (ph.p_vaddr - ph.p_offset);
					placed = true;
				}
			} else if (ph.p_type == PT_LOAD) {
				take_segment(im, &ph);
			} else if (ph.p_type == PT_NOTE && !im->build_id_len) {
				read_notes(im, memory, &ph);
			} else if (ph.p_type == PT_DYNAMIC && ph.p_memsz < ADDRESS_END) {
				im->dynamic = ph.p_vaddr;
				im->dynamic_bytes = ph.p_memsz;
			}
		}
	return placed && im->segment_count;
}

const struct target_segment *target_image_code(const struct target_image *im, uint64_t address)
{
	for (uint32_t i = 0; i < im->segment_count; i++)
		if (im->segments[i].execute &&
		    address - im->segments[i].address < im->segments[i].bytes)
			return &im->segments[i];
	return NULL;
}
