/* Inside src/import: JSON as a stream of values, for files of any size in a window of fixed size.
 * Every function leaves the source behind what it read; a negative code means that the source's `err` is filled. */
#ifndef HEFT_IMPORT_JSON_SCAN_H
#define HEFT_IMPORT_JSON_SCAN_H

#include "import/import_source.h"

struct json_scan {
	struct import_source *in;
	char *text; /* of the last string, ended by a NUL; NULs inside are '?' */
	size_t length, capacity;
};

void json_scan_fini(struct json_scan *s);
/* The next byte that is not white space, without taking it; 0 at the end of the file. */
int json_scan_peek(struct json_scan *s);
/* Takes this one byte. */
int json_scan_take(struct json_scan *s, char c);
int json_scan_string(struct json_scan *s);
/* A number that is not negative; fractions are cut off, what is too large becomes the largest. */
int json_scan_uint(struct json_scan *s, uint64_t *value);
int json_scan_bool(struct json_scan *s, bool *value);
/* Skips a value of any kind. */
int json_scan_skip(struct json_scan *s);
/* In an object or array, before each member: 1 there is one, 0 it ended. *first is true before the
 * first call. `open` is '{' or '['. */
int json_scan_next(struct json_scan *s, char open, bool *first);
/* The same for an object, and takes the key, which becomes the text. */
int json_scan_key(struct json_scan *s, bool *first);
int json_scan_fail(struct json_scan *s, const char *expected);

#endif
