/* Programs that lock themselves in.
 *
 * A program may install a filter that kills it for any system call but those it
 * needs itself (seccomp), or close the time stamp counter (PR_SET_TSC; strict seccomp
 * does that too). heft must not be what it is killed for. So the functions through
 * which a program does this are interposed, and heft knows what will be forbidden
 * before it is:
 *
 *   a filter     is run here (base/filter.h), for every call that heft may make. What it
 *                does not allow, heft does not call any more. Records, call stacks and
 *                known threads need no call; the rest gets worse or is left out
 *   the counter  nothing can be stamped: the recording of this process ends here
 *
 * libseccomp and most other libraries come through syscall(). A system call that the
 * program makes with an instruction of its own is not seen.
 *
 * Filter and counter are of one thread, and of those that it will start. heft obeys
 * them in the whole process. A forked child inherits what is forbidden with its memory.
 * A vfork child writes into its parent's memory, so what it has added is taken back
 * before it goes on to another program or ends. */
#include "base/filter.h"
#include "capture/inside.h"
#include "capture/map_calls.h"

#include <stdbool.h>
#include <sys/prctl.h>

_Atomic uint64_t sys_forbidden;
static _Atomic uint64_t added_by_child;
static _Atomic uint32_t has_filter; /* a filter was installed, or tried */

typedef unsigned long ulong_t;
static int (*next_prctl)(int, ulong_t, ulong_t, ulong_t, ulong_t);

/* Before libc's is known */
static long early_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	return heft_as_libc(sys_call6(n, a, b, c, d, e, f));
}
__attribute__((used)) heft_syscall_fn *heft_next_syscall = early_syscall;

void heft_sandbox_init(void)
{
	heft_syscall_fn *f = (heft_syscall_fn *)heft_next_symbol("syscall");
	if (f)
		heft_next_syscall = f;
	next_prctl = (__typeof__(next_prctl))heft_next_symbol("prctl");
}

/* ---- what a filter allows */

/* The calls that a filter does not allow. If nobody can say whether it may be read, none is allowed. One that
 * cannot be read will not be installed. */
static uint64_t forbidden_by(const struct sock_fprog *program)
{
	uintptr_t at = (uintptr_t)program;
	atomic_store_explicit(&has_filter, 1, memory_order_relaxed);
	if (!sys_may(SYS_DO_SIGPROCMASK))
		return SYS_ALL | SYS_DEADLY;
	if (at >> 47 || !heft_readable(at, at + sizeof *program))
		return 0;
	const uint32_t length = program->len;
	const struct sock_filter *filter = program->filter;
	at = (uintptr_t)filter;
	if (at >> 47 || !heft_readable(at, at + length * sizeof *filter))
		return 0;
	return filter_forbids_all(filter, length);
}

/* ---- before and after */

static uint64_t of_prctl(int option, ulong_t a, ulong_t b)
{
	if (option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT)
		return SYS_ALL | SYS_STAMP | SYS_DEADLY;
	if (option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER)
		return forbidden_by((const struct sock_fprog *)b);
	return option == PR_SET_TSC && a == PR_TSC_SIGSEGV ? SYS_STAMP : 0;
}

static uint64_t of_seccomp(ulong_t operation, ulong_t flags, ulong_t argument)
{
	if ((uint32_t)operation == SECCOMP_SET_MODE_STRICT && !flags && !argument)
		return SYS_ALL | SYS_STAMP | SYS_DEADLY;
	if ((uint32_t)operation == SECCOMP_SET_MODE_FILTER)
		return forbidden_by((const struct sock_fprog *)argument);
	return 0;
}

/* What heft did before the program's call, so that it can be undone. */
struct entering {
	uint64_t added;
	struct wire_header *stopped; /* its recording was ended */
	bool in_child;               /* of vfork */
};

static struct entering enter_sandbox(uint64_t mask)
{
	struct entering e = {0};
	struct wire_header *h = heft_own_header();
	struct heft_thread *t = heft_tls_now()->thread;
	int pid = sys_getpid();
	uint32_t on = WIRE_ON;
	e.in_child = h && pid > 0 && h->pid != pid;
	if (h && !e.in_child && mask & SYS_STAMP) {
		atomic_store(&h->off_reason, WIRE_OFF_SANDBOX);
		atomic_store(&h->off_tsc, arch_stamp());
		if (atomic_compare_exchange_strong(&h->state, &on, WIRE_OFF))
			e.stopped = h;
		if (t && t->is_open)
			t->limit = 0; /* the other threads see it when their chunks are full */
	}
	e.added = mask & ~atomic_fetch_or(&sys_forbidden, mask);
	return e;
}

static void after_entering(struct entering e, bool failed)
{
	if (!failed) {
		if (e.in_child)
			atomic_fetch_or(&added_by_child, e.added);
		return;
	}
	atomic_fetch_and(&sys_forbidden, ~e.added);
	if (e.stopped) {
		atomic_store(&e.stopped->off_tsc, 0);
		atomic_store(&e.stopped->off_reason, 0);
		atomic_store(&e.stopped->state, WIRE_ON);
	}
}

int heft_sandbox_has_filter(void)
{
	return atomic_load_explicit(&has_filter, memory_order_relaxed) != 0;
}

uint64_t heft_sandbox_leave(void)
{
	uint64_t added = atomic_exchange(&added_by_child, 0);
	if (added)
		atomic_fetch_and(&sys_forbidden, ~added);
	return added;
}

void heft_sandbox_return(uint64_t added)
{
	if (!added)
		return;
	atomic_fetch_or(&sys_forbidden, added);
	atomic_fetch_or(&added_by_child, added);
}

/* ---- the functions */

static int call_prctl(int option, ulong_t a, ulong_t b, ulong_t c, ulong_t d)
{
	if (LIKELY(next_prctl))
		return next_prctl(option, a, b, c, d);
	return (int)heft_as_libc(
		sys_call6(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0));
}

/* libc's header declares it with "...": a call passes what it has, and the rest is what the registers happen
 * to hold. */
EXPORT int heft_prctl(int option, ulong_t a, ulong_t b, ulong_t c, ulong_t d) __asm__("prctl");

EXPORT int heft_prctl(int option, ulong_t a, ulong_t b, ulong_t c, ulong_t d)
{
	uint64_t mask = of_prctl(option, a, b);
	if (!mask)
		return call_prctl(option, a, b, c, d);
	struct entering entering = enter_sandbox(mask);
	int rc = call_prctl(option, a, b, c, d);
	after_entering(entering, rc < 0);
	return rc;
}

/* syscall() jumps on, as if heft were not there: vfork must not return twice through a frame of ours, and what
 * would be its seventh argument is somebody's variable if there are fewer. */
__asm__(".text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	".cfi_startproc\n"
	"	cmpq $63, %rdi\n"
	"	ja 1f\n"
	"	movl $0x52001a00, %eax\n" /* the bits of calls that map memory: map_calls.c */
	"	btq %rdi, %rax\n"
	"	jc heft_syscall_that_maps\n"
	"1:	cmpq $317, %rdi\n" /* SYS_seccomp */
	"	je heft_syscall_to_look_at\n"
	"	cmpq $157, %rdi\n" /* SYS_prctl */
	"	je heft_syscall_to_look_at\n"
	"	jmp *heft_next_syscall(%rip)\n"
	".cfi_endproc\n"
	".size syscall, .-syscall\n");
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "as above");
_Static_assert((1 << SYS_mmap | 1 << SYS_munmap | 1 << SYS_brk | 1 << SYS_mremap |
		1 << SYS_madvise | 1 << SYS_shmat) == 0x52001a00,
	       "as above");

/* Both calls have five arguments at most. */
static __attribute__((used)) long heft_syscall_to_look_at(long n, long a, long b, long c, long d,
							  long e)
{
	uint64_t mask = n == SYS_seccomp ? of_seccomp((ulong_t)a, (ulong_t)b, (ulong_t)c)
					 : of_prctl((int)a, (ulong_t)b, (ulong_t)c);
	if (!mask)
		return heft_next_syscall(n, a, b, c, d, e, 0);
	struct entering entering = enter_sandbox(mask);
	long rc = heft_next_syscall(n, a, b, c, d, e, 0);
	after_entering(entering, rc < 0);
	return rc;
}
