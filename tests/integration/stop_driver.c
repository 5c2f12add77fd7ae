/* Stops a process as src/attach does, for the tests of it.
 *
 *     stop_driver PID WHAT [COUNT] [OPTION...]
 *
 * calls   COUNT times a thread is borrowed, which maps a page, unmaps it and asks for its process's number
 * all     COUNT times all threads are stopped; in every fourth freeze the calls are made as well
 * both    the two in turn
 * change  COUNT times code is changed and changed back: AT OLD NOW FROM:TO... are addresses and bytes in
 *         hexadecimal; a thread at FROM goes on at TO
 * rests   COUNT times a thread is borrowed for 20 calls, with a rest and 2 ms of something else before each
 * hold    a thread is borrowed until stdin ends
 *
 * Options: limit=MS for a freeze (50); still=NS for the processor clock (100000); patient: HEFT_EBUSY is
 * counted and tried again; unasked=N: see struct stop; every=US between two stops. The last line says what was measured; a failure is
 * a line "CODE MESSAGE" on stderr and exit status 1, and the last line says how long the program stood still for nothing. */
#include "attach/stop_held.h"
#include "hosted/monotonic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PLACES = 32, CALLS_WITH_RESTS = 20 };

struct driver {
	pid_t pid;
	const char *what;
	unsigned long count;
	uint64_t limit_ns, still_ns, every_us;
	bool patient;
	int unasked;
	struct stop_change change;
	uint64_t from[MOST_PLACES], to[MOST_PLACES];
	size_t places;

	struct stop *stop;
	struct heft_error err;
	uint64_t busy, late, threads, longest_ns, rests;
	uint64_t *pauses;
	size_t pause_count;
};

static int make_calls(struct driver *d)
{
	int64_t at, result = 0;
	const uint64_t map[6] = {0,     8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 ~0ull, 0};
	const uint64_t word = 0x1122334455667788;
	uint64_t back = 0;
	int code = stop_borrow(d->stop, &d->err);
	if (code)
		return code;
	code = stop_call(d->stop, SYS_mmap, map, &at, &d->err);
	if (!code && at < 0)
		code = heft_fail(&d->err, HEFT_EIO, "mmap returned %lld", (long long)at);
	if (!code)
		code = stop_write(d->stop, (uint64_t)at, &word, sizeof word, &d->err);
	if (!code)
		code = stop_read(d->stop, (uint64_t)at, &back, sizeof back, &d->err);
	if (!code && back != word)
		code = heft_fail(&d->err, HEFT_EIO, "memory does not keep what is written");
	if (!code)
		code = stop_call(d->stop, SYS_munmap, (uint64_t[6]){(uint64_t)at, 8192}, &result,
				 &d->err);
	if (!code && result)
		code = heft_fail(&d->err, HEFT_EIO, "munmap returned %lld", (long long)result);
	if (!code)
		code = stop_call(d->stop, SYS_getppid, (uint64_t[6]){0}, &result, &d->err);
	if (!code && result < 0)
		code = heft_fail(&d->err, HEFT_EIO, "getppid returned %lld", (long long)result);
	struct heft_error kept = d->err;
	int returned = stop_return(d->stop, &d->err);
	if (code)
		d->err = kept;
	return code ? code : returned;
}

static int make_calls_with_rests(struct driver *d)
{
	int64_t result;
	int code = stop_borrow(d->stop, &d->err);
	for (int i = 0; i < CALLS_WITH_RESTS && !code; i++) {
		const uint64_t before_ns = d->stop->ran_ns;
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
		code = stop_rest(d->stop, &d->err);
		d->rests += d->stop->ran_ns != before_ns;
		if (!code)
			code = stop_call(d->stop, SYS_getppid, (uint64_t[6]){0}, &result, &d->err);
	}
	return code ? code : stop_return(d->stop, &d->err);
}

static int freeze(struct driver *d, bool with_calls)
{
	const struct stop_thread *list;
	size_t count;
	int code = stop_all(d->stop, d->limit_ns, &d->err);
	if (code) {
		const uint64_t pause_ns = stop_pause_ns(d->stop);
		d->longest_ns = pause_ns > d->longest_ns ? pause_ns : d->longest_ns;
		return code;
	}
	code = stop_threads(d->stop, &list, &count);
	d->threads = !code && count > d->threads ? count : d->threads;
	for (size_t i = 0; !code && i < count; i++)
		d->late += !list[i].stopped;
	if (!code && with_calls)
		code = make_calls(d);
	return code;
}

static int resume(struct driver *d, int code)
{
	struct heft_error kept = d->err;
	int resumed = stop_resume(d->stop, &d->err);
	d->pauses[d->pause_count++] = stop_pause_ns(d->stop);
	if (code)
		d->err = kept;
	return code ? code : resumed;
}

static int stop_and_go(struct driver *d, bool with_calls)
{
	int code = freeze(d, with_calls);
	return d->stop->all ? resume(d, code) : code;
}

static uint64_t place_moved(void *ctx, uint64_t pc)
{
	const struct driver *d = ctx;
	for (size_t i = 0; i < d->places; i++)
		if (d->from[i] == pc)
			return d->to[i];
	return 0;
}

static int change(struct driver *d, bool back)
{
	struct stop_change c = d->change;
	if (back) {
		memcpy(c.old, d->change.now, sizeof c.old);
		memcpy(c.now, d->change.old, sizeof c.now);
	} else {
		c.moved = place_moved;
		c.ctx = d;
	}
	int code = freeze(d, false);
	if (!code)
		code = stop_change_code(d->stop, &c, 1, &d->err);
	return d->stop->all ? resume(d, code) : code;
}

static int once(struct driver *d, unsigned long i)
{
	if (!strcmp(d->what, "calls") || (!strcmp(d->what, "both") && i % 2))
		return make_calls(d);
	if (!strcmp(d->what, "rests"))
		return make_calls_with_rests(d);
	if (!strcmp(d->what, "change"))
		return change(d, i % 2);
	return stop_and_go(d, i % 4 == 3);
}

static int run(void *ctx)
{
	struct driver *d = ctx;
	int code = stop_open(&d->stop, d->pid, &d->err);
	if (code)
		return code;
	d->stop->still_ns = d->still_ns;
	d->stop->unasked = d->unasked;
	if (!strcmp(d->what, "hold")) {
		char letter;
		code = stop_borrow(d->stop, &d->err);
		printf("holds\n");
		fflush(stdout);
		while (!code && read(0, &letter, 1) > 0)
			;
	}
	for (unsigned long i = 0; !code && i < d->count;) {
		code = once(d, i);
		i += !code;
		if (code == HEFT_EBUSY && d->patient) {
			d->busy++;
			code = 0;
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
		if (d->every_us)
			nanosleep(&(struct timespec){.tv_nsec = (long)d->every_us * 1000}, NULL);
	}
	uint64_t trapped = d->stop->trapped, repaired = d->stop->repaired;
	if (!code)
		printf("rests %lu longest_us %lu ", (unsigned long)d->rests,
		       (unsigned long)(stop_longest_ns(d->stop) / 1000));
	stop_close(d->stop);
	if (!code)
		printf("trapped %lu repaired %lu ", (unsigned long)trapped,
		       (unsigned long)repaired);
	return code;
}

static size_t parse_bytes(const char *text, uint8_t bytes[STOP_CHANGE_MOST])
{
	size_t n = 0;
	for (unsigned value; n < STOP_CHANGE_MOST && sscanf(text + 2 * n, "%2x", &value) == 1; n++)
		bytes[n] = (uint8_t)value;
	return n;
}

static void parse(struct driver *d, int argc, char **argv)
{
	int words = 0;
	for (int i = 3; i < argc; i++) {
		if (!strncmp(argv[i], "limit=", 6))
			d->limit_ns = strtoull(argv[i] + 6, NULL, 10) * 1000000;
		else if (!strncmp(argv[i], "still=", 6))
			d->still_ns = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "every=", 6))
			d->every_us = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "unasked=", 8))
			d->unasked = atoi(argv[i] + 8);
		else if (!strcmp(argv[i], "patient"))
			d->patient = true;
		else if (words++ == 0)
			d->count = strtoul(argv[i], NULL, 10);
		else if (words == 2)
			d->change.at = strtoull(argv[i], NULL, 16);
		else if (words == 3)
			d->change.bytes = (uint8_t)parse_bytes(argv[i], d->change.old);
		else if (words == 4)
			parse_bytes(argv[i], d->change.now);
		else if (d->places < MOST_PLACES &&
			 sscanf(argv[i], "%lx:%lx", &d->from[d->places], &d->to[d->places]) == 2)
			d->places++;
	}
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	struct driver d = {
		.pid = atoi(argv[1]), .what = argv[2], .limit_ns = 50000000, .still_ns = 100000};
	parse(&d, argc, argv);
	if (!strcmp(argv[1], "self"))
		d.pid = getpid();
	d.pauses = calloc(d.count * 2 + 1, sizeof *d.pauses);
	if (!d.pauses)
		return 2;
	uint64_t begin = monotonic_ns();
	int code = stop_run(run, &d, &d.err);
	if (code) {
		printf("given_up_us %lu\n", d.longest_ns / 1000);
		fprintf(stderr, "%d %s\n", code, d.err.message);
		return 1;
	}
	qsort(d.pauses, d.pause_count, sizeof *d.pauses, by_value);
	printf("stops %lu busy %lu threads %lu late %lu pause_median_us %lu pause_max_us %lu ms "
	       "%lu\n",
	       d.count, d.busy, d.threads, d.late,
	       d.pause_count ? d.pauses[d.pause_count / 2] / 1000 : 0,
	       d.pause_count ? d.pauses[d.pause_count - 1] / 1000 : 0,
	       (monotonic_ns() - begin) / 1000000);
	free(d.pauses);
	return 0;
}
