/* Writes JSON piece by piece to a stream. It writes the commas itself, and the text is valid UTF-8 whatever
 * the strings hold. Errors stay set in the stream: check it (ferror) at the end. */
#ifndef HEFT_HOSTED_JSON_WRITER_H
#define HEFT_HOSTED_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_writer {
	FILE *out;
	bool comma; /* the next element of this array or object needs one */
};

void json_write_init(struct json_writer *w, FILE *out);
void json_write_object(struct json_writer *w);
void json_write_object_end(struct json_writer *w);
void json_write_array(struct json_writer *w);
void json_write_array_end(struct json_writer *w);
void json_write_key(struct json_writer *w, const char *key);
void json_write_string(struct json_writer *w, const char *s); /* NULL: "" */
void json_write_uint(struct json_writer *w, uint64_t n);
void json_write_int(struct json_writer *w, int64_t n);
void json_write_bool(struct json_writer *w, bool b);
void json_write_real(struct json_writer *w, double x); /* writes 0 if x is not a number */
void json_write_null(struct json_writer *w);
/* Inserts members of an object, or values of an array, that another writer wrote; at least one. */
void json_write_members(struct json_writer *w, const char *text, size_t length);
void json_write_newline(struct json_writer *w); /* for people; anywhere but inside a string */

/* "key": value */
void json_write_key_string(struct json_writer *w, const char *key, const char *s);
void json_write_key_uint(struct json_writer *w, const char *key, uint64_t n);
void json_write_key_int(struct json_writer *w, const char *key, int64_t n);
void json_write_key_bool(struct json_writer *w, const char *key, bool b);

#endif
