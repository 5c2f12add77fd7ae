/* Inside src/findings: numbers and places as a finding's sentence shows them. */
#ifndef HEFT_FINDINGS_FINDING_WORDS_H
#define HEFT_FINDINGS_FINDING_WORDS_H

#include "hosted/number_words.h"
#include "profile/profile.h"

#include <stddef.h>
#include <stdint.h>

uint64_t whole_number(double value); /* rounded; clamped to what fits */

struct phrase {
	char text[160];
};
struct phrase phrase_rate(double per_second);  /* "1.2 million a second" */
struct words words_exact_size(uint64_t bytes); /* "301,772 bytes" */

/* A function's name without what stands in brackets. A long name is cut, and the cut marked. */
struct phrase phrase_function(const char *function);
/* "file.c:12" without folders; the module's name if no file is known; "" without either. */
struct phrase phrase_where(const struct profile *p, uint32_t frame);
/* "conn_new (connections.c:41)"; "an unknown place" for PROFILE_NONE. */
struct phrase phrase_place(const struct profile *p, uint32_t node);

#endif
