/* A program in a sandbox, for heft attach. A filter kills its first thread for any system call but read, write, brk,
 * mmap, munmap and exit_group. Standard input has a command a line, each of which is answered by a line:
 *
 *   alloc N SIZE   N blocks, which it keeps
 *   deep N         a block at each of N depths of a recursion: as many call stacks
 *   thread N       the second thread, which has no filter, allocates N blocks of 10 bytes
 *
 * argv[1]: "kill" or "errno" (what the filter does), "unmapped" (it kills for mmap as well), "tsc" (closes the time stamp counter) or "none". */
#define _GNU_SOURCE
#include "program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                         \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static _Atomic size_t wanted;

static void lock_in(uint32_t otherwise, int maps)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_read),
		ALLOW(SYS_write),
		ALLOW(SYS_brk),
		ALLOW(maps ? SYS_mmap : SYS_brk),
		ALLOW(maps ? SYS_munmap : SYS_brk),
		ALLOW(SYS_exit_group),
		BPF_STMT(BPF_RET | BPF_K, otherwise),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
	must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

__attribute__((noinline)) static void make(size_t count, size_t size)
{
	for (; count; count--)
		keep(malloc(size)); /* @make */
}

__attribute__((noinline)) static int deep(size_t depth)
{
	keep(malloc(24)); /* @deep */
	return depth > 1 ? deep(depth - 1) + 1 : 0;
}

static void *second(void *arg)
{
	for (;;) {
		size_t count = atomic_exchange(&wanted, 0);
		make(count, 10);
		if (count)
			must(write(1, "ok\n", 3) == 3, "write");
		usleep(1000);
	}
	return arg;
}

/* Without stdio, which may ask for more than the filter allows. */
static int next_line(char *line, size_t size)
{
	size_t n = 0;
	while (n < size - 1 && read(0, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = 0;
	return n > 0;
}

int main(int argc, char **argv)
{
	static char line[100];
	pthread_t thread;
	const char *how = argc > 1 ? argv[1] : "none";
	if (!strcmp(how, "tsc"))
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	must(pthread_create(&thread, NULL, second, NULL) == 0, "thread");
	if (!strcmp(how, "kill"))
		lock_in(SECCOMP_RET_KILL_PROCESS, 1);
	else if (!strcmp(how, "errno"))
		lock_in(SECCOMP_RET_ERRNO | 1, 1);
	else if (!strcmp(how, "unmapped"))
		lock_in(SECCOMP_RET_KILL_PROCESS, 0);
	must(write(1, "ready\n", 6) == 6, "write");
	while (next_line(line, sizeof line)) {
		char *rest = strchr(line, ' ');
		size_t count = rest ? strtoul(rest, &rest, 10) : 0;
		if (!strncmp(line, "alloc", 5))
			make(count, strtoul(rest, NULL, 10));
		else if (!strncmp(line, "deep", 4))
			deep(count);
		else if (!strncmp(line, "thread", 6)) {
			wanted = count;
			continue; /* it answers */
		}
		must(write(1, "ok\n", 3) == 3, "write");
	}
	_exit(0);
}
