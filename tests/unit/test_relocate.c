/* Function entries moved elsewhere. The first tests have instructions and copies worked out by hand; relocate_plans
 * goes through every function of the allocators' and system's libraries; relocate_runs (test_near_page.c) runs copies.
 *
 * By hand: FROM is the function's address, TO that of the copy, 0x100000 above. What is D bytes behind the start of
 * the original and was relative to it gets 0x100000 less. A jump back from TO + a to FROM + b has b - a - 5 - 0x100000
 * as its displacement. */
#include "attach/relocate.h"
#include "hosted/error.h"
#include "unit_test.h"

#include <stdio.h>
#include <string.h>

#define FROM UINT64_C(0x10000000)
#define TO (FROM + 0x100000)

static struct relocated r;
static struct heft_error err;

/* The function's bytes are all there are. */
#define MOVE(...)                                                                                  \
	({                                                                                         \
		const uint8_t code_[] = {__VA_ARGS__};                                             \
		err.message[0] = 0;                                                                \
		relocate(&r, code_, sizeof code_, FROM, TO, sizeof code_, &err);                   \
	})
/* The function has `size` bytes, and others follow. */
#define MOVE_SHORT(at, size, ...)                                                                  \
	({                                                                                         \
		const uint8_t code_[] = {__VA_ARGS__};                                             \
		err.message[0] = 0;                                                                \
		relocate(&r, code_, sizeof code_, at, TO, size, &err);                             \
	})
#define assert_copy(...)                                                                           \
	({                                                                                         \
		const uint8_t copy_[] = {__VA_ARGS__};                                             \
		assert_int_equal(r.copy_bytes, sizeof copy_);                                      \
		assert_memory_equal(r.copy, copy_, sizeof copy_);                                  \
	})
#define assert_refused(call, words)                                                                \
	({                                                                                         \
		assert_int_equal(call, HEFT_EREFUSED);                                             \
		if (!strstr(err.message, words))                                                   \
			fail_msg("\"%s\" does not say \"%s\"", err.message, words);                \
	})

TEST(plain_instructions_are_copied)
{
	/* push rbp; mov rbp, rsp; sub rsp, 16; leave; ret */
	assert_int_equal(MOVE(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3), 0);
	assert_int_equal(r.displaced, 8);
	assert_copy(0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, /* jmp FROM + 8 */ 0xe9, 0xfb,
		    0xff, 0xef, 0xff);
	/* 0, 1, 4 in both; the jump back stands for 8. */
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM), TO);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 1), TO + 1);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 4), TO + 4);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 2), 0);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 8), 0);
	assert_int_equal(relocated_back(&r, FROM, TO, TO), FROM);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 4), FROM + 4);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 8), FROM + 8);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 2), 0);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 13), 0);
}

TEST(endbr64_is_copied)
{
	/* endbr64; push r13; ret */
	assert_int_equal(MOVE(0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x55, 0xc3), 0);
	assert_int_equal(r.displaced, 6);
	assert_copy(0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x55, 0xe9, 0xfb, 0xff, 0xef, 0xff);
}

TEST(rip_relative_operands_name_the_same_address)
{
	/* mov rax, [rip + 0x2010]; ret */
	assert_int_equal(MOVE(0x48, 0x8b, 0x05, 0x10, 0x20, 0, 0, 0xc3), 0);
	assert_int_equal(r.displaced, 7);
	assert_copy(0x48, 0x8b, 0x05, 0x10, 0x20, 0xf0, 0xff, 0xe9, 0xfb, 0xff, 0xef, 0xff);
	/* An immediate stands behind the displacement: cmp qword [rip + 0x2010], 5; ret */
	assert_int_equal(MOVE(0x48, 0x83, 0x3d, 0x10, 0x20, 0, 0, 5, 0xc3), 0);
	assert_int_equal(r.displaced, 8);
	assert_copy(0x48, 0x83, 0x3d, 0x10, 0x20, 0xf0, 0xff, 5, 0xe9, 0xfb, 0xff, 0xef, 0xff);
	/* As the second one: push rbx; lea rbx, [rip - 0x20]; ret */
	assert_int_equal(MOVE(0x53, 0x48, 0x8d, 0x1d, 0xe0, 0xff, 0xff, 0xff, 0xc3), 0);
	assert_copy(0x53, 0x48, 0x8d, 0x1d, 0xe0, 0xff, 0xef, 0xff, 0xe9, 0xfb, 0xff, 0xef, 0xff);
	/* vmovups ymm0, [rip + 0x10] */
	assert_int_equal(MOVE(0xc5, 0xfc, 0x10, 0x05, 0x10, 0, 0, 0, 0xc3), 0);
	assert_copy(0xc5, 0xfc, 0x10, 0x05, 0x10, 0, 0xf0, 0xff, 0xe9, 0xfb, 0xff, 0xef, 0xff);
	/* Not relative to rip: mov rax, [rbp + 0x10203040]; mov rax, fs:[0x28] */
	assert_int_equal(MOVE(0x48, 0x8b, 0x85, 0x40, 0x30, 0x20, 0x10, 0xc3), 0);
	assert_memory_equal(r.copy, "\x48\x8b\x85\x40\x30\x20\x10", 7);
	assert_int_equal(MOVE(0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0xc3), 0);
	assert_memory_equal(r.copy, "\x64\x48\x8b\x04\x25\x28\0\0\0", 9);
}

TEST(short_branches_become_long)
{
	/* test rdi, rdi; je FROM + 0x15 */
	uint8_t code[0x16] = {0x48, 0x85, 0xff, 0x74, 0x10};
	memset(code + 5, 0x90, sizeof code - 6);
	code[0x15] = 0xc3;
	assert_int_equal(relocate(&r, code, sizeof code, FROM, TO, sizeof code, &err), 0);
	assert_int_equal(r.displaced, 5);
	assert_copy(0x48, 0x85, 0xff, 0x0f, 0x84, 0x0c, 0x00, 0xf0, 0xff, 0xe9, 0xf7, 0xff, 0xef,
		    0xff);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 3), TO + 3);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 9), FROM + 5);
	/* test rdi, rdi; jmp FROM + 0x15: the end of the copy is not reached */
	code[3] = 0xeb;
	assert_int_equal(relocate(&r, code, sizeof code, FROM, TO, sizeof code, &err), 0);
	assert_copy(0x48, 0x85, 0xff, 0xe9, 0x0d, 0x00, 0xf0, 0xff);
}

TEST(long_branches_lead_where_they_led)
{
	/* jmp FROM + 0x105, a whole function */
	assert_int_equal(MOVE(0xe9, 0x00, 0x01, 0, 0), 0);
	assert_int_equal(r.displaced, 5);
	assert_copy(0xe9, 0x00, 0x01, 0xf0, 0xff);
	/* bnd jmp: the prefix means nothing any more */
	assert_int_equal(MOVE(0xf2, 0xe9, 0x00, 0x01, 0, 0), 0);
	assert_copy(0xe9, 0x01, 0x01, 0xf0, 0xff);
	/* jne FROM + 0x106; ret */
	assert_int_equal(MOVE(0x0f, 0x85, 0x00, 0x01, 0, 0, 0xc3), 0);
	assert_copy(0x0f, 0x85, 0x00, 0x01, 0xf0, 0xff, 0xe9, 0xfb, 0xff, 0xef, 0xff);
	/* jmp [rip + 0x100]; notrack jmp rax */
	assert_int_equal(MOVE(0xff, 0x25, 0x00, 0x01, 0, 0), 0);
	assert_copy(0xff, 0x25, 0x00, 0x01, 0xf0, 0xff);
	assert_int_equal(MOVE(0x48, 0x89, 0xf8, 0x3e, 0xff, 0xe0), 0);
	assert_copy(0x48, 0x89, 0xf8, 0x3e, 0xff, 0xe0);
}

TEST(branches_among_displaced_bytes_stay_among_their_copies)
{
	/* jmp FROM + 2; xor eax, eax; ret */
	assert_int_equal(MOVE(0xeb, 0x00, 0x31, 0xc0, 0xc3), 0);
	assert_int_equal(r.displaced, 5);
	assert_copy(0xe9, 0, 0, 0, 0, 0x31, 0xc0, 0xc3);
	/* A loop from the entry to itself: dec edi; jne FROM; ret; nop */
	assert_int_equal(MOVE(0xff, 0xcf, 0x75, 0xfc, 0xc3, 0x90), 0);
	assert_copy(0xff, 0xcf, 0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff, 0xc3);
	/* Into the middle of a displaced instruction: jmp FROM + 3; xor eax, eax; ret */
	assert_refused(MOVE(0xeb, 0x01, 0x31, 0xc0, 0xc3), "cannot reach its target");
	/* To the first that stays: test edi, edi; je FROM + 5; nop; ret */
	assert_int_equal(MOVE(0x85, 0xff, 0x74, 0x01, 0x90, 0xc3), 0);
	/* TO + 8 + d = FROM + 5; then a jump back from TO + 9 */
	assert_copy(0x85, 0xff, 0x0f, 0x84, 0xfd, 0xff, 0xef, 0xff, 0x90, 0xe9, 0xf7, 0xff, 0xef,
		    0xff);
}

TEST(calls_return_to_the_original)
{
	/* sub rsp, 8; call FROM + 9 + 0x04030201; ret */
	assert_int_equal(MOVE(0x48, 0x83, 0xec, 0x08, 0xe8, 1, 2, 3, 4, 0xc3), 0);
	assert_int_equal(r.displaced, 9);
	/* sub rsp, 8; push FROM + 9 in two halves; jmp. There is no jump back. */
	assert_copy(0x48, 0x83, 0xec, 0x08, 0x68, 0x09, 0, 0, 0x10, 0xc7, 0x44, 0x24, 0x04, 0, 0, 0,
		    0, 0xe9, 0xf4, 0x01, 0xf3, 0x03);
	assert_int_equal(relocated_pc(&r, FROM, TO, FROM + 4), TO + 4);
	assert_int_equal(relocated_back(&r, FROM, TO, TO + 9), 0); /* between push and jmp */
	/* call [rip]; ret */
	assert_int_equal(MOVE(0xff, 0x15, 0, 0, 0, 0, 0xc3), 0);
	assert_int_equal(r.displaced, 6);
	assert_copy(0x68, 0x06, 0, 0, 0x10, 0xc7, 0x44, 0x24, 0x04, 0, 0, 0, 0, 0xff, 0x25, 0xf3,
		    0xff, 0xef, 0xff);
	/* call FROM: it calls itself, through its entry */
	assert_int_equal(MOVE(0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3), 0);
	/* call FROM + 2 */
	assert_refused(MOVE(0xe8, 0xfd, 0xff, 0xff, 0xff, 0xc3), "cannot reach");
}

TEST(calls_by_register_are_refused)
{
	assert_refused(MOVE(0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3), "`call %rax` at 0x10000000 is a");
	/* Behind the displaced bytes a call is fine: sub rsp, 8; nop; call; ret */
	assert_int_equal(MOVE(0x48, 0x83, 0xec, 0x08, 0x90, 0xe8, 1, 2, 3, 4, 0xc3), 0);
	assert_int_equal(r.displaced, 5);
}

TEST(branches_back_are_refused)
{
	/* push rbx; mov rbx, rdi; dec rbx; jne FROM + 1, + 4, + 7; the first 7 bytes are displaced */
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x48, 0xff, 0xcb, 0x75, 0xf8, 0xc3),
		       "leads to the first instructions");
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x48, 0xff, 0xcb, 0x75, 0xfb, 0xc3), "`jnz 0x");
	assert_int_equal(MOVE(0x53, 0x48, 0x89, 0xfb, 0x48, 0xff, 0xcb, 0x75, 0xfe, 0xc3), 0);
	/* Back to the entry: a loop; with rel32 too */
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x48, 0xff, 0xcb, 0x75, 0xf7, 0xc3),
		       "leads to the first instructions");
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0xe9, 0xf6, 0xff, 0xff, 0xff),
		       "leads to the first instructions");
	/* A recursive call is a call, but not one into the middle. */
	assert_int_equal(MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0xe8, 0xf6, 0xff, 0xff, 0xff, 0xc3), 0);
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0xe8, 0xf7, 0xff, 0xff, 0xff, 0xc3),
		       "leads to the first instructions");
	/* lea rax, [FROM + 4], for an indirect jump; of the function itself it is fine */
	assert_refused(
		MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0x48, 0x8d, 0x05, 0xf8, 0xff, 0xff, 0xff, 0xc3),
		"leads to the first instructions");
	assert_int_equal(
		MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0x48, 0x8d, 0x05, 0xf4, 0xff, 0xff, 0xff, 0xc3),
		0);
	/* Bytes that are no instruction (06) do not end the search. */
	assert_refused(MOVE(0x53, 0x48, 0x89, 0xfb, 0x90, 0xc3, 0x06, 0x06, 0xeb, 0xf7),
		       "leads to the first instructions");
}

TEST(short_functions_need_padding)
{
	/* xor eax, eax; ret */
	assert_refused(MOVE(0x31, 0xc0, 0xc3), "has 3 bytes, and what follows is no padding");
	assert_refused(MOVE_SHORT(FROM, 3, 0x31, 0xc0, 0xc3, 0x55, 0x48, 0x89, 0xe5),
		       "is no padding");
	assert_refused(MOVE_SHORT(FROM, 3, 0x31, 0xc0, 0xc3, 0x90, 0x55, 0x48, 0x89),
		       "is no padding");
	static const uint8_t paddings[][8] = {
		{0x31, 0xc0, 0xc3, 0x90, 0x90, 0x55, 0x55, 0x55},
		{0x31, 0xc0, 0xc3, 0xcc, 0xcc, 0x55, 0x55, 0x55},
		{0x31, 0xc0, 0xc3, 0x66, 0x90, 0x55, 0x55, 0x55},
		{0x31, 0xc0, 0xc3, 0x0f, 0x1f, 0x44, 0x00, 0x00}, /* goes on behind */
	};
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(relocate(&r, paddings[i], 8, FROM, TO, 3, &err), 0);
		assert_int_equal(r.displaced, 5);
		assert_copy(0x31, 0xc0, 0xc3);
		/* Of no known length: what ends the flow ends the function. */
		assert_int_equal(relocate(&r, paddings[i], 8, FROM, TO, 0, &err), 0);
	}
	/* pause and xchg are no padding. */
	assert_refused(MOVE_SHORT(FROM, 3, 0x31, 0xc0, 0xc3, 0xf3, 0x90, 0x90), "is no padding");
	assert_refused(MOVE_SHORT(FROM, 3, 0x31, 0xc0, 0xc3, 0x41, 0x90, 0x90), "is no padding");
	/* A multiple of 16 ends padding: the next function may begin there. */
	assert_refused(MOVE_SHORT(FROM + 13, 3, 0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90),
		       "is no padding");
	assert_int_equal(MOVE_SHORT(FROM + 11, 3, 0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90), 0);
	/* A function that goes on behind its ret has no padding there. test; ret; then 4, xor, ret */
	assert_int_equal(MOVE(0x48, 0x85, 0xff, 0xc3, 0x31, 0xc0, 0xc3), 0);
	assert_int_equal(r.displaced, 6);
}

TEST(what_cannot_be_moved_is_refused)
{
	assert_refused(MOVE(0xcc, 0x48, 0x89, 0xe5, 0xc9, 0xc3), "is a breakpoint");
	assert_refused(MOVE(0x55, 0xcc, 0x89, 0xe5, 0xc9, 0xc3), "is a breakpoint");
	assert_refused(MOVE(0xcd, 0x80, 0x90, 0x90, 0x90, 0xc3), "is an interrupt");
	assert_refused(MOVE(0xe3, 0x10, 0x90, 0x90, 0x90, 0xc3), "without a long form");
	assert_refused(MOVE(0xe2, 0x10, 0x90, 0x90, 0x90, 0xc3), "without a long form");
	/* xbegin */
	assert_refused(MOVE(0xc7, 0xf8, 0x10, 0, 0, 0, 0xc3), "without a long form");
	/* data16 je: Intel and AMD differ */
	assert_refused(MOVE(0x66, 0x0f, 0x84, 0x10, 0x10, 0x10, 0x10, 0xc3), "agree");
	/* mov eax, [eip + 0x10] */
	assert_refused(MOVE(0x67, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3), "32 bits");
	/* No instruction; one that is cut; none at all */
	assert_refused(MOVE(0x06, 0x06, 0x06, 0x06, 0x06, 0xc3), "not a whole instruction");
	assert_refused(MOVE(0x55, 0x48, 0x8b, 0x05, 0x10), "not a whole instruction");
	assert_refused(MOVE(0x90, 0x90), "not a whole instruction");
	assert_int_equal(relocate(&r, (const uint8_t *)"", 0, FROM, TO, 0, &err), HEFT_EREFUSED);
	assert_int_equal(MOVE_SHORT(FROM, 7, 0x55, 0x48, 0x89, 0xe5, 0xc9, 0xc3), HEFT_EUSAGE);
}

TEST(what_is_too_far_is_refused)
{
	static const uint8_t plain[] = {0x55, 0x48, 0x89, 0xe5, 0xc9, 0xc3};
	static const uint8_t memory[] = {0x48, 0x8b, 0x05, 0, 0, 0, 0x40, 0xc3};
	const uint64_t gib = UINT64_C(1) << 30;
	assert_refused(relocate(&r, plain, 6, FROM, FROM + 3 * gib, 6, &err), "too far");
	/* mov rax, [rip + 1 GiB]: from 1.5 GiB below it is 2.5 GiB away, from as far above 0.5 GiB */
	assert_refused(relocate(&r, memory, 8, 4 * gib, 4 * gib - 3 * gib / 2, 8, &err),
		       "cannot reach its target");
	assert_int_equal(relocate(&r, memory, 8, 4 * gib, 4 * gib + 3 * gib / 2, 8, &err), 0);
}

static uint64_t branch_into(const uint8_t *text, size_t bytes, uint64_t low, uint64_t high)
{
	/* Among others that nothing leads to */
	struct branch_range ranges[] = {{FROM - 64, FROM - 56, 0}, {low, high, 0}, {TO, TO + 8, 0}};
	relocate_find_branches(text, bytes, FROM, ranges, 3);
	assert_int_equal(ranges[0].from, 0);
	assert_int_equal(ranges[2].from, 0);
	return ranges[1].from;
}

TEST(branches_from_elsewhere_are_found)
{
	/* A function at FROM + 0x40, whose cold part is at FROM: 16 x mov rax, rbx; jmp FROM + 0x44 */
	uint8_t text[0x80];
	memset(text, 0x90, sizeof text);
	memcpy(text + 0x40, "\x53\x48\x89\xfb\x31\xc0\xc3", 7);
	const uint64_t entry = FROM + 0x40;
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), 0);
	memcpy(text + 0x10, "\xe9\x2f\x00\x00\x00", 5);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), FROM + 0x10);
	/* je rel32 from behind, jmp rel8 */
	memset(text + 0x10, 0x90, 5);
	memcpy(text + 0x60, "\x0f\x84\xde\xff\xff\xff", 6);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), FROM + 0x60);
	memcpy(text + 0x60, "\xeb\xe2\x90\x90\x90\x90", 6);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), FROM + 0x60);
	/* To the entry it is a tail call; behind the displaced bytes it does no harm. */
	memcpy(text + 0x60, "\xeb\xde\x90\x90\x90\x90", 6);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), 0);
	memcpy(text + 0x60, "\xeb\xe4\x90\x90\x90\x90", 6);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), 0);
	/* A displaced branch to a displaced instruction goes with it. */
	memcpy(text + 0x40, "\xeb\x00\x31\xc0\xc3", 5);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 5), 0);
	/* The same bytes in the middle of mov rax, imm64 are no branch. */
	memcpy(text + 0x10, "\x48\xb8\x90\x90\xe9\x2b\x00\x00\x00\x90", 10);
	assert_int_equal(branch_into(text, sizeof text, entry, entry + 6), 0);
}

TEST(jumps_are_written_and_read)
{
	uint8_t jump[SLOT_JUMP_BYTES];
	assert_true(jump_write(jump, FROM, TO));
	assert_memory_equal(jump, "\xe9\xfb\xff\x0f\x00", 5);
	assert_int_equal(jump_target(jump, FROM), TO);
	assert_true(jump_write(jump, TO, FROM));
	assert_memory_equal(jump, "\xe9\xfb\xff\xef\xff", 5);
	assert_int_equal(jump_target(jump, TO), FROM);
	assert_int_equal(jump_target((const uint8_t *)"\xe8\0\0\0\0", TO), 0);
	assert_false(jump_write(jump, FROM, FROM + (UINT64_C(1) << 31) + 5));
	assert_true(jump_write(jump, FROM, FROM + (UINT64_C(1) << 31) + 4));
	assert_true(slot_jump_write(jump, FROM, FROM + 16));
	assert_memory_equal(jump, "\x4c\x8b\x0d\x11\x00\x00\x00\xff\x25\x03\x00\x00\x00", 13);
	assert_false(slot_jump_write(jump, FROM, FROM - (UINT64_C(1) << 31)));
}

/* 64 bytes of code at FROM */
static uint8_t walked[64];

static bool read_walked(void *context, uint64_t at, void *to, size_t bytes)
{
	(void)context;
	if (at < FROM || at - FROM > sizeof walked || bytes > sizeof walked - (at - FROM))
		return false;
	memcpy(to, walked + (at - FROM), bytes);
	return true;
}

static bool is_closed(const char *code, size_t bytes)
{
	const struct relocate_memory memory = {read_walked, NULL};
	memset(walked, 0xcc, sizeof walked);
	memcpy(walked, code, bytes);
	return relocate_is_closed(&memory, FROM);
}

TEST(what_calls_nobody_else_is_closed)
{
	assert_true(is_closed("\x48\x89\xf8\xc3", 4)); /* mov rax, rdi; ret */
	/* test edi, edi; je over; jmp self; over: ret */
	assert_true(is_closed("\x85\xff\x74\x02\xeb\xfa\xc3", 7));
	/* call 6; ret; 6: ret: all of it is there */
	assert_true(is_closed("\xe8\x01\0\0\0\xc3\xc3", 7));
	assert_true(is_closed("\xff\xe0", 2));                /* jmp rax: a table */
	assert_false(is_closed("\xff\xd0\xc3", 3));           /* call rax */
	assert_false(is_closed("\xff\x25\x10\0\0\0", 6));     /* jmp [rip + 16]: another module */
	assert_false(is_closed("\xff\x15\x10\0\0\0\xc3", 7)); /* call [rip + 16] */
	/* call 6; ret; 6: jmp [rip + 16] */
	assert_false(is_closed("\xe8\x01\0\0\0\xc3\xff\x25\x10\0\0\0", 12));
	/* je to where nothing can be read */
	assert_false(is_closed("\x0f\x84\0\0\x10\0\xc3", 7));
}

UNIT_TESTS(NULL, NULL)
