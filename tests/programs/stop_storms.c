/* Programs that are hard to stop: they make threads or processes all the time, get signals, or compute. Each
 * checks itself: what it computes, what its children return, that no signal is lost.
 *
 *     stop_storms KIND
 *
 * Runs until stdin ends, then says "ok N", where N is how often it did what it does. */
#include "program.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { LOOPS = 8, MANY = 300 };

extern char **environ;
static atomic_bool done;
static atomic_ulong rounds;
static char **arguments;

static int stdin_ended(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char letter;
	return poll(&in, 1, 0) == 1 && read(0, &letter, 1) <= 0;
}

static void nap(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* A sum with a known result, in vector registers as well: a stop that loses a register shows. */
static int computes_right(unsigned seed)
{
	double halves = 0;
	unsigned long sum = 0;
	for (unsigned i = 1; i <= 1000; i++) {
		sum += i * (unsigned long)seed;
		halves += i * 0.5;
		__asm__ volatile("" : "+x"(halves), "+r"(sum));
	}
	return sum == 500500ul * seed && halves == 250250.0;
}

static void *compute(void *arg)
{
	for (unsigned seed = (unsigned)(size_t)arg; !done; seed++) {
		must(computes_right(seed), "a computation went wrong");
		rounds++;
	}
	return arg;
}

static void many_loops(void)
{
	pthread_t threads[LOOPS];
	for (size_t i = 0; i < LOOPS; i++)
		must(!pthread_create(&threads[i], NULL, compute, (void *)(i + 1)),
		     "pthread_create");
	while (!stdin_ended())
		nap(5000000);
	done = 1;
	for (size_t i = 0; i < LOOPS; i++) {
		void *result;
		must(!pthread_join(threads[i], &result) && result == (void *)(i + 1), "join");
	}
}

static void *answer(void *arg)
{
	must(computes_right((unsigned)(size_t)arg), "a thread computed wrong");
	return (void *)((size_t)arg * 3);
}

static void *make_threads(void *arg)
{
	while (!done) {
		pthread_t threads[4];
		for (size_t i = 0; i < 4; i++)
			must(!pthread_create(&threads[i], NULL, answer, (void *)(i + 5)), "create");
		for (size_t i = 0; i < 4; i++) {
			void *result;
			must(!pthread_join(threads[i], &result) && result == (void *)(3 * (i + 5)),
			     "join");
		}
		rounds++;
	}
	return arg;
}

/* Each thread makes the next one and ends: there is always one that nobody has seen yet. */
static void *relay(void *arg)
{
	pthread_t next;
	rounds++;
	if (!done) {
		must(!pthread_create(&next, NULL, relay, arg), "create");
		pthread_detach(next);
	}
	return NULL;
}

static void thread_storm(void)
{
	pthread_t makers[3];
	must(!pthread_create(&makers[2], NULL, relay, NULL), "create");
	pthread_detach(makers[2]);
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&makers[i], NULL, make_threads, NULL), "create");
	while (!stdin_ended())
		nap(5000000);
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(makers[i], NULL);
}

static void *make_children(void *arg)
{
	while (!done) {
		int status;
		pid_t child = fork();
		if (!child)
			_exit(computes_right(7) ? 7 : 1);
		must(child > 0 && waitpid(child, &status, 0) == child, "fork");
		must(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child ended otherwise");
		rounds++;
	}
	return arg;
}

static void *make_programs(void *arg)
{
	char *words[] = {"true", NULL};
	while (!done) {
		int status;
		pid_t child;
		must(!posix_spawn(&child, "/bin/true", NULL, NULL, words, environ), "spawn");
		must(waitpid(child, &status, 0) == child && !status, "a program ended otherwise");
		rounds++;
	}
	return arg;
}

static void with_two(void *(*work)(void *))
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		must(!pthread_create(&threads[i], NULL, work, NULL), "create");
	while (!stdin_ended())
		nap(5000000);
	done = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

static void fork_storm(void)
{
	with_two(make_children);
}

static void spawn_storm(void)
{
	with_two(make_programs);
}

/* The child of vfork has the memory of this process until stdin ends. */
static void vfork_sleeper(void)
{
	char letter;
	int status;
	say("vforks\n");
	pid_t child = vfork();
	if (!child) {
		while (read(0, &letter, 1) > 0 && letter != 'v')
			;
		_exit(3);
	}
	must(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3,
	     "the child ended otherwise");
	say("vforked\n");
	while (read(0, &letter, 1) > 0)
		;
	rounds++;
}

static void vfork_beside_loops(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, compute, (void *)1), "create");
	vfork_sleeper();
	done = 1;
	pthread_join(thread, NULL);
}

/* 10,000 signals a second, each queued: none may be lost or come twice. Each interrupts epoll_wait, and
 * nothing else does, unless there is a second argument. */
enum { SIGNALS = 20000 };
static volatile sig_atomic_t got, wrong_order;
static void take_signal(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	wrong_order |= info->si_value.sival_int != got;
	got++;
}

static void signals(void)
{
	int ends[2], set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};
	struct sigaction action = {.sa_sigaction = take_signal, .sa_flags = SA_SIGINFO};
	must(!pipe(ends) && !sigaction(SIGRTMIN, &action, NULL), "sigaction");
	epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event);
	pid_t child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		for (int i = 0; i < SIGNALS; i++) {
			while (sigqueue(getppid(), SIGRTMIN, (union sigval){.sival_int = i}))
				nap(1000000);
			nap(50000);
		}
		_exit(0);
	}
	close(ends[1]);
	for (int before = got;; before = got) {
		int ready = epoll_wait(set, &event, 1, -1);
		if (ready == 1)
			break; /* the child has ended */
		must(ready < 0 && errno == EINTR, "epoll_wait returned something else");
		/* Whoever is killed while it stops a process has not seen to its call yet. */
		must(got != before || arguments[2], "EINTR without a handler");
		rounds++;
	}
	must(waitpid(child, NULL, 0) == child, "wait");
	must(got == SIGNALS, "a signal was lost, or came twice");
	must(!wrong_order, "signals came in another order");
	say("signalled\n");
	while (!stdin_ended())
		nap(5000000);
}

/* A child stops and continues this process, over and over. */
static void stops_and_goes(void)
{
	pid_t child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			kill(getppid(), SIGSTOP);
			nap(300000);
			kill(getppid(), SIGCONT);
			nap(500000);
		}
	}
	while (!stdin_ended()) {
		must(computes_right(9), "a computation went wrong");
		rounds++;
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void *finish_alone(void *arg)
{
	many_loops();
	(void)arg;
	say_number("ok", rounds);
	_exit(0);
}

static void first_thread_ends(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, finish_alone, NULL), "create");
	say("first thread ends\n");
	pthread_exit(NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *want_lock(void *arg)
{
	pthread_mutex_lock(&lock);
	rounds++;
	pthread_mutex_unlock(&lock);
	return arg;
}

static void many_sleepers(void)
{
	static pthread_t threads[MANY];
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MANY; i++)
		must(!pthread_create(&threads[i], &attributes, want_lock, NULL), "create");
	say("sleep\n");
	while (!stdin_ended())
		nap(5000000);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
	must(rounds == MANY, "a thread is missing");
}

/* A thread on the given processor, which others want, too. It is mostly in the middle of mprotect when it is taken from
 * there: then the kernel's lock on the memory is its own. */
static void *protect(void *arg)
{
	enum { PART = 64 << 20, PAGE = 4096 };
	char *part = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(part != MAP_FAILED, "mmap");
	madvise(part, PART, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < PART; i += PAGE)
		part[i] = 1;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(atoi(arg), &one);
	must(!sched_setaffinity(0, sizeof one, &one), "affinity");
	say("protects\n");
	for (;; rounds++) {
		must(!mprotect(part, PART, PROT_READ), "mprotect");
		must(!mprotect(part, PART, PROT_READ | PROT_WRITE), "mprotect");
	}
	return NULL;
}

static void locks_its_memory(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, protect, arguments[2]), "create");
	while (!stdin_ended())
		nap(5000000);
	say_number("ok", rounds);
	_exit(0);
}

/* Becomes itself again and again, from a thread that is not the first one. */
static void *become(void *arg)
{
	char number[16];
	snprintf(number, sizeof number, "%ld", strtol(arg, NULL, 10) + 1);
	execl("/proc/self/exe", arguments[0], arguments[1], number, NULL);
	_exit(92);
}

static void execs(void)
{
	pthread_t loop, thread;
	rounds = arguments[2] ? strtoul(arguments[2], NULL, 10) : 0;
	unsigned long begun = rounds;
	if (stdin_ended()) {
		rounds = begun;
		return;
	}
	must(!pthread_create(&loop, NULL, compute, (void *)1), "create");
	nap(1000000);
	must(!pthread_create(&thread, NULL, become, arguments[2] ? arguments[2] : "0"), "create");
	pthread_join(thread, NULL);
}

static void ends_soon(void)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, compute, (void *)1), "create");
	nap((long)strtol(arguments[2], NULL, 10) * 1000);
	rounds = 0;
	_exit(5);
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{"loops", many_loops},
	{"threads", thread_storm},
	{"forks", fork_storm},
	{"spawns", spawn_storm},
	{"vfork", vfork_sleeper},
	{"vfork_beside", vfork_beside_loops},
	{"signals", signals},
	{"stops", stops_and_goes},
	{"first_ends", first_thread_ends},
	{"locks", locks_its_memory},
	{"many", many_sleepers},
	{"execs", execs},
	{"ends", ends_soon},
};

int main(int argc, char **argv)
{
	must(argc > 1, "usage");
	arguments = argv;
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
