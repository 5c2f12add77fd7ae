/* The cache of symbols by itself: what is written is read, what is damaged is not, evidence that no
 * longer holds is noticed, and the folder stays within its bound. Perf maps and the guess of
 * package names have their tests here too. */
#include "symbol/debug_package.h"
#include "symbol/perf_map.h"
#include "symbol/symbol_cache.h"
#include "symbol/symbol_cache_format.h"
#include "unit_test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static const uint8_t id[20] = {0xab, 0xcd, 1, 2, 3};
static struct name_pool *pool;

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heft-cache-XXXXXX");
	pool = name_pool_new();
	return mkdtemp(folder) && pool ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	char command[128];
	name_pool_free(pool);
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static const char *path_in(const char *name)
{
	static char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static const char *entry_path(void)
{
	char name[SYMBOL_CACHE_NAME];
	symbol_cache_name(name, "/module", id, sizeof id);
	return path_in(name);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/* Two places with frames, one of which nothing is known. */
static void write_entry(enum symbol_debug debug, const struct symbol_evidence *evidence,
			struct symbol_cache *old)
{
	struct symbol_frame *two = name_pool_alloc(pool, 2 * sizeof *two);
	struct symbol_frame *one = name_pool_alloc(pool, sizeof *one);
	two[0] = (struct symbol_frame){name_pool_add(pool, "inner"), name_pool_add(pool, "/a.c"), 3,
				       true};
	two[1] = (struct symbol_frame){name_pool_add(pool, "outer"), name_pool_add(pool, "/a.c"), 9,
				       false};
	one[0] = (struct symbol_frame){name_pool_add(pool, "third"), NULL, 0, false};
	const struct symbol_query queries[] = {
		{.address = 0x10, .frames = two, .frame_count = 2},
		{.address = 0x20, .function_start = 0x1c, .function_bytes = 9},
		{.address = UINT64_MAX, .frames = one, .frame_count = 1},
	};
	const struct symbol_cache_entry entry = {
		.path = "/module",
		.build_id = id,
		.build_id_len = sizeof id,
		.debug = debug,
		.lacking = debug == SYMBOL_DEBUG_PARTIAL ? "/gone.dwo" : NULL,
		.evidence = evidence,
		.queries = queries,
		.count = 3,
	};
	assert_true(symbol_cache_write(folder, &entry, old, pool));
}

TEST(test_what_is_written_is_read)
{
	const struct symbol_evidence none = {0};
	write_entry(SYMBOL_DEBUG_PARTIAL, &none, NULL);
	struct symbol_cache *c = symbol_cache_open(folder, "/module", id, sizeof id);
	assert_non_null(c);
	assert_int_equal(symbol_cache_debug(c), SYMBOL_DEBUG_PARTIAL);
	assert_string_equal(symbol_cache_lacking(c), "/gone.dwo");
	struct symbol_query q[] = {
		{.address = 1},    {.address = 0x10},       {.address = 0x20},
		{.address = 0x21}, {.address = UINT64_MAX},
	};
	bool answered[5];
	assert_int_equal(symbol_cache_answer(c, pool, q, answered, 5), 0);
	assert_false(answered[0]);
	assert_true(answered[1]);
	assert_int_equal(q[1].frame_count, 2);
	assert_ptr_equal(q[1].frames[0].function, name_pool_add(pool, "inner"));
	assert_int_equal(q[1].frames[0].line, 3);
	assert_true(q[1].frames[0].inlined);
	assert_string_equal(q[1].frames[1].file, "/a.c");
	assert_false(q[1].frames[1].inlined);
	assert_true(answered[2]); /* known to be unknown */
	assert_int_equal(q[2].frame_count, 0);
	assert_int_equal(q[2].function_start, 0x1c);
	assert_int_equal(q[2].function_bytes, 9);
	assert_int_equal(q[4].function_start, 0);
	assert_false(answered[3]);
	assert_true(answered[4]);
	assert_null(q[4].frames[0].file);
	symbol_cache_close(c);
}

TEST(test_new_answers_are_added)
{
	const struct symbol_evidence none = {0};
	write_entry(SYMBOL_DEBUG_WHOLE, &none, NULL);
	struct symbol_cache *c = symbol_cache_open(folder, "/module", id, sizeof id);
	struct symbol_frame frame = {.function = name_pool_add(pool, "new")};
	const struct symbol_query more[] = {
		{.address = 5, .frames = &frame, .frame_count = 1},
		{.address = 0x20, .frames = &frame, .frame_count = 1}, /* better than before */
	};
	const struct symbol_cache_entry entry = {
		.path = "/module",
		.build_id = id,
		.build_id_len = sizeof id,
		.debug = SYMBOL_DEBUG_WHOLE,
		.evidence = &none,
		.queries = more,
		.count = 2,
	};
	assert_true(symbol_cache_write(folder, &entry, c, pool));
	symbol_cache_close(c);
	c = symbol_cache_open(folder, "/module", id, sizeof id);
	assert_non_null(c);
	size_t count;
	struct symbol_query *all = symbol_cache_everything(c, pool, &count);
	assert_int_equal(count, 4);
	const uint64_t addresses[] = {5, 0x10, 0x20, UINT64_MAX};
	const char *const first[] = {"new", "inner", "new", "third"};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(all[i].address, addresses[i]);
		assert_string_equal(all[i].frames[0].function, first[i]);
	}
	free(all);
	symbol_cache_close(c);
}

/* Writes an entry and reads its file. */
static size_t entry_bytes(uint8_t *bytes, size_t most)
{
	const struct symbol_evidence none = {0};
	write_entry(SYMBOL_DEBUG_WHOLE, &none, NULL);
	FILE *f = fopen(entry_path(), "rb");
	size_t size = fread(bytes, 1, most, f);
	fclose(f);
	return size;
}

TEST(test_every_damage_is_noticed)
{
	static uint8_t bytes[8192];
	size_t size = entry_bytes(bytes, sizeof bytes);
	assert_in_range(size, sizeof(struct cached_header) + 1, sizeof bytes - 1);
	struct symbol_cache *c = symbol_cache_parse(bytes, size, id, sizeof id);
	assert_non_null(c);
	symbol_cache_close(c);
	for (size_t i = 0; i < size; i++) {
		bytes[i] ^= 0x10;
		assert_null(symbol_cache_parse(bytes, size, id, sizeof id));
		bytes[i] ^= 0x10;
		assert_null(symbol_cache_parse(bytes, i, id, sizeof id));
	}
	assert_null(symbol_cache_parse(bytes, size + 1, id, sizeof id));
	uint8_t other[20] = {0xab, 0xce};
	assert_null(symbol_cache_parse(bytes, size, other, sizeof other));
	assert_null(symbol_cache_parse(bytes, size, id, 19));
}

/* With a right checksum, what does not fit together must still be refused. */
TEST(test_right_checksum_wrong_content)
{
	static uint8_t bytes[8192];
	size_t size = entry_bytes(bytes, sizeof bytes);
	struct cached_header h;
	size_t addresses = sizeof h, frames = addresses + 3 * 24;
	size_t first = frames + 3 * sizeof(struct cached_frame);
	const struct {
		size_t at;
		uint32_t value;
	} wrong[] = {
		{addresses + 8, 0x10}, /* an address twice */
		{frames, 1000},        /* a string that is not there */
		{frames + 12, 2},      /* neither true nor false */
		{first + 4, 4},        /* more frames than there are */
		{first + 8, 1},        /* fewer than before */
		{first + 16, 1 << 20}, /* a string that ends beyond the end */
		{offsetof(struct cached_header, places), UINT32_MAX},
		{offsetof(struct cached_header, strings), UINT32_MAX},
		{offsetof(struct cached_header, debug), 77},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		uint8_t copy[8192];
		memcpy(copy, bytes, size);
		memcpy(copy + wrong[i].at, &wrong[i].value, 4);
		memcpy(&h, copy, sizeof h);
		h.checksum = cache_checksum(&h, copy + sizeof h, size - sizeof h);
		memcpy(copy, &h, sizeof h);
		if (symbol_cache_parse(copy, size, id, sizeof id))
			fail_msg("case %zu was taken", i);
	}
}

TEST(test_file_that_is_not_our_own)
{
	const struct symbol_evidence none = {0};
	write_entry(SYMBOL_DEBUG_WHOLE, &none, NULL);
	assert_int_equal(chmod(entry_path(), 0666), 0); /* anyone might have written it */
	assert_null(symbol_cache_open(folder, "/module", id, sizeof id));
	char kept[256];
	snprintf(kept, sizeof kept, "%s", path_in("kept"));
	assert_int_equal(chmod(entry_path(), 0600), 0);
	assert_int_equal(rename(entry_path(), kept), 0);
	assert_int_equal(symlink(kept, entry_path()), 0);
	assert_null(symbol_cache_open(folder, "/module", id, sizeof id));
	assert_int_equal(unlink(entry_path()), 0);
	assert_null(symbol_cache_open("/nonexistent", "/module", id, sizeof id));
	assert_null(symbol_cache_open(folder, "/module", id, 0));
}

/* The same build id at another path is another module: who can name a build id cannot give it names there. */
TEST(test_another_path)
{
	const struct symbol_evidence none = {0};
	char name[SYMBOL_CACHE_NAME];
	write_entry(SYMBOL_DEBUG_WHOLE, &none, NULL);
	assert_null(symbol_cache_open(folder, "/other", id, sizeof id));
	symbol_cache_name(name, "/other", id, sizeof id);
	char command[1024];
	snprintf(command, sizeof command, "cp %s %s/%s", entry_path(), folder, name);
	assert_int_equal(system(command), 0);
	assert_null(symbol_cache_open(folder, "/other", id, sizeof id)); /* it says what it is of */
}

TEST(test_evidence)
{
	struct symbol_evidence e = {0};
	char there[256], absent[256];
	snprintf(there, sizeof there, "%s", path_in("there"));
	snprintf(absent, sizeof absent, "%s", path_in("absent"));
	write_text(there, "one");
	symbol_evidence_look(&e, there);
	symbol_evidence_look(&e, absent);
	symbol_evidence_look(&e, absent); /* once is enough */
	assert_int_equal(e.count, 2);
	assert_true(symbol_evidence_holds(&e, NULL, NULL));
	assert_false(symbol_evidence_holds(&e, "http://x", NULL)); /* it was not asked */
	symbol_evidence_asked(&e, "http://x", true);
	assert_true(symbol_evidence_holds(&e, "http://x", NULL));
	assert_true(symbol_evidence_holds(&e, NULL, NULL));
	assert_false(symbol_evidence_holds(&e, "http://y", NULL));
	symbol_evidence_roots(&e, "/roots");
	assert_true(symbol_evidence_holds(&e, NULL, "/roots"));
	assert_false(symbol_evidence_holds(&e, NULL, "/roots:/more"));
	assert_false(symbol_evidence_holds(&e, NULL, NULL));
	free(e.lines[--e.count].path);

	write_entry(SYMBOL_DEBUG_NONE, &e, NULL); /* survives being written and read */
	struct symbol_cache *c = symbol_cache_open(folder, "/module", id, sizeof id);
	const struct symbol_evidence *read = symbol_cache_evidence(c);
	assert_int_equal(read->count, 3);
	assert_true(symbol_evidence_has_file(read, there));
	assert_false(symbol_evidence_has_file(read, absent));
	assert_true(symbol_evidence_holds(read, "http://x", NULL));
	write_text(absent, "");
	assert_false(symbol_evidence_holds(read, NULL, NULL));
	assert_int_equal(unlink(absent), 0);
	assert_true(symbol_evidence_holds(read, NULL, NULL));
	write_text(there, "longer");
	assert_false(symbol_evidence_holds(read, NULL, NULL));
	symbol_cache_close(c);

	e.lines[2].time_ns -= 2 * SYMBOL_NO_SECONDS * INT64_C(1000000000);
	write_text(there, "one");
	assert_false(symbol_evidence_holds(&e, "http://x", NULL)); /* too long ago */
	symbol_evidence_fini(&e);
}

TEST(test_folder_stays_bounded)
{
	char command[512];
	/* Five files of 1,000 bytes, the first not used for longest; a bound of 4,000. */
	snprintf(command, sizeof command,
		 "cd %s && rm -f * && for i in 1 2 3 4 5; do head -c 1000 /dev/zero > aaaa$i; "
		 "touch -d \"2026-01-0$i\" aaaa$i; done; touch -d 2026-01-01 aaaa9.1.new; "
		 "touch notes",
		 folder);
	assert_int_equal(system(command), 0);
	symbol_cache_trim(folder, 5000);
	assert_int_equal(access(path_in("aaaa1"), F_OK), 0);
	assert_int_not_equal(access(path_in("aaaa9.1.new"), F_OK), 0); /* left by a killed writer */
	symbol_cache_trim(folder, 4000);
	assert_int_not_equal(access(path_in("aaaa1"), F_OK), 0);
	assert_int_not_equal(access(path_in("aaaa2"), F_OK), 0); /* down to three quarters */
	assert_int_equal(access(path_in("aaaa3"), F_OK), 0);
	assert_int_equal(access(path_in("notes"), F_OK), 0);
	symbol_cache_trim("/nonexistent", 0);
}

static const char *name_in(const struct perf_map *map, uint64_t address)
{
	const char *name;
	assert_int_equal(perf_map_name(map, pool, address, &name), 0);
	return name;
}

TEST(test_perf_map)
{
	static const char text[] = "1000 100 a function\n"
				   "0x1080 40 one inside it\n"
				   "5000 10 old name\n"
				   "zz 1 not a number\n"
				   "12345678901234567 1 too long\n"
				   "2000 0 empty\n"
				   "3000 10\n"
				   "ffffffffffffffff 2 over the end\n"
				   "\n"
				   "5000 20 new name \r\n"
				   "6000 8 last";
	struct perf_map *map = perf_map_parse(text, sizeof text - 1);
	assert_non_null(map);
	assert_null(name_in(map, 0xfff));
	assert_string_equal(name_in(map, 0x1000), "a function");
	assert_string_equal(name_in(map, 0x107f), "a function");
	assert_string_equal(name_in(map, 0x1080), "one inside it"); /* written later */
	assert_string_equal(name_in(map, 0x10c0), "a function");
	assert_null(name_in(map, 0x1100));
	assert_null(name_in(map, 0x2000));
	assert_null(name_in(map, 0x3000));
	assert_string_equal(name_in(map, 0x501f), "new name");
	assert_string_equal(name_in(map, 0x6007), "last");
	assert_null(name_in(map, 0x6008));
	assert_null(name_in(map, UINT64_MAX));
	perf_map_close(map);
	assert_null(perf_map_parse("nothing\n", 8));
	assert_null(perf_map_parse("", 0));
	assert_null(perf_map_open(-1, 0));
}

TEST(test_package_names)
{
	char name[128];
	assert_false(debug_package_name("/opt/x/libc.so.6", name, sizeof name));
	assert_false(debug_package_name("/usr/lib/libheft-no-such.so.6", name, sizeof name));
	assert_false(debug_package_is_system("/usr/local/lib/libx.so"));
	assert_true(debug_package_is_system("/usr/bin/x"));
	if (access("/var/lib/dpkg/info/libc6:amd64.list", R_OK) != 0)
		return; /* not Debian */
	assert_true(debug_package_name("/lib/x86_64-linux-gnu/libc.so.6", name, sizeof name));
	assert_string_equal(name, "libc6-dbg");
	assert_true(debug_package_name("/usr/lib/x86_64-linux-gnu/libc.so.6", name, sizeof name));
	assert_string_equal(name, "libc6-dbg");
	assert_false(
		debug_package_name("/usr/lib/libc.so.6", name, sizeof name)); /* not its file */
}

static void write_list(const char *where, const char *file, const char *text)
{
	char path[300];
	snprintf(path, sizeof path, "%s/%s", where, file);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

/* A folder like dpkg's, with what makes paths differ from lists. */
TEST(test_packages_of_paths)
{
	static const struct {
		const char *path, *package; /* NULL: not sure */
	} cases[] = {
		{"/usr/lib/x/libone.so.1", "libone1-dbgsym"}, /* by rule */
		{"/usr/bin/redis-check-rdb", "redis-tools-dbgsym"},
		/* merged /usr: lists have either */
		{"/lib/x/libone.so.1", "libone1-dbgsym"},
		{"/usr/bin/old", "old-tools-dbgsym"},
		{"/bin/old", "old-tools-dbgsym"},
		{"/usr/lib64/ld.so", "loader-dbgsym"},
		/* diverted: the new package's file stands there, the old one's is aside */
		{"/usr/bin/config", "diverter-dbgsym"},
		{"/usr/bin/config.real", "diverted-dbgsym"},
		{"/usr/bin/local", NULL},
		{"/usr/bin/local.orig", "localised-dbgsym"},
		/* of several, of none, in the name of another */
		{"/usr/lib/x/shared.so", NULL},
		{"/usr/bin/none", NULL},
		{"/usr/bin/redis-check", NULL},
		{"/usr/bin/python3.99", NULL},
		{"/usr/lib/x/libc.so.6", "libc6-dbg"},
	};
	char dpkg[] = "/tmp/heft-dpkg-XXXXXX", info[64], name[128], link[100], file[100];
	assert_non_null(mkdtemp(dpkg));
	snprintf(info, sizeof info, "%s/info", dpkg);
	assert_int_equal(mkdir(info, 0700), 0);
	write_list(info, "libone1:amd64.list", "/.\n/usr/lib/x/libone.so.1\n");
	write_list(info, "redis-tools.list", "/.\n/usr/bin/redis-check-rdb\n/usr/bin/redis-cli\n");
	write_list(info, "redis-tools.md5sums", "/usr/bin/none\n");
	write_list(info, "old-tools.list", "/bin/old\n");
	write_list(info, "loader:amd64.list", "/lib64/ld.so\n");
	write_list(info, "diverter.list", "/usr/bin/config\n");
	write_list(info, "diverted.list", "/usr/bin/config\n");
	write_list(info, "localised.list", "/usr/bin/local\n");
	write_list(info, "one-of-two.list", "/usr/lib/x/shared.so\n");
	write_list(info, "two-of-two.list", "/usr/lib/x/shared.so\n");
	write_list(info, "python3.99-minimal.list", "/usr/bin/python3.99\n");
	write_list(info, "libc6:amd64.list", "/lib/x/libc.so.6\n");
	write_list(dpkg, "diversions",
		   "/usr/share/doc/a\n/usr/share/doc/b\nother\n"
		   "/usr/bin/config\n/usr/bin/config.real\ndiverter\n"
		   "/usr/bin/local\n/usr/bin/local.orig\n:\n");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool found = debug_package_name_in(dpkg, cases[i].path, name, sizeof name);
		if (found != (cases[i].package != NULL))
			fail_msg("%s: %s", cases[i].path, found ? name : "not found");
		if (found)
			assert_string_equal(name, cases[i].package);
	}
	/* As with alternatives: a path that is a link to a file of a package. */
	snprintf(file, sizeof file, "%s/libchosen.so.3", info);
	snprintf(link, sizeof link, "%s/libgeneric.so.3", dpkg);
	write_list(info, "libchosen.so.3", "x");
	assert_int_equal(symlink(file, link), 0);
	char text[120];
	snprintf(text, sizeof text, "%s\n", file);
	write_list(info, "libchosen3.list", text);
	assert_true(debug_package_name_in(dpkg, link, name, sizeof name));
	assert_string_equal(name, "libchosen3-dbgsym");
	assert_false(debug_package_name_in("/nowhere", "/usr/bin/old", name, sizeof name));
	snprintf(text, sizeof text, "rm -r %s", dpkg);
	assert_int_equal(system(text), 0);
}

UNIT_TESTS(set_up, tear_down)
