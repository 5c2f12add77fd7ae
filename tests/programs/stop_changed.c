/* A function whose first bytes a test changes, back and forth, while threads run it without a pause.
 *
 *     stop_changed KIND
 *
 * The first line on stdout is what stop_driver's "change" wants: AT OLD NOW FROM:TO... The new code jumps to
 * a copy that does the same. threads: 8 threads call the function; across:
 * the same, and what changes is not in one word; whole: the same,
 * and it is one instruction; forks: so do children that two threads
 * make all the time; frame: the only caller is interrupted in the middle of what changes, and its
 * handler waits until stdin says "h"; inside: the only caller waits in the middle of what changes until
 * stdin says "h". Runs until stdin ends, checks every result, and says "ok N" at the end. */
#include "program.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

enum { THREADS = 8 };

/* 3 n + 1. The first three instructions have one byte each, so that a thread is often between them. What changes
 * of the first function lies in one aligned word; of the second it does not. */
unsigned long triple(unsigned long n), triple_across(unsigned long n);
extern const char triple_copy[], triple_across_copy[];
#define TRIPLE(name, skip)                                                                         \
	__asm__(".text\n.balign 64\n.skip " skip "\n.globl " name "\n.type " name                  \
		",@function\n" name ":\npush %rbp\npush %rbx\npush %rdi\nmov %rdi,%rax\n" name     \
		"_rest:\n"                                                                         \
		"lea 1(%rax,%rax,2),%rax\npop %rdi\npop %rbx\npop %rbp\nret\n.size " name          \
		",.-" name "\n.balign 64\n.globl " name "_copy\n" name "_copy:\n"                  \
		"push %rbp\npush %rbx\npush %rdi\nmov %rdi,%rax\njmp " name "_rest\n")
TRIPLE("triple", "0");
TRIPLE("triple_across", "5");
/* One instruction changes, so nobody is ever inside: threads may run while it changes, and meet traps. */
unsigned long triple_whole(unsigned long n);
extern const char triple_whole_copy[];
__asm__(".text\n.balign 64\n.skip 5\n.globl triple_whole\n.type triple_whole,@function\n"
	"triple_whole:\nlea 1(%rdi,%rdi,2),%rax\ntriple_whole_rest:\nret\n"
	".size triple_whole,.-triple_whole\n.balign 64\n.globl triple_whole_copy\n"
	"triple_whole_copy:\nlea 1(%rdi,%rdi,2),%rax\njmp triple_whole_rest\n");
static size_t changed_bytes = 6;
static unsigned long (*tripled)(unsigned long) = triple;
static const char *copy_of_triple = triple_copy;

/* Waits at its second byte until *flag is not 0, then returns 7: a loop inside what changes. */
unsigned long spin(const volatile int *flag);
extern const char spin_rest[], spin_copy[];
__asm__(".text\n.balign 64\n.globl spin\n.type spin,@function\nspin:\n"
	"nop\n1: cmpl $0,(%rdi)\nje 1b\n"
	".globl spin_rest\nspin_rest:\n"
	"mov $7,%eax\nret\n.size spin,.-spin\n"
	".balign 64\n.globl spin_copy\nspin_copy:\n"
	"nop\n1: cmpl $0,(%rdi)\nje 1b\njmp spin_rest\n");

static atomic_bool done;
static atomic_ulong rounds;
static volatile int flag;

static void print_change(const char *at, size_t bytes, const char *copy, const size_t *places)
{
	char line[256];
	int n = snprintf(line, sizeof line, "%lx ", (unsigned long)at);
	for (size_t i = 0; i < bytes; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "%02x", (unsigned char)at[i]);
	int distance = (int)(copy - (at + 5));
	n += snprintf(line + n, sizeof line - (size_t)n, " e9");
	for (int i = 0; i < 4; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "%02x",
			      (unsigned char)(distance >> 8 * i));
	for (size_t i = 5; i < bytes; i++)
		n += snprintf(line + n, sizeof line - (size_t)n, "cc");
	for (; *places; places++)
		n += snprintf(line + n, sizeof line - (size_t)n, " %lx:%lx",
			      (unsigned long)at + *places, (unsigned long)copy + *places);
	snprintf(line + n, sizeof line - (size_t)n, "\n");
	say(line);
}

static void print_triple(void)
{
	print_change((const char *)(size_t)tripled, changed_bytes, copy_of_triple,
		     (const size_t[]){1, 2, 3, 0});
}

/* Until a letter comes, or the end. */
static int next_letter(void)
{
	char letter;
	return read(0, &letter, 1) == 1 ? letter : 0;
}

static void call_often(unsigned long times)
{
	for (unsigned long n = 0; n < times && !done; n++)
		must(tripled(n) == 3 * n + 1, "a call went wrong");
	rounds++;
}

static void *call(void *arg)
{
	while (!done)
		call_often(100000);
	return arg;
}

static void *call_in_children(void *arg)
{
	while (!done) {
		int status;
		pid_t child = fork();
		if (!child) {
			call_often(1000);
			_exit((int)tripled(2));
		}
		must(child > 0 && waitpid(child, &status, 0) == child, "fork");
		must(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child ended otherwise");
		rounds++;
	}
	return arg;
}

static void run_threads(size_t count, void *(*work)(void *))
{
	pthread_t threads[THREADS];
	for (size_t i = 0; i < count; i++)
		must(!pthread_create(&threads[i], NULL, work, NULL), "create");
	print_triple();
	while (next_letter())
		;
	done = 1;
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void threads(void)
{
	run_threads(THREADS, call);
}

static void across(void)
{
	tripled = triple_across;
	copy_of_triple = triple_across_copy;
	run_threads(THREADS, call);
}

static void whole(void)
{
	tripled = triple_whole;
	copy_of_triple = triple_whole_copy;
	changed_bytes = 5;
	run_threads(THREADS, call);
}

static void forks(void)
{
	run_threads(2, call_in_children);
}

static void *call_spin(void *arg)
{
	must(spin(&flag) == 7, "spin went wrong");
	must(flag, "spin did not wait");
	rounds++;
	return arg;
}

static pthread_t start_spin(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, call_spin, NULL), "create");
	return thread;
}

static void print_spin(void)
{
	print_change((const char *)(size_t)spin, 6, spin_copy, (const size_t[]){1, 4, 0});
}

static void inside(void)
{
	pthread_t thread = start_spin();
	print_spin();
	while (next_letter() != 'h')
		;
	flag = 1;
	pthread_join(thread, NULL);
	while (next_letter())
		;
}

static volatile sig_atomic_t handling;
static void wait_in_handler(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	(void)number, (void)info;
	unsigned long at = (unsigned long)u->uc_mcontext.gregs[REG_RIP] - (unsigned long)spin;
	must(at == 1 || at == 4, "interrupted elsewhere");
	handling = 1;
	while (next_letter() != 'h')
		;
	handling = 2;
}

static void frame(void)
{
	struct sigaction action = {.sa_sigaction = wait_in_handler, .sa_flags = SA_SIGINFO};
	pthread_t thread = start_spin();
	sigaction(SIGUSR1, &action, NULL);
	/* It is in the loop when its processor time has passed the time that a start takes. */
	clockid_t clock;
	struct timespec ran = {0};
	pthread_getcpuclockid(thread, &clock);
	while (ran.tv_sec == 0 && ran.tv_nsec < 20000000)
		clock_gettime(clock, &ran);
	pthread_kill(thread, SIGUSR1);
	while (!handling)
		;
	print_spin();
	while (handling == 1)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	say("handled\n");
	while (next_letter() != 'h')
		;
	flag = 1;
	pthread_join(thread, NULL);
	while (next_letter())
		;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} kinds[] = {{"threads", threads}, {"across", across}, {"whole", whole},
		     {"forks", forks},     {"frame", frame},   {"inside", inside}};
	must(argc > 1, "usage");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kinds[i].name, argv[1]))
			continue;
		kinds[i].run();
		say_number("ok", rounds);
		return 0;
	}
	must(0, "no such kind");
}
