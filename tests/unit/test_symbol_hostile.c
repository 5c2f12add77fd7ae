/* Files that a stranger made to hold up, kill or fill whoever looks up names in them. Each case works
 * on a small program compiled here. A lookup that waits is ended by the alarm, and the test fails. */
#include "symbol/symbol_module.h"
#include "elf_fixture.h"
#include "shell_in.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <libelf.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { WAIT_SECONDS = 60 };

static char folder[64];
static struct name_pool *pool;

static const char *in_folder(const char *name)
{
	static char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static int make_program(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heft-hostile-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	FILE *f = fopen(in_folder("a.c"), "w");
	fputs("int twice(int x)\n{\n	return 2 * x;\n}\nint main(void) { return twice(0); }\n",
	      f);
	fclose(f);
	shell_in(folder, "cc -O0 -g -Wl,--build-id=sha1 -o whole a.c && strip -o stripped whole");
	pool = name_pool_new();
	return pool ? 0 : -1;
}

static int remove_program(void **state)
{
	(void)state;
	name_pool_free(pool);
	shell_in(folder, "rm -rf %s", folder);
	return 0;
}

static const struct symbol_options options = {.debug_roots = "/nonexistent"};
static struct symbol_search search = {.options = &options};

struct asked {
	struct symbol_module *module;
	enum symbol_state state;
	enum symbol_debug debug;
	const char *lacking;
	struct symbol_query query;
};

static Elf *open_elf(const char *name, int *fd)
{
	elf_version(EV_CURRENT);
	*fd = open(in_folder(name), O_RDONLY);
	return elf_begin(*fd, ELF_C_READ, NULL);
}

/* Opens a file as the module that `whole`, an intact one, was recorded as. */
static struct asked begin(const char *name, const char *whole)
{
	struct asked a = {0};
	uint8_t id[64];
	const void *bytes;
	int fd;
	Elf *elf = open_elf(whole, &fd);
	size_t length = (size_t)dwelf_elf_gnu_build_id(elf, &bytes);
	assert_true(length > 0 && length <= sizeof id);
	memcpy(id, bytes, length);
	a.query.address = elf_symbol_value(elf, "twice") + 8;
	elf_end(elf);
	close(fd);
	alarm(WAIT_SECONDS);
	const struct symbol_module_id module = {in_folder(name), id, length};
	assert_int_equal(symbol_module_open(&a.module, &a.state, pool, &search, &module), 0);
	return a;
}

static void look_up(struct asked *a)
{
	assert_non_null(a->module);
	assert_int_equal(symbol_module_lookup(a->module, &a->query, 1), 0);
	a->debug = symbol_module_debug(a->module, &a->lacking);
}

static void end(struct asked *a)
{
	symbol_module_close(a->module);
	alarm(0);
}

/* ---- what is no file */

TEST(test_module_is_no_file)
{
	static const char *const kinds[] = {"fifo", "folder", "socket", "device", "terminal"};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	shell_in(folder,
		 "mkfifo fifo && mkdir -p folder && ln -sf /dev/zero device && ln -sf /dev/tty "
		 "terminal");
	snprintf(address.sun_path, sizeof address.sun_path, "%.64s/socket", folder);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof address), 0);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct asked a = begin(kinds[i], "whole");
		assert_null(a.module);
		assert_int_equal(a.state, SYMBOL_MISSING);
		end(&a);
	}
	close(s);
}

/* Opening a device may do something. Who waits for a reader of a FIFO would notice one. */
TEST(test_what_is_no_file_is_not_opened)
{
	shell_in(folder, "rm -f fifo && mkfifo fifo");
	pid_t writer = fork();
	if (writer == 0)
		_exit(open(in_folder("fifo"), O_WRONLY) >= 0 ? 0 : 1);
	assert_true(writer > 0);
	usleep(300000); /* it waits */
	struct asked a = begin("fifo", "whole");
	assert_int_equal(a.state, SYMBOL_MISSING);
	end(&a);
	usleep(100000);
	assert_int_equal(waitpid(writer, NULL, WNOHANG), 0);
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
}

TEST(test_debug_link_is_a_fifo)
{
	shell_in(folder, "cp whole linked.debug && cp stripped linked && "
			 "objcopy --add-gnu-debuglink=linked.debug linked && rm linked.debug && "
			 "mkfifo linked.debug");
	struct asked a = begin("linked", "whole");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_NONE);
	end(&a);
}

static void split(const char *version)
{
	shell_in(folder,
		 "rm -f split split.dwo *.dwo && cc -O0 -gsplit-dwarf -gdwarf-%s "
		 "-Wl,--build-id=sha1 "
		 "-o "
		 "split a.c && ls *.dwo > name",
		 version);
}

TEST(test_split_file_is_a_fifo)
{
	static const char *const versions[] = {"4", "5"};
	for (size_t i = 0; i < 2; i++) {
		split(versions[i]);
		struct asked a = begin("split", "split");
		look_up(&a);
		assert_int_equal(a.debug, SYMBOL_DEBUG_WHOLE);
		assert_string_equal(a.query.frames[0].function, "twice");
		assert_int_equal(a.query.frames[0].line, 3);
		end(&a);
		shell_in(folder, "f=$(cat name) && rm $f && mkfifo $f");
		a = begin("split", "split");
		look_up(&a);
		assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
		assert_non_null(strstr(a.lacking, ".dwo is missing"));
		end(&a);
	}
}

/* Another build's .dwo file in the place of this one's gives no wrong names. */
TEST(test_split_file_of_another_build)
{
	static const char *const versions[] = {"4", "5"};
	for (size_t i = 0; i < 2; i++) {
		split(versions[i]);
		shell_in(folder,
			 "cp split mine && sed s/twice/wrong/g a.c > b.c && mv a.c c.c && mv b.c "
			 "a.c "
			 "&& "
			 "cc -O0 -gsplit-dwarf -gdwarf-%s -o split a.c; mv c.c a.c",
			 versions[i]);
		struct asked a = begin("mine", "mine");
		look_up(&a);
		assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
		assert_string_equal(a.query.frames[0].function, "twice"); /* from .symtab */
		end(&a);
	}
}

TEST(test_package_is_a_fifo)
{
	split("5");
	shell_in(folder, "rm $(cat name) && mkfifo split.dwp");
	struct asked a = begin("split", "split");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
	end(&a);
	shell_in(folder, "rm split.dwp");
}

/* .gnu_debugaltlink names dwz's file; libdw would open it by itself. */
TEST(test_alternate_file_is_a_fifo)
{
	FILE *f = fopen(in_folder("link"), "w");
	fprintf(f, "%s/common", folder);
	fwrite("\0twenty bytes of an id", 1, 21, f);
	fclose(f);
	/* A name that is in the alternate file: DW_FORM_GNU_strp_alt (0x1f21) in place of DW_FORM_strp. */
	shell_in(folder, "mkfifo common && cp whole alternate && "
			 "objcopy --add-section .gnu_debugaltlink=link alternate");
	int fd;
	Elf *elf = open_elf("alternate", &fd);
	size_t strings;
	elf_getshdrstrndx(elf, &strings);
	uint64_t at = 0, size = 0;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr shdr;
		gelf_getshdr(scn, &shdr);
		if (strcmp(elf_strptr(elf, strings, shdr.sh_name), ".debug_abbrev") == 0) {
			at = shdr.sh_offset;
			size = shdr.sh_size;
		}
	}
	elf_end(elf);
	close(fd);
	uint8_t abbrev[1024];
	fd = open(in_folder("alternate"), O_RDWR);
	assert_true(size && size <= sizeof abbrev);
	assert_int_equal(pread(fd, abbrev, size, (off_t)at), size);
	/* The name's form is made GNU_strp_alt in every abbreviation that has room: (03 0e) -> 0x1f21
	 * takes two bytes more, so the table is moved up and its end, which is padding or the last
	 * declaration's, is lost. */
	for (size_t i = 0; i + 4 < size; i++)
		if (abbrev[i] == 0x03 && abbrev[i + 1] == 0x0e) {
			memmove(abbrev + i + 3, abbrev + i + 2, size - i - 3);
			abbrev[i + 1] = 0xa1;
			abbrev[i + 2] = 0x3e;
			i += 3;
		}
	assert_int_equal(pwrite(fd, abbrev, size, (off_t)at), size);
	close(fd);
	struct asked a = begin("alternate", "whole");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
	assert_non_null(strstr(a.lacking, " is missing"));
	end(&a);
}

/* ---- names */

/* "S_", "S0_" ... "SZ_", "S10_": the parts of a C++ name that stand for earlier ones. */
static void put_reference(char *to, unsigned number)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char text[8] = "S_";
	if (number > 36)
		snprintf(text, sizeof text, "S%c%c_", digits[(number - 1) / 36],
			 digits[(number - 1) % 36]);
	else if (number)
		snprintf(text, sizeof text, "S%c_", digits[number - 1]);
	strcat(to, text);
}

/* f(pair<pair<..>, the same>): each step takes a dozen bytes and doubles the name. */
TEST(test_name_that_doubles)
{
	enum { STEPS = 22 };
	char name[1024] = "_Z1f";
	for (unsigned i = 0; i <= STEPS; i++)
		strcat(name, "St4pairI");
	strcat(name, "iiE");
	for (unsigned i = 0; i < STEPS; i++) {
		put_reference(name, STEPS + 1 + i);
		strcat(name, "E");
	}
	assert_string_equal(symbol_demangle(pool, name), name); /* would be 138 MB */
	assert_string_equal(symbol_demangle(pool, "_Z1fSt4pairIS_IiiES0_E"),
			    "f(std::pair<std::pair<int, int>, std::pair<int, int> >)");
}

/* ---- what is cut while it is read */

static void cut(const char *name, const char *module, off_t length)
{
	struct asked a = begin(module, "whole");
	assert_int_equal(a.state, SYMBOL_USABLE);
	assert_false(symbol_module_changed(a.module));
	assert_int_equal(truncate(in_folder(name), length), 0);
	look_up(&a); /* and nobody dies */
	assert_true(symbol_module_changed(a.module));
	end(&a);
}

TEST(test_module_is_cut)
{
	shell_in(folder, "cp whole cut");
	cut("cut", "cut", 0);
	shell_in(folder, "cp whole cut");
	cut("cut", "cut", 4096);
}

/* The thread that reads it may have blocked all signals, as servers' threads do. */
TEST(test_module_is_cut_with_signals_blocked)
{
	sigset_t all, before;
	sigfillset(&all);
	shell_in(folder, "cp whole cut");
	pthread_sigmask(SIG_SETMASK, &all, &before);
	cut("cut", "cut", 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- what is packed too well */

static void put_be64(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (uint8_t)(value >> (56 - 8 * i));
}

/* Writes a section of `bytes` zeros, packed, with a header of one of both kinds. */
static void write_packed(const char *name, uint64_t bytes, bool old)
{
	static uint8_t zeros[1 << 20], out[1 << 20];
	FILE *f = fopen(in_folder(name), "w");
	uint8_t header[12] = "ZLIB";
	Elf64_Chdr chdr = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = bytes, .ch_addralign = 1};
	put_be64(header + 4, bytes);
	fwrite(old ? (void *)header : &chdr, 1, old ? sizeof header : sizeof chdr, f);
	z_stream z = {0};
	deflateInit(&z, 9);
	for (uint64_t left = bytes; left || z.avail_in;) {
		if (!z.avail_in) {
			z.next_in = zeros;
			z.avail_in = left < sizeof zeros ? (uInt)left : sizeof zeros;
			left -= z.avail_in;
		}
		z.next_out = out;
		z.avail_out = sizeof out;
		deflate(&z, left || z.avail_in > sizeof zeros ? Z_NO_FLUSH : Z_FINISH);
		fwrite(out, 1, sizeof out - z.avail_out, f);
	}
	deflateEnd(&z);
	fclose(f);
}

static void set_compressed(const char *name, const char *section)
{
	int fd = open(in_folder(name), O_RDWR);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	Elf64_Ehdr *eh = elf64_getehdr(elf);
	size_t strings;
	elf_getshdrstrndx(elf, &strings);
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		Elf64_Shdr *shdr = elf64_getshdr(scn);
		if (strcmp(elf_strptr(elf, strings, shdr->sh_name), section) != 0)
			continue;
		Elf64_Shdr changed = *shdr;
		changed.sh_flags |= SHF_COMPRESSED;
		changed.sh_addralign = 8;
		off_t at = (off_t)(eh->e_shoff + elf_ndxscn(scn) * sizeof changed);
		assert_int_equal(pwrite(fd, &changed, sizeof changed, at), sizeof changed);
	}
	elf_end(elf);
	close(fd);
}

static void expect_refused(const char *name, const char *words)
{
	struct asked a = begin(name, "whole");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
	assert_non_null(a.lacking);
	assert_non_null(strstr(a.lacking, words));
	assert_int_equal(a.query.frame_count, 1);
	assert_string_equal(a.query.frames[0].function, "twice"); /* from .symtab */
	end(&a);
}

/* 256 MiB of zeros take 256 KiB: 1 in 1000, where compilers' sections are 1 in 8. */
TEST(test_bomb_by_flag)
{
	write_packed("packed", UINT64_C(256) << 20, false);
	shell_in(folder, "cp whole bomb && objcopy --remove-section .debug_str bomb && "
			 "objcopy --add-section .debug_str=packed bomb");
	set_compressed("bomb", ".debug_str");
	expect_refused("bomb",
		       "bomb has packed sections that would become 256.0 MiB, which heft does "
		       "not unpack");
}

TEST(test_bomb_by_name)
{
	write_packed("packed", UINT64_C(256) << 20, true);
	shell_in(folder, "cp whole bomb && objcopy --remove-section .debug_str bomb && "
			 "objcopy --add-section .zdebug_str=packed bomb");
	expect_refused("bomb",
		       "bomb has packed sections that would become 256.0 MiB, which heft does "
		       "not unpack");
}

/* Sections that are each small enough are refused together. */
TEST(test_bomb_in_parts)
{
	write_packed("packed", UINT64_C(14) << 20, false);
	shell_in(
		folder,
		"cp whole bomb && objcopy --remove-section .debug_str --remove-section .debug_line "
		"bomb "
		"&& objcopy --add-section .debug_str=packed --add-section .debug_line=packed bomb");
	set_compressed("bomb", ".debug_str");
	set_compressed("bomb", ".debug_line");
	expect_refused("bomb", "would become 14.0 MiB");
}

TEST(test_bomb_that_claims_everything)
{
	write_packed("packed", 4096, false);
	int fd = open(in_folder("packed"), O_RDWR);
	uint64_t size = UINT64_MAX;
	assert_int_equal(pwrite(fd, &size, 8, offsetof(Elf64_Chdr, ch_size)), 8);
	close(fd);
	shell_in(folder, "cp whole bomb && objcopy --remove-section .debug_str bomb && "
			 "objcopy --add-section .debug_str=packed bomb");
	set_compressed("bomb", ".debug_str");
	expect_refused("bomb", "bomb has damaged packed sections");
}

TEST(test_bomb_in_split_file)
{
	split("5");
	write_packed("packed", UINT64_C(256) << 20, false);
	shell_in(folder, "f=$(cat name) && objcopy --remove-section .debug_str.dwo $f && "
			 "objcopy --add-section .debug_str.dwo=packed $f && cp $f bomb.o");
	set_compressed("bomb.o", ".debug_str.dwo");
	shell_in(folder, "cp bomb.o $(cat name)");
	struct asked a = begin("split", "split");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_PARTIAL);
	assert_non_null(strstr(a.lacking, ".dwo has packed sections that would become 256.0 MiB"));
	assert_string_equal(a.query.frames[a.query.frame_count - 1].function, "twice");
	end(&a);
}

/* Real sections pack well, too, and stay. */
TEST(test_honest_packed_sections)
{
	shell_in(folder,
		 "cp whole packed-whole && objcopy --compress-debug-sections=zlib packed-whole");
	struct asked a = begin("packed-whole", "whole");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_WHOLE);
	assert_string_equal(a.query.frames[0].function, "twice");
	assert_int_equal(a.query.frames[0].line, 3);
	end(&a);
	write_packed("packed", UINT64_C(15) << 20, false); /* under what is free */
	shell_in(folder, "cp whole free && objcopy --add-section .debug_frame=packed free");
	set_compressed("free", ".debug_frame");
	a = begin("free", "whole");
	look_up(&a);
	assert_int_equal(a.debug, SYMBOL_DEBUG_WHOLE);
	end(&a);
}

UNIT_TESTS(make_program, remove_program)
