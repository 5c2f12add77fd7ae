/* The few functions of libc that the inside, or the compiler for it, calls. The blob
 * is linked to no library, so they are here. Plain loops: none of them is on the hot
 * path. (-fno-tree-loop-distribute-patterns keeps the compiler from turning a loop into
 * a call of the function that it is in.) */
#include "base/sys.h"

#include <string.h>
#include <time.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	unsigned char *a = to;
	const unsigned char *b = from;
	for (size_t i = 0; i < n; i++)
		a[i] = b[i];
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *a = to;
	const unsigned char *b = from;
	if (a <= b)
		for (size_t i = 0; i < n; i++)
			a[i] = b[i];
	else
		while (n-- > 0)
			a[n] = b[n];
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	unsigned char *a = to;
	for (size_t i = 0; i < n; i++)
		a[i] = (unsigned char)byte;
	return to;
}

int memcmp(const void *x, const void *y, size_t n)
{
	const unsigned char *a = x, *b = y;
	for (size_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

size_t strlen(const char *text)
{
	size_t n = 0;
	while (text[n])
		n++;
	return n;
}

size_t strnlen(const char *text, size_t most)
{
	size_t n = 0;
	while (n < most && text[n])
		n++;
	return n;
}

char *strchr(const char *text, int c)
{
	for (; *text != (char)c; text++)
		if (!*text)
			return NULL;
	return (char *)(uintptr_t)text;
}

int strncmp(const char *x, const char *y, size_t most)
{
	const unsigned char *a = (const unsigned char *)x, *b = (const unsigned char *)y;
	for (size_t i = 0; i < most; i++)
		if (a[i] != b[i] || !a[i])
			return a[i] - b[i];
	return 0;
}

size_t strcspn(const char *text, const char *stops)
{
	size_t n = 0;
	while (text[n] && !strchr(stops, text[n]))
		n++;
	return n;
}

char *stpcpy(char *restrict to, const char *restrict from)
{
	size_t n = strlen(from);
	memcpy(to, from, n + 1);
	return to + n;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t ns = sys_clock_ns(clock);
	*now = (struct timespec){(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
	return 0;
}

/* Nothing in the blob changes the program's errno: what it sets is this one. */
int *__errno_location(void)
{
	static int none;
	return &none;
}
