/* jemalloc's and gperftools' text: estimates worked out by hand, threads, mappings, bad lines. */
#include "import_fixture.h"

#include <inttypes.h>

#define MAPS                                                                                       \
	"\nMAPPED_LIBRARIES:\n"                                                                    \
	"00400000-00401000 r--p 00000000 fe:00 1                          /no/such/prog\n"         \
	"00401000-00402000 r-xp 00001000 fe:00 1                          /no/such/prog\n"         \
	"7f0000001000-7f0000002000 r-xp 00003000 fe:00 2                  /no/such/lib a.so\n"     \
	"7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                  [stack]\n"

/* Rate 1000. 1 - exp(-1) = 0.632121: a mean of 1000 bytes stands for 1.581977 as many.
 * 1 - exp(-0.1) = 0.0951626: a mean of 100 bytes for 10.508332. */
static const char jemalloc[] = "heap_v2/1000\n"
			       "  t*: 10: 10000 [25: 20500]\n"
			       "  t1: 4: 4000 [0: 0] main\n"
			       "  t7: 6: 6000 [0: 0]\n"
			       "@ 0x401010 0x401021 0x7f0000001235\n"
			       "  t*: 10: 10000 [20: 20000]\n"
			       "  t1: 4: 4000 [0: 0]\n"
			       "  t7: 6: 6000 [0: 0]\n"
			       "@ 0x401030 0x401021 0x7f0000001235\n"
			       "  t*: 0: 0 [5: 500]\n" MAPS;

TEST(test_jemalloc)
{
	struct profile *p = import_text(jemalloc);
	(void)state;
	assert_string_equal(p->run.format, "jemalloc");
	assert_int_equal(p->run.has,
			 PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED | PROFILE_HAS_THREADS);
	assert_int_equal(p->run.rate_bytes, 1000);
	assert_int_equal(p->site_count, 2);
	/* the innermost address is exact, the callers' are return addresses; a program that runs this
	 * low is linked for these addresses, the library is at 0x7f0000001000 - 0x3000 */
	const struct profile_site *s = site_of(p, "prog+0x401010", "prog+0x401020");
	assert_int_equal(s->live_blocks, 16);
	assert_int_equal(s->live_bytes, 15820);
	assert_int_equal(s->allocations, 32);
	assert_int_equal(s->allocated_bytes, 31640);
	assert_int_equal(s->via, PROFILE_VIA_UNKNOWN);
	assert_int_equal(s->id, 1); /* most live bytes first: there is no peak */
	uint32_t outer = p->stacks.nodes[p->stacks.nodes[s->node].parent].parent;
	assert_string_equal(p->stacks.frames[p->stacks.nodes[outer].frame].function,
			    "lib a.so+0x3234");
	s = site_of(p, "prog+0x401030", "prog+0x401020");
	assert_int_equal(s->live_blocks, 0);
	assert_int_equal(s->live_bytes, 0);
	assert_int_equal(s->allocations, 53);
	assert_int_equal(s->allocated_bytes, 5254);
	/* totals are the sums of the estimates, not estimates of the sums */
	assert_int_equal(p->totals.live_bytes, 15820);
	assert_int_equal(p->totals.allocated_bytes, 31640 + 5254);
	assert_int_equal(p->thread_count, 2);
	assert_string_equal(p->threads[0].name, "main");
	assert_int_equal(p->threads[0].live_blocks, 6);
	assert_int_equal(p->threads[0].live_bytes, 6328);
	assert_int_equal(p->threads[1].tid, 7);
	assert_string_equal(p->threads[1].name, "");
	assert_int_equal(p->threads[1].live_blocks, 9);
	assert_int_equal(p->threads[1].live_bytes, 9492);
	profile_free(p);
}

/* A rate of 1 samples everything; without prof_accum nothing is known since the start; a stack that
 * comes twice is one site. */
TEST(test_jemalloc_exact)
{
	struct profile *p = import_text("heap_v2/1\n  t*: 3: 96 [0: 0]\n"
					"@ 0x401010\n  t*: 1: 32 [0: 0]\n"
					"@ 0x401010\n  t*: 2: 64 [0: 0]\n"
					"@\n  t*: 1: 8 [0: 0]\n" MAPS);
	(void)state;
	assert_int_equal(p->run.has, PROFILE_HAS_LIVE);
	assert_int_equal(p->run.rate_bytes, 0);
	assert_int_equal(p->site_count, 2);
	const struct profile_site *s = site_of(p, "prog+0x401010", NULL);
	assert_int_equal(s->live_bytes, 96);
	assert_int_equal(s->live_blocks, 3);
	assert_int_equal(s->merged, 2);
	assert_int_equal(p->sites[1].node, PROFILE_NONE);
	profile_free(p);
}

TEST(test_jemalloc_bad)
{
	char text[sizeof jemalloc + 64];
	(void)state;
	import_bad_text("heap_v2/x\n", 0, "sampling rate");
	import_bad_text("heap_v2/0\n", 0, "sampling rate");
	import_bad_text("heap_v2/5\n@ 0x1 zz\n", 16, "an address");
	import_bad_text("heap_v2/5\n@ 0x11112222333344445\n", 14, "an address");
	import_bad_text("heap_v2/5\n@ 0x1\n@ 0x2\n", 16, "'t*'");
	import_bad_text("heap_v2/5\n@ 0x1\n  t*: 1: 2\n", 16, "'t*: objects");
	import_bad_text("heap_v2/5\n@ 0x1\n  t*: 1: 99999999999999999999 [0: 0]\n", 16,
			"'t*: objects");
	import_bad_text("heap_v2/5\nhello\n", 10, "a stack");
	import_bad_text("heap_v2/5\n@ 0x1\n  t*: 1: 2 [0: 0]\n", 34, "cut");
	import_bad_text("heap_v2/5\n@ 0x1\n  t*: 1: 2 [0: 0]", 33, "cut");
	import_bad_text("heap_v2/5\n@ 0x1\n\nMAPPED_LIBRARIES:\n", 17, "'t*'");
	/* cut anywhere before the mappings it is refused, never read as less */
	size_t maps = (size_t)(strstr(jemalloc, "MAPPED") - jemalloc) +
		      strlen("MAPPED_LIBRARIES:\n");
	for (size_t n = strlen("heap_v2/"); n < maps; n++) {
		struct profile *p = NULL;
		struct heft_error err;
		memcpy(text, jemalloc, n);
		assert_int_equal(import_bytes_with(&p, text, n, NULL, &err), HEFT_EFORMAT);
	}
}

/* Found by its own symbol: this program's mappings, as a dump of it would have them. */
__attribute__((noinline)) void marked_place(void);
void marked_place(void)
{
	__asm__ volatile("");
}

TEST(test_own_mappings)
{
	char *text = NULL, line[4096];
	size_t length;
	(void)state;
	FILE *out = open_memstream(&text, &length), *maps = fopen("/proc/self/maps", "r");
	fprintf(out, "heap_v2/1\n  t*: 1: 32 [0: 0]\n@ 0x%" PRIxPTR "\n  t*: 1: 32 [0: 0]\n",
		(uintptr_t)marked_place);
	fprintf(out, "\nMAPPED_LIBRARIES:\n");
	while (fgets(line, sizeof line, maps))
		fputs(line, out);
	fclose(maps);
	fclose(out);
	struct profile *p = import_ok(text, length);
	const struct profile_site *s = site_of(p, "marked_place", NULL);
	const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[s->node].frame];
	assert_non_null(strstr(f->file, "test_import_text.c"));
	assert_true(p->stacks.modules[f->module].build_id_len > 0);
	profile_free(p);
	free(text);
}

TEST(test_gperftools)
{
	struct profile *p = import_text(
		"heap profile:      3:     1300 [     5:     9000] @ heapprofile\n"
		"     2:     1000 [     4:     8000] @ 0x401010 0x401021\n"
		"     1:      300 [     1:     1000] @ 0x401030\n" MAPS);
	(void)state;
	assert_string_equal(p->run.format, "gperftools");
	assert_int_equal(p->run.has, PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED);
	assert_int_equal(p->run.rate_bytes, 0);
	const struct profile_site *s = site_of(p, "prog+0x40100f", "prog+0x401020");
	assert_int_equal(s->live_blocks, 2);
	assert_int_equal(s->live_bytes, 1000);
	assert_int_equal(s->allocations, 4);
	assert_int_equal(s->allocated_bytes, 8000);
	assert_int_equal(p->totals.live_bytes, 1300);
	profile_free(p);
}

TEST(test_gperftools_sampled)
{
	/* as the sample of a live process has it: the brackets repeat, so nothing is known of them */
	struct profile *p = import_text("heap profile: 10: 10000 [10: 10000] @ heap_v2/1000\n"
					"10: 10000 [10: 10000] @ 0x401010\n" MAPS);
	assert_int_equal(p->run.has, PROFILE_HAS_LIVE);
	assert_int_equal(p->run.rate_bytes, 1000);
	assert_int_equal(p->sites[0].live_bytes, 15820);
	assert_int_equal(p->sites[0].live_blocks, 16);
	assert_int_equal(p->sites[0].allocations, 0);
	profile_free(p);
	/* the old way: of blocks of 100 bytes, one in 1000/2/100 = 5; larger ones all */
	p = import_text("heap profile: 10: 1000 [10: 1000] @ heap/1000\n"
			"10: 1000 [10: 1000] @ 0x401010\n"
			"2: 2000 [2: 2000] @ 0x401020\n" MAPS);
	assert_int_equal(site_of(p, "prog+0x40100f", NULL)->live_bytes, 5000);
	assert_int_equal(site_of(p, "prog+0x40100f", NULL)->live_blocks, 50);
	assert_int_equal(site_of(p, "prog+0x40101f", NULL)->live_bytes, 2000);
	profile_free(p);
	p = import_text("heap profile: 1: 1048576 [1: 1048576] @ growth\n"
			"1: 1048576 [1: 1048576] @ 0x401010\n" MAPS);
	assert_int_equal(p->run.has, PROFILE_HAS_ALLOCATED);
	assert_int_equal(p->totals.allocated_bytes, 1048576);
	assert_int_equal(p->totals.live_bytes, 0);
	profile_free(p);
}

TEST(test_gperftools_bad)
{
	import_bad_text("heap profile: 1: 2 @ heapprofile\n", 0, "'heap profile:");
	import_bad_text("heap profile: 1: 2 [1: 2] @ cpu\n", 28, "'heapprofile'");
	import_bad_text("heap profile: 1: 2 [1: 2] @ heapprofile\nxyz\n", 40, "'objects: bytes");
	import_bad_text("heap profile: 1: 2 [1: 2] @ heapprofile\n1: 2 [1: 2] @ 0x1\n", 58, "cut");
}

UNIT_TESTS(NULL, NULL)
