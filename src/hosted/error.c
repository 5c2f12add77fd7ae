/* Fills struct heft_error. Nothing here prints: hosted code reports errors, src/cli decides what a person
 * sees. */
#include "hosted/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int fill(struct heft_error *err, int code, int sys_errno, uint64_t offset, const char *head,
		const char *fmt, va_list ap)
{
	if (!err)
		return code;
	err->code = code;
	err->sys_errno = sys_errno;
	err->offset = offset;
	size_t used = 0;
	if (head) {
		int n = snprintf(err->message, sizeof err->message, "%s: at offset %llu: ", head,
				 (unsigned long long)offset);
		used = n < 0                             ? 0
		       : (size_t)n < sizeof err->message ? (size_t)n
							 : sizeof err->message - 1;
	}
	vsnprintf(err->message + used, sizeof err->message - used, fmt, ap);
	if (sys_errno) {
		used = strlen(err->message);
		snprintf(err->message + used, sizeof err->message - used, ": %s",
			 strerror(sys_errno));
	}
	return code;
}

int heft_fail(struct heft_error *err, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill(err, code, 0, 0, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int heft_fail_errno(struct heft_error *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	va_start(ap, fmt);
	fill(err, HEFT_EIO, saved, 0, NULL, fmt, ap);
	va_end(ap);
	errno = saved;
	return HEFT_EIO;
}

int heft_fail_format(struct heft_error *err, const char *file, uint64_t offset, const char *fmt,
		     ...)
{
	va_list ap;
	va_start(ap, fmt);
	fill(err, HEFT_EFORMAT, 0, offset, file, fmt, ap);
	va_end(ap);
	return HEFT_EFORMAT;
}
