/* Asks heft for its own profile (include/heft.h) and says what came of it.
 *
 *     asks_profile WHERE OUT    where: file, pipe, threads, jailed
 *
 * Prints "active A dump RC ERRNO" for each time it asked. It keeps 4,000 blocks of 1,000 bytes from
 * keep(). */
#define _GNU_SOURCE
#include <heft.h>

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 4000, BYTES = 1000, THREADS = 4 };
static char *kept[BLOCKS];
static const char *out;

__attribute__((noinline)) static char *keep(void)
{
	char *p = malloc(BYTES);
	memset(p, 1, BYTES);
	return p;
}

static int open_out(const char *suffix)
{
	char path[1024];
	snprintf(path, sizeof path, "%s%s", out, suffix);
	return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
}

static void ask(int fd)
{
	errno = 0;
	int rc = heft_pprof_dump(fd);
	printf("active %d dump %d %s\n", heft_sampling_active(), rc,
	       rc ? strerrorname_np(errno) : "0");
}

static void *ask_in_thread(void *arg)
{
	char suffix[16];
	snprintf(suffix, sizeof suffix, ".%d", (int)(long)arg);
	int fd = open_out(suffix);
	ask(fd);
	close(fd);
	return NULL;
}

static int from;

/* Slowly, so that the writer finds the pipe full. */
static void *copy_pipe(void *arg)
{
	char bytes[512];
	ssize_t n;
	int to = open_out("");
	(void)arg;
	while ((n = read(from, bytes, sizeof bytes)) > 0) {
		if (write(to, bytes, (size_t)n) != n)
			abort();
		usleep(200);
	}
	close(to);
	return NULL;
}

static void ask_into_pipe(void)
{
	int ends[2];
	pthread_t reader;
	if (pipe2(ends, O_NONBLOCK) || fcntl(ends[0], F_SETFL, 0))
		abort();
	fcntl(ends[1], F_SETPIPE_SZ, 4096);
	from = ends[0];
	pthread_create(&reader, NULL, copy_pipe, NULL);
	ask(ends[1]);
	close(ends[1]);
	pthread_join(reader, NULL);
}

int main(int argc, char **argv)
{
	const char *where = argc > 2 ? argv[1] : "file";
	out = argc > 2 ? argv[2] : "/dev/null";
	for (int i = 0; i < BLOCKS; i++)
		kept[i] = keep();
	if (!strcmp(where, "pipe"))
		ask_into_pipe();
	else if (!strcmp(where, "threads")) {
		pthread_t threads[THREADS];
		for (long i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, ask_in_thread, (void *)i);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	} else {
		int fd = open_out("");
		if (!strcmp(where, "jailed") &&
		    (chroot("/proc/self/fdinfo") || setgroups(0, NULL) || setgid(65534) ||
		     setuid(65534)))
			return 77;
		ask(fd);
		close(fd);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(kept[i]);
	return 0;
}
