/* Whether the recorded memory is only a small part of what the program had: the rule and the words. The recorder
 * asks about a running process, a reader about a recording. */
#ifndef HEFT_TRACE_UNSEEN_MEMORY_H
#define HEFT_TRACE_UNSEEN_MEMORY_H

#include "trace/trace.h"

enum unseen_memory {
	UNSEEN_NOTHING, /* or not enough to speak of */
	UNSEEN_MOST,    /* most of its memory cannot be malloc's */
	UNSEEN_OR_KEPT, /* ... or malloc keeps what was freed */
};

/* The most memory that any known allocator needs for so many blocks of so many bytes. */
double unseen_memory_footprint(double bytes, double blocks);
/* allocated: the footprint of all its allocations so far; INFINITY: not known. */
enum unseen_memory unseen_memory(const struct trace_anonymous *a, double allocated);

/* Writes two lines: what was seen, then why that may be and what to do. exe helps to guess. named: another
 * message has named an allocator as the reason. */
void unseen_memory_words(const struct trace_anonymous *a, enum unseen_memory how, const char *exe,
			 bool named, char *text, size_t size);

#endif
