/* Reading .eh_frame: find the entry (FDE) of a pc, run its small program up to
 * that pc, and compress the result into a row.
 *
 * The tables of the program's own objects are not an attacker, but hand-written
 * assembly, packers and truncated mappings produce every kind of nonsense, and a
 * fault here would be the program's. So everything goes through a cursor
 * (cfi_cursor.h).
 *
 * This runs inside malloc, on stacks that may be small. So the program of a table
 * works in memory of its caller's, and for a row, which needs the rules of three
 * registers only, with those three. */
#include "capture/cfi_cursor.h"

#include <dwarf.h>

#define NOINLINE __attribute__((noinline))

/* A pointer in one of the encodings of .eh_frame (DW_EH_PE_*). */
static uint64_t encoded(struct cursor *c, uint8_t enc, uintptr_t datarel)
{
	uintptr_t here = (uintptr_t)c->at;
	uint64_t v;
	switch (enc & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8: v = take(c, 8); break;
	case DW_EH_PE_udata2: v = take(c, 2); break;
	case DW_EH_PE_udata4: v = take(c, 4); break;
	case DW_EH_PE_sdata2: v = (uint64_t)(int16_t)take(c, 2); break;
	case DW_EH_PE_sdata4: v = (uint64_t)(int32_t)take(c, 4); break;
	case DW_EH_PE_uleb128: v = uleb(c); break;
	case DW_EH_PE_sleb128: v = (uint64_t)sleb(c); break;
	default: c->bad = 1; return 0;
	}
	switch (enc & 0x70) {
	case 0: break;
	case DW_EH_PE_pcrel: v += here; break;
	case DW_EH_PE_datarel: v += datarel; break;
	default: c->bad = 1; return 0;
	}
	return v;
}

struct fde {
	uintptr_t start, end; /* covered pcs */
	uint64_t code_align;
	int64_t data_align;
	struct cursor cie_program, program;
	uint8_t pointer_encoding;
	uint8_t augmented;
	uint8_t signal_frame;
};

/* What the entry at `at` holds after its length. The terminator is bad, and so is the 64-bit form, which
 * nobody emits for .eh_frame. */
static struct cursor entry_at(const struct cfi_image *im, uintptr_t at)
{
	struct cursor c = cursor_at(im, at);
	uint64_t length = take(&c, 4);
	if (length == 0 || length >= 0xfffffff0u)
		c.bad = 1;
	cursor_limit(&c, length);
	return c;
}

/* The augmentation data that the letters after 'z' describe. */
static void read_augmentation(struct cursor *c, const char *letters, struct fde *f)
{
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R': f->pointer_encoding = (uint8_t)take(c, 1); break;
		case 'P': encoded(c, (uint8_t)take(c, 1), 0); break;
		case 'L': take(c, 1); break;
		case 'S': f->signal_frame = 1; break;
		case 'B': break;
		default: return; /* unknown: its length says where the rest ends */
		}
	}
}

static int read_cie(const struct cfi_image *im, uintptr_t at, struct fde *f)
{
	struct cursor c = entry_at(im, at);
	uint64_t id = take(&c, 4), version = take(&c, 1);
	if (c.bad || id != 0 || (version != 1 && version != 3 && version != 4))
		return -1;
	const char *augmentation = (const char *)c.at;
	while (take(&c, 1) != 0)
		;
	if (version == 4)
		skip(&c, 2);
	f->code_align = uleb(&c);
	f->data_align = sleb(&c);
	uint64_t return_register = version == 1 ? take(&c, 1) : uleb(&c);
	if (c.bad || return_register != CFI_RA)
		return -1;
	f->pointer_encoding = DW_EH_PE_absptr;
	f->signal_frame = 0;
	f->augmented = augmentation[0] == 'z';
	if (f->augmented) {
		uint64_t bytes = uleb(&c);
		struct cursor data = c;
		skip(&c, bytes);
		read_augmentation(&data, augmentation + 1, f);
		c.bad |= data.bad;
	} else if (augmentation[0])
		return -1;
	f->cie_program = c;
	return c.bad ? -1 : 0;
}

/* Reads the entry at `at` with its CIE. */
static int read_fde(const struct cfi_image *im, uintptr_t at, struct fde *f)
{
	struct cursor c = entry_at(im, at);
	uintptr_t id_at = (uintptr_t)c.at;
	uint64_t id = take(&c, 4);
	/* id 0: this is a CIE. Otherwise it is how far before the id its CIE lies. */
	if (c.bad || id == 0 || id > id_at - im->low || read_cie(im, id_at - id, f))
		return -1;
	f->start = encoded(&c, f->pointer_encoding, im->eh_frame_hdr);
	f->end = f->start + encoded(&c, f->pointer_encoding & 0x0f, 0);
	if (f->augmented)
		skip(&c, uleb(&c));
	f->program = c;
	return c.bad ? -1 : 0;
}

static int covers(const struct fde *f, uintptr_t pc)
{
	return pc >= f->start && pc < f->end;
}

/* The sorted table of .eh_frame_hdr: pairs of a function's start and its FDE, both relative to the
 * header. */
static int search_table(const struct cfi_image *im, const struct cursor *table, uint64_t count,
			uintptr_t pc, struct fde *f)
{
	if (count == 0 || count > cursor_left(table) / 8)
		return -1;
	int64_t want = (int64_t)(pc - im->eh_frame_hdr);
	uint64_t low = 0, high = count; /* finds the last entry whose start <= pc */
	int32_t entry[2];
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		memcpy(entry, table->at + mid * 8, 4);
		if (entry[0] <= want)
			low = mid;
		else
			high = mid;
	}
	memcpy(entry, table->at + low * 8, 8);
	if (entry[0] > want || read_fde(im, im->eh_frame_hdr + (uintptr_t)(intptr_t)entry[1], f))
		return -1;
	return covers(f, pc) ? 0 : -1;
}

/* The same in a list that the outside has made. */
static int search_unwind(const struct cfi_image *im, uintptr_t pc, struct fde *f)
{
	const struct wire_blob_unwind *u = im->unwind;
	uint64_t low = 0, high = im->unwind_count, want = pc - im->low;
	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;
		if (u[mid].code <= want)
			low = mid;
		else
			high = mid;
	}
	return read_fde(im, im->low + u[low].entry, f) || !covers(f, pc) ? -1 : 0;
}

static int find_fde(const struct cfi_image *im, uintptr_t pc, struct fde *f)
{
	if (im->unwind_count)
		return search_unwind(im, pc, f);
	if (!im->eh_frame_hdr)
		return -1;
	struct cursor c = cursor_at(im, im->eh_frame_hdr);
	uint64_t version = take(&c, 1);
	uint8_t frame_enc = (uint8_t)take(&c, 1);
	uint8_t count_enc = (uint8_t)take(&c, 1);
	uint8_t table_enc = (uint8_t)take(&c, 1);
	if (c.bad || version != 1)
		return -1;
	uintptr_t at = encoded(&c, frame_enc, im->eh_frame_hdr);
	if (count_enc != DW_EH_PE_omit && table_enc == (DW_EH_PE_datarel | DW_EH_PE_sdata4)) {
		uint64_t count = encoded(&c, count_enc, im->eh_frame_hdr);
		return c.bad ? -1 : search_table(im, &c, count, pc, f);
	}
	/* There is no table: walk the section to its terminator. */
	for (;;) {
		struct cursor entry = entry_at(im, at);
		if (entry.bad)
			return -1;
		if (!read_fde(im, at, f) && covers(f, pc))
			return 0;
		at = (uintptr_t)entry.end;
	}
}

struct cfa {
	int32_t offset, expr; /* as in struct cfi_rules */
	uint8_t reg;
};

/* Runs the program of a table. Rules and CFA of set 0 are those now, of set 1 the initial ones. */
struct machine {
	struct cfi_rule *rules; /* CFI_SETS times `registers` */
	unsigned registers;     /* CFI_REGS or ROW_REGS */
	unsigned depth;         /* how many sets are remembered */
	struct cfa cfa[CFI_SETS];
	uintptr_t loc;
	int bad;
};

/* What a row is made of */
enum { ROW_RBP, ROW_RSP, ROW_RA, ROW_REGS };

/* The rule of a register now, or NULL: it is not kept. */
static struct cfi_rule *rule_of(const struct machine *m, uint64_t reg)
{
	if (m->registers == CFI_REGS)
		return reg < CFI_REGS ? &m->rules[reg] : NULL;
	return reg == CFI_RBP   ? &m->rules[ROW_RBP]
	       : reg == CFI_RSP ? &m->rules[ROW_RSP]
	       : reg == CFI_RA  ? &m->rules[ROW_RA]
				: NULL;
}

static void copy_set(struct machine *m, unsigned to, unsigned from)
{
	memcpy(&m->rules[to * m->registers], &m->rules[from * m->registers],
	       m->registers * sizeof *m->rules);
	m->cfa[to] = m->cfa[from];
}

static void set_rule(struct machine *m, uint64_t reg, enum cfi_how how, int64_t value)
{
	struct cfi_rule *rule = rule_of(m, reg);
	if (reg >= CFI_REGS)
		return; /* a vector register, say: nobody needs it */
	if (value != (int32_t)value)
		m->bad = 1;
	else if (rule)
		*rule = (struct cfi_rule){.value = (int32_t)value, .how = (uint8_t)how};
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg >= CFI_REGS || offset != (int32_t)offset)
		m->bad = 1;
	else
		m->cfa[0] = (struct cfa){.offset = (int32_t)offset, .reg = (uint8_t)reg};
}

/* Skips an expression. Returns its offset from the image. */
static int64_t expression(const struct cfi_image *im, struct cursor *c)
{
	int64_t at = (int64_t)((uintptr_t)c->at - im->low);
	skip(c, uleb(c));
	return at;
}

static void restore_rule(struct machine *m, uint64_t reg)
{
	struct cfi_rule *rule = rule_of(m, reg);
	if (rule)
		*rule = rule[m->registers];
}

static void set_cfa_expression(struct machine *m, int64_t at)
{
	if (at != (int32_t)at || at == 0)
		m->bad = 1;
	m->cfa[0].expr = (int32_t)at;
}

static void remember(struct machine *m)
{
	if (m->depth == CFI_REMEMBER_MAX)
		m->bad = 1;
	else
		copy_set(m, 2 + m->depth++, 0);
}

static void recall(struct machine *m)
{
	if (m->depth == 0)
		m->bad = 1;
	else
		copy_set(m, 0, 2 + --m->depth);
}

/* An offset in units of the table's alignment. Both numbers are the file's, and may overflow. */
static int64_t scaled(uint64_t factor, int64_t align)
{
	return (int64_t)(factor * (uint64_t)align);
}

/* Operations whose first operand is a register. In three others it is in the low six bits. */
enum { OPERAND = 0x3f };
#define BIT(operation) (1ull << (operation))
static const uint64_t names_register = BIT(DW_CFA_offset_extended) | BIT(DW_CFA_restore_extended) |
				       BIT(DW_CFA_undefined) | BIT(DW_CFA_same_value) |
				       BIT(DW_CFA_register) | BIT(DW_CFA_def_cfa) |
				       BIT(DW_CFA_def_cfa_register) | BIT(DW_CFA_expression) |
				       BIT(DW_CFA_offset_extended_sf) | BIT(DW_CFA_def_cfa_sf) |
				       BIT(DW_CFA_val_offset) | BIT(DW_CFA_val_offset_sf) |
				       BIT(DW_CFA_val_expression) |
				       BIT(DW_CFA_GNU_negative_offset_extended);
#undef BIT

/* Runs a program until it comes to code after pc. */
static NOINLINE void run(const struct cfi_image *im, struct machine *m,
			 const struct cursor *program, const struct fde *f, uintptr_t pc)
{
	struct cursor c = *program;
	const int64_t da = f->data_align;
	while (c.at < c.end && !c.bad && !m->bad) {
		uint8_t op = (uint8_t)take(&c, 1);
		uint64_t reg = op & OPERAND;
		uintptr_t next = m->loc;
		if (op & ~OPERAND)
			op &= (uint8_t)~OPERAND;
		else if (names_register >> op & 1)
			reg = uleb(&c);
		switch (op) {
		case DW_CFA_advance_loc: next += reg * f->code_align; break;
		case DW_CFA_advance_loc1: next += take(&c, 1) * f->code_align; break;
		case DW_CFA_advance_loc2: next += take(&c, 2) * f->code_align; break;
		case DW_CFA_advance_loc4: next += take(&c, 4) * f->code_align; break;
		case DW_CFA_set_loc: next = encoded(&c, DW_EH_PE_absptr, 0); break;
		case DW_CFA_def_cfa: set_cfa(m, reg, (int64_t)uleb(&c)); break;
		case DW_CFA_def_cfa_sf: set_cfa(m, reg, scaled((uint64_t)sleb(&c), da)); break;
		case DW_CFA_def_cfa_register: set_cfa(m, reg, m->cfa[0].offset); break;
		case DW_CFA_def_cfa_offset: set_cfa(m, m->cfa[0].reg, (int64_t)uleb(&c)); break;
		case DW_CFA_def_cfa_offset_sf:
			set_cfa(m, m->cfa[0].reg, scaled((uint64_t)sleb(&c), da));
			break;
		case DW_CFA_def_cfa_expression: set_cfa_expression(m, expression(im, &c)); break;
		case DW_CFA_undefined: set_rule(m, reg, CFI_UNDEFINED, 0); break;
		case DW_CFA_same_value: set_rule(m, reg, CFI_SAME, 0); break;
		case DW_CFA_offset:
		case DW_CFA_offset_extended:
			set_rule(m, reg, CFI_AT_CFA, scaled(uleb(&c), da));
			break;
		case DW_CFA_offset_extended_sf:
			set_rule(m, reg, CFI_AT_CFA, scaled((uint64_t)sleb(&c), da));
			break;
		case DW_CFA_GNU_negative_offset_extended:
			set_rule(m, reg, CFI_AT_CFA, scaled(-uleb(&c), da));
			break;
		case DW_CFA_val_offset: set_rule(m, reg, CFI_CFA_PLUS, scaled(uleb(&c), da)); break;
		case DW_CFA_val_offset_sf:
			set_rule(m, reg, CFI_CFA_PLUS, scaled((uint64_t)sleb(&c), da));
			break;
		case DW_CFA_register: set_rule(m, reg, CFI_REGISTER, (int64_t)uleb(&c)); break;
		case DW_CFA_expression: set_rule(m, reg, CFI_AT_EXPR, expression(im, &c)); break;
		case DW_CFA_val_expression: set_rule(m, reg, CFI_EXPR, expression(im, &c)); break;
		case DW_CFA_restore:
		case DW_CFA_restore_extended: restore_rule(m, reg); break;
		case DW_CFA_remember_state: remember(m); break;
		case DW_CFA_restore_state: recall(m); break;
		case DW_CFA_GNU_args_size: uleb(&c); break;
		case DW_CFA_nop: break;
		default: m->bad = 1;
		}
		if (next > pc)
			return;
		m->loc = next;
	}
	if (c.bad)
		m->bad = 1;
}

/* What a look-up needs beside the rules */
struct lookup {
	struct machine m;
	struct fde f;
	struct cfi_rule sets[CFI_SETS * ROW_REGS]; /* of a row */
};
_Static_assert(sizeof(struct lookup) <= CFI_WORK_BYTES, "fits");

/* The sets of l->m are zero. 0, or -1: there are no rules. */
static int run_table(const struct cfi_image *im, uintptr_t pc, struct lookup *l)
{
	struct machine *m = &l->m;
	const struct fde *f = &l->f;
	m->depth = 0;
	m->bad = 0;
	memset(m->cfa, 0, sizeof m->cfa);
	if (find_fde(im, pc, &l->f))
		return -1;
	m->loc = f->start;
	run(im, m, &f->cie_program, f, UINTPTR_MAX); /* it holds for all code of the entry */
	copy_set(m, 1, 0);
	m->loc = f->start;
	run(im, m, &f->program, f, pc);
	return m->bad ? -1 : 0;
}

static int rules_at(const struct cfi_image *im, uintptr_t pc, struct cfi_rules *rules,
		    struct lookup *l)
{
	l->m.rules = rules->sets;
	l->m.registers = CFI_REGS;
	memset(rules, 0, sizeof *rules);
	if (run_table(im, pc, l))
		return -1;
	rules->signal_frame = l->f.signal_frame;
	rules->cfa_offset = l->m.cfa[0].offset;
	rules->cfa_expr = l->m.cfa[0].expr;
	rules->cfa_register = l->m.cfa[0].reg;
	return 0;
}

static NOINLINE int rules_on_stack(const struct cfi_image *im, uintptr_t pc,
				   struct cfi_rules *rules)
{
	struct lookup l;
	return rules_at(im, pc, rules, &l);
}

int cfi_rules_at(const struct cfi_image *im, uintptr_t pc, struct cfi_rules *rules)
{
	return im->work ? rules_at(im, pc, rules, im->work) : rules_on_stack(im, pc, rules);
}

static cfi_row make_row(enum cfi_kind kind, int64_t cfa, int64_t rbp)
{
	if (cfa < 0 || cfa & 7 || cfa > 0xffff * 8 || rbp > 0 || -rbp & 7 || -rbp > 0x7ff * 8)
		return CFI_ROW_SLOW;
	return (cfi_row)kind | (cfi_row)(cfa / 8) << 3 | (cfi_row)(-rbp / 8) << 19;
}

/* Is it exactly DW_OP_breg6 (rbp) + offset, followed by a dereference if `deref` is set? */
static int is_rbp_expr(const struct cfi_image *im, int32_t at, int deref, int64_t *offset)
{
	struct cursor c = expression_at(im, at);
	if (take(&c, 1) != DW_OP_breg0 + CFI_RBP)
		return 0;
	*offset = sleb(&c);
	if (deref && take(&c, 1) != DW_OP_deref)
		return 0;
	return !c.bad && c.at == c.end;
}

/* Does mov $15, %rax; syscall lie here? That trampoline's frame is a ucontext. Its "return address" is its
 * first byte, so pc may be one before it. */
static int is_sigreturn(const struct cfi_image *im, uintptr_t pc)
{
	static const uint8_t restore_rt[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
	struct cursor c = cursor_at(im, pc);
	return !c.bad && cursor_left(&c) > sizeof restore_rt &&
	       (!memcmp(c.at + 1, restore_rt, sizeof restore_rt) ||
		!memcmp(c.at, restore_rt, sizeof restore_rt));
}

static NOINLINE cfi_row row_of_expression(const struct cfi_image *im, uintptr_t pc, int32_t expr,
					  struct cfi_rule rbp)
{
	int64_t off, rbp_off;
	if (is_rbp_expr(im, expr, 1, &off) && rbp.how == CFI_AT_EXPR &&
	    is_rbp_expr(im, rbp.value, 0, &rbp_off) && rbp_off == 0 && off <= 0)
		return make_row(CFI_ROW_DRAP, -off, 0);
	/* The expression of a PLT depends on pc and rsp alone: with pc known it is rsp + a constant. Two
	 * sets of registers show whether this one does. */
	uint64_t regs[CFI_REGS] = {0}, a, b;
	regs[CFI_RA] = pc;
	regs[CFI_RSP] = 0x10000;
	if (rbp.how != CFI_SAME || cfi_evaluate(im, expr, regs, NULL, NULL, NULL, &a))
		return CFI_ROW_SLOW;
	regs[CFI_RSP] = 0x20040;
	memset(regs, 0x55, sizeof(uint64_t) * CFI_RSP);
	if (cfi_evaluate(im, expr, regs, NULL, NULL, NULL, &b) || b - 0x20040 != a - 0x10000)
		return CFI_ROW_SLOW;
	return make_row(CFI_ROW_RSP, (int64_t)(a - 0x10000), 0);
}

static cfi_row row_at(const struct cfi_image *im, uintptr_t pc, struct lookup *l)
{
	struct cfi_rule *r = l->sets;
	const struct cfi_rule *ra = &r[ROW_RA], *rbp = &r[ROW_RBP];
	const struct cfa *cfa = &l->m.cfa[0];
	memset(l->sets, 0, sizeof l->sets);
	l->m.rules = r;
	l->m.registers = ROW_REGS;
	if (run_table(im, pc, l))
		return CFI_ROW_NONE;
	if (ra->how == CFI_UNDEFINED)
		return CFI_ROW_END;
	if (l->f.signal_frame)
		return is_sigreturn(im, pc) ? CFI_ROW_SIGNAL : CFI_ROW_SLOW;
	if (ra->how != CFI_AT_CFA || ra->value != -8 || r[ROW_RSP].how != CFI_SAME)
		return CFI_ROW_SLOW;
	if (cfa->expr)
		return row_of_expression(im, pc, cfa->expr, *rbp);
	if (rbp->how != CFI_SAME && (rbp->how != CFI_AT_CFA || rbp->value == 0))
		return CFI_ROW_SLOW;
	int64_t slot = rbp->how == CFI_AT_CFA ? rbp->value : 0;
	/* The quick path relies on it: rbp lies between rsp and the CFA. */
	if (cfa->reg == CFI_RSP && cfa->offset >= 8 && -slot <= cfa->offset)
		return make_row(CFI_ROW_RSP, cfa->offset, slot);
	if (cfa->reg == CFI_RBP)
		return make_row(CFI_ROW_RBP, cfa->offset, slot);
	return CFI_ROW_SLOW;
}

static NOINLINE cfi_row row_on_stack(const struct cfi_image *im, uintptr_t pc)
{
	struct lookup l;
	return row_at(im, pc, &l);
}

cfi_row cfi_row_at(const struct cfi_image *im, uintptr_t pc)
{
	return im->work ? row_at(im, pc, im->work) : row_on_stack(im, pc);
}
