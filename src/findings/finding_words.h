/* Inside src/findings: numbers and places as a finding's sentence shows them. */
#ifndef HEFT_FINDINGS_FINDING_WORDS_H
#define HEFT_FINDINGS_FINDING_WORDS_H

#include "hosted/number_words.h"
#include "profile/profile.h"

#include <stddef.h>
#include <stdint.h>

struct phrase {
	char text[160];
};
struct phrase phrase_bytes(uint64_t bytes);   /* "512 bytes", "5.0 MiB" */
struct phrase phrase_exact(uint64_t bytes);   /* "301,772 bytes" */
struct phrase phrase_time(double ns);         /* "178 us" */
struct phrase phrase_share(double share);     /* "96.7 %" */
struct phrase phrase_rate(double per_second); /* "1.2 million a second" */
/* "1 block", "12 blocks". */
struct phrase phrase_many(uint64_t n, const char *one, const char *many);

/* A function's name without what stands in its brackets, long ones cut and marked. */
struct phrase phrase_function(const char *function);
/* "file.c:12" without folders; the module's name where no file is known; "" without either. */
struct phrase phrase_where(const struct profile *p, uint32_t frame);
/* "conn_new (connections.c:41)"; of PROFILE_NONE "an unknown place". */
struct phrase phrase_place(const struct profile *p, uint32_t node);

#endif
