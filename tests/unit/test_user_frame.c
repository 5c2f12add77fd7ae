/* Rules for frames: what the built-in ones fold, what a user's file adds and un-folds, how patterns
 * match, and what a bad file is told. */
#include "profile/user_frame.h"
#include "unit_test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_code(bool folded, const char *function, const char *file)
{
	if (user_frame_is_runtime(function, file) != folded)
		fail_msg("%s (%s) should %sbe folded", function, file ? file : "no file",
			 folded ? "" : "not ");
}

TEST(test_built_in_functions)
{
	static const char *const runtime[] = {
		"operator new(unsigned long)",
		"operator new[](unsigned long)",
		"std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
		"__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)",
		"alloc::raw_vec::RawVec<T,A>::grow_one",
		"alloc::raw_vec::finish_grow",
		"core::ops::function::FnOnce::call_once{{vtable.shim}}",
		"std::thread::Builder::spawn_unchecked_::{{closure}}",
		"std::sys::backtrace::__rust_begin_short_backtrace",
		"hashbrown::raw::RawTable<T,A>::reserve_rehash",
		"__rust_alloc",
		"__rust_realloc",
		"__rdl_alloc",
		"__rustc::__rust_alloc",
		"<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
		"<alloc::vec::Vec<T> as core::iter::traits::collect::FromIterator<T>>::from_iter",
		"<T as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
		"<T as core::convert::Into<U>>::into",
		"<I as core::iter::traits::collect::IntoIterator>::into_iter",
		"<&T as core::fmt::Debug>::fmt",
		"<&mut I as core::iter::traits::iterator::Iterator>::next",
		"<*const T as core::fmt::Pointer>::fmt",
		"<[T] as alloc::slice::hack::ConvertVec>::to_vec",
		"<str as alloc::string::ToString>::to_string",
		"<core::iter::adapters::map::Map<I,F> as core::iter::traits::iterator::Iterator>"
		"::fold",
		"<std::io::buffered::lines::Lines<B> as core::iter::traits::iterator::Iterator>"
		"::next",
		"<alloc::vec::Vec<u8>>::with_capacity",
		"xmalloc",
		"xmalloc(unsigned long)",
		"xmalloc.part.0",
		"sqlite3DbMallocRawNN",
		"heft::pool_resource::do_allocate(unsigned long, unsigned long)",
		"heft::pool::Pool::allocated",
		"_start",
		"_dl_allocate_tls",
		"runtime.asmcgocall",
		"runtime/cgo.init.0",
		"_cgo_08eb313e87fd_Cfunc_get",
		"main._Cfunc_get",
		"example.com/store._Cfunc__CMalloc",
		"_cgoexp_08eb313e87fd_goBack",
	};
	static const char *const own[] = {
		"main",
		"main.main",
		"example.com/runtime.New",
		"prog::main",
		"csv_rows::read::{{closure}}",
		"<csv_rows::Row as core::clone::Clone>::clone",
		"<T as csv_rows::Load>::load",
		"<prog::List<T> as core::iter::traits::iterator::Iterator>::next",
		"stdin_read",
		"xmalloc_all_rows",
		"my::std::thing",
		"f(std::string const&)",
		"allocate_rows",
		"core_main",
		"operator+(Big const&, Big const&)",
		"",
	};
	for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
		expect_code(true, runtime[i], NULL);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		expect_code(false, own[i], NULL);
}

TEST(test_built_in_files_and_modules)
{
	expect_code(true, "push", "/usr/include/c++/12/bits/stl_vector.h");
	expect_code(true, "push", "/usr/lib/llvm-14/include/c++/v1/vector");
	expect_code(true, "f", "/rustc/90b35a623/library/alloc/src/vec/mod.rs");
	expect_code(true, "f", "/x/toolchains/a/lib/rustlib/src/rust/library/core/src/x.rs");
	expect_code(true, "alloc", "/x/.cargo/registry/src/y-1/mimalloc-0.1.52/src/lib.rs");
	expect_code(true, "alloc", "/x/.cargo/registry/src/y-1/tikv-jemallocator-0.6.1/src/lib.rs");
	expect_code(false, "alloc", "/x/mimalloc-0.1.52/src/lib.rs");
	expect_code(false, "f", "/home/x/usr/include/c++/x.h");
	expect_code(false, "f", "rows.c");
	static const char *const runtime[] = {
		"/lib/x86_64-linux-gnu/libc.so.6",
		"/lib/libc-2.31.so",
		"ld-linux-x86-64.so.2",
		"/usr/lib/libstdc++.so.6.0.30",
		"/usr/lib/libjemalloc.so.2",
		"[vdso]",
		"/opt/heft/libheft-preload.so",
	};
	static const char *const own[] = {
		"/usr/lib/libcurl.so.4",  "/usr/bin/perl",        "/usr/lib/libc-client.so.2007",
		"/usr/lib/libmagic.so.1", "/home/libc.so.6/prog", "",
	};
	for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++)
		if (!user_frame_module_is_runtime(runtime[i]))
			fail_msg("%s should be folded", runtime[i]);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (user_frame_module_is_runtime(own[i]))
			fail_msg("%s should not be folded", own[i]);
}

static struct frame_rules *rules_of(const char *text)
{
	struct frame_rules *r;
	struct heft_error err;
	assert_int_equal(frame_rules_new(&r), 0);
	if (frame_rules_add_text(r, "frames", text, strlen(text), &err) < 0)
		fail_msg("%s", err.message);
	return r;
}

TEST(test_patterns)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{"pool_get", "pool_get", true},
		{"pool_get", "pool_get2", false},
		{"pool_get", "pool_ge", false},
		{"pool_*", "pool_", true},
		{"pool_*", "pool", false},
		{"*_alloc", "my_alloc", true},
		{"*_alloc", "my_alloc_all", false},
		{"*_alloc", "_alloc", true},
		{"a*b*c", "a_b_c", true},
		{"a*b*c", "abcabc", true},
		{"a*b*c", "acb", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a??", "abc", true},
		{"a?", "a", false},
		{"a\\*c", "a*c", true},
		{"a\\*c", "abc", false},
		{"*\\*x", "y*x", true},
		{"*\\*x", "yzx", false},
		{"*\\?", "what?", true},
		{"*\\?", "what", false},
		{"operator new[]*", "operator new[](int)", true},
		{"a\\\\b", "a\\b", true},
		{"*", "anything at all", true},
		{"?*", "", false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char line[64];
		snprintf(line, sizeof line, "function %s\n", cases[i].pattern);
		struct frame_rules *r = rules_of(line);
		if (frame_rules_fold(r, NULL, cases[i].name, NULL) != cases[i].matches)
			fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].name);
		frame_rules_free(r);
	}
}

TEST(test_the_last_rule_decides)
{
	struct frame_rules *r = rules_of("# mine\n"
					 "\n"
					 "  module libpool.so*  \r\n"
					 "module /opt/base/*\n"
					 "file pool.c\n"
					 "file */third_party/*\n"
					 "wrapper pool_get  pool_put\n"
					 "!function std::my_*\n"
					 "!wrapper xmalloc\n"
					 "!module libm.so*\n"
					 "function std::my_worst\n"
					 "!file /src/keep.c");
	assert_true(frame_rules_fold(r, "/lib/libpool.so.1", "f", NULL));
	assert_true(frame_rules_fold(r, "/opt/base/libx.so", "f", NULL));
	assert_false(frame_rules_fold(r, "/opt/other/libx.so", "f", NULL));
	assert_true(frame_rules_fold(r, NULL, "f", "/src/pool.c"));
	assert_true(frame_rules_fold(r, NULL, "f", "pool.c"));
	assert_false(frame_rules_fold(r, NULL, "f", "/src/whirlpool.c"));
	assert_true(frame_rules_fold(r, NULL, "f", "/src/third_party/z/z.c"));
	assert_true(frame_rules_fold(r, NULL, "pool_put(void*)", NULL));
	assert_true(frame_rules_fold(r, NULL, "std::sort", NULL)); /* built in, still */
	assert_false(frame_rules_fold(r, NULL, "std::my_own", NULL));
	assert_true(frame_rules_fold(r, NULL, "std::my_worst", NULL));
	assert_false(frame_rules_fold(r, NULL, "xmalloc", NULL));
	assert_false(frame_rules_fold(r, "/lib/libm.so.6", "exp", NULL));
	/* One rule about the file un-folds what others say of function and module. */
	assert_false(frame_rules_fold(r, "/lib/libpool.so.1", "std::x", "/src/keep.c"));

	struct profile *p = profile_new();
	uint32_t module, ids[3];
	assert_int_equal(profile_add_module(p, "/lib/libm.so.6", NULL, 0, &module), 0);
	struct profile_frame frames[] = {
		{.function = name_pool_add(p->names, "exp"), .module = module},
		{.function = name_pool_add(p->names, "pool_get"), .module = PROFILE_NONE},
		{.function = name_pool_add(p->names, "std::my_own"), .module = PROFILE_NONE},
	};
	for (int i = 0; i < 3; i++)
		assert_int_equal(profile_add_frame(p, &frames[i], &ids[i]), 0);
	assert_false(p->stacks.frames[ids[0]].user);
	assert_true(p->stacks.frames[ids[1]].user);
	assert_false(p->stacks.frames[ids[2]].user);
	frame_rules_apply(r, p);
	assert_true(p->stacks.frames[ids[0]].user);
	assert_false(p->stacks.modules[module].runtime);
	assert_false(p->stacks.frames[ids[1]].user);
	assert_true(p->stacks.frames[ids[2]].user);
	profile_free(p);
	frame_rules_free(r);
}

TEST(test_bad_rules_are_named)
{
	static const struct {
		const char *text;
		size_t length;
		const char *message;
	} cases[] = {
		{"module a\nfoo b\n", 15,
		 "frames:2: expected 'module', 'function', 'file' or 'wrapper', not 'foo b'"},
		{"functions x", 11,
		 "frames:1: expected 'module', 'function', 'file' or 'wrapper', not 'functions x'"},
		{"\n\nfile", 6, "frames:3: expected a pattern after 'file'"},
		{"!wrapper  \n", 11, "frames:1: expected a function name after 'wrapper'"},
		{"\033[31m", 5,
		 "frames:1: expected 'module', 'function', 'file' or 'wrapper', not '?[31m'"},
		{"file a\0b", 8, "frames:1: expected text, not a NUL byte"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct frame_rules *r;
		struct heft_error err = {0};
		assert_int_equal(frame_rules_new(&r), 0);
		assert_int_equal(
			frame_rules_add_text(r, "frames", cases[i].text, cases[i].length, &err),
			HEFT_EFORMAT);
		assert_string_equal(err.message, cases[i].message);
		frame_rules_free(r);
	}
	char longest[1100];
	struct heft_error err = {0};
	struct frame_rules *r;
	memset(longest, 'f', sizeof longest);
	assert_int_equal(frame_rules_new(&r), 0);
	assert_int_equal(frame_rules_add_text(r, "frames", longest, sizeof longest, &err),
			 HEFT_EFORMAT);
	assert_string_equal(err.message,
			    "frames:1: expected a line of at most 1000 bytes, not 1100");
	assert_int_equal(frame_rules_add_file(r, "/nonexistent/frames", &err), HEFT_ENOTFOUND);
	assert_int_equal(frame_rules_add_file(r, "/", &err), HEFT_EFORMAT);
	assert_int_equal(frame_rules_add_file(r, "/dev/zero", &err), HEFT_EFORMAT);
	frame_rules_free(r);
}

TEST(test_file)
{
	char path[] = "/tmp/heft-frames-XXXXXX";
	struct frame_rules *r;
	struct heft_error err = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "wrapper mine", 12), 12);
	assert_int_equal(frame_rules_new(&r), 0);
	assert_false(frame_rules_fold(r, NULL, "mine", NULL));
	assert_int_equal(frame_rules_add_file(r, path, &err), 0);
	assert_true(frame_rules_fold(r, NULL, "mine", NULL));
	assert_int_equal(ftruncate(fd, (1 << 20) + 1), 0);
	assert_int_equal(frame_rules_add_file(r, path, &err), HEFT_EFORMAT);
	assert_non_null(strstr(err.message, "at most 1 MiB"));
	close(fd);
	unlink(path);
	frame_rules_free(r);
}

UNIT_TESTS(NULL, NULL)
