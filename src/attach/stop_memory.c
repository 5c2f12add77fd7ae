/* Whether the process's memory can be reached at once.
 *
 * In the freeze a thread may be late: it was told to stop and is not on a processor. It may have been taken
 * from its processor in the middle of mmap, and the kernel's lock on the memory is its own then. Whoever reads
 * or writes the memory now waits until that thread has had a processor, for tens of ms on a loaded machine,
 * and everything stands still meanwhile. No read of another process's memory can be given up.
 *
 * So another thread of heft's tries it first, and the freeze is given up if it does not come back. A read that
 * waited says little: the next in the queue may be another late thread. One that did not wait says that nobody
 * has the lock, and no thread that can run is there to take it. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FREE_NS 500000ull /* a read that took longer has waited */

struct stop_probe {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int mem;
	uint64_t at, took_ns;
	pid_t tid;         /* 0: it has not begun yet */
	bool asked, ended; /* asked: it reads now, or will soon */
};

static void *probe(void *ctx)
{
	struct stop_probe *p = ctx;
	pthread_mutex_lock(&p->lock);
	p->tid = (pid_t)syscall(SYS_gettid);
	for (;;) {
		pthread_cond_broadcast(&p->changed);
		while (!p->asked && !p->ended)
			pthread_cond_wait(&p->changed, &p->lock);
		if (p->ended)
			break;
		pthread_mutex_unlock(&p->lock);
		uint8_t byte;
		const uint64_t began = monotonic_ns();
		const ssize_t got = pread(p->mem, &byte, sizeof byte, (off_t)p->at);
		const uint64_t took = monotonic_ns() - began;
		pthread_mutex_lock(&p->lock);
		(void)got; /* what is there does not matter */
		p->took_ns = took;
		p->asked = false;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Waits until it has nothing to do; false: not until then. The lock is held. */
static bool wait_for(struct stop_probe *p, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / 1000000000ull),
				       (long)(until_ns % 1000000000ull)};
	while (p->asked || !p->tid)
		if (pthread_cond_timedwait(&p->changed, &p->lock, &until))
			return !p->asked && p->tid;
	return true;
}

static int start_thread(struct stop_probe *p)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int failed = pthread_create(&p->thread, NULL, probe, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return failed;
}

void memory_probe_begin(struct stop *s)
{
	struct stop_probe *p = s->probe ? NULL : calloc(1, sizeof *p);
	pthread_condattr_t clock;
	if (!p)
		return;
	p->mem = s->mem;
	p->at = s->enter;
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &clock);
	pthread_condattr_destroy(&clock);
	if (start_thread(p)) {
		pthread_cond_destroy(&p->changed);
		pthread_mutex_destroy(&p->lock);
		free(p);
		return;
	}
	s->probe = p;
	/* Later nobody may wait for a thread that has the lock and no processor. */
	pthread_mutex_lock(&p->lock);
	while (!p->tid)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

void memory_probe_end(struct stop *s)
{
	struct stop_probe *p = s->probe;
	if (!p)
		return;
	s->probe = NULL;
	pthread_mutex_lock(&p->lock);
	p->ended = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* It must get a processor as soon as this thread does. */
static void give_own_priority(const struct stop_probe *p)
{
	struct sched_param own;
	const int policy = sched_getscheduler(0);
	if (policy >= 0 && !sched_getparam(0, &own))
		sched_setscheduler(p->tid, policy, &own);
	setpriority(PRIO_PROCESS, (id_t)p->tid, getpriority(PRIO_PROCESS, 0));
}

bool memory_is_free(struct stop *s, uint64_t until_ns)
{
	struct stop_probe *p = s->probe;
	if (!p)
		return true; /* no thread was to be had: nobody knows */
	pthread_mutex_lock(&p->lock);
	give_own_priority(p);
	bool answered = wait_for(p, until_ns); /* an earlier one */
	if (answered) {
		p->asked = true;
		pthread_cond_broadcast(&p->changed);
		answered = wait_for(p, until_ns);
	}
	const bool is_free = answered && p->took_ns < FREE_NS;
	pthread_mutex_unlock(&p->lock);
	return is_free;
}
