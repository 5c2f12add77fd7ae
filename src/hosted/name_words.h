/* Foreign names made harmless and fitted into a line of valid UTF-8: control characters, direction
 * marks, what XML forbids and bytes that are no UTF-8 are shown as \xNN. */
#ifndef HEFT_HOSTED_NAME_WORDS_H
#define HEFT_HOSTED_NAME_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One character of a name, or the \xNN for it. Fills `text` (NUL-terminated), moves *name on and
 * returns the length; 0 at the end. For formats that escape more, character by character. */
enum { WORDS_GLYPH = 20 };
size_t words_glyph(const char **name, char text[WORDS_GLYPH]);
/* Columns it takes on a terminal. */
size_t words_columns(const char *name);
/* At most about `max` columns are shown, the cut at the end marked by "...". */
void words_print(FILE *out, const char *name, size_t max);
/* At most `max` columns, cut in the middle: both ends of a name say something. Returns the columns
 * used. */
size_t words_print_fit(FILE *out, const char *name, size_t max);
/* The same for a function: what stands in <> and () goes first, std::vector<..>::push_back(..). */
size_t words_print_function(FILE *out, const char *function, size_t max);
/* Always without what stands in <> and (). */
void words_print_short(FILE *out, const char *function, size_t max);
enum { WORDS_SHORT = 512 };
/* Copies without what stands in <> and (). False: the brackets do not match, or it is too long even
 * so. */
bool words_shorten(char text[WORDS_SHORT], const char *function);
void words_print_command(FILE *out, const char *const *argv, uint32_t argc, size_t max);
/* Without the folder one stands in, which is mostly that of the project or the recording. */
const char *words_from_here(const char *path);
/* Quoted for a shell if it has to be. */
void words_print_shell(FILE *out, const char *path);
/* A text of several words, broken at blanks (a newline is one too): `indent` is where it begins and
 * every line of it begins, `width` where lines end. No newline after the last one. */
void words_print_wrapped(FILE *out, const char *text, size_t indent, size_t width);

#endif
