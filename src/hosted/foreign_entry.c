/* Looking at and opening what others may have put into a directory (foreign_entry.h). */
#include "hosted/foreign_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The call is older than the kernel, or a container's filter does not know it. */
static bool is_missing(int error)
{
	return error == ENOSYS || error == EPERM;
}

bool foreign_entry_stat(int dirfd, const char *name, struct stat *st)
{
	struct statx x;
	/* AT_STATX_DONT_SYNC: a file system of a program is not asked. */
	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, &x))
		return is_missing(errno) && !fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW);
	*st = (struct stat){
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_nlink = x.stx_nlink,
		.st_uid = x.stx_uid,
		.st_size = (off_t)x.stx_size,
		.st_blocks = (blkcnt_t)x.stx_blocks,
		.st_ctim = {.tv_sec = x.stx_ctime.tv_sec, .tv_nsec = x.stx_ctime.tv_nsec},
		.st_mtim = {.tv_sec = x.stx_mtime.tv_sec, .tv_nsec = x.stx_mtime.tv_nsec},
	};
	return !(x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

int foreign_entry_open(int dirfd, const char *name, int access)
{
	/* Who has a lease on the file would make others wait for it, as a FIFO does. */
	const struct open_how how = {.flags = (unsigned)access | O_CLOEXEC | O_NOFOLLOW |
					      O_NONBLOCK | O_NOCTTY,
				     .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof how);
	return fd < 0 && is_missing(errno) ? openat(dirfd, name, (int)how.flags) : fd;
}
