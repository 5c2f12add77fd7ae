/* What the test programs share. They avoid stdio, so that a C program allocates
 * nothing but what its source shows, and every call site that a test looks for
 * carries a marker comment (at-sign, then a name) that the harness turns into a line. */
#ifndef HEFT_TESTS_PROGRAM_H
#define HEFT_TESTS_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* noipa: a frame that the source shows is a frame on the stack, with that name. */
#define NOINLINE __attribute__((noipa, noinline))

/* The compiler must neither drop the block nor turn the call into a tail call. */
static inline void keep(const volatile void *p)
{
	__asm__ volatile("" : : "r"(p) : "memory");
}

/* A size the compiler cannot see through (no warnings about absurd sizes either). */
static inline size_t opaque(size_t n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

static inline void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(99);
}

static inline void say_number(const char *label, unsigned long long value)
{
	char digits[32];
	int at = (int)sizeof(digits);

	digits[--at] = '\0';
	digits[--at] = '\n';
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	say(label);
	say(" ");
	say(digits + at);
}

/* A check of the program itself: exit status 90 is never expected by any test. */
static inline void must(int condition, const char *what)
{
	if (condition)
		return;
	if (write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
		_exit(91);
	_exit(90);
}

#endif
