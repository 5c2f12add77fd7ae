/* The session file of one process, mapped here, and how far its streams were read
 * (stream_reader.h). The thread that opened it owns it. Others may read the file, and
 * the atomic members. */
#ifndef HEFT_SESSION_SESSION_VIEW_H
#define HEFT_SESSION_SESSION_VIEW_H

#include "hosted/error.h"
#include "wire/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stream;

struct session_view {
	struct wire_session session;
	void *base;
	bool sampled; /* as its header said at first: it has tables of samples, and no chunks */
	int fd;       /* sampled: the file, for who reads a copy of it; else -1 */
	struct session_file { /* identifies it */
		dev_t device;
		ino_t inode;
		uid_t uid;
	} file;
	_Atomic bool corrupt;     /* it makes no sense: nothing more is read */
	_Atomic uint64_t dropped; /* calls of threads that are gone that were not recorded */
	struct stream *streams;   /* by slot */
	uint32_t slots, stream_capacity;
	uint32_t rounds;
	/* Chunks that were read, to be given back at the end of the round: a list by `next`. */
	uint32_t give_first, give_last, give_count;
	uint32_t round_chunks; /* given back in this round */
};

/* Opens the file `name` in dirfd without waiting for anything. The descriptor, or a negative code; HEFT_ENOTFOUND: not
 * now, try again. */
int session_file_open(int dirfd, const char *name, struct heft_error *err);
/* Maps the file that is open there, and takes the descriptor, also if it fails. HEFT_ENOTFOUND: not ready yet. */
int session_view_take(struct session_view *v, int fd, const char *name, struct heft_error *err);
void session_view_close(struct session_view *v);
/* The process has ended and all was read: frees the memory of the file, but not of the header. */
void session_view_drop_pages(struct session_view *v);

#endif
