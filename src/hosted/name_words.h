/* Prints foreign names so that they do no harm and fit into a line of valid UTF-8: control characters,
 * direction marks, characters that XML forbids and bytes that are not UTF-8 are shown as \xNN. */
#ifndef HEFT_HOSTED_NAME_WORDS_H
#define HEFT_HOSTED_NAME_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Takes one character of a name, or \xNN for it: fills `text` (NUL-terminated), moves *name on and returns
 * the length; 0 at the end. For formats that escape more characters. */
enum { WORDS_GLYPH = 20 };
size_t words_glyph(const char **name, char text[WORDS_GLYPH]);
/* How many bytes from here on are shown as they are and are neither of both characters: writing them at once takes a tenth of the
 * time. A name may have 16 KiB, and a file shows it thousands of times. */
size_t words_plain(const char *name, char but, char or_but);
/* What XML and HTML write for a character that is markup; NULL: the character itself. */
const char *words_entity(char c);
/* Prints a name as text or as the value of an attribute of XML. */
void words_print_xml(FILE *out, const char *name);
/* The columns that a name takes on a terminal. */
size_t words_columns(const char *name);
/* Prints at most about `max` columns; "..." marks a cut at the end. */
void words_print(FILE *out, const char *name, size_t max);
/* Prints at most `max` columns, cut in the middle, because both ends of a name say something. Returns the
 * columns used. */
size_t words_print_fit(FILE *out, const char *name, size_t max);
/* The same for a function. It first cuts what stands in <> and (): std::vector<..>::push_back(..). */
size_t words_print_function(FILE *out, const char *function, size_t max);
/* Prints a function without what stands in <> and (). */
void words_print_short(FILE *out, const char *function, size_t max);
enum { WORDS_SHORT = 512 };
/* Copies a function without what stands in <> and (). False: the brackets do not match, or it is still too
 * long. */
bool words_shorten(char text[WORDS_SHORT], const char *function);
void words_print_command(FILE *out, const char *const *argv, uint32_t argc, size_t max);
/* The path without the current directory, which is mostly that of the project or the recording. */
const char *words_from_here(const char *path);
/* Prints a path, quoted for a shell if needed. */
void words_print_shell(FILE *out, const char *path);
/* Prose is at most this wide, however wide the terminal: longer lines are hard to read. */
enum { WORDS_PROSE = 100 };
/* Prints a text and breaks it at blanks and newlines. It starts in column `indent`, as every further line,
 * and lines end at `width`, at most at WORDS_PROSE. No newline follows the last line. */
void words_print_wrapped(FILE *out, const char *text, size_t indent, size_t width);
/* Prints "Next: COMMAND    (why)". The command is there to be copied, so it stays whole; what it is for gives
 * way where both do not fit into `width` columns. */
void words_print_next(FILE *out, const char *command, const char *why, size_t width);
/* Prints a message of which `used` columns are taken, and breaks it at blanks before WORDS_PROSE. Further
 * lines begin in column `indent`, those of the message too. Nothing is cut, because people copy paths, and
 * the folders of a path do not count: a message breaks at the same places wherever its file is. No newline
 * follows the last line. */
void words_print_message(FILE *out, const char *text, size_t used, size_t indent);

#endif
