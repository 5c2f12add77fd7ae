/* Places near a module, in maps written by hand, and the maps themselves. */
#include "attach/relocate.h"
#include "attach/target_modules.h"
#include "hosted/error.h"
#include "unit_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define GIB (UINT64_C(1) << 30)

static struct heft_error err;

static struct target_modules maps_of(const char *text)
{
	struct target_modules m = {.memory_fd = -1};
	char *copy = strdup(text);
	assert_int_equal(target_maps_parse(&m.maps, copy, &err), 0);
	free(copy);
	return m;
}

static void add_module(struct target_modules *m, uint64_t low, uint64_t high, bool program)
{
	assert_true(vector_push(
		m, (struct target_module){.low = low, .high = high, .program = program}));
}

TEST(lines_of_maps)
{
	struct target_modules m = maps_of(
		"55d0c0a00000-55d0c0a02000 r--p 00000000 fd:01 1234       /usr/bin/a b\n"
		"55d0c0a02000-55d0c0a03000 r-xp 00002000 fd:01 1234       /usr/bin/a b (deleted)\n"
		"55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0          [heap]\n"
		"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
		"7f0000001000-7f0000002000 ---s 7fff00000000 00:2f 18446744073709551615 /x\\012y\n"
		"nonsense\n"
		"7f0000001800-7f0000003000 rw-p 00000000 00:00 0 \n" /* not ascending */
		"7f0000005000-7f0000005000 rw-p 00000000 00:00 0 \n" /* empty */
		"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]");
	assert_int_equal(m.maps.count, 6);
	const struct target_mapping *p = m.maps.items;
	assert_int_equal(p[0].start, 0x55d0c0a00000);
	assert_int_equal(p[0].end, 0x55d0c0a02000);
	assert_true(p[0].read && !p[0].write && !p[0].execute && !p[0].deleted);
	assert_string_equal(p[0].name, "/usr/bin/a b");
	assert_true(p[1].execute && p[1].deleted);
	assert_int_equal(p[1].offset, 0x2000);
	assert_int_equal(p[1].device_major, 0xfd);
	assert_int_equal(p[1].inode, 1234);
	assert_string_equal(p[1].name, "/usr/bin/a b");
	assert_string_equal(p[2].name, "[heap]");
	assert_string_equal(p[3].name, "");
	assert_int_equal(p[3].inode, 0);
	assert_int_equal(p[4].inode, UINT64_MAX);
	assert_int_equal(p[4].offset, 0x7fff00000000);
	assert_string_equal(p[4].name, "/x\ny");
	assert_true(!p[4].read && p[4].shared && !p[3].shared);
	assert_string_equal(p[5].name, "[vsyscall]");
	assert_ptr_equal(target_maps_find(&m.maps, 0x55d0c0a01fff), &p[0]);
	assert_ptr_equal(target_maps_find(&m.maps, 0x55d0c0a02000), &p[1]);
	assert_null(target_maps_find(&m.maps, 0x55d0c0a03000));
	assert_null(target_maps_find(&m.maps, 0));
	assert_null(target_maps_find(&m.maps, UINT64_MAX));
	target_modules_fini(&m);
}

/* A place is in the middle of a gap, up to a page. */
static void in_gap(uint64_t place, uint64_t bytes, uint64_t from, uint64_t to)
{
	assert_in_range(place, from, to - bytes);
	uint64_t before = place - from, behind = to - bytes - place;
	assert_true(before <= behind && behind - before <= PAGE);
}

/* The lowest place from which jumps reach up to `high`. */
static uint64_t lowest(uint64_t high)
{
	return high - JUMP_REACH;
}

TEST(the_place_is_in_the_middle_of_the_largest_gap)
{
	struct target_modules m = maps_of(
		"7f0000000000-7f0000100000 r--p 00000000 fd:01 1  /lib/a\n"
		"7f0000300000-7f0000500000 r-xp 00000000 fd:01 2  /lib/b\n");
	add_module(&m, 0x7f0000000000, 0x7f0000100000, false);
	add_module(&m, 0x7f0000300000, 0x7f0000500000, false);
	/* 2 GiB less a page below the end of b: 0x7eff80501000; 0x7fafe pages are free up to a, after the
	 * one that is wanted. Half of them is 0x3fd7f. */
	assert_int_equal(lowest(0x7f0000500000), 0x7eff80501000);
	assert_int_equal(target_place_near(&m, 0x7f0000300000, 0x7f0000500000, 1), 0x7effc0280000);
	/* With two more pages it begins a page earlier. */
	assert_int_equal(target_place_near(&m, 0x7f0000300000, 0x7f0000500000, 2 * PAGE + 1),
			 0x7effc027f000);
	/* There is another mapping in the way: the gap above it is smaller, but the larger of the two. */
	struct target_modules n = maps_of(
		"7eff80601000-7effc0000000 rw-p 00000000 00:00 0\n"
		"7f0000000000-7f0000100000 r--p 00000000 fd:01 1  /lib/a\n"
		"7f0000300000-7f0000500000 r-xp 00000000 fd:01 2  /lib/b\n");
	assert_int_equal(target_place_near(&n, 0x7f0000300000, 0x7f0000500000, 0x2000),
			 0x7effdffff000);
	/* No more than is there */
	assert_int_equal(target_place_near(&n, 0x7f0000300000, 0x7f0000500000, GIB),
			 0x7effc0000000);
	target_modules_fini(&n);
	/* Nonsense */
	assert_int_equal(target_place_near(&m, 2, 1, 1), 0);
	assert_int_equal(target_place_near(&m, 0x10000, 0x20000, 0), 0);
	assert_int_equal(target_place_near(&m, 0, UINT64_MAX, PAGE), 0);
	assert_int_equal(target_place_near(&m, 0x7f0000300000, 0x7f0000500000, SIZE_MAX), 0);
	assert_int_equal(target_place_near(&m, 0x7f0000300000, 0x7f0080300000, PAGE), 0);
	target_modules_fini(&m);
}

TEST(gaps_of_modules_stay_free)
{
	/* Two segments with 2 MiB between them; below everything is taken. */
	struct target_modules m = maps_of(
		"7eff00000000-7f0000100000 r--p 00000000 00:00 0\n"
		"7f0000100000-7f0000101000 r--p 00000000 fd:01 1  /lib/a\n"
		"7f0000301000-7f0000302000 rw-p 00001000 fd:01 1  /lib/a\n"
		"7f0000303000-7f0000304000 rw-p 00001000 00:00 0\n");
	add_module(&m, 0x7f0000100000, 0x7f0000303000, false);
	/* Free are a page behind the module, and what is above. */
	in_gap(target_place_near(&m, 0x7f0000100000, 0x7f0000303000, PAGE), PAGE, 0x7f0000304000,
	       0x7f0000100000 + JUMP_REACH);
	/* The end of the module has pages that are not mapped. */
	m.items[0].high = 0x7f0000308000;
	m.maps.items[3].start += 0x100000;
	m.maps.items[3].end += 0x100000;
	m.maps.items[3].end = 0x7f0080100000;
	in_gap(target_place_near(&m, 0x7f0000100000, 0x7f0000308000, PAGE), PAGE, 0x7f0000308000,
	       0x7f0000403000);
	target_modules_fini(&m);
}

TEST(a_program_at_the_bottom)
{
	/* Below 0x400000 there is space; kernels map nothing below 0x10000. */
	struct target_modules m = maps_of("00400000-00500000 r-xp 00000000 fd:01 1  /bin/a\n"
					  "00500000-00600000 rw-p 00000000 00:00 0  [heap]\n");
	add_module(&m, 0x400000, 0x500000, true);
	in_gap(target_place_near(&m, 0x400000, 0x500000, PAGE), PAGE, 0x10000, 0x400000);
	assert_int_equal(target_place_near(&m, 0x400000, 0x500000, 0x3f0000), 0x10000);
	/* Larger: above, where the heap does not grow so soon. */
	in_gap(target_place_near(&m, 0x400000, 0x500000, 0x3f1000), 0x3f1000, 0x600000 + GIB,
	       0x400000 + JUMP_REACH);
	target_modules_fini(&m);
	/* The heap is not there yet. */
	m = maps_of("00010000-00500000 r-xp 00000000 fd:01 1  /bin/a\n");
	add_module(&m, 0x10000, 0x500000, true);
	in_gap(target_place_near(&m, 0x10000, 0x500000, PAGE), PAGE, 0x500000 + GIB,
	       0x10000 + JUMP_REACH);
	/* Of a library it is just above. */
	m.items[0].program = false;
	in_gap(target_place_near(&m, 0x10000, 0x500000, PAGE), PAGE, 0x500000,
	       0x10000 + JUMP_REACH);
	target_modules_fini(&m);
	/* Between the program and its heap */
	m = maps_of("00010000-00500000 r-xp 00000000 fd:01 1  /bin/a\n"
		    "00900000-00a00000 rw-p 00000000 00:00 0  [heap]\n");
	add_module(&m, 0x10000, 0x500000, true);
	m.maps.items[1].end = 0x80000000 - 2 * PAGE;
	in_gap(target_place_near(&m, 0x10000, 0x500000, PAGE), PAGE, 0x500000, 0x900000);
	target_modules_fini(&m);
}

TEST(stacks_can_grow)
{
	struct target_modules m = maps_of(
		"00010000-7ffff0000000 r-xp 00000000 fd:01 1  /bin/a\n"
		"7ffff7000000-7ffff7021000 rw-p 00000000 00:00 0  [stack]\n");
	/* 112 MiB below the stack are too few; above it there is space. */
	in_gap(target_place_near(&m, 0x7fffe0000000, 0x7ffff0000000, PAGE), PAGE, 0x7ffff7021000,
	       0x7ffffffff000);
	target_modules_fini(&m);
	m = maps_of("00010000-7fff80000000 r-xp 00000000 fd:01 1  /bin/a\n"
		    "7ffff7000000-7ffffffff000 rw-p 00000000 00:00 0  [stack]\n");
	in_gap(target_place_near(&m, 0x7fff70000000, 0x7fff80000000, PAGE), PAGE, 0x7fff80000000,
	       0x7ffff7000000 - GIB);
	assert_int_equal(
		target_place_near(&m, 0x7fff70000000, 0x7fff80000000, 0x77000000 - GIB + PAGE), 0);
	target_modules_fini(&m);
}

TEST(jumps_reach_from_end_to_end)
{
	/* Free only far below; the place must reach the last byte of the module. */
	struct target_modules m = maps_of("100000000-200001000 r--p 00000000 00:00 0\n"
					  "200001000-7ffffffff000 r--p 00000000 00:00 0\n");
	in_gap(target_place_near(&m, 0x140000000, 0x170000000, PAGE), PAGE, lowest(0x170000000),
	       0x100000000);
	/* 0x180000000 - (0x100000000 - PAGE) is 2 GiB and a page: too far. */
	assert_int_equal(target_place_near(&m, 0x140000000, 0x180000000, PAGE), 0);
	uint64_t low = 0x140000000, high = 0x100000000 - PAGE + JUMP_REACH;
	assert_int_equal(target_place_near(&m, low, high, PAGE), 0x100000000 - PAGE);
	assert_int_equal(target_place_near(&m, low, high + 1, PAGE), 0);
	uint8_t jump[JUMP_BYTES];
	assert_true(jump_write(jump, 0x100000000 - PAGE, high));
	assert_true(jump_write(jump, high, 0x100000000 - PAGE));
	target_modules_fini(&m);
}

/* Near every module of this process something can be mapped where it says. */
TEST(places_are_free)
{
	struct target_modules m;
	assert_int_equal(target_modules_read(&m, getpid(), &err), 0);
	assert_true(m.count >= 3);
	for (size_t i = 0; i < m.count; i++) {
		const struct target_module *mod = &m.items[i];
		uint64_t at = target_place_near(&m, mod->low, mod->high, 3 * PAGE);
		assert_int_not_equal(at, 0);
		assert_int_equal(target_module_at(&m, at), -1);
		void *wanted = (void *)(uintptr_t)at;
		void *map = mmap(wanted, 3 * PAGE, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		assert_ptr_equal(map, wanted);
		munmap(map, 3 * PAGE);
		uint64_t end = at + 3 * PAGE;
		uint64_t first = at < mod->low ? at : mod->low;
		assert_true((end > mod->high ? end : mod->high) - first < (UINT64_C(1) << 31));
	}
	target_modules_fini(&m);
}

UNIT_TESTS(NULL, NULL)
