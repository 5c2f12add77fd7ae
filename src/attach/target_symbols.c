/* Looks functions of a module up by name (target_modules.h).
 *
 * The file is tried by several names, because none always works: what the kernel has mapped (map_files, which needs
 * privileges), the executable by /proc/PID/exe, the path in the process's own root, the path in ours. Whatever was
 * opened counts only if it is what stands in memory: the same headers, and the same build id or, without one, the
 * same first page. So a library that was replaced on disk is never asked about the one that runs.
 *
 * The symbols of a stripped module are in a file apart: by build id, by .gnu_debuglink, or packed into the file
 * itself. That file must have the build id of what is mapped.
 *
 * There are two passes over the symbols: one finds the functions, the other what begins next behind each. Both go
 * through .dynsym and .symtab; a million symbols take some 20 ms. */
#include "attach/target_dynsym.h"
#include "attach/target_modules.h"

#include "attach/relocate.h"
#include "hosted/error.h"
#include "symbol/debug_file.h"
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
	uint16_t *by_hash; /* numbers of names from 1, by hash_name; 0: none */
	uint32_t mask;
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

/* Of the name without a version. Programs have a million symbols, and heft knows hundreds of names. */
static uint32_t hash_name(const char *name)
{
	uint32_t h = 5381;
	for (; *name && *name != '@'; name++)
		h = h * 33 + (uint8_t)*name;
	return h ^ h >> 15;
}

static bool hash_names(struct lookup *l)
{
	l->mask = 15;
	while (l->mask < 4 * l->count)
		l->mask = l->mask * 2 + 1;
	l->by_hash = calloc(l->mask + 1, sizeof *l->by_hash);
	for (size_t i = 0; l->by_hash && i < l->count; i++) {
		uint32_t at = hash_name(l->names[i]) & l->mask;
		while (l->by_hash[at])
			at = (at + 1) & l->mask;
		l->by_hash[at] = (uint16_t)(i + 1);
	}
	return l->by_hash;
}

static void find_names(void *context, const struct image_symbol *symbol)
{
	struct lookup *l = context;
	for (uint32_t at = hash_name(symbol->name) & l->mask; l->by_hash[at];
	     at = (at + 1) & l->mask) {
		const size_t i = l->by_hash[at] - 1u;
		struct image_symbol s = *symbol;
		struct target_function *f = &l->functions[i];
		if (!is_named(s.name, l->names[i], &s.old_version) || !is_function(l, &s))
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

bool target_module_file(const struct target_modules *m, const struct target_module *module,
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

/* ---- what it was stripped of */

/* A module's symbols: in its file, and in a file apart if that has none. All zero: none of them */
struct symbol_files {
	struct elf_file file, debug;
	Elf *mini; /* packed into the file itself */
	void *mini_memory;
};

static bool has_table(Elf *elf)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_SYMTAB)
			return true;
	}
	return false;
}

/* A debug file counts only if it has the build id of what is mapped. */
static bool open_debug_as(const struct target_image *im, const char *path, struct elf_file *file)
{
	if (elf_file_open(file, path) != ELF_FILE_OPEN)
		return false;
	if (debug_file_build_id_is(file->elf, im->build_id, im->build_id_len) &&
	    has_table(file->elf))
		return true;
	elf_file_close(file);
	memset(file, 0, sizeof *file);
	return false;
}

static bool open_by_link(const struct target_modules *m, const struct target_module *module,
			 Elf *stripped, struct elf_file *file)
{
	GElf_Word checksum;
	const char *link = dwelf_elf_gnu_debuglink(stripped, &checksum);
	const char *name = m->maps.items[module->mapping].name, *slash = strrchr(name, '/');
	char path[3 * 4096];
	if (!link || strchr(link, '/') || !slash)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		char root[64] = "";
		if (i < 3)
			snprintf(root, sizeof root, "/proc/%d/root", m->pid);
		switch (i % 3) {
		case 0:
			snprintf(path, sizeof path, "%s%.*s/%s", root, (int)(slash - name), name,
				 link);
			break;
		case 1:
			snprintf(path, sizeof path, "%s%.*s/.debug/%s", root, (int)(slash - name),
				 name, link);
			break;
		default:
			snprintf(path, sizeof path, "%s/usr/lib/debug%.*s/%s", root,
				 (int)(slash - name), name, link);
		}
		if (open_debug_as(&module->image, path, file))
			return true;
	}
	return false;
}

static void open_debug(const struct target_modules *m, const struct target_module *module,
		       struct symbol_files *files)
{
	const struct target_image *im = &module->image;
	char id[2 * sizeof im->build_id + 1], path[256];
	for (size_t i = 0; i < im->build_id_len; i++)
		snprintf(id + 2 * i, 3, "%02x", im->build_id[i]);
	for (int i = 0; i < 2 && im->build_id_len > 1; i++) {
		char root[64] = "";
		if (!i)
			snprintf(root, sizeof root, "/proc/%d/root", m->pid);
		snprintf(path, sizeof path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id,
			 id + 2);
		if (open_debug_as(im, path, &files->debug))
			return;
	}
	if (im->build_id_len && open_by_link(m, module, files->file.elf, &files->debug))
		return;
	files->mini = mini_debug_open(files->file.elf, &files->mini_memory);
}

static void open_symbols(const struct target_modules *m, const struct target_module *module,
			 struct symbol_files *files)
{
	memset(files, 0, sizeof *files);
	if (!target_module_file(m, module, &files->file))
		memset(&files->file, 0, sizeof files->file);
	else if (!has_table(files->file.elf))
		open_debug(m, module, files);
}

static void close_symbols(struct symbol_files *files)
{
	elf_end(files->mini);
	free(files->mini_memory);
	elf_file_close(&files->debug);
	elf_file_close(&files->file);
}

/* ---- look-ups */

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

/* Calls `see` with each symbol of the files or, without them, of the memory. */
static bool each_symbol(const struct target_modules *m, const struct target_module *module,
			const struct symbol_files *files,
			void (*see)(void *, const struct image_symbol *), void *context)
{
	Elf *elf = files->file.elf;
	Elf *apart = files->debug.elf ? files->debug.elf : files->mini;
	if (!elf) {
		const struct target_memory memory = {read_memory, (void *)m};
		return target_dynsym_each(&module->image, &memory, see, context);
	}
	each_of_table(elf, SHT_DYNSYM, see, context);
	each_of_table(apart ? apart : elf, SHT_SYMTAB, see, context);
	return true;
}

/* Bytes from a function to the end of its code. */
static uint64_t bytes_left(const struct lookup *l, size_t i)
{
	const struct target_segment *code = target_image_code(&l->module->image, l->values[i]);
	return code ? code->bytes - (l->values[i] - code->address) : 0;
}

static bool has_found(const struct lookup *l)
{
	size_t i = 0;
	while (i < l->count && !l->ranks[i])
		i++;
	return i < l->count;
}

static bool look_up(const struct target_modules *m, struct lookup *l)
{
	struct symbol_files files;
	open_symbols(m, l->module, &files);
	bool any = each_symbol(m, l->module, &files, find_names, l);
	for (size_t i = 0; i < l->count; i++)
		l->functions[i].room = l->ranks[i] ? bytes_left(l, i) : 0;
	if (any && has_found(l))
		each_symbol(m, l->module, &files, find_next, l);
	close_symbols(&files);
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
	if (count >= UINT16_MAX || !l.values || !l.ranks || !hash_names(&l)) {
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
	free(l.by_hash);
	return rc;
}

struct prefix_search {
	const struct target_module *module;
	const char *name;
	char *prefix;
	size_t size;
};

static void find_prefix(void *context, const struct image_symbol *s)
{
	const struct prefix_search *f = context;
	const size_t length = strlen(s->name), known = strlen(f->name);
	if (length <= known || length - known >= f->size || *f->prefix ||
	    strcmp(s->name + length - known, f->name) != 0 || !s->defined || s->type != STT_FUNC ||
	    !target_image_code(&f->module->image, s->value))
		return;
	snprintf(f->prefix, f->size, "%.*s", (int)(length - known), s->name);
}

bool target_prefix(const struct target_modules *m, size_t module, const char *name, char *prefix,
		   size_t size)
{
	struct prefix_search f = {&m->items[module], name, prefix, size};
	struct symbol_files files;
	*prefix = 0;
	open_symbols(m, f.module, &files);
	each_symbol(m, f.module, &files, find_prefix, &f);
	close_symbols(&files);
	return *prefix;
}

bool target_may_export(const struct target_modules *m, size_t module, const char *name)
{
	const struct target_memory memory = {read_memory, (void *)m};
	return target_dynsym_defines(&m->items[module].image, &memory, name) != TARGET_DEFINES_NOT;
}

bool target_is_stripped(const struct target_modules *m, size_t module)
{
	struct elf_file file;
	if (!target_module_file(m, &m->items[module], &file))
		return true;
	bool stripped = !has_table(file.elf);
	elf_file_close(&file);
	return stripped;
}

bool target_has_symbols(const struct target_modules *m, size_t module)
{
	struct symbol_files files;
	open_symbols(m, &m->items[module], &files);
	bool has = files.debug.elf || files.mini || (files.file.elf && has_table(files.file.elf));
	close_symbols(&files);
	return has;
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
