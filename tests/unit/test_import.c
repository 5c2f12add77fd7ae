/* The way in: compression, bounds against bombs, what is no profile, what may be selected. */
#include "import_fixture.h"

#include "import/import_source.h"

#include <zlib.h>
#include <zstd.h>

static const char small[] = "v 10400 3\ns 1 m\ns 1 f\ni 1 1 2\nt 1 0\na 8 1\n+ 0\n";

static size_t pack_gzip(const void *from, size_t length, uint8_t *to, size_t room)
{
	z_stream z = {0};
	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)from;
	z.avail_in = (uInt)length;
	z.next_out = to;
	z.avail_out = (uInt)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return room - z.avail_out;
}

TEST(test_compressed)
{
	uint8_t packed[4096];
	size_t n = pack_gzip(small, strlen(small), packed, sizeof packed);
	(void)state;
	struct profile *p = import_ok(packed, n);
	assert_int_equal(p->totals.live_bytes, 8);
	profile_free(p);
	/* two gzip members, then zeros as tar and tapes leave them */
	size_t half = 20, first = pack_gzip(small, half, packed, sizeof packed);
	n = first +
	    pack_gzip(small + half, strlen(small) - half, packed + first, sizeof packed - first);
	memset(packed + n, 0, 100);
	p = import_ok(packed, n + 100);
	assert_int_equal(p->totals.live_bytes, 8);
	profile_free(p);
	n = ZSTD_compress(packed, sizeof packed, small, half, 3);
	n += ZSTD_compress(packed + n, sizeof packed - n, small + half, strlen(small) - half, 3);
	p = import_ok(packed, n);
	assert_int_equal(p->totals.live_bytes, 8);
	profile_free(p);
}

/* Cut or damaged in any byte: refused or (a changed byte that is not looked at) read, never worse. */
TEST(test_damaged_compression)
{
	uint8_t packed[4096], copy[4096];
	(void)state;
	for (int zstd = 0; zstd < 2; zstd++) {
		size_t n = zstd ? ZSTD_compress(packed, sizeof packed, small, strlen(small), 3)
				: pack_gzip(small, strlen(small), packed, sizeof packed);
		for (size_t i = 0; i < n; i++) {
			struct profile *p = NULL;
			struct heft_error err;
			assert_true(import_bytes_with(&p, packed, i, NULL, &err) < 0);
			memcpy(copy, packed, n);
			copy[i] ^= 0x55;
			import_bytes_with(&p, copy, n, NULL, &err);
			profile_free(p);
		}
	}
}

/* 256 MiB of nothing in 256 KiB: refused by its ratio after 64 MiB. */
TEST(test_bombs)
{
	static const struct {
		const char *head, *line;
	} bombs[] = {
		{"heap_v2/1\n", "\n\n\n\n\n\n\n\n"},
		{"heap profile: 1: 2 [1: 2] @ heapprofile\n", "\n\n\n\n\n\n\n\n"},
		{"{\"dhatFileVersion\":2,\"pps\":[", "        "},
	};
	size_t length = (size_t)256 << 20, room = 1 << 20;
	char *text = malloc(length);
	uint8_t *packed = malloc(room);
	(void)state;
	for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
		struct profile *p = NULL;
		struct heft_error err;
		memset(text, bombs[i].line[0], length);
		memcpy(text, bombs[i].head, strlen(bombs[i].head));
		size_t n = pack_gzip(text, length, packed, room);
		assert_int_equal(import_bytes_with(&p, packed, n, NULL, &err), HEFT_EFORMAT);
		assert_non_null(strstr(err.message, "times its size"));
		assert_true(err.offset < 80 << 20);
	}
	free(text);
	free(packed);
}

TEST(test_long_line)
{
	size_t length = 3 << 20;
	char *text = malloc(length);
	(void)state;
	memset(text, '0', length);
	memcpy(text, "heap_v2/1\n@ 0x", 14);
	import_bad(text, length, 10, "a line of at most");
	memcpy(text, "v 10400 3\ns 10 ", 15);
	import_bad(text, length, 10, "a shorter line");
	free(text);
}

TEST(test_not_a_profile)
{
	static const char *const texts[] = {"",
					    "x",
					    "hello, world\n",
					    "\x7f"
					    "ELF",
					    "{\"a\":1}",
					    "heap_v3/5\n",
					    "v\n",
					    "\n\n\n",
					    "\x0a"};
	char zeros[5000] = {0};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		import_bad_text(texts[i], 0, "expected a heft recording, jemalloc heap_v2, ");
	import_bad(zeros, sizeof zeros, 0, "not a profile");
	memset(zeros, 0xff, sizeof zeros);
	import_bad(zeros, sizeof zeros, 0, "not a profile");
}

TEST(test_selection)
{
	struct profile *p = NULL;
	struct heft_error err;
	struct profile_selection sel = {.process_totals = true, .top_only = true};
	(void)state;
	assert_int_equal(import_bytes_with(&p, small, strlen(small), &sel, &err), 0);
	profile_free(p);
	sel.has_pid = true;
	assert_int_equal(import_bytes_with(&p, small, strlen(small), &sel, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "--pid"));
	assert_non_null(strstr(err.message, "heaptrack"));
	sel.has_pid = false;
	sel.thread = "main";
	assert_int_equal(import_bytes_with(&p, small, strlen(small), &sel, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "--thread"));
}

TEST(test_source_window)
{
	/* lines of every length around the window's size come out whole, with their offsets */
	size_t length = 5 << 20, line_count = 0, sum = 0;
	char *text = malloc(length), *line;
	struct import_source *in;
	struct heft_error err;
	uint32_t random = 1;
	(void)state;
	for (size_t i = 0; i < length; i++) {
		random = random * 1664525 + 1013904223;
		text[i] = random >> 28 == 0 && i % 3 ? '\n' : (char)('a' + (random >> 8) % 26);
	}
	text[length - 1] = '\n';
	assert_int_equal(import_source_open_bytes(&in, "text", text, length, &err), 0);
	size_t n, at = 0;
	while (import_source_line(in, &line, &n) == 1) {
		assert_int_equal(import_source_offset(in, line), at);
		assert_memory_equal(line, text + at, n);
		assert_int_equal(text[at + n], '\n');
		at += n + 1;
		line_count++;
		sum += n;
	}
	assert_int_equal(at, length);
	assert_int_equal(sum + line_count, length);
	import_source_close(in);
	free(text);
}

UNIT_TESTS(NULL, NULL)
