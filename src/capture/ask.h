/* What other parts of the inside ask of the outside (ask.c). */
#ifndef HEFT_CAPTURE_ASK_H
#define HEFT_CAPTURE_ASK_H

#include "capture/inside.h"
#include "capture/program_texts.h"

/* Appends a list of the sites with most of that field of struct heft_stats, or why there is none. to_tsc 0: until now;
 * tid 0: of all threads. */
HIDDEN void heft_ask_sites(uint64_t from_tsc, uint64_t to_tsc, int32_t tid, size_t field,
			   struct heft_text *text);

#endif
