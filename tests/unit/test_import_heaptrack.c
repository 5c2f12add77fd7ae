/* heaptrack's two kinds of files: sums, the peak in one pass, temporary allocations, bad lines. */
#include "import_fixture.h"

/* main calls f (24 bytes twice) and g, inlined into h (100 bytes). Time runs 0, 16, 32 ms.
 *   + f 24, + g 100, - f, + f 24 (124 again: the peak stays the first), - f, - g, + g 100 */
#define HEAD                                                                                       \
	"v 10400 3\nX ./prog an argument\nI 1000 100\n"                                            \
	"s 9 /bin/prog\ns 4 main\ns 3 p.c\ns 1 f\ns 1 g\ns 1 h\n"                                  \
	"i 1000 1 2 3 a\ni 1010 1 4 3 14\ni 1020 1 5 3 1e 6 3 28\n"                                \
	"t 1 0\nt 2 1\nt 3 1\n"                                                                    \
	"a 18 2\na 64 3\n"

static const char interpreted[] = HEAD "+ 0\nc 10\n+ 1\nR 20\n- 0\n+ 0\nc 20\n- 0\n- 1\nR 5\n+ 1\n";

TEST(test_interpreted)
{
	struct profile *p = import_text(interpreted);
	(void)state;
	assert_string_equal(p->run.format, "heaptrack");
	assert_int_equal(p->run.has, PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED |
					     PROFILE_HAS_TIMES | PROFILE_HAS_TEMPORARY |
					     PROFILE_HAS_OWN_PEAK);
	assert_int_equal(p->run.argc, 3);
	assert_string_equal(p->run.argv[2], "argument");
	assert_int_equal(p->run.duration_ns, 32000000);
	assert_int_equal(p->totals.peak_bytes, 124);
	assert_int_equal(p->totals.peak_blocks, 2);
	assert_int_equal(p->totals.peak_time_ns, 16000000);
	assert_int_equal(p->totals.live_bytes, 100);
	assert_int_equal(p->totals.allocations, 4);
	assert_int_equal(p->totals.allocated_bytes, 248);
	assert_int_equal(p->totals.temporary, 1); /* the second f; the last - is not the last + */
	assert_int_equal(p->totals.peak_rss_bytes, 0x20 * 0x1000);
	const struct profile_site *f = site_of(p, "f", "main"), *g = site_of(p, "g", "h");
	assert_int_equal(f->allocations, 2);
	assert_int_equal(f->peak_bytes, 24);
	assert_int_equal(f->live_bytes, 0);
	assert_int_equal(f->temporary, 1);
	assert_int_equal(g->peak_bytes, 100);
	assert_int_equal(g->own_peak_bytes, 100);
	assert_int_equal(g->live_blocks, 1);
	const struct profile_frame *frame = &p->stacks.frames[p->stacks.nodes[g->node].frame];
	assert_true(frame->inlined);
	assert_int_equal(frame->line, 0x1e);
	assert_string_equal(frame->file, "p.c");
	assert_string_equal(p->stacks.modules[frame->module].path, "/bin/prog");
	profile_free(p);
}

/* The peak moves on: 10 of a; then 4 of b after a went down; then a and b rise to 14 of each. Only
 * the last one counts, and a site that did not change after the peak is taken as it is at the end. */
TEST(test_peak_moves)
{
	struct profile *p = import_text("v 10400 3\ns 1 m\ns 1 a\ns 1 b\ns 1 c\n"
					"i 1 1 2\ni 2 1 3\ni 3 1 4\nt 1 0\nt 2 0\nt 3 0\n"
					"a a 1\na 4 2\na e 1\na e 2\na 1 3\n"
					"+ 0\n- 0\n+ 1\n+ 4\n+ 2\n+ 3\n- 1\n- 4\n- 3\n");
	(void)state;
	/* 10 | 0 | 4 | 5 | 19 | 33 | 29 28 14: peak 33 = a 14 + b 18 + c 1 */
	assert_int_equal(p->totals.peak_bytes, 33);
	assert_int_equal(site_of(p, "a", NULL)->peak_bytes, 14);
	assert_int_equal(site_of(p, "b", NULL)->peak_bytes, 18);
	assert_int_equal(site_of(p, "b", NULL)->peak_blocks, 2);
	assert_int_equal(site_of(p, "c", NULL)->peak_bytes, 1);
	assert_int_equal(p->totals.live_bytes, 14);
	profile_free(p);
}

/* Addresses: a free takes what was there; an address made again without a free replaces it; a free
 * of what is unknown is counted. Modules change while it runs. */
TEST(test_raw)
{
	struct profile *p = import_text("v 10400 3\nx 9 /no/a bin\nX ./a\nI 1000 100\n"
					"m 1 -\nm 1 x 5000 0 1000\nm 9 /no/so.so 90000 0 1000\n"
					"t 5010 0\nt 90020 1\n"
					"+ 20 2 aaa0\nc 10\n+ 30 1 bbb0\n- aaa0\n- ccc0\n"
					"m 1 -\nm 9 /no/other 90000 0 1000\nt 90020 1\n"
					"+ 40 3 aaa0\nc 1a\n+ 8 3 aaa0\n- 0\nc 24\n- bbb0\n");
	(void)state;
	assert_true(p->run.has & PROFILE_HAS_MEAN_LIFETIME);
	const struct profile_site *so = site_of(p, "so.so+0x20", "a bin+0x10");
	const struct profile_site *bin = site_of(p, "a bin+0x10", NULL);
	const struct profile_site *other = site_of(p, "other+0x20", "a bin+0x10");
	assert_int_equal(so->allocations, 1);
	assert_int_equal(so->live_blocks, 0);
	assert_int_equal(so->lifetime.mean_ns, 16000000);  /* made at 0, freed at 16 ms */
	assert_int_equal(bin->lifetime.mean_ns, 20000000); /* 16 to 36 ms */
	assert_int_equal(other->allocations, 2);
	assert_int_equal(other->live_blocks, 1);
	assert_int_equal(other->live_bytes, 8);
	assert_int_equal(p->totals.unknown_frees, 1);
	assert_int_equal(p->totals.peak_bytes, 0x30 + 0x40);
	profile_free(p);
}

TEST(test_old_strings)
{
	struct profile *p = import_text("v 10000 1\nX a\ns /bin/a b\ns operator()(int) const\n"
					"i 1 1 2\nt 1 0\na 8 1\n+ 0\n");
	(void)state;
	assert_int_equal(site_of(p, "operator()(int) const", NULL)->live_bytes, 8);
	profile_free(p);
}

TEST(test_bad)
{
	import_bad_text("v 10400 4\n", 0, "file format 1 to 3");
	import_bad_text("v 10400 3\n+ 0\n", 10, "'a'");
	import_bad_text("v 10400 3\n+ \n", 10, "'a'");
	import_bad_text("v 10400 3\nt 1 0\n", 10, "'i'");
	import_bad_text("v 10400 3\nt 0 1\n", 10, "defined before"); /* its own parent: a cycle */
	import_bad_text("v 10400 3\nt 0 0\nt 0 3\n", 16, "defined before");
	import_bad_text("v 10400 3\na 10 1\n", 10, "a trace that was defined");
	import_bad_text("v 10400 3\na ffffffffffffffff 0\n", 10, "'a SIZE");
	import_bad_text("v 10400 3\ns 5 abc\n", 10, "'s LENGTH");
	import_bad_text("v 10400 3\ns ffffffffffffffff abc\n", 10, "'s LENGTH");
	import_bad_text("v 10400 3\ni 1 1\n", 10, "'i ADDRESS");
	import_bad_text("v 10400 3\ns 1 a\ni 1 1 2\n", 16, "strings");
	import_bad_text("v 10400 3\nc zz\n", 10, "'c");
	import_bad_text("v 10400 3\n?\n", 10, "a line of a heaptrack file");
	import_bad_text("v 10400 3\nt 0 0\nx 1 a\n", 16, "interpreted");
	import_bad_text("v 10400 3\nx 1 a\n+ 8 1 aa\n", 16, "'+ SIZE");
	import_bad_text("v 10400 3\nx 1 a\nm 1 b zz\n", 16, "'m LENGTH");
	import_bad_text("v 10400 3\nc 10", 14, "cut");
	/* a number of more digits than fit is no index, whatever it wraps to */
	import_bad_text(HEAD "+ 10000000000000000\n", sizeof HEAD - 1, "'a'");
}

UNIT_TESTS(NULL, NULL)
