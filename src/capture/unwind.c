/* What the quick path of stack.c leaves to others: it fills the row cache, steps
 * through frames whose rule is not "CFA = register + offset", and decides which
 * memory may be read.
 *
 * Memory that may be read: a thread's own stack, from the current frame up to its
 * end as the C library has it (`__libc_stack_end` for the main thread; for another
 * thread its thread pointer, which lies above its stack). That part is always mapped,
 * so a wrong rule or a garbage rbp costs a frame, not a fault. Before we read from any
 * other stack (sigaltstack, coroutines, a stack that the program made) we ask the
 * kernel, page by page, whether it is readable. pthread_getattr_np would know the
 * bounds, but it takes locks and allocates.
 *
 * Another stack may lie right below the thread's own. libc has a closed page between
 * them, or the program gave it the memory and we know where that ends (thread_stacks.c).
 * For threads that were made in other ways we walk carefully from a place that is
 * deeper than all before: it is on another stack if that has an end of its own.
 *
 * A walk ends: on one stack every caller's sp is above its callee's. Only a signal
 * frame may lead to another stack, and walks count their frames. */
#include "capture/go_rows.h"
#include "capture/own_memory.h"
#include "capture/go_switch.h"
#include "capture/main_frame.h"
#include "capture/object.h"
#include "capture/rows.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

_Atomic uint64_t heft_rows[HEFT_ROW_COUNT];
_Atomic uint32_t heft_generation;

/* ENTRY_REACH: how far below the end of the stack the very first frame of the process may be. HOME_FRAMES: the same
 * for the outermost frame of a thread, beside thread-local memory: what libraries may get later, and libc's own
 * frames. SIGNAL_FRAME: with the largest registers that there are. */
enum {
	PAGE = 4096,
	OWN_STACK_REACH = 64 << 20,
	ENTRY_REACH = 64,
	HOME_FRAMES = 6 << 10,
	SIGNAL_FRAME = 16 << 10
};

/* The object is in pieces: another one has the tables. */
static NOINLINE void take_piece_with_tables(struct cfi_image *im)
{
	struct heft_object tables;
	if (heft_object_at(im->eh_frame_hdr, &tables))
		return;
	im->low = tables.start;
	im->high = tables.end;
}

static int image_of(uint64_t pc, struct cfi_image *im)
{
	struct heft_object o;
	struct heft_thread *t = heft_tls_now()->thread;
	if (heft_object_at(pc, &o))
		return -1;
	im->work = t && t->work ? t->work + HEFT_WORK_TABLES : NULL;
	im->eh_frame_hdr = o.eh_frame_hdr;
	im->segments = o.segments;
	im->unwind = o.unwind;
	im->unwind_count = o.unwind_count;
	im->low = o.start;
	im->high = o.end;
	if (!o.segments.count && o.eh_frame_hdr)
		take_piece_with_tables(im);
	for (unsigned i = 0; i < o.segments.count && !o.unwind_count; i++) {
		const Elf64_Phdr *ph = &o.segments.headers[i];
		uintptr_t start = o.segments.bias + ph->p_vaddr, end = start + ph->p_memsz;
		if (ph->p_type != PT_LOAD || end < start)
			continue;
		im->low = start < im->low ? start : im->low;
		im->high = end > im->high ? end : im->high;
	}
	return 0;
}

uint32_t heft_row_fill(uint64_t pc, int exact)
{
	struct cfi_image im;
	cfi_row row = CFI_ROW_NONE;
	uint64_t at = exact ? pc : pc - 1;
	if (pc >> 47)
		return CFI_ROW_NONE;
	if (heft_is_main_frame(pc)) {
		row = CFI_ROW_MAIN;
	} else if (!image_of(at, &im)) {
		row = cfi_row_at(&im, at);
		/* The base of a coroutine or thread returns to the first byte of a function. The byte before
		 * it belongs to another function, or to none. */
		if (!exact && row != CFI_ROW_SIGNAL) {
			cfi_row here = row == CFI_ROW_NONE ? cfi_row_at(&im, pc) : 0;
			if (here == CFI_ROW_END)
				row = here;
		}
		if (row == CFI_ROW_NONE)
			row = go_row_at(&im, pc, exact);
	}
	/* Takes a free place, or else either one. No entry is moved: by then it may be void. */
	static _Atomic uint32_t turn;
	_Atomic uint64_t *pair = heft_row_pair(pc);
	unsigned way = atomic_load_explicit(pair, memory_order_relaxed) != 0;
	if (way && atomic_load_explicit(pair + 1, memory_order_relaxed))
		way = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) & 1;
	atomic_store_explicit(pair + way, heft_row_tag(pc, exact) << 30 | row,
			      memory_order_relaxed);
	return row;
}

void heft_forget_code(void)
{
	go_rows_forget();
	for (unsigned i = 0; i < HEFT_ROW_COUNT; i++)
		if (atomic_load_explicit(&heft_rows[i], memory_order_relaxed))
			atomic_store_explicit(&heft_rows[i], 0, memory_order_relaxed);
}

/* ---- which memory */

int heft_readable(uintptr_t low, uintptr_t high)
{
	for (uintptr_t page = low & ~(uintptr_t)(PAGE - 1); page < high; page += PAGE)
		if (!sys_readable((void *)page))
			return 0;
	return 1;
}

/* See heft_frames_reset. */
static void set_sentinels(struct heft_frame *mem, uint32_t capacity, uintptr_t stack_top)
{
	for (uint32_t i = 0; i < 2; i++) {
		mem[i * (capacity + 1)].pc = UINT64_MAX;
		mem[i * (capacity + 1)].sp = stack_top + 8;
	}
	__asm__ volatile("" : : : "memory"); /* before anything leads to them */
}

static void find_stack_top(struct heft_thread *t)
{
	void *thread = arch_thread_pointer();
	uintptr_t top = (uintptr_t)(heft_is_first_thread(thread) ? heft_stack_end() : thread);
	if (t->frames_memory) /* left by the last thread in this slot */
		set_sentinels(t->frames_memory, t->capacity, top);
	t->stack_low = t->stack_top = top;
}

int heft_near_own_stack(const struct heft_thread *t, uintptr_t sp)
{
	if (sp >= t->stack_low)
		return sp < t->stack_top;
	return t->stack_low - sp <= OWN_STACK_REACH && heft_readable(sp, t->stack_low);
}

/* Asks the kernel before it reads; remembers two pages */
struct reader {
	const struct heft_thread *t;
	uintptr_t page[2];
};

int heft_careful_read(void *reader, uintptr_t address, uint64_t *value)
{
	struct reader *r = reader;
	if (address & 7)
		return -1;
	if (!(address >= r->t->stack_low && address < r->t->stack_top) &&
	    !heft_go_mapped(&r->t->go, address)) {
		uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
		if (!page) /* 0 means "none" in page[] */
			return -1;
		if (page != r->page[0] && page != r->page[1]) {
			if (!sys_readable((void *)address))
				return -1;
			r->page[1] = r->page[0];
			r->page[0] = page;
		}
	}
	*value = *(const volatile uint64_t *)address;
	return 0;
}

/* ---- the general unwinder: all registers, any rule, slow */

/* In the thread's work memory, since the stack may be small */
struct slow {
	uint64_t regs[CFI_REGS], caller[CFI_REGS];
	struct cfi_rules rules;
};
_Static_assert(sizeof(struct slow) <= HEFT_WORK_TABLES &&
		       HEFT_WORK_TABLES + CFI_WORK_BYTES <= HEFT_WORK_BYTES,
	       "both fit");

/* *exact: pc is where this frame was interrupted, not a return address. Set to the same for its caller. */
static enum heft_step general_step(struct reader *r, struct slow *slow, int *exact)
{
	struct cfi_image im;
	struct cfi_rules *rules = &slow->rules;
	uint64_t *regs = slow->regs, *caller = slow->caller;
	uint64_t pc = regs[CFI_RA], at = *exact ? pc : pc - 1;
	if (image_of(at, &im) || cfi_rules_at(&im, at, rules))
		return HEFT_STEP_LOST;
	*exact = rules->signal_frame;
	uint64_t cfa;
	if (rules->cfa_expr) {
		if (cfi_evaluate(&im, rules->cfa_expr, regs, NULL, heft_careful_read, r, &cfa))
			return HEFT_STEP_LOST;
	} else
		cfa = regs[rules->cfa_register] + (uint64_t)(int64_t)rules->cfa_offset;
	for (unsigned i = 0; i < CFI_REGS; i++) {
		const struct cfi_rule *rule = &rules->reg[i];
		uint64_t v = regs[i];
		switch ((enum cfi_how)rule->how) {
		case CFI_SAME: break;
		case CFI_UNDEFINED:
			if (i == CFI_RA)
				return HEFT_STEP_END;
			v = 0;
			break;
		case CFI_AT_CFA:
			if (heft_careful_read(r, cfa + (uint64_t)(int64_t)rule->value, &v)) {
				if (i == CFI_RA)
					return HEFT_STEP_LOST;
				v = 0;
			}
			break;
		case CFI_CFA_PLUS: v = cfa + (uint64_t)(int64_t)rule->value; break;
		case CFI_REGISTER:
			v = (uint32_t)rule->value < CFI_REGS ? regs[rule->value] : 0;
			break;
		case CFI_AT_EXPR:
		case CFI_EXPR:
			if (cfi_evaluate(&im, rule->value, regs, &cfa, heft_careful_read, r, &v) ||
			    (rule->how == CFI_AT_EXPR && heft_careful_read(r, v, &v))) {
				if (i == CFI_RA || i == CFI_RSP)
					return HEFT_STEP_LOST;
				v = 0;
			}
			break;
		}
		caller[i] = v;
	}
	if (rules->reg[CFI_RSP].how == CFI_SAME)
		caller[CFI_RSP] = cfa;
	for (unsigned i = 0; i < CFI_REGS; i++)
		regs[i] = caller[i];
	return regs[CFI_RA] ? HEFT_STEP_OK : HEFT_STEP_END;
}

/* Starts here, in our own code, with all registers, walks to frame f, and then goes one step further. Our
 * own tables describe our frames as they do any others. */
static NOINLINE enum heft_step slow_step(struct reader *r, const struct heft_frame *f,
					 struct heft_frame *caller)
{
	struct slow *slow = (struct slow *)r->t->work;
	if (!slow)
		return HEFT_STEP_LOST;
	uint64_t *regs = slow->regs;
	memset(regs, 0, sizeof slow->regs);
	__asm__ volatile("mov %%rbx, 0x18(%0)\n\t"
			 "mov %%rbp, 0x30(%0)\n\t"
			 "mov %%rsp, 0x38(%0)\n\t"
			 "mov %%r12, 0x60(%0)\n\t"
			 "mov %%r13, 0x68(%0)\n\t"
			 "mov %%r14, 0x70(%0)\n\t"
			 "mov %%r15, 0x78(%0)\n\t"
			 "lea 0(%%rip), %%rax\n\t"
			 "mov %%rax, 0x80(%0)"
			 :
			 : "r"(regs)
			 : "rax", "memory");
	int exact = 1;
	for (unsigned steps = 0; steps < HEFT_FRAMES_MAX; steps++) {
		int there = regs[CFI_RSP] == f->sp && regs[CFI_RA] == f->pc;
		enum heft_step s = general_step(r, slow, &exact);
		if (there) {
			caller->pc = regs[CFI_RA];
			caller->sp = regs[CFI_RSP];
			caller->rbp = regs[CFI_RBP];
			caller->rbp_slot = 0;
			caller->flags = HEFT_FRAME_UNSTABLE;
			return s;
		}
		if (s != HEFT_STEP_OK)
			return HEFT_STEP_LOST;
	}
	return HEFT_STEP_LOST;
}

/* ---- frames without a plain rule */

static enum heft_step guess_step(struct reader *r, const struct heft_frame *f, int native,
				 struct heft_frame *caller)
{
	/* Without tables we follow the frame pointer, but only on the thread's own stack: elsewhere it has
	 * led to frames that were none. It must lead to code: to an object, or (JIT code is in no object)
	 * to a readable address. */
	uint64_t rbp, pc;
	/* The loader's first instructions have no tables; nothing calls them. */
	if (native && r->t->stack_top - f->sp <= ENTRY_REACH)
		return HEFT_STEP_END;
	if (!native || f->rbp < f->sp || f->rbp >= r->t->stack_top - 16 || f->rbp & 7)
		return HEFT_STEP_LOST;
	if (heft_careful_read(r, f->rbp, &rbp) || heft_careful_read(r, f->rbp + 8, &pc))
		return HEFT_STEP_LOST;
	struct dl_find_object o;
	if (pc < PAGE || pc >> 47)
		return HEFT_STEP_LOST;
	/* A caller with tables may use rbp for anything. The frame of one without tables is further out. */
	if (heft_find_object((void *)(pc - 1), &o) &&
	    ((rbp && rbp <= f->rbp) || !sys_readable((void *)(pc & ~7ull))))
		return HEFT_STEP_LOST;
	caller->pc = pc;
	caller->sp = f->rbp + 16;
	caller->rbp = rbp;
	caller->rbp_slot = 0;
	caller->flags = WIRE_NODE_GUESS | HEFT_FRAME_UNSTABLE;
	return HEFT_STEP_OK;
}

enum heft_step heft_step_special(struct heft_thread *t, const struct heft_frame *f, uint32_t row,
				 int native, struct heft_frame *caller)
{
	struct reader r = {.t = t};
	uint64_t v;
	switch (cfi_row_kind(row)) {
	case CFI_ROW_RSP:
	case CFI_ROW_RBP: {
		uint64_t cfa = (cfi_row_kind(row) == CFI_ROW_RSP ? f->sp : f->rbp) +
			       cfi_row_offset(row);
		uint32_t slot = cfi_row_rbp(row);
		if (heft_careful_read(&r, cfa - 8, &caller->pc))
			return HEFT_STEP_LOST;
		caller->sp = cfa;
		caller->rbp = f->rbp;
		caller->rbp_slot = slot;
		caller->flags = 0;
		if (slot && heft_careful_read(&r, cfa - slot, &caller->rbp))
			return HEFT_STEP_LOST;
		break;
	}
	case CFI_ROW_DRAP:
		if (heft_careful_read(&r, f->rbp - cfi_row_offset(row), &v) ||
		    heft_careful_read(&r, f->rbp, &caller->rbp) ||
		    heft_careful_read(&r, v - 8, &caller->pc))
			return HEFT_STEP_LOST;
		caller->sp = v;
		caller->rbp_slot = 0;
		caller->flags = HEFT_FRAME_UNSTABLE;
		break;
	case CFI_ROW_SIGNAL: {
		const ucontext_t *uc = (const ucontext_t *)f->sp;
		if (heft_careful_read(&r, (uintptr_t)&uc->uc_mcontext.gregs[REG_RIP],
				      &caller->pc) ||
		    heft_careful_read(&r, (uintptr_t)&uc->uc_mcontext.gregs[REG_RSP],
				      &caller->sp) ||
		    heft_careful_read(&r, (uintptr_t)&uc->uc_mcontext.gregs[REG_RBP], &caller->rbp))
			return HEFT_STEP_LOST;
		caller->rbp_slot = 0;
		caller->flags = WIRE_NODE_EXACT | HEFT_FRAME_UNSTABLE;
		break;
	}
	case CFI_ROW_END: return HEFT_STEP_END;
	case CFI_ROW_GO: return heft_go_step(t, f, row, native, &r, caller);
	case CFI_ROW_SLOW: {
		if (row == CFI_ROW_MAIN) {
			caller->sp = f->sp + cfi_row_offset(row);
			caller->rbp = f->rbp;
			/* Where main has saved it */
			caller->rbp_slot = f->rbp_slot ? f->rbp_slot + cfi_row_offset(row) : 0;
			if (heft_careful_read(&r, caller->sp - 8, &caller->pc))
				return HEFT_STEP_LOST;
			break;
		}
		enum heft_step s = slow_step(&r, f, caller);
		if (s != HEFT_STEP_OK)
			return s;
		break;
	}
	default: {
		enum heft_step s = guess_step(&r, f, native, caller);
		if (s != HEFT_STEP_OK)
			return s;
	}
	}
	return caller->pc ? HEFT_STEP_OK : HEFT_STEP_END;
}

/* ---- how far down the thread's own stack reaches */

/* The outermost frame lies this close to the end of the stack: between them is the thread-local memory of the
 * libraries. */
static uintptr_t home_reach = 4 * PAGE;

void heft_set_home_reach(uintptr_t thread_local_bytes)
{
	home_reach = thread_local_bytes + HOME_FRAMES;
}

/* Whether the stack leads from here to another one's end, and not to the known part of the thread's own. */
static int leads_elsewhere(struct heft_thread *t, struct heft_entry e)
{
	struct heft_frame f = {.pc = e.pc, .sp = e.sp, .rbp = e.rbp};
	for (uint32_t count = 0; count < HEFT_FRAMES_MAX; count++) {
		struct heft_frame caller = {0};
		cfi_row row = heft_row(f.pc, (f.flags & WIRE_NODE_EXACT) != 0);
		enum heft_step s = heft_step_special(t, &f, row, 1, &caller);
		if (s == HEFT_STEP_END)
			return t->stack_top - f.sp > home_reach;
		if (s != HEFT_STEP_OK || caller.sp <= f.sp || caller.sp > t->stack_top)
			return 0; /* nobody knows */
		/* A handler on a stack of its own leads to where it interrupted. */
		if (caller.flags & WIRE_NODE_EXACT && caller.sp - f.sp > SIGNAL_FRAME)
			return 1;
		if (caller.sp >= t->stack_low && t->stack_low < t->stack_top)
			return 0;
		f = caller;
	}
	return 1;
}

int heft_on_own_stack(struct heft_thread *t, struct heft_entry e)
{
	const uintptr_t sp = e.sp, page = sp & ~(uintptr_t)(PAGE - 1);
	if (!t->stack_top)
		find_stack_top(t);
	if (sp >= t->stack_low && sp < t->stack_top)
		return 1;
	if (sp >= t->stack_top || t->stack_low - sp > OWN_STACK_REACH || page == t->foreign_page)
		return 0;
	/* Deeper than before. If it is the same stack, nothing unreadable (a guard page) lies between. */
	const uintptr_t low = heft_given_stack_low(t->stack_top);
	if (sp >= low && heft_readable(sp, t->stack_low) && !leads_elsewhere(t, e)) {
		t->stack_low = page > low ? page : low;
		return 1;
	}
	t->foreign_page = page;
	return 0;
}

/* ---- the arrays of a thread. One mapping holds them all: two kept captures, each after its sentinel, and
 * the scratch; then as many hashes; then the tips; then memory for what would be large on the stack. The rbp of the first sentinel holds the capacity, so that
 * the mapping alone says where everything is.
 *
 * A sentinel is outside of every frame: its sp is above the stack's, and the word in its slot, which
 * is the first one above the stack (the argument count, or the thread's own descriptor), is never its
 * pc. So neither search nor verification needs to count. */
static size_t tips_offset(uint32_t capacity)
{
	size_t bytes = 3 * (capacity + 1) * (sizeof(struct heft_frame) + sizeof(uint64_t));
	return (bytes + _Alignof(struct heft_tip) - 1) & ~(_Alignof(struct heft_tip) - 1);
}
static size_t work_offset(uint32_t capacity)
{
	return tips_offset(capacity) + (sizeof(struct heft_tip) << HEFT_TIP_BITS);
}
static size_t mapping_bytes(uint32_t capacity)
{
	return work_offset(capacity) + HEFT_WORK_BYTES;
}

static struct heft_kept nothing_kept(struct heft_frame *sentinel, uint64_t *hashes)
{
	return (struct heft_kept){
		.frames = sentinel + 1, .top = sentinel, .hashes = hashes, .via = HEFT_NO_VIA};
}

void heft_frames_reset(struct heft_thread *t, struct heft_frame *mem)
{
	static struct heft_frame nowhere = {.pc = UINT64_MAX, .sp = UINT64_MAX};
	uint32_t capacity = mem ? (uint32_t)mem[0].rbp : 0;
	uint64_t *hashes = (uint64_t *)(mem + 3 * (capacity + 1));
	t->frames_memory = mem;
	t->capacity = capacity;
	t->tip_bits = t->tip_bits ? t->tip_bits : HEFT_TIP_BITS_START;
	if (!mem) {
		t->kept = t->other = nothing_kept(&nowhere, NULL);
		t->tips = NULL;
		t->work = NULL;
		return;
	}
	t->kept = nothing_kept(mem, hashes);
	t->other = nothing_kept(mem + (capacity + 1), hashes + capacity);
	t->scratch = mem + 2 * (capacity + 1) + 1;
	t->scratch_hashes = hashes + 2 * capacity;
	t->tips = (struct heft_tip *)((char *)mem + tips_offset(capacity));
	t->work = (char *)mem + work_offset(capacity);
}

/* What a capture has beside its arrays. */
static void keep_numbers(struct heft_kept *to, const struct heft_kept *from)
{
	to->top = to->frames + (from->top - from->frames);
	to->site = from->site;
	to->via = from->via;
}

/* Copies what was in the arrays. */
int heft_frames_grow(struct heft_thread *t, uint32_t need)
{
	uint32_t had = t->capacity, capacity = had ? had : HEFT_FRAMES_START;
	while (capacity < need)
		capacity *= 2;
	if (need > HEFT_FRAMES_MAX || capacity > 2 * HEFT_FRAMES_MAX)
		return -1;
	struct heft_frame *mem = sys_mmap(NULL, mapping_bytes(capacity), PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
	if (!mem)
		return -1;
	heft_mapped_own(mem, mapping_bytes(capacity));
	mem[0].rbp = capacity;
	set_sentinels(mem, capacity, t->stack_top);
	struct heft_thread was = *t;
	heft_frames_reset(t, mem);
	if (!had)
		return 0;
	__builtin_memcpy(t->kept.frames, was.kept.frames, had * sizeof *mem);
	__builtin_memcpy(t->other.frames, was.other.frames, had * sizeof *mem);
	__builtin_memcpy(t->scratch, was.scratch, had * sizeof *mem);
	__builtin_memcpy(t->kept.hashes, was.kept.hashes, had * sizeof(uint64_t));
	__builtin_memcpy(t->other.hashes, was.other.hashes, had * sizeof(uint64_t));
	__builtin_memcpy(t->scratch_hashes, was.scratch_hashes, had * sizeof(uint64_t));
	keep_numbers(&t->kept, &was.kept);
	keep_numbers(&t->other, &was.other);
	heft_unmap_own(was.frames_memory, mapping_bytes(had));
	return 0;
}
