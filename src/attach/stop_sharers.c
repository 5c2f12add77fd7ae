/* Processes outside the thread group that share the memory: a child of vfork until it calls exec, and whatever
 * clone(CLONE_VM) makes. They are in no list of the process's threads and would run through code that is being
 * changed. So the freeze is given up while there is one.
 *
 * Before the freeze every process of the system is looked at. From the moment a thread is traced, the kernel
 * reports what it makes. Only the time between is left: there the children of threads are looked at,
 * which costs some 10 us a thread. */
#include "attach/stop_held.h"

#include "hosted/proc_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two processes that are about to end have none, which is the same for kcmp. */
static bool has_memory(pid_t pid)
{
	char pages[64];
	return proc_text(pages, sizeof pages, "/proc/%d/statm", (int)pid) && pages[0] != '0';
}

bool sharers_same_memory(pid_t a, pid_t b)
{
	return !syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) && has_memory(b);
}

static int found(struct stop *s, pid_t other, struct heft_error *err)
{
	return heft_fail(
		err, HEFT_EBUSY,
		"process %d shares its memory with process %d just now, which it has started "
		"and which has not begun its own program yet (vfork)",
		s->pid, other);
}

int sharers_look_everywhere(struct stop *s, struct heft_error *err)
{
	DIR *folder = opendir("/proc");
	if (!folder)
		return heft_fail_errno(err, "/proc");
	int result = 0;
	pid_t live = stop_live_task(s);
	for (const struct dirent *e; !result && (e = readdir(folder));) {
		pid_t other = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;
		if (other && other != s->pid && live && sharers_same_memory(live, other))
			result = found(s, other, err);
	}
	closedir(folder);
	return result;
}

int sharers_look_at_children(struct stop *s, pid_t tid, struct heft_error *err)
{
	char text[8192];
	if (!stop_task_file(s, tid, "children", text, sizeof text))
		return 0;
	for (char *rest = text, *end;; rest = end) {
		pid_t other = (pid_t)strtol(rest, &end, 10);
		if (end == rest)
			return 0;
		if (sharers_same_memory(tid, other))
			return found(s, other, err);
	}
}
