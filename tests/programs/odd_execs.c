/* Calls the exec family and posix_spawn with every kind of bad argument, each in a child of its own, and says what
 * came of it: what the call returned, with errno, or how the child ended. */
#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

enum { PAGE = 4096 };

/* The end of a page that is followed by nothing. */
static char *page_end;

struct kind {
	const char *name;
	const void *value;
};
enum { KINDS = 9 };
static struct kind paths[KINDS], lists[KINDS];

/* The same words, such that the last byte or pointer is the last that can be read. */
static void *at_end(const void *what, size_t bytes)
{
	char *room = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	must(room != MAP_FAILED && !munmap(room + PAGE, PAGE), "mmap");
	return memcpy(room + PAGE - bytes, what, bytes);
}

static void make_kinds(void)
{
	static char *good[] = {"true", NULL}, *bad_first[] = {(char *)8, NULL},
		    *bad_second[] = {"true", (char *)8, NULL};
	static char *ends_badly[2] = {"true"}, odd[3 * sizeof(char *)];
	char *pair[] = {"A=b", NULL}, *no_end[] = {"true", "A=b"};
	char *cut = at_end("A=bcd", 5),
	     *closed = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(closed != MAP_FAILED, "mmap");
	page_end = cut + 5;
	ends_badly[1] = cut; /* and no NULL after it, which does not matter */
	memcpy(odd + 1, pair, sizeof pair);
	const struct kind p[KINDS] = {{"good", "/bin/true"},
				      {"NULL", NULL},
				      {"8", (void *)8},
				      {"closed", closed},
				      {"end", page_end},
				      {"no end", at_end("/bin/true", 9)},
				      {"empty", ""},
				      {"last", at_end("/bin/true", 10)},
				      {"high", (void *)(~0ul << 13)}};
	const struct kind l[KINDS] = {{"good", good},
				      {"NULL", NULL},
				      {"8", (void *)8},
				      {"closed", closed},
				      {"no end", at_end(no_end, sizeof no_end)},
				      {"bad first", bad_first},
				      {"bad second", bad_second},
				      {"cut text", ends_badly},
				      {"odd place", odd + 1}};
	memcpy(paths, p, sizeof p);
	memcpy(lists, l, sizeof l);
}

static int try_one(const char *function, const char *path, char *const *argv, char *const *env)
{
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
	pid_t child = -7;
	int status = 0, rc;

	errno = 0;
	if (!strcmp(function, "execve"))
		return execve(path, argv, env);
	if (!strcmp(function, "execvpe"))
		return execvpe(path, argv, env);
	if (!strcmp(function, "fexecve"))
		return fexecve(path ? fd : -1, argv, env);
	if (!strcmp(function, "execveat"))
		return execveat(AT_FDCWD, path, argv, env, 0);
	if (!strcmp(function, "execveat fd"))
		return execveat(fd, "", argv, env, AT_EMPTY_PATH);
	environ = (char **)env;
	if (!strcmp(function, "execv"))
		return execv(path, argv);
	if (!strcmp(function, "execvp"))
		return execvp(path, argv);
	if (!strcmp(function, "execl"))
		return execl(path, "true", (char *)NULL);
	if (!strcmp(function, "execlp"))
		return execlp(path, "true", (char *)NULL);
	if (!strcmp(function, "execle"))
		return execle(path, "true", (char *)NULL, env);
	environ = NULL;
	rc = strcmp(function, "posix_spawn") ? posix_spawnp(&child, path, NULL, NULL, argv, env)
					     : posix_spawn(&child, path, NULL, NULL, argv, env);
	if (rc) {
		must(child == -7, "the pid was changed");
		errno = rc;
		return -2;
	}
	must(waitpid(child, &status, 0) == child, "waitpid");
	errno = status;
	return -3;
}

static const char *const functions[] = {"execve",   "execv",       "execvp",      "execvpe",
					"execl",    "execlp",      "execle",      "fexecve",
					"execveat", "execveat fd", "posix_spawn", "posix_spawnp"};

static void say_one(const char *function, const struct kind *path, const struct kind *argv,
		    const struct kind *env)
{
	char text[200];
	int status = 0;
	pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0) {
		int rc = try_one(function, path->value, argv->value, env->value);

		snprintf(text, sizeof text, "%s(%s, %s, %s) = %d, errno %d\n", function, path->name,
			 argv->name, env->name, rc, errno);
		say(text);
		_exit(17);
	}
	must(waitpid(pid, &status, 0) == pid, "waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 17) {
		snprintf(text, sizeof text, "%s(%s, %s, %s): status %x\n", function, path->name,
			 argv->name, env->name,
			 (unsigned)status & ~0x80u); /* without the word whether there is a core */
		say(text);
	}
}

int main(void)
{
	make_kinds();
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		for (int k = 0; k < KINDS; k++) {
			say_one(functions[i], &paths[k], &lists[0], &lists[0]);
			if (k > 0) {
				say_one(functions[i], &paths[0], &lists[k], &lists[0]);
				say_one(functions[i], &paths[0], &lists[0], &lists[k]);
			}
		}
		say_one(functions[i], &paths[0], &lists[1], &lists[1]);
	}
	return 3;
}
