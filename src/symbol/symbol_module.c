/* Answers the queries of one module. For a batch of addresses the sources are tried in the
 * order of what they know: DWARF of the file itself or of its separate debug
 * file, then Go's own tables, .symtab, the table inside .gnu_debugdata, then .dynsym. Nothing is
 * opened before it is needed, and the symbol tables are read only for what DWARF
 * left without a function: the summary at the end of every run depends on this
 * being cheap.
 *
 * The kernel's vdso has no file, but every process has the same one: this
 * process's own is read, if its build id is the recorded one.
 *
 * Invariant: a file whose build id is not the recorded one is never used, since
 * wrong names are worse than none. */
#include "symbol/symbol_module.h"

#include "hosted/error.h"
#include "hosted/number_words.h"
#include "symbol/debug_file.h"
#include "symbol/elf_section.h"
#include "symbol/function_start.h"
#include "symbol/go_functions.h"
#include "symbol/symbol_sources.h"

#include <elfutils/libdwelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct symbol_module {
	struct name_pool *pool;
	struct name_cache names;
	char *path;
	uint8_t *build_id;
	struct debug_file_search search;
	struct symbol_evidence evidence;
	Elf *elf; /* the file itself, or the vdso; NULL: only a debug file was found */
	struct elf_file file;
	struct symbol_origin origin;
	struct debug_file debug, alternate;
	Elf *mini;
	void *mini_memory, *vdso_memory;
	Dwarf *dw, *alternate_dw;
	struct dwarf_source *dwarf;
	char *lacking; /* words; NULL: the whole of what was looked for is there */
	bool dwarf_tried, names_only, search_done;
};

void symbol_search_init(struct symbol_search *search, const struct symbol_options *options)
{
	search->options = options;
	search->server_left_ms = (uint64_t)options->server_seconds * 1000;
}

/* How far the vdso reaches, section headers included; 0: it is not what it should be. */
static size_t vdso_size(const char *start)
{
	ElfW(Ehdr) eh;
	memcpy(&eh, start, sizeof eh);
	if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
		return 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t end = (size_t)eh.e_shoff + (size_t)eh.e_shnum * eh.e_shentsize;
	return end < 64 * page ? end : 0;
}

static Elf *open_vdso(void **memory)
{
	const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
	size_t size = start ? vdso_size(start) : 0;
	*memory = size ? malloc(size) : NULL;
	if (!*memory)
		return NULL;
	memcpy(*memory, start, size);
	return elf_memory(*memory, size);
}

static bool is_vdso(const char *path)
{
	return strcmp(path, "[vdso]") == 0 || strncmp(path, "linux-vdso.so", 13) == 0;
}

/* Opens the module's own file, if there is one. */
static enum symbol_state open_file(struct symbol_module *m, const struct symbol_module_id *id)
{
	if (!id->path || !*id->path)
		return SYMBOL_NOT_A_FILE;
	if (is_vdso(id->path)) {
		m->elf = id->build_id_len ? open_vdso(&m->vdso_memory) : NULL;
		if (!m->elf)
			return SYMBOL_NOT_A_FILE;
	} else if (id->path[0] != '/') {
		return SYMBOL_NOT_A_FILE;
	} else {
		symbol_evidence_look(&m->evidence, id->path);
		if (elf_file_open(&m->file, id->path) == ELF_FILE_MISSING)
			return SYMBOL_MISSING;
		m->elf = m->file.elf;
		if (m->elf)
			m->origin = symbol_origin_of(&m->file.st);
	}
	if (!m->elf || elf_kind(m->elf) != ELF_K_ELF)
		return SYMBOL_NOT_ELF;
	if (!debug_file_build_id_is(m->elf, id->build_id, id->build_id_len))
		return SYMBOL_REPLACED;
	return SYMBOL_USABLE;
}

static void close_file(struct symbol_module *m)
{
	if (m->elf != m->file.elf)
		elf_end(m->elf);
	m->elf = NULL;
	elf_file_close(&m->file);
	free(m->vdso_memory);
	m->vdso_memory = NULL;
}

int symbol_module_open(struct symbol_module **out, enum symbol_state *state, struct name_pool *pool,
		       struct symbol_search *search, const struct symbol_module_id *id)
{
	struct symbol_module *m = calloc(1, sizeof *m);
	*out = NULL;
	if (!m)
		return HEFT_ENOMEM;
	m->pool = pool;
	m->path = strdup(id->path ? id->path : "");
	m->build_id = malloc(id->build_id_len + 1);
	name_cache_init(&m->names, pool);
	if (!m->path || !m->build_id) {
		symbol_module_close(m);
		return HEFT_ENOMEM;
	}
	if (id->build_id_len)
		memcpy(m->build_id, id->build_id, id->build_id_len);
	m->search = (struct debug_file_search){
		.session = search,
		.evidence = &m->evidence,
		.module_path = m->path,
		.build_id = m->build_id,
		.build_id_len = id->build_id_len,
	};
	symbol_evidence_roots(&m->evidence, search->options->debug_roots);
	elf_version(EV_CURRENT);
	*state = open_file(m, id);
	if (*state == SYMBOL_USABLE) {
		*out = m;
		return 0;
	}
	close_file(m);
	if (*state == SYMBOL_NOT_A_FILE) {
		symbol_module_close(m);
		return 0;
	}
	/* The debug file of what was recorded may have outlived it. */
	m->search_done = true;
	if (id->build_id_len && debug_file_find(&m->search, NULL, &m->debug)) {
		*state = SYMBOL_USABLE;
		*out = m;
		return 0;
	}
	symbol_module_close(m);
	return 0;
}

void symbol_module_close(struct symbol_module *m)
{
	if (!m)
		return;
	dwarf_source_free(m->dwarf);
	dwarf_end(m->dw);
	dwarf_end(m->alternate_dw);
	elf_file_close(&m->alternate.file);
	elf_file_close(&m->debug.file);
	elf_end(m->mini);
	free(m->mini_memory);
	close_file(m);
	symbol_evidence_fini(&m->evidence);
	name_cache_fini(&m->names);
	free(m->lacking);
	free(m->build_id);
	free(m->path);
	free(m);
}

char *symbol_refused_words(const char *path, uint64_t refused_bytes)
{
	char *words;
	if (refused_bytes == UINT64_MAX)
		return asprintf(&words, "%s has damaged packed sections", path) < 0 ? NULL : words;
	return asprintf(&words,
			"%s has packed sections that would become %s, which heft does not unpack",
			path, words_size(refused_bytes).text) < 0
		       ? NULL
		       : words;
}

static bool has_dwarf(Elf *elf)
{
	uint64_t address;
	return elf && elf_section_address(elf, ".debug_info", &address);
}

/* libdw unpacks every section it knows as soon as a file is opened, which for a distribution's
 * debug file is most of the time of a lookup. Those that are never needed here are hidden from it. So
 * is the name of dwz's file, which libdw would open by itself, whatever it is. */
static void hide_sections(Elf *elf)
{
	static const char *const unneeded[] = {".debug_loclists", ".debug_loc",     ".debug_frame",
					       ".debug_macro",    ".debug_macinfo", ".debug_types"};
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings) != 0)
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr))
			continue;
		const char *name = elf_strptr(elf, strings, shdr.sh_name);
		bool hide = name && strcmp(name, ".gnu_debugaltlink") == 0;
		for (size_t i = 0; name && (shdr.sh_flags & SHF_COMPRESSED) &&
				   i < sizeof unneeded / sizeof *unneeded;
		     i++)
			hide |= strcmp(name, unneeded[i]) == 0;
		if (hide)
			elf_file_hide(scn);
	}
}

static void find_alternate(struct symbol_module *m, struct elf_bytes link, const char *dw_path)
{
	if (!link.data)
		return;
	if (debug_file_find_alternate(&m->search, link, dw_path, &m->alternate)) {
		hide_sections(m->alternate.file.elf);
		m->alternate_dw = dwarf_begin_elf(m->alternate.file.elf, DWARF_C_READ, NULL);
	}
	if (m->alternate_dw)
		dwarf_setalt(m->dw, m->alternate_dw);
	else if (m->lacking) /* one reason is enough */
		return;
	else if (m->alternate.file.refused_bytes)
		m->lacking = symbol_refused_words(m->alternate.path,
						  m->alternate.file.refused_bytes);
	else if (asprintf(&m->lacking, "%s is missing", m->alternate.path) < 0)
		m->lacking = NULL;
}

static int find_dwarf(struct symbol_module *m)
{
	if (m->dwarf_tried || m->names_only)
		return 0;
	m->dwarf_tried = true;
	Elf *with_dwarf = m->elf;
	uint64_t refused = m->file.refused_bytes;
	const char *dw_path = m->path;
	if (!has_dwarf(m->elf)) {
		if (!m->search_done)
			debug_file_find(&m->search, m->elf, &m->debug);
		m->search_done = true;
		with_dwarf = m->debug.file.elf;
		if (with_dwarf) {
			refused = m->debug.file.refused_bytes;
			dw_path = m->debug.path;
		}
	}
	if (refused)
		m->lacking = symbol_refused_words(dw_path, refused);
	if (!with_dwarf || !has_dwarf(with_dwarf))
		return 0;
	struct elf_bytes link = elf_section_bytes(with_dwarf, ".gnu_debugaltlink");
	hide_sections(with_dwarf);
	m->dw = dwarf_begin_elf(with_dwarf, DWARF_C_READ, NULL);
	if (!m->dw)
		return 0;
	find_alternate(m, link, dw_path);
	m->dwarf = dwarf_source_new(&(struct dwarf_source_from){
		.dw = m->dw,
		.dw_path = dw_path,
		.module_path = m->path,
		.options = m->search.session->options,
		.names = &m->names,
		.evidence = &m->evidence,
	});
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

/* A stripped Go program still has the tables of its runtime. */
static int from_go_tables(struct symbol_module *m, struct symbol_query *queries, size_t count)
{
	const struct go_functions g = m->elf ? go_functions_open(m->elf) : (struct go_functions){0};
	int rc = 0;
	for (size_t i = 0; g.data && i < count && rc == 0; i++) {
		struct symbol_query *q = &queries[i];
		struct go_place place;
		if (!needs_symbol(q) || !go_functions_find(&g, q->address, &place))
			continue;
		rc = name_query(m, q, place.function);
		if (rc || !place.file || q->frame_count != 1 || q->frames[0].file)
			continue;
		struct symbol_frame *frame = name_pool_alloc(m->pool, sizeof *frame);
		const char *file = name_pool_add(m->pool, place.file);
		if (!frame || !file)
			return HEFT_ENOMEM;
		*frame = q->frames[0];
		frame->file = file;
		frame->line = place.line;
		q->frames = frame;
	}
	return rc;
}

static int from_symbol_tables(struct symbol_module *m, struct symbol_query *queries, size_t count)
{
	if (m->elf && !m->mini && !m->debug.file.elf && !m->names_only)
		m->mini = mini_debug_open(m->elf, &m->mini_memory);
	struct {
		Elf *elf;
		uint32_t type;
	} tables[] = {
		{m->elf, SHT_SYMTAB},
		{m->debug.file.elf, SHT_SYMTAB},
		{m->mini, SHT_SYMTAB},
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
	for (size_t i = 0; i < count; i++) {
		queries[i].frames = NULL;
		queries[i].frame_count = 0;
		queries[i].bare = false;
		queries[i].function_start = queries[i].function_bytes = 0;
	}
	if (rc == 0 && m->dwarf && !m->names_only)
		rc = dwarf_source_lookup(m->dwarf, queries, count);
	for (size_t i = 0; i < count; i++)
		unnamed += needs_symbol(&queries[i]);
	if (rc == 0 && unnamed)
		rc = from_go_tables(m, queries, count);
	if (rc == 0 && unnamed)
		rc = from_symbol_tables(m, queries, count);
	unnamed = 0;
	for (size_t i = 0; i < count; i++)
		unnamed += !queries[i].frame_count ||
			   !queries[i].frames[queries[i].frame_count - 1].function;
	if (rc == 0 && unnamed && m->elf)
		function_starts_lookup(m->elf, queries, count);
	return rc;
}

enum symbol_debug symbol_module_debug(const struct symbol_module *m, const char **lacking)
{
	*lacking = NULL;
	if (!m->dwarf_tried)
		return SYMBOL_DEBUG_NOT_ASKED;
	*lacking = m->lacking;
	if (!*lacking && m->dwarf)
		*lacking = dwarf_source_lacking(m->dwarf);
	if (*lacking)
		return SYMBOL_DEBUG_PARTIAL;
	return m->dwarf ? SYMBOL_DEBUG_WHOLE : SYMBOL_DEBUG_NONE;
}

bool symbol_module_changed(const struct symbol_module *m)
{
	return elf_file_changed(&m->file) || elf_file_changed(&m->debug.file) ||
	       elf_file_changed(&m->alternate.file);
}

struct symbol_origin symbol_module_origin(const struct symbol_module *m)
{
	return m->origin;
}

const struct symbol_evidence *symbol_module_evidence(const struct symbol_module *m)
{
	return &m->evidence;
}
