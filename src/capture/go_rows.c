/* Rows from .gopclntab, the tables that a Go program needs to walk its own stacks.
 *
 *   pcHeader     magic, number of functions, offsets of the parts below
 *   functions    {offset of the entry from text, offset of the record}, sorted, and an end
 *   record       the name's offset, that of the table of stack depths ("pcsp"), flags
 *   pcsp         pairs of varints: change of depth, bytes of code that have it
 *   moduledata   in writable memory: points to pcHeader and its parts, and to text
 *
 * Nothing that is mapped names the place of these (section headers are not loaded, and symbols
 * may be stripped). So we look for pcHeader's magic in the segments of the object, once, and
 * believe it if a moduledata points to it and to its parts. We only look in an object that
 * has a note of Go's linker, or (it can be left out) if the return address is followed by the
 * code with which asmcgocall leaves the stack on which it calls C. But for the very first
 * calls of the program no stack leads from C into Go code in another way.
 *
 * The code after that return address also tells in which words asmcgocall keeps its caller's
 * stack; that has changed between versions of Go (1.18 to 1.26 are known, by their magic).
 *
 * All reads stay in the object's readable segments. What we found is kept by object, and
 * checked again at every use, so an object that was replaced costs rows, not a fault. */
#include "capture/go_rows.h"
#include "base/sys.h"
#include "capture/cfi_cursor.h"

#include <stdatomic.h>

enum {
	PAGE = 4096,
	OBJECTS = 8, /* Go code comes in the program, and in few libraries */
	MAGIC_118 = 0xfffffff0u,
	MAGIC_120 = 0xfffffff1u,
	FUNCTIONS_MOST = 1 << 26,
	TOP_FRAME = 1, /* flags of a function */
	WRITES_SP = 2,
	RBP_OF_PROLOGUE = 16, /* a saved rbp is next to the return address */
	CODE_BYTES = 48,
	CROSSCALL_BYTES = 128,
};

/* Words of moduledata. Each part is a slice: its address, then two words. */
enum {
	M_HEADER = 0,
	M_NAMES = 1,
	M_DEPTHS = 10,
	M_FUNCTIONS = 13,
	M_MIN_PC = 20,
	M_MAX_PC = 21,
	M_TEXT = 22,
	M_WORDS = 23
};

struct go_tables {
	uintptr_t names, depths, functions, text;
	uint64_t count;
	uint32_t magic;
};

struct go_function {
	uintptr_t entry;
	uint32_t name, depths;
	uint8_t flags;
};

/* ---- the tables of an object */

/* 1: moduledata; 0: a thread still looks for it. Only hints: see the top. */
enum { NOT_GO = 1 };
static struct {
	_Atomic uintptr_t low, moduledata;
} known[OBJECTS];
static _Atomic uint32_t known_count;

void go_rows_forget(void)
{
	for (unsigned i = 0; i < OBJECTS; i++)
		atomic_store_explicit(&known[i].low, 0, memory_order_relaxed);
}

static int read_header(const struct cfi_image *im, uintptr_t at, struct go_tables *g)
{
	struct cursor c = cursor_at(im, at);
	g->magic = (uint32_t)take(&c, 4);
	/* Two bytes of zero, instructions of any length, pointers of 8 bytes */
	if ((g->magic != MAGIC_118 && g->magic != MAGIC_120) || take(&c, 4) != 0x08010000)
		return -1;
	g->count = take(&c, 8);
	skip(&c, 16); /* number of files; text, in some versions */
	uint64_t names = take(&c, 8);
	skip(&c, 16);
	uint64_t depths = take(&c, 8), functions = take(&c, 8);
	uint64_t most = im->high - at;
	if (c.bad || !g->count || g->count > FUNCTIONS_MOST || names > most || depths > most ||
	    functions > most)
		return -1;
	g->names = at + names;
	g->depths = at + depths;
	g->functions = at + functions;
	return 0;
}

/* Whether a moduledata is here, for code at pc. */
static int read_moduledata(const struct cfi_image *im, uintptr_t at, uintptr_t pc,
			   struct go_tables *g)
{
	struct cursor c = cursor_at(im, at);
	uint64_t words[M_WORDS];
	for (unsigned i = 0; i < M_WORDS; i++)
		words[i] = take(&c, 8);
	g->text = words[M_TEXT];
	return c.bad || at & 7 || read_header(im, words[M_HEADER], g) ||
			       words[M_NAMES] != g->names || words[M_DEPTHS] != g->depths ||
			       words[M_FUNCTIONS] != g->functions || pc < words[M_MIN_PC] ||
			       pc >= words[M_MAX_PC] || g->text > pc
		       ? -1
		       : 0;
}

/* The next place from `at` on where a segment with these flags holds this word; 0: there is none. */
static uintptr_t find_word(const struct cfi_image *im, uintptr_t at, uint32_t flags, uint64_t word)
{
	uintptr_t best = 0;
	for (unsigned i = 0; i < im->segments.count; i++) {
		const Elf64_Phdr *ph = &im->segments.headers[i];
		uintptr_t start = im->segments.bias + ph->p_vaddr, end = start + ph->p_filesz;
		if (ph->p_type != PT_LOAD || (ph->p_flags & flags) != flags || end < start ||
		    start < im->low || end > im->high || (best && start >= best))
			continue;
		uintptr_t asked = 0;
		for (uintptr_t p = ((start > at ? start : at) + 7) & ~(uintptr_t)7; p + 8 <= end;
		     p += 8) {
			if (p / PAGE != asked / PAGE && !sys_readable((void *)p)) {
				p |= PAGE - 8;
				continue;
			}
			asked = p;
			if (*(const volatile uint64_t *)p == word) {
				best = p;
				break;
			}
		}
	}
	return best;
}

static uintptr_t find_moduledata(const struct cfi_image *im, uintptr_t pc)
{
	const uint32_t magics[] = {MAGIC_120, MAGIC_118};
	struct go_tables g;
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t word = magics[i] | 0x0801000000000000ull;
		for (uintptr_t header = 0; (header = find_word(im, header, PF_R, word));
		     header += 8) {
			if (read_header(im, header, &g))
				continue;
			for (uintptr_t m = 0; (m = find_word(im, m, PF_R | PF_W, header)); m += 8)
				if (!read_moduledata(im, m, pc, &g))
					return m;
		}
	}
	return 0;
}

/* Go's linker leaves a note with the id of the build, which may be empty or left out. */
static int has_note_of_go(const struct cfi_image *im)
{
	for (unsigned i = 0; i < im->segments.count; i++) {
		const Elf64_Phdr *ph = &im->segments.headers[i];
		if (ph->p_type != PT_NOTE)
			continue;
		struct cursor c = cursor_at(im, im->segments.bias + ph->p_vaddr);
		cursor_limit(&c, ph->p_memsz);
		for (;;) {
			uint64_t name = take(&c, 4), data = take(&c, 4);
			skip(&c, 4); /* type */
			if (c.bad)
				break;
			if (name == 4 && cursor_left(&c) >= 4 && !memcmp(c.at, "Go\0", 4))
				return 1;
			skip(&c, ((name + 3) & ~3ull) + ((data + 3) & ~3ull));
		}
	}
	return 0;
}

/* look: this object may be Go's. If nothing is known of it, find out. */
static int find_tables(const struct cfi_image *im, uintptr_t pc, int look, struct go_tables *g)
{
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (atomic_load_explicit(&known[i].low, memory_order_acquire) != im->low)
			continue;
		uintptr_t m = atomic_load_explicit(&known[i].moduledata, memory_order_relaxed);
		if (m == NOT_GO)
			return -1;
		if (!read_moduledata(im, m, pc, g))
			return 0;
	}
	if (!look || !im->segments.headers)
		return -1;
	uintptr_t m = find_moduledata(im, pc);
	unsigned at = atomic_fetch_add_explicit(&known_count, 1, memory_order_relaxed) % OBJECTS;
	atomic_store_explicit(&known[at].low, 0, memory_order_relaxed);
	atomic_store_explicit(&known[at].moduledata, m ? m : NOT_GO, memory_order_release);
	atomic_store_explicit(&known[at].low, im->low, memory_order_release);
	return m ? read_moduledata(im, m, pc, g) : -1;
}

/* ---- functions */

static uint32_t word_at(const struct cfi_image *im, uintptr_t at)
{
	struct cursor c = cursor_at(im, at);
	return (uint32_t)take(&c, 4);
}

static int find_function(const struct cfi_image *im, const struct go_tables *g, uintptr_t at,
			 struct go_function *f)
{
	struct cursor c = cursor_at(im, g->functions);
	const uint64_t offset = at - g->text;
	uint64_t low = 0, high = g->count;
	if (c.bad || cursor_left(&c) / 8 < g->count ||
	    offset >= word_at(im, g->functions + g->count * 8))
		return -1;
	/* The last one that begins at or before it: in [low, high) */
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		if (word_at(im, g->functions + middle * 8) <= offset)
			low = middle;
		else
			high = middle;
	}
	c = cursor_at(im, g->functions + word_at(im, g->functions + low * 8 + 4));
	uint32_t entry = (uint32_t)take(&c, 4);
	f->entry = g->text + entry;
	f->name = (uint32_t)take(&c, 4);
	skip(&c, 8); /* arguments, deferreturn */
	f->depths = (uint32_t)take(&c, 4);
	skip(&c, g->magic == MAGIC_120 ? 21 : 17);
	f->flags = (uint8_t)take(&c, 1);
	return c.bad || entry != word_at(im, g->functions + low * 8) || entry > offset ? -1 : 0;
}

static int is_named(const struct cfi_image *im, const struct go_tables *g,
		    const struct go_function *f, const char *name)
{
	struct cursor c = cursor_at(im, g->names + f->name);
	for (;; name++) {
		if (take(&c, 1) != (uint8_t)*name || c.bad)
			return 0;
		if (!*name)
			return 1;
	}
}

/* How far sp is below the return address when the code at `at` runs; -1: the table does not say. */
static int64_t depth_at(const struct cfi_image *im, const struct go_tables *g,
			const struct go_function *f, uintptr_t at)
{
	struct cursor c = cursor_at(im, g->depths + f->depths);
	uintptr_t pc = f->entry;
	int64_t depth = -1;
	if (!f->depths)
		return -1;
	for (int first = 1;; first = 0) {
		uint32_t change = (uint32_t)uleb(&c);
		if (c.bad || (!change && !first))
			return -1;
		depth += (int32_t)(change & 1 ? ~(change >> 1) : change >> 1);
		pc += uleb(&c);
		if (at < pc)
			return c.bad || depth < 0 || depth & 7 ? -1 : depth;
	}
}

/* ---- code */

/* Bytes of code, and zeros after the end of what may be read. */
struct code {
	uint8_t bytes[CODE_BYTES + 16];
};

static struct code code_at(const struct cfi_image *im, uintptr_t pc)
{
	struct code code = {0};
	struct cursor c = cursor_at(im, pc);
	for (unsigned i = 0; i < CODE_BYTES && !c.bad; i++)
		code.bytes[i] = (uint8_t)take(&c, 1);
	return code;
}

/* If the instruction here is OPCODE disp(%rsp) with this register, returns its length and sets *disp. Else 0. */
static unsigned with_stack_word(const uint8_t *p, uint8_t opcode, unsigned reg, unsigned *disp)
{
	if (p[0] != 0x48 || p[1] != opcode || p[3] != 0x24)
		return 0;
	*disp = p[2] == (0x44 | reg << 3) ? p[4] : 0;
	if (p[2] == (0x04 | reg << 3))
		return 4;
	return p[2] == (0x44 | reg << 3) && !(*disp & 7) && *disp < 128 ? 5 : 0;
}

static int starts(const uint8_t *p, const char *bytes, unsigned count)
{
	return !memcmp(p, bytes, count);
}

enum { LOAD = 0x8b, SUBTRACT = 0x2b, RDX = 2, RSI = 6, RDI = 7 };

/* What follows the call of C in asmcgocall. Returns how; 0: this is something else. */
static unsigned code_after_call(const uint8_t *p, struct go_switch *s)
{
	unsigned n;
	/* In a library, or a program that can be anywhere, %rcx becomes g's place in thread-local memory. The linker
	 * makes a constant of it if it can. */
	if (starts(p, "\x48\x8b\x0d", 3) || starts(p, "\x48\xc7\xc1", 3))
		p += 7;
	if ((n = with_stack_word(p, LOAD, RDI, &s->g))) { /* mov g(%rsp), %rdi */
		p += n;
		if (!starts(p, "\x48\x8b\x77\x08", 4)) /* mov 8(%rdi), %rsi: where its stack ends */
			return 0;
		p += 4;
		if (!(n = with_stack_word(p, SUBTRACT, RSI, &s->from)))
			return 0;
		for (p += n, n = 0; n < 16; n++)
			if (starts(p + n, "\x48\x89\xf4", 3)) /* mov %rsi, %rsp */
				return GO_CALL;
		return 0;
	}
	if ((n = with_stack_word(p, LOAD, RSI, &s->from)) && starts(p + n, "\x48\x89\xf4", 3))
		return GO_SAME;
	if ((n = with_stack_word(p, LOAD, RDX, &s->from)) && starts(p + n, "\x48\x89\xd4", 3))
		return GO_SAME;
	return 0;
}

/* asmcgocall makes room on the thread's stack: sub $N, %rsp; and $-16, %rsp. 0: it is not in [from, to). */
static unsigned room_made(const struct cfi_image *im, uintptr_t from, uintptr_t to)
{
	unsigned room = 0;
	for (; from < to; from++) {
		struct code code = code_at(im, from);
		if (starts(code.bytes, "\x48\x83\xec", 3) &&
		    starts(code.bytes + 4, "\x48\x83\xe4\xf0", 4))
			room = code.bytes[3];
	}
	return room & 7 ? 0 : room;
}

static cfi_row switch_row(const struct cfi_image *im, const struct go_tables *g,
			  const struct go_function *f, uintptr_t pc, uint64_t cfa)
{
	struct go_switch s = {0};
	if (is_named(im, g, f, "runtime.cgocallback"))
		s.how = GO_BACK;
	else if (is_named(im, g, f, "runtime.asmcgocall") ||
		 is_named(im, g, f, "runtime.asmcgocall_no_g")) {
		struct code code = code_at(im, pc);
		s.how = code_after_call(code.bytes, &s);
		if (s.how == GO_CALL)
			s.room = room_made(im, f->entry, pc);
	}
	/* The runtime works on the thread's stack from here on: it changes goroutines, say. */
	if (is_named(im, g, f, "runtime.systemstack") || is_named(im, g, f, "runtime.mcall") ||
	    is_named(im, g, f, "runtime.morestack"))
		return CFI_ROW_END;
	if (!s.how || (s.how == GO_CALL && !s.room) || cfa > 248 || s.room > 248)
		return CFI_ROW_NONE;
	return CFI_ROW_GO | s.how << 3 | (unsigned)cfa / 8 << 5 | s.from / 8 << 10 | s.g / 8 << 15 |
	       s.room / 8 << 20;
}

/* crosscall2 saves the registers of the C code that calls it. Newer ones begin as any function does, and save
 * rbp there; older ones save it where they save the others. Returns CFA - that place; 0: unknown. */
static unsigned rbp_of_crosscall2(const struct cfi_image *im, const struct go_tables *g,
				  const struct go_function *f)
{
	struct code code = code_at(im, f->entry);
	if (starts(code.bytes, "\x55\x48\x89\xe5", 4))
		return RBP_OF_PROLOGUE;
	for (uintptr_t at = f->entry; at < f->entry + CROSSCALL_BYTES; at++) {
		code = code_at(im, at);
		if (!starts(code.bytes, "\x48\x89\x6c\x24", 4)) /* mov %rbp, N(%rsp) */
			continue;
		int64_t place = depth_at(im, g, f, at) + 8 - code.bytes[4];
		return place >= RBP_OF_PROLOGUE && place < 256 && !(place & 7) ? (unsigned)place
									       : 0;
	}
	return 0;
}

cfi_row go_row_at(const struct cfi_image *im, uintptr_t pc, int exact)
{
	struct go_tables g;
	struct go_function f;
	struct go_switch unused;
	struct code code = code_at(im, pc);
	uintptr_t at = exact ? pc : pc - 1;
	if (find_tables(im, at, code_after_call(code.bytes, &unused) || has_note_of_go(im), &g) ||
	    find_function(im, &g, at, &f))
		return CFI_ROW_NONE;
	if (f.flags & TOP_FRAME)
		return CFI_ROW_END;
	int64_t depth = depth_at(im, &g, &f, at);
	uint64_t cfa = (uint64_t)depth + 8;
	if (depth < 0 || cfa / 8 > 0xffff)
		return CFI_ROW_NONE;
	if (f.flags & WRITES_SP)
		return exact ? CFI_ROW_NONE : switch_row(im, &g, &f, pc, cfa);
	unsigned slot = 0;
	if (is_named(im, &g, &f, "crosscall2")) {
		slot = rbp_of_crosscall2(im, &g, &f);
		if (!slot || slot > cfa)
			return CFI_ROW_NONE;
	}
	return CFI_ROW_RSP | (cfi_row)cfa / 8 << 3 | slot / 8 << 19;
}
