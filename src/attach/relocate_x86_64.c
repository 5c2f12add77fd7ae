/* Moves function entries of x86-64 (relocate.h). Zydis decodes; it appears in no other file.
 *
 * A jump of 5 bytes overwrites the first instructions of a function. These are copied to a place nearby, followed by
 * a jump to the first instruction that stayed whole. Most instructions mean the same anywhere. Two kinds do not:
 *
 *  - operands relative to rip get another displacement, so that they name the same address;
 *  - relative jumps get their long form. One that leads to another displaced instruction leads to its copy.
 *
 * Everything that cannot be moved exactly is refused, with the instruction in words:
 *
 *  - calls, because their return address would lie in the copy for as long as the callee runs. Then it could not be
 *    unmapped, and nobody could unwind through it;
 *  - branches from elsewhere to a displaced instruction, the first included: a loop that begins at the entry would
 *    call the hook once a round, with registers that are no arguments. A recursive call of the entry is a call
 *    like any other;
 *  - loop, jrcxz and xbegin, which have no long form; breakpoints, which somebody else has put there.
 *
 * A function may end before the 5th byte. Then the padding behind it is used: nops and int3, up to the next multiple
 * of 16, where compilers put the next function at the earliest if they pad at all. Nothing else is taken.
 *
 * endbr64 is copied like any instruction. Linux does not enforce indirect branch tracking in user space, so an entry
 * that begins with a jump instead is fine.
 *
 * Invariants: displaced instructions begin within the first 5 bytes. Bytes beyond n are never looked at. */
#include "attach/relocate.h"

#include "hosted/error.h"

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PADDING_ALIGNMENT = 16, MOST_INSTRUCTION = 15 };

struct decoded {
	ZydisDecodedInstruction in;
	bool relative;   /* a branch or call to `target` */
	bool rip_memory; /* names memory at `target` */
	uint64_t target;
};

static bool decode(const uint8_t *code, size_t n, uint64_t at, struct decoded *d)
{
	ZydisDecoder decoder;
	memset(d, 0, sizeof *d);
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code, n, &d->in)))
		return false;
	const ZydisDecodedInstruction *in = &d->in;
	uint64_t next = at + in->length;
	if (in->raw.imm[0].is_relative) {
		d->relative = true;
		d->target = next + (uint64_t)in->raw.imm[0].value.s;
	} else if ((in->attributes & ZYDIS_ATTRIB_HAS_MODRM) && in->raw.modrm.mod == 0 &&
		   in->raw.modrm.rm == 5 && in->raw.disp.size == 32) {
		d->rip_memory = true;
		d->target = next + (uint64_t)in->raw.disp.value;
	}
	return true;
}

/* The instruction after it is not reached from it. */
static bool ends_flow(const struct decoded *d)
{
	switch (d->in.mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT: return true;
	default:
		return d->in.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		       d->in.meta.category == ZYDIS_CATEGORY_RET;
	}
}

static bool is_jump(const struct decoded *d)
{
	return d->relative && d->in.mnemonic == ZYDIS_MNEMONIC_JMP;
}

static bool is_conditional(const struct decoded *d)
{
	return d->relative &&
	       ((d->in.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (d->in.opcode & 0xf0) == 0x70) ||
		(d->in.opcode_map == ZYDIS_OPCODE_MAP_0F && (d->in.opcode & 0xf0) == 0x80));
}

/* A call whose target does not depend on registers. The copy pushes the return address of the original and jumps: so the
 * function that is called returns to the original, behind the displaced bytes, and a stack looks as without us. */
static bool is_direct_call(const struct decoded *d)
{
	return d->in.meta.category == ZYDIS_CATEGORY_CALL &&
	       ((d->relative && d->in.length == 5) || (d->rip_memory && d->in.length == 6));
}
enum { PUSHED_BYTES = 13 }; /* push low half; mov high half */

static int refuse(struct heft_error *err, const uint8_t *code, size_t n, uint64_t at,
		  const char *why)
{
	ZydisDisassembledInstruction text;
	if (ZYAN_SUCCESS(ZydisDisassembleATT(ZYDIS_MACHINE_MODE_LONG_64, at, code, n, &text)))
		return heft_fail(err, HEFT_EREFUSED, "`%s` at 0x%llx %s", text.text,
				 (unsigned long long)at, why);
	return heft_fail(err, HEFT_EREFUSED, "the bytes at 0x%llx %s", (unsigned long long)at, why);
}

/* Why an instruction cannot stand anywhere else; NULL: it can. */
static const char *unmovable(const struct decoded *d)
{
	const ZydisDecodedInstruction *in = &d->in;
	if (in->mnemonic == ZYDIS_MNEMONIC_INT3)
		return "is a breakpoint: a debugger holds this function";
	if (in->meta.category == ZYDIS_CATEGORY_INTERRUPT)
		return "is an interrupt";
	if (in->meta.category == ZYDIS_CATEGORY_CALL && !is_direct_call(d))
		return "is a call, which would leave a return address in the copy";
	if (in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return "is a far branch";
	if (d->rip_memory && in->address_width != 64)
		return "takes an address of 32 bits relative to itself";
	if (!d->relative || is_direct_call(d))
		return NULL;
	if (!is_jump(d) && !is_conditional(d))
		return "is a branch without a long form";
	for (unsigned i = 0; i < in->raw.prefix_count; i++)
		if (in->raw.prefixes[i].value == 0x66)
			return "is a branch that processors do not agree about";
	return NULL;
}

/* Bytes [from, to) are padding: nops and int3, which nothing reaches. */
static bool is_padding(const uint8_t *code, size_t n, uint64_t at, size_t from, size_t to)
{
	if (to > n)
		return false;
	while (from < to) {
		struct decoded d;
		if (!decode(code + from, n - from, at + from, &d))
			return false;
		bool short_nop = d.in.length == 2 && code[from] == 0x66 && code[from + 1] == 0x90;
		if (d.in.mnemonic != ZYDIS_MNEMONIC_NOP && d.in.mnemonic != ZYDIS_MNEMONIC_INT3 &&
		    !short_nop)
			return false;
		/* One long nop may go on behind the 5th byte, but not into the next function. */
		from += d.in.length;
	}
	return true;
}

struct walk {
	struct decoded steps[RELOCATE_STEPS];
	uint8_t from[RELOCATE_STEPS], count;
	uint8_t displaced;
	bool ended; /* the flow of the last one does */
};

/* Finds the instructions that the jump overwrites. */
static int walk_entry(struct walk *w, const uint8_t *code, size_t n, uint64_t at,
		      uint64_t function_bytes, struct heft_error *err)
{
	size_t offset = 0;
	memset(w, 0, sizeof *w);
	while (offset < JUMP_BYTES) {
		bool behind = function_bytes ? offset >= function_bytes : w->ended;
		if (behind && w->ended) {
			uint64_t next = (at + offset + PADDING_ALIGNMENT - 1) &
					~(uint64_t)(PADDING_ALIGNMENT - 1);
			size_t most = next - at < n ? (size_t)(next - at) : n;
			if (!is_padding(code, most, at, offset, JUMP_BYTES))
				return heft_fail(err, HEFT_EREFUSED,
						 "the function at 0x%llx has %zu bytes, and what "
						 "follows is no padding",
						 (unsigned long long)at, offset);
			offset = JUMP_BYTES;
			break;
		}
		struct decoded *d = &w->steps[w->count];
		size_t left = n - offset;
		if (behind || !decode(code + offset, left, at + offset, d) ||
		    (function_bytes && offset + d->in.length > function_bytes))
			return refuse(err, code + offset, left, at + offset,
				      "is not a whole instruction of the function");
		const char *why = unmovable(d);
		if (why)
			return refuse(err, code + offset, left, at + offset, why);
		w->from[w->count++] = (uint8_t)offset;
		w->ended = ends_flow(d) || is_direct_call(d); /* that has the jump's length */
		offset += d->in.length;
	}
	w->displaced = (uint8_t)offset;
	return 0;
}

/* Branches of the function, those displaced excepted, which are rewritten. */
static int check_branches(const struct walk *w, const uint8_t *code, size_t n, uint64_t at,
			  uint64_t function_bytes, struct heft_error *err)
{
	size_t end = function_bytes ? (size_t)function_bytes : n;
	for (size_t offset = w->displaced; offset < end;) {
		struct decoded d;
		if (!decode(code + offset, n - offset, at + offset, &d)) {
			offset++; /* a table between the code */
			continue;
		}
		bool takes_address = d.rip_memory && d.in.mnemonic == ZYDIS_MNEMONIC_LEA;
		bool whole = takes_address || d.in.meta.category == ZYDIS_CATEGORY_CALL;
		if ((d.relative || takes_address) && d.target - at < w->displaced &&
		    !(whole && d.target == at))
			return refuse(err, code + offset, n - offset, at + offset,
				      "leads to the first instructions of its function");
		offset += d.in.length;
	}
	return 0;
}

static bool fits(uint64_t target, uint64_t next, int32_t *displacement)
{
	int64_t distance = (int64_t)(target - next);
	*displacement = (int32_t)distance;
	return distance == *displacement;
}

static void put_int32(uint8_t *to, int32_t value)
{
	memcpy(to, &value, sizeof value);
}

static uint8_t copied_bytes(const struct decoded *d)
{
	if (is_direct_call(d))
		return (uint8_t)(PUSHED_BYTES + d->in.length);
	return is_jump(d) ? JUMP_BYTES : is_conditional(d) ? JUMP_BYTES + 1 : d->in.length;
}

/* Where a branch of the copy leads: the copy of a displaced instruction, else where it led before. False: into the
 * middle of a displaced instruction. */
static bool copied_target(const struct relocated *r, uint64_t at, uint64_t copy_at,
			  uint64_t *target)
{
	if (*target - at >= r->displaced)
		return true;
	*target = relocated_pc(r, at, copy_at, *target);
	return *target != 0;
}

/* push imm32; mov dword [rsp + 4], imm32: the return address; then jmp rel32, or jmp [rip + disp32] */
static bool copy_call(uint8_t *to, const struct decoded *d, uint64_t returns_to, uint64_t next)
{
	int32_t displacement;
	if (!fits(d->target, next, &displacement))
		return false;
	*to++ = 0x68;
	put_int32(to, (int32_t)(uint32_t)returns_to);
	to += 4;
	memcpy(to, "\xc7\x44\x24\x04", 4);
	put_int32(to + 4, (int32_t)(uint32_t)(returns_to >> 32));
	to += 8;
	if (d->relative) {
		*to++ = 0xe9;
	} else {
		*to++ = 0xff;
		*to++ = 0x25;
	}
	put_int32(to, displacement);
	return true;
}

static bool copy_one(struct relocated *out, unsigned step, const struct decoded *d,
		     const uint8_t *code, uint64_t at, uint64_t copy_at)
{
	uint8_t *to = out->copy + out->to[step];
	uint64_t next = copy_at + out->to[step] + copied_bytes(d), target = d->target;
	int32_t displacement;
	if (is_direct_call(d)) /* of itself: through the entry again */
		return (target == at || target - at >= out->displaced) &&
		       copy_call(to, d, at + out->from[step] + d->in.length, next);
	if (!d->relative) {
		memcpy(to, code + out->from[step], d->in.length);
		if (!d->rip_memory)
			return true;
		if (!fits(target, next, &displacement))
			return false;
		put_int32(to + d->in.raw.disp.offset, displacement);
		return true;
	}
	if (!copied_target(out, at, copy_at, &target) || !fits(target, next, &displacement))
		return false;
	if (is_conditional(d)) {
		*to++ = 0x0f;
		*to++ = (uint8_t)(0x80 | (d->in.opcode & 15));
	} else {
		*to++ = 0xe9;
	}
	put_int32(to, displacement);
	return true;
}

int relocate(struct relocated *out, const uint8_t *code, size_t n, uint64_t at, uint64_t copy_at,
	     uint64_t function_bytes, struct heft_error *err)
{
	struct walk w;
	memset(out, 0, sizeof *out);
	if (function_bytes > n)
		return heft_fail(err, HEFT_EUSAGE,
				 "only %zu of %llu bytes of the function are here", n,
				 (unsigned long long)function_bytes);
	int rc = walk_entry(&w, code, n, at, function_bytes, err);
	if (rc == 0)
		rc = check_branches(&w, code, n, at, function_bytes, err);
	if (rc < 0)
		return rc;
	out->displaced = w.displaced;
	out->steps = w.count;
	for (unsigned i = 0; i < w.count; i++) {
		out->from[i] = w.from[i];
		out->to[i] = out->copy_bytes;
		out->copy_bytes = (uint8_t)(out->copy_bytes + copied_bytes(&w.steps[i]));
	}
	for (unsigned i = 0; i < w.count; i++)
		if (!copy_one(out, i, &w.steps[i], code, at, copy_at))
			return refuse(err, code + w.from[i], n - w.from[i], at + w.from[i],
				      "cannot reach its target from the copy");
	if (w.ended)
		return 0;
	if (!jump_write(out->copy + out->copy_bytes, copy_at + out->copy_bytes,
			at + out->displaced))
		return heft_fail(err, HEFT_EREFUSED, "the copy of 0x%llx is too far from it",
				 (unsigned long long)at);
	out->from[out->steps] = out->displaced;
	out->to[out->steps++] = out->copy_bytes;
	out->copy_bytes = (uint8_t)(out->copy_bytes + JUMP_BYTES);
	return 0;
}

uint64_t relocated_pc(const struct relocated *r, uint64_t at, uint64_t copy_at, uint64_t pc)
{
	for (unsigned i = 0; i < r->steps && i < RELOCATE_STEPS; i++)
		if (pc == at + r->from[i] && r->from[i] < r->displaced)
			return copy_at + r->to[i];
	return 0;
}

uint64_t relocated_back(const struct relocated *r, uint64_t at, uint64_t copy_at, uint64_t pc)
{
	for (unsigned i = 0; i < r->steps && i < RELOCATE_STEPS; i++)
		if (pc == copy_at + r->to[i])
			return at + r->from[i];
	return 0;
}

/* Whether an instruction begins at `offset`: decoding from places before it finds its way to the true boundaries
 * within a few instructions, so most of these ways meet there. */
static bool is_boundary(const uint8_t *text, size_t bytes, size_t offset)
{
	enum { STARTS = 16, BEFORE = 64 };
	unsigned met = 0, tried = 0;
	for (unsigned i = 0; i < STARTS; i++) {
		size_t back = BEFORE + i;
		size_t p = offset > back ? offset - back : 0;
		while (p < offset) {
			struct decoded d;
			p += decode(text + p, bytes - p, p, &d) ? d.in.length : 1;
		}
		tried++;
		met += p == offset;
	}
	return 2 * met >= tried;
}

/* A branch or call that seems to be at the start of `text`: its length, 0: none. */
static size_t branch_length(const uint8_t *text)
{
	if (text[0] == 0xe9 || text[0] == 0xe8)
		return 5;
	if (text[0] == 0xeb || (text[0] & 0xf0) == 0x70)
		return 2;
	return text[0] == 0x0f && (text[1] & 0xf0) == 0x80 ? 6 : 0;
}

void relocate_find_branches(const uint8_t *text, size_t bytes, uint64_t text_at,
			    struct branch_range *ranges, size_t count)
{
	uint64_t low = UINT64_MAX, high = 0; /* around all: most branches lead elsewhere */
	for (size_t k = 0; k < count; k++) {
		low = ranges[k].low < low ? ranges[k].low : low;
		high = ranges[k].high > high ? ranges[k].high : high;
	}
	for (size_t i = 0; i + 1 < bytes; i++) {
		size_t length = branch_length(text + i);
		if (!length || length > bytes - i)
			continue;
		int32_t distance = (int8_t)text[i + 1];
		if (length > 2)
			memcpy(&distance, text + i + length - 4, 4);
		uint64_t from = text_at + i, target = from + length + (uint64_t)(int64_t)distance;
		if (target - low >= high - low)
			continue;
		for (size_t k = 0; k < count; k++) {
			struct branch_range *r = &ranges[k];
			bool displaced = from >= r->low && from < r->high;
			if (target > r->low && target < r->high && !displaced && !r->from &&
			    is_boundary(text, bytes, i))
				r->from = from;
		}
	}
}

/* ---- what a function may call */

enum { REACH_MOST = 6000, REACH_SLOTS = 1 << 14, REACH_PENDING = 1024 };

struct reach {
	uint64_t seen[REACH_SLOTS]; /* instructions, by their address; 0: none */
	uint64_t pending[REACH_PENDING];
	unsigned seen_count, pending_count;
};

/* False: it was there. */
static bool reach_mark(struct reach *w, uint64_t at)
{
	uint32_t slot = (uint32_t)(at * 0x9e3779b97f4a7c15ull >> 50);
	while (w->seen[slot] && w->seen[slot] != at)
		slot = (slot + 1) % REACH_SLOTS;
	if (w->seen[slot])
		return false;
	w->seen[slot] = at;
	w->seen_count++;
	return true;
}

/* Follows the code from `at` to where it ends. False: it calls what only the run decides, or there is too much. */
static bool reach_from(struct reach *w, const struct relocate_memory *memory, uint64_t at)
{
	uint8_t code[MOST_INSTRUCTION];
	struct decoded d;
	for (; reach_mark(w, at); at += d.in.length) {
		size_t n = sizeof code;
		while (n && !memory->read(memory->context, at, code, n))
			n--;
		if (w->seen_count > REACH_MOST || !n || !decode(code, n, at, &d))
			return false;
		bool call = d.in.meta.category == ZYDIS_CATEGORY_CALL;
		bool jump = d.in.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
		/* A jump through a register is a table of the function itself; one through memory leads elsewhere. */
		if ((call && !d.relative) || (jump && !d.relative && d.rip_memory))
			return false;
		if (d.relative) {
			if (w->pending_count == REACH_PENDING)
				return false;
			w->pending[w->pending_count++] = d.target;
		}
		if (ends_flow(&d) || d.in.mnemonic == ZYDIS_MNEMONIC_INT3)
			break;
	}
	return true;
}

bool relocate_is_closed(const struct relocate_memory *memory, uint64_t at)
{
	struct reach *w = calloc(1, sizeof *w);
	bool closed = w != NULL;
	if (closed)
		w->pending[w->pending_count++] = at;
	while (closed && w->pending_count)
		closed = reach_from(w, memory, w->pending[--w->pending_count]);
	free(w);
	return closed;
}

bool jump_write(uint8_t out[JUMP_BYTES], uint64_t from, uint64_t to)
{
	int32_t displacement;
	if (!fits(to, from + JUMP_BYTES, &displacement))
		return false;
	out[0] = 0xe9;
	put_int32(out + 1, displacement);
	return true;
}

uint64_t jump_target(const uint8_t jump[JUMP_BYTES], uint64_t from)
{
	int32_t displacement;
	if (jump[0] != 0xe9)
		return 0;
	memcpy(&displacement, jump + 1, sizeof displacement);
	return from + JUMP_BYTES + (uint64_t)(int64_t)displacement;
}

bool slot_jump_write(uint8_t out[SLOT_JUMP_BYTES], uint64_t from, uint64_t slot)
{
	enum { LOAD_BYTES = 7, FIRST_BYTES = 8 };
	int32_t argument, target;
	if (!fits(slot + FIRST_BYTES, from + LOAD_BYTES, &argument) ||
	    !fits(slot, from + SLOT_JUMP_BYTES, &target))
		return false;
	/* mov argument(%rip), %r9; jmp *target(%rip) */
	static const uint8_t load[] = {0x4c, 0x8b, 0x0d}, jump[] = {0xff, 0x25};
	memcpy(out, load, sizeof load);
	put_int32(out + sizeof load, argument);
	memcpy(out + LOAD_BYTES, jump, sizeof jump);
	put_int32(out + LOAD_BYTES + sizeof jump, target);
	return true;
}
