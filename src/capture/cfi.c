/* Reading .eh_frame: find the entry (FDE) of a pc, run its small program up to
 * that pc, and compress the result into a row.
 *
 * Everything goes through a cursor that knows its end; a read past it latches
 * `bad` and yields 0, so the parsing code needs no check at every step and
 * cannot leave the mapped object. The tables of the program's own objects are
 * not an attacker, but hand-written assembly, packers and truncated mappings
 * produce every kind of nonsense, and a fault here would be the program's.
 *
 * Stack use is kept under 1.5 KiB: this runs inside malloc, on stacks that may
 * be small. */
#include "capture/cfi.h"

#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	int bad;
};

/* From `at` to the end of the segment that holds it. */
static struct cursor cursor_at(const struct cfi_image *im, uintptr_t at)
{
	struct cursor c = {0};
	uintptr_t end = im->segments.headers ? heft_segment_end(&im->segments, at) : im->high;
	if (at < im->low || at > end || end > im->high)
		c.bad = 1;
	else {
		c.at = (const uint8_t *)at;
		c.end = (const uint8_t *)end;
	}
	return c;
}

static uint64_t take(struct cursor *c, unsigned bytes)
{
	uint64_t v = 0;
	if (c->bad || (uintptr_t)(c->end - c->at) < bytes) {
		c->bad = 1;
		return 0;
	}
	memcpy(&v, c->at, bytes); /* little-endian */
	c->at += bytes;
	return v;
}

static uint64_t uleb(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint64_t b = take(c, 1);
		if (shift < 64)
			v |= (b & 0x7f) << shift;
		if (!(b & 0x80) || c->bad)
			return v;
	}
}

static int64_t sleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint64_t b;
	do {
		b = take(c, 1);
		if (shift < 64)
			v |= (b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && !c->bad);
	if (shift < 64 && b & 0x40)
		v |= ~0ull << shift;
	return (int64_t)v;
}

static void skip(struct cursor *c, uint64_t bytes)
{
	if (c->bad || (uint64_t)(c->end - c->at) < bytes)
		c->bad = 1;
	else
		c->at += bytes;
}

enum { /* DW_EH_PE_* */
	PE_UDATA2 = 2, PE_UDATA4 = 3, PE_UDATA8 = 4, PE_ULEB = 1,
	PE_SLEB = 9, PE_SDATA2 = 10, PE_SDATA4 = 11, PE_SDATA8 = 12,
	PE_PCREL = 0x10, PE_DATAREL = 0x30, PE_INDIRECT = 0x80, PE_OMIT = 0xff,
};

static uint64_t encoded(struct cursor *c, uint8_t enc, uintptr_t datarel)
{
	uintptr_t here = (uintptr_t)c->at;
	uint64_t v;
	switch (enc & 0x0f) {
	case 0: case PE_UDATA8: case PE_SDATA8: v = take(c, 8); break;
	case PE_UDATA2: v = take(c, 2); break;
	case PE_UDATA4: v = take(c, 4); break;
	case PE_SDATA2: v = (uint64_t)(int64_t)(int16_t)take(c, 2); break;
	case PE_SDATA4: v = (uint64_t)(int64_t)(int32_t)take(c, 4); break;
	case PE_ULEB: v = uleb(c); break;
	case PE_SLEB: v = (uint64_t)sleb(c); break;
	default: c->bad = 1; return 0;
	}
	switch (enc & 0x70) {
	case 0: break;
	case PE_PCREL: v += here; break;
	case PE_DATAREL: v += datarel; break;
	default: c->bad = 1; return 0;
	}
	return v;
}

struct fde {
	uintptr_t start, end; /* covered pcs */
	uint64_t code_align;
	int64_t data_align;
	struct cursor cie_program, program;
	uint8_t signal_frame;
};

/* Reads the entry (with its CIE) at `at`. */
static int read_fde(const struct cfi_image *im, uintptr_t at, struct fde *f)
{
	struct cursor c = cursor_at(im, at);
	uint64_t length = take(&c, 4);
	if (length == 0 || length >= 0xfffffff0u)
		return -1; /* terminator, or the 64-bit form nobody emits for .eh_frame */
	uintptr_t id_at = (uintptr_t)c.at;
	if (c.bad || length > (uint64_t)(c.end - c.at))
		return -1;
	c.end = c.at + length;
	uint64_t id = take(&c, 4);
	if (id == 0 || id > id_at - im->low)
		return -1; /* a CIE, or one outside the object */
	uintptr_t cie = id_at - id;

	struct cursor k = cursor_at(im, cie);
	uint64_t cie_length = take(&k, 4);
	if (k.bad || cie_length == 0 || cie_length >= 0xfffffff0u ||
	    cie_length > (uint64_t)(k.end - k.at))
		return -1;
	k.end = k.at + cie_length;
	if (take(&k, 4) != 0)
		return -1;
	uint64_t version = take(&k, 1);
	if (version != 1 && version != 3 && version != 4)
		return -1;
	const char *aug = (const char *)k.at;
	while (take(&k, 1) != 0)
		if (k.bad)
			return -1;
	if (version == 4)
		skip(&k, 2);
	f->code_align = uleb(&k);
	f->data_align = sleb(&k);
	uint64_t ra = version == 1 ? take(&k, 1) : uleb(&k);
	if (k.bad || ra != CFI_RA)
		return -1;
	uint8_t fde_enc = 0;
	f->signal_frame = 0;
	int has_aug = aug[0] == 'z';
	if (has_aug) {
		uint64_t n = uleb(&k);
		if (k.bad || n > (uint64_t)(k.end - k.at))
			return -1;
		const uint8_t *after = k.at + n;
		for (const char *a = aug + 1; *a; a++) {
			if (*a == 'R')
				fde_enc = (uint8_t)take(&k, 1);
			else if (*a == 'P') {
				uint8_t enc = (uint8_t)take(&k, 1);
				encoded(&k, enc, 0);
			} else if (*a == 'L')
				take(&k, 1);
			else if (*a == 'S')
				f->signal_frame = 1;
			else if (*a != 'B')
				break; /* unknown: the rest is skipped by length */
		}
		if (k.bad)
			return -1;
		k.at = after;
	} else if (aug[0])
		return -1;
	f->cie_program = k;

	f->start = encoded(&c, fde_enc, im->eh_frame_hdr);
	f->end = f->start + encoded(&c, fde_enc & 0x0f, 0);
	if (has_aug)
		skip(&c, uleb(&c));
	f->program = c;
	return c.bad || k.bad ? -1 : 0;
}

static int find_fde(const struct cfi_image *im, uintptr_t pc, struct fde *f)
{
	if (!im->eh_frame_hdr)
		return -1;
	struct cursor c = cursor_at(im, im->eh_frame_hdr);
	uint64_t version = take(&c, 1);
	uint8_t frame_enc = (uint8_t)take(&c, 1);
	uint8_t count_enc = (uint8_t)take(&c, 1);
	uint8_t table_enc = (uint8_t)take(&c, 1);
	if (c.bad || version != 1)
		return -1;
	uintptr_t frames = encoded(&c, frame_enc, im->eh_frame_hdr);
	if (count_enc != PE_OMIT && table_enc == (PE_DATAREL | PE_SDATA4)) {
		uint64_t count = encoded(&c, count_enc, im->eh_frame_hdr);
		if (c.bad || count == 0 || count > (uint64_t)(c.end - c.at) / 8)
			return -1;
		int64_t want = (int64_t)(pc - im->eh_frame_hdr);
		uint64_t low = 0, high = count; /* last entry whose start <= pc */
		while (high - low > 1) {
			uint64_t mid = low + (high - low) / 2;
			int32_t start;
			memcpy(&start, c.at + mid * 8, 4);
			if (start <= want)
				low = mid;
			else
				high = mid;
		}
		int32_t entry[2];
		memcpy(entry, c.at + low * 8, 8);
		if (entry[0] > want)
			return -1;
		if (read_fde(im, im->eh_frame_hdr + (uintptr_t)(intptr_t)entry[1], f))
			return -1;
		return pc >= f->start && pc < f->end ? 0 : -1;
	}
	/* No table: walk the section to its terminator. */
	for (uintptr_t at = frames;;) {
		struct cursor w = cursor_at(im, at);
		uint64_t length = take(&w, 4);
		if (w.bad || length == 0 || length >= 0xfffffff0u ||
		    length > (uint64_t)(w.end - w.at))
			return -1;
		if (!read_fde(im, at, f) && pc >= f->start && pc < f->end)
			return 0;
		at = (uintptr_t)w.at + length;
	}
}

enum { REMEMBER_MAX = 4 };

struct machine {
	struct cfi_rules now, initial, remembered[REMEMBER_MAX];
	unsigned depth;
	uintptr_t loc;
	int bad;
};

static void set_rule(struct machine *m, uint64_t reg, enum cfi_how how, int64_t value)
{
	if (reg >= CFI_REGS)
		return; /* vector registers and the like: of no interest */
	if (value != (int32_t)value) {
		m->bad = 1;
		return;
	}
	m->now.reg[reg] = (struct cfi_rule){.value = (int32_t)value, .how = (uint8_t)how};
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg >= CFI_REGS || offset != (int32_t)offset) {
		m->bad = 1;
		return;
	}
	m->now.cfa_register = (uint8_t)reg;
	m->now.cfa_offset = (int32_t)offset;
	m->now.cfa_expr = 0;
}

/* Takes an expression block; its offset from the image, or bad. */
static int64_t expression(const struct cfi_image *im, struct cursor *c)
{
	int64_t at = (int64_t)((uintptr_t)c->at - im->low);
	skip(c, uleb(c));
	return at;
}

static void run(const struct cfi_image *im, struct machine *m, struct cursor c, const struct fde *f,
		uintptr_t pc, int initial)
{
	const int64_t da = f->data_align;
	while (c.at < c.end && !c.bad && !m->bad) {
		uint8_t op = (uint8_t)take(&c, 1);
		uint64_t reg;
		uintptr_t next = m->loc;
		switch (op >> 6) {
		case 1:
			next += (op & 0x3f) * f->code_align;
			goto advance;
		case 2:
			set_rule(m, op & 0x3f, CFI_AT_CFA, (int64_t)uleb(&c) * da);
			continue;
		case 3:
			reg = op & 0x3f;
			if (reg < CFI_REGS)
				m->now.reg[reg] = m->initial.reg[reg];
			continue;
		}
		switch (op) {
		case 0x00: break; /* nop */
		case 0x01: next = encoded(&c, 0, 0); goto advance; /* set_loc */
		case 0x02: next += take(&c, 1) * f->code_align; goto advance;
		case 0x03: next += take(&c, 2) * f->code_align; goto advance;
		case 0x04: next += take(&c, 4) * f->code_align; goto advance;
		case 0x05: reg = uleb(&c); set_rule(m, reg, CFI_AT_CFA, (int64_t)uleb(&c) * da); break;
		case 0x06:
			reg = uleb(&c);
			if (reg < CFI_REGS)
				m->now.reg[reg] = m->initial.reg[reg];
			break;
		case 0x07: set_rule(m, uleb(&c), CFI_UNDEFINED, 0); break;
		case 0x08: set_rule(m, uleb(&c), CFI_SAME, 0); break;
		case 0x09: reg = uleb(&c); set_rule(m, reg, CFI_REGISTER, (int64_t)uleb(&c)); break;
		case 0x0a:
			if (m->depth == REMEMBER_MAX)
				m->bad = 1;
			else
				m->remembered[m->depth++] = m->now;
			break;
		case 0x0b:
			if (!m->depth)
				m->bad = 1;
			else
				m->now = m->remembered[--m->depth];
			break;
		case 0x0c: reg = uleb(&c); set_cfa(m, reg, (int64_t)uleb(&c)); break;
		case 0x0d: set_cfa(m, uleb(&c), m->now.cfa_offset); break;
		case 0x0e: set_cfa(m, m->now.cfa_register, (int64_t)uleb(&c)); break;
		case 0x0f: {
			int64_t at = expression(im, &c);
			if (at != (int32_t)at || at == 0)
				m->bad = 1;
			m->now.cfa_expr = (int32_t)at;
			break;
		}
		case 0x10: reg = uleb(&c); set_rule(m, reg, CFI_AT_EXPR, expression(im, &c)); break;
		case 0x11: reg = uleb(&c); set_rule(m, reg, CFI_AT_CFA, sleb(&c) * da); break;
		case 0x12: reg = uleb(&c); set_cfa(m, reg, sleb(&c) * da); break;
		case 0x13: set_cfa(m, m->now.cfa_register, sleb(&c) * da); break;
		case 0x14: reg = uleb(&c); set_rule(m, reg, CFI_CFA_PLUS, (int64_t)uleb(&c) * da); break;
		case 0x15: reg = uleb(&c); set_rule(m, reg, CFI_CFA_PLUS, sleb(&c) * da); break;
		case 0x16: reg = uleb(&c); set_rule(m, reg, CFI_EXPR, expression(im, &c)); break;
		case 0x2e: uleb(&c); break; /* GNU_args_size */
		case 0x2f: reg = uleb(&c); set_rule(m, reg, CFI_AT_CFA, -(int64_t)uleb(&c) * da); break;
		default: m->bad = 1;
		}
		continue;
	advance:
		if (initial)
			continue;
		if (next > pc)
			return;
		m->loc = next;
	}
	if (c.bad)
		m->bad = 1;
}

int cfi_rules_at(const struct cfi_image *im, uintptr_t pc, struct cfi_rules *rules)
{
	struct fde f;
	if (find_fde(im, pc, &f))
		return -1;
	struct machine m;
	m.depth = 0;
	m.bad = 0;
	m.loc = f.start;
	memset(&m.now, 0, sizeof m.now);
	m.now.signal_frame = f.signal_frame;
	run(im, &m, f.cie_program, &f, pc, 1);
	m.initial = m.now;
	run(im, &m, f.program, &f, pc, 0);
	if (m.bad)
		return -1;
	*rules = m.now;
	return 0;
}

enum { EXPR_STACK = 16, EXPR_STEPS = 256 };

int cfi_evaluate(const struct cfi_image *im, int32_t at, const uint64_t regs[CFI_REGS], int push,
		 uint64_t initial, cfi_read_fn *read, void *ctx, uint64_t *result)
{
	if (at < 0)
		return -1;
	struct cursor c = cursor_at(im, im->low + (uintptr_t)at);
	uint64_t length = uleb(&c);
	if (c.bad || length > (uint64_t)(c.end - c.at))
		return -1;
	const uint8_t *start = c.at;
	c.end = c.at + length;
	uint64_t s[EXPR_STACK];
	unsigned n = 0;
	if (push)
		s[n++] = initial;
	for (unsigned steps = 0; c.at < c.end; steps++) {
		if (steps == EXPR_STEPS || c.bad)
			return -1;
		uint8_t op = (uint8_t)take(&c, 1);
		uint64_t v = 0, reg;
		int64_t jump;
		if (op >= 0x30 && op <= 0x4f)
			v = op - 0x30u; /* lit */
		else if (op >= 0x70 && op <= 0x8f) { /* breg */
			reg = op - 0x70u;
			int64_t off = sleb(&c);
			if (reg >= CFI_REGS)
				return -1;
			v = regs[reg] + (uint64_t)off;
		} else {
			switch (op) {
			case 0x03: case 0x0e: case 0x0f: v = take(&c, 8); break;
			case 0x08: v = take(&c, 1); break;
			case 0x09: v = (uint64_t)(int64_t)(int8_t)take(&c, 1); break;
			case 0x0a: v = take(&c, 2); break;
			case 0x0b: v = (uint64_t)(int64_t)(int16_t)take(&c, 2); break;
			case 0x0c: v = take(&c, 4); break;
			case 0x0d: v = (uint64_t)(int64_t)(int32_t)take(&c, 4); break;
			case 0x10: v = uleb(&c); break;
			case 0x11: v = (uint64_t)sleb(&c); break;
			case 0x12: if (!n) return -1; v = s[n - 1]; break; /* dup */
			case 0x14: if (n < 2) return -1; v = s[n - 2]; break; /* over */
			case 0x15: reg = take(&c, 1); if (reg >= n) return -1; v = s[n - 1 - reg]; break;
			case 0x13: if (!n) return -1; n--; continue; /* drop */
			case 0x16: if (n < 2) return -1; v = s[n - 1]; s[n - 1] = s[n - 2]; s[n - 2] = v; continue;
			case 0x06: /* deref */
				if (!n || !read || read(ctx, s[n - 1], &v))
					return -1;
				s[n - 1] = v;
				continue;
			case 0x94: /* deref_size */
				reg = take(&c, 1);
				if (!n || !read || read(ctx, s[n - 1], &v) || reg == 0 || reg > 8)
					return -1;
				s[n - 1] = reg == 8 ? v : v & ((1ull << reg * 8) - 1);
				continue;
			case 0x19: if (!n) return -1; if ((int64_t)s[n - 1] < 0) s[n - 1] = -s[n - 1]; continue;
			case 0x1f: if (!n) return -1; s[n - 1] = -s[n - 1]; continue;
			case 0x20: if (!n) return -1; s[n - 1] = ~s[n - 1]; continue;
			case 0x23: if (!n) return -1; s[n - 1] += uleb(&c); continue;
			case 0x2f: case 0x28: /* skip, bra */
				jump = (int16_t)take(&c, 2);
				if (op == 0x28) {
					if (!n)
						return -1;
					if (!s[--n])
						continue;
				}
				if (jump < start - c.at || jump > c.end - c.at)
					return -1;
				c.at += jump;
				continue;
			case 0x1a: case 0x1b: case 0x1c: case 0x1d: case 0x1e: case 0x21: case 0x22:
			case 0x24: case 0x25: case 0x26: case 0x27: case 0x29: case 0x2a: case 0x2b:
			case 0x2c: case 0x2d: case 0x2e: {
				if (n < 2)
					return -1;
				uint64_t b = s[--n], a = s[n - 1];
				int64_t sa = (int64_t)a, sb = (int64_t)b;
				switch (op) {
				case 0x1a: v = a & b; break;
				case 0x1b: if (!sb || (sb == -1 && sa == INT64_MIN)) return -1; v = (uint64_t)(sa / sb); break;
				case 0x1c: v = a - b; break;
				case 0x1d: if (!b) return -1; v = a % b; break;
				case 0x1e: v = a * b; break;
				case 0x21: v = a | b; break;
				case 0x22: v = a + b; break;
				case 0x24: v = b < 64 ? a << b : 0; break;
				case 0x25: v = b < 64 ? a >> b : 0; break;
				case 0x26: v = (uint64_t)(sa >> (b < 64 ? b : 63)); break;
				case 0x27: v = a ^ b; break;
				case 0x29: v = sa == sb; break;
				case 0x2a: v = sa >= sb; break;
				case 0x2b: v = sa > sb; break;
				case 0x2c: v = sa <= sb; break;
				case 0x2d: v = sa < sb; break;
				default: v = sa != sb; break;
				}
				s[n - 1] = v;
				continue;
			}
			case 0x96: continue; /* nop */
			default: return -1;
			}
		}
		if (n == EXPR_STACK)
			return -1;
		s[n++] = v;
	}
	if (c.bad || !n)
		return -1;
	*result = s[n - 1];
	return 0;
}

static cfi_row make_row(enum cfi_kind kind, int64_t cfa, int64_t rbp)
{
	if (cfa < 0 || cfa & 7 || cfa > 0xffff * 8 || rbp > 0 || -rbp & 7 || -rbp > 0x7ff * 8)
		return CFI_ROW_SLOW;
	return (cfi_row)kind | (cfi_row)(cfa / 8) << 3 | (cfi_row)(-rbp / 8) << 19;
}

/* Matches exactly one operation breg6 (rbp) + offset, optionally followed by deref. */
static int is_rbp_expr(const struct cfi_image *im, int32_t at, int deref, int64_t *offset)
{
	struct cursor c = cursor_at(im, im->low + (uintptr_t)at);
	uint64_t length = uleb(&c);
	if (c.bad || length > (uint64_t)(c.end - c.at))
		return 0;
	c.end = c.at + length;
	if (take(&c, 1) != 0x76)
		return 0;
	*offset = sleb(&c);
	if (deref && take(&c, 1) != 0x06)
		return 0;
	return !c.bad && c.at == c.end;
}

cfi_row cfi_row_at(const struct cfi_image *im, uintptr_t pc)
{
	struct cfi_rules r;
	if (cfi_rules_at(im, pc, &r))
		return CFI_ROW_NONE;
	const struct cfi_rule *ra = &r.reg[CFI_RA], *rbp = &r.reg[CFI_RBP];
	if (ra->how == CFI_UNDEFINED)
		return CFI_ROW_END;
	if (r.signal_frame) {
		/* mov $15, %rax; syscall: the trampoline whose frame is a ucontext. */
		static const uint8_t restore_rt[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
		/* Its "return address" is its first byte, so pc is one before it. */
		struct cursor c = cursor_at(im, pc);
		if (!c.bad && (uintptr_t)(c.end - c.at) > sizeof restore_rt &&
		    (!memcmp(c.at + 1, restore_rt, sizeof restore_rt) ||
		     !memcmp(c.at, restore_rt, sizeof restore_rt)))
			return CFI_ROW_SIGNAL;
		return CFI_ROW_SLOW;
	}
	if (ra->how != CFI_AT_CFA || ra->value != -8)
		return CFI_ROW_SLOW;
	if (r.reg[CFI_RSP].how != CFI_SAME)
		return CFI_ROW_SLOW;
	if (r.cfa_expr) {
		int64_t off, rbp_off;
		if (is_rbp_expr(im, r.cfa_expr, 1, &off) && rbp->how == CFI_AT_EXPR &&
		    is_rbp_expr(im, rbp->value, 0, &rbp_off) && rbp_off == 0 && off <= 0)
			return make_row(CFI_ROW_DRAP, -off, 0);
		/* A PLT's expression depends on pc and rsp alone: with pc known it is a constant. */
		uint64_t regs[CFI_REGS] = {0}, a, b;
		regs[CFI_RA] = pc;
		regs[CFI_RSP] = 0x10000;
		if (cfi_evaluate(im, r.cfa_expr, regs, 0, 0, NULL, NULL, &a))
			return CFI_ROW_SLOW;
		regs[CFI_RSP] = 0x20040;
		memset(regs, 0x55, sizeof(uint64_t) * CFI_RSP);
		if (cfi_evaluate(im, r.cfa_expr, regs, 0, 0, NULL, NULL, &b) ||
		    b - 0x20040 != a - 0x10000)
			return CFI_ROW_SLOW;
		if (rbp->how != CFI_SAME)
			return CFI_ROW_SLOW;
		return make_row(CFI_ROW_RSP, (int64_t)(a - 0x10000), 0);
	}
	if (rbp->how != CFI_SAME && (rbp->how != CFI_AT_CFA || rbp->value == 0))
		return CFI_ROW_SLOW;
	int64_t slot = rbp->how == CFI_AT_CFA ? rbp->value : 0;
	/* The quick path relies on it: rbp lies between rsp and the CFA. */
	if (r.cfa_register == CFI_RSP && r.cfa_offset >= 8 && -slot <= r.cfa_offset)
		return make_row(CFI_ROW_RSP, r.cfa_offset, slot);
	if (r.cfa_register == CFI_RBP)
		return make_row(CFI_ROW_RBP, r.cfa_offset, slot);
	return CFI_ROW_SLOW;
}
