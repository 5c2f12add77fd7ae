/* Programs that lock themselves in.
 *
 * A program may install a filter that kills it for any system call but those it
 * needs itself (seccomp), or close the time stamp counter (PR_SET_TSC; strict seccomp
 * does that too). heft must not be what it is killed for. So the functions through
 * which a program does this are interposed, and heft knows what will be forbidden
 * before it is:
 *
 *   a filter     is run here, for every call that heft may make (base/sys.h). What it
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
#include "capture/inside.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>

_Atomic uint64_t sys_forbidden;
static _Atomic uint64_t added_by_child;

typedef unsigned long ulong_t;
static int (*next_prctl)(int, ulong_t, ulong_t, ulong_t, ulong_t);

/* Before libc's is known */
static long early_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	return heft_as_libc(sys_call6(n, a, b, c, d, e, f));
}
typedef long syscall_fn(long, long, long, long, long, long, long);
static __attribute__((used)) syscall_fn *heft_next_syscall = early_syscall;

void heft_sandbox_init(void)
{
	syscall_fn *f = (syscall_fn *)heft_next_symbol("syscall");
	if (f)
		heft_next_syscall = f;
	next_prctl = (__typeof__(next_prctl))heft_next_symbol("prctl");
}

/* ---- what a filter allows */

/* Runs a filter as the kernel would. What the kernel would refuse to install kills here. */
static uint32_t verdict(const struct sock_filter *f, uint32_t length, const struct seccomp_data *d)
{
	uint32_t a = 0, x = 0, m[BPF_MEMWORDS] = {0};
	for (uint32_t pc = 0; pc < length; pc++) {
		const uint32_t k = f[pc].k;
		const uint16_t code = f[pc].code;
		const uint32_t operand = BPF_SRC(code) == BPF_X ? x : k;
		switch (BPF_CLASS(code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t v = k;
			if (BPF_MODE(code) == BPF_ABS && k <= sizeof *d - 4 && !(k & 3))
				__builtin_memcpy(&v, (const char *)d + k, 4);
			else if (BPF_MODE(code) == BPF_LEN)
				v = sizeof *d;
			else if (BPF_MODE(code) == BPF_MEM && k < BPF_MEMWORDS)
				v = m[k];
			else if (BPF_MODE(code) != BPF_IMM)
				return SECCOMP_RET_KILL_PROCESS;
			*(BPF_CLASS(code) == BPF_LD ? &a : &x) = v;
			break;
		}
		case BPF_ST:
		case BPF_STX:
			if (k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			m[k] = BPF_CLASS(code) == BPF_ST ? a : x;
			break;
		case BPF_ALU:
			switch (BPF_OP(code)) {
			case BPF_ADD: a += operand; break;
			case BPF_SUB: a -= operand; break;
			case BPF_MUL: a *= operand; break;
			case BPF_DIV:
				if (!operand)
					return SECCOMP_RET_KILL_PROCESS;
				a /= operand;
				break;
			case BPF_AND: a &= operand; break;
			case BPF_OR: a |= operand; break;
			case BPF_XOR: a ^= operand; break;
			case BPF_LSH: a = operand < 32 ? a << operand : 0; break;
			case BPF_RSH: a = operand < 32 ? a >> operand : 0; break;
			case BPF_NEG: a = -a; break;
			default: return SECCOMP_RET_KILL_PROCESS;
			}
			break;
		case BPF_JMP: {
			bool is = false;
			switch (BPF_OP(code)) {
			case BPF_JA: pc += k < length ? k : length; continue;
			case BPF_JEQ: is = a == operand; break;
			case BPF_JGT: is = a > operand; break;
			case BPF_JGE: is = a >= operand; break;
			case BPF_JSET: is = a & operand; break;
			default: return SECCOMP_RET_KILL_PROCESS;
			}
			pc += is ? f[pc].jt : f[pc].jf;
			break;
		}
		case BPF_MISC:
			if (BPF_MISCOP(code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		case BPF_RET: return BPF_RVAL(code) == BPF_A ? a : k;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* What heft asks of the kernel, as a filter sees it: filters look at arguments too. A kind that is not here
 * has no arguments that matter. "P": some address. */
#define P 0x7ffff7000000ull
static const struct {
	uint8_t kind;
	uint64_t args[6];
} forms[] = {
	{SYS_DO_OPEN, {(uint32_t)-100, P, 02500302 /* RDWR, CREAT, EXCL, ... */, 0600}},
	{SYS_DO_OPEN, {(uint32_t)-100, P, 02000000 /* RDONLY | CLOEXEC */}},
	{SYS_DO_LSTAT, {(uint32_t)-100, P, P, 0x100}},
	{SYS_DO_MMAP, {0, 4096, 3, 0x4022 /* anonymous */, ~0ull}},
	{SYS_DO_MMAP, {0, 4096, 3, 0x4001 /* shared */, 3}},
	{SYS_DO_MMAP, {P, 4096, 1, 0x11 /* shared, fixed */, 3}},
	{SYS_DO_MREMAP, {P, 4096, 4096, 3, P}},
	{SYS_DO_MPROTECT, {P, 4096, 3}},
	{SYS_DO_MADVISE, {P, 4096, 23 /* POPULATE_WRITE */}},
	{SYS_DO_MADVISE, {P, 4096, 14 /* HUGEPAGE */}},
	{SYS_DO_MADVISE, {P, 4096, 18 /* WIPEONFORK */}},
	{SYS_DO_PRLIMIT, {0, 1 /* FSIZE */, 0, P}},
	{SYS_DO_PRLIMIT, {0, 9 /* AS */, 0, P}},
	{SYS_DO_GETRUSAGE, {0, P}},
	{SYS_DO_FUTEX, {P, 0 /* WAIT */, 0, P}},
	{SYS_DO_FUTEX, {P, 1 /* WAKE */, 1}},
	{SYS_DO_CLOCK, {0, P}},
	{SYS_DO_CLOCK, {1, P}},
	{SYS_DO_SIGALTSTACK, {0, P}},
	{SYS_DO_PRCTL, {PR_GET_NAME, P}},
	{SYS_DO_MEMBARRIER, {1 << 2}},
	{SYS_DO_SIGPROCMASK, {~0ull, P, 0, 8}},
};
#undef P

#define NUMBER(name, number) (number),
static const uint16_t numbers[] = {SYS_KINDS(NUMBER)};
#undef NUMBER

/* What the filter forbids of a call: nothing, the call, or that and SYS_DEADLY. */
static uint64_t forbids(const struct sock_filter *f, uint32_t length, unsigned kind,
			const uint64_t args[6])
{
	struct seccomp_data d = {
		.nr = numbers[kind],
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = (uintptr_t)forbids,
	};
	for (unsigned i = 0; args && i < 6; i++)
		d.args[i] = args[i];
	uint32_t v = verdict(f, length, &d) & SECCOMP_RET_ACTION_FULL;
	if (v == SECCOMP_RET_ALLOW || v == SECCOMP_RET_LOG)
		return 0;
	return 1ull << kind | (v == SECCOMP_RET_ERRNO ? 0 : SYS_DEADLY);
}

/* The calls that a filter does not allow. If nobody can say whether it may be read, none is allowed. One that
 * cannot be read will not be installed. */
static uint64_t forbidden_by(const struct sock_fprog *program)
{
	uintptr_t at = (uintptr_t)program;
	if (!sys_may(SYS_DO_SIGPROCMASK))
		return SYS_ALL | SYS_DEADLY;
	if (at >> 47 || !heft_readable(at, at + sizeof *program))
		return 0;
	const uint32_t length = program->len;
	const struct sock_filter *filter = program->filter;
	at = (uintptr_t)filter;
	if (at >> 47 || !heft_readable(at, at + length * sizeof *filter))
		return 0;
	uint64_t mask = 0, with_arguments = 0;
	for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
		with_arguments |= 1ull << forms[i].kind;
		mask |= forbids(filter, length, forms[i].kind, forms[i].args);
	}
	for (unsigned kind = 0; kind < SYS_KIND_COUNT; kind++)
		if (!(with_arguments >> kind & 1))
			mask |= forbids(filter, length, kind, NULL);
	return mask;
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
	"	cmpq $317, %rdi\n" /* SYS_seccomp */
	"	je heft_syscall_to_look_at\n"
	"	cmpq $157, %rdi\n" /* SYS_prctl */
	"	je heft_syscall_to_look_at\n"
	"	jmp *heft_next_syscall(%rip)\n"
	".cfi_endproc\n"
	".size syscall, .-syscall\n");
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "as above");

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
