/* What launch_inspect finds in real programs (made here with the compiler) and in hand-made files
 * that no compiler would write. Each case runs in one scratch directory. */
#include "record/launch.h"
#include "shell_in.h"
#include "unit_test.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[64];
static struct launch_plan plan;
static struct heft_error err;

static const char *at(const char *name)
{
	static char path[4][256];
	static unsigned next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", scratch, name);
	return path[next];
}

static const char *put(const char *name, const void *data, size_t size, mode_t mode)
{
	const char *path = at(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), (ssize_t)size);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static const char *put_text(const char *name, const char *text)
{
	return put(name, text, strlen(text), 0755);
}

static int look(const char *cmd)
{
	memset(&err, 0, sizeof(err));
	return launch_inspect(cmd, LAUNCH_VIA_PRELOAD, &plan, &err);
}

/* Where nothing can be preloaded, hooks at entries are the way. */
static void expect_entry(const char *cmd, const char *why)
{
	memset(&err, 0, sizeof(err));
	assert_int_equal(launch_inspect(cmd, LAUNCH_VIA_AUTO, &plan, &err), 0);
	assert_int_equal(plan.way, LAUNCH_ENTRY);
	assert_string_equal(plan.why, why);
}

static void expect(const char *cmd, int code, const char *words)
{
	int got = look(cmd);

	if (got != code)
		fail_msg("%s: code %d instead of %d (%s)", cmd, got, code, err.message);
	if (words && !strstr(err.message, words))
		fail_msg("%s: '%s' does not say '%s'", cmd, err.message, words);
}

/* The smallest file that looks like a dynamic x86-64 program: header, two program headers and the
 * loader's name. */
struct tiny {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	char loader[32];
};

static struct tiny make_tiny(const char *loader)
{
	struct tiny t = {0};

	memcpy(t.eh.e_ident, ELFMAG, SELFMAG);
	t.eh.e_ident[EI_CLASS] = ELFCLASS64;
	t.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	t.eh.e_ident[EI_VERSION] = EV_CURRENT;
	t.eh.e_type = ET_EXEC;
	t.eh.e_machine = EM_X86_64;
	t.eh.e_phoff = offsetof(struct tiny, ph);
	t.eh.e_phentsize = sizeof(Elf64_Phdr);
	t.eh.e_phnum = 2;
	t.ph[0].p_type = PT_INTERP;
	t.ph[0].p_offset = offsetof(struct tiny, loader);
	t.ph[0].p_filesz = strlen(loader) + 1;
	t.ph[1].p_type = PT_LOAD;
	t.ph[1].p_filesz = sizeof(t);
	strcpy(t.loader, loader);
	return t;
}

static int make_scratch(void **state)
{
	(void)state;
	strcpy(scratch, "/tmp/heft-launch-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", scratch);
	return system(command);
}

TEST(finds_in_path_as_execvp_does)
{
	char path[256];
	char *old = strdup(getenv("PATH"));

	(void)state;
	assert_int_equal(mkdir(at("first"), 0700), 0);
	assert_int_equal(mkdir(at("second"), 0700), 0);
	put("first/tool", "#!/bin/sh\n", 10, 0644); /* there, but not executable: go on */
	put("second/tool", "#!/bin/sh\n", 10, 0755);
	put("first/denied", "#!/bin/sh\n", 10, 0644);
	snprintf(path, sizeof(path), "%s:%s", at("first"), at("second"));
	setenv("PATH", path, 1);
	expect("tool", 0, NULL);
	assert_string_equal(plan.path, at("second/tool"));
	expect("denied", HEFT_ENOEXEC, "chmod +x");
	expect("no-such-tool", HEFT_ENOTFOUND, "no such command in PATH");
	expect("", HEFT_ENOTFOUND, NULL);
	/* An empty element of PATH is the current directory. */
	char here[PATH_MAX];

	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(at("second")), 0);
	expect("tool", 0, NULL);
	setenv("PATH", "", 1);
	expect("tool", 0, NULL);
	assert_string_equal(plan.path, "./tool");
	setenv("PATH", "/nowhere", 1);
	expect("tool", HEFT_ENOTFOUND, "./tool");
	assert_int_equal(chdir(here), 0);
	unsetenv("PATH");
	expect("sh", 0, NULL);
	assert_string_equal(plan.path, "/bin/sh");
	setenv("PATH", old, 1);
	free(old);
}

TEST(names_what_cannot_be_executed)
{
	expect(scratch, HEFT_ENOEXEC, "is a directory");
	expect(at("missing"), HEFT_ENOTFOUND, "No such file");
	expect(put("plain", "hello\n", 6, 0644), HEFT_ENOEXEC, "chmod +x");
	expect(put("junk", "\0\1\2\3junk", 8, 0755), HEFT_ENOEXEC, "neither an ELF");
	expect(at("plain/below"), HEFT_ENOTFOUND, "Not a directory");
}

TEST(reads_real_programs)
{
	put_text("empty.c", "int main(void) { return 0; }\n");
	shell_in(scratch, "gcc -o dynamic empty.c && gcc -static -o static empty.c && "
			  "gcc -static-pie -o static-pie empty.c && gcc -c -o object.o empty.c && "
			  "chmod +x object.o");
	expect(at("dynamic"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
	assert_false(plan.script);
	assert_string_equal(plan.elf, at("dynamic"));
	expect(at("static"), HEFT_EREFUSED, "statically linked");
	expect(at("static-pie"), HEFT_EREFUSED, "statically linked");
	expect_entry(at("static"), "is statically linked");
	assert_true(plan.may_preload); /* what it executes finds heft's library */
	expect_entry(at("static-pie"), "is statically linked");
	assert_int_equal(launch_inspect(at("dynamic"), LAUNCH_VIA_AUTO, &plan, &err), 0);
	assert_int_equal(plan.way, LAUNCH_PRELOAD);
	assert_int_equal(launch_inspect(at("dynamic"), LAUNCH_VIA_ENTRY, &plan, &err), 0);
	assert_int_equal(plan.way, LAUNCH_ENTRY);
	assert_null(plan.why);
	expect(at("object.o"), HEFT_ENOEXEC, "object file");
	/* The loader has no loader, and honours LD_PRELOAD for what it is told to run. */
	expect("/lib64/ld-linux-x86-64.so.2", 0, NULL);
}

TEST(notices_an_allocator_of_its_own)
{
	put_text("own.c", "#include <stddef.h>\nstatic char heap[9];\n"
			  "void *malloc(size_t n) { return n < 9 ? heap : 0; }\n"
			  "int main(void) { return !malloc(1); }\n");
	put_text("hidden.c",
		 "#include <stddef.h>\nstatic char heap[9];\n"
		 "__attribute__((visibility(\"hidden\"), noinline))\n"
		 "void *_rjem_malloc(size_t n) { return n < 9 ? heap : 0; }\n"
		 "int main(int c, char **v) { (void)v; return !_rjem_malloc((size_t)c); }\n");
	put_text("text.c", "#include <stdio.h>\n"
			   "int main(void) { fputs(\"<jemalloc>: Out of memory\", stdout); }\n");
	shell_in(scratch, "gcc -fno-builtin -o exported own.c && gcc -o internal hidden.c && "
			  "gcc -s -o stripped text.c && gcc -o unstripped text.c && "
			  "gcc -s -fno-builtin -o exported-stripped own.c");
	expect(at("exported"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_EXPORTED);
	assert_string_equal(plan.malloc_name, "malloc");
	assert_non_null(strstr(plan.own_malloc_text, "defines malloc itself"));
	expect_entry(at("exported"), "defines malloc itself");
	expect(at("exported-stripped"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_EXPORTED);
	expect(at("internal"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_INTERNAL);
	assert_string_equal(plan.malloc_name, "_rjem_malloc");
	assert_non_null(strstr(plan.own_malloc_text, "jemalloc linked in"));
	expect(at("stripped"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_LIKELY);
	/* With symbols there is no need to guess from words. */
	expect(at("unstripped"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
}

/* Two functions of these names, and nothing else: what the program is taken for. */
static void expect_entries(const char *first, const char *second, enum elf_own_malloc how,
			   const char *allocator)
{
	char source[600];
	snprintf(source, sizeof source,
		 "__attribute__((noinline, used)) void *%s(void) { return 0; }\n"
		 "__attribute__((noinline, used)) void *%s(void) { return 0; }\n"
		 "int main(void) { return 0; }\n",
		 first, second);
	put_text("entries.c", source);
	shell_in(scratch, "gcc -fno-builtin -w -o entries entries.c");
	expect(at("entries"), 0, NULL);
	if (plan.own_malloc != how)
		print_message("%s, %s\n", first, second);
	assert_int_equal(plan.own_malloc, how);
	if (allocator) {
		assert_string_equal(plan.malloc_name, first);
		assert_non_null(strstr(plan.own_malloc_text, allocator));
	}
}

TEST(knows_allocators_by_any_entry)
{
	expect_entries("mi_malloc_aligned", "mi_free", ELF_MALLOC_INTERNAL, "mimalloc linked in");
	expect_entries("mi_zalloc_aligned", "mi_free_size", ELF_MALLOC_INTERNAL, "mimalloc");
	expect_entries("_rjem_mallocx", "_rjem_sdallocx", ELF_MALLOC_INTERNAL, "jemalloc");
	expect_entries("my_own_mallocx", "my_own_dallocx", ELF_MALLOC_INTERNAL, "jemalloc");
	expect_entries("_rjem_calloc", "_rjem_free", ELF_MALLOC_INTERNAL, "jemalloc");
	expect_entries("tc_new", "tc_delete", ELF_MALLOC_INTERNAL, "tcmalloc");
	expect_entries("sn_rust_alloc_zeroed", "sn_rust_dealloc", ELF_MALLOC_INTERNAL, "snmalloc");
	expect_entries("rpaligned_alloc", "rpfree", ELF_MALLOC_INTERNAL, "rpmalloc");
	expect_entries("scalable_malloc", "scalable_free", ELF_MALLOC_INTERNAL, "TBB");
	/* One short name may be anybody's; and names that are merely alike. */
	expect_entries("mi_free", "mi_parse", ELF_MALLOC_SHARED, NULL);
	expect_entries("mi_malloc", "mi_parse", ELF_MALLOC_SHARED, NULL);
	expect_entries("tc_new_filter", "tc_free_filter", ELF_MALLOC_SHARED, NULL);
	expect_entries("xmalloc", "xfree", ELF_MALLOC_SHARED, NULL);
	expect_entries("sn_free", "rpfree", ELF_MALLOC_SHARED, NULL);
	expect_entries("my_malloc", "my_free", ELF_MALLOC_SHARED, NULL);
}

TEST(knows_who_carries_one_unused)
{
	/* CPython 3.13 has all of mimalloc in it, and takes small objects from arenas of its own. */
	put_text("python.c", "void *mi_malloc(void) { return 0; }\nvoid mi_free(void) {}\n"
			     "void *PyMem_RawMalloc(void) { return 0; }\n"
			     "int main(void) { return 0; }\n");
	shell_in(scratch, "gcc -o python python.c");
	expect(at("python"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
}

TEST(knows_calls_of_a_shared_allocator)
{
	put_text("shared.c", "void *mi_malloc(void) { return 0; }\nvoid mi_free(void) {}\n"
			     "int mallctlbymib(void) { return 0; }\n");
	put_text("calls.c", "void *mi_malloc(void);\nvoid mi_free(void);\n"
			    "int main(void) { mi_free(); return !!mi_malloc(); }\n");
	put_text("asks.c", "int mallctlbymib(void);\nint main(void) { return mallctlbymib(); }\n");
	put_text("weak.c", "__attribute__((weak)) void *mi_malloc(void);\n"
			   "__attribute__((weak)) void mi_free(void);\n"
			   "int main(void) { return mi_malloc && mi_free ? !!mi_malloc() : 0; }\n");
	shell_in(scratch,
		 "gcc -shared -fPIC -o libshared.so shared.c && "
		 "for p in calls asks weak; do gcc -o $p $p.c -L. -lshared -Wl,-rpath,%s; done",
		 scratch);
	expect(at("calls"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_NEEDED);
	assert_non_null(strstr(plan.own_malloc_text, "calls mimalloc directly (mi_malloc)"));
	/* Numbers are asked of an allocator that stands behind malloc; a weak name is a question. */
	expect(at("asks"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
	expect(at("weak"), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
}

TEST(says_how_jemalloc_writes_profiles)
{
	put_text("prof.c", "#include <stdio.h>\nvoid *_rjem_mallocx(void) { return 0; }\n"
			   "void _rjem_sdallocx(void) {}\nvoid _rjem_je_prof_dump_impl(void) {}\n"
			   "int main(void) { return puts(\"_RJEM_MALLOC_CONF\"); }\n");
	shell_in(scratch, "gcc -o prof prof.c && sed s/_rjem_je_prof_dump_impl/nothing/ prof.c > "
			  "none.c && "
			  "gcc -o none none.c");
	expect(at("prof"), 0, NULL);
	assert_non_null(strstr(plan.own_malloc_text, "_RJEM_MALLOC_CONF=prof:true,"));
	expect(at("none"), 0, NULL);
	assert_null(strstr(plan.own_malloc_text, "prof:true"));
}

TEST(takes_symbols_from_a_debug_file)
{
	struct elf_facts facts;
	put_text("apart.c", "#include <stdio.h>\n__attribute__((noinline)) void *mi_malloc(void) { "
			    "return 0; }\n"
			    "__attribute__((noinline)) void mi_free(void) {}\n"
			    "int main(void) { mi_free(); return !mi_malloc(); }\n");
	shell_in(scratch, "gcc -o apart apart.c && objcopy --only-keep-debug apart apart.debug && "
			  "strip apart");
	int fd = open(at("apart"), O_RDONLY);
	own_allocator_of_file(fd, &facts);
	close(fd);
	assert_int_equal(facts.own_malloc, ELF_MALLOC_SHARED);
	assert_int_equal(facts.build_id_bytes, 20);
	uint8_t *file = malloc(1 << 20);
	fd = open(at("apart.debug"), O_RDONLY);
	ssize_t size = read(fd, file, 1 << 20);
	close(fd);
	assert_true(size > 0);
	elf_facts_add_debug(file, (size_t)size, &facts);
	assert_int_equal(facts.own_malloc, ELF_MALLOC_INTERNAL);
	assert_string_equal(facts.malloc_name, "mi_malloc");
	/* Cut anywhere, it says less and harms nobody. */
	for (size_t cut = 0; cut < (size_t)size; cut += 7)
		elf_facts_add_debug(file, cut, &facts);
	free(file);
}

TEST(refuses_sanitized_programs)
{
	put_text("sane.c", "int main(void) { return 0; }\n");
	shell_in(scratch, "gcc -fsanitize=address -o asan sane.c");
	expect(at("asan"), HEFT_EREFUSED, "AddressSanitizer");
}

TEST(knows_when_privileges_hide_the_preload)
{
	put_text("priv.c", "int main(void) { return 0; }\n");
	shell_in(scratch,
		 "gcc -o suid priv.c && chmod u+s suid && cp suid group && chmod 2755 group");
	/* Owned by who runs it: no privilege is gained, so the loader does not mind. */
	expect(at("suid"), 0, NULL);
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(at("suid"), 65534, (gid_t)-1), 0);
	assert_int_equal(chmod(at("suid"), 04755), 0);
	expect(at("suid"), HEFT_EREFUSED, "setuid program");
	expect_entry(at("suid"), "is a setuid program");
	assert_int_equal(chown(at("group"), (uid_t)-1, 65534), 0);
	assert_int_equal(chmod(at("group"), 02755), 0);
	expect(at("group"), HEFT_EREFUSED, "setgid program");
	/* Without group execution, the bit does not mean setgid. */
	assert_int_equal(chmod(at("group"), 02745), 0);
	expect(at("group"), 0, NULL);
	/* Another user meets root's setuid program: root may be the way out. */
	assert_int_equal(chown(at("suid"), 0, 0), 0);
	assert_int_equal(chmod(at("suid"), 04755), 0);
	assert_int_equal(chmod(scratch, 0755), 0);
	expect(at("suid"), 0, NULL);
	pid_t child = fork();

	if (child == 0) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(2);
		int code = launch_inspect(at("suid"), LAUNCH_VIA_AUTO, &plan, &err);

		_exit(code == HEFT_EREFUSED && strstr(err.message, "run heft as root") ? 0 : 1);
	}
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

TEST(follows_scripts)
{
	char text[256];

	(void)state;
	expect(put_text("sh1", "#!/bin/sh\necho\n"), 0, NULL);
	assert_true(plan.script);
	assert_string_equal(plan.elf, "/bin/sh");
	assert_string_equal(plan.path, at("sh1"));
	expect(put_text("sh2", "#! \t/bin/sh -e \n"), 0, NULL);
	assert_string_equal(plan.elf, "/bin/sh");
	expect(put_text("env1", "#!/usr/bin/env perl\n"), 0, NULL);
	assert_non_null(strstr(plan.elf, "/perl"));
	expect(put_text("env2", "#!/usr/bin/env -S A=1 -i -u X perl -w\n"), 0, NULL);
	assert_non_null(strstr(plan.elf, "/perl"));
	expect(put_text("env3", "#!/usr/bin/env no-such-language\n"), HEFT_ENOTFOUND,
	       "asks env for no-such-language");
	expect(put_text("bare", "echo no first line\n"), 0, NULL);
	assert_true(plan.script);
	assert_string_equal(plan.elf, "/bin/sh");
	expect(put_text("nothing", ""), 0, NULL);
	assert_string_equal(plan.elf, "/bin/sh");
	expect(put_text("lost", "#!/no/such/shell\n"), HEFT_ENOEXEC,
	       "its interpreter /no/such/shell");
	expect(put_text("none", "#!\n"), HEFT_ENOEXEC, "names no interpreter");
	expect(put_text("short", "#!"), HEFT_ENOEXEC, "names no interpreter");
	expect(put_text("dos", "#!/bin/sh\r\n"), HEFT_ENOEXEC, "carriage return");
	/* A script that is its own interpreter ends, as the kernel ends it. */
	snprintf(text, sizeof(text), "#!%s\n", at("loop"));
	expect(put_text("loop", text), HEFT_ENOEXEC, "nested too deeply");
	/* A chain of two is fine, and its end is what counts. */
	snprintf(text, sizeof(text), "#!%s\n", at("sh1"));
	expect(put_text("chain", text), 0, NULL);
	assert_string_equal(plan.elf, "/bin/sh");
	/* A static interpreter is refused by its own name. */
	put_text("i.c", "int main(void) { return 0; }\n");
	shell_in(scratch, "gcc -static -o interp i.c");
	snprintf(text, sizeof(text), "#!%s\n", at("interp"));
	expect(put_text("by-static", text), HEFT_EREFUSED, "interp is statically linked");
	expect_entry(at("by-static"), "is statically linked");
	assert_int_equal(plan.execs, 1);
	put_text("by-env", "#!/usr/bin/env sh\n");
	expect(at("by-env"), 0, NULL);
	assert_int_equal(plan.execs, 2);
}

TEST(survives_hostile_elf)
{
	struct tiny t = make_tiny("/lib64/ld-linux-x86-64.so.2");

	(void)state;
	expect(put("tiny", &t, sizeof(t), 0755), 0, NULL);
	/* Cut anywhere, it is damaged, or (under 4 bytes) no ELF at all; never a crash. */
	for (size_t n = 4; n < sizeof(t); n++) {
		int code = look(put("cut", &t, n, 0755));

		if (code != HEFT_ENOEXEC)
			fail_msg("cut at %zu: %d (%s)", n, code, err.message);
	}
	t.eh.e_phoff = UINT64_MAX - 8;
	expect(put("far", &t, sizeof(t), 0755), HEFT_ENOEXEC, "program headers");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.eh.e_phnum = 0xffff;
	expect(put("many", &t, sizeof(t), 0755), HEFT_ENOEXEC, "program headers");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.eh.e_phentsize = 1;
	expect(put("entry", &t, sizeof(t), 0755), HEFT_ENOEXEC, "program headers");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.ph[0].p_offset = UINT64_MAX;
	expect(put("name", &t, sizeof(t), 0755), HEFT_ENOEXEC, "loader is damaged");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.ph[0].p_filesz -= 1; /* not terminated */
	expect(put("open", &t, sizeof(t), 0755), HEFT_ENOEXEC, "loader is damaged");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.ph[1].p_filesz += 1;
	expect(put("long", &t, sizeof(t), 0755), HEFT_ENOEXEC, "shorter than");
	/* Section headers that lead nowhere only mean that no symbols are known. */
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.eh.e_shoff = 64;
	t.eh.e_shnum = 0xffff;
	t.eh.e_shentsize = sizeof(Elf64_Shdr);
	expect(put("sections", &t, sizeof(t), 0755), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
	expect(put("loader", &(struct tiny){0}, 4, 0755), HEFT_ENOEXEC, "neither");
}

/* A program with one defined dynamic symbol, malloc. */
struct tiny_symbols {
	struct tiny t;
	Elf64_Shdr sh[2];
	Elf64_Sym sym[2];
	char names[8];
};

static struct tiny_symbols make_tiny_symbols(void)
{
	struct tiny_symbols f = {.t = make_tiny("/lib64/ld-linux-x86-64.so.2")};

	f.t.ph[1].p_filesz = sizeof(f);
	f.t.eh.e_shoff = offsetof(struct tiny_symbols, sh);
	f.t.eh.e_shnum = 2;
	f.t.eh.e_shentsize = sizeof(Elf64_Shdr);
	f.sh[0] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
			       .sh_link = 1,
			       .sh_entsize = sizeof(Elf64_Sym),
			       .sh_offset = offsetof(struct tiny_symbols, sym),
			       .sh_size = sizeof(f.sym)};
	f.sh[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
			       .sh_offset = offsetof(struct tiny_symbols, names),
			       .sh_size = sizeof(f.names)};
	memcpy(f.names, "\0malloc", 8);
	f.sym[1].st_name = 1;
	f.sym[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	f.sym[1].st_shndx = 1;
	return f;
}

TEST(survives_hostile_symbols)
{
	struct tiny_symbols f = make_tiny_symbols();

	(void)state;
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_EXPORTED);
	f.sym[1].st_shndx = SHN_UNDEF; /* only wants one */
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
	f.sym[1].st_shndx = 1;
	f.sh[1].sh_size = 7; /* the name's end is outside the table */
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
	f.sh[1].sh_size = 8;
	f.sym[1].st_name = UINT32_MAX;
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	f.sh[0].sh_size = UINT64_MAX;
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	f.sh[0].sh_link = 77;
	expect(put("sym", &f, sizeof(f), 0755), 0, NULL);
	assert_int_equal(plan.own_malloc, ELF_MALLOC_SHARED);
}

/* Every byte takes every value, at every length: in a block of exactly that size, so that reading
 * past its end shows under AddressSanitizer. */
TEST(survives_any_changed_byte)
{
	struct tiny_symbols whole = make_tiny_symbols();
	uint8_t *file = malloc(sizeof(whole));
	struct elf_facts facts;
	size_t dynamic = 0;

	(void)state;
	for (size_t at_byte = 0; at_byte < sizeof(whole); at_byte++) {
		memcpy(file, &whole, sizeof(whole));
		for (unsigned value = 0; value < 256; value++) {
			file[at_byte] = (uint8_t)value;
			elf_facts_read(file, sizeof(whole), &facts);
			dynamic += facts.kind == ELF_DYNAMIC;
		}
	}
	free(file);
	assert_true(dynamic > sizeof(whole)); /* most bytes do not matter */
	for (size_t size = 0; size < sizeof(whole); size++) {
		file = malloc(size ? size : 1);
		memcpy(file, &whole, size);
		elf_facts_read(file, size, &facts);
		assert_int_equal(facts.kind, size < 4 ? ELF_NOT_ELF : ELF_DAMAGED);
		free(file);
	}
}

TEST(names_other_architectures)
{
	struct tiny t = make_tiny("/lib64/ld-linux-x86-64.so.2");

	(void)state;
	t.eh.e_machine = EM_AARCH64;
	expect(put("arm", &t, sizeof(t), 0755), HEFT_ENOEXEC, "aarch64");
	t.eh.e_machine = EM_386;
	t.eh.e_ident[EI_CLASS] = ELFCLASS32;
	expect(put("i386", &t, sizeof(t), 0755), HEFT_EREFUSED, "i386");
	t.eh.e_machine = EM_X86_64;
	expect(put("x32", &t, sizeof(t), 0755), HEFT_EREFUSED, "x32");
	t = make_tiny("/lib64/ld-linux-x86-64.so.2");
	t.eh.e_ident[EI_DATA] = ELFDATA2MSB;
	t.eh.e_machine = __builtin_bswap16(EM_S390);
	expect(put("s390", &t, sizeof(t), 0755), HEFT_ENOEXEC, "s390");
	t = make_tiny("/lib/ld-musl-x86_64.so.1");
	if (access("/lib/ld-musl-x86_64.so.1", F_OK) == 0) {
		expect(put("musl", &t, sizeof(t), 0755), HEFT_EREFUSED, "musl");
		expect_entry(at("musl"), "is linked with musl");
		assert_false(plan.may_preload); /* its loader would fail over heft's library */
	} else
		expect(put("musl", &t, sizeof(t), 0755), HEFT_ENOEXEC, "ld-musl-x86_64.so.1");
	t = make_tiny("/lib64/ld-no-such.so.9");
	expect(put("noloader", &t, sizeof(t), 0755), HEFT_ENOEXEC, "/lib64/ld-no-such.so.9");
}

static const char *value_of(char **env, const char *name)
{
	size_t length = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

TEST(environment_touches_only_its_own)
{
	char *plain[] = {"A=1", "B=two words", NULL};
	char *others[] = {"A=1", "LD_PRELOAD=libx.so:/h/own.so liby.so", "HEFT_SESSION=old",
			  "HEFT_SESSIONS=x", NULL};
	char *blank[] = {"LD_PRELOAD=", NULL};
	const char *settings[] = {"HEFT_SESSION=/run/s", NULL};
	const char *none[] = {NULL};

	(void)state;
	char **e = launch_environment(plain, "/h/own.so", settings);

	assert_string_equal(e[0], "A=1");
	assert_string_equal(e[1], "B=two words");
	assert_string_equal(e[2], "LD_PRELOAD=/h/own.so");
	assert_string_equal(e[3], "HEFT_SESSION=/run/s");
	assert_null(e[4]);
	free(e);
	e = launch_environment(others, "/h/own.so", settings);
	assert_string_equal(value_of(e, "LD_PRELOAD"), "/h/own.so:libx.so liby.so");
	assert_string_equal(value_of(e, "HEFT_SESSION"), "/run/s");
	assert_string_equal(value_of(e, "HEFT_SESSIONS"), "x");
	assert_string_equal(e[0], "A=1");
	assert_null(e[4]);
	free(e);
	e = launch_environment(blank, "/h/own.so", none);
	assert_string_equal(e[0], "LD_PRELOAD=/h/own.so");
	assert_null(e[1]);
	free(e);
}

UNIT_TESTS(make_scratch, remove_scratch)
