/* DWARF expressions, as unwind tables use them: a small stack machine over the
 * registers and the memory of the frame.
 *
 * Every error (too few or too many values on the stack, a register that is not
 * known, memory that cannot be read, an operation that has no place in unwind
 * tables) sets the cursor's `bad`, and the evaluation gives no result. Jumps stay
 * inside the expression, and the number of steps is limited. */
#include "capture/cfi_cursor.h"

#include <dwarf.h>

enum { STACK_MAX = 16, STEPS_MAX = 256 };

struct evaluation {
	struct cursor c; /* the next operation; c.bad: the evaluation failed */
	const uint8_t *start;
	uint64_t stack[STACK_MAX];
	unsigned depth;
	const uint64_t *regs;
	cfi_read_fn *read; /* NULL: the expression may not read memory */
	void *ctx;
};

static void push(struct evaluation *e, uint64_t value)
{
	if (e->depth == STACK_MAX)
		e->c.bad = 1;
	else
		e->stack[e->depth++] = value;
}

/* The value that lies `below` places under the top. */
static uint64_t peek(struct evaluation *e, uint64_t below)
{
	if (below >= e->depth) {
		e->c.bad = 1;
		return 0;
	}
	return e->stack[e->depth - 1 - below];
}

static uint64_t pop(struct evaluation *e)
{
	uint64_t value = peek(e, 0);
	if (!e->c.bad)
		e->depth--;
	return value;
}

static void push_register(struct evaluation *e, unsigned reg)
{
	uint64_t offset = (uint64_t)sleb(&e->c);
	if (reg >= CFI_REGS)
		e->c.bad = 1;
	else
		push(e, e->regs[reg] + offset);
}

/* Replaces the address on top by the `bytes` that lie there. */
static void dereference(struct evaluation *e, uint64_t bytes)
{
	uint64_t address = pop(e), value = 0;
	if (e->c.bad || bytes == 0 || bytes > 8 || !e->read || e->read(e->ctx, address, &value))
		e->c.bad = 1;
	else
		push(e, bytes == 8 ? value : value & ((1ull << bytes * 8) - 1));
}

static void jump(struct evaluation *e, int16_t bytes)
{
	if (bytes < e->start - e->c.at || bytes > e->c.end - e->c.at)
		e->c.bad = 1;
	else
		e->c.at += bytes;
}

/* Operations on the two topmost values; b is the top. */
static void combine(struct evaluation *e, uint8_t op)
{
	uint64_t b = pop(e), a = pop(e);
	int64_t signed_a = (int64_t)a, signed_b = (int64_t)b;
	switch (op) {
	case DW_OP_and: push(e, a & b); break;
	case DW_OP_div:
		if (!b || (signed_b == -1 && signed_a == INT64_MIN))
			e->c.bad = 1;
		else
			push(e, (uint64_t)(signed_a / signed_b));
		break;
	case DW_OP_minus: push(e, a - b); break;
	case DW_OP_mod:
		if (!b)
			e->c.bad = 1;
		else
			push(e, a % b);
		break;
	case DW_OP_mul: push(e, a * b); break;
	case DW_OP_or: push(e, a | b); break;
	case DW_OP_plus: push(e, a + b); break;
	case DW_OP_shl: push(e, b < 64 ? a << b : 0); break;
	case DW_OP_shr: push(e, b < 64 ? a >> b : 0); break;
	case DW_OP_shra: push(e, (uint64_t)(signed_a >> (b < 64 ? b : 63))); break;
	case DW_OP_xor: push(e, a ^ b); break;
	case DW_OP_eq: push(e, a == b); break;
	case DW_OP_ne: push(e, a != b); break;
	case DW_OP_ge: push(e, signed_a >= signed_b); break;
	case DW_OP_gt: push(e, signed_a > signed_b); break;
	case DW_OP_le: push(e, signed_a <= signed_b); break;
	case DW_OP_lt: push(e, signed_a < signed_b); break;
	default: e->c.bad = 1;
	}
}

static void operate(struct evaluation *e, uint8_t op)
{
	struct cursor *c = &e->c;
	uint64_t a, b;
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		push(e, op - (uint64_t)DW_OP_lit0);
		return;
	}
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
		push_register(e, op - (unsigned)DW_OP_breg0);
		return;
	}
	switch (op) {
	case DW_OP_addr:
	case DW_OP_const8u:
	case DW_OP_const8s: push(e, take(c, 8)); break;
	case DW_OP_const1u: push(e, take(c, 1)); break;
	case DW_OP_const1s: push(e, (uint64_t)(int8_t)take(c, 1)); break;
	case DW_OP_const2u: push(e, take(c, 2)); break;
	case DW_OP_const2s: push(e, (uint64_t)(int16_t)take(c, 2)); break;
	case DW_OP_const4u: push(e, take(c, 4)); break;
	case DW_OP_const4s: push(e, (uint64_t)(int32_t)take(c, 4)); break;
	case DW_OP_constu: push(e, uleb(c)); break;
	case DW_OP_consts: push(e, (uint64_t)sleb(c)); break;
	case DW_OP_dup: push(e, peek(e, 0)); break;
	case DW_OP_over: push(e, peek(e, 1)); break;
	case DW_OP_pick: push(e, peek(e, take(c, 1))); break;
	case DW_OP_drop: pop(e); break;
	case DW_OP_swap:
		a = pop(e);
		b = pop(e);
		push(e, a);
		push(e, b);
		break;
	case DW_OP_deref: dereference(e, 8); break;
	case DW_OP_deref_size: dereference(e, take(c, 1)); break;
	case DW_OP_abs:
		a = pop(e);
		push(e, (int64_t)a < 0 ? -a : a);
		break;
	case DW_OP_neg: push(e, -pop(e)); break;
	case DW_OP_not: push(e, ~pop(e)); break;
	case DW_OP_plus_uconst: push(e, pop(e) + uleb(c)); break;
	case DW_OP_skip: jump(e, (int16_t)take(c, 2)); break;
	case DW_OP_bra:
		a = take(c, 2);
		if (pop(e))
			jump(e, (int16_t)a);
		break;
	case DW_OP_nop: break;
	default: combine(e, op);
	}
}

int cfi_evaluate(const struct cfi_image *im, int32_t at, const uint64_t regs[CFI_REGS],
		 const uint64_t *initial, cfi_read_fn *read, void *ctx, uint64_t *result)
{
	struct evaluation e;
	e.c = expression_at(im, at);
	e.start = e.c.at;
	e.depth = 0;
	e.regs = regs;
	e.read = read;
	e.ctx = ctx;
	if (initial)
		push(&e, *initial);
	for (unsigned steps = 0; !e.c.bad && e.c.at < e.c.end; steps++) {
		if (steps == STEPS_MAX)
			return -1;
		operate(&e, (uint8_t)take(&e.c, 1));
	}
	uint64_t top = peek(&e, 0);
	if (e.c.bad)
		return -1;
	*result = top;
	return 0;
}
