/* Only the supervisor writes into the folder, so what it knows of the files stays true unless an administrator removes
 * some; then removing them again does no harm. Worker processes get a descriptor of a file that has no lasting name:
 * half a recording is never seen.
 *
 * Each user has a quota, because a program may leave as many sessions as it likes. Its own oldest recordings go first;
 * those of others are not touched. */
#include "agent/recordings.h"

#include "hosted/foreign_entry.h"
#include "hosted/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BEGUN ".saving-"
enum {
	NAMES_USUAL = 8, /* recordings of one name have a number; further ones have the time */
	NAMES_MOST = 16,
	NO_REPLACE = 1,
};

/* It is opened each time: a folder that is open cannot be unmounted, and another one may be mounted there. */
static int open_folder(const struct recordings *r)
{
	return open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void close_folder(int folder)
{
	int error = errno;
	if (folder >= 0)
		close(folder);
	errno = error;
}

static bool is_recording(const char *name)
{
	size_t n = strlen(name);
	return strncmp(name, "heft.", 5) == 0 && n > 10 && strcmp(name + n - 5, ".heft") == 0;
}

/* An empty file takes a place, too. */
static uint64_t room_of(const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;
	return bytes > 4096 ? bytes : 4096;
}

static void know(struct recordings *r, const char *name, const struct stat *st)
{
	char *copy = strdup(name);
	struct saved_file f = {st->st_uid, room_of(st),
			       st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec, copy};
	if (!copy || !vector_push(&r->files, f))
		free(copy); /* then it does not count */
}

/* Whoever could replace files in it would be given others' recordings, and could make root write elsewhere. */
static int check_owner(const char *dir, int folder, struct heft_error *err)
{
	struct stat st;
	if (fstat(folder, &st) || (st.st_uid != geteuid() && st.st_uid != 0))
		return heft_fail(err, HEFT_EREFUSED,
				 "the folder for recordings %s belongs to another user\n"
				 "--output-dir names another one.",
				 dir);
	if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
		return heft_fail(err, HEFT_EREFUSED,
				 "others may remove recordings from the folder %s\n"
				 "chmod +t %s lets everybody remove only their own.",
				 dir, dir);
	return 0;
}

int recordings_open(struct recordings *r, const char *dir, uint64_t quota_bytes,
		    struct heft_error *err)
{
	struct dirent *e;
	memset(r, 0, sizeof *r);
	r->dir = dir;
	r->quota_bytes = quota_bytes;
	int folder = open_folder(r), rc = folder < 0 ? 0 : check_owner(dir, folder, err);
	DIR *list = folder < 0 || rc ? NULL : fdopendir(folder);
	if (!list && !rc)
		rc = heft_fail_errno(err, "cannot open the folder for recordings %s", dir);
	if (!list)
		close_folder(folder);
	if (rc)
		return rc;
	while ((e = readdir(list))) {
		struct stat st;
		if (strncmp(e->d_name, BEGUN, sizeof BEGUN - 1) == 0)
			unlinkat(folder, e->d_name, 0);
		else if (is_recording(e->d_name) && foreign_entry_stat(folder, e->d_name, &st) &&
			 S_ISREG(st.st_mode))
			know(r, e->d_name, &st);
	}
	closedir(list);
	return 0;
}

void recordings_close(struct recordings *r)
{
	for (size_t i = 0; i < r->files.count; i++)
		free(r->files.items[i].name);
	vector_free(&r->files);
	vector_free(&r->grown);
}

static void begun_name(uint64_t key, char name[40])
{
	snprintf(name, 40, BEGUN "%" PRIu64, key);
}

int recordings_begin(struct recordings *r, uint64_t key)
{
	char name[40];
	begun_name(key, name);
	int folder = open_folder(r);
	int fd = folder < 0 ? -1
			    : openat(folder, name,
				     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	close_folder(folder);
	return fd;
}

void recordings_undo(struct recordings *r, uint64_t key)
{
	char name[40];
	begun_name(key, name);
	int folder = open_folder(r);
	unlinkat(folder, name, 0);
	close_folder(folder);
}

/* Without replacing another file. Old file systems cannot do that in one step. */
static int give_name(int folder, const char *from, const char *to)
{
	if (!syscall(SYS_renameat2, folder, from, folder, to, NO_REPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (linkat(folder, from, folder, to, 0))
		return -1;
	return unlinkat(folder, from, 0);
}

int recordings_finish(struct recordings *r, uint64_t key, int fd, uid_t uid, const char *stem,
		      int32_t pid, char *name, size_t size, struct heft_error *err)
{
	char begun[40];
	struct stat st;
	begun_name(key, begun);
	if (geteuid() == 0 && fchown(fd, uid, (gid_t)-1))
		uid = 0; /* then it stays root's */
	int folder = open_folder(r), failed = -1;
	for (int i = 0; i < NAMES_MOST; i++) {
		char suffix[24] = "";
		if (i > 0 && i < NAMES_USUAL)
			snprintf(suffix, sizeof suffix, ".%d", i);
		else if (i)
			snprintf(suffix, sizeof suffix, ".%" PRIx64, monotonic_ns());
		snprintf(name, size, "heft.%s.%d%s.heft", stem, pid, suffix);
		failed = give_name(folder, begun, name);
		if (!failed || errno != EEXIST)
			break;
	}
	close_folder(folder);
	if (failed && errno == EEXIST)
		return heft_fail(err, HEFT_EREFUSED, "there are too many recordings called %s",
				 name);
	if (failed)
		return heft_fail_errno(err, "cannot name the recording %s", name);
	if (!fstat(fd, &st))
		know(r, name, &st);
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct saved_file *x = a, *y = b;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static uint64_t sum_of(const struct recordings *r, uid_t uid)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < r->files.count; i++)
		sum += r->files.items[i].uid == uid ? r->files.items[i].bytes : 0;
	return sum;
}

void recordings_recount(struct recordings *r)
{
	struct stat st;
	int folder = r->files.count && r->quota_bytes ? open_folder(r) : -1;
	r->grown.count = 0;
	for (size_t i = 0; folder >= 0 && i < r->files.count; i++) {
		struct saved_file *f = &r->files.items[i];
		if (!foreign_entry_stat(folder, f->name, &st))
			continue;
		uint64_t before = f->bytes;
		f->bytes = room_of(&st);
		size_t known = 0;
		while (known < r->grown.count && r->grown.items[known] != f->uid)
			known++;
		if (f->bytes > before && known == r->grown.count)
			(void)vector_push(&r->grown, f->uid);
	}
	close_folder(folder);
}

uint32_t recordings_make_room(struct recordings *r, uid_t uid, uint64_t *bytes)
{
	uint32_t removed = 0;
	uint64_t sum = sum_of(r, uid);
	*bytes = 0;
	if (!r->quota_bytes || sum <= r->quota_bytes)
		return 0;
	/* More than needed, so that the next one has room, too. */
	const uint64_t most = r->quota_bytes - r->quota_bytes / 8;
	int folder = open_folder(r);
	size_t kept = 0;
	qsort(r->files.items, r->files.count, sizeof *r->files.items, by_time);
	for (size_t i = 0; i < r->files.count; i++) {
		struct saved_file f = r->files.items[i];
		if (f.uid != uid || sum <= most) {
			r->files.items[kept++] = f;
			continue;
		}
		bool gone = !unlinkat(folder, f.name, 0);
		if (!gone && errno != ENOENT) { /* its user has mounted something there */
			r->files.items[kept++] = f;
			continue;
		}
		sum -= f.bytes;
		removed += gone;
		*bytes += gone ? f.bytes : 0;
		free(f.name);
	}
	r->files.count = kept;
	close_folder(folder);
	return removed;
}
