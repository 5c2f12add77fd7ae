/* Foreign names made fit for a line of text, and numbers for people. */
#ifndef HEFT_EXPORT_EXPORT_NAMES_H
#define HEFT_EXPORT_EXPORT_NAMES_H

#include "hosted/number_words.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT_UNKNOWN_STACK "[stack unknown]" /* the one frame of a site without a stack */

/* One character of a name as valid UTF-8 that shows: control characters, bytes that are no UTF-8,
 * what XML forbids and what reorders text become \xNN. Fills `text` (NUL-terminated, at most
 * EXPORT_NAME_PIECE bytes), moves *s on and returns the length; 0 at the end. */
enum { EXPORT_NAME_PIECE = 20 };
size_t export_name_next(const char **s, char text[EXPORT_NAME_PIECE]);
/* The same, at most so many characters of it, with what XML and HTML take for markup escaped; what is
 * cut ends with an ellipsis. Returns how many were written. */
size_t export_name_xml(FILE *out, const char *name, size_t most);

struct words export_bytes(uint64_t bytes);             /* 12.3 MiB */
struct words export_share(uint64_t part, uint64_t of); /* 12.34 % */

#endif
