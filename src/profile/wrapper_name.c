/* What the name of a function says about it: whether it is called like malloc, like something that
 * allocates for others, or like something that makes an object of its own. Only a hint: wrapper_frames.c
 * decides by what the function does, and asks the name how much evidence it takes. */
#include "profile/wrapper_name.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_WORD = 128 };

/* The function's own name in small letters, without scope, template and call arguments and
 * compilers' suffixes. */
static void own_name(const char *function, char word[LONGEST_WORD])
{
	const char *start = function, *end = NULL;
	int depth = 0;
	for (const char *c = function; *c && !end; c++) {
		if (*c == '<')
			depth++;
		else if (*c == '>' && depth)
			depth--;
		else if (!depth && c[0] == ':' && c[1] == ':')
			start = ++c + 1;
		else if (!depth && c > start && (*c == '(' || *c == '.' || *c == '@' || *c == '['))
			end = c;
	}
	size_t length = 0;
	while (*start == '_')
		start++;
	for (; *start && start != end && *start != '<' && length + 2 < LONGEST_WORD; start++) {
		/* allocBytes reads alloc_bytes, so that words can be told apart. */
		if (length && isupper((unsigned char)*start) && islower((unsigned char)start[-1]))
			word[length++] = '_';
		word[length++] = (char)tolower((unsigned char)*start);
	}
	while (length && (word[length - 1] == '_' || isdigit((unsigned char)word[length - 1])))
		length--;
	word[length] = 0;
}

static bool ends_with(const char *word, size_t length, const char *end)
{
	size_t n = strlen(end);
	return length >= n && memcmp(word + length - n, end, n) == 0;
}

static bool is_one_of(const char *const *words, size_t count, const char *word, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0)
			return true;
	return false;
}

/* Length without words that say how it allocates, not what: malloc_array, calloc_or_die. */
static size_t without_manner(const char *word)
{
	static const char *const manners[] = {
		"n",       "nn",    "array",  "usable",  "internal", "impl",   "safe",
		"raw",     "zero",  "zeroed", "aligned", "try",      "or",     "die",
		"fail",    "bytes", "mem",    "memory",  "fn",       "func",   "hook",
		"wrapper", "fast",  "slow",   "z",       "x",        "helper",
	};
	size_t length = strlen(word);
	for (;;) {
		size_t last = length;
		while (last && word[last - 1] != '_')
			last--;
		if (!last || !is_one_of(manners, sizeof manners / sizeof *manners, word + last,
					length - last))
			return length;
		length = last - 1;
	}
}

static bool has_word(const char *word, const char *const *words, size_t count)
{
	for (const char *at = word; *at;) {
		size_t length = strcspn(at, "_");
		if (is_one_of(words, count, at, length))
			return true;
		at += length + (at[length] == '_');
	}
	return false;
}

enum wrapper_name wrapper_name_of(const char *function, bool has_file)
{
	static const char *const mallocs[] = {"malloc",    "calloc",   "realloc", "zalloc",
					      "memalign",  "strdup",   "strndup", "memdup",
					      "mem_alloc", "memalloc", "mallocz", "reallocf"};
	static const char *const hints[] = {"alloc",  "grow",   "resize",  "reserve",
					    "strdup", "memdup", "enlarge", "ensure_capacity"};
	static const char *const objects[] = {
		"new",  "create", "make", "init",  "append", "push",      "add",  "insert", "parse",
		"read", "load",   "copy", "clone", "build",  "construct", "open", "decode"};
	char word[LONGEST_WORD];
	if (!has_file && strstr(function, "+0x"))
		return WRAPPER_NAME_NONE;
	own_name(function, word);
	if (strncmp(word, "operator new", 12) == 0)
		return WRAPPER_NAME_OPERATOR;
	size_t length = without_manner(word);
	for (size_t i = 0; i < sizeof mallocs / sizeof *mallocs; i++)
		if (ends_with(word, length, mallocs[i]))
			return WRAPPER_NAME_MALLOC;
	if ((length == 5 && memcmp(word, "alloc", 5) == 0) ||
	    (length == 8 && memcmp(word, "allocate", 8) == 0) ||
	    (length == 10 && memcmp(word, "reallocate", 10) == 0))
		return WRAPPER_NAME_MALLOC;
	if (ends_with(word, length, "alloc") || ends_with(word, length, "allocate"))
		return WRAPPER_NAME_LIKELY;
	for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
		if (strstr(word, hints[i]))
			return WRAPPER_NAME_HINT;
	return has_word(word, objects, sizeof objects / sizeof *objects) ? WRAPPER_NAME_OBJECT
									 : WRAPPER_NAME_PLAIN;
}
