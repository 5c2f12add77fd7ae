/* Looks functions of a module up by name (target_modules.h).
 *
 * The file is tried by several names, because none always works: what the kernel has mapped (map_files, which needs
 * privileges), the executable by /proc/PID/exe, the path in the process's own root, the path in ours. Whatever was
 * opened counts only if it is what stands in memory: the same headers, and the same build id or, without one, the
 * same first page. So a library that was replaced on disk is never asked about the one that runs.
 *
 * There are two passes over the symbols: one finds the functions, the other what begins next behind each. Both go
 * through .dynsym and .symtab; a million symbols take some 20 ms. */
#include "attach/target_dynsym.h"
#include "attach/target_modules.h"

#include "attach/relocate.h"
#include "hosted/error.h"
#include "symbol/elf_file.h"

#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How sure a symbol is the one that is meant; the same in two places is none. */
enum { RANK_NONE, RANK_LOCAL, RANK_OLD_VERSION, RANK_INTERNAL, RANK_EXPORTED };

struct lookup {
	const struct target_module *module;
	const char *const *names;
	struct target_function *functions;
	uint64_t *values; /* addresses as in the file */
	uint8_t *ranks;
	size_t count;
};

/* ---- one symbol */

static bool is_function(const struct lookup *l, const struct image_symbol *s)
{
	return s->defined &&
	       (s->type == STT_FUNC || s->type == STT_GNU_IFUNC || s->type == STT_NOTYPE) &&
	       target_image_code(&l->module->image, s->value);
}

static uint8_t rank_of(const struct image_symbol *s)
{
	if (s->bind != STB_GLOBAL && s->bind != STB_WEAK && s->bind != STB_GNU_UNIQUE)
		return RANK_LOCAL;
	if (s->old_version)
		return RANK_OLD_VERSION;
	return s->exported ? RANK_EXPORTED : RANK_INTERNAL;
}

/* In .symtab versions stand in the name: "fopen@@GLIBC_2.2.5", and with one @ if it is not the default. */
static bool is_named(const char *symbol, const char *name, bool *old_version)
{
	size_t length = strlen(name);
	if (strncmp(symbol, name, length) != 0)
		return false;
	if (symbol[length] == '@' && symbol[length + 1] != '@')
		*old_version = true;
	return !symbol[length] || symbol[length] == '@';
}

static void find_names(void *context, const struct image_symbol *symbol)
{
	struct lookup *l = context;
	for (size_t i = 0; i < l->count; i++) {
		struct image_symbol s = *symbol;
		struct target_function *f = &l->functions[i];
		if (s.name[0] != l->names[i][0] || !is_named(s.name, l->names[i], &s.old_version) ||
		    !is_function(l, &s))
			continue;
		uint8_t rank = rank_of(&s);
		if (rank < l->ranks[i])
			continue;
		if (rank == l->ranks[i]) {
			if (s.value != l->values[i])
				f->refused = "stands in several places";
			continue;
		}
		l->ranks[i] = rank;
		l->values[i] = s.value;
		f->address = s.value + l->module->image.bias;
		f->bytes = s.bytes;
		f->exported = rank == RANK_EXPORTED;
		f->refused = s.type == STT_GNU_IFUNC ? "is chosen at run time (IFUNC)" : NULL;
	}
}

static void find_next(void *context, const struct image_symbol *s)
{
	struct lookup *l = context;
	for (size_t i = 0; i < l->count; i++)
		if (l->ranks[i] && s->value - l->values[i] - 1 < l->functions[i].room - 1 &&
		    is_function(l, s))
			l->functions[i].room = s->value - l->values[i];
}

/* ---- all symbols of a file */

static void each_of_table(Elf *elf, uint32_t type, void (*see)(void *, const struct image_symbol *),
			  void *context)
{
	Elf_Data *versions = NULL;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_GNU_versym)
			versions = elf_getdata(scn, NULL);
	}
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != type)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		size_t count = data && shdr.sh_entsize ? data->d_size / shdr.sh_entsize : 0;
		for (size_t i = 0; i < count && i < INT32_MAX; i++) {
			GElf_Sym sym;
			GElf_Versym version = 0;
			if (!gelf_getsym(data, (int)i, &sym))
				break;
			const char *name = elf_strptr(elf, shdr.sh_link, sym.st_name);
			if (!name)
				continue;
			if (versions && type == SHT_DYNSYM)
				gelf_getversym(versions, (int)i, &version);
			const struct image_symbol entry = {
				.name = name,
				.value = sym.st_value,
				.bytes = sym.st_size,
				.type = GELF_ST_TYPE(sym.st_info),
				.bind = GELF_ST_BIND(sym.st_info),
				.defined = sym.st_shndx != SHN_UNDEF && sym.st_shndx != SHN_ABS,
				.exported = type == SHT_DYNSYM,
				.old_version = version & 0x8000,
			};
			see(context, &entry);
		}
		return; /* a file has one of each kind */
	}
}

/* ---- the file */

/* The file is the one that is mapped. */
static bool is_mapped_file(const struct target_modules *m, const struct target_module *module,
			   const struct elf_file *file)
{
	const struct target_image *im = &module->image;
	const struct target_mapping *at = &m->maps.items[module->mapping];
	uint8_t page[TARGET_HEADER_BYTES];
	const void *id;
	if (file->size < im->header_bytes || memcmp(file->map, im->header, im->header_bytes) != 0)
		return false;
	if (im->build_id_len)
		return dwelf_elf_gnu_build_id(file->elf, &id) == (ssize_t)im->build_id_len &&
		       memcmp(id, im->build_id, im->build_id_len) == 0;
	size_t bytes = file->size < sizeof page ? file->size : sizeof page;
	if (bytes > at->end - at->start)
		bytes = (size_t)(at->end - at->start);
	return target_modules_memory(m, at->start, page, bytes) &&
	       memcmp(file->map, page, bytes) == 0;
}

static bool open_as(const struct target_modules *m, const struct target_module *module,
		    const char *path, struct elf_file *file)
{
	if (elf_file_open(file, path) != ELF_FILE_OPEN)
		return false;
	if (is_mapped_file(m, module, file))
		return true;
	elf_file_close(file);
	return false;
}

static bool open_module(const struct target_modules *m, const struct target_module *module,
			struct elf_file *file)
{
	const struct target_mapping *at = &m->maps.items[module->mapping];
	char path[4096 + 64];
	snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", m->pid,
		 (unsigned long long)at->start, (unsigned long long)at->end);
	if (open_as(m, module, path, file))
		return true;
	snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
	if (module->program && open_as(m, module, path, file))
		return true;
	/* A file may be called "x (deleted)". */
	static const char *const ends[] = {"", " (deleted)"};
	for (unsigned i = 0; i <= at->deleted; i++) {
		snprintf(path, sizeof path, "/proc/%d/root%s%s", m->pid, at->name, ends[i]);
		if (open_as(m, module, path, file))
			return true;
		snprintf(path, sizeof path, "%s%s", at->name, ends[i]);
		if (open_as(m, module, path, file))
			return true;
	}
	return false;
}

/* ---- look-ups */

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

/* Calls `see` with each symbol of the file or, without it (elf is NULL), of the memory. */
static bool each_symbol(const struct target_modules *m, const struct lookup *l, Elf *elf,
			void (*see)(void *, const struct image_symbol *))
{
	if (!elf) {
		const struct target_memory memory = {read_memory, (void *)m};
		return target_dynsym_each(&l->module->image, &memory, see, (void *)l);
	}
	each_of_table(elf, SHT_DYNSYM, see, (void *)l);
	each_of_table(elf, SHT_SYMTAB, see, (void *)l);
	return true;
}

/* Bytes from a function to the end of its code. */
static uint64_t bytes_left(const struct lookup *l, size_t i)
{
	const struct target_segment *code = target_image_code(&l->module->image, l->values[i]);
	return code ? code->bytes - (l->values[i] - code->address) : 0;
}

static bool look_up(const struct target_modules *m, struct lookup *l)
{
	struct elf_file file;
	if (!open_module(m, l->module, &file))
		memset(&file, 0, sizeof file);
	bool any = each_symbol(m, l, file.elf, find_names);
	for (size_t i = 0; i < l->count; i++)
		l->functions[i].room = bytes_left(l, i);
	if (any)
		each_symbol(m, l, file.elf, find_next);
	elf_file_close(&file);
	return any;
}

/* What was found becomes what can be used. */
static void settle(const struct lookup *l, size_t i)
{
	struct target_function *f = &l->functions[i];
	uint64_t left = bytes_left(l, i);
	if (!f->refused && f->room < JUMP_BYTES && f->room < f->bytes)
		f->refused = "has another entry in its first bytes";
	if (f->bytes > left)
		f->bytes = left;
	if (f->room < f->bytes)
		f->room = f->bytes;
	if (!f->refused)
		return;
	const char *why = f->refused;
	*f = (struct target_function){.refused = why};
}

int target_functions(const struct target_modules *m, size_t module, const char *const *names,
		     struct target_function *functions, size_t count, struct heft_error *err)
{
	memset(functions, 0, count * sizeof *functions);
	if (!count)
		return 0;
	struct lookup l = {.module = &m->items[module],
			   .names = names,
			   .functions = functions,
			   .values = calloc(count, sizeof *l.values),
			   .ranks = calloc(count, sizeof *l.ranks),
			   .count = count};
	int rc = 0;
	if (!l.values || !l.ranks) {
		rc = heft_fail(err, HEFT_ENOMEM, "no memory for symbols");
		goto out;
	}
	if (!look_up(m, &l))
		rc = heft_fail(err, HEFT_ENOTFOUND, "%s: its symbols cannot be read",
			       l.module->path);
	for (size_t i = 0; i < count; i++)
		if (l.ranks[i])
			settle(&l, i);
out:
	free(l.values);
	free(l.ranks);
	return rc;
}

int target_symbol(const struct target_modules *m, size_t module, const char *name,
		  uint64_t *address, uint64_t *bytes, struct heft_error *err)
{
	struct target_function f;
	*address = *bytes = 0;
	int rc = target_functions(m, module, &name, &f, 1, err);
	if (rc < 0)
		return rc;
	const char *path = m->items[module].path;
	if (f.refused)
		return heft_fail(err, HEFT_EREFUSED, "%s: %s %s", path, name, f.refused);
	if (!f.address)
		return heft_fail(err, HEFT_ENOTFOUND, "%s has no %s", path, name);
	*address = f.address;
	*bytes = f.bytes;
	return 0;
}
