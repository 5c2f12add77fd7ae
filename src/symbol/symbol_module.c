/* One module's answers. For a batch of addresses the sources are tried in the
 * order of what they know: DWARF of the file itself or of its separate debug
 * file, then .symtab, then .dynsym. Nothing is opened before it is needed, and
 * the symbol tables are read only for what DWARF left without a function:
 * the summary at the end of every run depends on this being cheap.
 *
 * Invariant: a file whose build id is not the recorded one is never used, since
 * wrong names are worse than none. */
#include "symbol/symbol_sources.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct symbol_module {
	struct name_pool *pool;
	struct name_cache names;
	char *path;
	Elf *elf, *debug_elf;
	int fd, debug_fd;
	Dwarf *dw;
	struct dwarf_source *dwarf;
	bool dwarf_tried, names_only;
};

int symbol_module_open(struct symbol_module **out, enum symbol_state *state, struct name_pool *pool,
		       const char *path, const uint8_t *build_id, size_t build_id_len)
{
	*out = NULL;
	*state = SYMBOL_NOT_A_FILE;
	if (!path || path[0] != '/')
		return 0;
	*state = SYMBOL_MISSING;
	int fd = debug_file_open_regular(path);
	if (fd < 0)
		return 0;

	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF) {
		*state = SYMBOL_NOT_ELF;
		goto unusable;
	}
	if (!debug_file_build_id_is(elf, build_id, build_id_len)) {
		*state = SYMBOL_REPLACED;
		goto unusable;
	}
	struct symbol_module *m = calloc(1, sizeof *m);
	char *own_path = strdup(path);
	if (!m || !own_path) {
		free(m);
		free(own_path);
		elf_end(elf);
		close(fd);
		return HEFT_ENOMEM;
	}
	m->pool = pool;
	m->path = own_path;
	m->elf = elf;
	m->fd = fd;
	m->debug_fd = -1;
	name_cache_init(&m->names, pool);
	*state = SYMBOL_USABLE;
	*out = m;
	return 0;

unusable:
	elf_end(elf);
	close(fd);
	return 0;
}

void symbol_module_close(struct symbol_module *m)
{
	if (!m)
		return;
	dwarf_source_free(m->dwarf);
	dwarf_end(m->dw);
	elf_end(m->debug_elf);
	if (m->debug_fd >= 0)
		close(m->debug_fd);
	elf_end(m->elf);
	close(m->fd);
	name_cache_fini(&m->names);
	free(m->path);
	free(m);
}

static bool has_section(Elf *elf, const char *wanted)
{
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings) != 0)
		return false;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS)
			continue;
		const char *name = elf_strptr(elf, strings, shdr.sh_name);
		if (name && strcmp(name, wanted) == 0)
			return true;
	}
	return false;
}

static int find_dwarf(struct symbol_module *m)
{
	if (m->dwarf_tried || m->names_only)
		return 0;
	m->dwarf_tried = true;
	Elf *with_dwarf = m->elf;
	if (!has_section(m->elf, ".debug_info") && !has_section(m->elf, ".zdebug_info")) {
		m->debug_elf = debug_file_find(m->elf, m->path, &m->debug_fd);
		with_dwarf = m->debug_elf;
	}
	if (!with_dwarf)
		return 0;
	m->dw = dwarf_begin_elf(with_dwarf, DWARF_C_READ, NULL);
	if (!m->dw)
		return 0;
	m->dwarf = dwarf_source_new(m->dw, &m->names);
	return m->dwarf ? 0 : HEFT_ENOMEM;
}

/* Gives a query's outermost frame the name of its symbol, keeping all else that is known. */
static int name_query(struct symbol_module *m, struct symbol_query *q, const char *raw)
{
	const char *name = name_cache_get(&m->names, raw);
	uint32_t count = q->frame_count ? q->frame_count : 1;
	struct symbol_frame *frames = name_pool_alloc(m->pool, count * sizeof *frames);
	if (!name || !frames)
		return HEFT_ENOMEM;
	if (q->frame_count)
		memcpy(frames, q->frames, count * sizeof *frames);
	frames[count - 1].function = name;
	q->frames = frames;
	q->frame_count = count;
	return 0;
}

static bool needs_symbol(const struct symbol_query *q)
{
	return !q->frame_count || !q->frames[q->frame_count - 1].function || q->bare;
}

static int from_symbol_tables(struct symbol_module *m, struct symbol_query *queries, size_t count)
{
	struct {
		Elf *elf;
		uint32_t type;
	} tables[] = {
		{m->elf, SHT_SYMTAB},
		{m->debug_elf, SHT_SYMTAB},
		{m->elf, SHT_DYNSYM},
	};
	const char **names = calloc(count, sizeof *names);
	int rc = 0;
	if (!names)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (tables[i].elf)
			symbol_table_lookup(tables[i].elf, tables[i].type, queries, names, count);
	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct symbol_query *q = &queries[i];
		if (names[i] && needs_symbol(q))
			rc = name_query(m, &queries[i], names[i]);
	}
	free(names);
	return rc;
}

void symbol_module_set_names_only(struct symbol_module *m, bool names_only)
{
	if (m)
		m->names_only = names_only;
}

int symbol_module_lookup(struct symbol_module *m, struct symbol_query *queries, size_t count)
{
	size_t unnamed = 0;
	int rc = find_dwarf(m);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		struct symbol_query *q = &queries[i];
		q->frames = NULL;
		q->frame_count = 0;
		q->bare = false;
		if (m->dwarf && !m->names_only && (rc = dwarf_source_lookup(m->dwarf, q)) < 0)
			return rc;
		unnamed += needs_symbol(q);
	}
	return unnamed ? from_symbol_tables(m, queries, count) : 0;
}
