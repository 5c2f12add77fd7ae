/* Strings that are kept twice, and blocks that only look like it. argv[1] is the mode. Row i has 20 to 76
 * letters. */
#include "program.h"

#include <stdlib.h>

enum { ROWS = 6000 };
static char *row[ROWS], *other[ROWS];
static char *volatile last;

static const char *text(unsigned i)
{
	static char line[100];
	unsigned length = 20 + i * 7919 % 57;

	memset(line, 'a' + (int)(i % 26), length);
	line[length] = 0;
	return line;
}

NOINLINE static void load(void)
{
	for (unsigned i = 0; i < ROWS; i++)
		row[i] = strdup(text(i)); /* @copy.original */
}

/* ---- copies */

NOINLINE static void index_rows(void)
{
	for (unsigned i = 0; i < ROWS; i++)
		other[i] = strdup(row[i]); /* @copy.copy */
}

NOINLINE static void remember(unsigned i)
{
	size_t size = strlen(row[i]) + 1;

	other[i] = memcpy(malloc(size), row[i], size);
}

/* Both in one function, in turn. */
NOINLINE static void load_twice(void)
{
	for (unsigned i = 0; i < ROWS; i++) {
		row[i] = strdup(text(i));
		other[i] = strdup(row[i]);
	}
}

/* ---- no copies */

/* Two arrays of one length: parts of one object. */
NOINLINE static char *make_xs(unsigned i)
{
	return malloc(8 * (1 + i % 13));
}

NOINLINE static char *make_ys(unsigned i)
{
	return malloc(8 * (1 + i % 13));
}

NOINLINE static void make_points(void)
{
	for (unsigned i = 0; i < ROWS; i++) {
		row[i] = malloc(1 + text(i)[0] % 50);
		other[i] = malloc(1 + text(i)[0] % 50);
	}
}

/* Keys and values of one length, and of different ones. */
NOINLINE static char *make_key(void)
{
	return strdup("key-of-a-row");
}

NOINLINE static char *make_value(void)
{
	return strdup("val-of-a-row");
}

NOINLINE static void make_pairs(void)
{
	for (unsigned i = 0; i < ROWS; i++) {
		row[i] = strdup(text(i));
		other[i] = strdup(text(i * 31 + 5));
	}
}

/* Two buffers of one size. */
NOINLINE static void make_buffers(void)
{
	for (unsigned i = 0; i < 200; i++) {
		row[i] = malloc(5000);
		other[i] = malloc(5000);
	}
}

/* Each row is freed as soon as it is copied. */
NOINLINE static void pass_on(void)
{
	for (unsigned i = 0; i < ROWS; i++) {
		char *first = strdup(text(i));

		other[i] = strdup(first);
		free(first);
	}
}

/* All rows are freed when all are copied, and the program works on. */
NOINLINE static void replace_rows(void)
{
	index_rows();
	for (unsigned i = 0; i < ROWS; i++)
		free(row[i]);
	for (unsigned i = 0; i < 300000; i++) {
		last = malloc(50);
		free(last);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "strdup") || !strcmp(mode, "memcpy") || !strcmp(mode, "replaced"))
		load();
	if (!strcmp(mode, "strdup"))
		index_rows();
	else if (!strcmp(mode, "replaced"))
		replace_rows();
	else if (!strcmp(mode, "twice"))
		load_twice();
	else if (!strcmp(mode, "points"))
		make_points();
	else if (!strcmp(mode, "pairs"))
		make_pairs();
	else if (!strcmp(mode, "buffers"))
		make_buffers();
	else if (!strcmp(mode, "passed"))
		pass_on();
	for (unsigned i = 0; i < ROWS; i++) {
		if (!strcmp(mode, "memcpy"))
			remember(i);
		if (!strcmp(mode, "arrays")) {
			row[i] = make_xs(i);
			other[i] = make_ys(i);
		}
		if (!strcmp(mode, "keys")) {
			row[i] = make_key();
			other[i] = make_value();
		}
	}
	must(row[5] || other[5], "copied_rows: which mode?");
	say("done\n");
	return 0;
}
