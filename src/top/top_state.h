/* Inside src/top: what the view shows now. top_state.c changes it, top_draw.c draws it. */
#ifndef HEFT_TOP_TOP_STATE_H
#define HEFT_TOP_TOP_STATE_H

#include "top/top.h"

enum { SAMPLES = 6, TYPED = 128, POINTS = 512 };

enum overlay { NO_OVERLAY, HELP, OUTPUT, THREADS, LEDGER };
enum awaited { NOTHING, DATA, END };
enum prompt { NO_PROMPT, PROMPT_FILTER, PROMPT_THREAD, PROMPT_QUIT };

struct top_state {
	struct top_state_options o;
	struct profile *profile;
	struct findings *findings;
	struct top_rows rows;
	struct top_view view;
	struct top_sample *samples[SAMPLES]; /* oldest first */
	unsigned sample_count;
	struct top_sample *mark;
	struct top_point points[POINTS];
	char filter[TYPED], filter_before[TYPED], thread[TYPED], typed[TYPED];
	uint32_t cursor;
	uint32_t first; /* row at the top of the screen when it was last drawn */
	size_t page;    /* lines of the table when it was last drawn */
	uint64_t expanded;
	bool paused, ended;
	enum awaited awaited; /* the message stays until this has come */
	char end_words[100];
	uint64_t age_ns;
	enum overlay overlay;
	enum prompt prompt;
	char *output, *ledger;
	char message[512];
};

#endif
