/* Which functions copy, by their names (findings/copy_names.h). */
#include "findings/copy_names.h"
#include "unit_test.h"

#include <stddef.h>

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

static const struct {
	const char *function;
	enum copy_name is;
} names[] = {
	{"copy_row", COPIES_OBJECTS},
	{"CopyRow", COPIES_OBJECTS},
	{"row_dup", COPIES_OBJECTS},
	{"copyright_text", COPIES_NOTHING},
	{"duplex_open", COPIES_NOTHING},
	{"main", COPIES_NOTHING},
	{"__GI___strdup", COPIES_ANYTHING},
	{"xstrdup", COPIES_ANYTHING},
	{"<alloc::string::String as core::clone::Clone>::clone", COPIES_OBJECTS},
	{"<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<alloc::alloc::Global>", COPIES_ANYTHING},
	{"Record::Record(Record const&)", COPIES_OBJECTS},
	{"Record::Record(" STRING " const&)", COPIES_NOTHING},
	{"Record::operator=(Record const&)", COPIES_OBJECTS},
	{STRING "::basic_string(" STRING " const&)", COPIES_OBJECTS},
	{STRING "::basic_string(" STRING " const&, unsigned long)", COPIES_NOTHING},
	{"std::vector<Record, std::allocator<Record> >::push_back(Record const&)", COPIES_NOTHING},
	{"std::_Rb_tree<int, int>::_M_copy<false>(std::_Rb_tree_node<int>*)", COPIES_OBJECTS},
	{"void std::__new_allocator<A>::construct<" STRING ", " STRING " const&>(A*)",
	 COPIES_OBJECTS},
	{"construct<" STRING ", char const* const&>", COPIES_NOTHING},
	{"(anonymous namespace)::clone_all(int)", COPIES_OBJECTS},
	{"construct<a, a", COPIES_NOTHING},
	{"construct", COPIES_NOTHING},
	{"A::A( const&)", COPIES_NOTHING},
	{" const&)", COPIES_NOTHING},
	{"a<b>::", COPIES_NOTHING},
	{"::<", COPIES_NOTHING},
	{"(", COPIES_NOTHING},
	{"", COPIES_NOTHING},
};

TEST(test_names)
{
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (copy_name_of(names[i].function) != names[i].is)
			fail_msg("%s is %d", names[i].function,
				 (int)copy_name_of(names[i].function));
}

UNIT_TESTS(NULL, NULL)
