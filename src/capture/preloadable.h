/* What kind of program is about to be executed: whether a library can be preloaded into it. */
#ifndef HEFT_CAPTURE_PRELOADABLE_H
#define HEFT_CAPTURE_PRELOADABLE_H

#include "capture/inside.h"

enum heft_file_kind {
	HEFT_FILE_TAKES,   /* it takes our library, or nobody knows */
	HEFT_FILE_REFUSES, /* it would not start with our library, or its loader would complain */
	HEFT_FILE_FOREIGN, /* it would not start with our library. It can be held: musl, an old glibc */
	HEFT_FILE_OWN_ALLOCATOR, /* it takes our library, which would not see its allocator */
	HEFT_FILE_STATIC,        /* it has no loader */
};

struct heft_file {
	enum heft_file_kind kind;
	int privileged; /* it may run with other privileges than ours */
	int fd;         /* of the program, behind scripts; -1: it is none, or not found */
};
/* `path` is readable; without a slash it is looked for along the PATH of `search`, unless that is NULL. Who calls
 * closes the descriptor. */
HIDDEN void heft_file_look(struct heft_file *f, int folder, const char *path, char *const *search);

enum { HEFT_FD_PATH = 32 };
/* "/proc/self/fd/FD" */
HIDDEN const char *heft_fd_path(int fd, char to[HEFT_FD_PATH]);

#endif
