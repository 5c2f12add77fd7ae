/* Says how a process ended (end_words.h). The words can stand after "ended: " and after a comma.
 *
 * Invariant: they fit into struct end_words, whatever the numbers are. */
#include "hosted/end_words.h"

#include "hosted/number_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static void out_of_memory(struct end_words *w, const struct how_ended *end)
{
	char limit[NUMBER_WORDS] = "";
	const char *before = "", *after = "";
	if (end->memory_limit_bytes) {
		number_bytes(limit, end->memory_limit_bytes, "byte", "bytes");
		before = end->limit_is_cgroup ? " (limit of its cgroup: " : " (of ";
		after = ")";
	}
	snprintf(w->text, sizeof w->text, "killed by the kernel: out of memory%s%s%s", before,
		 limit, after);
}

struct end_words words_of_end(const struct how_ended *end)
{
	struct end_words w = {"ended, status unknown"};
	const char *name = sigabbrev_np(end->signal);
	switch (end->kind) {
	case END_EXIT:
		snprintf(w.text, sizeof w.text, "exit status %" PRId32 "%s%s", end->exit_status,
			 end->signal && name ? " after SIG" : "", end->signal && name ? name : "");
		break;
	case END_SIGNAL:
		snprintf(w.text, sizeof w.text, "killed by signal %" PRId32 "%s%s%s", end->signal,
			 name ? " (SIG" : "", name ? name : "", name ? ")" : "");
		break;
	case END_OOM: out_of_memory(&w, end); break;
	case END_EXEC: strcpy(w.text, "became another program"); break;
	case END_DETACHED: strcpy(w.text, "went on after the recording ended"); break;
	case END_RUNNING: strcpy(w.text, "still running when the recording ended"); break;
	case END_CUT: strcpy(w.text, "its end was not recorded"); break;
	case END_UNKNOWN: break;
	}
	return w;
}

struct end_words words_of_status(int status)
{
	struct how_ended end = {
		.kind = WIFSIGNALED(status) ? END_SIGNAL : END_EXIT,
		.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
	};
	return words_of_end(&end);
}
