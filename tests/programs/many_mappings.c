/* Processes that are slow to look at: each maps a file as often as it may, under a path that is as long as it may be.
 *
 *   many_mappings FOLDER PROCESSES MAPPINGS
 *
 * Says "ready" when all have, and waits to be killed; its children go with it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, DEPTH = 19, NAME = 199 };

static int open_deep_file(const char *folder)
{
	char name[NAME + 1];
	memset(name, 'd', NAME);
	name[NAME] = 0;
	if (chdir(folder))
		return -1;
	for (int i = 0; i < DEPTH; i++)
		if (mkdir(name, 0755) || chdir(name))
			return -1;
	int fd = open("file", O_RDWR | O_CREAT, 0600);
	return fd < 0 || ftruncate(fd, PAGE) ? -1 : fd;
}

static void map(int fd, long mappings)
{
	/* Every other page, so that the kernel does not make one mapping of them. */
	char *area = mmap(NULL, (size_t)mappings * 2 * PAGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (long i = 0; area != MAP_FAILED && i < mappings / 2; i++)
		if (mmap(area + i * 2 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			return; /* as many as there may be */
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open_deep_file(argv[1]) : -1, done[2];
	if (fd < 0 || pipe(done))
		return 2;
	for (int i = 0; i < atoi(argv[2]); i++)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			map(fd, atol(argv[3]));
			if (write(done[1], "", 1) == 1)
				for (;;)
					pause();
			_exit(1);
		}
	for (int i = 0; i < atoi(argv[2]); i++) {
		char byte;
		if (read(done[0], &byte, 1) != 1)
			return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
