/* Answering a process that asks for its own profile (heft_pprof_dump; wire/session.h). */
#ifndef HEFT_RECORD_ANSWER_CALL_H
#define HEFT_RECORD_ANSWER_CALL_H

#include "record/process.h"

/* Makes the bytes to answer with, to be freed with free(). 0, or a negative code. */
typedef int answer_make(void *ctx, struct process *p, char **bytes, size_t *length);

/* One look: begins an answer that was asked for, goes on with one whose last piece was taken. Call it
 * every few hundredths of a second for each sampled process, from one thread; while make() works,
 * another thread has to go on moving header->progress, or the process gives up. */
void answer_call(struct process *p, answer_make *make, void *ctx);

#endif
