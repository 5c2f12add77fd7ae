/* Reads the blob (src/capture/blob.c) from the file beside heft. It is an ordinary ELF
 * object without needs: its only relocations add the address at which it lies. The file
 * is ours, but may be of another version, or damaged: everything is checked. */
#include "attach/blob_image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, FILE_MOST = 4 << 20, MEMORY_MOST = 64 << 20 };

static uint64_t up(uint64_t at)
{
	return (at + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static int damaged(struct heft_error *err, const char *path, uint64_t offset, const char *what)
{
	return heft_fail_format(err, path, offset, "%s\nInstall heft anew.", what);
}

/* The whole file; NULL: err says why. */
static uint8_t *read_file(const char *path, size_t *size, struct heft_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint8_t *bytes = NULL;
	*size = 0;
	if (fd < 0 || fstat(fd, &st))
		heft_fail_errno(err, "cannot read %s", path);
	else if (!S_ISREG(st.st_mode) || st.st_size > FILE_MOST ||
		 st.st_size < (off_t)sizeof(Elf64_Ehdr))
		damaged(err, path, 0, "this is not what heft puts into programs");
	else if (!(bytes = malloc((size_t)st.st_size)))
		heft_fail(err, HEFT_ENOMEM, "out of memory");
	else if (read(fd, bytes, (size_t)st.st_size) != st.st_size) {
		heft_fail_errno(err, "cannot read %s", path);
		free(bytes);
		bytes = NULL;
	} else
		*size = (size_t)st.st_size;
	if (fd >= 0)
		close(fd);
	return bytes;
}

static bool is_in(uint64_t at, uint64_t bytes, uint64_t size)
{
	return at <= size && bytes <= size - at;
}

static int protection_of(uint32_t flags)
{
	return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
	       (flags & PF_X ? PROT_EXEC : 0);
}

/* Notes the segment. No page is in two of them. */
static bool take_segment(struct blob_image *b, const Elf64_Phdr *ph, size_t size)
{
	const uint64_t from = ph->p_vaddr & ~(uint64_t)(PAGE - 1);
	if (!is_in(ph->p_offset, ph->p_filesz, size) || ph->p_filesz > ph->p_memsz ||
	    !is_in(ph->p_vaddr, ph->p_memsz, MEMORY_MOST) || b->count == BLOB_PARTS ||
	    (b->count && from < b->parts[b->count - 1].to))
		return false;
	b->parts[b->count++] = (struct blob_part){.from = from,
						  .to = up(ph->p_vaddr + ph->p_memsz),
						  .protection = protection_of(ph->p_flags)};
	if (ph->p_vaddr + ph->p_filesz > b->filled)
		b->filled = ph->p_vaddr + ph->p_filesz;
	if (up(ph->p_vaddr + ph->p_memsz) > b->size)
		b->size = up(ph->p_vaddr + ph->p_memsz);
	return true;
}

/* From here on the bytes are as they lie in memory: a linker may put a segment elsewhere in the file. */
static bool lay_out(struct blob_image *b, const Elf64_Phdr *ph, unsigned count)
{
	uint8_t *memory = calloc(1, b->filled + 1);
	if (!memory)
		return false;
	for (unsigned i = 0; i < count; i++)
		if (ph[i].p_type == PT_LOAD)
			memcpy(memory + ph[i].p_vaddr, b->bytes + ph[i].p_offset, ph[i].p_filesz);
	free(b->bytes);
	b->bytes = memory;
	return true;
}

static bool take_relocations(struct blob_image *b, uint64_t at, uint64_t bytes)
{
	if (at % 8 || !is_in(at, bytes, b->filled))
		return false;
	const Elf64_Rela *r = (const Elf64_Rela *)(b->bytes + at);
	b->relocations = at;
	b->relocation_count = (uint32_t)(bytes / sizeof *r);
	for (uint32_t i = 0; i < b->relocation_count; i++)
		if (ELF64_R_TYPE(r[i].r_info) != R_X86_64_RELATIVE || r[i].r_offset % 8 ||
		    !is_in(r[i].r_offset, 8, b->filled) || (uint64_t)r[i].r_addend > b->size)
			return false;
	return true;
}

static bool take_symbol(struct blob_image *b, uint64_t symbols, uint64_t strings)
{
	/* Its symbol is the only one: number 0 is none. */
	const uint64_t at = symbols + sizeof(Elf64_Sym);
	if (at % 8 || !is_in(at, sizeof(Elf64_Sym), b->filled))
		return false;
	const Elf64_Sym *s = (const Elf64_Sym *)(b->bytes + at);
	if (!is_in(strings + s->st_name, sizeof WIRE_BLOB_SYMBOL, b->filled) ||
	    memcmp(b->bytes + strings + s->st_name, WIRE_BLOB_SYMBOL, sizeof WIRE_BLOB_SYMBOL) ||
	    s->st_value % 8 || !is_in(s->st_value, sizeof(struct wire_blob), b->filled))
		return false;
	b->shared = s->st_value;
	const struct wire_blob *shared = blob_image_shared(b);
	return shared->magic == WIRE_BLOB_MAGIC && shared->version == WIRE_BLOB_VERSION &&
	       shared->bytes == sizeof *shared;
}

static bool take_dynamic(struct blob_image *b, uint64_t at, uint64_t bytes)
{
	uint64_t symbols = 0, strings = 0, relocations = 0, relocation_bytes = 0;
	if (at % 8 || !is_in(at, bytes, b->filled))
		return false;
	const Elf64_Dyn *d = (const Elf64_Dyn *)(b->bytes + at);
	for (uint64_t i = 0; i < bytes / sizeof *d && d[i].d_tag != DT_NULL; i++)
		switch (d[i].d_tag) {
		case DT_SYMTAB: symbols = d[i].d_un.d_val; break;
		case DT_STRTAB: strings = d[i].d_un.d_val; break;
		case DT_RELA: relocations = d[i].d_un.d_val; break;
		case DT_RELASZ: relocation_bytes = d[i].d_un.d_val; break;
		case DT_NEEDED:
		case DT_JMPREL: return false;
		default: break;
		}
	return take_relocations(b, relocations, relocation_bytes) &&
	       take_symbol(b, symbols, strings);
}

static bool take_all(struct blob_image *b, size_t size)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)b->bytes;
	Elf64_Phdr dynamic = {0};
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_machine != EM_X86_64 ||
	    eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phoff % 8 ||
	    !is_in(eh->e_phoff, eh->e_phnum * sizeof(Elf64_Phdr), size))
		return false;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(b->bytes + eh->e_phoff);
	b->headers = eh->e_phoff;
	b->header_count = eh->e_phnum;
	for (unsigned i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type == PT_LOAD && !take_segment(b, &ph[i], size))
			return false;
		if (ph[i].p_type == PT_DYNAMIC)
			dynamic = ph[i];
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			b->eh_frame_hdr = ph[i].p_vaddr;
		if (ph[i].p_type == PT_TLS)
			return false;
	}
	return dynamic.p_filesz && lay_out(b, ph, eh->e_phnum) &&
	       take_dynamic(b, dynamic.p_vaddr, dynamic.p_filesz);
}

int blob_image_read(struct blob_image *b, const char *path, struct heft_error *err)
{
	size_t size;
	*b = (struct blob_image){.bytes = read_file(path, &size, err)};
	if (!b->bytes)
		return err->code;
	if (take_all(b, size))
		return 0;
	blob_image_fini(b);
	return damaged(err, path, 0, "this is not what this heft puts into programs");
}

void blob_image_fini(struct blob_image *b)
{
	free(b->bytes);
	b->bytes = NULL;
}

struct wire_blob *blob_image_shared(const struct blob_image *b)
{
	return (struct wire_blob *)(b->bytes + b->shared);
}

uint64_t blob_image_extend(struct blob_image *b, size_t bytes)
{
	const uint64_t from = b->size;
	if (b->count == BLOB_PARTS || bytes > MEMORY_MOST)
		return 0;
	b->size += up(bytes);
	b->parts[b->count++] = (struct blob_part){
		.from = from, .to = b->size, .protection = PROT_READ};
	return from;
}

void blob_image_place(struct blob_image *b, uint64_t at)
{
	const Elf64_Rela *r = (const Elf64_Rela *)(b->bytes + b->relocations);
	struct wire_blob *shared = blob_image_shared(b);
	b->at = at;
	for (uint32_t i = 0; i < b->relocation_count; i++) {
		uint64_t value = at + (uint64_t)r[i].r_addend;
		memcpy(b->bytes + r[i].r_offset, &value, sizeof value);
	}
	shared->start = at;
	shared->end = at + b->size;
	shared->eh_frame_hdr = at + b->eh_frame_hdr;
	shared->headers = at + b->headers;
	shared->header_count = b->header_count;
}
