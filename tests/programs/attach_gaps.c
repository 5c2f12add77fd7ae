/* Maps all free memory around libc and frees it again, over and over, until SIGTERM. Whoever looks for a free place
 * there and uses it later finds it taken. Prints how often a part of such memory was gone before it was freed; exits
 * with 1 then. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GAPS = 200, HOLD_US = 15000, PAGE = 4096 };
#define REACH (UINT64_C(2300) << 20) /* further than a jump leads */

static volatile sig_atomic_t ended;
static struct {
	uint64_t at, bytes;
} gaps[GAPS];
static unsigned char resident[2 * REACH / PAGE];

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static bool fill(uint64_t from, uint64_t to, unsigned i)
{
	gaps[i].at = from;
	gaps[i].bytes = to - from;
	return mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		    0) != MAP_FAILED;
}

static unsigned fill_all(uint64_t middle)
{
	uint64_t from = (middle - REACH) / PAGE * PAGE, to = from + 2 * REACH, start, stop;
	struct {
		uint64_t start, stop;
	} seen[GAPS];
	char line[512];
	unsigned count = 0, filled = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps && count < GAPS && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx", &start, &stop) == 2) {
			seen[count].start = start;
			seen[count++].stop = stop;
		}
	if (maps)
		fclose(maps);
	for (unsigned i = 0; i < count && from < to; i++) {
		uint64_t until = seen[i].start < to ? seen[i].start : to;
		if (until > from && fill(from, until, filled))
			filled++;
		if (seen[i].stop > from)
			from = seen[i].stop;
	}
	return filled;
}

int main(void)
{
	const uint64_t middle = (uint64_t)dlsym(RTLD_DEFAULT, "malloc");
	unsigned holes = 0;
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!ended) {
		unsigned count = fill_all(middle);
		usleep(HOLD_US);
		for (unsigned i = 0; i < count; i++) {
			if (mincore((void *)gaps[i].at, gaps[i].bytes, resident) && errno == ENOMEM)
				holes++;
			munmap((void *)gaps[i].at, gaps[i].bytes);
		}
		usleep(HOLD_US);
	}
	printf("%u holes\n", holes);
	return holes > 0;
}
