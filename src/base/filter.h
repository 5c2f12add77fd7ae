/* What a filter for system calls (seccomp) makes of the calls that heft makes inside a
 * program (base/sys.h). The inside asks this before the program installs one, and heft
 * attach asks it about those that are there. */
#ifndef HEFT_BASE_FILTER_H
#define HEFT_BASE_FILTER_H

#include "base/sys.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>

/* Runs a filter as the kernel would. What the kernel would refuse to install kills here. */
static inline uint32_t filter_verdict(const struct sock_filter *f, uint32_t length,
				      const struct seccomp_data *d)
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
} filter_forms[] = {
	{SYS_DO_OPEN, {(uint32_t)-100, P, 02500302 /* RDWR, CREAT, EXCL, ... */, 0600}},
	{SYS_DO_OPEN, {(uint32_t)-100, P, 02000000 /* RDONLY | CLOEXEC */}},
	{SYS_DO_OPEN, {1000, P, 02500302, 0600}}, /* in a folder */
	{SYS_DO_LSTAT, {(uint32_t)-100, P, P, 0x4100}},
	{SYS_DO_UNLINK, {(uint32_t)-100, P}},
	{SYS_DO_RENAME, {(uint32_t)-100, P, (uint32_t)-100, P}},
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
static const uint16_t filter_numbers[] = {SYS_KINDS(NUMBER)};
#undef NUMBER

/* What the filter forbids of a call: nothing, the call, or that and SYS_DEADLY. */
static inline uint64_t filter_forbids(const struct sock_filter *f, uint32_t length, unsigned kind,
				      const uint64_t args[6])
{
	struct seccomp_data d = {
		.nr = filter_numbers[kind],
		.arch = AUDIT_ARCH_X86_64,
		.instruction_pointer = (uintptr_t)filter_forms,
	};
	for (unsigned i = 0; args && i < 6; i++)
		d.args[i] = args[i];
	uint32_t v = filter_verdict(f, length, &d) & SECCOMP_RET_ACTION_FULL;
	if (v == SECCOMP_RET_ALLOW || v == SECCOMP_RET_LOG)
		return 0;
	return 1ull << kind | (v == SECCOMP_RET_ERRNO ? 0 : SYS_DEADLY);
}

/* The kinds of calls that a filter does not allow, as bits, and SYS_DEADLY if one would not just fail. */
static inline uint64_t filter_forbids_all(const struct sock_filter *filter, uint32_t length)
{
	uint64_t mask = 0, with_arguments = 0;
	for (unsigned i = 0; i < sizeof filter_forms / sizeof *filter_forms; i++) {
		with_arguments |= 1ull << filter_forms[i].kind;
		mask |= filter_forbids(filter, length, filter_forms[i].kind, filter_forms[i].args);
	}
	for (unsigned kind = 0; kind < SYS_KIND_COUNT; kind++)
		if (!(with_arguments >> kind & 1))
			mask |= filter_forbids(filter, length, kind, NULL);
	return mask;
}

#endif
