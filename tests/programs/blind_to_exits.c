/* For LD_PRELOAD into heft: the kernel says nothing of how another's child ended, as one before Linux 6.15
 * does not once somebody has waited for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
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

static FILE *open_other(const char *function, const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) = (FILE * (*)(const char *, const char *))
		dlsym(RTLD_NEXT, function);
	const char *name = strrchr(path, '/');

	if (strncmp(path, "/proc/", 6) == 0 && name && strcmp(name, "/stat") == 0) {
		errno = ENOENT;
		return NULL;
	}
	return next(path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return open_other("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return open_other("fopen64", path, mode);
}
