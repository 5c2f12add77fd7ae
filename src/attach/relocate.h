/* Moves the first instructions of a function somewhere else, so that a jump has space at its entry. What depends on
 * the architecture stands behind this interface; nothing here touches a process. */
#ifndef HEFT_ATTACH_RELOCATE_H
#define HEFT_ATTACH_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heft_error;

enum {
	JUMP_BYTES = 5,          /* what is written over an entry */
	SLOT_JUMP_BYTES = 13,    /* a jump through absolute slots */
	RELOCATE_MOST = 32,      /* bytes of whole instructions */
	RELOCATE_COPY_MOST = 96, /* their copy, and the jump back */
	RELOCATE_STEPS = 8,
};
/* How far a jump reaches, with a margin for the instruction itself. */
#define JUMP_REACH ((UINT64_C(1) << 31) - 4096)

struct relocated {
	/* Whole instructions that the jump overwrites at least in part. Each of them begins within JUMP_BYTES, so
	 * only these bytes change. Padding behind the function counts too. */
	uint8_t displaced;
	uint8_t copy_bytes; /* the copy, ending with a jump back to at + displaced unless its end is not reached */
	uint8_t copy[RELOCATE_COPY_MOST];
	/* Instructions: offset in the original, offset in the copy. The jump back is the last of them. */
	uint8_t steps, from[RELOCATE_STEPS], to[RELOCATE_STEPS];
};

/* code: the bytes at the entry, which is at `at`. There are n of them, up to where something else begins (the
 * next function); beyond function_bytes only padding is used. The whole function must be there: a branch of it
 * back to the displaced bytes refuses it. function_bytes 0: not known, all n bytes are searched.
 * copy_at: where the copy will lie. HEFT_EREFUSED: cannot be moved; the message says which instruction and why. */
int relocate(struct relocated *out, const uint8_t *code, size_t n, uint64_t at, uint64_t copy_at,
	     uint64_t function_bytes, struct heft_error *err);
/* The same instruction in the copy, for a pc in the displaced bytes; 0: no instruction begins there. */
uint64_t relocated_pc(const struct relocated *r, uint64_t at, uint64_t copy_at, uint64_t pc);
/* The other way, for a pc in the copy. */
uint64_t relocated_back(const struct relocated *r, uint64_t at, uint64_t copy_at, uint64_t pc);

/* Displaced bytes, from the first instruction to the first that stays. */
struct branch_range {
	uint64_t low, high;
	uint64_t from; /* a branch from elsewhere to behind low; 0: none was found */
};
/* Looks for such branches in the text of a module, for all ranges in one pass. Compilers put rare parts of a function
 * far away from it (NAME.cold), and those come back by such branches. */
void relocate_find_branches(const uint8_t *text, size_t bytes, uint64_t text_at,
			    struct branch_range *ranges, size_t count);

struct relocate_memory {
	bool (*read)(void *context, uint64_t at, void *to, size_t bytes);
	void *context;
};
/* Whether all code that a function can reach is its own module's, and little. Then its compiler may have told its callers
 * which registers it leaves alone (GCC's -fipa-ra), and a hook, which does not, would break them. Allocators are not so:
 * somewhere they call libc. */
bool relocate_is_closed(const struct relocate_memory *memory, uint64_t at);

/* A jump at `from` to `to`; false: too far. */
bool jump_write(uint8_t out[JUMP_BYTES], uint64_t from, uint64_t to);
/* Where the jump at `from` goes; 0: it is none that jump_write makes. */
uint64_t jump_target(const uint8_t jump[JUMP_BYTES], uint64_t from);
/* A jump at `from` to what the 8 bytes at `slot` hold, with the 8 bytes behind them in the register of a function's sixth
 * argument; false: too far. */
bool slot_jump_write(uint8_t out[SLOT_JUMP_BYTES], uint64_t from, uint64_t slot);

#endif
