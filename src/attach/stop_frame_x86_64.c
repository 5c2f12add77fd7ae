/* If heft is killed while a thread is borrowed, the kernel lets the thread go on with the registers that heft gave
 * it, and the program would crash. So the thread gets its own registers back without us: its stack holds the
 * frame of a signal handler, with its registers, its mask and its vector registers as they were. The borrowed
 * thread makes its calls with an instruction after which it returns, to the code that ends signal handlers
 * (rt_sigreturn), which takes everything from the frame. As long as heft lives, the thread never gets there.
 *
 * The frame lies below the red zone, where the kernel would put it for a handler. It is only made where that is
 * surely a stack with room: from there up to the thread's own block, or to the arguments, no page is missing
 * (a stack of a coroutine, or of a goroutine, is elsewhere). And only if the code for it is there: any libc has
 * it. Where it cannot be made, a kill in this instant remains fatal for the program.
 *
 * A function that heft lets the thread call has a stack of heft's own, and the frame stands at its upper end. The
 * function returns to a few instructions that send a signal to their own thread and then end the handler. The
 * signal is one that the program ignores: without heft nothing comes of it, but the kernel shows it to who
 * traces, and so heft knows that the function has returned.
 *
 * A call that was interrupted is made again from its beginning then; one that waits for a time waits anew. One
 * that was already made again says EINTR. */
#include "attach/stop_held.h"

#include <asm/sigcontext.h>
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PAGE 4096ull
#define RED_ZONE 128
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516
#define TILE_DATA (1ull << 18) /* its size depends on what the thread has asked for */
#define NT_X86_SHSTK 0x204
enum {
	STACK_PAGES = 256,      /* between the frame and the top of the stack, at most */
	STATE_MOST = 8192,      /* of vector registers */
	SEARCH_MOST = 64 << 20, /* bytes of code */
};

/* As the kernel writes it: struct rt_sigframe, up to its siginfo */
struct signal_frame {
	uint64_t return_to;
	uint64_t flags, link;
	uint64_t stack_sp, stack_flags, stack_size;
	struct sigcontext_64 context;
	uint64_t mask;
};

static const uint8_t call_and_return[] = {0x0f, 0x05, 0xc3};
static const uint8_t end_handler[][9] = {
	{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, /* mov $15, %rax; syscall */
	{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05},             /* mov $15, %eax; syscall */
};
static const size_t end_handler_bytes[] = {9, 7};

static uint64_t find(const uint8_t *code, size_t bytes, uint64_t at, const uint8_t *what,
		     size_t length)
{
	const uint8_t *found = memmem(code, bytes, what, length);
	return found ? at + (uint64_t)(found - code) : 0;
}

static void search(struct stop *s, uint64_t from, uint64_t to)
{
	const size_t overlap = sizeof end_handler[0] - 1;
	for (; from + overlap < to; from += STACK_CHUNK - overlap) {
		size_t got, bytes = to - from < STACK_CHUNK ? to - from : STACK_CHUNK;
		stop_read_some(s, from, s->stack, bytes, &got);
		if (!s->frame.call_return)
			s->frame.call_return = find(s->stack, got, from, call_and_return,
						    sizeof call_and_return);
		for (size_t i = 0; i < 2 && !s->frame.end_handler; i++)
			s->frame.end_handler = find(s->stack, got, from, end_handler[i],
						    end_handler_bytes[i]);
		if (got < bytes || (s->frame.call_return && s->frame.end_handler))
			return;
	}
}

static bool is_of_libc(const char *line)
{
	return strstr(line, "/libc.") || strstr(line, "/libc-") || strstr(line, "/ld-musl");
}

static void search_files(struct stop *s, FILE *maps, bool libc)
{
	char line[512];
	uint64_t from, to, searched = 0;
	while (searched < SEARCH_MOST && !(s->frame.call_return && s->frame.end_handler) &&
	       fgets(line, sizeof line, maps)) {
		/* Code from files only: what a program makes at run time it may take back. */
		if (sscanf(line, "%lx-%lx", &from, &to) != 2 || !strstr(line, " r-x") ||
		    !strchr(line, '/') || is_of_libc(line) != libc)
			continue;
		search(s, from, to);
		searched += to - from;
	}
}

/* libc comes first: it has both, and the program before it may have 50 MiB of code. */
void frame_find_code(struct stop *s)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task/%d/maps", s->pid, stop_live_task(s));
	FILE *maps = fopen(path, "re");
	if (!maps)
		return;
	search_files(s, maps, true);
	rewind(maps);
	search_files(s, maps, false);
	fclose(maps);
}

static bool has_bytes(struct stop *s, uint64_t at, const uint8_t *bytes, size_t count)
{
	uint8_t now[16];
	size_t got;
	return stop_read_some(s, at, now, count, &got) && got == count &&
	       !memcmp(now, bytes, count);
}

static bool code_is_there(struct stop *s)
{
	return s->frame.call_return && s->frame.end_handler &&
	       has_bytes(s, s->frame.call_return, call_and_return, sizeof call_and_return) &&
	       (has_bytes(s, s->frame.end_handler, end_handler[0], end_handler_bytes[0]) ||
		has_bytes(s, s->frame.end_handler, end_handler[1], end_handler_bytes[1]));
}

/* Whether every page from `low` up to the top of the stack is there: then it is one stack. */
static bool is_one_stack(const struct stop *s, const struct held *h, uint64_t low)
{
	static const uint64_t most = STACK_PAGES * PAGE;
	uint64_t sp = s->registers.rsp, tp = s->registers.fs_base, top = 0;
	if (tp > sp && tp - low < most)
		top = tp;
	else if (h->tid == s->pid && s->first_stack > sp && s->first_stack - low < most)
		top = s->first_stack;
	if (!top)
		return false;
	struct iovec pages[STACK_PAGES + 2];
	uint8_t bytes[STACK_PAGES + 2];
	size_t count = 0;
	for (uint64_t page = low & ~(PAGE - 1); page < top; page += PAGE)
		pages[count++] = (struct iovec){(void *)page, 1};
	struct iovec to = {bytes, count};
	return process_vm_readv(h->tid, &to, 1, pages, count, 0) == (ssize_t)count;
}

/* The vector registers as they stand in a signal frame. Returns their size with the mark behind them; 0:
 * not possible. */
static size_t read_state(const struct held *h, uint8_t state[STATE_MOST])
{
	struct iovec to = {state, STATE_MOST};
	if (ptrace(PTRACE_GETREGSET, h->tid, NT_X86_XSTATE, &to) || to.iov_len <= 576)
		return 0;
	uint64_t features, used;
	memcpy(&features, state + 464, sizeof features);
	memcpy(&used, state + 512, sizeof used);
	if (used & TILE_DATA)
		return 0;
	features &= ~TILE_DATA;
	size_t size = 576;
	for (unsigned i = 2; i < 63; i++) {
		unsigned bytes, offset, c, d;
		if (!(features >> i & 1))
			continue;
		__cpuid_count(0xd, i, bytes, offset, c, d);
		if (offset + bytes > size)
			size = offset + bytes;
	}
	if (size > to.iov_len || size + FP_XSTATE_MAGIC2_SIZE > STATE_MOST)
		return 0;
	const struct _fpx_sw_bytes mark = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = (uint32_t)(size + FP_XSTATE_MAGIC2_SIZE),
		.xfeatures = features,
		.xstate_size = (uint32_t)size,
	};
	const uint32_t magic2 = FP_XSTATE_MAGIC2;
	memcpy(state + 464, &mark, sizeof mark);
	memcpy(state + size, &magic2, sizeof magic2);
	return size + sizeof magic2;
}

static bool has_shadow_stack(const struct held *h)
{
	uint64_t pointer = 0;
	struct iovec to = {&pointer, sizeof pointer};
	return !ptrace(PTRACE_GETREGSET, h->tid, NT_X86_SHSTK, &to) && pointer;
}

static void fill(const struct stop *s, struct signal_frame *f, uint64_t return_to,
		 uint64_t state_at)
{
	const struct user_regs_struct *r = &s->registers;
	int64_t result = (int64_t)r->rax;
	bool interrupted = (int64_t)r->orig_rax >= 0 && result <= -ERESTARTSYS &&
			   result >= -ERESTART_RESTARTBLOCK;
	bool again = interrupted && r->orig_rax != SYS_restart_syscall;
	*f = (struct signal_frame){
		.return_to = return_to,
		.flags = 7, /* vector registers and ss are there, and ss is taken as it is */
		.stack_flags = ~0ull, /* invalid: the alternate stack stays as it is */
		.mask = s->mask,
	};
	f->context = (struct sigcontext_64){
		.r8 = r->r8,
		.r9 = r->r9,
		.r10 = r->r10,
		.r11 = r->r11,
		.r12 = r->r12,
		.r13 = r->r13,
		.r14 = r->r14,
		.r15 = r->r15,
		.di = r->rdi,
		.si = r->rsi,
		.bp = r->rbp,
		.bx = r->rbx,
		.dx = r->rdx,
		.cx = r->rcx,
		.sp = r->rsp,
		.ax = again         ? r->orig_rax
		      : interrupted ? (uint64_t)-EINTR
				    : r->rax,
		.ip = again ? r->rip - 2 : r->rip,
		.flags = r->eflags,
		.cs = (uint16_t)r->cs,
		.ss = (uint16_t)r->ss,
		.fpstate = state_at,
	};
}

/* Another frame comes first if the thread is to give up its priority. Its end makes that call, after which the thread comes
 * to the frame at `next`. */
struct calming_frame {
	struct signal_frame frame;
	uint64_t parameter; /* of the call: struct sched_param, 0 */
};

static void fill_calming(const struct stop *s, struct calming_frame *c, uint64_t next,
			 uint64_t parameter_at)
{
	*c = (struct calming_frame){0};
	fill(s, &c->frame, s->frame.end_handler, 0);
	c->frame.mask = ~0ull;
	c->frame.context.ip = s->frame.call_return;
	c->frame.context.sp = next;
	c->frame.context.flags &= ~0x500ull; /* as in arch_set_call */
	c->frame.context.ax = SYS_sched_setscheduler;
	c->frame.context.di = 0; /* itself */
	c->frame.context.si = (unsigned)s->hurry.policy;
	c->frame.context.dx = parameter_at;
}

void frame_make(struct stop *s, struct held *h)
{
	uint8_t state[STATE_MOST];
	struct signal_frame frame;
	struct calming_frame calming;
	s->frame.at = 0;
	size_t bytes = code_is_there(s) && !has_shadow_stack(h) ? read_state(h, state) : 0;
	if (!bytes)
		return;
	uint64_t state_at = (s->registers.rsp - RED_ZONE - bytes) & ~63ull;
	uint64_t at = (state_at - sizeof frame) & ~15ull, first_at = at;
	if (s->hurry.policy >= 0)
		first_at = (at - sizeof calming) & ~15ull;
	if (!is_one_stack(s, h, first_at))
		return;
	fill(s, &frame, s->frame.end_handler, state_at);
	fill_calming(s, &calming, at, first_at + offsetof(struct calming_frame, parameter));
	const size_t first_bytes = first_at < at ? sizeof calming : 0;
	struct iovec from[] = {{&calming, first_bytes}, {&frame, sizeof frame}, {state, bytes}};
	struct iovec to[] = {{(void *)first_at, first_bytes},
			     {(void *)at, sizeof frame},
			     {(void *)state_at, bytes}};
	if (process_vm_writev(h->tid, from, 3, to, 3, 0) ==
	    (ssize_t)(first_bytes + sizeof frame + bytes))
		s->frame.at = first_at;
}

/* ---- for a function */

/* mov %rax, %rbx (the result); gettid; tkill(it, SIGNAL) */
static const uint8_t way_back[] = {
	0x48, 0x89, 0xc3,                   /* mov %rax, %rbx */
	0xb8, 186,  0,    0, 0, 0x0f, 0x05, /* mov $gettid, %eax; syscall */
	0x89, 0xc7, 0xbe, 0, 0, 0,    0,    /* mov %eax, %edi; mov $SIGNAL, %esi */
	0xb8, 200,  0,    0, 0, 0x0f, 0x05, /* mov $tkill, %eax; syscall */
};
/* If it has a priority of ours: sched_setscheduler(0, POLICY, &0) */
static const uint8_t way_calm[] = {
	0x6a, 0,    0x48, 0x89, 0xe2,             /* push $0; mov %rsp, %rdx */
	0x31, 0xff, 0x6a, 0,    0x5e,             /* xor %edi, %edi; push $POLICY; pop %rsi */
	0xb8, 144,  0,    0,    0,    0x0f, 0x05, /* mov $sched_setscheduler, %eax; syscall */
	0x59,                                     /* pop %rcx */
};
/* rt_sigreturn; and a trap, where nobody comes */
static const uint8_t way_end[] = {
	0xb8, 15, 0, 0, 0, 0x0f, 0x05, /* mov $rt_sigreturn, %eax; syscall */
	0xcc,                          /* int3 */
};
enum { WAY_SIGNAL_AT = 13, WAY_TOLD_AT = sizeof way_back, WAY_POLICY_AT = 8 };
enum { WAY_BYTES = sizeof way_back + sizeof way_calm + sizeof way_end };
_Static_assert((int)WAY_BYTES <= (int)STOP_BACK_BYTES, "the way back fits");

static size_t make_way(const struct stop *s, int signal, uint8_t code[WAY_BYTES])
{
	uint8_t *at = code;
	memcpy(at, way_back, sizeof way_back);
	at[WAY_SIGNAL_AT] = (uint8_t)signal;
	at += sizeof way_back;
	if (s->hurry.tid) {
		memcpy(at, way_calm, sizeof way_calm);
		at[WAY_POLICY_AT] = (uint8_t)s->hurry.policy;
		at += sizeof way_calm;
	}
	memcpy(at, way_end, sizeof way_end);
	return (size_t)(at - code) + sizeof way_end;
}

int frame_for_function(struct stop *s, struct held *h, uint64_t stack, uint64_t back,
		       struct frame_way *way, struct heft_error *err)
{
	uint8_t state[STATE_MOST], code[WAY_BYTES];
	struct signal_frame frame;
	size_t bytes = has_shadow_stack(h) ? 0 : read_state(h, state);
	uint64_t state_at = (stack - bytes) & ~63ull;
	const size_t code_bytes = make_way(s, way->signal, code);
	/* As after a call: the stack is 8 bytes off a multiple of 16. */
	way->stack = ((state_at - sizeof frame) & ~15ull) - 8;
	way->told = back + WAY_TOLD_AT;
	fill(s, &frame, back, bytes ? state_at : 0);
	int rc = stop_write(s, back, code, code_bytes, err);
	if (!rc && bytes)
		rc = stop_write(s, state_at, state, bytes, err);
	if (!rc)
		rc = stop_write(s, way->stack, &frame, sizeof frame, err);
	return rc;
}
