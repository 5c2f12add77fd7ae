/* Whether heft sees the memory of a process: what is resident beside what was recorded, and the
 * allocators that it has beside malloc. */
#ifndef HEFT_RECORD_PROCESS_MEMORY_H
#define HEFT_RECORD_PROCESS_MEMORY_H

#include "record/own_allocator.h"
#include "record/process.h"

/* Under entry.lock, whenever its memory is looked at: whether everything is being recorded. */
void process_see_gaps(struct process *p);
/* Of one that was just found. parent: of a forked child, if it is known; else NULL. */
void process_begin_memory(struct process *p, struct process *parent);
/* False: not known, or it cannot be compared with what was recorded. */
bool process_anonymous(struct process *p, struct trace_anonymous *a);

/* Now and then: looks for an allocator beside malloc. True: one was found just now. */
bool process_look_for_allocator(struct process *p, uint64_t since_start_ns);
/* The same of one that is no longer there: only its executable is. */
void process_look_at_program(struct process *p);
/* The same, of what is known about the command before it ran. */
void process_take_allocator(struct process *p, const struct own_allocator *found);
/* What it is, in words; false: none was found. */
bool process_allocator_words(struct process *p, char *text, size_t size);

enum process_sight {
	PROCESS_SEEN,
	PROCESS_PARTLY, /* most of its memory is elsewhere; what was recorded is still true */
	PROCESS_BLIND,	/* what was recorded says nothing about it */
};
/* With the reason, in words. sums: of a sampled process; else NULL. */
struct sampled_sums;
enum process_sight process_sight(struct process *p, const struct sampled_sums *sums, char *text,
				 size_t size);

#endif
