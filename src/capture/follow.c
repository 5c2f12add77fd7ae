/* Follows the program into what it executes.
 *
 * Usually the environment does it: children inherit LD_PRELOAD and HEFT_SESSION.
 * A program may pass an environment of its own. So the exec functions and posix_spawn
 * are interposed: they look whether our entries are there, and if not, pass on a copy
 * that has them. Nothing else of the environment changes. Each exec leaves a note in
 * the log, so that the outside can say which program it could not record (static,
 * setuid, no access).
 *
 * A program that has locked itself in (sandbox.c) executes others without heft: its
 * filter holds for them too, and heft would start there without knowing it. (Where calls
 * just fail, heft may try.)
 *
 * A program may pass anything for a path or an environment; the kernel then says
 * EFAULT. So nothing is read that was not asked about, and what cannot be read goes
 * on as it is.
 *
 * All of it works in a vfork child: memory comes from the stack, nothing takes a lock,
 * and the functions to call were looked up at start. */
#include "capture/settings.h"

#include <alloca.h>
#include <errno.h>
#include <limits.h>
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

/* ---- reading what a program passes */

/* The last two pages that were found to be readable */
struct looked {
	uintptr_t page[2];
};

static int can_read(struct looked *l, uintptr_t at)
{
	enum { PAGE = 4096 };
	uintptr_t page = at & ~(uintptr_t)(PAGE - 1);
	if (!page || at >> 47) /* 0 means "none" in page[] */
		return 0;
	if (page == l->page[0] || page == l->page[1])
		return 1;
	/* Where a sandbox does not let us ask we believe the program. */
	if (sys_may(SYS_DO_SIGPROCMASK) && !sys_readable((void *)page))
		return 0;
	l->page[1] = l->page[0];
	l->page[0] = page;
	return 1;
}

/* How long a text is, at most `most`; -1: it cannot be read. */
static long text_bytes(struct looked *l, const char *text, size_t most)
{
	for (size_t n = 0; n < most; n++) {
		if (!can_read(l, (uintptr_t)text + n))
			return -1;
		if (!text[n])
			return (long)n;
	}
	return (long)most;
}

/* An entry of an array of pointers: 1, 0: it is NULL, -1: it cannot be read. */
static int take_pointer(struct looked *l, char *const *at, const char **entry)
{
	uint64_t value;
	if (!can_read(l, (uintptr_t)at) || !can_read(l, (uintptr_t)at + sizeof value - 1))
		return -1;
	memcpy(&value, at, sizeof value);
	*entry = (const char *)value;
	return value != 0;
}

/* 1: the text begins with the prefix, 0: it does not, -1: it cannot be read. */
static int begins_with(struct looked *l, const char *text, const char *prefix)
{
	for (; *prefix; prefix++, text++) {
		if (!can_read(l, (uintptr_t)text))
			return -1;
		if (*text != *prefix)
			return 0;
	}
	return 1;
}

/* Writes into the log of the file that is mapped here. In a child that has not opened its own, that is its
 * parent's. */
static void note(uint32_t kind, int pid, const char *path)
{
	struct looked l = {0};
	if (!heft_mapped || pid <= 0 || !sys_may_stamp())
		return;
	struct wire_session s = wire_session_at(heft_mapped);
	long readable = text_bytes(&l, path, 1024);
	size_t n = readable > 0 ? (size_t)readable : 0;
	uint32_t bytes = (uint32_t)((sizeof(struct wire_module) + n + 7) & ~7ul);
	struct wire_module *m = heft_log_begin(&s, bytes);
	if (!m)
		return;
	m->kind = kind;
	m->start = (uint64_t)pid;
	m->end = arch_stamp();
	m->path_bytes = (uint16_t)n;
	m->build_id_bytes = 0;
	if (n)
		memcpy(m->data, path, n);
	heft_log_end(m);
}

/* ---- environments */

/* What an environment has of ours, or lacks */
struct missing {
	int session, preload, sample;
	int bad;  /* it cannot be read */
	int ours; /* it has one of our variables */
	size_t count;
	const char *list; /* its LD_PRELOAD, if any */
	size_t list_bytes;
};

static void look_at_list(struct missing *m)
{
	size_t own = strlen(heft_settings.preload_path);
	for (const char *at = m->list; *at;) {
		size_t n = strcspn(at, ": ");
		if (n == own && !strncmp(at, heft_settings.preload_path, n))
			m->preload = 0;
		at += n;
		at += *at != 0;
	}
}

static struct missing missing_in(char *const *env)
{
	struct missing m = {
		.session = 1, .preload = 1, .sample = heft_settings.sample_text[0] != 0};
	struct looked l = {0};
	const char *e;
	int there = 0;
	for (; env && (there = take_pointer(&l, &env[m.count], &e)) > 0; m.count++) {
		int session = begins_with(&l, e, WIRE_ENV_SESSION "=");
		int sample = begins_with(&l, e, WIRE_ENV_SAMPLE "=");
		int preload = begins_with(&l, e, "LD_PRELOAD=");
		long bytes = preload > 0 ? text_bytes(&l, e, LONG_MAX) : 0;
		m.bad |= session < 0 || sample < 0 || preload < 0 || bytes < 0;
		m.ours |= session | sample | preload;
		m.session &= session <= 0;
		m.sample &= sample <= 0;
		if (preload > 0 && bytes > 0) {
			m.list = e + 11;
			m.list_bytes = (size_t)bytes - 11;
			look_at_list(&m);
		}
	}
	m.bad |= there < 0;
	return m;
}

static int must_complete(const struct missing *m)
{
	return !heft_settings.follow_none && heft_settings.session_dir[0] &&
	       heft_settings.preload_path[0] && !m->bad && (m->session || m->preload || m->sample);
}

static int is_locked_in(void)
{
	return (atomic_load_explicit(&sys_forbidden, memory_order_relaxed) &
		(SYS_DEADLY | SYS_STAMP)) != 0;
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

/* The same without any of ours. A list of libraries is changed in a copy. (If there are two, the last holds.) */
static char **without_ours(char **to, char *text, char *const *env, const struct missing *m)
{
	size_t n = 0;
	for (size_t i = 0; i < m->count; i++)
		if (env[i] + 11 == m->list)
			to[n++] = memcpy(text, env[i], m->list_bytes + 12);
		else if (!m->list || strncmp(env[i], "LD_PRELOAD=", 11) != 0)
			to[n++] = env[i];
	to[n] = NULL;
	heft_settings_remove(to);
	return to;
}

/* Makes the variable `env` what the next program gets, with memory of the stack of the function that it is
 * used in. */
#define WITH_OURS(env)                                                                             \
	struct missing missing_ = missing_in(env);                                                 \
	int locked_in_ = is_locked_in() && missing_.ours && !missing_.bad;                         \
	if (locked_in_ || (!is_locked_in() && must_complete(&missing_))) {                         \
		char **to_ = alloca((missing_.count + 4) * sizeof *to_);                           \
		char *text_ = alloca(sizeof heft_settings.preload_path +                           \
				     sizeof heft_settings.session_dir +                            \
				     sizeof heft_settings.sample_text + 64 + missing_.list_bytes); \
		env = locked_in_ ? without_ours(to_, text_, env, &missing_)                        \
				 : completed(to_, text_, env, &missing_);                          \
	}

static uint64_t about_to_exec(const char *path)
{
	int pid = sys_getpid();
	note(WIRE_LOG_EXEC, pid, path);
	heft_execs(pid);
	return heft_sandbox_leave();
}

static int failed(int rc, uint64_t sandbox)
{
	int saved = errno, pid;
	heft_sandbox_return(sandbox);
	pid = sys_getpid();
	note(WIRE_LOG_EXEC_FAILED, pid, "");
	heft_stays(pid);
	errno = saved;
	return rc;
}

/* A constructor of another library may execute before anything was looked up. */
static int is_known(const void *next)
{
	if (next)
		return 1;
	errno = ENOSYS;
	return 0;
}

/* argv[0] of a program that is executed by descriptor */
static const char *first_of(char *const *argv)
{
	struct looked l = {0};
	const char *first = NULL;
	return take_pointer(&l, argv, &first) > 0 ? first : NULL;
}

/* The functions below call this one, not each other by their exported names: a program may have functions
 * of these names itself. */
static int execute(exec_fn **next, const char *path, char *const *argv, char *const *env)
{
	heft_resolve_next();
	if (!is_known((const void *)*next))
		return -1;
	WITH_OURS(env)
	uint64_t sandbox = about_to_exec(path);
	return failed((*next)(path, argv, env), sandbox);
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
	WITH_OURS(env)
	uint64_t sandbox = about_to_exec(first_of(argv));
	return failed(next_fexecve(fd, argv, env), sandbox);
}

EXPORT int execveat(int fd, const char *path, char *const *argv, char *const *env, int flags)
{
	struct looked l = {0};
	heft_resolve_next();
	if (!is_known((const void *)next_execveat))
		return -1;
	WITH_OURS(env)
	uint64_t sandbox = about_to_exec(text_bytes(&l, path, 1) > 0 ? path : first_of(argv));
	return failed(next_execveat(fd, path, argv, env, flags), sandbox);
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
	WITH_OURS(env)
	int rc = (*next)(&child, path, actions, attributes, argv, env);
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
	return spawn(&next_spawn, pid, path, actions, attributes, argv, env);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const *argv, char *const *env)
{
	return spawn(&next_spawnp, pid, file, actions, attributes, argv, env);
}
