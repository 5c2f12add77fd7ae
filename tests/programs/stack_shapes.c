/* Stacks that an unwinder gets wrong easily. argv[1] is the mode. Every mode
 * allocates in functions of one telling chain, often enough that an incremental
 * unwinder meets its own last capture in all the ways it can. */
#define _GNU_SOURCE
#include "program.h"

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <ucontext.h>

/* ---- recursion: 70,000 frames, allocating at the bottom and again on the way up */
#define DEPTH 70000

NOINLINE static void bottom(void)
{
	void *p = malloc(700); /* @recursion.bottom */

	keep(p);
}

NOINLINE static void upper(void)
{
	void *p = malloc(701); /* @recursion.upper */

	keep(p);
}

NOINLINE static int descend(int left)
{
	int r;

	if (left == 1) {
		bottom();
		return 1;
	}
	r = descend(left - 1) + 1; /* @recursion.call */
	if (left == 60000)
		upper();
	__asm__ volatile("" : "+r"(r));
	return r;
}

static void run_recursion(void)
{
	say_number("frames", (unsigned long long)descend(DEPTH));
}

/* ---- zigzag: the same functions at many depths, up and down */
NOINLINE static void leaf_of(int depth)
{
	void *p = malloc((size_t)depth); /* @zigzag.leaf */

	keep(p);
	free(p);
}

NOINLINE static void zig(int depth, int until);
NOINLINE static void zag(int depth, int until)
{
	leaf_of(depth); /* @zigzag.zag_leaf */
	if (depth < until)
		zig(depth + 1, until); /* @zigzag.zag_zig */
	keep(&depth);
}

NOINLINE static void zig(int depth, int until)
{
	leaf_of(depth); /* @zigzag.zig_leaf */
	if (depth < until)
		zag(depth + 1, until); /* @zigzag.zig_zag */
	keep(&depth);
}

static void run_zigzag(void)
{
	for (int i = 0; i < 50; i++)
		for (int until = 1; until <= 20; until++)
			zig(1, until);
}

/* ---- signal: handlers on the normal stack; the frame below is interrupted at a known place */
static volatile sig_atomic_t signals;

NOINLINE static void handler_work(void)
{
	void *p = malloc(710); /* @signal.block */

	keep(p);
	free(p);
}

NOINLINE static void handler(int sig)
{
	(void)sig;
	handler_work();
	signals++;
}

NOINLINE static void fault_handler(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig, (void)info;
	handler_work();
	signals++;
	uc->uc_mcontext.gregs[REG_RIP] += 2; /* over the ud2 */
}

NOINLINE static void interrupted(void)
{
	__asm__ volatile("ud2" : : : "memory"); /* @signal.ud2 */
	keep(&signals);
}

/* The ud2 is the very first instruction: the interrupted pc must not be taken for a return
 * address, or the frame is looked up in the function before. */
void interrupted_at_start(void);
__asm__(".text\n.globl interrupted_at_start\n.type interrupted_at_start, @function\n"
	"nop\ninterrupted_at_start:\n.cfi_startproc\nud2\nret\n.cfi_endproc\n"
	".size interrupted_at_start, .-interrupted_at_start\n");

NOINLINE static void raiser(void)
{
	raise(SIGUSR1);
	keep(&signals);
}

static void run_signal_on(int flags)
{
	struct sigaction fault = {.sa_sigaction = fault_handler, .sa_flags = SA_SIGINFO | flags};
	struct sigaction plain = {.sa_handler = handler, .sa_flags = flags};

	sigaction(SIGILL, &fault, NULL);
	sigaction(SIGUSR1, &plain, NULL);
	for (int i = 0; i < 10; i++) {
		raiser();
		interrupted();
		interrupted_at_start();
	}
	must(signals == 30, "signals");
}

static void run_signal(void)
{
	run_signal_on(0);
}

static void run_altstack(void)
{
	static char stack[64 << 10];
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};

	must(sigaltstack(&alt, NULL) == 0, "sigaltstack");
	run_signal_on(SA_ONSTACK);
}

/* ---- timer: asynchronous signals anywhere in a loop that itself does not allocate */
NOINLINE static void spin(void)
{
	volatile unsigned x = 1;

	while (signals < 50)
		for (int i = 0; i < 1000; i++)
			x = x * 1664525 + 1013904223;
}

static void run_timer(void)
{
	struct sigaction plain = {.sa_handler = handler};
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {0};

	sigaction(SIGALRM, &plain, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	spin();
	setitimer(ITIMER_REAL, &never, NULL);
	say("timer\n");
}

/* ---- coroutines: two of them and the main stack take turns */
static ucontext_t main_context, co_context[2];

NOINLINE static void co_take(int which)
{
	void *p = malloc((size_t)(720 + which)); /* @coroutine.block */

	keep(p);
	free(p);
}

NOINLINE static void co_left_inner(void)
{
	co_take(0);
	swapcontext(&co_context[0], &main_context);
	co_take(0);
}

NOINLINE static void co_left(void)
{
	for (;;)
		co_left_inner();
}

NOINLINE static void co_right(void)
{
	for (;;) {
		co_take(1);
		swapcontext(&co_context[1], &main_context);
	}
}

NOINLINE static void co_main_take(void)
{
	void *p = malloc(722); /* @coroutine.main */

	keep(p);
	free(p);
}

static void run_coroutine(void)
{
	static char stack[2][64 << 10];

	for (int i = 0; i < 2; i++) {
		getcontext(&co_context[i]);
		co_context[i].uc_stack.ss_sp = stack[i];
		co_context[i].uc_stack.ss_size = sizeof(stack[i]);
		makecontext(&co_context[i], i ? co_right : co_left, 0);
	}
	for (int i = 0; i < 100; i++) {
		swapcontext(&main_context, &co_context[0]);
		co_main_take();
		swapcontext(&main_context, &co_context[1]);
	}
}

/* ---- longjmp: out of allocating frames, then another path to the same depth */
static jmp_buf back;

NOINLINE static void jump_leaf(int n)
{
	void *p = malloc((size_t)n); /* @longjmp.leaf */

	keep(p);
	free(p);
	longjmp(back, 1);
}

NOINLINE static void jump_one(int n)
{
	jump_leaf(n);
	keep(&n);
}

NOINLINE static void jump_two(int n)
{
	jump_one(n);
	keep(&n);
}

NOINLINE static void stay_leaf(void)
{
	void *p = malloc(731); /* @longjmp.stay */

	keep(p);
	free(p);
}

NOINLINE static void stay_two(void)
{
	stay_leaf();
	keep(&back);
}

static void run_longjmp(void)
{
	for (volatile int i = 0; i < 100; i++) {
		if (setjmp(back) == 0) {
			if (i % 2)
				jump_two(730);
			else
				jump_one(730);
		}
		stay_two();
	}
}

/* ---- frames: alloca, variable arrays, realigned stacks */
NOINLINE static void frames_leaf(void)
{
	void *p = malloc(740); /* @frames.leaf */

	keep(p);
	free(p);
}

NOINLINE static void with_realigned(size_t n)
{
	volatile char wide[64] __attribute__((aligned(64)));

	wide[n % 64] = (char)n;
	must(((uintptr_t)wide & 63) == 0, "realigned");
	frames_leaf();
	keep(wide);
}

NOINLINE static void with_vla(size_t n)
{
	volatile char array[n];

	array[n - 1] = 1;
	with_realigned(n);
	keep(array);
}

/* Both at once: gcc keeps the frame's origin in another register (DRAP). */
NOINLINE static void with_both(size_t n)
{
	volatile char wide[32] __attribute__((aligned(32)));
	volatile char *more = alloca(n);

	wide[0] = 1;
	more[n - 1] = 1;
	with_vla(n);
	keep(wide), keep(more);
}

NOINLINE static void with_alloca(size_t n)
{
	volatile char *p = alloca(n);

	p[0] = 1;
	with_both(n);
	keep(p);
}

static void run_frames(void)
{
	for (size_t i = 1; i <= 200; i++)
		with_alloca(i * 7);
}

/* ---- noreturn: the call is the last instruction of its function */
__attribute__((noreturn, noipa)) static void die(void)
{
	void *p = malloc(750); /* @noreturn.leaf */

	keep(p);
	longjmp(back, 1);
}

NOINLINE static void ends_with_call(int n)
{
	__asm__ volatile("" : "+r"(n));
	die(); /* @noreturn.call */
}

/* Stands right behind: a lookup of the bare return address finds this one. */
NOINLINE static void innocent(void)
{
	void *p = malloc(751); /* @noreturn.innocent */

	keep(p);
}

static void run_noreturn(void)
{
	innocent();
	for (volatile int i = 0; i < 10; i++)
		if (setjmp(back) == 0)
			ends_with_call(i);
}

/* ---- tables: the middle function has no unwind table (stack_untabled.c) */
void untabled(void (*call)(void));

NOINLINE static void tables_leaf(void)
{
	void *p = malloc(760); /* @tables.leaf */

	keep(p);
	free(p);
}

NOINLINE static void tables_outer(void)
{
	untabled(tables_leaf);
	keep(&signals);
}

static void run_tables(void)
{
	for (int i = 0; i < 100; i++) {
		tables_outer();
		tables_leaf();
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{"recursion", run_recursion}, {"zigzag", run_zigzag}, {"signal", run_signal},
		{"altstack", run_altstack},   {"timer", run_timer},   {"coroutine", run_coroutine},
		{"longjmp", run_longjmp},     {"frames", run_frames}, {"noreturn", run_noreturn},
		{"tables", run_tables},
	};

	must(argc == 2, "usage: stack_shapes MODE");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run();
			say("done\n");
			return 0;
		}
	}
	must(0, "no such mode");
}
