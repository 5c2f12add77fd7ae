/* Which children of a process were dead when the next one began.
 *
 * A parent that waits with a system call of its own, or not at all, does not note that
 * a child was killed. But its next child can: a sibling that is dead when this child
 * begins ended before anything that this child does. So each child puts its pid into a
 * list in its parent's file, and the next one looks whether the listed ones still run.
 * wait() and its kin take a child off the list (ends.c), so it is usually empty.
 *
 * To look is to readlink /proc/PID/exe. That fails in the same way for a process that
 * is gone, for a zombie, and for one that has lost its memory and can do nothing any
 * more. It also fails if the first thread has ended while others run on: so we count the
 * threads. We look only while a process is being made: no sandbox allows that and
 * forbids this. There is no lock, no memory and no file descriptor, so all of it may run
 * in a vfork child.
 *
 * The list is short. With more children at a time some are forgotten; the outside then
 * sees by itself that they have ended. */
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
			return; /* there is no /proc here */
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
