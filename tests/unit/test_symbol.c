/* The symboliser against programs compiled here, with names and lines known by hand. Labels in the
 * programs ("mark_...") give the addresses to ask for; they are read from the unstripped file. */
#include "symbol/symbol_module.h"
#include "elf_fixture.h"
#include "shell_in.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char c_source[] = "#define MARK(name) __asm__ volatile(#name \": nop\")\n" /* 1 */
			       "/* inlined at line 11 */\n"
			       "__attribute__((always_inline)) static inline int inner(int x)\n"
			       "{\n"
			       "	MARK(mark_inner);\n" /* 5 */
			       "	return x + 1;\n"
			       "}\n"
			       "__attribute__((noinline, noclone)) int outer(int x)\n"
			       "{\n"
			       "	x *= 3;\n" /* 10 */
			       "	return inner(x);\n"
			       "}\n"
			       "__attribute__((noinline, noclone)) static int hidden(int x)\n"
			       "{\n"
			       "	MARK(mark_hidden);\n" /* 15 */
			       "	return x + 2;\n"
			       "}\n"
			       "int main(int argc, char **argv)\n"
			       "{\n"
			       "	(void)argv;\n"
			       "	return outer(argc) + hidden(argc) == 7;\n"
			       "}\n";

static const char cxx_source[] =
	"#define MARK(name) __asm__ volatile(#name \": nop\")\n" /* 1 */
	"namespace ns {\n"
	"struct S {\n"
	"	S(int x);\n"
	"	int f(int, const char *) const;\n" /* 5 */
	"	int v;\n"
	"};\n"
	"__attribute__((noinline)) S::S(int x) : v(x) { MARK(mark_ctor); }\n"
	"__attribute__((noinline)) int S::f(int x, const char *) const\n"
	"{\n" /* 10 */
	"	MARK(mark_method);\n"
	"	return v + x;\n"
	"}\n"
	"template <class T> __attribute__((noinline)) T twice(T x)\n"
	"{\n" /* 15 */
	"	MARK(mark_template);\n"
	"	return x + x;\n"
	"}\n"
	"}\n"
	"namespace { __attribute__((noinline, noclone)) int own(int x)\n" /* 20 */
	"{\n"
	"	MARK(mark_own);\n"
	"	return x - 1;\n"
	"} }\n"
	"int main(int argc, char **argv)\n" /* 25 */
	"{\n"
	"	ns::S s(argc);\n"
	"	return s.f(argc, argv[0]) + ns::twice<long>(argc) + own(argc) == 9;\n"
	"}\n";

static void write_file(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int make_programs(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heft-symbol-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	write_file("a.c", c_source);
	write_file("b.cc", cxx_source);
	shell_in(folder,
		 "cc -O1 -g -fno-omit-frame-pointer -rdynamic -Wl,--build-id=sha1 -o c a.c");
	shell_in(folder, "c++ -O1 -g -rdynamic -Wl,--build-id=sha1 -o cxx b.cc");
	shell_in(folder, "strip -g -o c.symtab c");
	shell_in(folder, "strip -o c.stripped c");
	shell_in(folder, "strip -o cxx.stripped cxx");
	shell_in(folder, "objcopy --only-keep-debug c c.debug");
	shell_in(folder, "cp c.stripped c.linked && objcopy --add-gnu-debuglink=c.debug c.linked");
	shell_in(folder, "cc -O1 -g -rdynamic -Wl,--build-id=none -o n a.c");
	shell_in(folder,
		 "objcopy --only-keep-debug n n.debug && cp n n.linked && strip n.linked && "
		 "objcopy --add-gnu-debuglink=n.debug n.linked");
	shell_in(folder, "cp n.linked n.wrong && cp n.debug other.debug && "
			 "objcopy --add-section .x=a.c other.debug && mkdir w && mv n.wrong w/ && "
			 "mv other.debug w/n.debug");
	return 0;
}

static int remove_programs(void **state)
{
	(void)state;
	shell_in(folder, "rm -rf %s", folder);
	return 0;
}

/* The value of a symbol in .symtab of an unstripped program. */
static uint64_t address_of(const char *program, const char *symbol)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", folder, program);
	int fd = open(path, O_RDONLY);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	assert_non_null(elf);
	uint64_t value = elf_symbol_value(elf, symbol);
	elf_end(elf);
	close(fd);
	assert_int_not_equal(value, 0);
	return value;
}

static size_t build_id_of(const char *program, uint8_t *id)
{
	char path[128];
	const void *bytes;
	snprintf(path, sizeof path, "%s/%s", folder, program);
	int fd = open(path, O_RDONLY);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
	if (length > 0)
		memcpy(id, bytes, (size_t)length);
	elf_end(elf);
	close(fd);
	return length > 0 ? (size_t)length : 0;
}

static struct name_pool *pool;
static const struct symbol_options options = {.debug_roots = "/nonexistent"};
static struct symbol_search search = {.options = &options};

static struct symbol_module *open_module(const char *path, const uint8_t *id, size_t length,
					 enum symbol_state *state)
{
	struct symbol_module *m;
	const struct symbol_module_id module = {path, id, length};
	assert_int_equal(symbol_module_open(&m, state, pool, &search, &module), 0);
	return m;
}
static struct symbol_query one;

/* Asks one program for one address; the answer is in `one`. */
static enum symbol_state ask(const char *program, uint64_t address)
{
	char path[128];
	uint8_t id[64];
	enum symbol_state state;
	struct symbol_module *m;
	size_t length = build_id_of(program, id);
	snprintf(path, sizeof path, "%s/%s", folder, program);
	if (!pool)
		pool = name_pool_new();
	memset(&one, 0, sizeof one);
	one.address = address;
	m = open_module(path, id, length, &state);
	if (m)
		assert_int_equal(symbol_module_lookup(m, &one, 1), 0);
	symbol_module_close(m);
	return state;
}

static void expect_frame(uint32_t i, const char *function, const char *file, uint32_t line,
			 bool inlined)
{
	char path[128];
	assert_true(i < one.frame_count);
	assert_string_equal(one.frames[i].function, function);
	if (file) {
		snprintf(path, sizeof path, "%s/%s", folder, file);
		assert_non_null(one.frames[i].file);
		assert_string_equal(one.frames[i].file, path);
	} else {
		assert_null(one.frames[i].file);
	}
	assert_int_equal(one.frames[i].line, line);
	assert_int_equal(one.frames[i].inlined, inlined);
}

TEST(test_c_with_inlined_call)
{
	assert_int_equal(ask("c", address_of("c", "mark_inner")), SYMBOL_USABLE);
	assert_int_equal(one.frame_count, 2);
	expect_frame(0, "inner", "a.c", 5, true);
	expect_frame(1, "outer", "a.c", 11, false);
	ask("c", address_of("c", "mark_hidden"));
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "hidden", "a.c", 15, false);
}

TEST(test_cxx_names)
{
	ask("cxx", address_of("cxx", "mark_method"));
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "ns::S::f(int, char const*) const", "b.cc", 11, false);
	ask("cxx", address_of("cxx", "mark_ctor"));
	expect_frame(one.frame_count - 1, "ns::S::S(int)", "b.cc", 8, false);
	ask("cxx", address_of("cxx", "mark_template"));
	expect_frame(0, "ns::twice<long>(long)", "b.cc", 16, false);
	/* Seen by its own file only: DWARF has just "own", the symbol has the rest. */
	ask("cxx", address_of("cxx", "mark_own"));
	expect_frame(0, "(anonymous namespace)::own(int)", "b.cc", 22, false);
}

TEST(test_symbol_table_only)
{
	/* The label inside the function is a symbol too, but the function is meant. */
	ask("c.symtab", address_of("c", "mark_hidden") + 1);
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "hidden", NULL, 0, false);
	ask("c.symtab", address_of("c", "mark_inner"));
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "outer", NULL, 0, false);
}

/* As glibc's debug files have them: the first of two local names counts. */
TEST(test_internal_alias)
{
	shell_in(folder, "printf '.text\\n.type __GI___taker, @function\\n__GI___taker:\\n.type "
			 "__taker, @function\\n"
			 "__taker:\\nmark_taker: nop\\nret\\n.size __taker, . - __taker\\n.size "
			 "__GI___taker, . - "
			 "__GI___taker\\n' > g.s && cc -shared -nostdlib -o g g.s");
	ask("g", address_of("g", "mark_taker") + 1);
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "__taker", NULL, 0, false);
}

TEST(test_stripped_has_exported_names_only)
{
	ask("c.stripped", address_of("c", "mark_inner"));
	assert_int_equal(one.frame_count, 1);
	expect_frame(0, "outer", NULL, 0, false);
	/* Not exported, and beyond the size of its neighbours: nothing is better than a guess. */
	ask("c.stripped", address_of("c", "mark_hidden"));
	assert_int_equal(one.frame_count, 0);
	/* But its unwind entry tells where it begins: two places of it are one function's. */
	assert_int_equal(one.function_start, address_of("c", "hidden"));
	ask("c.stripped", address_of("c", "mark_hidden") + 1);
	assert_int_equal(one.function_start, address_of("c", "hidden"));
	ask("c.stripped", address_of("c", "mark_inner"));
	assert_int_equal(one.function_start, 0); /* it has a name */
	ask("cxx.stripped", address_of("cxx", "mark_method"));
	expect_frame(0, "ns::S::f(int, char const*) const", NULL, 0, false);
}

TEST(test_separate_debug_file)
{
	ask("c.linked", address_of("c", "mark_inner"));
	assert_int_equal(one.frame_count, 2);
	expect_frame(0, "inner", "a.c", 5, true);
	expect_frame(1, "outer", "a.c", 11, false);
	/* Without a build id the checksum decides. */
	ask("n.linked", address_of("n", "mark_hidden"));
	expect_frame(0, "hidden", "a.c", 15, false);
	ask("w/n.wrong", address_of("n", "mark_hidden"));
	assert_int_equal(one.frame_count, 0);
}

TEST(test_names_only_opens_no_debug_information)
{
	char path[128];
	uint8_t id[64];
	enum symbol_state s;
	struct symbol_module *m;
	struct symbol_query q = {.address = address_of("c", "mark_inner")};
	size_t length = build_id_of("c", id);
	snprintf(path, sizeof path, "%s/c", folder);
	m = open_module(path, id, length, &s);
	symbol_module_set_names_only(m, true);
	assert_int_equal(symbol_module_lookup(m, &q, 1), 0);
	symbol_module_close(m);
	assert_int_equal(q.frame_count, 1);
	assert_string_equal(q.frames[0].function, "outer");
	assert_int_equal(q.frames[0].line, 0);
}

TEST(test_batch)
{
	char path[128];
	uint8_t id[64];
	enum symbol_state s;
	struct symbol_module *m;
	size_t length = build_id_of("c", id);
	uint64_t a = address_of("c", "mark_inner"), b = address_of("c", "mark_hidden");
	bool swapped = a > b;
	struct symbol_query q[4] = {
		{.address = 1},
		{.address = swapped ? b : a},
		{.address = swapped ? a : b},
		{.address = UINT64_MAX},
	};
	snprintf(path, sizeof path, "%s/c", folder);
	m = open_module(path, id, length, &s);
	assert_int_equal(symbol_module_lookup(m, q, 4), 0);
	symbol_module_close(m);
	assert_int_equal(q[0].frame_count, 0);
	assert_int_equal(q[1 + swapped].frame_count, 2);
	assert_string_equal(q[1 + swapped].frames[1].function, "outer");
	assert_string_equal(q[2 - swapped].frames[0].function, "hidden");
	assert_int_equal(q[3].frame_count, 0);
}

static void expect_state(const char *path, const uint8_t *id, size_t length,
			 enum symbol_state expected)
{
	enum symbol_state s;
	struct symbol_module *m;
	m = open_module(path, id, length, &s);
	assert_int_equal(s, expected);
	assert_true((m != NULL) == (expected == SYMBOL_USABLE));
	symbol_module_close(m);
}

TEST(test_files_that_cannot_be_used)
{
	char path[128];
	uint8_t id[64];
	size_t length = build_id_of("c", id);
	snprintf(path, sizeof path, "%s/c", folder);
	expect_state(path, id, length, SYMBOL_USABLE);
	expect_state(path, id, 0, SYMBOL_REPLACED); /* it has one now */
	id[0] ^= 1;
	expect_state(path, id, length, SYMBOL_REPLACED);
	snprintf(path, sizeof path, "%s/n", folder);
	expect_state(path, NULL, 0, SYMBOL_USABLE);
	expect_state(path, id, length, SYMBOL_REPLACED);
	snprintf(path, sizeof path, "%s/a.c", folder);
	expect_state(path, NULL, 0, SYMBOL_NOT_ELF);
	snprintf(path, sizeof path, "%s/missing", folder);
	expect_state(path, NULL, 0, SYMBOL_MISSING);
	snprintf(path, sizeof path, "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_state(path, NULL, 0, SYMBOL_MISSING); /* and does not wait for a writer */
	expect_state(folder, NULL, 0, SYMBOL_MISSING);
	expect_state("[vdso]", NULL, 0, SYMBOL_NOT_A_FILE);
	expect_state("", NULL, 0, SYMBOL_NOT_A_FILE);
	expect_state(NULL, NULL, 0, SYMBOL_NOT_A_FILE);
}

TEST(test_broken_files)
{
	/* Every 97th truncation and a byte flipped every 61 bytes: no crash, whatever it says. */
	char path[128], copy[128];
	uint8_t id[64];
	size_t length = build_id_of("c", id);
	uint64_t address = address_of("c", "mark_inner");
	snprintf(path, sizeof path, "%s/c", folder);
	snprintf(copy, sizeof copy, "%s/broken", folder);
	FILE *f = fopen(path, "rb");
	static char bytes[1 << 16];
	size_t size = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	assert_true(size > 4096);
	for (size_t i = 0; i < size; i += 61) {
		enum symbol_state s;
		struct symbol_module *m;
		struct symbol_query q = {.address = address};
		bytes[i] = (char)(bytes[i] ^ 0x55);
		f = fopen(copy, "wb");
		fwrite(bytes, 1, i % 97 ? size : i, f);
		fclose(f);
		bytes[i] = (char)(bytes[i] ^ 0x55);
		m = open_module(copy, id, length, &s);
		if (m)
			assert_int_equal(symbol_module_lookup(m, &q, 1), 0);
		symbol_module_close(m);
	}
}

/* Rust's older mangling, first demangled by somebody who takes it for C++'s. */
TEST(test_half_demangled)
{
	static const struct {
		const char *half, *whole;
	} cases[] = {
		{"alloc::raw_vec::RawVec$LT$T$C$A$GT$::reserve_for_push::h0123456789abcdef",
		 "alloc::raw_vec::RawVec<T,A>::reserve_for_push"},
		{"_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$::bar::"
		 "h0123456789abcdef",
		 "<Test + 'static as foo::Bar<Test>>::bar"},
		{"core::ops::function::FnOnce::call_once$u7b$$u7b$vtable.shim$u7d$$u7d$::"
		 "h00000000000000ff",
		 "core::ops::function::FnOnce::call_once{{vtable.shim}}"},
		{"program::main::_$u7b$$u7b$closure$u7d$$u7d$::habcdefabcdefabcd",
		 "program::main::{{closure}}"},
		{"std::rt::lang_start::h0123456789abcdef.llvm.1234567", "std::rt::lang_start"},
		{"_$LT$$RF$str$u20$as$u20$a$GT$::f", "<&str as a>::f"},
		{"x$LT$$u5f6f$$GT$::f", "x<\xe5\xbd\xaf>::f"},
		{"_$LT$dyn$u20$a$BP$$SP$$LP$$RP$$GT$", "<dyn a*@()>"},
		/* not Rust's, or not whole */
		{"f(int, ...)", "f(int, ...)"},
		{"Outer$C$Inner::run", "Outer$C$Inner::run"},
		{"a::h0123456789abcde", "a::h0123456789abcde"},
		{"a$LT", "a$LT"},
		{"a$u$b", "a$u$b"},
		{"a$u7$b..c", "a$u7$b..c"},
		{"$", "$"},
		{"f(int) [clone .part.0]", "f(int)"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_string_equal(symbol_demangle(pool, cases[i].half), cases[i].whole);
}

TEST(test_demangle)
{
	assert_string_equal(symbol_demangle(pool, "main"), "main");
	assert_string_equal(symbol_demangle(pool, "_ZN2ns1fEi"), "ns::f(int)");
	assert_string_equal(symbol_demangle(pool, "_ZN2ns5twiceIlEET_S1_"),
			    "ns::twice<long>(long)");
	assert_string_equal(symbol_demangle(pool, "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
			    "core::fmt::Formatter::pad");
	assert_string_equal(symbol_demangle(pool, "_RNvCs1234_7mycrate3foo"), "mycrate::foo");
	assert_string_equal(symbol_demangle(pool, "grow.constprop.0.cold"), "grow");
	assert_string_equal(symbol_demangle(pool, "_ZN2ns1fEi.part.0"), "ns::f(int)");
	assert_string_equal(symbol_demangle(pool, ".cold"), ".cold");
	assert_string_equal(symbol_demangle(pool, "fopen@@GLIBC_2.2.5"), "fopen");
	assert_string_equal(symbol_demangle(pool, "__GI___clone3"), "__clone3");
	assert_string_equal(symbol_demangle(pool, "__GI_"), "__GI_");
	assert_string_equal(symbol_demangle(pool, "_Znot_mangled"), "_Znot_mangled");
	assert_string_equal(symbol_demangle(pool, "_D8demangle4testFiZv"), "demangle.test(int)");
	assert_string_equal(symbol_demangle(pool, "_D3std5stdio7writelnFAyaZv"),
			    "std.stdio.writeln(immutable(char)[])");
	assert_string_equal(symbol_demangle(pool, "_Dmain"), "D main");
	assert_string_equal(symbol_demangle(pool, "_Dynamic"), "_Dynamic"); /* plain C */
	assert_string_equal(symbol_demangle(pool, "_D9short"), "_D9short");
	assert_string_equal(symbol_demangle(pool, "_start"), "_start");
	assert_string_equal(symbol_demangle(pool, "__libc_start_main"), "__libc_start_main");
	assert_string_equal(symbol_demangle(pool, ""), "");
}

/* The vdso is in no file; every process has it. */
TEST(test_vdso)
{
	const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
	if (!start)
		skip();
	ElfW(Ehdr) eh;
	memcpy(&eh, start, sizeof eh);
	size_t size = (size_t)eh.e_shoff + (size_t)eh.e_shnum * eh.e_shentsize;
	char *copy = malloc(size);
	memcpy(copy, start, size);
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory(copy, size);
	const void *bytes;
	ssize_t length = dwelf_elf_gnu_build_id(elf, &bytes);
	struct symbol_query q = {0};
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		GElf_Sym sym;
		gelf_getshdr(scn, &shdr);
		if (shdr.sh_type != SHT_DYNSYM)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		for (int i = 0; gelf_getsym(data, i, &sym); i++)
			if (!strcmp(elf_strptr(elf, shdr.sh_link, sym.st_name), "__vdso_getcpu"))
				q.address = sym.st_value + 1;
	}
	assert_true(length > 0 && length <= 64 && q.address);
	uint8_t id[64];
	memcpy(id, bytes, (size_t)length);
	elf_end(elf);
	free(copy);
	static const char *const names[] = {"[vdso]", "linux-vdso.so.1"};
	for (size_t i = 0; i < 2; i++) {
		enum symbol_state s;
		struct symbol_module *m = open_module(names[i], id, (size_t)length, &s);
		assert_int_equal(s, SYMBOL_USABLE);
		assert_int_equal(symbol_module_lookup(m, &q, 1), 0);
		assert_int_equal(q.frame_count, 1);
		assert_string_equal(q.frames[0].function, "getcpu");
		symbol_module_close(m);
	}
	id[0] ^= 1; /* another kernel's */
	expect_state("[vdso]", id, (size_t)length, SYMBOL_REPLACED);
}

/* Split debug information in a package: no crash, whatever is wrong with it. */
TEST(test_broken_package)
{
	uint8_t id[64];
	char path[128], dwp[128];
	static char bytes[1 << 16];
	if (system("command -v dwp >/dev/null") != 0)
		skip();
	shell_in(folder, "cc -O1 -gsplit-dwarf -gdwarf-4 -Wl,--build-id=sha1 -o p a.c && dwp -e p "
			 "-o p.dwp && "
			 "rm -f *.dwo && cp p.dwp whole.dwp");
	uint64_t address = address_of("p", "mark_inner");
	size_t length = build_id_of("p", id);
	assert_int_equal(ask("p", address), SYMBOL_USABLE);
	assert_int_equal(one.frame_count, 2);
	expect_frame(0, "inner", "a.c", 5, true);
	expect_frame(1, "outer", "a.c", 11, false);
	snprintf(path, sizeof path, "%s/p", folder);
	snprintf(dwp, sizeof dwp, "%s/p.dwp", folder);
	FILE *f = fopen(dwp, "rb");
	size_t size = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	assert_true(size > 1000);
	for (size_t i = 0; i < size; i += 3) {
		enum symbol_state s;
		struct symbol_query q = {.address = address};
		bytes[i] = (char)(bytes[i] ^ (i % 2 ? 0x55 : 0xff));
		f = fopen(dwp, "wb");
		fwrite(bytes, 1, i % 97 ? size : i, f);
		fclose(f);
		bytes[i] = (char)(bytes[i] ^ (i % 2 ? 0x55 : 0xff));
		struct symbol_module *m = open_module(path, id, length, &s);
		assert_non_null(m);
		assert_int_equal(symbol_module_lookup(m, &q, 1), 0);
		assert_true(q.frame_count >= 1); /* the skeleton and the symbols are whole */
		symbol_module_close(m);
	}
}

TEST(test_name_pool)
{
	struct name_pool *p = name_pool_new();
	char name[32];
	const char *first = name_pool_add(p, "name 7");
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof name, "name %d", i);
		assert_string_equal(name_pool_add(p, name), name);
	}
	assert_ptr_equal(name_pool_add(p, "name 7"), first);
	assert_string_equal(first, "name 7");
	assert_ptr_not_equal(name_pool_add_n(p, "name 77", 6), name_pool_add(p, "name 77"));
	uint64_t *big = name_pool_alloc(p, 1 << 20);
	assert_int_equal(big[(1 << 17) - 1], 0);
	assert_int_equal((uintptr_t)big % _Alignof(max_align_t), 0);
	name_pool_free(p);
}

int main(void)
{
	int failed = unit_tests_run(make_programs, remove_programs);
	name_pool_free(pool);
	return failed;
}
