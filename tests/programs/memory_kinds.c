/* Programs whose memory comes from malloc, and programs whose memory does not: what heft recorded
 * is compared with what was resident. Each holds 64 MiB for a while.
 *
 *   map    maps it itself            malloc  takes it from malloc
 *   tiny   two million blocks of one byte: malloc needs 64 MB for 2 MB
 *   file   reads a mapped file of 64 MiB: resident, but not anonymous
 *   fork   has it from malloc, and forks four children that touch it
 *   kept   takes 64 MiB in blocks of 400 bytes, frees all but a few and takes no more */
#include "program.h"

#include <stdlib.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES ((size_t)64 << 20)

static void hold(void)
{
	nanosleep(&(struct timespec){0, 300000000}, NULL);
}

static void *map(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		       fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	must(p != MAP_FAILED, "mmap");
	return p;
}

static void map_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(fd >= 0 && ftruncate(fd, (off_t)BYTES) == 0, "file");
	memset(map(fd), 1, BYTES);
}

static void fork_children(void)
{
	char *block = malloc(BYTES);
	must(block != NULL, "malloc");
	memset(block, 1, BYTES);
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			for (size_t at = 0; at < BYTES; at += 4096)
				block[at]++;
			hold();
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	free(block);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	if (!strcmp(mode, "map"))
		memset(map(-1), 1, BYTES);
	else if (!strcmp(mode, "malloc"))
		memset(malloc(BYTES), 1, BYTES);
	else if (!strcmp(mode, "tiny"))
		for (int i = 0; i < 2000000; i++)
			*(volatile char *)malloc(1) = 1;
	else if (!strcmp(mode, "file") && argc > 2)
		map_file(argv[2]);
	else if (!strcmp(mode, "fork"))
		fork_children();
	else if (!strcmp(mode, "kept")) {
		static char *blocks[160000];
		for (int i = 0; i < 160000; i++)
			*(volatile char *)(blocks[i] = malloc(400)) = 1;
		for (int i = 0; i < 160000; i++)
			if (i % 100)
				free(blocks[i]);
	}
	hold();
	return 0;
}
