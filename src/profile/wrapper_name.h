/* What the name of a function says: whether it may be a wrapper around malloc. */
#ifndef HEFT_PROFILE_WRAPPER_NAME_H
#define HEFT_PROFILE_WRAPPER_NAME_H

#include <stdbool.h>

enum wrapper_name {
	WRAPPER_NAME_PLAIN,    /* nothing */
	WRAPPER_NAME_OBJECT,   /* that it makes something of its own: node_new, list_append */
	WRAPPER_NAME_NONE,     /* it has none: "module+0x12" */
	WRAPPER_NAME_HINT,     /* alloc_row, buffer_grow: perhaps for others, perhaps its own */
	WRAPPER_NAME_LIKELY,   /* pool_alloc */
	WRAPPER_NAME_MALLOC,   /* Arena::alloc, my_malloc, safe_strdup */
	WRAPPER_NAME_OPERATOR, /* Node::operator new: always */
};
/* has_file: the function's source file is known. */
enum wrapper_name wrapper_name_of(const char *function, bool has_file);

#endif
