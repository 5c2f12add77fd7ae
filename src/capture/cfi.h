/* The unwind tables of one loaded object (.eh_frame through .eh_frame_hdr), read
 * without locks or memory: for one pc, how to find the caller's frame.
 *
 * The answer has two forms. `struct cfi_rules` has a rule for every register and may
 * contain expressions; the slow path interprets it. `cfi_row` has 30 bits and covers
 * nearly every frame of real programs; the fast path caches it. All reads stay in the
 * object's readable segments; malformed tables give "no rules", never a fault. */
#ifndef HEFT_CAPTURE_CFI_H
#define HEFT_CAPTURE_CFI_H

#include "capture/segments.h"
#include "wire/blob.h"

#include <stdint.h>

struct cfi_image {
	uintptr_t low, high;    /* range of the object: nothing outside is read */
	uintptr_t eh_frame_hdr; /* 0: none */
	/* Nothing between them is read. Not known: all of the range may be. */
	struct heft_segments segments;
	/* CFI_WORK_BYTES, aligned as a pointer is, to keep off the stack what is large; NULL: it is there */
	void *work;
	/* In place of eh_frame_hdr: entries by code, relative to low; NULL: there is none */
	const struct wire_blob_unwind *unwind;
	uint64_t unwind_count;
};
enum { CFI_WORK_BYTES = 512 };

/* DWARF register numbers, x86-64 */
enum {
	CFI_RBX = 3,
	CFI_RBP = 6,
	CFI_RSP = 7,
	CFI_RA = 16,
	CFI_REGS = 17,
};

enum cfi_how {
	CFI_SAME = 0,  /* the register still has the caller's value */
	CFI_UNDEFINED, /* gone. If it is the return address, this is the outermost frame */
	CFI_AT_CFA,    /* saved at CFA + value */
	CFI_CFA_PLUS,  /* is CFA + value */
	CFI_REGISTER,  /* in register `value` */
	CFI_AT_EXPR,   /* saved at the address an expression gives; value: offset from image.low */
	CFI_EXPR,      /* is what an expression gives */
};

struct cfi_rule {
	int32_t value;
	uint8_t how; /* enum cfi_how */
};

/* How many sets of rules a table's program works with: those now, the initial ones, and the remembered. */
enum { CFI_REMEMBER_MAX = 4, CFI_SETS = 2 + CFI_REMEMBER_MAX };

/* It is large, since the program of a table works in it. */
struct cfi_rules {
	union {
		struct cfi_rule reg[CFI_REGS];
		struct cfi_rule sets[CFI_SETS * CFI_REGS];
	};
	int32_t cfa_offset; /* CFA = cfa_register + cfa_offset ... */
	int32_t cfa_expr;   /* ... or the expression at image.low + this, if not 0 */
	uint8_t cfa_register;
	uint8_t signal_frame;
};

/* 0: found. -1: no table entry covers pc, or it is malformed. */
int cfi_rules_at(const struct cfi_image *image, uintptr_t pc, struct cfi_rules *rules);

/* Evaluates the expression (ULEB length, then operations) at image.low + at. The rules of registers push
 * the CFA first: *initial, if it is not NULL. read() returns 0 and sets *value, or -1.
 * 0, or -1: the expression has no value. */
typedef int cfi_read_fn(void *ctx, uintptr_t address, uint64_t *value);
int cfi_evaluate(const struct cfi_image *image, int32_t at, const uint64_t regs[CFI_REGS],
		 const uint64_t *initial, cfi_read_fn *read, void *ctx, uint64_t *result);

/* A row: kind:3 | cfa offset / 8 : 16 | -(rbp slot offset from CFA) / 8 : 11. Never 0. */
typedef uint32_t cfi_row;
enum cfi_kind {
	CFI_ROW_GO = 0,     /* Go's assembly between two stacks: its bits are those of go_rows.h */
	CFI_ROW_RSP = 1,    /* CFA = rsp + offset; rbp saved at its slot if that is not 0 */
	CFI_ROW_RBP = 2,    /* CFA = rbp + offset; likewise */
	CFI_ROW_DRAP = 3,   /* realigned stack: CFA = *(rbp - offset), the caller's rbp = *rbp */
	CFI_ROW_SIGNAL = 4, /* kernel's signal frame: a ucontext lies at rsp */
	CFI_ROW_END = 5,    /* outermost frame */
	CFI_ROW_SLOW = 6,   /* only struct cfi_rules can say it; or, with an offset, CFI_ROW_MAIN */
	CFI_ROW_NONE = 7,   /* no unwind information */
};
/* The frame between the program's main and its caller (main_frame.c): no call stack shows it. CFA = rsp + 16 */
#define CFI_ROW_MAIN ((cfi_row)(CFI_ROW_SLOW | 2 << 3))
static inline unsigned cfi_row_kind(cfi_row r)
{
	return r & 7;
}
static inline uint32_t cfi_row_offset(cfi_row r)
{
	return (r >> 3 & 0xffff) * 8;
}
static inline uint32_t cfi_row_rbp(cfi_row r)
{
	return (r >> 19) * 8;
} /* slot = CFA - this; 0: none */

/* pc: the exact address to look up (a return address minus one, or an interrupted pc). */
cfi_row cfi_row_at(const struct cfi_image *image, uintptr_t pc);

#endif
