/* Names of programs and files. A program is called by the name that it was started under. */
#ifndef HEFT_HOSTED_PROGRAM_NAME_H
#define HEFT_HOSTED_PROGRAM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { PROGRAM_NAME = 64 };

/* The part of a path behind its last slash; the path itself if it has no slash. */
static inline const char *path_file(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The name alone: "redis-server", although its file is /usr/bin/redis-check-rdb. Either may be NULL;
 * "?" if neither says anything. The bytes are foreign: clean them before they are shown. */
const char *program_name(char name[PROGRAM_NAME], const char *exe, const char *argv0);
/* The path, with the name before it if the path does not end with the name: "redis-server,
 * /usr/bin/redis-check-rdb". The bytes are clean: no control character, not even a newline, is left. */
const char *program_words(char *words, size_t size, const char *exe, const char *argv0);
/* Whether the path ends with the name. */
bool program_name_is_file(const char *name, const char *exe);

#endif
