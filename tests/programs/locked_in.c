/* Goes into a sandbox in one of several ways (argv[1]) and goes on as the rest of its arguments say. Outside of
 * heft it always comes through: the filter allows what the program itself calls, and kills it for all else (with
 * MAY_FAIL in the environment all else fails).
 *
 *   WAY   prctl, seccomp, libseccomp: a filter. strict: read, write, exit. tsc: no time stamp counter
 *   THEN  work N: keeps N blocks. recurse: keeps 10 blocks 2000 frames deep. thread: a thread that keeps 10 blocks.
 *         fork: a child that keeps 10. exec: a child that executes true. vfork: a child that goes into the sandbox
 *         instead of its parent, and then executes true
 *
 * Blocks that are counted come from keep_block. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { BLOCK_BYTES = 200 };

NOINLINE static void *keep_block(void)
{
	void *p = malloc(BLOCK_BYTES);

	must(p != NULL, "malloc");
	keep(p);
	return p;
}

static void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = keep_block();

		if (i % 4 == 0)
			free(p);
	}
}

NOINLINE static unsigned recurse(unsigned depth)
{
	volatile char pad[64];

	pad[0] = 1;
	if (!depth)
		work(10);
	return depth ? recurse(depth - 1) + pad[0] : 0;
}

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                         \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What this program, libc's threads, the loader and true call. Of madvise only DONTNEED (libc's, for the stack of
 * a thread that ends), with the comparison that a signed number needs. */
static const int allowed[] = {
	SYS_read,       SYS_write,           SYS_exit_group,      SYS_exit,    SYS_brk,
	SYS_mmap,       SYS_munmap,          SYS_futex,           SYS_fstat,   SYS_newfstatat,
	SYS_clone,      SYS_clone3,          SYS_vfork,           SYS_wait4,   SYS_execve,
	SYS_arch_prctl, SYS_access,          SYS_openat,          SYS_pread64, SYS_mprotect,
	SYS_close,      SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,    SYS_prlimit64,
	SYS_getrandom,  SYS_rt_sigprocmask,  SYS_rt_sigaction,    SYS_kill};
enum { FIRST = 6, ALLOWED = sizeof allowed / sizeof *allowed };
static struct sock_filter filter[FIRST + 2 * ALLOWED + 1];
static struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
static int without_mask; /* rt_sigprocmask is not allowed either */

static void make_filter(void)
{
	const struct sock_filter first[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};

	memcpy(filter, first, sizeof first);
	for (int i = 0; i < ALLOWED; i++) {
		int number = without_mask && allowed[i] == SYS_rt_sigprocmask ? SYS_read
									      : allowed[i];
		const struct sock_filter one[] = {ALLOW((unsigned)number)};

		memcpy(filter + FIRST + 2 * i, one, sizeof one);
	}
	filter[FIRST + 2 * ALLOWED] = (struct sock_filter)BPF_STMT(
		BPF_RET | BPF_K,
		getenv("MAY_FAIL") ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_KILL_PROCESS);
}

/* By libseccomp, if it is there (exit status 77: it is not). */
static void by_library(void)
{
	void *library = dlopen("libseccomp.so.2", RTLD_NOW);
	void *(*init)(uint32_t);
	int (*add)(void *, uint32_t, int, unsigned, ...), (*load)(void *);

	if (!library)
		_exit(77);
	init = (void *(*)(uint32_t))dlsym(library, "seccomp_init");
	add = (int (*)(void *, uint32_t, int, unsigned, ...))dlsym(library, "seccomp_rule_add");
	load = (int (*)(void *))dlsym(library, "seccomp_load");
	must(init && add && load, "libseccomp");
	void *context = init(SECCOMP_RET_KILL_PROCESS);

	must(context != NULL, "seccomp_init");
	for (int i = 0; i < ALLOWED; i++)
		must(add(context, SECCOMP_RET_ALLOW, allowed[i], 0) == 0, "seccomp_rule_add");
	must(add(context, SECCOMP_RET_ALLOW, SYS_madvise, 0) == 0, "seccomp_rule_add");
	must(load(context) == 0, "seccomp_load");
}

/* Each of these fails, and changes nothing. */
static void fail_to_enter(void)
{
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
	errno = 0;
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT, "NULL");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)opaque(8)) == -1 && errno == EFAULT,
	     "8");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (void *)opaque(~0ul << 12)) == -1 &&
		     errno == EFAULT,
	     "high");
	struct sock_fprog nowhere = {10, (void *)opaque(4096)}, empty = {0, filter};

	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nowhere) == -1 && errno == EFAULT,
	     "nowhere");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty) == -1 && errno == EINVAL, "empty");
	must(prctl(PR_SET_SECCOMP, 7) == -1 && errno == EINVAL, "mode 7");
	must(prctl(PR_SET_TSC, 9) == -1 && errno == EINVAL, "tsc 9");
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT,
	     "seccomp NULL");
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 5, NULL) == -1 && errno == EINVAL,
	     "strict 5");
	must(syscall(SYS_seccomp, 99, 0, NULL) == -1 && errno == EINVAL, "operation 99");
	must(prctl(PR_GET_SECCOMP) == 0, "not in a sandbox");
}

static void lock_in(const char *way)
{
	if (!strcmp(way, "tsc")) {
		must(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0, "PR_SET_TSC");
		return;
	}
	if (!strcmp(way, "strict")) {
		must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0, "strict");
		return;
	}
	if (!strcmp(way, "prctl"))
		must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "filter");
	else if (!strcmp(way, "seccomp"))
		must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
	else if (!strcmp(way, "libseccomp"))
		by_library();
	else
		must(!strcmp(way, "nothing"), "no such way");
}

static void *in_thread(void *arg)
{
	work(10);
	return arg;
}

static void await(pid_t pid, int status)
{
	int ended = 0;

	must(pid > 0 && waitpid(pid, &ended, 0) == pid, "waitpid");
	must(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "the child");
}

static void child_executes(const char *way)
{
	extern char **environ;
	char *argv[] = {"true", NULL};
	pid_t pid = vfork();

	if (pid == 0) {
		if (way)
			lock_in(way);
		execve("/bin/true", argv, environ);
		_exit(9);
	}
	await(pid, 0);
}

static void go_on(const char *what, const char *number, const char *way)
{
	pthread_t id;
	pid_t pid;

	if (!strcmp(what, "work"))
		work((unsigned)atoi(number));
	else if (!strcmp(what, "recurse"))
		recurse(2000);
	else if (!strcmp(what, "thread")) {
		must(!pthread_create(&id, NULL, in_thread, NULL), "pthread_create");
		pthread_join(id, NULL);
	} else if (!strcmp(what, "fork")) {
		pid = fork();
		if (pid == 0) {
			work(10);
			_exit(3);
		}
		await(pid, 3);
	} else if (!strcmp(what, "exec"))
		child_executes(NULL);
	else if (!strcmp(what, "vfork"))
		child_executes(way);
	else
		must(0, "no such thing to do");
}

int main(int argc, char **argv)
{
	must(argc >= 3, "usage: locked_in WAY [without_mask] THEN...");
	const char *way = argv[1];
	int in_child = !strcmp(argv[2], "vfork");
	char status = 5;

	without_mask = getenv("WITHOUT_MASK") != NULL;
	make_filter();
	free(malloc(100000)); /* strict seccomp leaves nothing to get memory with */
	work(10);
	fail_to_enter();
	work(10);
	if (!in_child)
		lock_in(way);
	for (int i = 2; i < argc; i++) {
		go_on(argv[i], i + 1 < argc ? argv[i + 1] : "", way);
		i += !strcmp(argv[i], "work");
	}
	if (!strcmp(way, "strict"))
		syscall(SYS_exit, status);
	return status;
}
