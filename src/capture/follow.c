/* Follows the program into what it executes.
 *
 * Usually the environment does it: children inherit LD_PRELOAD and HEFT_SESSION.
 * A program may pass an environment of its own. So the exec functions and posix_spawn
 * are interposed: they look whether our entries are there, and if not, pass on a copy
 * that has them. Nothing else of the environment changes. Each exec leaves a note in
 * the log, so that the outside can say which program it could not record (static,
 * setuid, no access).
 *
 * All of it works in a vfork child: memory comes from the stack, nothing takes a lock,
 * and the functions to call were looked up at start. */
#include "capture/settings.h"

#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
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

/* Writes into the log of the file that is mapped here. In a child that has not opened its own, that is its
 * parent's. */
static void note(uint32_t kind, int pid, const char *path)
{
	if (!heft_mapped)
		return;
	if (!path)
		path = "";
	struct wire_session s = wire_session_at(heft_mapped);
	size_t n = strnlen(path, 1024);
	uint32_t bytes = (uint32_t)((sizeof(struct wire_module) + n + 7) & ~7ul);
	struct wire_module *m = heft_log_begin(&s, bytes);
	if (!m)
		return;
	m->kind = kind;
	m->start = (uint64_t)pid;
	m->end = arch_stamp();
	m->path_bytes = (uint16_t)n;
	m->build_id_bytes = 0;
	memcpy(m->data, path, n);
	heft_log_end(m);
}

/* Which of our variables an environment lacks */
struct missing {
	int session, preload, sample;
	int bad; /* it is no environment */
	size_t count;
	const char *list; /* its LD_PRELOAD, if any */
};

static struct missing missing_in(char *const *env)
{
	struct missing m = {
		.session = 1, .preload = 1, .sample = heft_settings.sample_text[0] != 0};
	m.bad = env && (uintptr_t)env < 4096;
	size_t own = strlen(heft_settings.preload_path);
	/* The kernel will refuse what is no address at all. */
	for (; (uintptr_t)env >= 4096 && env[m.count]; m.count++) {
		const char *e = env[m.count];
		if (!strncmp(e, WIRE_ENV_SESSION "=", sizeof WIRE_ENV_SESSION))
			m.session = 0;
		else if (!strncmp(e, WIRE_ENV_SAMPLE "=", sizeof WIRE_ENV_SAMPLE))
			m.sample = 0;
		else if (!strncmp(e, "LD_PRELOAD=", 11)) {
			m.list = e + 11;
			for (const char *at = m.list; *at;) {
				size_t n = strcspn(at, ": ");
				if (n == own && !strncmp(at, heft_settings.preload_path, n))
					m.preload = 0;
				at += n;
				at += *at != 0;
			}
		}
	}
	return m;
}

static int must_complete(const struct missing *m)
{
	return !heft_settings.follow_none && heft_settings.session_dir[0] &&
	       heft_settings.preload_path[0] && !m->bad && (m->session || m->preload || m->sample);
}

/* Makes an environment that has them. New strings go to `text`, the pointers to `to`; both are on the
 * caller's stack. */
static char **completed(char **to, char *text, char *const *env, const struct missing *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++)
		if (!m->preload || strncmp(env[i], "LD_PRELOAD=", 11))
			to[n++] = env[i];
	if (m->preload) {
		to[n++] = text;
		text = stpcpy(text, "LD_PRELOAD=");
		text = stpcpy(text, heft_settings.preload_path);
		if (m->list && *m->list) {
			*text++ = ':';
			text = stpcpy(text, m->list);
		}
		text++;
	}
	if (m->session) {
		to[n++] = text;
		text = stpcpy(text, WIRE_ENV_SESSION "=");
		text = stpcpy(text, heft_settings.session_dir) + 1;
	}
	if (m->sample) {
		to[n++] = text;
		text = stpcpy(text, WIRE_ENV_SAMPLE "=");
		stpcpy(text, heft_settings.sample_text);
	}
	to[n] = NULL;
	return to;
}

/* Makes the variable `env` complete, with memory of the stack of the function that it is used in. */
#define WITH_OURS(env)                                                                             \
	struct missing missing_ = missing_in(env);                                                 \
	if (must_complete(&missing_)) {                                                            \
		char **to_ = alloca((missing_.count + 4) * sizeof *to_);                           \
		char *text_ = alloca(sizeof heft_settings.preload_path +                           \
				     sizeof heft_settings.session_dir +                            \
				     sizeof heft_settings.sample_text + 64 +                       \
				     (missing_.list ? strlen(missing_.list) : 0));                 \
		env = completed(to_, text_, env, &missing_);                                       \
	}

static void about_to_exec(const char *path)
{
	int pid = sys_getpid();
	note(WIRE_LOG_EXEC, pid, path);
	heft_execs(pid);
}

static int failed(int rc)
{
	int saved = errno, pid = sys_getpid();
	note(WIRE_LOG_EXEC_FAILED, pid, "");
	heft_stays(pid);
	errno = saved;
	return rc;
}

/* libc's header says that the pointer never is NULL; a program may pass NULL all the same. */
static int is_null(const void *pointer)
{
	__asm__("" : "+r"(pointer));
	return !pointer;
}

/* The functions below call this one, not each other by their exported names: a program may have functions
 * of these names itself. */
static int execute(exec_fn *next, const char *path, char *const *argv, char *const *env)
{
	WITH_OURS(env)
	about_to_exec(path);
	return failed(next(path, argv, env));
}

EXPORT int execve(const char *path, char *const *argv, char *const *env)
{
	return execute(next_execve, path, argv, env);
}

EXPORT int execv(const char *path, char *const *argv)
{
	return execute(next_execve, path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const *argv, char *const *env)
{
	return execute(next_execvpe, file, argv, env);
}

EXPORT int execvp(const char *file, char *const *argv)
{
	return execute(next_execvpe, file, argv, environ);
}

EXPORT int fexecve(int fd, char *const *argv, char *const *env)
{
	if (is_null(argv) || is_null(env)) /* it will fail */
		return next_fexecve(fd, argv, env);
	WITH_OURS(env)
	about_to_exec(argv[0]);
	return failed(next_fexecve(fd, argv, env));
}

EXPORT int execveat(int fd, const char *path, char *const *argv, char *const *env, int flags)
{
	WITH_OURS(env)
	about_to_exec(!is_null(path) && *path ? path : is_null(argv) ? NULL : argv[0]);
	return failed(next_execveat ? next_execveat(fd, path, argv, env, flags)
				    : (errno = ENOSYS, -1));
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
		return execute(next, path, argv, env);                                             \
	}
EXEC_OF_LIST(execl, next_execve, environ)
EXEC_OF_LIST(execle, next_execve, va_arg(list, char *const *))
EXEC_OF_LIST(execlp, next_execvpe, environ)

static int spawn(spawn_fn *next, pid_t *pid, const char *path,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const *argv, char *const *env)
{
	pid_t child = 0;
	WITH_OURS(env)
	if (!next)
		return ENOSYS;
	int rc = next(&child, path, actions, attributes, argv, env);
	if (pid && !rc)
		*pid = child;
	if (!rc) {
		int saved = errno;
		note(WIRE_LOG_EXEC, child, path);
		errno = saved;
	}
	return rc;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
	return spawn(next_spawn, pid, path, actions, attributes, argv, env);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
	return spawn(next_spawnp, pid, file, actions, attributes, argv, env);
}
