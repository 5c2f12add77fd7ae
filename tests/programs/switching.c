/* Switches the sampling of its own process on and off, through a mapping of its session file as any
 * outside would (agent/sampled.c, set_on), while threads allocate, resize and free. Says what it
 * finds in the table of live samples. argv[1] is the mode, argv[2] the directory of the file.
 *
 * Blocks that count have at least BLOCK_BYTES, which nothing else here has. */
#define _GNU_SOURCE
#include "program.h"
#include "wire/samples.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { BLOCK_BYTES = 5000, SURE_BYTES = 40000, WORKERS = 4, HELD = 6, SWITCHES = 1500 };

static struct wire_header *session;
static _Atomic int stop;

/* A file is called PID.TIME, in hexadecimal: the last one of this pid is this program's. */
static void map_own_file(const char *directory)
{
	char prefix[32], path[600] = "";
	unsigned long long newest = 0;
	DIR *d = opendir(directory);
	struct dirent *e;

	must(d != NULL, "the directory");
	snprintf(prefix, sizeof prefix, "%x.", (unsigned)getpid());
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		unsigned long long time = strtoull(e->d_name + strlen(prefix), NULL, 16);

		if (time <= newest)
			continue;
		newest = time;
		snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
	}
	closedir(d);
	int fd = open(path, O_RDWR);

	must(fd >= 0, "no session file");
	session = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(session != MAP_FAILED, "mapping the session file");
	close(fd);
}

static void switch_to(int on)
{
	atomic_store(&session->sampling.on, on);
	if (on)
		atomic_store(&session->sampling.gate, WIRE_GATE_COUNT);
}

static uint32_t gate(void)
{
	return atomic_load(&session->sampling.gate);
}

/* Live samples of at least so many bytes. */
static unsigned live_samples(uint64_t least_bytes)
{
	unsigned found = 0, levels = atomic_load(&session->sampling.live_levels);

	for (unsigned k = 0; k < levels; k++) {
		struct wire_live_level l = wire_live_level(session, k);

		for (uint32_t i = 0; i < 1u << l.bits; i++)
			if (atomic_load(&l.addresses[i]) > WIRE_SAMPLE_BUSY)
				found += l.blocks[i].size >= least_bytes;
	}
	return found;
}

static void *work(void *arg)
{
	void *held[HELD] = {NULL};
	unsigned random = (unsigned)(uintptr_t)arg;

	while (!atomic_load(&stop)) {
		unsigned at = (random = random * 1664525 + 1013904223) >> 16;
		void **p = &held[at % HELD];
		size_t size = BLOCK_BYTES + at % 5000;

		if (at & 64)
			*p = realloc(*p, size);
		else if (at & 128 && *p)
			/* Fails, and the block and its sample stay. */
			must(!realloc(*p, opaque(PTRDIFF_MAX)), "absurd realloc");
		else {
			free(*p);
			*p = at & 256 ? malloc(size) : NULL;
		}
	}
	for (int i = 0; i < HELD; i++)
		free(held[i]);
	return NULL;
}

static void start_work(pthread_t *id)
{
	for (uintptr_t i = 0; i < WORKERS; i++)
		must(!pthread_create(&id[i], NULL, work, (void *)(i + 1)), "pthread_create");
}

static void end_work(const pthread_t *id)
{
	atomic_store(&stop, 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(id[i], NULL);
	atomic_store(&stop, 0);
}

/* A ghost is a sample of a block that nobody follows any more. While calls pass there is none: what
 * comes at the last moment opens the gate again. */
static int has_ghosts(void)
{
	for (int ms = 0; ms < 1000; ms++) {
		if (gate() != WIRE_GATE_PASS || !live_samples(0))
			return 0;
		usleep(1000);
	}
	return 1;
}

/* Begun with HEFT_SAMPLE=off, so that none of the C library's own blocks is a sample that stays. */
static void at_random(void)
{
	pthread_t id[WORKERS];
	unsigned random = (unsigned)getpid(), passed = 0;

	start_work(id);
	atomic_store(&session->sampling.rate_bytes, 16384);
	for (int i = 0; i < SWITCHES; i++) {
		switch_to(1);
		usleep((random = random * 1664525 + 1013904223) >> 24);
		switch_to(0);
		for (int k = 0; k < 100 && gate() != WIRE_GATE_PASS; k++)
			usleep(20);
		passed += gate() == WIRE_GATE_PASS;
		must(!has_ghosts(), "a ghost");
	}
	end_work(id);
	switch_to(1);
	say_number("passed", passed);
	say_number("left", live_samples(BLOCK_BYTES));
	say_number("differ", live_samples(0) != atomic_load(&session->sampling.live));
}

/* The child begins with what was live here, follows none of it, and samples its own. */
static void fork_while_off(char **argv)
{
	void *mine[10];
	int status = 0;

	for (int i = 0; i < 10; i++)
		mine[i] = malloc(SURE_BYTES);
	switch_to(0);
	pid_t pid = fork();

	if (pid == 0) {
		map_own_file(argv[2]);
		switch_to(1);
		for (int i = 0; i < 5; i++)
			free(mine[i]);
		say_number("child", live_samples(SURE_BYTES));
		for (int i = 0; i < 7; i++)
			keep(malloc(SURE_BYTES));
		say_number("child", live_samples(SURE_BYTES));
		_exit(4);
	}
	must(waitpid(pid, &status, 0) == pid && status == 4 << 8, "the child");
	say_number("parent", live_samples(SURE_BYTES));
	for (int i = 0; i < 10; i++)
		free(mine[i]);
	say_number("parent", live_samples(SURE_BYTES));
}

/* Begun with HEFT_SAMPLE=off. */
static void off_at_start(void)
{
	void *p[20];

	say_number("passes", gate() == WIRE_GATE_PASS);
	for (int i = 0; i < 20; i++)
		p[i] = malloc(SURE_BYTES);
	say_number("off", live_samples(0));
	atomic_store(&session->sampling.rate_bytes, 1024);
	switch_to(1);
	for (int i = 0; i < 20; i++)
		free(p[i]);
	for (int i = 0; i < 20; i++)
		p[i] = malloc(SURE_BYTES);
	say_number("on", live_samples(SURE_BYTES));
	for (int i = 0; i < 20; i++)
		free(p[i]);
	say_number("freed", live_samples(SURE_BYTES));
}

int main(int argc, char **argv)
{
	must(argc == 3, "usage: switching MODE DIRECTORY");
	map_own_file(argv[2]);
	if (!strcmp(argv[1], "random"))
		at_random();
	else if (!strcmp(argv[1], "fork"))
		fork_while_off(argv);
	else if (!strcmp(argv[1], "start"))
		off_at_start();
	return 6;
}
