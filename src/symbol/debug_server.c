/* Gets debug files from debuginfod servers, through elfutils' client library.
 *
 * A report must never hang on a network: names, connections and transfers can
 * all wait without bound, some of them inside libraries that cannot be
 * interrupted. So a child process asks, and is killed when the session's time is up.
 * The client puts the file into its own cache folder, and the child answers with the
 * path, which is opened and checked like any other.
 *
 * The library is loaded in the child only, and only if a server is configured:
 * it brings a dozen others with it. */
#include "symbol/debug_file.h"

#include "hosted/monotonic.h"
#include "hosted/whole_io.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP_MS = 200 };

#ifdef HEFT_DEBUGINFOD

enum { NO_CLIENT = 'n', NOT_THERE = '-', FOUND = '+' };

/* As debuginfod.h declares them. That header is in a package of its own, and its ABI has not changed. */
struct debuginfod_client;
typedef struct debuginfod_client *begin_fn(void);
typedef int find_fn(struct debuginfod_client *client, const unsigned char *build_id, int length,
		    char **path);

static void ask_and_exit(int answer, const uint8_t *id, size_t length, const char *urls)
{
	/* The library prints messages, which are not for our stderr. */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("DEBUGINFOD_URLS", urls, 1);
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW);
	begin_fn *begin = library ? (begin_fn *)dlsym(library, "debuginfod_begin") : NULL;
	find_fn *find = library ? (find_fn *)dlsym(library, "debuginfod_find_debuginfo") : NULL;
	struct debuginfod_client *client = begin && find ? begin() : NULL;
	char *path = NULL, word = NO_CLIENT;
	if (client)
		word = find(client, id, (int)length, &path) >= 0 && path ? FOUND : NOT_THERE;
	if (write_whole(answer, &word, 1) && path)
		write_whole(answer, path, strlen(path));
	_exit(0);
}

static uint64_t now_ms(void)
{
	return monotonic_ns() / 1000000;
}

/* Reads until the child closes its end or the time is up; false: it did not close. */
static bool read_answer(struct symbol_search *session, int fd, char *text, size_t size,
			size_t *length)
{
	const struct symbol_options *o = session->options;
	uint64_t start = now_ms(), end = start + session->server_left_ms;
	*length = 0;
	for (;;) {
		uint64_t now = now_ms();
		session->server_left_ms = now < end ? end - now : 0;
		if (now >= end)
			return false;
		uint64_t wait = end - now < STEP_MS ? end - now : STEP_MS;
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int ready = poll(&p, 1, (int)wait);
		if (o->progress)
			o->progress(o->progress_ctx, "debuginfod", (size_t)(now - start),
				    (size_t)(end - start));
		if (ready <= 0) {
			if (ready < 0 && errno != EINTR)
				return false;
			continue;
		}
		ssize_t n = *length < size ? read(fd, text + *length, size - *length) : -1;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		*length += (size_t)n;
	}
}

int debug_server_fetch(struct symbol_search *session, const uint8_t *id, size_t length, char *path,
		       size_t size)
{
	int ends[2];
	if (!session->server_left_ms || !session->options->server_urls)
		return session->options->server_urls ? -1 : 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t child = fork();
	if (child == 0)
		ask_and_exit(ends[1], id, length, session->options->server_urls);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -1;
	}
	char text[PATH_MAX + 2];
	size_t got;
	bool whole = read_answer(session, ends[0], text, sizeof text - 1, &got);
	close(ends[0]);
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	text[got] = 0;
	if (!whole || !got || text[0] == NO_CLIENT) {
		session->server_left_ms = 0; /* a server that does not answer is not asked again */
		return -1;
	}
	if (text[0] != FOUND || text[1] != '/' || got > size)
		return 0;
	memcpy(path, text + 1, got);
	return 1;
}

#else

int debug_server_fetch(struct symbol_search *session, const uint8_t *id, size_t length, char *path,
		       size_t size)
{
	(void)session, (void)id, (void)length, (void)path, (void)size;
	return 0;
}

#endif
