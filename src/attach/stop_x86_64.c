/* What the stop module does differently on each architecture: registers, the instruction that enters the
 * kernel, the trap, the frame of a signal. This is x86-64.
 *
 * A thread that stopped in a system call has orig_rax >= 0 and the call's result in rax. Results from -512
 * to -516 are the kernel's own: restart the call, unless a handler runs first. Other calls say EINTR
 * although nothing but our stop was there. For those that are safe to repeat (stop_restart.c) EINTR becomes
 * -ERESTARTNOHAND: the kernel makes the call again if no handler runs, and gives EINTR if one does. The
 * kernel does either only on its way out of a stop for a signal or of PTRACE_EVENT_STOP. */
#include "attach/stop_held.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "another architecture needs a file like this one"
#endif

#define ERESTARTSYS 512
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516
#define USER_CS 0x33

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

const uint8_t arch_trap[ARCH_TRAP_BYTES] = {0xcc};
static const uint8_t enter_kernel[] = {0x0f, 0x05};

static bool set_register(pid_t tid, size_t offset, uint64_t value)
{
	return !ptrace(PTRACE_POKEUSER, tid, offset, value);
}
#define SET_REGISTER(tid, name, value)                                                             \
	set_register(tid, offsetof(struct user_regs_struct, name), value)

static void see_to_restart(struct stop *s, struct held *h, struct user_regs_struct *r)
{
	if ((h->event != PTRACE_EVENT_STOP && !h->signal) || (int64_t)r->orig_rax < 0)
		return;
	int64_t result = (int64_t)r->rax;
	const uint64_t args[6] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
	/* A sandbox that does not know the call that continues a wait kills the program for it. The
	 * first call again is what it knows. */
	bool again = result == -ERESTART_RESTARTBLOCK && s->has_filter &&
		     r->orig_rax != SYS_restart_syscall;
	if (result == -EINTR)
		again = restart_is_safe(s, h->tid, (long)r->orig_rax, args);
	if (again && SET_REGISTER(h->tid, rax, (uint64_t)-ERESTARTNOHAND))
		r->rax = (uint64_t)-ERESTARTNOHAND;
}

void arch_read(struct stop *s, struct held *h)
{
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, h->tid, NULL, &r)) {
		h->pc = h->sp = h->thread_pointer = 0;
		return;
	}
	see_to_restart(s, h, &r);
	h->pc = r.rip;
	h->sp = r.rsp;
	h->thread_pointer = r.fs_base;
}

size_t stop_registers(struct stop *s, pid_t tid, uint64_t *words, size_t most)
{
	struct user_regs_struct r;
	struct held *h = held_find(s, tid);
	if (!h || h->state != HELD_STOPPED || ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return 0;
	size_t count = sizeof r / sizeof *words;
	count = count < most ? count : most;
	memcpy(words, &r, count * sizeof *words);
	return count;
}

void arch_set_pc(struct held *h, uint64_t pc)
{
	if (SET_REGISTER(h->tid, rip, pc))
		h->pc = pc;
}

/* A thread that runs into a trap after it was told to stop stops first, and has the signal still before
 * it. */
static bool trap_is_pending(const struct held *h)
{
	siginfo_t info[8];
	struct __ptrace_peeksiginfo_args which = {.nr = 8};
	long count = ptrace(PTRACE_PEEKSIGINFO, h->tid, &which, info);
	for (long i = 0; i < count; i++)
		if (info[i].si_signo == SIGTRAP && info[i].si_code == SI_KERNEL)
			return true;
	return false;
}

uint64_t arch_trapped_at(struct stop *s, struct held *h)
{
	siginfo_t info;
	if (h->event == PTRACE_EVENT_STOP && trap_is_pending(h)) {
		/* Its signal is the next thing it meets: no instruction is before it. */
		h->state = HELD_RUNS;
		ptrace(PTRACE_CONT, h->tid, NULL, NULL);
		held_wait(s, h);
	}
	if (h->state != HELD_STOPPED || h->signal != SIGTRAP ||
	    ptrace(PTRACE_GETSIGINFO, h->tid, NULL, &info) || info.si_code != SI_KERNEL)
		return 0;
	return h->pc - ARCH_TRAP_BYTES;
}

/* A thread that is inside a restartable sequence (rseq) starts it over when it was interrupted. The kernel
 * sees to that by the pc, which is elsewhere while the thread is borrowed: so we do it. */
static void see_to_sequence(struct stop *s, struct held *h)
{
	struct __ptrace_rseq_configuration config;
	struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} section;
	uint64_t at = 0;
	size_t got;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, h->tid, sizeof config, &config) <= 0 ||
	    !config.rseq_abi_pointer)
		return;
	stop_read_some(s, config.rseq_abi_pointer + 8, &at, sizeof at, &got);
	if (got != sizeof at || !at)
		return;
	stop_read_some(s, at, &section, sizeof section, &got);
	if (got == sizeof section && s->registers.rip - section.start < section.length)
		s->registers.rip = section.abort;
}

int arch_keep(struct stop *s, struct held *h, struct heft_error *err)
{
	if (ptrace(PTRACE_GETREGS, h->tid, NULL, &s->registers))
		return heft_fail(err, HEFT_EBUSY, "thread %d of process %d ends", h->tid, s->pid);
	if (s->registers.cs != USER_CS)
		return heft_fail(
			err, HEFT_EREFUSED,
			"thread %d of process %d runs 32-bit code: heft knows 64-bit code only",
			h->tid, s->pid);
	struct {
		uint64_t mode, selector, offset, length;
	} dispatch = {0};
	if (!ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, h->tid, sizeof dispatch, &dispatch) &&
	    dispatch.mode)
		return heft_fail(
			err, HEFT_EREFUSED,
			"process %d handles its own system calls (syscall user dispatch), so "
			"that heft cannot make any in it",
			s->pid);
	see_to_sequence(s, h);
	return 0;
}

bool arch_restore(struct stop *s, struct held *h)
{
	if (ptrace(PTRACE_SETREGS, h->tid, NULL, &s->registers))
		return false;
	h->pc = s->registers.rip;
	return true;
}

bool arch_keep_vectors(const struct held *h, struct iovec *state)
{
	return !ptrace(PTRACE_GETREGSET, h->tid, NT_X86_XSTATE, state);
}

bool arch_restore_vectors(const struct held *h, struct iovec *state)
{
	return !ptrace(PTRACE_SETREGSET, h->tid, NT_X86_XSTATE, state);
}

/* Any two bytes 0f 05 will do, even in the middle of another instruction: only they are run. */
static bool find_in(struct stop *s, uint64_t from, uint64_t to)
{
	size_t got;
	for (; from < to; from += STACK_CHUNK - 1) {
		size_t bytes = to - from < STACK_CHUNK ? to - from : STACK_CHUNK;
		s->ended |= !stop_read_some(s, from, s->stack, bytes, &got);
		const uint8_t *found = memmem(s->stack, got, enter_kernel, sizeof enter_kernel);
		if (found) {
			s->enter = from + (uint64_t)(found - s->stack);
			return true;
		}
		if (got < bytes)
			break;
	}
	return false;
}

int arch_find_enter(struct stop *s, struct heft_error *err)
{
	char path[64], line[512];
	uint64_t from, to;
	snprintf(path, sizeof path, "/proc/%d/task/%d/maps", s->pid, stop_live_task(s));
	/* The vDSO cannot be unmapped by a dlclose; what else is executable comes second. */
	for (int vdso = 1; vdso >= 0; vdso--) {
		FILE *maps = fopen(path, "re");
		bool found = false;
		while (maps && !found && fgets(line, sizeof line, maps)) {
			if (!vdso == !strstr(line, " [vdso]") ||
			    sscanf(line, "%lx-%lx r-x", &from, &to) != 2 || !strstr(line, " r-x"))
				continue;
			found = find_in(s, from, to);
		}
		if (maps)
			fclose(maps);
		if (found)
			return 0;
	}
	if (s->ended || stop_ends(s))
		return stop_ended(s, err);
	return heft_fail(err, HEFT_EBUSY,
			 "process %d has no instruction in its memory that makes a system call: it "
			 "begins another program just now, or ends",
			 s->pid);
}

/* The memory that was opened is gone when the process has begun another program. So the memory and the
 * thread must both have the instruction where it was. */
bool arch_can_enter(struct stop *s, const struct held *h)
{
	uint8_t bytes[sizeof enter_kernel];
	size_t got;
	errno = 0;
	long word = ptrace(PTRACE_PEEKTEXT, h->tid, s->enter, NULL);
	stop_read_some(s, s->enter, bytes, sizeof bytes, &got);
	return !errno && got == sizeof bytes && !memcmp(bytes, enter_kernel, sizeof bytes) &&
	       !memcmp(&word, enter_kernel, sizeof enter_kernel);
}

bool arch_set_call(struct stop *s, struct held *h, long number, const uint64_t args[6])
{
	struct user_regs_struct r = s->registers;
	r.rip = s->frame.at ? s->frame.call_return : s->enter;
	r.rsp = s->frame.at ? s->frame.at : r.rsp;
	r.rax = (uint64_t)number;
	r.orig_rax = (uint64_t)-1; /* no call to restart */
	r.rdi = args[0];
	r.rsi = args[1];
	r.rdx = args[2];
	r.r10 = args[3];
	r.r8 = args[4];
	r.r9 = args[5];
	r.eflags &= ~0x500ull; /* neither single steps nor a reversed direction */
	return !ptrace(PTRACE_SETREGS, h->tid, NULL, &r);
}

bool arch_set_function(struct stop *s, struct held *h, uint64_t function, uint64_t stack,
		       uint64_t thread_pointer)
{
	struct user_regs_struct r = s->registers;
	r.rip = function;
	r.rsp = stack;
	r.fs_base = thread_pointer ? thread_pointer : r.fs_base;
	r.orig_rax = (uint64_t)-1;
	r.eflags &= ~0x500ull;
	return !ptrace(PTRACE_SETREGS, h->tid, NULL, &r);
}

bool arch_result(struct held *h, int64_t *result, bool *repeat)
{
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, h->tid, NULL, &r))
		return false;
	*result = (int64_t)r.rax;
	*repeat = *result <= -ERESTARTSYS && *result >= -ERESTART_RESTARTBLOCK;
	return true;
}

bool arch_function_result(const struct held *h, int64_t *result)
{
	struct user_regs_struct r;
	if (ptrace(PTRACE_GETREGS, h->tid, NULL, &r))
		return false;
	*result = (int64_t)r.rbx;
	return true;
}

/* struct sigcontext: ..., ip, flags, then cs, gs, fs and ss with 16 bits each. */
bool arch_is_signal_frame(const uint64_t words[3])
{
	return (words[1] & 2) && !(words[1] >> 22) && (words[2] & 0xffff) == USER_CS;
}
