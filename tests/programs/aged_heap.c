/* Heaps that differ in when what is live was made, for sampled recordings: argv[1] names the shape,
 * argv[2] is how long it takes in milliseconds. What is allocated follows the clock, so a slow
 * machine makes the same heap. It ends with SIGKILL, or with argv[3] "exit" or "interrupt" (Ctrl-C). With
 * "two_sizes", one call makes a block of 8 MiB and a million of 8 bytes. With "bursts" it works three times
 * for a short while, and waits three times as long as that in between and in the end; "lone_bursts" keeps
 * nothing else. "loads" works once and then waits. */
#define _GNU_SOURCE
#include "program.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 4000, KEPT = STEPS + 1, SESSIONS = 300 };
static void *kept[KEPT], *sessions[SESSIONS];
static unsigned made, served;

NOINLINE static void *make_one(size_t size)
{
	return malloc(size);
}
NOINLINE static void leak_one(void)
{
	kept[made++ % KEPT] = malloc(3000);
}
NOINLINE static void start_one(void)
{
	kept[made++ % KEPT] = malloc(3000);
}

/* The oldest goes when a new one comes. */
NOINLINE static void serve(void)
{
	unsigned at = served++ % SESSIONS;
	free(sessions[at]);
	sessions[at] = malloc(2000);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Calls f `per_step` times for each of STEPS parts of the time, up to `until` of it. */
static void over_time(double seconds, double until, void (*f)(void))
{
	double start = now();
	for (unsigned done = 0; done < STEPS;) {
		unsigned due = (unsigned)((now() - start) / seconds * STEPS);
		for (; done < due && done < STEPS; done++) {
			serve();
			if (f && done < until * STEPS)
				f();
		}
		usleep(1000);
	}
}

/* Works for a twelfth of the time, and waits for a quarter, `times` times. */
static void in_bursts(double seconds, int times, bool sessions_too)
{
	for (int i = 0; i < times; i++) {
		double start = now();
		for (unsigned done = 0; done < STEPS / (unsigned)times;) {
			unsigned due = (unsigned)((now() - start) / seconds * 12 * STEPS);
			for (; done < due && done < STEPS / (unsigned)times; done++) {
				if (sessions_too)
					serve();
				else
					free(make_one(2000));
				leak_one();
			}
			usleep(1000);
		}
		usleep((unsigned)(seconds * 1e6 / 4));
	}
}

int main(int argc, char **argv)
{
	const char *shape = argc > 1 ? argv[1] : "";
	double seconds = argc > 2 ? atoi(argv[2]) / 1e3 : 1;
	if (!strcmp(shape, "two_sizes"))
		for (int i = 0; i <= 1000000; i++)
			keep(make_one(i == 400000 ? 8 << 20 : 8));
	else if (!strcmp(shape, "leak"))
		over_time(seconds, 1, leak_one);
	else if (!strcmp(shape, "stops"))
		over_time(seconds, 0.5, leak_one);
	else if (!strcmp(shape, "bursts"))
		in_bursts(seconds, 3, true);
	else if (!strcmp(shape, "lone_bursts"))
		in_bursts(seconds, 3, false);
	else if (!strcmp(shape, "loads"))
		in_bursts(seconds, 1, false);
	else if (!strcmp(shape, "plateau"))
		over_time(seconds, 1, NULL);
	else if (!strcmp(shape, "start_up")) {
		for (int i = 0; i < STEPS; i++)
			start_one();
		over_time(seconds, 1, NULL);
	} else
		return 2;
	if (argc > 3 && !strcmp(argv[3], "exit"))
		_exit(0);
	kill(getpid(), argc > 3 && !strcmp(argv[3], "interrupt") ? SIGINT : SIGKILL);
	return 1;
}
