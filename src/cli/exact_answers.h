/* Answers to processes that are recorded exactly (record/recorder.h). */
#ifndef HEFT_CLI_EXACT_ANSWERS_H
#define HEFT_CLI_EXACT_ANSWERS_H

#include "cli/live_source.h"
#include "record/recorder.h"

/* A recorder_answer_fn; ctx is a live_source. */
int exact_answer(void *ctx, const struct recorder_question *q, char **bytes, size_t *length);

#endif
