/* Every function of real libraries is planned, as if it were to be hooked. What was moved must read the same at its
 * new place: the disassembler, which prints addresses, is the judge. The allocation functions of libc must all be
 * movable. HEFT_TEST_LIBRARIES names more files to go through, with colons between them. */
#include "attach/relocate.h"
#include "hosted/error.h"
#include "hosted/vector.h"
#include "unit_test.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct function {
	uint64_t at, bytes, room;
	const char *name;
};

struct library {
	const char *path;
	int fd;
	Elf *elf;
	GElf_Phdr code;
	const uint8_t *text; /* of the segment `code` */
	VECTOR(struct function) functions;
	unsigned moved, refused;
};

static int by_address(const void *a, const void *b)
{
	const struct function *x = a, *y = b;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void read_functions(struct library *l, unsigned type)
{
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(l->elf, scn));) {
		GElf_Shdr shdr;
		GElf_Sym sym;
		gelf_getshdr(scn, &shdr);
		if (shdr.sh_type != type)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &sym); i++)
			if (GELF_ST_TYPE(sym.st_info) == STT_FUNC && sym.st_shndx != SHN_UNDEF &&
			    sym.st_value - l->code.p_vaddr < l->code.p_filesz)
				vector_push(
					&l->functions,
					(struct function){.at = sym.st_value,
							  .bytes = sym.st_size,
							  .name = elf_strptr(l->elf, shdr.sh_link,
									     sym.st_name)});
	}
}

static bool open_library(struct library *l, const char *path)
{
	size_t headers, size;
	memset(l, 0, sizeof *l);
	l->path = path;
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (l->fd < 0)
		return false;
	elf_version(EV_CURRENT);
	l->elf = elf_begin(l->fd, ELF_C_READ_MMAP, NULL);
	assert_int_equal(elf_getphdrnum(l->elf, &headers), 0);
	for (size_t i = 0; i < headers; i++) {
		gelf_getphdr(l->elf, (int)i, &l->code);
		if (l->code.p_type == PT_LOAD && (l->code.p_flags & PF_X))
			break;
	}
	l->text = (const uint8_t *)elf_rawfile(l->elf, &size) + l->code.p_offset;
	assert_true(l->code.p_offset + l->code.p_filesz <= size);
	read_functions(l, SHT_DYNSYM);
	read_functions(l, SHT_SYMTAB);
	qsort(l->functions.items, l->functions.count, sizeof *l->functions.items, by_address);
	uint64_t next = l->code.p_vaddr + l->code.p_filesz;
	for (size_t i = l->functions.count; i-- > 0;) {
		struct function *f = &l->functions.items[i];
		if (i + 1 < l->functions.count && f[1].at != f->at)
			next = f[1].at;
		f->room = next - f->at;
		if (f->room < f->bytes)
			f->room = f->bytes;
	}
	return true;
}

static void close_library(struct library *l)
{
	vector_free(&l->functions);
	elf_end(l->elf);
	close(l->fd);
}

static const uint8_t *code_of(const struct library *l, const struct function *f)
{
	return l->text + (f->at - l->code.p_vaddr);
}

/* The copy of a call pushes where the original returns to, and jumps to the same place. */
static void compare_call(const struct function *f, const struct relocated *r, const uint8_t *old,
			 unsigned step, uint64_t copy_at)
{
	const uint8_t *copy = r->copy + r->to[step];
	const size_t head = old[0] == 0xe8 ? 1 : 2;
	const uint64_t next = f->at + r->from[step] + head + 4;
	uint64_t pushed;
	int32_t was, is;
	assert_int_equal(step, r->steps - 1);
	assert_int_equal(r->copy_bytes - r->to[step], 13 + head + 4);
	assert_int_equal(copy[0], 0x68);
	assert_memory_equal(copy + 5, "\xc7\x44\x24\x04", 4);
	memcpy(&pushed, copy + 1, 4);
	memcpy((uint8_t *)&pushed + 4, copy + 9, 4);
	assert_int_equal(pushed, next);
	assert_memory_equal(copy + 13, head == 1 ? "\xe9" : "\xff\x25", head);
	memcpy(&was, old + head, 4);
	memcpy(&is, copy + 13 + head, 4);
	assert_int_equal(next + (uint64_t)(int64_t)was,
			 copy_at + r->copy_bytes + (uint64_t)(int64_t)is);
}

/* The two read the same: addresses are written out, short and long branches alike. */
static void compare_texts(const struct function *f, const struct relocated *r, const uint8_t *code,
			  uint64_t copy_at)
{
	for (unsigned i = 0; i < r->steps; i++) {
		ZydisDisassembledInstruction was, is;
		const uint8_t *old = code + r->from[i];
		if (r->from[i] < r->displaced &&
		    (old[0] == 0xe8 || (old[0] == 0xff && old[1] == 0x15))) {
			compare_call(f, r, old, i, copy_at);
			continue;
		}
		assert_true(ZYAN_SUCCESS(ZydisDisassembleIntel(
			ZYDIS_MACHINE_MODE_LONG_64, copy_at + r->to[i], r->copy + r->to[i],
			(size_t)(r->copy_bytes - r->to[i]), &is)));
		size_t end = i + 1u < r->steps ? r->to[i + 1] : r->copy_bytes;
		assert_int_equal(r->to[i] + is.info.length, end);
		if (r->from[i] == r->displaced) { /* the jump back */
			assert_int_equal(jump_target(r->copy + r->to[i], copy_at + r->to[i]),
					 f->at + r->displaced);
			continue;
		}
		assert_true(r->from[i] < JUMP_BYTES);
		assert_int_equal(
			relocated_back(r, f->at, copy_at,
				       relocated_pc(r, f->at, copy_at, f->at + r->from[i])),
			f->at + r->from[i]);
		ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, f->at + r->from[i],
				      code + r->from[i], 15, &was);
		const char *before = strncmp(was.text, "bnd ", 4) == 0 ? was.text + 4 : was.text;
		/* A branch among displaced instructions leads to the copy of its target. */
		const char *space = strchr(before, ' ');
		uint64_t inner = space ? relocated_pc(r, f->at, copy_at, strtoull(space, NULL, 0))
				       : 0;
		if (strcmp(before, is.text) != 0 &&
		    (!inner || inner != strtoull(strchr(is.text, ' '), NULL, 0)))
			fail_msg("%s: \"%s\" became \"%s\"", f->name, before, is.text);
	}
}

/* Plans all functions, near pages lying below and above the module. */
static void plan_all(struct library *l)
{
	for (size_t i = 0; i < l->functions.count; i++) {
		const struct function *f = &l->functions.items[i];
		struct relocated r;
		struct heft_error err;
		if (i && f->at == f[-1].at)
			continue; /* another name */
		for (unsigned above = 0; above < 2; above++) {
			uint64_t copy_at = above ? f->at + 0x40000000 : f->at - 0x40000000;
			int rc = relocate(&r, code_of(l, f), f->room, f->at, copy_at, f->bytes,
					  &err);
			if (rc == 0)
				compare_texts(f, &r, code_of(l, f), copy_at);
			else
				assert_int_equal(rc, HEFT_EREFUSED);
			if (!above && rc == 0)
				l->moved++;
			else if (!above)
				l->refused++;
		}
	}
	print_message("%s: %u of %u functions can be moved\n", l->path, l->moved,
		      l->moved + l->refused);
	assert_true(l->moved > l->refused);
}

/* Functions that are there must be movable, and no branch of the module may lead into their first bytes. */
static unsigned require(const struct library *l, const char *const *names, size_t count)
{
	unsigned found = 0;
	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < l->functions.count; i++) {
			const struct function *f = &l->functions.items[i];
			struct relocated r;
			struct heft_error err;
			if (strcmp(f->name, names[k]) != 0)
				continue;
			if (relocate(&r, code_of(l, f), f->room, f->at, f->at + 0x1000000, f->bytes,
				     &err))
				fail_msg("%s: %s: %s", l->path, f->name, err.message);
			struct branch_range range = {f->at, f->at + r.displaced, 0};
			relocate_find_branches(l->text, l->code.p_filesz, l->code.p_vaddr, &range,
					       1);
			if (range.from)
				fail_msg("%s: 0x%llx leads into %s", l->path,
					 (unsigned long long)range.from, f->name);
			found++;
			break;
		}
	return found;
}

static const char *const of_libc[] = {
	"malloc",         "free",   "calloc",  "realloc",      "memalign", "aligned_alloc",
	"posix_memalign", "valloc", "pvalloc", "reallocarray", "dlclose",
};
enum { OF_LIBC = sizeof of_libc / sizeof *of_libc };

static void check_libc(const char *path)
{
	struct library l;
	assert_true(open_library(&l, path));
	plan_all(&l);
	assert_int_equal(require(&l, of_libc, OF_LIBC), OF_LIBC);
	close_library(&l);
}

/* The path of a library that the loader finds; "": there is none. */
static const char *find_library(const char *name)
{
	static char path[4096];
	struct link_map *map;
	path[0] = 0;
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	if (handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
		snprintf(path, sizeof path, "%s", map->l_name);
	return path; /* stays loaded: some allocators cannot be unloaded */
}

TEST(functions_of_libc)
{
	check_libc(find_library("libc.so.6"));
	/* Those of other systems, if somebody names them */
	const char *list = getenv("HEFT_TEST_LIBRARIES");
	char *copy = list ? strdup(list) : NULL, *rest = copy;
	for (char *path; (path = strsep(&rest, ":"));)
		check_libc(path);
	free(copy);
}

TEST(functions_of_libstdcxx)
{
	struct library l;
	const char *path = find_library("libstdc++.so.6");
	if (!*path)
		skip();
	assert_true(open_library(&l, path));
	plan_all(&l);
	static const char *const names[] = {"_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"};
	assert_int_equal(require(&l, names, 4), 4);
	close_library(&l);
}

TEST(functions_of_other_allocators)
{
	static const char *const names[] = {
		"malloc",        "free",           "calloc",    "realloc",    "memalign",
		"aligned_alloc", "posix_memalign", "mallocx",   "rallocx",    "sdallocx",
		"mi_malloc",     "mi_free",        "mi_calloc", "mi_realloc", "tc_malloc",
		"tc_free",       "_Znwm",          "_ZdlPv",
	};
	static const char *const files[] = {"libjemalloc.so.2", "libtcmalloc.so.4",
					    "libtcmalloc_minimal.so.4", "libmimalloc.so.2",
					    "libmimalloc.so.3"};
	unsigned libraries = 0;
	for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
		struct library l;
		char path[4096];
		/* Not loaded here: they would take this program's malloc over. */
		snprintf(path, sizeof path, "/usr/lib/x86_64-linux-gnu/%s", files[i]);
		if (!open_library(&l, path))
			continue;
		plan_all(&l);
		unsigned found = require(&l, names, sizeof names / sizeof *names);
		print_message("%s: %u functions that allocate\n", path, found);
		assert_true(found >= 6);
		close_library(&l);
		libraries++;
	}
	if (!libraries)
		skip();
}

UNIT_TESTS(NULL, NULL)
