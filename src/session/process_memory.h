/* Whether heft sees the memory of a process: compares what is resident with what was recorded, and looks
 * for other allocators than malloc. */
#ifndef HEFT_SESSION_PROCESS_MEMORY_H
#define HEFT_SESSION_PROCESS_MEMORY_H

#include "session/own_allocator.h"
#include "session/process.h"

/* Notes whether calls are missing. The caller has entry.lock, and has just read its memory. */
void process_see_gaps(struct process *p);
/* p was just found. parent: of a forked child, if known; else NULL. */
void process_begin_memory(struct process *p, struct process *parent);
/* False: it is not known, or cannot be compared with what was recorded. */
bool process_anonymous(struct process *p, struct trace_anonymous *a);

/* Looks for an allocator beside malloc, now and then. True: it has just found one. */
bool process_look_for_allocator(struct process *p, uint64_t since_start_ns);
/* The same for a process that is gone: only its executable can be looked at. */
void process_look_at_program(struct process *p);
/* Something else found one: in the command's file, before it ran. */
void process_take_allocator(struct process *p, const struct own_allocator *found);
/* Describes the allocator. False: none was found. */
bool process_allocator_words(struct process *p, char *text, size_t size);

enum process_sight {
	PROCESS_SEEN,
	PROCESS_PARTLY, /* most of its memory is elsewhere; what was recorded is still true */
	PROCESS_BLIND,  /* what was recorded says nothing about it */
};
/* Says why in text. sums: of a sampled process; else NULL. */
struct sampled_sums;
enum process_sight process_sight(struct process *p, const struct sampled_sums *sums, char *text,
				 size_t size);

#endif
