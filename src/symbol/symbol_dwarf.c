/* Finds function, file, line and inlined calls in DWARF, by libdw.
 *
 * libdw's dwarf_getscopes walks a whole compilation unit for every address,
 * which is slow on large C++ units. Here a unit that is asked for gets an index
 * of its functions once (one walk over its top level and namespaces; a second,
 * through everything, if an address is in none of them: lambdas are inside other
 * functions), and only the function that holds the address is walked for inlined
 * calls.
 *
 * Lines come from line_table.c, for all addresses of a unit in one pass; libdw is
 * asked only where that reader gives up.
 *
 * Units are found by .debug_aranges. Compilers that do not write it (clang,
 * rustc) and code without debug information need all units' own ranges: they
 * are read once, at the first address that .debug_aranges does not know.
 *
 * Invariants: everything libdw returns may be missing or wrong; a failure means
 * fewer frames, never an error. Depth and number of inlined frames are bounded. */
#include "symbol/symbol_sources.h"

#include "hosted/error.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "symbol/die_ranges.h"
#include "symbol/elf_section.h"
#include "symbol/line_table.h"
#include "symbol/split_package.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANG_CXX_17 = 0x2a, LANG_CXX_20 = 0x2b }; /* newer than elfutils' dwarf.h */
enum { MOST_INLINED = 128, LONGEST_PATH = 4096 };

struct unit {
	Dwarf_Off offset; /* of its die: the key */
	Dwarf_Die die;    /* for lines */
	Dwarf_Die split;  /* where its functions are: the same, or the one in the .dwo file */
	struct die_ranges functions;
	bool is_cxx, deep;
	/* This unit's part of the current lookup */
	size_t asked, filled;
	struct line_answer *answers;
	struct line_table lines;
	bool has_lines;     /* else libdw is asked */
	const char **paths; /* of lines.files, in the pool; NULL: not yet */
	const char *folder;
};

struct dwarf_source {
	Dwarf *dw;
	struct name_cache *names;
	struct symbol_evidence *evidence;
	const char *dw_path, *module_path;
	const struct symbol_options *options;
	struct line_sections sections;
	uint64_t line_bytes; /* of .debug_line that were read */
	char *lacking;       /* which .dwo file is not there, or not used */
	struct split_package *package;
	struct split_units split_units;
	bool package_tried;
	Dwarf_Aranges *aranges;
	size_t arange_count;
	bool all_units_read;
	struct die_ranges unit_ranges;
	VECTOR(struct unit *) units;
	struct hash_index unit_index; /* of the units, by offset */
	struct unit *last;
	/* Paths repeat for every line: the last few are kept, by libdw's pointer. */
	struct {
		const char *raw, *path;
	} paths[64];
};

static int index_functions(struct unit *u, bool deep)
{
	u->deep = deep;
	return die_ranges_of_functions(&u->functions, &u->split, deep);
}

static int read_all_units(struct dwarf_source *s)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	s->all_units_read = true;
	while (dwarf_get_units(s->dw, cu, &cu, NULL, NULL, &die, NULL) == 0)
		if (die_ranges_add(&s->unit_ranges, &die) < 0)
			return HEFT_ENOMEM;
	die_ranges_sort(&s->unit_ranges);
	return 0;
}

static const char *string_of(Dwarf_Die *die, unsigned name, unsigned old_name)
{
	Dwarf_Attribute attr;
	if (!dwarf_attr(die, name, &attr) && !(old_name && dwarf_attr(die, old_name, &attr)))
		return NULL;
	return dwarf_formstring(&attr);
}

static bool from_package(struct dwarf_source *s, Dwarf_Die *skeleton, uint64_t id, Dwarf_Die *split)
{
	if (!s->package_tried) {
		s->package_tried = true;
		s->package = split_package_open(s->dw_path, s->evidence);
		if (!s->package && strcmp(s->dw_path, s->module_path) != 0)
			s->package = split_package_open(s->module_path, s->evidence);
	}
	return s->package && split_package_unit(s->package, &s->split_units, skeleton, id, split);
}

/* Takes the unit from its .dwo file: where the compiler put it, or beside the file that names it. If it is not
 * there, answers will be better when it comes. */
static bool from_file(struct dwarf_source *s, Dwarf_Die *skeleton, uint64_t id, Dwarf_Die *split)
{
	char paths[2][LONGEST_PATH];
	const char *file = string_of(skeleton, DW_AT_dwo_name, DW_AT_GNU_dwo_name);
	const char *folder = string_of(skeleton, DW_AT_comp_dir, 0);
	const char *slash = strrchr(s->dw_path, '/');
	uint64_t refused = 0;
	if (!file)
		return false;
	bool whole = file[0] == '/';
	int n[2] = {
		snprintf(paths[0], LONGEST_PATH, "%s%s%s", whole || !folder ? "" : folder,
			 whole ? "" : "/", file),
		snprintf(paths[1], LONGEST_PATH, "%.*s/%s", slash ? (int)(slash - s->dw_path) : 0,
			 s->dw_path, file),
	};
	for (int i = 0; i < (whole ? 1 : 2); i++) {
		if (n[i] < 0 || n[i] >= LONGEST_PATH)
			continue;
		symbol_evidence_look(s->evidence, paths[i]);
		bool found = split_file_unit(paths[i], &s->split_units, skeleton, id, split,
					     &refused);
		if (refused && !s->lacking)
			s->lacking = symbol_refused_words(paths[i], refused);
		if (found)
			return true;
	}
	if (!s->lacking && n[0] > 0 && n[0] < LONGEST_PATH &&
	    asprintf(&s->lacking, "%s is missing", paths[0]) < 0)
		s->lacking = NULL;
	return false;
}

/* A unit that cannot be read is remembered too, with an empty die, and gives NULL. */
static int open_unit(struct dwarf_source *s, Dwarf_Off offset, struct unit **out)
{
	*out = NULL;
	if (s->last && s->last->offset == offset) {
		*out = s->last;
		return 0;
	}
	uint32_t hash = hash_number(offset), i;
	for (uint32_t at = hash; (i = hash_index_step(&s->unit_index, hash, &at)) != HASH_NONE;) {
		struct unit *known = s->units.items[i];
		if (known->offset != offset)
			continue;
		if (known->die.addr)
			*out = s->last = known;
		return 0;
	}
	struct unit *u = calloc(1, sizeof *u);
	if (!u || hash_index_reserve(&s->unit_index, 1) < 0 || !vector_push(&s->units, u)) {
		free(u);
		return HEFT_ENOMEM;
	}
	u->offset = offset;
	hash_index_add(&s->unit_index, hash, (uint32_t)s->units.count - 1);
	if (!dwarf_offdie(s->dw, offset, &u->die)) {
		memset(&u->die, 0, sizeof u->die);
		return 0;
	}
	u->split = u->die;
	switch (dwarf_srclang(&u->die)) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case LANG_CXX_17:
	case LANG_CXX_20: u->is_cxx = true; break;
	default: break;
	}
	uint8_t type = 0;
	Dwarf_Die split;
	memset(&split, 0, sizeof split);
	uint64_t id = 0;
	if (dwarf_cu_info(u->die.cu, NULL, &type, NULL, NULL, &id, NULL, NULL) == 0 &&
	    type == DW_UT_skeleton) {
		if (from_package(s, &u->die, id, &split) || from_file(s, &u->die, id, &split))
			u->split = split;
	}
	if (index_functions(u, false) < 0)
		return HEFT_ENOMEM;
	*out = s->last = u;
	return 0;
}

static int find_unit(struct dwarf_source *s, uint64_t address, struct unit **out)
{
	Dwarf_Off offset;
	*out = NULL;
	Dwarf_Arange *arange = s->aranges ? dwarf_getarange_addr(s->aranges, address) : NULL;
	if (arange && dwarf_getarangeinfo(arange, NULL, NULL, &offset) == 0)
		return open_unit(s, offset, out);
	if (!s->all_units_read && read_all_units(s) < 0)
		return HEFT_ENOMEM;
	const struct die_range *r = die_ranges_find(&s->unit_ranges, address);
	return r ? open_unit(s, r->die, out) : 0;
}

/* Gives a file one spelling: "/a/b/../c/./d.c" becomes "/a/c/d.c". */
static const char *clean_path(struct dwarf_source *s, const char *raw)
{
	char clean[LONGEST_PATH];
	size_t used = 0;
	size_t root = raw[0] == '/';
	bool fits = strlen(raw) < sizeof clean;
	for (const char *at = raw; fits && *at;) {
		size_t length = strcspn(at, "/");
		size_t back = used;
		while (back > root && clean[back - 1] != '/')
			back--;
		bool up = length == 2 && at[0] == '.' && at[1] == '.';
		bool can_go_up = used > root && !(used - back == 2 && clean[back] == '.' &&
						  clean[back + 1] == '.');
		if (length == 0 || (length == 1 && at[0] == '.')) {
			if (at == raw && root)
				clean[used++] = '/';
		} else if (up && (can_go_up || root)) {
			used = back > root ? back - 1 : root;
		} else {
			if (used > root)
				clean[used++] = '/';
			memcpy(clean + used, at, length);
			used += length;
		}
		at += length;
		at += *at == '/';
	}
	return fits ? name_pool_add_n(s->names->pool, clean, used)
		    : name_pool_add(s->names->pool, raw);
}

/* The same for strings of libdw, which returns the same pointer for every line of a file. */
static const char *known_path(struct dwarf_source *s, const char *raw)
{
	size_t slot = ((uintptr_t)raw >> 3) % (sizeof s->paths / sizeof *s->paths);
	if (s->paths[slot].raw != raw) {
		s->paths[slot].path = clean_path(s, raw);
		s->paths[slot].raw = raw;
	}
	return s->paths[slot].path;
}

/* *bare: the function has no linkage name; only its own C++ file sees it. */
static const char *function_name(struct dwarf_source *s, Dwarf_Die *die, bool *bare)
{
	Dwarf_Attribute attr;
	const char *name = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attr) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr))
		name = dwarf_formstring(&attr);
	*bare = !name;
	if (!name && dwarf_attr_integrate(die, DW_AT_name, &attr))
		name = dwarf_formstring(&attr);
	return name && *name ? name_cache_get(s->names, name) : NULL;
}

/* The chain of inlined calls around the address, outermost first. */
static size_t inlined_calls(Dwarf_Die *function, uint64_t address, Dwarf_Die *chain)
{
	Dwarf_Die die = *function, child;
	size_t count = 0;
	for (int depth = 0; depth < 4 * MOST_INLINED && count < MOST_INLINED; depth++) {
		bool found = false;
		if (dwarf_child(&die, &child) != 0)
			break;
		do {
			int tag = dwarf_tag(&child);
			bool scope = tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
				     tag == DW_TAG_catch_block;
			if (!scope && tag != DW_TAG_inlined_subroutine)
				continue;
			if (dwarf_haspc(&child, address) <= 0)
				continue;
			if (!scope)
				chain[count++] = child;
			die = child;
			found = true;
			break;
		} while (dwarf_siblingof(&child, &child) == 0);
		if (!found)
			break;
	}
	return count;
}

static uint32_t number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attr;
	Dwarf_Word value = 0;
	if (!dwarf_attr(die, name, &attr) || dwarf_formudata(&attr, &value) != 0 ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

static const char *file_of_table(struct dwarf_source *s, struct unit *u, uint32_t file)
{
	char path[LONGEST_PATH];
	if (file >= u->lines.file_count)
		return NULL;
	if (!u->paths[file] && line_table_path(&u->lines, file, u->folder, path, sizeof path))
		u->paths[file] = clean_path(s, path);
	return u->paths[file];
}

static void call_place(struct dwarf_source *s, struct unit *u, Dwarf_Die *inlined,
		       struct symbol_frame *frame)
{
	Dwarf_Files *files;
	size_t count;
	uint32_t file = number(inlined, DW_AT_call_file);
	frame->line = number(inlined, DW_AT_call_line);
	bool own_table = u->split.cu == u->die.cu;
	if (own_table && u->has_lines) {
		frame->file = file_of_table(s, u, file);
		return;
	}
	/* A version 4 unit from a package has no table of its own, but the skeleton's is the same. */
	if ((dwarf_getsrcfiles(&u->split, &files, &count) != 0 &&
	     dwarf_getsrcfiles(&u->die, &files, &count) != 0) ||
	    file >= count)
		return;
	const char *raw = dwarf_filesrc(files, file, NULL, NULL);
	if (raw)
		frame->file = known_path(s, raw);
}

static void instruction_place(struct dwarf_source *s, struct unit *u,
			      const struct line_answer *answer, struct symbol_frame *frame)
{
	if (u->has_lines) {
		if (answer->found) {
			frame->file = file_of_table(s, u, answer->file);
			frame->line = answer->line;
		}
		return;
	}
	Dwarf_Line *line = dwarf_getsrc_die(&u->die, answer->address);
	int number_of_line = 0;
	const char *raw = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
	if (raw)
		frame->file = known_path(s, raw);
	if (line && dwarf_lineno(line, &number_of_line) == 0 && number_of_line > 0)
		frame->line = (uint32_t)number_of_line;
}

static int look_up_one(struct dwarf_source *s, struct unit *u, const struct line_answer *answer,
		       struct symbol_query *query)
{
	Dwarf_Die chain[MOST_INLINED], function;
	size_t inlined = 0;
	bool has_function = false;
	const struct die_range *r = die_ranges_find(&u->functions, query->address);
	if (!r && !u->deep && u->functions.count) {
		if (index_functions(u, true) < 0)
			return HEFT_ENOMEM;
		r = die_ranges_find(&u->functions, query->address);
	}
	if (r) {
		Dwarf *dw = dwarf_cu_getdwarf(u->split.cu);
		if (dw && dwarf_offdie(dw, r->die, &function)) {
			has_function = true;
			inlined = inlined_calls(&function, query->address, chain);
		}
	}

	struct symbol_frame *frames = name_pool_alloc(s->names->pool,
						      (inlined + 1) * sizeof *frames);
	if (!frames)
		return HEFT_ENOMEM;
	/* Each frame's name is its own die's; its place is where the next inner one is called,
	 * and the innermost one's place is the line of the instruction. */
	for (size_t i = 0; i <= inlined; i++) {
		struct symbol_frame *f = &frames[inlined - i];
		Dwarf_Die *die = i ? &chain[i - 1] : &function;
		bool bare = false;
		if (has_function)
			f->function = function_name(s, die, &bare);
		if (i == 0)
			query->bare = bare && u->is_cxx;
		f->inlined = i > 0;
		if (i < inlined)
			call_place(s, u, &chain[i], f);
	}
	instruction_place(s, u, answer, &frames[0]);
	if (!has_function && !frames[0].file)
		return 0;
	query->frames = frames;
	query->frame_count = (uint32_t)inlined + 1;
	return 0;
}

static int read_lines(struct dwarf_source *s, struct unit *u)
{
	Dwarf_Attribute attr;
	Dwarf_Word offset;
	line_table_fini(&u->lines);
	free(u->paths);
	u->paths = NULL;
	u->has_lines = false;
	if (!dwarf_attr(&u->die, DW_AT_stmt_list, &attr) || dwarf_formudata(&attr, &offset) != 0)
		return 0;
	u->folder = string_of(&u->die, DW_AT_comp_dir, 0);
	/* Each unit has its own table. Where a thousand units name one, libdw reads it once. */
	if (s->line_bytes <= 2 * s->sections.line_size)
		u->has_lines = line_table_read(&u->lines, &s->sections, offset, u->answers,
					       u->filled);
	s->line_bytes += u->lines.bytes;
	u->paths = calloc((size_t)u->lines.file_count + 1, sizeof *u->paths);
	return u->paths ? 0 : HEFT_ENOMEM;
}

static void show_progress(const struct dwarf_source *s, size_t done, size_t total)
{
	if (s->options->progress && done % 64 == 0)
		s->options->progress(s->options->progress_ctx, s->module_path, done, total);
}

/* Works in three passes: finds the unit of each address, reads the lines of each unit at once, then looks up the
 * rest. */
int dwarf_source_lookup(struct dwarf_source *s, struct symbol_query *queries, size_t count)
{
	struct unit **units = calloc(count + 1, sizeof *units);
	struct line_answer *answers = calloc(count + 1, sizeof *answers);
	int rc = units && answers ? 0 : HEFT_ENOMEM;
	for (size_t i = 0; i < s->units.count; i++)
		s->units.items[i]->asked = s->units.items[i]->filled = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = find_unit(s, queries[i].address, &units[i]);
		if (rc == 0 && units[i])
			units[i]->asked++;
		show_progress(s, i, 2 * count);
	}
	size_t given = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct unit *u = units[i];
		if (!u)
			continue;
		if (!u->filled) {
			u->answers = answers + given;
			given += u->asked;
		}
		u->answers[u->filled++].address = queries[i].address;
		if (u->filled == u->asked)
			rc = read_lines(s, u);
	}
	/* The answers of a unit are in the order of the queries. */
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct unit *u = units[i];
		if (u)
			rc = look_up_one(s, u, &u->answers[u->asked - u->filled--], &queries[i]);
		show_progress(s, count + i, 2 * count);
	}
	free(units);
	free(answers);
	return rc;
}

const char *dwarf_source_lacking(const struct dwarf_source *s)
{
	return s->lacking;
}

struct dwarf_source *dwarf_source_new(const struct dwarf_source_from *from)
{
	struct dwarf_source *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->dw = from->dw;
	s->dw_path = from->dw_path;
	s->module_path = from->module_path;
	s->options = from->options;
	s->names = from->names;
	s->evidence = from->evidence;
	if (dwarf_getaranges(s->dw, &s->aranges, &s->arange_count) != 0)
		s->aranges = NULL;
	Elf *elf = dwarf_getelf(s->dw);
	struct elf_bytes line = elf_section_bytes(elf, ".debug_line");
	struct elf_bytes line_str = elf_section_bytes(elf, ".debug_line_str");
	struct elf_bytes str = elf_section_bytes(elf, ".debug_str");
	s->sections = (struct line_sections){
		.line = line.data,
		.line_size = line.size,
		.line_str = line_str.data,
		.line_str_size = line_str.size,
		.str = str.data,
		.str_size = str.size,
	};
	return s;
}

void dwarf_source_free(struct dwarf_source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->units.count; i++) {
		struct unit *u = s->units.items[i];
		vector_free(&u->functions);
		line_table_fini(&u->lines);
		free(u->paths);
		free(u);
	}
	vector_free(&s->units);
	hash_index_fini(&s->unit_index);
	vector_free(&s->unit_ranges);
	split_package_close(s->package);
	split_units_fini(&s->split_units);
	free(s->lacking);
	free(s);
}
