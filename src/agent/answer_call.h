/* Answering a process that asks for its own profile (heft_pprof_dump; wire/session.h). */
#ifndef HEFT_AGENT_ANSWER_CALL_H
#define HEFT_AGENT_ANSWER_CALL_H

#include "session/process.h"

/* Makes the bytes of the answer, which the caller frees. 0, or a negative code. */
typedef int answer_make(void *ctx, struct process *p, char **bytes, size_t *length);

/* Looks once: begins an answer if the process asked, and goes on with it if the process took the last piece.
 * One thread calls it for each sampled process every few hundredths of a second. While make() works, another
 * thread must raise header->progress, or the process gives up. */
void answer_call(struct process *p, answer_make *make, void *ctx);

/* The same in steps, for an answer that takes its time. */
bool answer_is_asked(const struct process *p);
/* Takes the bytes, and gives the first piece. NULL: there is no answer. */
void answer_begin(struct process *p, char *bytes, size_t length);
/* Gives the next piece if the process took the last one. p->answer.bytes is NULL when all was given. */
void answer_go_on(struct process *p);

#endif
