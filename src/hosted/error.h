/* Errors of hosted code: a function returns 0 or a negative HEFT_E* code and fills struct heft_error. Only
 * src/cli prints or exits. */
#ifndef HEFT_HOSTED_ERROR_H
#define HEFT_HOSTED_ERROR_H

#include <stdint.h>

enum heft_code {
	HEFT_OK = 0,
	HEFT_EUSAGE = -1,  /* the caller asked for something that makes no sense */
	HEFT_EIO = -2,     /* the system refused: sys_errno says why */
	HEFT_EFORMAT = -3, /* the input is malformed: offset says where */
	HEFT_ENOMEM = -4,
	HEFT_EREFUSED = -5, /* heft will not do this, and the message says what to do instead */
	HEFT_ENOTFOUND = -6,
	HEFT_ENOEXEC = -7,
	HEFT_EBUSY = -8, /* who should do it does not answer: it may later */
};

struct heft_error {
	int code;        /* enum heft_code */
	int sys_errno;   /* 0 if no system call was involved */
	uint64_t offset; /* in the input file, for HEFT_EFORMAT */
	char message[1024];
};

/* Fills err (which may be NULL) and returns code, for `return heft_fail(...)`. The message is one line
 * without a newline at its end. Further lines say what can be done. */
int heft_fail(struct heft_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* For a failed system call: appends ": strerror(errno)" and keeps errno. */
int heft_fail_errno(struct heft_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* For malformed input: the message becomes "FILE: at offset N: WHAT". */
int heft_fail_format(struct heft_error *err, const char *file, uint64_t offset, const char *fmt,
		     ...) __attribute__((format(printf, 4, 5)));

#endif
