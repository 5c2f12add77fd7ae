/* A heap in a state that a look at it must see, or must not mind: heap_states STATE [COUNT].
 *
 * At exit, after heft has looked (it does so before exit handlers), malloc_trim gives back what it can, and the program
 * says how much: heft has foretold it. */
#include <alloca.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TABLE = 256 << 10, TEXT = 200, BLOCK = 100, GAP = 160 << 10 };

static void **list; /* what is kept */
static size_t count = 10000;

static void *make_block(size_t i)
{
	char *p = malloc(BLOCK);
	memset(p, (int)(i % 251) + 1, BLOCK);
	memcpy(p, &i, sizeof i);
	return p;
}

static void make_all(void)
{
	for (size_t i = 0; i < count; i++)
		list[i] = make_block(i);
}

static void free_some(size_t step, size_t but)
{
	for (size_t i = 0; i < count; i++)
		if (i % step != but) {
			free(list[i]);
			list[i] = NULL;
		}
}

static void *make_table(void)
{
	char *p = calloc(1, TABLE);
	p[0] = 1;
	return p;
}

/* Its first and its last page are touched. */
static char *make_gap(void)
{
	char *p = malloc(GAP);
	p[0] = 1;
	p[GAP - 1] = 1;
	return p;
}

static __attribute__((noinline)) void *make_survivor(size_t i)
{
	void *p = memset(malloc(100), 3, 100);
	return memcpy(p, &i, sizeof i);
}

static __attribute__((noinline)) void *make_other_survivor(size_t i)
{
	void *p = memset(malloc(300), 4, 300);
	return memcpy(p, &i, sizeof i);
}

/* Pairs of survivors of two functions, 100 and 300 bytes, between blocks that are freed. */
static void survive(void)
{
	for (size_t i = 0; i < count; i++) {
		list[i] = i % 8 == 0   ? make_survivor(i)
			  : i % 8 == 1 ? make_other_survivor(i)
				       : make_block(i);
	}
	for (size_t i = 0; i < count; i++)
		if (i % 8 > 1) {
			free(list[i]);
			list[i] = NULL;
		}
}

static char *make_text(size_t i, size_t kinds)
{
	char *p = malloc(TEXT);
	memset(p, '.', TEXT);
	snprintf(p, TEXT, "text number %zu", i % kinds);
	return p;
}

/* Without a call of malloc */
static long resident_pages(void)
{
	char text[256] = "";
	int fd = open("/proc/self/statm", O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		abort();
	close(fd);
	return strtol(strchr(text, ' '), NULL, 10);
}

static void trim(void)
{
	resident_pages(); /* all code that runs is in memory then */
	long before = resident_pages();
	malloc_trim(0);
	long after = resident_pages();
	printf("trimmed %ld\n", (before - after) * 4096);
}

static __attribute__((noinline)) void lose(void)
{
	void **last = NULL;
	for (size_t i = 0; i < count; i++) {
		void **node = make_block(i);
		*node = last;
		last = node;
	}
}

int main(int argc, char **argv)
{
	const char *state = argc > 1 ? argv[1] : "";
	if (argc > 2)
		count = strtoul(argv[2], NULL, 10);
	list = calloc(count + 1, sizeof *list);
	if (!strcmp(state, "every_second")) {
		make_all();
		free_some(2, 0);
	} else if (!strcmp(state, "few_left")) { /* long stretches are free */
		make_all();
		free_some(1000, 999);
	} else if (!strcmp(state, "all_left")) {
		make_all();
	} else if (!strcmp(state, "untouched") || !strcmp(state, "touched")) {
		for (size_t i = 0; i < count; i++) {
			list[i] = make_table();
			if (!strcmp(state, "touched"))
				memset(list[i], (int)i + 1, TABLE);
		}
	} else if (!strcmp(state, "equal")) {
		for (size_t i = 0; i < count; i++)
			list[i] = make_text(i, 10);
	} else if (!strcmp(state, "distinct")) {
		for (size_t i = 0; i < count; i++)
			list[i] = make_text(i, count);
	} else if (!strcmp(state, "zeros")) { /* half of them; the others are equal in tens */
		for (size_t i = 0; i < count; i++)
			list[i] = i % 2 ? memset(malloc(TEXT), 0, TEXT) : make_text(i, 20);
	} else if (!strcmp(state, "gaps")) {
		for (size_t i = 0; i < count; i++)
			list[i] = make_gap();
	} else if (!strcmp(state, "survivors")) {
		survive();
	} else if (!strcmp(state, "lost")) {
		lose();
	} else {
		return 2;
	}
	memset(alloca(32768), 0, 32768); /* what calls have left on the stack */
	atexit(trim);
	return 0;
}
