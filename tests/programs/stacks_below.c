/* Coroutines on memory right below the stack of a thread, with nothing between: to an observer both are one stack.
 * Then the memory goes, in part or as a whole, and coroutines of other sizes run at the same addresses.
 *
 *   reused   two coroutines at the same place; before the second one, a hole was made behind it
 *   closed   the same, but the hole is closed pages
 *   many     64 coroutines, side by side; every other one's stack goes before the next round
 *   handler  signal handlers on an alternate stack there, which then goes; then coroutines where it was
 *
 * Each allocates from keep_block in a function of its own, `rounds` times. */
#define _GNU_SOURCE
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK = 64 * PAGE, AREA = 1024 * PAGE, MANY = 64 };

static char *area; /* coroutines here, and the thread's stack at its end */
static ucontext_t here, there;
static unsigned made;
static char *base_rbp; /* what the next coroutine begins with; NULL: as it comes */

NOINLINE static void keep_block(void)
{
	void *p = malloc(100);

	must(p != NULL, "malloc");
	keep(p);
	made++;
}

NOINLINE static void deeper(int depth)
{
	if (depth)
		deeper(depth - 1);
	else
		keep_block();
	keep(&depth);
}

static void coroutine(int depth)
{
	for (int i = 0; i < 3; i++)
		deeper(depth);
}

static void run_at(char *stack, size_t bytes, int depth)
{
	must(!getcontext(&there), "getcontext");
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = bytes;
	there.uc_link = &here;
	if (base_rbp)
		there.uc_mcontext.gregs[REG_RBP] = (greg_t)base_rbp;
	makecontext(&there, (void (*)(void))coroutine, 1, depth);
	must(!swapcontext(&here, &there), "swapcontext");
}

static void back(char *at, size_t bytes)
{
	must(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		  0) == at,
	     "mmap");
}

/* First the coroutine and the thread have one piece of memory. Then there is a hole between them, and the register
 * rbp, which code without frame pointers uses for anything, leads there. */
static void reused(int closed)
{
	enum { PAGES = 16 };
	char *low = area + 32 * PAGE, *hole = low + PAGES * PAGE;

	for (int round = 0; round < 4; round++) {
		run_at(low, PAGES * PAGE, 14 + round);
		if (closed)
			must(!mprotect(hole, 8 * PAGE, PROT_NONE), "mprotect");
		else
			must(!munmap(hole, 8 * PAGE), "munmap");
		base_rbp = hole + 64;
		run_at(low, PAGES * PAGE, 15 + round);
		base_rbp = NULL;
		back(hole, 8 * PAGE);
		keep_block();
	}
}

static void many(void)
{
	enum { EACH = 4 };

	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < MANY; i++)
			run_at(area + (i * EACH + EACH) * PAGE, EACH * PAGE, 20 + round);
		for (int i = round % 2; i < MANY; i += 2)
			must(!munmap(area + (i * EACH + EACH) * PAGE, EACH * PAGE), "munmap");
		for (int i = 1 - round % 2; i < MANY; i += 2) {
			base_rbp = area + (i * EACH + 2 * EACH) * PAGE + 64;
			run_at(area + (i * EACH + EACH) * PAGE, EACH * PAGE, 20 + round);
			base_rbp = NULL;
		}
		back(area + EACH * PAGE, MANY * EACH * PAGE);
	}
}

static void on_signal(int number)
{
	(void)number;
	deeper(10);
}

static void handler(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	char *low = area + 32 * PAGE;
	stack_t stack = {.ss_sp = low, .ss_size = 16 * PAGE}, none = {.ss_flags = SS_DISABLE};

	sigaction(SIGUSR1, &action, NULL);
	for (int round = 0; round < 4; round++) {
		must(!sigaltstack(&stack, NULL), "sigaltstack");
		for (int i = 0; i < 4; i++)
			pthread_kill(pthread_self(), SIGUSR1);
		must(!sigaltstack(&none, NULL), "sigaltstack");
		must(!munmap(low + 16 * PAGE, 8 * PAGE), "munmap");
		base_rbp = low + 16 * PAGE + 64;
		run_at(low, 16 * PAGE, 15 + round);
		base_rbp = NULL;
		back(low + 16 * PAGE, 8 * PAGE);
		keep_block();
	}
}

static void *thread(void *arg)
{
	const char *mode = arg;

	keep_block();
	if (!strcmp(mode, "reused"))
		reused(0);
	else if (!strcmp(mode, "closed"))
		reused(1);
	else if (!strcmp(mode, "many"))
		many();
	else if (!strcmp(mode, "handler"))
		handler();
	else
		must(0, "no such mode");
	keep_block();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t id;

	must(argc == 2, "usage: stacks_below MODE");
	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(area != MAP_FAILED, "mmap");
	pthread_attr_init(&attributes);
	must(!pthread_attr_setstack(&attributes, area + AREA - STACK, STACK), "setstack");
	must(!pthread_create(&id, &attributes, thread, argv[1]), "pthread_create");
	pthread_join(id, NULL);
	say_number("made", made);
	return 6;
}
