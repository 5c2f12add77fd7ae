/* Inside src/findings: functions that copy, by their names. */
#ifndef HEFT_FINDINGS_COPY_NAMES_H
#define HEFT_FINDINGS_COPY_NAMES_H

#include <stdbool.h>

enum copy_name {
	COPIES_NOTHING,  /* the name says nothing */
	COPIES_ANYTHING, /* strdup, to_vec: the usual way to make a string at all */
	COPIES_OBJECTS,  /* clone, copy_row, a copy constructor */
};

/* `function` as a profile has it: C, C++ demangled with its arguments, Rust demangled. */
enum copy_name copy_name_of(const char *function);
/* Whether it makes text, or an array, that has room for more: format, push_str, operator+. A copy of that is
 * smaller. */
bool makes_room(const char *function);

#endif
