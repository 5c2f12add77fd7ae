/* When a process began, from /proc/PID/stat. */
#include "session/process_start.h"

#include "hosted/proc_text.h"

#include <stdlib.h>

uint64_t process_start_ticks(pid_t pid)
{
	char text[1024];
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *state = proc_stat_field(text, STAT_STATE);
	const char *at = proc_stat_field(text, STAT_START_TIME);
	if (!state || *state == 'Z' || *state == 'X')
		return 0; /* it has ended; nobody has asked for its status yet */
	return at ? strtoull(at, NULL, 10) : 0;
}
