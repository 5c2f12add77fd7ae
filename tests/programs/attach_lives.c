/* Programs that are hard to attach to: attach_lives KIND FILE [LIBRARY...], see the table at the end. FILE counts
 * their work (attach_life.h). Each looks at every result of its own: a call that heft's stop has changed, a block
 * that is not what it was, a child that died makes it end with another status than 0. */
#define _GNU_SOURCE
#include "attach_life.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

static char **libraries;
static int library_count;

static void nap_ms(long ms)
{
	const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	must(!nanosleep(&t, NULL), "nanosleep was interrupted");
}

static void start_thread(pthread_t *t, void *(*run)(void *), void *arg)
{
	must(!pthread_create(t, NULL, run, arg), "no thread");
}

/* ---- children */

static void wait_for(pid_t child)
{
	int status = -1;
	must(waitpid(child, &status, 0) == child, "waitpid failed");
	must(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child did not end as it should");
}

static void fork_storm(void)
{
	enum { AT_ONCE = 4 };
	life_ready();
	for (unsigned i = 0; life_goes_on(); i++) {
		pid_t children[AT_ONCE];
		void *inherited = malloc(100);
		block_fill(inherited, 100, i);
		for (unsigned k = 0; k < AT_ONCE; k++) {
			children[k] = fork();
			must(children[k] >= 0, "fork failed");
			if (!children[k]) {
				block_check(inherited, 100, i);
				free(inherited);
				for (unsigned n = 0; n < 20; n++)
					life_work(i + k + n);
				_exit(7);
			}
			life_work(i + k);
		}
		for (unsigned k = 0; k < AT_ONCE; k++)
			wait_for(children[k]);
		free(inherited);
		life_step();
	}
}

/* Children and grandchildren that go on for as long as the program, all at work. */
static void family(void)
{
	pid_t first = fork(), second = 0;
	if (!first)
		second = fork();
	life_ready();
	for (unsigned i = 0; life_goes_on(); i++) {
		life_work(i);
		life_step();
	}
	if (!first && second)
		wait_for(second);
	if (!first)
		_exit(7);
	wait_for(first);
}

/* The forks come and go while heft is attached, and stay when it leaves. */
static void late_family(void)
{
	life_ready();
	for (unsigned i = 0; life_goes_on(); i++) {
		pid_t child = fork();
		must(child >= 0, "fork failed");
		for (unsigned n = 0; n < 200; n++) {
			life_work(i + n);
			nap_ms(1);
		}
		if (!child)
			_exit(7);
		wait_for(child);
		life_step();
	}
}

enum { DAEMONS_MOST = 20 };
static _Atomic int daemons_there; /* with the processes that start them */

/* A child that works for a while. Its parent ends at once, so that it gets another one. */
static void start_daemon(unsigned seed)
{
	daemons_there += 2;
	pid_t child = fork();
	must(child >= 0, "fork failed");
	if (child)
		return;
	pid_t daemon = fork();
	must(daemon >= 0, "fork failed");
	for (unsigned n = 0; !daemon && n < 20; n++) {
		life_work(seed + n);
		nap_ms(5);
	}
	_exit(7);
}

static void *start_daemons(void *arg)
{
	for (unsigned i = (unsigned)(uintptr_t)arg; life_goes_on(); i++) {
		while (daemons_there >= DAEMONS_MOST)
			nap_ms(1);
		start_daemon(i);
		life_work(i);
		life_step();
	}
	return arg;
}

/* Several threads fork at the same time. What they start gets the first thread for its parent, which waits for all. */
static void daemons(void)
{
	enum { AT_ONCE = 3 };
	pthread_t threads[AT_ONCE];
	must(!prctl(PR_SET_CHILD_SUBREAPER, 1), "cannot become the parent of orphans");
	for (uintptr_t k = 0; k < AT_ONCE; k++)
		start_thread(&threads[k], start_daemons, (void *)(1000 * k));
	life_ready();
	while (life_goes_on() || daemons_there) {
		if (!daemons_there) {
			nap_ms(1);
			continue;
		}
		int status = -1;
		pid_t ended = waitpid(-1, &status, 0);
		if (ended < 0 && errno == ECHILD)
			continue; /* it is about to be forked */
		must(ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7,
		     "a child did not end as it should");
		daemons_there--;
	}
	for (unsigned k = 0; k < AT_ONCE; k++)
		pthread_join(threads[k], NULL);
	while (wait(NULL) > 0)
		;
}

static void vfork_sleeper(void)
{
	life_ready();
	for (volatile unsigned i = 0; life_goes_on(); i++) {
		pid_t child = vfork();
		if (!child) {
			const struct timespec t = {0, 30000000};
			nanosleep(&t, NULL);
			_exit(7);
		}
		must(child > 0, "vfork failed");
		wait_for(child);
		life_work(i);
		nap_ms(i % 3 * 10);
		life_step();
	}
}

/* ---- threads */

static void *one_work(void *arg)
{
	life_work((unsigned)(uintptr_t)arg);
	return arg;
}

static void thread_storm(void)
{
	enum { AT_ONCE = 4 };
	life_ready();
	for (uintptr_t i = 0; life_goes_on(); i++) {
		pthread_t threads[AT_ONCE];
		for (unsigned k = 0; k < AT_ONCE; k++)
			start_thread(&threads[k], one_work, (void *)(i + k));
		for (unsigned k = 0; k < AT_ONCE; k++) {
			void *back = NULL;
			must(!pthread_join(threads[k], &back) && back == (void *)(i + k),
			     "a thread's result is wrong");
		}
		life_step();
	}
}

static void *steady_work(void *arg)
{
	for (unsigned i = (unsigned)(uintptr_t)arg; life_goes_on(); i++) {
		life_work(i);
		life_step();
	}
	return arg;
}

/* ---- signals */

static _Thread_local volatile sig_atomic_t handled;

/* Its thread is never in the allocator when it comes. */
static void allocating_handler(int sig)
{
	int kept = errno;
	(void)sig;
	life_work((unsigned)handled);
	handled++;
	errno = kept;
}

static void counting_handler(int sig)
{
	(void)sig;
	handled++;
}

static void timer_for_me(int sig, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig};
	const struct itimerspec every = {{0, 100000}, {0, 100000}}; /* 10 kHz */
	timer_t timer;
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	must(!sigaction(sig, &action, NULL), "sigaction failed");
	must(!timer_create(CLOCK_MONOTONIC, &event, &timer) &&
		     !timer_settime(timer, 0, &every, NULL),
	     "no timer");
}

static void *handler_works(void *arg)
{
	uint64_t sum = 0;
	timer_for_me(SIGUSR1, allocating_handler);
	while (life_goes_on())
		for (unsigned i = 0; i < 1000; i++)
			keep((void *)(uintptr_t)(sum += i));
	/* The end of a thread frees, and must not be interrupted by who allocates. */
	sigset_t own;
	sigemptyset(&own);
	sigaddset(&own, SIGUSR1);
	must(!pthread_sigmask(SIG_BLOCK, &own, NULL), "no mask");
	return arg;
}

static void *counted_at_work(void *arg)
{
	timer_for_me(SIGUSR2, counting_handler);
	return steady_work(arg);
}

static void signals(void)
{
	pthread_t a, b;
	start_thread(&a, handler_works, NULL);
	start_thread(&b, counted_at_work, NULL);
	life_ready();
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}

/* ---- stacks that are none of the threads' own */

enum { COROUTINES = 16, COROUTINE_STACK = 64 << 10 };
static ucontext_t scheduler, routines[COROUTINES];

static void routine(int number)
{
	for (unsigned i = (unsigned)number;; i++) {
		void *block = malloc(opaque(1 + i % 700));
		must(block != NULL, "no memory");
		block_fill(block, 1 + i % 700, i);
		swapcontext(&routines[number], &scheduler);
		block_check(block, 1 + i % 700, i);
		free(block);
	}
}

static void coroutines(void)
{
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&routines[i]);
		routines[i].uc_stack.ss_sp = malloc(COROUTINE_STACK);
		routines[i].uc_stack.ss_size = COROUTINE_STACK;
		makecontext(&routines[i], (void (*)(void))routine, 1, i);
	}
	life_ready();
	for (volatile unsigned i = 0; life_goes_on(); i++) {
		jmp_buf back;
		swapcontext(&scheduler, &routines[i % COROUTINES]);
		if (!setjmp(back)) {
			life_work(i);
			longjmp(back, 1);
		}
		life_step();
	}
}

/* ---- registers that nobody but heft could have changed */

static void vectors(void)
{
	enum { FXSAVE = 512, USED = 416, SPINS = 200000 };
	static _Alignas(64) unsigned char before[FXSAVE], after[FXSAVE], wide[16][32], back[16][32];
	const int has_avx = __builtin_cpu_supports("avx");
	for (unsigned i = 0; i < sizeof wide; i++)
		wide[i / 32][i % 32] = (unsigned char)(i * 7 + 1);
	life_ready();
	for (unsigned i = 0; life_goes_on(); i++) {
		uint64_t spins = SPINS;
		life_work(i);
		if (has_avx && i % 2) {
			__asm__ volatile(
				"vmovdqa (%1), %%ymm5\n vmovdqa 32(%1), %%ymm14\n"
				"1: dec %0\n jnz 1b\n"
				"vmovdqa %%ymm5, (%2)\n vmovdqa %%ymm14, 32(%2)\n vzeroupper"
				: "+r"(spins)
				: "r"(wide), "r"(back)
				: "memory", "xmm5", "xmm14");
			must(!memcmp(wide, back, 64), "a vector register has changed");
		} else {
			__asm__ volatile("movdqa (%1), %%xmm0\n movdqa 16(%1), %%xmm7\n"
					 "movdqa 32(%1), %%xmm15\n fldpi\n fxsave64 (%2)\n"
					 "1: dec %0\n jnz 1b\n fxsave64 (%3)\n fstp %%st(0)"
					 : "+r"(spins)
					 : "r"(wide), "r"(before), "r"(after)
					 : "memory", "xmm0", "xmm7", "xmm15");
			must(!memcmp(before, after, USED), "a register has changed");
		}
		life_step();
	}
}

/* ---- blocked in the kernel */

static int never[2]; /* a pipe that nobody writes to before the end */
static uint32_t futex_word;

static void *in_poll(void *arg)
{
	struct pollfd p = {.fd = never[0], .events = POLLIN};
	must(poll(&p, 1, -1) == 1, "poll did not return 1");
	return arg;
}

static void *in_epoll(void *arg)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC);
	must(!epoll_ctl(fd, EPOLL_CTL_ADD, never[0], &event), "epoll_ctl failed");
	must(epoll_wait(fd, &event, 1, -1) == 1, "epoll_wait did not return 1");
	close(fd);
	return arg;
}

static void *in_futex(void *arg)
{
	while (!__atomic_load_n(&futex_word, __ATOMIC_ACQUIRE)) {
		long rc = syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		must(rc == 0 || errno == EAGAIN, "futex was interrupted");
	}
	return arg;
}

static void *in_nanosleep(void *arg)
{
	for (unsigned i = 0; life_goes_on(); i++) {
		nap_ms(20);
		life_work(i);
		life_step();
	}
	return arg;
}

static void *in_sigtimedwait(void *arg)
{
	sigset_t set;
	const struct timespec long_time = {3600, 0};
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	must(sigtimedwait(&set, NULL, &long_time) == SIGRTMIN, "sigtimedwait was interrupted");
	return arg;
}

static void *in_read(void *arg)
{
	char byte;
	must(read(never[0], &byte, 1) == 1, "read did not return 1");
	return arg;
}

static void blocked(void)
{
	void *(*const all[])(void *) = {in_poll,      in_epoll,        in_futex,
					in_nanosleep, in_sigtimedwait, in_read};
	enum { ALL = sizeof all / sizeof *all };
	pthread_t threads[ALL];
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	must(!pipe(never), "no pipe");
	for (unsigned i = 0; i < ALL; i++)
		start_thread(&threads[i], all[i], NULL);
	life_ready();
	pthread_join(threads[3], NULL);
	__atomic_store_n(&futex_word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
	pthread_kill(threads[4], SIGRTMIN);
	must(write(never[1], "x", 1) == 1, "cannot write");
	/* read takes the byte; who polls must have another one. */
	pthread_join(threads[5], NULL);
	must(write(never[1], "x", 1) == 1, "cannot write");
	for (unsigned i = 0; i < 5; i++)
		if (i != 3)
			pthread_join(threads[i], NULL);
}

/* ---- libraries that come and go */

static void *loads(void *arg)
{
	for (uintptr_t i = (uintptr_t)arg; life_goes_on(); i++) {
		void *library = dlopen(libraries[i % (unsigned)library_count],
				       RTLD_NOW | RTLD_LOCAL);
		must(library != NULL, "dlopen failed");
		size_t (*work)(size_t) = (size_t (*)(size_t))dlsym(library, "attach_part_work");
		must(work && work(1 + i % 1000) == 1 + i % 1000, "the library does not work");
		must(!dlclose(library), "dlclose failed");
		life_step();
	}
	return arg;
}

static void loading(void)
{
	pthread_t a, b;
	start_thread(&a, loads, (void *)0);
	start_thread(&b, loads, (void *)1);
	life_ready();
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} kinds[] = {
		{"forks", fork_storm}, {"family", family},         {"late-family", late_family},
		{"daemons", daemons},  {"vfork", vfork_sleeper},   {"threads", thread_storm},
		{"signals", signals},  {"coroutines", coroutines}, {"blocked", blocked},
		{"vectors", vectors},  {"loading", loading}};
	must(argc > 2, "usage: attach_lives KIND FILE [LIBRARY...]");
	life_open(argv[2]);
	libraries = argv + 3;
	library_count = argc - 3;
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kinds[i].name, argv[1])) {
			kinds[i].run();
			say("right\n");
			return 0;
		}
	must(0, "there is no such kind");
}
