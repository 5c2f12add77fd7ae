/* What blocks cost beyond their contents: arrays with room to spare, rounding, and temporaries.
 * argv[1] is the mode. */
#include "program.h"

#include <stdlib.h>

/* An array of 8-byte elements that doubles, from 16. */
NOINLINE static void push_all(size_t count)
{
	uint64_t *array = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < count; i++) {
		if (i == capacity) {
			capacity = capacity ? 2 * capacity : 16;
			array = realloc(array, capacity * sizeof(*array)); /* @slack.grow */
		}
		array[i] = i + 1;
	}
	keep(array);
	free(array);
}

NOINLINE static void many(size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++)
		keep(memset(malloc(size), 'm', size)); /* @slack.many */
}

NOINLINE static void scratch(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *p = malloc(48); /* @slack.scratch */

		keep(p);
		free(p);
	}
}

/* Each block outlives the next allocation: nothing here is a scratch buffer. */
NOINLINE static void relay(size_t count)
{
	void *last = NULL;

	for (size_t i = 0; i < count; i++) {
		void *p = malloc(48);

		keep(p);
		free(last);
		last = p;
	}
	free(last);
}

/* Rows with room for 8 fields of 24 bytes, of which they use 7; all of them live. */
NOINLINE static void rows(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct field {
			uint64_t a, b, c;
		} *row = realloc(NULL, 4 * sizeof(*row));

		for (size_t k = 0; k < 4; k++)
			row[k] = (struct field){i + 1, k + 1, 1};
		row = realloc(row, 8 * sizeof(*row)); /* @slack.rows */
		for (size_t k = 4; k < 7; k++)
			row[k] = (struct field){i + 1, k + 1, 1};
		keep(row);
	}
}

/* The same, full. */
NOINLINE static void full_rows(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t *row = realloc(NULL, 96);

		memset(row, 'x', 96);
		row = realloc(row, 192);
		memset(row, 'x', 192);
		keep(row);
	}
}

/* Two functions that one calls: the same advice at neighbouring places. */
NOINLINE static void names(size_t count)
{
	for (size_t i = 0; i < count; i++)
		keep(memset(malloc(9), 'n', 9)); /* @slack.names */
}

NOINLINE static void both(size_t count)
{
	names(count);
	many(count, 10);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "spare"))
		push_all(80000); /* of 131,072 */
	else if (!strcmp(mode, "full"))
		push_all(131072);
	else if (!strcmp(mode, "rows"))
		rows(opaque(20000));
	else if (!strcmp(mode, "full-rows"))
		full_rows(opaque(20000));
	else if (!strcmp(mode, "both"))
		both(opaque(20000));
	else if (!strcmp(mode, "small"))
		many(20000, 9);
	else if (!strcmp(mode, "blocks") && argc > 3)
		many((size_t)atol(argv[2]), (size_t)atol(argv[3]));
	else if (!strcmp(mode, "fitting"))
		many(20000, 120);
	else if (!strcmp(mode, "scratch"))
		scratch(opaque(300000));
	else if (!strcmp(mode, "relay"))
		relay(opaque(300000));
	else
		must(0, "slack_shapes: which mode?");
	say("done\n");
	return 0;
}
