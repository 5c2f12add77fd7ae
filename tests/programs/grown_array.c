/* Blocks that grow by realloc, and who frees them. Each case is one argument; what it
 * prints does not depend on being recorded. The array of the cases holds 24-byte
 * structs, as a vector that doubles: 12426 used of 16384. */
#include "program.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct point {
	uint64_t x, y, z;
};

struct array {
	struct point *items;
	size_t count, capacity;
};

enum { USED = 12426, CAPACITY = 16384 };

NOINLINE void add(struct array *a, uint64_t value)
{
	if (a->count == a->capacity) {
		a->capacity = a->capacity ? a->capacity * 2 : 64;
		a->items = realloc(a->items, a->capacity * sizeof *a->items); /* @add */
		must(a->items != NULL, "realloc");
	}
	a->items[a->count++] = (struct point){value, value, value};
}

static struct array make(void)
{
	struct array a = {0};
	for (uint64_t i = 1; i <= USED; i++)
		add(&a, i);
	must(a.capacity == CAPACITY, "capacity");
	return a;
}

static uint64_t sum(const struct array *a)
{
	uint64_t s = 0;
	for (size_t i = 0; i < a->count; i++)
		s += a->items[i].z;
	return s;
}

NOINLINE void release(struct array *a)
{
	free(a->items); /* @release */
	keep(a);
}

static struct array kept; /* live at exit, and reachable */

/* Closes the last page; or, which also closes the middle of what is used, all but the first. */
static void protect(const struct array *a, int all)
{
	uintptr_t first = ((uintptr_t)a->items + 4095) & ~4095ul;
	uintptr_t last = ((uintptr_t)(a->items + a->capacity) - 1) & ~4095ul;
	uintptr_t from = all ? first + 4096 : last;
	must(mprotect((void *)from, last + 4096 - from, PROT_NONE) == 0, "mprotect");
}

static void *allocate_some(void *unused)
{
	free(malloc(100)); /* @other */
	return unused;
}

static pthread_barrier_t barrier;
static void *wait_for_end(void *unused)
{
	free(malloc(200));
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return unused;
}

static jmp_buf back;
NOINLINE void grow_and_jump(struct array *a)
{
	for (uint64_t i = 1; i <= USED; i++)
		add(a, i);
	longjmp(back, 1);
}

NOINLINE void *produce(size_t n)
{
	return malloc(n); /* @produce */
}

NOINLINE void consume(void *p)
{
	free(p); /* @consume */
	keep(p);
}

static void *handed[200];
static void *consumer(void *unused)
{
	for (int i = 0; i < 200; i++)
		consume(handed[i]);
	return unused;
}

int main(int argc, char **argv)
{
	const char *which = argc > 1 ? argv[1] : "";
	pthread_t thread;
	if (!strcmp(which, "freed") || !strcmp(which, "kept") || !strcmp(which, "closed_freed") ||
	    !strcmp(which, "closed_kept") || !strcmp(which, "closed_most")) {
		kept = make();
		say_number("sum", sum(&kept));
		if (!strncmp(which, "closed", 6))
			protect(&kept, !strcmp(which, "closed_most"));
		if (strstr(which, "freed"))
			release(&kept);
	} else if (!strcmp(which, "thread_before")) { /* gone when the process ends */
		kept = make();
		must(!pthread_create(&thread, NULL, allocate_some, NULL), "thread");
		pthread_join(thread, NULL);
		say_number("sum", sum(&kept));
	} else if (!strcmp(which, "thread_at_exit")) {
		kept = make();
		pthread_barrier_init(&barrier, NULL, 2);
		must(!pthread_create(&thread, NULL, wait_for_end, NULL), "thread");
		pthread_barrier_wait(&barrier);
		say_number("sum", sum(&kept));
	} else if (!strcmp(which, "fork")) { /* the child frees its copy, the parent its own */
		kept = make();
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			say_number("child", sum(&kept));
			release(&kept);
			exit(4);
		}
		must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4, "child");
		release(&kept);
		say_number("parent", 1);
	} else if (!strcmp(which, "fork_reused")) {
		char *p = malloc(opaque(100));
		p = realloc(p, opaque(20000)); /* @before */
		int status;
		p[1000] = 1;
		pid_t pid = fork();
		if (pid == 0) {
			free(p);
			/* The same address again, grown, but too small to be looked at. */
			char *q = malloc(opaque(100));
			q = realloc(q, opaque(12000)); /* @after */
			must(q == p, "not the same address");
			q[11999] = 1;
			free(q);
			exit(4);
		}
		must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4, "child");
		free(p);
		say("reused\n");
	} else if (!strcmp(which, "fork_kept")) { /* both leave it to exit */
		kept = make();
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			say_number("child", sum(&kept));
			exit(5);
		}
		must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5, "child");
		say_number("parent", sum(&kept));
	} else if (!strcmp(which, "fork_grows")) { /* the child goes on with what it inherited */
		kept = make();
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			for (uint64_t i = 0; i < 5000; i++)
				add(&kept, 7);
			say_number("child", sum(&kept));
			release(&kept);
			exit(6);
		}
		must(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6, "child");
		release(&kept);
		say_number("parent", 1);
	} else if (!strcmp(which, "longjmp")) {
		if (!setjmp(back))
			grow_and_jump(&kept);
		say_number("sum", sum(&kept));
		release(&kept);
	} else if (!strcmp(which, "shrunk")) { /* to what is used: nothing is left over */
		kept = make();
		kept.items = realloc(kept.items, kept.count * sizeof *kept.items); /* @shrunk */
		say_number("sum", sum(&kept));
		release(&kept);
	} else if (!strcmp(which, "zeros")) { /* all zero: not known, so not measured */
		void *small = malloc(opaque(64));
		kept.items = realloc(small, opaque(1 << 20)); /* @zeros */
		memset(kept.items, 0, 1 << 20);
		say("zeros\n");
		release(&kept);
	} else if (!strcmp(which, "handed")) {
		for (int i = 0; i < 200; i++)
			handed[i] = produce(1000);
		must(!pthread_create(&thread, NULL, consumer, NULL), "thread");
		pthread_join(thread, NULL);
		say("handed\n");
	} else
		must(0, "which case?");
	return 3;
}
