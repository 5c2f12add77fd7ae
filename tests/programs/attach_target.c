/* A program that heft is attached to, for tests of the recorder. It takes one command a line from standard
 * input and answers each with a line, so that a test knows exactly which calls came before the attaching, which
 * while it lasted, and which after. It calls the allocator through pointers: tests/integration/fake_attach.c
 * asks it, by SIGUSR1 and files in argv[1], to load heft's library and to call that one from now on, or to go
 * back.
 *
 *   alloc N SIZE    N blocks, put at the end of the list
 *   free N          frees the first N of the list
 *   realloc N SIZE  resizes the first N of the list, which go to its end
 *   threads N SIZE  a thread allocates N blocks, another one frees them
 *   fork            a child, which takes commands from the same input and answers "child"; the parent waits
 *   exec PROGRAM    becomes another program
 *   copy N          N blocks that libc allocates
 *   open            answers with the number that its next file would have
 *   close           closes all files that it has not opened itself
 *   exit STATUS
 *
 * With two arguments, the first becomes its title. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct allocator {
	void *(*alloc)(size_t);
	void *(*resize)(void *, size_t);
	void (*release)(void *);
} now = {malloc, realloc, free};
static struct allocator own;

enum { MOST = 1 << 16 };
static void *list[MOST];
static size_t first, end;
static const char *folder;
static volatile sig_atomic_t asked;
static char line[256];
static size_t line_used;

static void ask(int sig)
{
	(void)sig;
	asked = 1;
}

static FILE *open_file(const char *name, const char *mode)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%d.%s", folder, (int)getpid(), name);
	FILE *f = fopen(path, mode);
	if (f && *mode == 'r')
		unlink(path);
	return f;
}

static void answer(const char *name)
{
	FILE *f = open_file(name, "w");
	if (f)
		fclose(f);
}

static void attach(FILE *f)
{
	static char words[4][4096];
	for (int i = 0; i < 4; i++)
		if (fgets(words[i], sizeof words[i], f))
			words[i][strcspn(words[i], "\n")] = 0;
	fclose(f);
	setenv("HEFT_SESSION", words[0], 1);
	if (strcmp(words[1], "0") != 0)
		setenv("HEFT_SAMPLE", words[1], 1);
	setenv("HEFT_FOLLOW", words[2], 1);
	void *library = dlopen(words[3], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(3);
	}
	unsetenv("HEFT_SESSION");
	unsetenv("HEFT_SAMPLE");
	now.alloc = (void *(*)(size_t))dlsym(library, "malloc");
	now.resize = (void *(*)(void *, size_t))dlsym(library, "realloc");
	now.release = (void (*)(void *))dlsym(library, "free");
	answer("attached");
}

static void heed(void)
{
	asked = 0;
	FILE *f = open_file("attach", "r");
	if (f)
		attach(f);
	f = open_file("detach", "r");
	if (f) {
		fclose(f);
		now = own;
		answer("detached");
	}
}

__attribute__((noinline)) static void make(size_t count, size_t size)
{
	for (; count; count--) {
		void *p = now.alloc(size); /* @make */
		list[end++ % MOST] = p;
	}
}

/* libc allocates. */
__attribute__((noinline)) static void copy(size_t count)
{
	for (; count; count--)
		list[end++ % MOST] = strdup("a text that libc copies"); /* @copy */
}

static void drop(size_t count)
{
	for (; count; count--)
		now.release(list[first++ % MOST]);
}

static void grow(size_t count, size_t size)
{
	for (; count; count--) {
		void *p = now.resize(list[first++ % MOST], size); /* @grow */
		list[end++ % MOST] = p;
	}
}

static size_t thread_count, thread_size;

static void *maker(void *arg)
{
	make(thread_count, thread_size);
	return arg;
}

static void *dropper(void *arg)
{
	drop(thread_count);
	return arg;
}

static void in_threads(size_t count, size_t size)
{
	pthread_t t;
	thread_count = count;
	thread_size = size;
	pthread_create(&t, NULL, maker, NULL);
	pthread_join(t, NULL);
	pthread_create(&t, NULL, dropper, NULL);
	pthread_join(t, NULL);
}

/* Waits for input, or for so long. SIGUSR1 comes here only, so that it cannot come just before the wait. */
static int wait_for_input(int fd, const struct timespec *most)
{
	struct pollfd input = {.fd = fd, .events = POLLIN};
	sigset_t none;
	sigemptyset(&none);
	int ready = ppoll(&input, 1, most, &none);
	if (asked)
		heed();
	return ready > 0;
}

/* A line of the input, without allocating. False: there are no more. */
static int next_line(void)
{
	line_used = 0;
	while (line_used < sizeof line - 1) {
		if (!wait_for_input(STDIN_FILENO, NULL))
			continue;
		ssize_t n = read(STDIN_FILENO, line + line_used, 1);
		if (n <= 0)
			return 0;
		if (line[line_used++] == '\n')
			break;
	}
	line[line_used] = 0;
	return 1;
}

static void say(const char *word)
{
	if (write(STDOUT_FILENO, word, strlen(word)) < 0)
		_exit(4);
}

/* The number that the next file of the program has. */
static void say_next_number(void)
{
	char text[32];
	int fd = dup(0);
	close(fd);
	snprintf(text, sizeof text, "%d\n", fd);
	say(text);
}

int main(int argc, char **argv)
{
	struct sigaction on = {.sa_handler = ask};
	sigset_t blocked;
	char word[32], text[200];
	size_t a, b;
	static char place[4096];
	snprintf(place, sizeof place, "%s", argv[argc - 1]);
	folder = place;
	if (argc > 2) { /* a title, written over all arguments */
		char title[100];
		snprintf(title, sizeof title, "%s", argv[1]);
		memset(argv[0], 0, (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]));
		memcpy(argv[0], title, strlen(title));
	}
	own = now;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	sigaction(SIGUSR1, &on, NULL);
	say("ready\n");
	while (next_line()) {
		a = b = 0;
		if (sscanf(line, "%31s %zu %zu", word, &a, &b) < 1)
			continue;
		if (!strcmp(word, "alloc"))
			make(a, b);
		else if (!strcmp(word, "free"))
			drop(a);
		else if (!strcmp(word, "realloc"))
			grow(a, b);
		else if (!strcmp(word, "threads"))
			in_threads(a, b);
		else if (!strcmp(word, "copy"))
			copy(a);
		else if (!strcmp(word, "open"))
			say_next_number();
		else if (!strcmp(word, "close"))
			syscall(436, 3, ~0u, 0); /* close_range, which not every libc has */
		else if (!strcmp(word, "exit"))
			exit((int)a);
		else if (!strcmp(word, "exec") && sscanf(line, "%*s %199s", text) == 1)
			execl(text, text, NULL);
		else if (!strcmp(word, "fork")) {
			pid_t child = fork();
			if (child == 0) {
				say("child\n");
				continue;
			}
			while (waitpid(child, NULL, WNOHANG) == 0)
				wait_for_input(-1, &(struct timespec){0, 5000000});
		}
		say("ok\n");
	}
	return 0;
}
