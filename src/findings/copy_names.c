/* Functions that copy, by their names.
 *
 * Three kinds of names say it: a word of the name (clone, row_copy, CopyRow, std::__uninit_copy), a C++ copy
 * constructor or assignment (A::A(A const&), A::operator=(A const&), construct<A, A const&>), and the functions
 * that people also use to make a first string (strdup, to_vec, to_owned). The last ones say little by themselves. Words are compared
 * whole: a copyright is no copy. */
#include "findings/copy_names.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct span {
	const char *at;
	size_t length;
};

/* The part of the text up to the first of its arguments, and where those begin: brackets of templates do not
 * count. */
static size_t name_length(const char *function)
{
	int depth = 0;
	size_t i = 0;
	for (; function[i]; i++) {
		depth += function[i] == '<';
		depth -= function[i] == '>' && depth > 0;
		/* "operator()" and "(anonymous namespace)" begin no arguments. */
		if (function[i] == '(' && depth == 0 && i > 0 && function[i - 1] != ':' &&
		    strncmp(function + i, "(anonymous", 10) != 0)
			break;
	}
	return i;
}

/* The last two components of a name, without what their templates are made of: "basic_string" and
 * "basic_string". */
static void last_components(const char *function, size_t length, struct span *last,
			    struct span *before)
{
	int depth = 0;
	struct span now = {function, 0};
	*last = *before = (struct span){function, 0};
	for (size_t i = 0; i <= length; i++) {
		bool ends = i == length || (depth == 0 && function[i] == ':' && i + 1 < length &&
					    function[i + 1] == ':');
		if (ends) {
			if (now.length) { /* "::<...>" of Rust has none */
				*before = *last;
				*last = now;
			}
			i += i < length;
			now = (struct span){function + i + 1, 0};
			continue;
		}
		depth += function[i] == '<';
		if (depth == 0 && now.length == (size_t)(function + i - now.at))
			now.length++;
		depth -= function[i] == '>' && depth > 0;
	}
}

static bool is_word(struct span w, const char *const *words)
{
	for (; *words; words++)
		if (strlen(*words) == w.length && strncasecmp(*words, w.at, w.length) == 0)
			return true;
	return false;
}

/* Whether one of the words of an identifier (row_copy, CopyRow) is in the list. */
static bool has_word(struct span name, const char *const *words)
{
	size_t begin = 0;
	for (size_t i = 0; i <= name.length; i++) {
		bool ends = i == name.length || name.at[i] == '_' ||
			    (i > begin && isupper((unsigned char)name.at[i]) &&
			     !isupper((unsigned char)name.at[i - 1]));
		if (!ends)
			continue;
		if (is_word((struct span){name.at + begin, i - begin}, words))
			return true;
		begin = i + (i < name.length && name.at[i] == '_');
	}
	return false;
}

static bool same(struct span a, struct span b)
{
	return a.length && a.length == b.length && strncmp(a.at, b.at, a.length) == 0;
}

/* A::A(A const&) or A::operator=(A const&): one argument, which is not to be changed. */
static bool is_copy_constructor(const char *function, size_t name, struct span last,
				struct span before)
{
	static const char end[] = " const&)";
	size_t length = strlen(function), ends = sizeof end - 1;
	bool assigns = last.length == 9 && strncmp(last.at, "operator=", 9) == 0;
	if (length <= name + ends || strcmp(function + length - ends, end) != 0)
		return false;
	struct span argument, outer;
	last_components(function + name + 1, length - ends - name - 1, &argument, &outer);
	return same(argument, before) && (assigns || same(last, before));
}

/* construct<A, A const&>: how containers of the standard library copy. */
static bool is_copying_template(struct span last)
{
	static const char end[] = " const&";
	static const char *const constructs[] = {"construct", "_Construct", "construct_at", NULL};
	const char *first = last.at + last.length + 1;
	int depth = 0;
	if (!is_word(last, constructs) || first[-1] != '<')
		return false;
	size_t length = 0;
	for (; first[length] && (first[length] != ',' || depth); length++) {
		depth += first[length] == '<';
		depth -= first[length] == '>';
	}
	return strncmp(first + length, ", ", 2) == 0 &&
	       strncmp(first + length + 2, first, length) == 0 &&
	       strncmp(first + 2 * length + 2, end, sizeof end - 1) == 0;
}

enum copy_name copy_name_of(const char *function)
{
	static const char *const objects[] = {"clone",     "cloned", "copy",   "copied",   "copies",
					      "duplicate", "dup",    "clones", "deepcopy", NULL};
	static const char *const strings[] = {"strdup", "strndup", "xstrdup", "memdup",
					      "wcsdup", "sdsdup",  "dupstr",  NULL};
	static const char *const whole[] = {"to_vec", "to_owned", "to_string",
					    "strdup", "strndup",  NULL};
	size_t name = name_length(function);
	struct span last, before;
	last_components(function, name, &last, &before);
	if (is_word(last, whole) || has_word(last, strings))
		return COPIES_ANYTHING;
	if (has_word(last, objects) || is_copy_constructor(function, name, last, before) ||
	    is_copying_template(last))
		return COPIES_OBJECTS;
	return COPIES_NOTHING;
}

bool makes_room(const char *function)
{
	static const char *const words[] = {"format",  "grow",    "push",  "append", "extend",
					    "reserve", "replace", "write", "assign", NULL};
	static const char *const whole[] = {"operator+", "operator+=", NULL};
	struct span last, before;
	last_components(function, name_length(function), &last, &before);
	return is_word(last, whole) || has_word(last, words);
}
