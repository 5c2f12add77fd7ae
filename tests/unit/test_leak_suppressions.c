/* Suppressions of leaks: patterns as LeakSanitizer matches them, and files. */
#include "unit_test.h"

#include "profile/leak_suppressions.h"

#include <string.h>

TEST(patterns_match_as_in_leak_sanitizer)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{"foo", "foo", true},
		{"foo", "a_foo_b", true},
		{"foo", "fo", false},
		{"^foo", "foobar", true},
		{"^foo", "a_foo", false},
		{"foo$", "a_foo", true},
		{"foo$", "foobar", false},
		{"^foo$", "foo", true},
		{"^foo$", "foofoo", false},
		{"f*o", "f and then o", true},
		{"f*o", "o and then f", false},
		{"^f*o$", "f12o", true},
		{"*", "anything", true},
		{"^*bar", "foobar", true}, /* "*" takes the start away */
		{"foo*$", "foobar", true},
		{"o$", "oo", false}, /* only the first place counts */
		{"foo", "", false},
		{"a*b*c", "xaybzc", true},
		{"/lib/x", "/usr/lib/x86/libm.so", true},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (leak_pattern_matches(cases[i].pattern, cases[i].name) != cases[i].matches)
			fail_msg("%s and %s", cases[i].pattern, cases[i].name);
	assert_false(leak_pattern_matches("a", NULL));
}

TEST(files_have_lines_with_patterns)
{
	struct leak_suppressions *s = NULL;
	struct heft_error err = {0};
	assert_int_equal(leak_suppressions_parse(&s, "f", "# note\n\n  leak:a b \nleak:*\n", &err),
			 0);
	leak_suppressions_free(s);
	assert_int_equal(leak_suppressions_parse(&s, "f", "leak:a\nrace:b\n", &err), HEFT_EUSAGE);
	assert_non_null(strstr(err.message, "f:2: expected leak:PATTERN, not 'race:b'"));
	assert_null(s);
	assert_int_equal(leak_suppressions_parse(&s, "f", "leak:", &err), HEFT_EUSAGE);
}

UNIT_TESTS(NULL, NULL)
