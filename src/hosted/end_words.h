/* How a process ended, in words. Everything that says it uses these: run, report, top, JSON, the agent, the
 * page. */
#ifndef HEFT_HOSTED_END_WORDS_H
#define HEFT_HOSTED_END_WORDS_H

#include <stdbool.h>
#include <stdint.h>

enum end_kind {
	END_RUNNING, /* it ran when the recording ended */
	END_EXIT,
	END_SIGNAL,
	END_EXEC,
	END_DETACHED, /* the recording ended before the process */
	END_UNKNOWN,  /* it ended; the status is not known */
	END_OOM,      /* the kernel killed it for lack of memory */
	END_CUT,      /* the recording has no end, so nothing is known */
};

struct how_ended {
	enum end_kind kind;
	int32_t exit_status, signal;
	uint64_t memory_limit_bytes; /* END_OOM: the limit that it reached; 0: not known */
	bool limit_is_cgroup;        /* else the limit is the machine's memory */
};

struct end_words {
	char text[100];
};
struct end_words words_of_end(const struct how_ended *end);
/* For a status of wait(2), which does not say whether memory was lacking. */
struct end_words words_of_status(int status);

#endif
