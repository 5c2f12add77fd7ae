/* Texts of the program: the names it gives to marks, regions, stages, events and pools, and messages put together without
 * libc. */
#ifndef HEFT_CAPTURE_PROGRAM_TEXTS_H
#define HEFT_CAPTURE_PROGRAM_TEXTS_H

#include "capture/inside.h"

/* The number of a name in this process, which is in the session's log from now on. 0: NULL, "", or there are too many. */
HIDDEN uint32_t heft_text_number(const char *name);
HIDDEN const char *heft_text_of(uint32_t number); /* "" for 0 */

/* A text that grows, and stops growing where its memory ends. */
struct heft_text {
	char *at, *end;
};
HIDDEN void heft_text_put(struct heft_text *t, const char *text);
/* For terminals: control characters as \x1b */
HIDDEN void heft_text_name_put(struct heft_text *t, const char *name);
HIDDEN void heft_text_number_put(struct heft_text *t,
				 int64_t n);                   /* 12,345, as all numbers of heft */
HIDDEN void heft_text_line_put(struct heft_text *t, int line); /* of a file: 12345 */

#endif
