/* Foreign names made fit for XML, and numbers for people. */
#ifndef HEFT_EXPORT_EXPORT_NAMES_H
#define HEFT_EXPORT_EXPORT_NAMES_H

#include "hosted/number_words.h"
#include "profile/stack_fold.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT_UNKNOWN_STACK STACK_UNKNOWN

/* At most so many characters of a name (name_words.h), with what XML and HTML take for markup escaped;
 * what is cut ends with an ellipsis. Returns how many were written. */
size_t export_name_xml(FILE *out, const char *name, size_t most);

struct words export_bytes(uint64_t bytes);             /* 12.3 MiB */
struct words export_share(uint64_t part, uint64_t of); /* 12.34 % */

#endif
