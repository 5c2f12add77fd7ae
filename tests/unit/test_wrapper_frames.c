/* Which function heads a site, on profiles made by hand: wrappers around malloc by what they do,
 * libraries that carry the user's code, Python's functions; and callers that tell sites apart. */
#include "diagnosis_fixture.h"

#include "profile/site_callers.h"
#include "profile/wrapper_frames.h"
#include "profile/wrapper_name.h"

static const char *heading(const struct profile *p, uint32_t site)
{
	return p->stacks
		.frames[p->stacks.nodes[profile_first_user_node(p, p->sites[site].node)].frame]
		.function;
}

static void expect_headings(struct profile *p, const char *const *expected)
{
	user_frame_find_machinery(p);
	for (uint32_t i = 0; i < p->site_count; i++)
		if (strcmp(heading(p, i), expected[i]) != 0)
			fail_msg("site %u is headed by %s, not %s", i, heading(p, i), expected[i]);
	profile_free(p);
}
#define EXPECT(p, ...) expect_headings(p, (const char *const[]){__VA_ARGS__})

TEST(test_names)
{
	static const struct {
		const char *function;
		enum wrapper_name kind;
	} cases[] = {
		{"os::malloc(unsigned long, MEMFLAGS)", WRAPPER_NAME_MALLOC},
		{"Arena::alloc(unsigned long)", WRAPPER_NAME_MALLOC},
		{"<shop::Arena as shop::Alloc>::alloc", WRAPPER_NAME_MALLOC},
		{"Pool<std::pair<int, long> >::allocate(int)", WRAPPER_NAME_MALLOC},
		{"ngx_calloc", WRAPPER_NAME_MALLOC},
		{"my_malloc.part.0", WRAPPER_NAME_MALLOC},
		{"av_malloc_array", WRAPPER_NAME_MALLOC},
		{"safeRealloc", WRAPPER_NAME_MALLOC},
		{"apr_pstrdup", WRAPPER_NAME_MALLOC},
		{"jv_mem_alloc", WRAPPER_NAME_MALLOC},
		{"ngx_alloc", WRAPPER_NAME_LIKELY},
		{"ngx_palloc", WRAPPER_NAME_LIKELY},
		{"nodeAlloc", WRAPPER_NAME_LIKELY},
		{"alloc_word_desc", WRAPPER_NAME_HINT},
		{"strbuf_grow", WRAPPER_NAME_HINT},
		{"Chunk::operator new(unsigned long)", WRAPPER_NAME_OPERATOR},
		{"node_new", WRAPPER_NAME_OBJECT},
		{"list_append", WRAPPER_NAME_OBJECT},
		{"parseNode", WRAPPER_NAME_OBJECT},
		{"renewal", WRAPPER_NAME_PLAIN},
		{"grab", WRAPPER_NAME_PLAIN},
		{"", WRAPPER_NAME_PLAIN},
		{"f(malloc_state*)", WRAPPER_NAME_PLAIN},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (wrapper_name_of(cases[i].function, true) != cases[i].kind)
			fail_msg("%s is %d, not %d", cases[i].function,
				 (int)wrapper_name_of(cases[i].function, true), (int)cases[i].kind);
	assert_int_equal(wrapper_name_of("git+0x289600", false), WRAPPER_NAME_NONE);
}

TEST(test_callers_decide_the_sizes)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 users:10 grab:5", 10, 120);
	add_site(p, "main:2 orders:20 grab:5", 12, 136);
	add_site(p, "main:3 prices:30 grab:5", 6, 152);
	EXPECT(p, "users", "orders", "prices");

	/* Two callers are not enough if the name says nothing. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 grab:5", 10, 120);
	add_site(p, "main:2 orders:20 grab:5", 12, 136);
	EXPECT(p, "grab", "grab");

	/* Sizes that vary within a caller are the data's: 10 blocks of 123.4 bytes on average. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 field:5", 10, 0)->allocated_bytes = 1234;
	add_site(p, "main:2 orders:20 field:5", 10, 0)->allocated_bytes = 2345;
	add_site(p, "main:3 prices:30 field:5", 10, 0)->allocated_bytes = 3457;
	EXPECT(p, "field", "field", "field");

	/* One block each, of sizes that no structure has: texts. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 field:5", 1, 121);
	add_site(p, "main:2 orders:20 field:5", 1, 133);
	add_site(p, "main:3 prices:30 field:5", 1, 155);
	EXPECT(p, "field", "field", "field");

	/* Called from eight functions it is as good as malloc, whatever decides the sizes. */
	for (unsigned callers = 7; callers <= 8; callers++) {
		p = new_profile(SECOND);
		for (unsigned i = 0; i < callers; i++) {
			char words[64];
			snprintf(words, sizeof words, "main:%u user%u:10 field:5", i, i);
			add_site(p, words, 10, 0)->allocated_bytes = 1234 + 111 * i;
		}
		user_frame_find_machinery(p);
		assert_string_equal(heading(p, 0), callers == 8 ? "user0" : "field");
		profile_free(p);
	}
}

TEST(test_constructors_stay)
{
	static const char *const names[] = {"node_new", "wheel", "node_alloc", "alloc_wheel"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct profile *p = new_profile(SECOND);
		for (int k = 0; k < 6; k++) {
			char words[64];
			snprintf(words, sizeof words, "main:%d user%d:10 %s:5", k, k, names[i]);
			add_site(p, words, 10, 56);
		}
		EXPECT(p, names[i], names[i], names[i], names[i], names[i], names[i]);
	}
	/* A name that makes something of its own is never folded, whatever the sizes. */
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 users:10 list_append:5", 10, 120);
	add_site(p, "main:2 orders:20 list_append:5", 12, 136);
	add_site(p, "main:3 prices:30 list_append:5", 6, 152);
	EXPECT(p, "list_append", "list_append", "list_append");
	/* Nor a function that allocates on many lines, or stands above others that allocate. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 work:5", 10, 120);
	add_site(p, "main:2 orders:20 work:6", 12, 136);
	add_site(p, "main:3 prices:30 work:7", 6, 152);
	EXPECT(p, "work", "work", "work");
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 work:5", 10, 120);
	add_site(p, "main:2 orders:20 work:5", 12, 136);
	add_site(p, "main:3 prices:30 work:5", 6, 152);
	add_site(p, "main:3 prices:30 work:8 deeper:9", 6, 152);
	EXPECT(p, "work", "work", "work", "deeper");
}

TEST(test_names_need_less)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 users:10 my_malloc:5", 10, 64);
	add_site(p, "main:2 users:11 my_malloc:5", 10, 64); /* one function, two lines */
	EXPECT(p, "users", "users");
	p = new_profile(SECOND); /* one caller: it may be the program's subject */
	add_site(p, "main:1 test_malloc:5", 10, 64);
	EXPECT(p, "test_malloc");
	p = new_profile(SECOND); /* a pool takes chunks of one size */
	add_site(p, "main:1 users:10 pool_alloc:5", 10, 65536);
	add_site(p, "main:2 orders:11 pool_alloc:5", 10, 65536);
	EXPECT(p, "users", "orders");
	p = new_profile(SECOND); /* called through a pointer, from one place */
	add_site(p, "main:1 zeros:10 data_new:4 default_malloc:5", 10, 80);
	add_site(p, "main:2 ones:11 data_new:4 default_malloc:5", 10, 88);
	EXPECT(p, "data_new", "data_new");
}

TEST(test_wrappers_of_wrappers)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 users:10 zeroed_alloc:7 safe_alloc:6 os::malloc:5", 10, 120);
	add_site(p, "main:2 orders:20 zeroed_alloc:7 safe_alloc:6 os::malloc:5", 12, 136);
	add_site(p, "main:3 prices:30 safe_alloc:6 os::malloc:5", 6, 152);
	add_site(p, "main:4 os::malloc:5", 6, 160);
	EXPECT(p, "users", "orders", "prices", "main");

	/* Helpers that only the wrapper calls go with it, and its siblings do. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 Arena::alloc:7 Arena::slow:6 Arena::new_block:5", 1, 4096);
	add_site(p, "main:2 orders:20 Arena::alloc:7 Arena::slow:6 Arena::new_block:5", 1, 4096);
	add_site(p, "main:3 prices:30 Arena::calloc:7", 1, 48);
	EXPECT(p, "users", "orders", "prices");

	/* Recursion through a wrapper: it calls what calls it. */
	p = new_profile(SECOND);
	add_site(p, "main:1 users:10 my_alloc:5", 10, 120);
	add_site(p, "main:2 orders:20 my_alloc:5", 12, 136);
	add_site(p, "main:2 orders:20 my_alloc:4 reclaim:9 my_alloc:5", 1, 72);
	EXPECT(p, "users", "orders", "reclaim");

	/* Nothing but wrappers: the outermost one is the best there is. */
	p = new_profile(SECOND);
	add_site(p, "users:10 my_malloc:5", 10, 120);
	add_site(p, "orders:20 my_malloc:5", 12, 136);
	add_site(p, "my_malloc:5", 12, 136);
	EXPECT(p, "users", "orders", "my_malloc");
}

TEST(test_without_names)
{
	struct profile *p = new_profile(SECOND);
	char words[128];
	/* Six callers, each with sizes of its own data. */
	for (unsigned i = 0; i < 6; i++) {
		snprintf(words, sizeof words, "main:1 prog+0x%x prog+0x500", 0x1000 + i);
		add_site(p, words, 10, 0)->allocated_bytes = 1001 + 100 * i;
	}
	EXPECT(p, "prog+0x1000", "prog+0x1001", "prog+0x1002", "prog+0x1003", "prog+0x1004",
	       "prog+0x1005");
	/* A constructor, as often as it is called. */
	p = new_profile(SECOND);
	for (unsigned i = 0; i < 6; i++) {
		snprintf(words, sizeof words, "main:1 prog+0x%x prog+0x500", 0x1000 + i);
		add_site(p, words, 10, 48);
	}
	EXPECT(p, "prog+0x500", "prog+0x500", "prog+0x500", "prog+0x500", "prog+0x500",
	       "prog+0x500");
	/* Two callers with different sizes: it depends on how large the function is. */
	for (int thin = 0; thin < 2; thin++) {
		p = new_profile(SECOND);
		add_site(p, "main:1 prog+0x1000 prog+0x500", 10, 0)->allocated_bytes = 1001;
		add_site(p, "main:2 prog+0x2000 prog+0x500", 10, 0)->allocated_bytes = 2003;
		for (uint32_t i = 0; i < p->stacks.frame_count; i++)
			if (strcmp(p->stacks.frames[i].function, "prog+0x500") == 0)
				p->stacks.frames[i].code_bytes = thin ? 96 : 2000;
		if (thin)
			EXPECT(p, "prog+0x1000", "prog+0x2000");
		else
			EXPECT(p, "prog+0x500", "prog+0x500");
	}
}

TEST(test_rules_come_first)
{
	struct frame_rules *r;
	struct heft_error err;
	static const char text[] = "!function grab\n~function lib::*\n";
	assert_int_equal(frame_rules_new(&r), 0);
	assert_int_equal(frame_rules_add_text(r, "frames", text, sizeof text - 1, &err), 0);
	assert_int_equal(frame_rules_decide(r, NULL, "lib::f", NULL), FRAME_PLUMBING);
	assert_int_equal(frame_rules_decide(r, NULL, "grab", NULL), FRAME_KEPT);
	assert_int_equal(frame_rules_decide(r, NULL, "std::f", NULL), FRAME_FOLDED);
	assert_int_equal(frame_rules_decide(r, NULL, "f", NULL), FRAME_NOT_SAID);
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 users:10 grab:5", 10, 120);
	add_site(p, "main:2 orders:20 grab:5", 12, 136);
	add_site(p, "main:3 prices:30 grab:5", 6, 152);
	user_frame_find_machinery(p);
	assert_string_equal(heading(p, 0), "users");
	frame_rules_apply(r, p);
	assert_string_equal(heading(p, 0), "grab");
	profile_free(p);
	frame_rules_free(r);
}

TEST(test_libraries_carry_the_users_code)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 shop::load:7 serde_json::de::from_slice:3 alloc::vec::push:2", 10, 120);
	add_site(p, "tokio::runtime::task:1 hyper::proto::h1::io::WriteBuf::new:3 alloc::alloc:2",
		 10, 120);
	add_site(p, "shop::main:1 <T-as-futures_core::x>:3 tokio::sync::mpsc::block::Block::new:9",
		 10, 120);
	EXPECT(p, "shop::load", "hyper::proto::h1::io::WriteBuf::new", "<T-as-futures_core::x>");
	assert_true(user_frame_is_runtime("<T as futures_core::stream::Stream>::poll_next", NULL));
	assert_true(user_frame_is_runtime("<&mut tokio::x::Y as shop::Z>::f", NULL));
	assert_true(user_frame_is_runtime("crossbeam_channel::channel::Sender<T>::send", NULL));
	assert_false(
		user_frame_is_runtime("<shop::Order as serde::ser::Serialize>::serialize", NULL));
	assert_false(user_frame_is_runtime("shop::tokio::run", NULL));
	assert_false(user_frame_is_runtime("tokio_shop::run", NULL));
}

TEST(test_python)
{
	struct profile *p = new_profile(SECOND);
	uint32_t python, own, node = PROFILE_NONE, frame, id;
	assert_int_equal(profile_add_module(p, "/usr/bin/python3.12", NULL, 0, &python), 0);
	assert_int_equal(profile_add_module(p, "/home/me/fast.cpython-312-x86_64-linux-gnu.so",
					    NULL, 0, &own),
			 0);
	const struct {
		const char *function, *file;
		uint32_t module;
		bool site; /* ends here */
	} stack_of[] = {
		{"py::main", "/home/me/a.py", PROFILE_NONE, false},
		{"_PyEval_EvalFrameDefault", "ceval.c", python, false},
		{"PyList_New", "list.c", python, true},
		{"fast_load", "fast.c", own, true},
	};
	for (size_t i = 0; i < 4; i++) {
		const struct profile_frame f = {
			.function = name_pool_add(p->names, stack_of[i].function),
			.file = name_pool_add(p->names, stack_of[i].file),
			.module = stack_of[i].module};
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_node(p, node, frame, 0, &node), 0);
		if (stack_of[i].site)
			assert_int_equal(profile_add_site(p, node, PROFILE_VIA_MALLOC, &id), 0);
	}
	/* An extension that is not installed is the user's own and heads its site; the interpreter's site
	 * is headed by what it runs. */
	EXPECT(p, "py::main", "fast_load");

	/* Without Python's functions the interpreter's are all there is. */
	p = new_profile(SECOND);
	assert_int_equal(profile_add_module(p, "/usr/bin/python3.12", NULL, 0, &python), 0);
	fixture_module = python;
	add_site(p, "main:1 PyList_Resize_it:3", 10, 120);
	EXPECT(p, "PyList_Resize_it");
}

TEST(test_callers_tell_sites_apart)
{
	struct profile *p = new_profile(SECOND);
	add_site(p, "main:1 a:10 node_new:5", 10, 56); /* by its caller */
	add_site(p, "main:1 b:10 node_new:5", 10, 56); /* by its caller's caller */
	add_site(p, "main:2 x:3 b:10 node_new:5", 10, 56);
	add_site(p, "main:1 c:10 node_new:5", 10, 56); /* by its caller's line */
	add_site(p, "main:1 c:11 node_new:5", 10, 56);
	add_site(p, "main:1 other:10", 10, 56); /* reads like no other */
	add_site(p, "main:1 d:1 e:1 f:1 same<int>(long):9", 10,
		 56); /* cut, these two read the same */
	add_site(p, "main:1 g:1 e:1 f:1 same<char>(int):9", 10, 56);
	add_site(p, "alone:9", 10, 56); /* no caller tells more */
	add_site(p, "alone:9", 10, 56);
	add_site(p, "main:1 walk:4 leaf:5", 10, 56); /* by how deep a recursion is */
	add_site(p, "main:1 walk:4 walk:4 leaf:5", 10, 56);
	add_site(p, "main:1 walk:4 walk:4 walk:4 leaf:5", 10, 56);
	static const uint32_t sites[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 11};
	static const char *const expected[] = {
		"a",       "b < main", "b < x", "c:10", "c:11",    NULL,      "... < d",
		"... < g", NULL,       NULL,    "walk", "walk x2", "walk x3",
	};
	struct site_callers *c = site_callers_new(p, sites, 13);
	for (uint32_t i = 0; i < 13; i++) {
		const char *text = site_callers_text(c, i);
		if (!text != !expected[i] || (text && strcmp(text, expected[i]) != 0))
			fail_msg("position %u: %s, not %s", i, text ? text : "nothing",
				 expected[i] ? expected[i] : "nothing");
	}
	assert_null(site_callers_text(c, 13));
	assert_null(site_callers_text(NULL, 0));
	site_callers_free(c);
	/* Only what is listed together has to be told apart. */
	c = site_callers_new(p, sites, 1);
	assert_null(site_callers_text(c, 0));
	site_callers_free(c);
	profile_free(p);
}

TEST(test_nothing_to_look_at)
{
	struct profile *p = new_profile(SECOND);
	user_frame_find_machinery(p);
	uint32_t id;
	assert_int_equal(profile_add_site(p, PROFILE_NONE, PROFILE_VIA_MALLOC, &id), 0);
	user_frame_find_machinery(p);
	struct site_callers *c = site_callers_new(p, &id, 1);
	assert_null(site_callers_text(c, 0));
	site_callers_free(c);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
