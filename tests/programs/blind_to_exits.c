/* For LD_PRELOAD into heft: the kernel says nothing of how another's child ended, as one before Linux 6.15
 * does not once somebody has waited for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long,
		    void *) = (int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl");
	va_list more;

	va_start(more, request);
	void *argument = va_arg(more, void *);
	va_end(more);
	if (_IOC_TYPE(request) == 0xff && _IOC_NR(request) == 11) { /* PIDFD_GET_INFO */
		errno = ENOTTY;
		return -1;
	}
	return next(fd, request, argument);
}

/* The files of /proc that tell how a zombie ended. */
static int hidden(const char *path)
{
	const char *name = strrchr(path, '/');

	return strncmp(path, "/proc/", 6) == 0 && name && strcmp(name, "/stat") == 0;
}

static int open_other(const char *function, int folder, const char *path, int flags, unsigned mode)
{
	int (*next)(int, const char *, int,
		    ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, function);

	if (hidden(path)) {
		errno = ENOENT;
		return -1;
	}
	return next(folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	va_list more;

	va_start(more, flags);
	unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
	va_end(more);
	return open_other("openat", folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
	va_list more;

	va_start(more, flags);
	unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, unsigned) : 0;
	va_end(more);
	return open_other("openat64", folder, path, flags, mode);
}
