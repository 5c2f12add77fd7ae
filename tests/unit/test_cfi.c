/* The reader of unwind tables against elfutils': for the C library, the loader,
 * libdw and this program, every table entry at addresses close together. Captures of running programs are compared with
 * libunwind in tests/integration. */
#include "capture/cfi.h"
#include "unit_test.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Alignas(8) char work[CFI_WORK_BYTES]; /* tests below do without */

static struct cfi_image image_of(void *code, uintptr_t *bias, const char **path)
{
	struct dl_find_object o;
	assert_int_equal(_dl_find_object(code, &o), 0);
	*bias = o.dlfo_link_map->l_addr;
	*path = o.dlfo_link_map->l_name[0] ? o.dlfo_link_map->l_name : "/proc/self/exe";
	return (struct cfi_image){(uintptr_t)o.dlfo_map_start,
				  (uintptr_t)o.dlfo_map_end,
				  (uintptr_t)o.dlfo_eh_frame,
				  {0},
				  work,
				  NULL,
				  0};
}

/* elfutils' answer in our words; -1 if it is an expression (compared by kind only). */
static int compare_at(Dwarf_CFI *cfi, const struct cfi_image *im, uintptr_t bias, uintptr_t pc,
		      unsigned *expressions)
{
	Dwarf_Frame *frame = NULL;
	struct cfi_rules r;
	int theirs = dwarf_cfi_addrframe(cfi, pc - bias, &frame);
	int ours = cfi_rules_at(im, pc, &r);
	if (theirs || ours) {
		free(frame);
		return theirs != 0 && ours != 0 ? 0 : 1;
	}
	int bad = 0;
	Dwarf_Op *ops;
	size_t count;
	if (!dwarf_frame_cfa(frame, &ops, &count)) {
		if (count == 1 && ops[0].atom >= 0x70 && ops[0].atom <= 0x8f)
			bad |= r.cfa_expr || r.cfa_register != ops[0].atom - 0x70 ||
			       r.cfa_offset != (int64_t)ops[0].number;
		else if (count == 1 && ops[0].atom == 0x92) /* bregx */
			bad |= r.cfa_expr || r.cfa_register != ops[0].number ||
			       r.cfa_offset != (int64_t)ops[0].number2;
		else {
			bad |= !r.cfa_expr;
			++*expressions;
		}
	}
	for (int reg = 0; reg < CFI_REGS; reg++) {
		Dwarf_Op mem[3];
		if (dwarf_frame_register(frame, reg, mem, &ops, &count))
			continue;
		const struct cfi_rule *rule = &r.reg[reg];
		if (count == 0 && ops == mem) /* undefined */
			bad |= rule->how != CFI_UNDEFINED &&
			       !(rule->how == CFI_SAME &&
				 reg != CFI_RA); /* caller-saved by the ABI */
		else if (count == 0)
			bad |= rule->how != CFI_SAME && rule->how != CFI_UNDEFINED;
		else if (ops[0].atom == 0x9c && count == 1) /* at CFA + 0 */
			bad |= rule->how != CFI_AT_CFA || rule->value != 0;
		else if (ops[0].atom == 0x9c && count == 2 && ops[1].atom == 0x23)
			bad |= rule->how != CFI_AT_CFA || rule->value != (int64_t)ops[1].number;
	}
	free(frame);
	return bad;
}

static void compare_object(void *code, unsigned least)
{
	uintptr_t bias;
	const char *path;
	struct cfi_image im = image_of(code, &bias, &path);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	/* The search table of .eh_frame_hdr gives the starts of all entries. */
	int32_t count;
	memcpy(&count, (void *)(im.eh_frame_hdr + 8), 4);
	unsigned compared = 0, bad = 0, expressions = 0;
	uintptr_t first_bad = 0;
	for (int32_t i = 0; i < count; i++) {
		int32_t rel, next = 0;
		memcpy(&rel, (void *)(im.eh_frame_hdr + 12 + (uintptr_t)i * 8), 4);
		uintptr_t pc = im.eh_frame_hdr + (uintptr_t)(intptr_t)rel, end = pc + 256;
		if (i + 1 < count) {
			memcpy(&next, (void *)(im.eh_frame_hdr + 12 + (uintptr_t)(i + 1) * 8), 4);
			uintptr_t limit = im.eh_frame_hdr + (uintptr_t)(intptr_t)next;
			end = limit < end ? limit : end;
		}
		for (; pc < end; pc += 1 + (pc & 3)) {
			int b = compare_at(cfi, &im, bias, pc, &expressions);
			if (b && !first_bad)
				first_bad = pc;
			bad += (unsigned)b;
			compared++;
		}
	}
	if (bad)
		print_message("%s: %u of %u differ, first at %#lx\n", path, bad, compared,
			      (unsigned long)(first_bad - bias));
	assert_int_equal(bad, 0);
	assert_true(compared >= least);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
}

TEST(test_libc)
{
	compare_object((void *)qsort, 50000);
}
TEST(test_libdw)
{
	compare_object((void *)dwarf_cfi_end, 10000);
}
TEST(test_itself)
{
	compare_object((void *)compare_at, 50);
}

TEST(test_loader)
{
	compare_object(dlsym(RTLD_DEFAULT, "_dl_find_object"), 5000);
}

TEST(test_rows_say_what_rules_say)
{
	uintptr_t bias;
	const char *path;
	struct cfi_image im = image_of((void *)qsort, &bias, &path);
	unsigned kinds[8] = {0};
	for (uintptr_t pc = (uintptr_t)qsort & ~4095ul; pc < ((uintptr_t)qsort & ~4095ul) + 200000;
	     pc++) {
		struct cfi_rules r;
		cfi_row row = cfi_row_at(&im, pc);
		kinds[cfi_row_kind(row)]++;
		if (cfi_row_kind(row) != CFI_ROW_RSP && cfi_row_kind(row) != CFI_ROW_RBP)
			continue;
		assert_int_equal(cfi_rules_at(&im, pc, &r), 0);
		if (!r.cfa_expr) {
			assert_int_equal(cfi_row_offset(row), r.cfa_offset);
			assert_int_equal(r.cfa_register,
					 cfi_row_kind(row) == CFI_ROW_RSP ? CFI_RSP : CFI_RBP);
		}
		assert_int_equal(-(int32_t)cfi_row_rbp(row),
				 r.reg[CFI_RBP].how == CFI_AT_CFA ? r.reg[CFI_RBP].value : 0);
	}
	assert_true(kinds[CFI_ROW_RSP] > 10000);
}

/* Memory of the expressions below: the word at an address is ten times the address. */
static int ten_times(void *ctx, uintptr_t address, uint64_t *value)
{
	(void)ctx;
	*value = 10 * address;
	return address < 0x1000 ? 0 : -1;
}

/* Expressions that start with 7 on the stack, in a frame with rbp 0x100 and rsp 0x200. */
TEST(test_expressions)
{
	static const struct {
		uint8_t length, operations[12];
		int has_value;
		uint64_t value;
	} cases[] = {
		{0, {0}, 1, 7}, /* nothing: the CFA itself */
		{1, {DW_OP_lit0 + 31}, 1, 31},
		{2, {DW_OP_breg0 + 7, 0x78}, 1, 0x1f8}, /* rsp - 8 */
		{2, {DW_OP_breg0 + 17, 0}, 0, 0},       /* no such register */
		{2, {DW_OP_const1s, 0xff}, 1, UINT64_MAX},
		{3, {DW_OP_const2u, 0xff, 0xff}, 1, 0xffff},
		{3, {DW_OP_constu, 0x80, 1}, 1, 128},
		{3, {DW_OP_breg0 + 6, 0, DW_OP_deref}, 1, 0xa00}, /* 10 * rbp */
		{4, {DW_OP_breg0 + 6, 0, DW_OP_deref_size, 1}, 1, 0},
		{4, {DW_OP_breg0 + 6, 0, DW_OP_deref_size, 9}, 0, 0},
		{4, {DW_OP_const2u, 0, 0x10, DW_OP_deref}, 0, 0}, /* cannot be read */
		{2, {DW_OP_lit0 + 3, DW_OP_minus}, 1, 4},         /* 7 - 3, not 3 - 7 */
		{3, {DW_OP_lit0 + 3, DW_OP_swap, DW_OP_minus}, 1, (uint64_t)-4},
		{2, {DW_OP_lit0 + 2, DW_OP_div}, 1, 3},
		{2, {DW_OP_lit0, DW_OP_div}, 0, 0},
		{2, {DW_OP_lit0, DW_OP_mod}, 0, 0},
		{2, {DW_OP_lit0 + 4, DW_OP_mod}, 1, 3},
		{3, {DW_OP_const1u, 64, DW_OP_shl}, 1, 0},
		{3, {DW_OP_neg, DW_OP_lit0 + 1, DW_OP_shra}, 1, (uint64_t)-4}, /* -7 rounded down */
		{2, {DW_OP_neg, DW_OP_abs}, 1, 7},
		{2, {DW_OP_plus_uconst, 5}, 1, 12},
		{2, {DW_OP_lit0 + 8, DW_OP_lt}, 1, 1},
		{3, {DW_OP_neg, DW_OP_lit0, DW_OP_ge}, 1, 0}, /* signed: -7 < 0 */
		{3, {DW_OP_lit0 + 3, DW_OP_pick, 1}, 1, 7},
		{3, {DW_OP_lit0 + 3, DW_OP_pick, 2}, 0, 0},
		{2, {DW_OP_lit0 + 3, DW_OP_over}, 1, 7},
		{2, {DW_OP_drop, DW_OP_dup}, 0, 0}, /* nothing is left to copy */
		{1, {DW_OP_drop}, 0, 0},
		{5, {DW_OP_dup, DW_OP_bra, 1, 0, DW_OP_neg}, 1, 7}, /* 7 is not 0: jumps over neg */
		{5, {DW_OP_lit0, DW_OP_bra, 1, 0, DW_OP_neg}, 1, (uint64_t)-7},
		{4, {DW_OP_skip, 1, 0, DW_OP_neg}, 1, 7},
		{4, {DW_OP_skip, 2, 0, DW_OP_neg}, 0, 0},       /* beyond the end */
		{3, {DW_OP_skip, 0xfd, 0xff}, 0, 0},            /* to itself, for ever */
		{3, {DW_OP_skip, 0xfc, 0xff}, 0, 0},            /* before the start */
		{4, {DW_OP_dup, DW_OP_skip, 0xfc, 0xff}, 0, 0}, /* fills the stack */
		{2, {DW_OP_const2u, 1}, 0, 0},                  /* its operand is cut */
		{1, {DW_OP_call_frame_cfa}, 0, 0},              /* has no place in unwind tables */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t image[16];
		image[0] = cases[i].length;
		memcpy(image + 1, cases[i].operations, sizeof cases[i].operations);
		struct cfi_image im = {
			(uintptr_t)image, (uintptr_t)image + sizeof image, 0, {0}, NULL, NULL, 0};
		const uint64_t regs[CFI_REGS] = {[CFI_RBP] = 0x100, [CFI_RSP] = 0x200}, cfa = 7;
		uint64_t value = 0;
		int rc = cfi_evaluate(&im, 0, regs, &cfa, ten_times, NULL, &value);
		if (rc != (cases[i].has_value ? 0 : -1) || value != cases[i].value)
			fail_msg("expression %zu: %d, %#lx", i, rc, (unsigned long)value);
	}
}

TEST(test_without_tables)
{
	struct cfi_image none = {4096, 8192, 0, {0}, NULL, NULL, 0};
	assert_int_equal(cfi_row_at(&none, 5000), CFI_ROW_NONE);
}

/* An object of two segments with a closed page between them: header in the first, frames in the
 * second, code (which nobody reads) in between. Whatever the tables say, nothing in the gap is read:
 * that would be a fault. */
enum { GAP_PAGE = 4096 };

static uint8_t *put32(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, 4);
	return at + 4;
}

/* version, encodings, .eh_frame (pc relative); then what stands at `after` */
static uint8_t *put_header(uint8_t *at, uint8_t count_encoding, const uint8_t *frames)
{
	const uint8_t head[] = {1, 0x1b, count_encoding, 0x3b};
	memcpy(at, head, 4);
	return put32(at + 4, (uint64_t)(frames - (at + 4)));
}

TEST(test_reads_stay_in_segments)
{
	uint8_t *base = mmap(NULL, 3 * GAP_PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	assert_int_equal(mprotect(base + GAP_PAGE, GAP_PAGE, PROT_NONE), 0);
	const Elf64_Phdr headers[] = {
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0, .p_memsz = GAP_PAGE},
		{.p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = GAP_PAGE, .p_memsz = GAP_PAGE},
		{.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 2 * GAP_PAGE, .p_memsz = GAP_PAGE},
	};
	uint8_t *hdr = base + 256, *frames = base + 2 * GAP_PAGE;
	uintptr_t code = (uintptr_t)base + GAP_PAGE + 64;
	struct cfi_image im = {(uintptr_t)base,
			       (uintptr_t)base + 3 * GAP_PAGE,
			       (uintptr_t)hdr,
			       {headers, 3, (uintptr_t)base},
			       NULL,
			       NULL,
			       0};
	/* CIE: CFA = rsp + 8, return address at CFA - 8 */
	static const uint8_t cie[] = {20, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
				      1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};
	memcpy(frames, cie, sizeof cie);
	uint8_t *fde = frames + sizeof cie, *at = put32(fde, 16);
	at = put32(at, (uint64_t)(at - frames));
	at = put32(at, code - (uintptr_t)at);
	at = put32(at, 100);
	put32(at, 0);
	at = put_header(hdr, 3, frames);
	at = put32(at, 1);
	at = put32(at, code - (uintptr_t)hdr);
	put32(at, (uint64_t)(fde - hdr));

	struct cfi_rules r;
	assert_int_equal(cfi_rules_at(&im, code + 10, &r), 0);
	assert_int_equal(r.cfa_register, CFI_RSP);
	assert_int_equal(r.cfa_offset, 8);
	assert_int_not_equal(cfi_rules_at(&im, code + 100, &r), 0);
	assert_int_equal(cfi_row_kind(cfi_row_at(&im, code + 10)), CFI_ROW_RSP);
	/* The walk without a table finds it too. */
	put_header(hdr, 0xff, frames);
	assert_int_equal(cfi_rules_at(&im, code + 10, &r), 0);
	/* Tables that lead into the gap: from its edge, from before it, and into its middle. */
	uint8_t *edge = base + GAP_PAGE;
	put_header(hdr, 0xff, edge);
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	put_header(hdr, 0xff, edge - 2);
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	put32(edge - 8, 64);
	put_header(hdr, 0xff, edge - 8);
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	im.eh_frame_hdr = (uintptr_t)edge - 16;
	put32(put_header(edge - 16, 3, frames), 3);
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	im.eh_frame_hdr = (uintptr_t)edge;
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	im.eh_frame_hdr = (uintptr_t)base + 3 * GAP_PAGE;
	assert_int_not_equal(cfi_rules_at(&im, code + 10, &r), 0);
	munmap(base, 3 * GAP_PAGE);
}

UNIT_TESTS(NULL, NULL)
