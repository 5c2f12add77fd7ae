/* What to call a program: by the name that it was started under. */
#ifndef HEFT_HOSTED_PROGRAM_NAME_H
#define HEFT_HOSTED_PROGRAM_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum { PROGRAM_NAME = 64 };

/* The name alone: "redis-server", although its file is /usr/bin/redis-check-rdb. Either may be NULL;
 * "?" if neither says anything. Foreign bytes: whoever shows it cleans it. */
const char *program_name(char name[PROGRAM_NAME], const char *exe, const char *argv0);
/* The path; before it the name, if the path does not end with it: "redis-server,
 * /usr/bin/redis-check-rdb". */
const char *program_words(char *words, size_t size, const char *exe, const char *argv0);
/* Whether the path ends with the name. */
bool program_name_is_file(const char *name, const char *exe);

#endif
