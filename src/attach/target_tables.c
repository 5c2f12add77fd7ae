/* Makes the list of modules that the blob gets: first the modules, then for each its path, its program headers and, if
 * the file has unwind tables without an index, that index. All in one piece; offsets lead from one to the other. */
#include "attach/target_tables.h"

#include "attach/eh_frame_index.h"
#include "hosted/error.h"
#include "symbol/elf_file.h"

#include <elf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

/* 8 bytes for each entry of a very large program's tables */
#define TABLES_MOST (UINT32_C(48) << 20)

/* Copies bytes behind the others, and returns their offset; 0: there is no memory, or too much. */
static uint32_t append(struct target_tables *t, const void *from, size_t bytes)
{
	const size_t at = (t->size + 7) & ~(size_t)7;
	if (bytes > TABLES_MOST - at)
		return 0;
	uint8_t *more = realloc(t->bytes, at + bytes);
	if (!more)
		return 0;
	memset(more + t->size, 0, at - t->size);
	if (bytes)
		memcpy(more + at, from, bytes);
	t->bytes = more;
	t->size = at + bytes;
	return (uint32_t)at;
}

/* Reads .eh_frame of a file. Where it will be in memory is in the section's header, which nobody has loaded. */
static bool index_file(const struct target_modules *m, const struct target_module *module,
		       struct eh_frame_index *x)
{
	struct elf_file file;
	size_t names;
	bool enough = true;
	if (!target_module_file(m, module, &file))
		return true;
	if (elf_getshdrstrndx(file.elf, &names) == 0)
		for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file.elf, scn));) {
			GElf_Shdr shdr;
			const char *name;
			if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS ||
			    !(shdr.sh_flags & SHF_ALLOC) ||
			    !(name = elf_strptr(file.elf, names, shdr.sh_name)) ||
			    strcmp(name, ".eh_frame") != 0)
				continue;
			const Elf_Data *data = elf_rawdata(scn, NULL);
			if (data && data->d_buf)
				enough &= eh_frame_index_add(x, data->d_buf, data->d_size,
							     shdr.sh_addr,
							     module->low - module->image.bias);
		}
	elf_file_close(&file);
	return enough;
}

/* The program headers; false: they are not where they always are. */
static const Elf64_Phdr *headers_of(const struct target_image *im, uint32_t *count)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)im->header;
	*count = 0;
	if (im->header_bytes < sizeof *eh || eh->e_phoff % 8 || eh->e_phoff > im->header_bytes ||
	    eh->e_phnum > (im->header_bytes - eh->e_phoff) / sizeof(Elf64_Phdr))
		return NULL;
	*count = eh->e_phnum;
	return (const Elf64_Phdr *)(im->header + eh->e_phoff);
}

static bool add_module(struct target_tables *t, const struct target_modules *m,
		       const struct target_module *module, uint32_t number)
{
	const struct target_image *im = &module->image;
	struct eh_frame_index x = {0};
	struct wire_blob_module w = {
		.start = module->low,
		.end = module->high,
		.bias = im->bias,
		.dynamic = im->dynamic_bytes ? im->bias + im->dynamic : 0,
	};
	const Elf64_Phdr *headers = headers_of(im, &w.header_count);
	for (uint32_t i = 0; i < w.header_count; i++)
		if (headers[i].p_type == PT_GNU_EH_FRAME)
			w.eh_frame_hdr = im->bias + headers[i].p_vaddr;
	bool done = w.eh_frame_hdr || index_file(m, module, &x);
	w.unwind_count = (uint32_t)x.count;
	if (x.count)
		done &= (w.unwind = append(t, x.items, x.count * sizeof *x.items)) != 0;
	eh_frame_index_fini(&x);
	w.headers = append(t, headers, w.header_count * sizeof *headers);
	w.path = append(t, module->program ? "" : module->path,
			module->program ? 1 : strlen(module->path) + 1);
	if (!done || !w.headers || !w.path)
		return false;
	memcpy(t->bytes + number * sizeof w, &w, sizeof w);
	return true;
}

int target_tables_make(struct target_tables *t, const struct target_modules *m,
		       struct heft_error *err)
{
	*t = (struct target_tables){
		.modules = (uint32_t)(m->count < WIRE_BLOB_MODULES ? m->count : WIRE_BLOB_MODULES)};
	t->size = t->modules * sizeof(struct wire_blob_module);
	t->bytes = calloc(1, t->size + 1);
	for (uint32_t i = 0; i < t->modules && t->bytes; i++)
		if (!add_module(t, m, &m->items[i], i)) {
			target_tables_fini(t);
			break;
		}
	return t->bytes ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for unwind tables");
}

void target_tables_fini(struct target_tables *t)
{
	free(t->bytes);
	t->bytes = NULL;
}
