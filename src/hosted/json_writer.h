/* Writes JSON piece by piece to a stream. Commas are the writer's business, and the text is valid
 * UTF-8 whatever the strings hold. Errors latch in the stream: check it (ferror) at the end. */
#ifndef HEFT_HOSTED_JSON_WRITER_H
#define HEFT_HOSTED_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_writer {
	FILE *out;
	bool comma; /* something stands before in this array or object */
};

void json_init(struct json_writer *w, FILE *out);
void json_object(struct json_writer *w);
void json_object_end(struct json_writer *w);
void json_array(struct json_writer *w);
void json_array_end(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_string(struct json_writer *w, const char *s); /* NULL: "" */
void json_uint(struct json_writer *w, uint64_t n);
void json_int(struct json_writer *w, int64_t n);
void json_bool(struct json_writer *w, bool b);
void json_newline(struct json_writer *w); /* for people; anywhere but inside a string */

/* "key": value */
void json_key_string(struct json_writer *w, const char *key, const char *s);
void json_key_uint(struct json_writer *w, const char *key, uint64_t n);
void json_key_int(struct json_writer *w, const char *key, int64_t n);
void json_key_bool(struct json_writer *w, const char *key, bool b);

#endif
