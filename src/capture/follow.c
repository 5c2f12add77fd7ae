/* The functions through which a program executes others. next_program.c says what is done before each.
 *
 * All of it works in a vfork child: memory comes from the stack, nothing takes a lock,
 * and the functions to call were looked up at start. */
#include "capture/held_exec.h"
#include "capture/next_program.h"
#include "capture/preloadable.h"

#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <unistd.h>

typedef int exec_fn(const char *, char *const *, char *const *);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, char *const *, char *const *);
static exec_fn *next_execve, *next_execvpe;
static int (*next_fexecve)(int, char *const *, char *const *);
static int (*next_execveat)(int, const char *, char *const *, char *const *, int);
static spawn_fn *next_spawn, *next_spawnp;

void heft_follow_init(void)
{
	next_execve = (exec_fn *)heft_next_symbol("execve");
	next_execvpe = (exec_fn *)heft_next_symbol("execvpe");
	next_fexecve = (__typeof__(next_fexecve))heft_next_symbol("fexecve");
	next_execveat = (__typeof__(next_execveat))heft_next_symbol("execveat");
	next_spawn = (spawn_fn *)heft_next_symbol("posix_spawn");
	next_spawnp = (spawn_fn *)heft_next_symbol("posix_spawnp");
}

/* A constructor of another library may execute before anything was looked up. */
static int is_known(const void *next)
{
	if (next)
		return 1;
	errno = ENOSYS;
	return 0;
}

/* Makes the variable `env` what the next program gets, with memory of the stack of the function that it is
 * used in. next: struct heft_next_program */
#define WITH_OURS(env, next)                                                                       \
	struct heft_missing missing_ = heft_missing_in(env);                                       \
	size_t bytes_ = heft_next_environment_bytes(&missing_, &(next));                           \
	if (bytes_)                                                                                \
		env = heft_next_environment(alloca(bytes_), env, &missing_, &(next));

static int failed(int rc, const struct heft_leaving *l)
{
	int saved = errno;
	heft_exec_failed(l);
	errno = saved;
	return rc;
}

/* The functions below call this one, not each other by their exported names: a program may have functions
 * of these names itself. */
static int execute(exec_fn **next, const char *path, char *const *argv, char *const *env)
{
	heft_resolve_next();
	if (!is_known((const void *)*next))
		return -1;
	struct heft_next_program program = heft_next_program(
		SYS_NO_FOLDER, path, next == &next_execvpe ? environ : NULL);
	struct heft_leaving l = heft_about_to_exec(path, &program);
	WITH_OURS(env, program)
	return failed((*next)(path, argv, env), &l);
}

EXPORT int execve(const char *path, char *const *argv, char *const *env)
{
	return execute(&next_execve, path, argv, env);
}

EXPORT int execv(const char *path, char *const *argv)
{
	return execute(&next_execve, path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const *argv, char *const *env)
{
	return execute(&next_execvpe, file, argv, env);
}

EXPORT int execvp(const char *file, char *const *argv)
{
	return execute(&next_execvpe, file, argv, environ);
}

/* libc's header says that the pointer never is NULL; a program may pass NULL all the same. */
static int is_null(const void *pointer)
{
	__asm__("" : "+r"(pointer));
	return !pointer;
}

EXPORT int fexecve(int fd, char *const *argv, char *const *env)
{
	heft_resolve_next();
	if (!is_known((const void *)next_fexecve))
		return -1;
	if (is_null(argv) ||
	    is_null(env)) /* it will fail; with an environment of ours it might not */
		return next_fexecve(fd, argv, env);
	char opened[HEFT_FD_PATH];
	struct heft_next_program program = heft_next_program(SYS_NO_FOLDER,
							     heft_fd_path(fd, opened), NULL);
	struct heft_leaving l = heft_about_to_exec(heft_first_of(argv), &program);
	WITH_OURS(env, program)
	return failed(next_fexecve(fd, argv, env), &l);
}

EXPORT int execveat(int fd, const char *path, char *const *argv, char *const *env, int flags)
{
	struct heft_looked seen = {0};
	heft_resolve_next();
	if (!is_known((const void *)next_execveat))
		return -1;
	char opened[HEFT_FD_PATH];
	int named = heft_text_bytes(&seen, path, 1) > 0;
	struct heft_next_program program = heft_next_program(
		fd, named ? path : heft_fd_path(fd, opened), NULL);
	struct heft_leaving l = heft_about_to_exec(named ? path : heft_first_of(argv), &program);
	WITH_OURS(env, program)
	return failed(next_execveat(fd, path, argv, env, flags), &l);
}

static size_t count_arguments(va_list list)
{
	size_t n = 1;
	va_list rest;
	va_copy(rest, list);
	while (va_arg(rest, char *))
		n++;
	va_end(rest);
	return n;
}

/* execl and its kin: their arguments become an array on the stack. env_: what the environment is once the
 * arguments are taken off `list`. */
#define EXEC_OF_LIST(name, next, env_)                                                             \
	EXPORT int name(const char *path, const char *first, ...)                                  \
	{                                                                                          \
		va_list list;                                                                      \
		va_start(list, first);                                                             \
		size_t count = count_arguments(list);                                              \
		char **argv = alloca((count + 1) * sizeof *argv);                                  \
		argv[0] = (char *)first;                                                           \
		for (size_t i = 1; i <= count; i++)                                                \
			argv[i] = va_arg(list, char *);                                            \
		char *const *env = env_;                                                           \
		va_end(list);                                                                      \
		return execute(&next, path, argv, env);                                            \
	}
EXEC_OF_LIST(execl, next_execve, environ)
EXEC_OF_LIST(execle, next_execve, va_arg(list, char *const *))
EXEC_OF_LIST(execlp, next_execvpe, environ)

static int spawn(spawn_fn **next, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const *argv, char *const *env)
{
	pid_t child = 0;
	heft_resolve_next();
	if (!*next)
		return ENOSYS;
	struct heft_next_program program = heft_next_program(SYS_NO_FOLDER, path,
							     next == &next_spawnp ? environ : NULL);
	struct wire_hold *hold = program.hold ? heft_hold_spawned() : NULL;
	program.without |= hold && program.own_allocator;
	WITH_OURS(env, program)
	int rc = (*next)(&child, path, actions, attributes, argv, env);
	if (pid && !rc)
		*pid = child;
	int saved = errno;
	if (hold && rc)
		heft_hold_failed(hold);
	else if (hold)
		heft_hold_made(hold);
	if (!rc)
		heft_note_exec(child, path);
	errno = saved;
	return rc;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
	return spawn(&next_spawn, pid, path, actions, attributes, argv, env);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
	return spawn(&next_spawnp, pid, file, actions, attributes, argv, env);
}
