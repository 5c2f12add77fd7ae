/* See process_root.h. The same root directory may still have other mounts below it, so a process in another mount
 * namespace is taken to see other files. */
#include "session/process_root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool process_shares(pid_t pid, const char *what)
{
	char path[64];
	struct stat ours, theirs;
	snprintf(path, sizeof path, "/proc/self/%s", what);
	bool known = !stat(path, &ours);
	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	return known && !stat(path, &theirs) && ours.st_dev == theirs.st_dev &&
	       ours.st_ino == theirs.st_ino;
}

int process_root_open(pid_t pid)
{
	char root[64];
	if (process_shares(pid, "root/.") && process_shares(pid, "ns/mnt"))
		return -1;
	snprintf(root, sizeof root, "/proc/%d/root", pid);
	return open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

int process_root_file(int root, const char *path)
{
	const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				     .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}
