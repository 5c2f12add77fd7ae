/* Mapping a session file. The program may cut it or write over it at any time: so the
 * mapping is guarded against SIGBUS (session_guard.h), and what the header says about
 * the file is read once. */
#include "session/session_view.h"

#include "hosted/foreign_entry.h"
#include "session/session_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_header(const struct wire_header *h, const char *name, struct heft_error *err)
{
	if (atomic_load(&h->magic) != WIRE_MAGIC)
		return HEFT_ENOTFOUND; /* being made */
	if (h->version != WIRE_VERSION)
		return heft_fail(err, HEFT_EFORMAT, "session file %s: not of this version of heft",
				 name);
	return 0;
}

int session_file_open(int dirfd, const char *name, struct heft_error *err)
{
	int fd = foreign_entry_open(dirfd, name, O_RDWR);
	if (fd < 0 && errno == EWOULDBLOCK)
		return HEFT_ENOTFOUND; /* later, perhaps */
	if (fd < 0)
		return heft_fail_errno(err, "session file %s", name);
	return fd;
}

int session_view_take(struct session_view *v, int fd, const char *name, struct heft_error *err)
{
	struct stat st;
	memset(v, 0, sizeof *v);
	v->fd = -1;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != WIRE_FILE_BYTES) {
		close(fd);
		return HEFT_ENOTFOUND; /* being made */
	}
	void *base = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		close(fd);
		return heft_fail_errno(err, "cannot map session file %s", name);
	}
	v->session = wire_session_at(base);
	bool guarded = session_guard_add(base); /* before the first look */
	int rc = guarded ? check_header(v->session.header, name, err)
			 : heft_fail(err, HEFT_EREFUSED, "more than %d processes at once",
				     SESSION_GUARD_MOST);
	if (rc) {
		if (guarded)
			session_guard_remove(base);
		munmap(base, WIRE_FILE_BYTES);
		close(fd);
		return rc;
	}
	v->base = base;
	v->sampled = v->session.header->mode == WIRE_SAMPLED;
	if (v->sampled)
		v->fd = fd;
	else
		close(fd);
	v->file = (struct session_file){st.st_dev, st.st_ino, st.st_uid};
	return 0;
}

static void close_file(struct session_view *v)
{
	if (v->fd >= 0)
		close(v->fd);
	v->fd = -1;
}

void session_view_close(struct session_view *v)
{
	session_guard_remove(v->base);
	munmap(v->base, WIRE_FILE_BYTES);
	free(v->streams);
	close_file(v);
}

void session_view_drop_pages(struct session_view *v)
{
	madvise((char *)v->base + WIRE_HEADER_BYTES, WIRE_FILE_BYTES - WIRE_HEADER_BYTES,
		MADV_REMOVE);
	close_file(v);
}
