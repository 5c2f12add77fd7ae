/* Which children of a process were dead when the next one began.
 *
 * A parent that waits by a system call of its own, or not at all, leaves no word of a child that was
 * killed. But its next child can tell: whoever is dead when it begins ended before anything that it
 * does. So each child leaves its number in its parent's file, and the next one looks whether those
 * that are listed there still run. Children that are waited for by wait() and its kin are off the list
 * again (ends.c), so that usually there is nobody to look for.
 *
 * A look is a readlink of /proc/PID/exe, which fails in the same way for one that is gone, for a zombie,
 * and for one whose memory is gone and that can do nothing any more; but also for one whose first thread
 * has ended while others run on: so the threads are counted. It is made only where a process is being made: there is no sandbox that allows that and not
 * this. No lock, no memory, no file descriptor: all of it may run in a vfork child.
 *
 * The list is short. With more children at a time some are forgotten; their end is then where the
 * outside sees it. */
#include "capture/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* How many links the file at `path` has, or a negative error. */
static long links_of(const char *path)
{
	struct stat st;
	long rc = sys_call4(SYS_newfstatat, AT_FDCWD, (long)path, (long)&st, 0);
	return rc < 0 ? rc : (long)st.st_nlink;
}

static int is_dead(int32_t pid)
{
	char path[32] = "/proc/", exe[1];
	enum { LINKS_OF_ONE = 3 }; /* of a directory with one other in it: its threads */
	char digits[12];
	unsigned n = 0, at = 6;
	for (uint32_t v = (uint32_t)pid; v; v /= 10)
		digits[n++] = (char)('0' + v % 10);
	while (n)
		path[at++] = digits[--n];
	memcpy(path + at, "/exe", 5);
	if (sys_readlink(path, exe, sizeof exe) != -ENOENT)
		return 0;
	memcpy(path + at, "/task", 6);
	long links = links_of(path);
	return links == -ENOENT || links == LINKS_OF_ONE;
}

void heft_see_siblings(struct wire_header *parent)
{
	char exe[1];
	int looked = 0;
	for (uint32_t i = 0; i < WIRE_UNREAPED; i++) {
		int32_t pid = atomic_load_explicit(&parent->unreaped[i], memory_order_relaxed);
		if (pid <= 0)
			continue;
		if (!looked++ && sys_readlink("/proc/self/exe", exe, sizeof exe) < 0)
			return; /* no /proc here: nobody is in it */
		if (is_dead(pid))
			heft_reaped(parent, pid, 0, 0);
	}
}

void heft_add_sibling(struct wire_header *parent, int32_t pid)
{
	for (uint32_t i = 0; i < WIRE_UNREAPED; i++)
		if (atomic_load(&parent->unreaped[i]) == pid)
			return;
	for (uint32_t i = 0; i < WIRE_UNREAPED; i++) {
		int32_t none = 0;
		if (atomic_compare_exchange_strong(&parent->unreaped[i], &none, pid))
			return;
	}
	atomic_store(&parent->unreaped[(uint32_t)pid % WIRE_UNREAPED], pid);
}
