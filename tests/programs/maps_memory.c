/* Maps memory in all ways, with sizes that the test knows. The first argument says which part; what is printed must be
 * the same without heft. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
enum {
	KIB = 1024,
	MIB = 1 << 20,
	ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS,
	BOTH = PROT_READ | PROT_WRITE
};

static void *must(void *p)
{
	if (p == MAP_FAILED)
		abort();
	return p;
}

NOINLINE static char *make_large(void)
{
	char *p = must(mmap(NULL, 4 * MIB, BOTH, ANONYMOUS, -1, 0));
	memset(p, 1, MIB);
	return p;
}
NOINLINE static char *make_odd(void)
{
	char *p = must(mmap64(NULL, 5000, BOTH, ANONYMOUS, -1, 0));
	p[4999] = 1;
	return p;
}
NOINLINE static char *make_by_number(void)
{
	char *p = (char *)syscall(SYS_mmap, NULL, 64 * KIB, BOTH, ANONYMOUS, -1, 0);
	p[0] = 1;
	return p;
}
NOINLINE static void unmap_middle(char *p)
{
	if (munmap(p + MIB, 8 * KIB))
		abort();
}
NOINLINE static char *grow(char *p)
{
	p = must(mremap(p, 8 * KIB, 2 * MIB, MREMAP_MAYMOVE));
	printf("moved contents %d\n", p[4999]);
	return p;
}
NOINLINE static void move_to(char *from, char *to)
{
	char *p = mremap(from, 64 * KIB, 64 * KIB, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	printf("moved to the place %d, contents %d\n", p == to, p[0]);
}
NOINLINE static void advise(char *p)
{
	if (madvise(p, 16 * KIB, MADV_DONTNEED))
		abort();
	printf("after DONTNEED %d\n", p[0]);
}
NOINLINE static void move_break(void)
{
	char *was = sbrk(0);
	printf("sbrk %d", sbrk(256 * KIB) == was);
	was[256 * KIB - 1] = 1;
	printf(" %d", sbrk(0) == was + 256 * KIB);
	printf(" brk %d", brk(was + 64 * KIB));
	printf(" %d", sbrk(0) == was + 64 * KIB);
	printf(" %d\n", sbrk(-64 * KIB) == was + 64 * KIB);
}
NOINLINE static void attach_shared(void)
{
	int id = shmget(IPC_PRIVATE, 100 * 1000, 0600);
	char *p = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	p[0] = 1;
	printf("shmdt %d", shmdt(p));
	errno = 0;
	int rc = shmdt(p);
	printf(" again %d %d\n", rc, errno == EINVAL);
}

/* What fails is no event, and says the same as ever. */
NOINLINE static void fail_all(void)
{
	errno = 0;
	void *p = mmap(NULL, 0, BOTH, ANONYMOUS, -1, 0);
	printf("mmap %d %d", p == MAP_FAILED, errno == EINVAL);
	errno = 0;
	p = mmap(NULL, 4 * KIB, PROT_READ, MAP_PRIVATE, -1, 0);
	printf(" file %d %d", p == MAP_FAILED, errno == EBADF);
	errno = 0;
	p = mmap(NULL, 4 * KIB, PROT_READ, ANONYMOUS, -1, 100);
	printf(" offset %d %d", p == MAP_FAILED, errno == EINVAL);
	errno = 0;
	int rc = munmap((void *)1, 4 * KIB);
	printf(" munmap %d %d", rc, errno == EINVAL);
	errno = 0;
	p = mremap((void *)(4 * KIB), 4 * KIB, 8 * KIB, 0);
	printf(" mremap %d %d", p == MAP_FAILED, errno == EFAULT);
	errno = 0;
	rc = madvise((void *)1, 4 * KIB, MADV_DONTNEED);
	printf(" madvise %d %d", rc, errno == EINVAL);
	errno = 0;
	rc = brk((void *)-4096L);
	printf(" brk %d %d", rc, errno == ENOMEM);
	printf(" %d", brk((void *)1)); /* libc says yes, and the break stays */
	errno = 0;
	p = sbrk(INTPTR_MAX);
	printf(" sbrk %d %d", p == (void *)-1, errno == ENOMEM);
	errno = 0;
	p = shmat(-1, NULL, 0);
	printf(" shmat %d %d", p == (void *)-1, errno == EINVAL);
	errno = 0;
	long made = syscall(SYS_mmap, NULL, 0, BOTH, ANONYMOUS, -1, 0);
	printf(" number %ld %d\n", made, errno == EINVAL);
	/* errno of a call that succeeds is left alone. */
	errno = 77;
	p = mmap(NULL, 4 * KIB, BOTH, ANONYMOUS, -1, 0);
	munmap(p, 4 * KIB);
	printf("errno %d\n", errno);
}

static int plain(void)
{
	char *large = make_large(), *odd = make_odd(), *numbered = make_by_number();
	unmap_middle(large);
	odd = grow(odd);
	advise(large);
	move_to(numbered, large + 2 * MIB);
	move_break();
	attach_shared();
	fail_all();
	free(malloc(MIB)); /* glibc maps it */
	return 0;
}

/* ---- threads, a child, a signal handler, churn */

NOINLINE static void *in_thread(void *bytes)
{
	return must(mmap(NULL, (size_t)bytes, BOTH, ANONYMOUS, -1, 0));
}

static int threads(void)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, in_thread, (void *)((i + 1) * (size_t)MIB));
	for (int i = 0; i < 4; i++) {
		void *p;
		pthread_join(t[i], &p);
		if (i == 0)
			munmap(p, MIB);
	}
	return 0;
}

NOINLINE static void map_in_child(void)
{
	must(mmap(NULL, 3 * MIB, BOTH, ANONYMOUS, -1, 0));
}

static int child(void)
{
	char *p = make_large();
	pid_t pid = fork();
	if (!pid) {
		munmap(p, 4 * MIB); /* its parent's */
		map_in_child();
		exit(0);
	}
	waitpid(pid, NULL, 0);
	printf("%d\n", p[0]);
	return 0;
}

static volatile int handled;
NOINLINE static void on_signal(int number)
{
	(void)number;
	void *p = mmap(NULL, 8 * KIB, BOTH, ANONYMOUS, -1, 0);
	munmap(p, 8 * KIB);
	handled++;
}

/* Signals come at any instruction: of malloc's hook, of the real malloc, of the program. */
static int signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	const struct itimerspec often = {{0, 200000}, {0, 200000}};
	timer_t timer;
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	sigaction(SIGUSR1, &action, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &often, NULL);
	while (handled < 300) {
		void *p[64];
		for (int i = 0; i < 64; i++)
			p[i] = malloc((size_t)(i * 40 + 1));
		for (int i = 0; i < 64; i++)
			free(p[i]);
	}
	timer_delete(timer);
	puts("done");
	return 0;
}

NOINLINE static void churn_once(void)
{
	void *p = mmap(NULL, 16 * KIB, BOTH, ANONYMOUS, -1, 0);
	munmap(p, 16 * KIB);
}

static int churn(void)
{
	void *kept = make_large();
	for (int i = 0; i < 200000; i++)
		churn_once();
	printf("%d\n", kept != NULL);
	return 0;
}

/* malloc in any allocator, with blocks large enough that it maps memory inside of malloc */
NOINLINE static void *allocate(size_t bytes)
{
	char *p = malloc(bytes);
	memset(p, 1, bytes);
	return p;
}

static int allocator(void)
{
	for (int i = 0; i < 40; i++)
		allocate(MIB);
	puts("done");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} parts[] = {{"plain", plain},     {"threads", threads}, {"child", child},
		     {"signals", signals}, {"churn", churn},     {"allocator", allocator}};
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (argc > 1 && strcmp(argv[1], parts[i].name) == 0)
			return parts[i].run();
	return 2;
}
