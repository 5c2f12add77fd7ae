/* A program that lives as long as it is told to: one command a line on its input, each answered on
 * its output when it is done. The blocks of `keep` are never freed.
 *
 *   keep N SIZE     "kept BYTES BLOCKS", of all so far
 *   jit N SIZE      the same as keep, by code that it makes at run time
 *   pass N SIZE     allocates and frees at once: "passed N"
 *   workers N       forks N children; the i-th keeps i hundred blocks of 100,000 bytes: "workers PID..."
 *   spin            allocates and frees without end in a thread: "spinning"
 *   exit STATUS, _exit STATUS, abort, exec PROGRAM
 *
 * `grow FILE` never answers: it keeps and touches blocks of 100,000 bytes, every fourth being freed
 * again, until it is killed. FILE then has what is live as two 64-bit numbers, bytes and blocks. */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKER_BYTES = 100000, GROW_BYTES = 100000 };

static unsigned long long kept_bytes, kept_blocks;

NOINLINE static void *keep_block(size_t size)
{
	void *p = malloc(size);
	keep(p);
	return p;
}

NOINLINE static void *grow_block(void)
{
	return keep_block(GROW_BYTES);
}

static void answer(const char *text)
{
	must(write(1, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

/* A function that passes its arguments on to keep_block: no module has it. */
static void *(*made_code(void))(size_t)
{
	/* push rbp; mov rbp, rsp; movabs rax, keep_block; call rax; pop rbp; ret */
	uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0,    0,    0,
			  0,    0,    0,    0,    0,    0xff, 0xd0, 0x5d, 0xc3};
	void *(*target)(size_t) = keep_block, *(*made)(size_t);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(page != MAP_FAILED, "mmap");
	memcpy(code + 6, &target, sizeof target);
	memcpy(page, code, sizeof code);
	memcpy(&made, &page, sizeof made);
	return made;
}

static void keep_many(unsigned n, size_t size, void *(*allocate)(size_t))
{
	char text[100];
	for (unsigned i = 0; i < n; i++) {
		must(allocate(size) != NULL, "malloc");
		kept_bytes += size;
		kept_blocks++;
	}
	snprintf(text, sizeof text, "kept %llu %llu\n", kept_bytes, kept_blocks);
	answer(text);
}

static void pass_many(unsigned n, size_t size)
{
	char text[100];
	for (unsigned i = 0; i < n; i++)
		free(keep_block(size));
	snprintf(text, sizeof text, "passed %u\n", n);
	answer(text);
}

static void workers(unsigned n)
{
	char text[400] = "workers";
	for (unsigned i = 1; i <= n; i++) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (!pid) {
			for (unsigned k = 0; k < i * 100; k++)
				keep_block(WORKER_BYTES);
			for (;;)
				pause();
		}
		snprintf(text + strlen(text), sizeof text - strlen(text), " %d", pid);
	}
	strcat(text, "\n");
	answer(text);
}

static void *spin(void *unused)
{
	for (;;)
		free(keep_block(4096));
	return unused;
}

static void grow(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	must(fd >= 0 && !ftruncate(fd, 4096), path);
	volatile uint64_t *tally = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(tally != MAP_FAILED, "mmap");
	for (unsigned i = 0;; i++) {
		char *p = grow_block();
		must(p != NULL, "malloc");
		tally[0] += GROW_BYTES;
		tally[1]++;
		memset(p, 1, GROW_BYTES);
		if (i % 4)
			continue;
		usleep(1000); /* whoever is to kill it must be quick enough */
		tally[0] -= GROW_BYTES;
		tally[1]--;
		free(p);
	}
}

int main(void)
{
	char line[4200], word[4200];
	unsigned n, size;
	setvbuf(stdin, NULL, _IONBF, 0); /* what comes after an exec is for the next program */
	while (fgets(line, sizeof line, stdin)) {
		pthread_t thread;
		if (sscanf(line, "keep %u %u", &n, &size) == 2)
			keep_many(n, size, keep_block);
		else if (sscanf(line, "jit %u %u", &n, &size) == 2)
			keep_many(n, size, made_code());
		else if (sscanf(line, "pass %u %u", &n, &size) == 2)
			pass_many(n, size);
		else if (sscanf(line, "workers %u", &n) == 1)
			workers(n);
		else if (!strncmp(line, "spin", 4)) {
			must(!pthread_create(&thread, NULL, spin, NULL), "thread");
			answer("spinning\n");
		} else if (sscanf(line, "exit %u", &n) == 1)
			exit((int)n);
		else if (sscanf(line, "_exit %u", &n) == 1)
			_exit((int)n);
		else if (!strncmp(line, "abort", 5))
			abort();
		else if (sscanf(line, "exec %s", word) == 1)
			execl(word, word, NULL);
		else if (sscanf(line, "grow %s", word) == 1)
			grow(word);
		else
			return 3;
	}
	return 0;
}
