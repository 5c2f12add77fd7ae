/* Shows that symbols are still being read, on a terminal only. */
#ifndef HEFT_CLI_PROGRESS_H
#define HEFT_CLI_PROGRESS_H

#include "profile/profile_from_trace.h"

/* All zero but started_ms */
struct cli_progress {
	uint64_t started_ms, shown_ms;
	bool shown;
};

/* Lets the selection report progress, if stderr is a terminal. The progress must outlive it. */
void cli_progress_attach(struct cli_progress *progress, struct profile_selection *selection);
/* Removes the line. */
void cli_progress_end(struct cli_progress *progress);

#endif
