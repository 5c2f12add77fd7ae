/* Marks between steps that keep memory (include/heft.h).
 *
 *     marked             "start", keep_a() keeps 1,000 blocks of 100 bytes, "middle", keep_b() keeps 50 of 1,000 bytes, "end",
 *                        keep_c() keeps 5 of 10,000 bytes, "end" again
 *     marked fork        a forked child ends region "all", too
 *     marked odd         one mark with an escape sequence in its name, one without a name, one with two lines
 *     marked shell       one mark with an apostrophe, and one that a shell would run
 *     marked names       4,100 marks whose names have 255 bytes and begin with their numbers, 0000 to 4099
 *
 * Region "all" goes from before the first mark to behind the last one, region "b" (of the thread) is around keep_b(), and
 * region "open" never ends. */
#define _GNU_SOURCE
#include <heft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *volatile kept;

__attribute__((noinline)) static void keep_a(void)
{
	for (int i = 0; i < 1000; i++)
		kept = malloc(100);
}

__attribute__((noinline)) static void keep_b(void)
{
	for (int i = 0; i < 50; i++)
		kept = malloc(1000);
}

__attribute__((noinline)) static void keep_c(void)
{
	for (int i = 0; i < 5; i++)
		kept = malloc(10000);
}

/* Longer than a tick of the recording's clock */
static void mark(const char *name)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	heft_mark(name);
}

int main(int argc, char **argv)
{
	struct heft_region all, b, open;
	if (argc > 1 && strcmp(argv[1], "odd") == 0) {
		heft_mark("red \033[31m\tmark");
		heft_mark(NULL);
		heft_mark("two\nlines");
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "shell") == 0) {
		heft_mark("it's read");
		keep_a();
		heft_mark("$(touch written)");
		return 0;
	}
	if (argc > 1 && strcmp(argv[1], "names") == 0) {
		char name[256] = "";
		for (int i = 0; i < 4100; i++) {
			snprintf(name, sizeof name, "%04d%0251d", i, 0);
			heft_mark(name);
		}
		return 0;
	}
	heft_region_begin_named(&all, HEFT_PROCESS, "all");
	mark("start");
	keep_a();
	mark("middle");
	heft_region_begin_named(&b, HEFT_THREAD, "b");
	keep_b();
	heft_region_end(&b, NULL);
	heft_region_begin_named(&open, HEFT_PROCESS, "open");
	mark("end");
	keep_c();
	mark("end");
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() == 0) {
		heft_region_end(&all, NULL);
		_exit(0);
	}
	wait(NULL);
	heft_region_end(&all, NULL);
	return 0;
}
