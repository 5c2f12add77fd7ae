/* A program's file need not have its name: redis-server may be a link to redis-check-rdb, ls to
 * busybox, python3 to python3.11, and /proc/PID/exe knows only what the link leads to. People know the
 * name that they typed, which is argv[0]. But argv[0] is whatever the caller chose, or the program
 * later wrote there:
 *
 * - "-bash": a login shell; the dash is a sign between login and the shell, not part of the name.
 * - "nginx: worker process", "redis-server *:6379": a title; the name is its first word.
 * - "", "/", blanks: nothing; then the file names it. */
#include "hosted/program_name.h"

#include "hosted/name_words.h"

#include <stdio.h>
#include <string.h>

static bool is_blank(char c)
{
	return (unsigned char)c <= ' ' || c == 0x7f;
}

/* Finds the last part of a path of `length` bytes. */
static const char *last_part(const char *path, size_t *length)
{
	size_t from = *length;
	while (from && path[from - 1] != '/')
		from--;
	*length -= from;
	return path + from;
}

bool program_name_is_file(const char *name, const char *exe)
{
	size_t length = exe ? strlen(exe) : 0;
	const char *file = exe ? last_part(exe, &length) : "";
	return length == strlen(name) && strncmp(file, name, length) == 0;
}

/* The name in argv[0]; a length of 0: there is none. */
static const char *started_as(const char *argv0, const char *exe, size_t *length)
{
	const char *name = argv0;
	if (*name == '-')
		name++;
	/* A path may have blanks in it; it is one if the file's name ends like it. */
	*length = strlen(name);
	const char *last = last_part(name, length);
	if (*length && program_name_is_file(last, exe))
		return last;
	*length = 0;
	while (name[*length] && !is_blank(name[*length]))
		++*length;
	bool title = name[*length] != 0;
	while (title && *length && name[*length - 1] == ':')
		--*length;
	return last_part(name, length);
}

const char *program_name(char name[PROGRAM_NAME], const char *exe, const char *argv0)
{
	size_t length = 0;
	const char *found = argv0 ? started_as(argv0, exe, &length) : NULL;
	if (!length && exe) {
		length = strlen(exe);
		found = last_part(exe, &length);
	}
	if (!length) {
		found = "?";
		length = 1;
	}
	snprintf(name, PROGRAM_NAME, "%.*s", (int)(length < PROGRAM_NAME ? length : PROGRAM_NAME),
		 found);
	return name;
}

/* Appends a foreign name, cleaned. */
static void add_clean(char *words, size_t size, const char *name)
{
	size_t used = strlen(words), length;
	char glyph[WORDS_GLYPH];
	while ((length = words_glyph(&name, glyph)) && used + length < size) {
		memcpy(words + used, glyph, length + 1);
		used += length;
	}
}

const char *program_words(char *words, size_t size, const char *exe, const char *argv0)
{
	char name[PROGRAM_NAME];
	bool has_path = exe && *exe;
	program_name(name, exe, argv0);
	*words = 0;
	if (!has_path || !program_name_is_file(name, exe))
		add_clean(words, size, name);
	if (has_path && *words)
		add_clean(words, size, ", ");
	if (has_path)
		add_clean(words, size, exe);
	return words;
}
