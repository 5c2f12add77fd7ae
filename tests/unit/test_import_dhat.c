/* DHAT's JSON: both producers, frames as texts, time units, bad JSON. */
#include "import_fixture.h"

static const char dhat[] =
	"{\"dhatFileVersion\":2\n,\"mode\":\"heap\",\"verb\":\"Allocated\"\n,\"bklt\":true,"
	"\"bkacc\":true\n"
	",\"tu\":\"instrs\",\"Mtu\":\"Minstr\",\"tuth\":500,\"cmd\":\"./a "
	"b\",\"pid\":77,\"te\":1000,\"tg\":400\n"
	",\"pps\":\n "
	"[{\"tb\":5000,\"tbk\":5,\"tl\":100,\"mb\":1,\"mbk\":1,\"gb\":2000,\"gbk\":2,\"eb\":1000,"
	"\"ebk\":1,\"rb\":7,\"wb\":8,\"acc\":[-1000,0,{\"x\":[\"]\"]}],\"fs\":[1,2,3]}\n"
	" ,{\"tb\":64,\"tbk\":2,\"tl\":9,\"mb\":1,\"mbk\":1,\"gb\":0,\"gbk\":0,\"eb\":0,\"ebk\":0,"
	"\"fs\":[4,5,6,3]}\n"
	" ,{\"tb\":8,\"tbk\":1,\"tl\":0,\"mb\":8,\"mbk\":1,\"gb\":8,\"gbk\":1,\"eb\":8,\"ebk\":1,"
	"\"fs\":[7,8]}]\n"
	",\"ftbl\":[\"[root]\"\n,\"0x48417B4: malloc (in "
	"/usr/libexec/valgrind/vgpreload_dhat-amd64-linux.so)\"\n"
	",\"0x1091B6: leak (a.c:5)\"\n,\"0x1092C4: main (a.c:11)\"\n"
	",\"0x48417B5: operator new(unsigned long) (vg_replace_malloc.c:3)\"\n"
	",\"0x2000: inner(int) (x.h:7)\",\"0x2000: ns::outer(char const*) (x.cc:9)\"\n"
	",\"0x3000: ??? (in /lib/x.so)\",\"0x4000: operator()(int)\"]}\n";

TEST(test_valgrind)
{
	struct profile *p = import_text(dhat);
	(void)state;
	assert_string_equal(p->run.format, "dhat");
	/* the clock counts instructions: no times, no lifetimes */
	assert_int_equal(p->run.has, PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED);
	assert_int_equal(p->run.pid, 77);
	assert_string_equal(p->run.argv[1], "b");
	assert_int_equal(p->site_count, 3);
	const struct profile_site *s = site_of(p, "leak", "main");
	assert_int_equal(s->via, PROFILE_VIA_MALLOC);
	assert_int_equal(s->allocations, 5);
	assert_int_equal(s->allocated_bytes, 5000);
	assert_int_equal(s->peak_bytes, 2000);
	assert_int_equal(s->peak_blocks, 2);
	assert_int_equal(s->live_bytes, 1000);
	assert_int_equal(s->live_blocks, 1);
	assert_int_equal(s->own_peak_bytes, 0); /* Valgrind's mb is wrong */
	s = site_of(p, "inner(int)", "ns::outer(char const*)");
	assert_int_equal(s->via, PROFILE_VIA_NEW);
	const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[s->node].frame];
	assert_true(f->inlined);
	assert_string_equal(f->file, "x.h");
	assert_int_equal(f->line, 7);
	s = site_of(p, "x.so+0x3000", "operator()(int)");
	f = &p->stacks.frames[p->stacks.nodes[s->node].frame];
	assert_string_equal(p->stacks.modules[f->module].path, "/lib/x.so");
	assert_int_equal(p->totals.allocations, 8);
	assert_int_equal(p->totals.peak_bytes, 2008);
	profile_free(p);
}

/* dhat-rs: microseconds, columns beside lines, escapes. */
TEST(test_rust)
{
	struct profile *p = import_text(
		"{\"dhatFileVersion\":2,\"mode\":\"rust-heap\",\"verb\":\"Allocated\","
		"\"bklt\":true,"
		"\"bkacc\":false,\"tu\":\"\xc2\xb5s\",\"Mtu\":\"s\",\"tuth\":10,"
		"\"cmd\":\"t\",\"pid\":1,"
		"\"tg\":70,\"te\":90,\"pps\":[{\"tb\":10,\"tbk\":4,\"tl\":20,\"mb\":6,"
		"\"mbk\":2,\"gb\":5,"
		"\"gbk\":1,\"eb\":0,\"ebk\":0,\"fs\":[1,2]}],"
		"\"ftbl\":[\"[root]\",\"0x10: k\\u00e9y\\ud83d\\ude00<T>::push (src/a "
		"\\\"b\\\".rs:12:5)\","
		"\"0x20: main (src/main.rs:3:1)\"]}");
	(void)state;
	assert_int_equal(p->run.has, PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED |
					     PROFILE_HAS_TIMES | PROFILE_HAS_MEAN_LIFETIME |
					     PROFILE_HAS_OWN_PEAK);
	assert_int_equal(p->run.duration_ns, 90000);
	assert_int_equal(p->totals.peak_time_ns, 70000);
	const struct profile_site *s = site_of(p, "k\xc3\xa9y\xf0\x9f\x98\x80<T>::push", "main");
	assert_int_equal(s->lifetime.mean_ns, 5000);
	assert_int_equal(s->own_peak_bytes, 6);
	const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[s->node].frame];
	assert_string_equal(f->file, "src/a \"b\".rs");
	assert_int_equal(f->line, 12);
	profile_free(p);
}

#define BEGIN "{\"dhatFileVersion\":2,\"mode\":\"heap\""

TEST(test_bad)
{
	struct profile *p;
	struct heft_error err;
	(void)state;
	import_bad_text("{\"dhatFileVersion\":3}", 20, "dhatFileVersion 2");
	import_bad_text("{\"dhatFileVersion\":2,\"mode\":\"ad-hoc\"}", 36, "'ad-hoc'");
	import_bad_text(BEGIN "}", sizeof BEGIN, "pps and ftbl");
	import_bad_text(BEGIN ",\"pps\":[{\"fs\":[9]}],\"ftbl\":[\"[root]\"]}",
			sizeof BEGIN - 1 + 8, "ftbl");
	import_bad_text(BEGIN ",\"pps\":[{\"tb\":-1}]}", sizeof BEGIN - 1 + 14, "not negative");
	import_bad_text(BEGIN ",\"pps\" 1}", sizeof BEGIN - 1 + 7, "':'");
	import_bad_text(BEGIN ",\"x\":\"\\q\"}", sizeof BEGIN - 1 + 7, "an escape");
	import_bad_text(BEGIN ",\"pps\":[],\"ftbl\":[]} x", sizeof BEGIN - 1 + 21, "nothing after");
	char deep[400] = BEGIN ",\"x\":";
	size_t used = strlen(deep);
	memset(deep + used, '[', 100);
	import_bad(deep, used + 100, used + 65, "less nesting");
	/* cut anywhere after it can be recognised, it is refused */
	for (size_t n = 20; n < sizeof dhat - 3; n++)
		assert_int_equal(import_bytes_with(&p, dhat, n, NULL, &err), HEFT_EFORMAT);
}

UNIT_TESTS(NULL, NULL)
