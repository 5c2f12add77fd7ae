/* Choosing and making the session directory.
 *
 * It has to be on a memory file system: the files in it are shared memory, and
 * on a disk the kernel would write every page of them out. It is ours alone
 * (0700), except for root: a service started by root drops its privileges and
 * then forks or executes, and its new process still has to leave its file here.
 * So root's directory may be written, though not listed, by others (1733). Its
 * name is a random number inside a directory that nobody can list (0711): only the
 * programs themselves know it, and strangers cannot put files there. The recorder
 * takes what it reads from there as hostile anyway.
 *
 * Directories of recorders that were killed are cleaned up by the next one. */
#include "session/session_dir.h"

#include "hosted/foreign_entry.h"
#include "wire/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "heft-run-"
/* A file the kernel cannot back any more is a SIGBUS in the profiled program: ask for room. */
#define ROOM_BYTES (4ull * WIRE_FILE_BYTES)

static bool suitable(const char *base, bool memory_only)
{
	struct statfs fs;
	if (statfs(base, &fs) || access(base, W_OK | X_OK))
		return false;
	if (memory_only && fs.f_type != TMPFS_MAGIC)
		return false;
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= ROOM_BYTES;
}

static void empty(int fd, bool also_dirs)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	while (dir && (e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    !unlinkat(dirfd(dir), e->d_name, 0) || !also_dirs)
			continue;
		empty(openat(dirfd(dir), e->d_name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		      false);
		unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
}

/* Others cannot have put directories into one that only its owner may write. */
static void empty_and_remove(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		empty(fd, !fstat(fd, &st) && !(st.st_mode & (S_IWGRP | S_IWOTH)));
	rmdir(path);
}

/* Makes the directory that others may write to inside d->path. */
static bool make_hidden(struct session_dir *d)
{
	uint64_t name;
	size_t used = strlen(d->path);
	if (getrandom(&name, sizeof name, 0) != sizeof name || chmod(d->path, 0711))
		return false;
	snprintf(d->path + used, sizeof d->path - used, "/%016" PRIx64, name);
	d->hidden = !mkdir(d->path, 0700);
	if (!d->hidden)
		d->path[used] = 0;
	return d->hidden && !chmod(d->path, 01733);
}

static void clean_up_after_the_dead(const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *e;
	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, PREFIX, sizeof PREFIX - 1))
			continue;
		int pid = atoi(e->d_name + sizeof PREFIX - 1);
		char path[512];
		struct stat st;
		if (pid <= 0 || (!kill(pid, 0) || errno != ESRCH) ||
		    snprintf(path, sizeof path, "%s/%s", base, e->d_name) >= (int)sizeof path ||
		    lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		empty_and_remove(path);
	}
	if (dir)
		closedir(dir);
}

int session_dir_make(struct session_dir *d, struct heft_error *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *bases[] = {getenv("HEFT_DIR"), runtime, "/dev/shm", "/run", "/tmp"};
	const char *base = NULL;
	for (size_t i = 0; !base && i < sizeof bases / sizeof *bases; i++)
		if (bases[i] && bases[i][0] == '/' && strlen(bases[i]) < 200 &&
		    suitable(bases[i], i > 0))
			base = bases[i];
	if (!base && suitable("/tmp", false))
		base = "/tmp";
	if (!base)
		return heft_fail(err, HEFT_EREFUSED,
				 "no memory file system with %llu MiB free for the session "
				 "(tried HEFT_DIR, XDG_RUNTIME_DIR, /dev/shm, /run, /tmp)\n"
				 "mount a tmpfs or make /dev/shm larger, and set HEFT_DIR to it",
				 (unsigned long long)(ROOM_BYTES >> 20));
	clean_up_after_the_dead(base);
	snprintf(d->path, sizeof d->path, "%s/" PREFIX "%d-XXXXXX", base, getpid());
	if (!mkdtemp(d->path))
		return heft_fail_errno(err, "cannot make a session directory in %s", base);
	d->hidden = false;
	d->fd = -1;
	if (geteuid() == 0 && !make_hidden(d)) {
		int rc = heft_fail_errno(err, "session directory %s", d->path);
		session_dir_remove(d);
		return rc;
	}
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d->changed_ns = 0;
	d->on_disk = !suitable(base, true);
	if (d->fd < 0) {
		int rc = heft_fail_errno(err, "session directory %s", d->path);
		session_dir_remove(d);
		return rc;
	}
	session_dir_spares(d);
	return 0;
}

/* A directory's time may be as coarse as a clock tick: one of the last few ticks is not proof that
 * nothing came after it. */
#define TICKS_NS 20000000

bool session_dir_changed(struct session_dir *d)
{
	struct stat st;
	struct timespec now;
	if (fstat(d->fd, &st) || clock_gettime(CLOCK_REALTIME, &now))
		return true;
	int64_t changed = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
	bool recent = now.tv_sec * 1000000000ll + now.tv_nsec - changed < TICKS_NS;
	if (changed == d->changed_ns && !recent)
		return false;
	d->changed_ns = changed;
	return true;
}

/* In a directory that everybody may write to, somebody may have left a file of this name while there was none.
 * No program takes it (src/capture/open_session.c), so it only stands in the way. */
static void remove_foreign(const struct session_dir *d, const char *name)
{
	struct stat st;
	if (foreign_entry_stat(d->fd, name, &st) &&
	    (st.st_uid != geteuid() || !S_ISREG(st.st_mode) || st.st_nlink != 1) &&
	    unlinkat(d->fd, name, 0))
		unlinkat(d->fd, name, AT_REMOVEDIR);
}

void session_dir_spares(const struct session_dir *d)
{
	for (int i = 0; i < WIRE_SPARES; i++) {
		char name[32];
		snprintf(name, sizeof name, WIRE_SPARE_NAME "%x", i);
		remove_foreign(d, name);
		int fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			continue; /* still there */
		if (ftruncate(fd, (off_t)WIRE_FILE_BYTES))
			unlinkat(d->fd, name, 0); /* we have a limit ourselves */
		close(fd);
	}
}

bool session_file_name(const char *name, int32_t *pid, uint64_t *start_tsc)
{
	static const char digits[] = "0123456789abcdef";
	size_t first = strspn(name, digits);
	size_t second = name[first] == '.' ? strspn(name + first + 1, digits) : 0;
	*pid = 0;
	*start_tsc = 0;
	if (!first || first > 8 || !second || second > 16 || name[first + 1 + second])
		return false;
	/* One process has one name: with leading zeros a file would pass for that of another. */
	if (name[0] == '0' || (name[first + 1] == '0' && second > 1))
		return false;
	*pid = (int32_t)strtoul(name, NULL, 16);
	*start_tsc = strtoull(name + first + 1, NULL, 16);
	return *pid > 0;
}

void session_dir_drop(const struct session_dir *d, int32_t pid, uint64_t start_tsc)
{
	char name[32];
	snprintf(name, sizeof name, "%" PRIx32 ".%" PRIx64, (uint32_t)pid, start_tsc);
	unlinkat(d->fd, name, 0);
}

void session_dir_remove(struct session_dir *d)
{
	if (d->fd >= 0)
		close(d->fd);
	empty_and_remove(d->path);
	char *outer = d->hidden ? strrchr(d->path, '/') : NULL;
	if (outer) {
		*outer = 0;
		rmdir(d->path);
	}
	d->fd = -1;
}

void session_allow_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}
