/* Small files of /proc as text. What they say of a process is what the process chose in part: its name may hold
 * anything. */
#ifndef HEFT_HOSTED_PROC_TEXT_H
#define HEFT_HOSTED_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Reads at most `size` - 1 bytes of the file that `format` names, and ends them with NUL. Returns how many bytes
 * were read; 0: there is no such file, or nothing in it, and `text` is empty. */
__attribute__((format(printf, 3, 4))) size_t proc_text(char *text, size_t size, const char *format,
						       ...);
/* The same for a file in an open folder. */
size_t proc_text_at(int folder, const char *name, char *text, size_t size);

/* Numbers of fields, as proc(5) counts them */
enum proc_stat {
	STAT_STATE = 3,
	STAT_PARENT = 4,
	STAT_START_TIME = 22,
	STAT_START_STACK = 28,
	STAT_EXIT_CODE = 52,
};
/* Where that field of the text of /proc/PID/stat begins; NULL: there is none. Counts from behind the name, which may
 * hold brackets and blanks itself: the last bracket ends it. */
const char *proc_stat_field(const char *stat, enum proc_stat number);

/* What follows "`name`:" on its line in the text of /proc/PID/status; NULL: there is no such line. */
const char *proc_status_line(const char *status, const char *name);
/* The last number of that line, which is the innermost of the pid namespaces in the lines that have one for each;
 * -1: there is none. */
long proc_status_last(const char *status, const char *name);

#endif
