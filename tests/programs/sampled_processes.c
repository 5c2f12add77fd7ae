/* Processes, threads, libraries and ends of all kinds, for sampled recordings. argv[1] is the mode.
 *
 * Blocks that a test counts have BLOCK_BYTES: at a rate of 1 KiB one of them is missed once in
 * 10^17, so every number is exact and the test needs no statistics. Nothing is written into them:
 * they cost address space. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <grp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { BLOCK_BYTES = 40000, PARENT_BLOCKS = 60, CHILD_BLOCKS = 25, CHILDREN = 4 };
enum { THREADS = 3000, AT_ONCE = 50 };

extern char **environ;

static void *parent_block[PARENT_BLOCKS];

/* A place of its own for each kind of block: found by its name in the recording. */
#define PLACE(name)                                                                                \
	NOINLINE static void *name(void)                                                           \
	{                                                                                          \
		void *p = malloc(BLOCK_BYTES);                                                     \
                                                                                                   \
		keep(p);                                                                           \
		return p;                                                                          \
	}
PLACE(keep_parent)
PLACE(keep_child)
PLACE(keep_executed)
PLACE(keep_thread)
PLACE(keep_handler)
PLACE(keep_first)

NOINLINE static void *keep_resized(void *old, size_t n)
{
	void *p = realloc(old, n);
	keep(p);
	return p;
}
static void fill_parent(void)
{
	for (int i = 0; i < PARENT_BLOCKS; i++)
		parent_block[i] = keep_parent();
}

static void expect_status(pid_t pid, int wanted)
{
	int status = 0;

	must(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
	must(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "status of the child");
}

/* A worker of a pre-forking server: frees, resizes and shrinks what it was born with. */
static void child(int number)
{
	for (int i = 0; i < CHILD_BLOCKS; i++)
		must(keep_child() != NULL, "out of memory");
	for (int i = 0; i < PARENT_BLOCKS; i++) {
		if (i % 3 == 0)
			free(parent_block[i]);
		else if (i % 3 == 1 && number == 0) /* from here on it is this child's own */
			must(keep_resized(parent_block[i], 2 * BLOCK_BYTES) != NULL, "realloc");
	}
}

static void prefork(void)
{
	pid_t pid[CHILDREN];

	fill_parent();
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			child(i);
			if (i % 2)
				exit(4);
			_exit(4);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		expect_status(pid[i], 4);
}

extern void *early_dlsym_block __attribute__((weak));

/* A child frees a block from before there was an allocator (early_dlsym.c). */
static void free_early(void)
{
	fill_parent();
	pid_t pid = fork();

	if (pid == 0) {
		must(early_dlsym_block != NULL, "no early block");
		free(early_dlsym_block);
		_exit(4);
	}
	expect_status(pid, 4);
}

/* argv[2]: "kept" or "empty", the environment that the new program gets. */
static void execute(char **argv)
{
	char *no_environment[] = {NULL};
	char *next[] = {argv[0], "executed", NULL};

	fill_parent();
	execve(argv[0], next, strcmp(argv[2], "kept") ? no_environment : environ);
	must(0, "exec came back");
}

static void executed(void)
{
	for (int i = 0; i < CHILD_BLOCKS; i++)
		must(keep_executed() != NULL, "out of memory");
}

static void *short_thread(void *arg)
{
	(void)arg;
	free(keep_parent());
	return keep_thread();
}

/* Every thread leaves a block; every other one is freed by this thread. */
static void threads(void)
{
	for (int done = 0; done < THREADS; done += AT_ONCE) {
		pthread_t id[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++)
			must(!pthread_create(&id[i], NULL, short_thread, NULL), "pthread_create");
		for (int i = 0; i < AT_ONCE; i++) {
			void *block;

			pthread_join(id[i], &block);
			must(block != NULL, "out of memory");
			if (i % 2)
				free(block);
		}
	}
}

/* argv[2], argv[3]: libraries built from stack_plugin.c; their blocks outlive them. */
static void unload(char **argv)
{
	unsigned same = 0;
	void *last = NULL;

	for (int i = 0; i < 20; i++) {
		void *library = dlopen(argv[2 + i % 2], RTLD_NOW);
		void *(*entry)(size_t);

		must(library != NULL, "dlopen");
		entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
		must(entry != NULL && entry(BLOCK_BYTES) != NULL, "plugin_entry");
		same += (void *)entry == last;
		last = (void *)entry;
		dlclose(library);
	}
	say_number("same address", same);
}

/* Drops privileges, then goes on with children and another program. */
static void become_nobody(char **argv)
{
	pid_t pid;

	fill_parent();
	must(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "setuid");
	must(setuid(0) != 0, "still root");
	fill_parent();
	pid = fork();
	if (pid == 0) {
		char *next[] = {argv[0], "executed", NULL};

		child(1);
		execve(argv[0], next, environ);
		_exit(1);
	}
	expect_status(pid, 6);
}

/* argv[2]: an empty directory. The session's files are out of reach from there on. */
static void change_root(char **argv)
{
	pid_t pid;

	fill_parent();
	must(chroot(argv[2]) == 0 && chdir("/") == 0, "chroot");
	fill_parent();
	pid = fork();
	if (pid == 0) {
		child(1);
		_exit(4);
	}
	expect_status(pid, 4);
}

enum {
	TRAP_FLAG = 0x100,
	STRIDE = 11,
	JUMP_STRIDE = 7,
	JUMP_ROUNDS = 100,
	STEPPED_THREADS = 2,
	RETURN = 0xc3
};

extern const unsigned char __executable_start[], etext[];

static int only_returns;
static __thread unsigned step, step_to_take, taken;
static _Atomic unsigned all_rounds, all_taken;

/* Steps in the program itself do not count: it is what lies below that is interrupted. */
static void on_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;
	const unsigned char *pc = (const unsigned char *)interrupted->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if ((pc >= __executable_start && pc < etext) || (only_returns && *pc != RETURN))
		return;
	if (step++ != step_to_take)
		return;
	interrupted->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG; /* no more steps in this round */
	taken++;
	free(keep_handler());
}

/* With the trap flag set the processor stops after every instruction, and the kernel sends a
 * SIGTRAP; in the handler the flag is clear. (The red zone is stepped over: pushf writes there.) */
static inline void trap(unsigned long flag)
{
	__asm__ volatile(
		"lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\torq %0, (%%rsp)\n\t"
		"popfq\n\tlea 128(%%rsp), %%rsp"
		:
		: "r"(flag)
		: "memory", "cc");
}

/* Each block stays for one round. The alternate stack is a part of this one. */
NOINLINE static void *stepped_rounds(void *arg)
{
	char space[32768];
	stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
	unsigned rounds = 0, stride = only_returns ? 1 : STRIDE;
	void *kept = NULL;

	must(!sigaltstack(&stack, NULL), "sigaltstack");
	step_to_take = (unsigned)getpid() % stride;
	do {
		void *p;

		step = 0;
		trap(TRAP_FLAG);
		p = keep_parent();
		free(kept);
		trap(0);
		must(p != NULL, "out of memory");
		kept = p;
		step_to_take += stride;
	} while (++rounds == taken);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	atomic_fetch_add(&all_rounds, rounds);
	atomic_fetch_add(&all_taken, taken);
	return arg;
}

/* A handler that allocates, after one instruction of a malloc and a free, another one in each round:
 * only with an allocator below that can be interrupted (async_malloc.c). argv[2]: "some", one in
 * eleven instructions to be quick, others in each run; or "returns", before each of those. argv[3]:
 * the handler's stack, "own" or "alternate". */
static void stepped(char **argv)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	pthread_t id[STEPPED_THREADS];

	only_returns = !strcmp(argv[2], "returns");
	if (strcmp(argv[3], "own"))
		action.sa_flags |= SA_ONSTACK;
	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < STEPPED_THREADS; i++)
		must(!pthread_create(&id[i], NULL, stepped_rounds, NULL), "pthread_create");
	for (int i = 0; i < STEPPED_THREADS; i++)
		pthread_join(id[i], NULL);
	say_number("rounds", all_rounds);
	say_number("taken", all_taken);
}

static __thread sigjmp_buf begin_of_round;

static void jump_away(int number, siginfo_t *info, void *context)
{
	const ucontext_t *interrupted = context;
	const unsigned char *pc = (const unsigned char *)interrupted->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if ((pc >= __executable_start && pc < etext) || step++ != step_to_take)
		return;
	taken++;
	siglongjmp(begin_of_round, 1);
}

/* A handler that leaves a malloc by a jump, after another one of its instructions in each round. The
 * next block, from the same place, is made and counted as ever. */
static void jumped(void)
{
	struct sigaction action = {.sa_sigaction = jump_away, .sa_flags = SA_SIGINFO};
	static int round;

	sigaction(SIGTRAP, &action, NULL);
	must(keep_parent() && keep_first(), "out of memory"); /* what is slow at first is done */
	step_to_take = (unsigned)getpid() % JUMP_STRIDE;
	for (round = 0; round < JUMP_ROUNDS; round++) {
		step = 0;
		if (sigsetjmp(begin_of_round, 1) == 0) {
			trap(TRAP_FLAG);
			must(keep_parent() != NULL, "out of memory");
			trap(0);
		}
		must(keep_first() != NULL, "out of memory");
		step_to_take += JUMP_STRIDE;
	}
	say_number("jumps", taken);
}

/* Everything that realloc may do to a sampled block. What is left: 10 of 3 x BLOCK_BYTES at
 * keep_resized, 10 at keep_first whose growth failed. */
static void resize(void)
{
	for (int i = 0; i < 1000; i++) {
		char *p = keep_resized(NULL, BLOCK_BYTES);

		p = keep_resized(p, 10 * BLOCK_BYTES);
		p = keep_resized(p, 3 * BLOCK_BYTES);
		must(p != NULL, "out of memory");
		if (i % 100)
			must(keep_resized(p, opaque(0)) == NULL, "realloc to nothing");
	}
	for (int i = 0; i < 10; i++) {
		void *p = keep_first();

		must(keep_resized(p, opaque(PTRDIFF_MAX)) == NULL, "absurd realloc");
	}
	for (int i = 0; i < 10; i++) { /* shrinks out of the samples */
		char *p = keep_first();

		p = realloc(p, 1);
		keep(p);
		free(p);
	}
}

int main(int argc, char **argv)
{
	must(argc >= 2, "usage: sampled_processes MODE [ARG...]");
	const char *mode = argv[1];

	if (!strcmp(mode, "prefork"))
		prefork();
	else if (!strcmp(mode, "exec") && argc == 3)
		execute(argv);
	else if (!strcmp(mode, "free_early"))
		free_early();
	else if (!strcmp(mode, "executed"))
		executed();
	else if (!strcmp(mode, "threads"))
		threads();
	else if (!strcmp(mode, "unload") && argc == 4)
		unload(argv);
	else if (!strcmp(mode, "setuid"))
		become_nobody(argv);
	else if (!strcmp(mode, "chroot") && argc == 3)
		change_root(argv);
	else if (!strcmp(mode, "stepped") && argc == 4)
		stepped(argv);
	else if (!strcmp(mode, "jumped"))
		jumped();
	else if (!strcmp(mode, "resize"))
		resize();
	else if (!strcmp(mode, "abort"))
		fill_parent(), abort();
	else if (!strcmp(mode, "_exit"))
		fill_parent(), _exit(5);
	else
		must(0, "no such mode");
	return 6;
}
