/* Near pages: their bytes, what is read back, and real functions of libc run through copies in this process. */
#include "attach/near_page.h"
#include "attach/target_branches.h"
#include "hosted/error.h"
#include "unit_test.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FROM UINT64_C(0x10000000)
#define NEAR (FROM + 0x100000)
#define HOOK UINT64_C(0x7700deadbeef)

static struct heft_error err;
/* push rbp; mov rbp, rsp; sub rsp, 16; leave; ret */
static const uint8_t plain[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3};
static const uint8_t calling[] = {0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3}; /* call *%rax */

static struct near_page two_functions(void)
{
	struct near_page p;
	assert_int_equal(near_page_init(&p, NEAR, 2, &err), 0);
	assert_int_equal(
		near_page_add(&p, "first", plain, sizeof plain, FROM, sizeof plain, HOOK, 7, &err),
		0);
	assert_int_equal(near_page_add(&p, "second", plain, sizeof plain, FROM + 64, sizeof plain,
				       HOOK + 1, 8, &err),
			 1);
	return p;
}

TEST(page_has_trampolines_slots_and_copies)
{
	struct near_page p = two_functions();
	assert_int_equal(p.size, 4096);
	assert_int_equal(near_page_count(&p), 2);
	const struct near_entry *e = near_page_entry(&p, 0);
	assert_memory_equal(e->old, plain, 8);
	assert_string_equal(e->name, "first");
	/* mov r9, [rip + 17]; jmp [rip + 3]: 13 bytes, 3 of filler, the slots */
	assert_memory_equal(p.bytes + e->trampoline,
			    "\x4c\x8b\x0d\x11\0\0\0\xff\x25\x03\0\0\0\xcc\xcc\xcc", 16);
	uint64_t slots[2];
	memcpy(slots, p.bytes + e->slot, 16);
	assert_int_equal(slots[0], HOOK);
	assert_int_equal(slots[1], 7);
	assert_memory_equal(p.bytes + e->copy, plain, 8);
	assert_int_equal(p.bytes[e->copy + 8], 0xe9);
	assert_int_equal(jump_target(p.bytes + e->copy + 8, NEAR + e->copy + 8), FROM + 8);
	assert_int_equal(p.bytes[e->copy + 13], 0xcc);
	uint8_t jump[JUMP_BYTES];
	near_page_jump(&p, 1, jump);
	assert_int_equal(jump_target(jump, FROM + 64), near_page_trampoline(&p, 1));
	near_page_fini(&p);
}

TEST(pcs_go_over_and_back)
{
	struct near_page p = two_functions();
	uint64_t copy = near_page_copy(&p, 1);
	assert_int_equal(near_page_pc(&p, FROM + 64), copy);
	assert_int_equal(near_page_pc(&p, FROM + 65), copy + 1);
	assert_int_equal(near_page_pc(&p, FROM + 66), 0);
	assert_int_equal(near_page_pc(&p, FROM + 72), 0);
	assert_int_equal(near_page_back(&p, copy + 4), FROM + 68);
	assert_int_equal(near_page_back(&p, copy + 8), FROM + 72);
	assert_int_equal(near_page_back(&p, near_page_trampoline(&p, 1)), FROM + 64);
	assert_int_equal(near_page_back(&p, near_page_trampoline(&p, 1) + 7), FROM + 64);
	assert_int_equal(near_page_back(&p, near_page_trampoline(&p, 1) + 13), 0);
	assert_int_equal(near_page_back(&p, NEAR), 0);
	near_page_fini(&p);
}

TEST(a_function_is_added_once_and_only_if_it_can_be)
{
	struct near_page p;
	assert_int_equal(near_page_init(&p, NEAR, 1, &err), 0);
	assert_int_equal(near_page_add(&p, "calls", calling, 6, FROM + 64, 6, HOOK, 7, &err),
			 HEFT_EREFUSED);
	assert_int_equal(near_page_count(&p), 0);
	assert_int_equal(near_page_add(&p, "a", plain, 10, FROM, 10, HOOK, 7, &err), 0);
	assert_int_equal(near_page_add(&p, "alias", plain, 10, FROM, 10, HOOK, 7, &err), 0);
	assert_int_equal(near_page_count(&p), 1);
	assert_int_equal(near_page_add(&p, "b", plain, 10, FROM + 64, 10, HOOK, 7, &err),
			 HEFT_EUSAGE);
	near_page_fini(&p);
	/* The copy could jump back, but the entry could not jump here. */
	assert_int_equal(near_page_init(&p, FROM + (UINT64_C(1) << 31) - 64, 1, &err), 0);
	assert_int_equal(near_page_add(&p, "far", plain, 10, FROM, 10, HOOK, 7, &err),
			 HEFT_EREFUSED);
	near_page_fini(&p);
	assert_int_equal(near_page_init(&p, NEAR, NEAR_PAGE_ENTRIES + 1, &err), HEFT_EUSAGE);
	assert_int_equal(near_page_bytes(0), 0);
	assert_true(near_page_bytes(NEAR_PAGE_ENTRIES) <= 17 * 4096);
}

TEST(a_page_is_read_back)
{
	struct near_page p = two_functions(), q;
	near_page_header(&p)->own[3] = 42;
	assert_true(near_page_is(p.bytes, p.size));
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), 0);
	assert_int_equal(near_page_count(&q), 2);
	assert_int_equal(near_page_header(&q)->own[3], 42);
	assert_memory_equal(near_page_entry(&q, 1), near_page_entry(&p, 1),
			    sizeof(struct near_entry));
	assert_int_equal(near_page_back(&q, near_page_copy(&p, 1) + 4), FROM + 68);
	near_page_fini(&q);
	near_page_fini(&p);
}

TEST(a_damaged_page_is_not_taken)
{
	struct near_page p = two_functions(), q;
	struct near_header *h = near_page_header(&p);
	struct near_entry good = h->entries[1];
	struct near_entry *e = &h->entries[1];
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR + 4096, &err), HEFT_EFORMAT);
	assert_int_equal(near_page_load(&q, p.bytes, sizeof *h, NEAR, &err), HEFT_EFORMAT);
	assert_int_equal(near_page_load(&q, p.bytes, 10, NEAR, &err), HEFT_EFORMAT);
	assert_false(near_page_is(p.bytes, 10));
#define DAMAGE(field, value)                                                                       \
	(*e = good, (field) = (value),                                                             \
	 assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), HEFT_EFORMAT))
	DAMAGE(e->displaced, 4);
	DAMAGE(e->displaced, 33);
	DAMAGE(e->copy_bytes, 97);
	DAMAGE(e->copy_bytes, 0);
	DAMAGE(e->steps, 9);
	DAMAGE(e->steps, 0);
	DAMAGE(e->from[0], 9);
	DAMAGE(e->to[0], 13);
	DAMAGE(e->trampoline, 0);
	DAMAGE(e->trampoline, 4096);
	DAMAGE(e->trampoline, UINT32_MAX);
	DAMAGE(e->slot, 0);
	DAMAGE(e->copy, e->copy + 1);
	DAMAGE(e->at, UINT64_C(1) << 40);
	*e = good;
	memset(e->name, 'x', sizeof e->name);
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), HEFT_EFORMAT);
	*e = good;
	h->count = NEAR_PAGE_ENTRIES + 1;
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), HEFT_EFORMAT);
	h->count = 40; /* would not fit in a page */
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), HEFT_EFORMAT);
	h->count = 2;
	h->version = NEAR_PAGE_VERSION + 1;
	assert_int_equal(near_page_load(&q, p.bytes, p.size, NEAR, &err), HEFT_EREFUSED);
	near_page_fini(&p);
}

/* ---- copies that run */

enum { FUNCTIONS = 24 };

static struct target_modules self;
static size_t libc;
static struct near_page page;

/* A page near libc, mapped in this process. */
static int map_page(void **state)
{
	(void)state;
	if (target_modules_read(&self, getpid(), &err) < 0)
		return -1;
	ssize_t module = target_module_at(&self, (uintptr_t)gnu_get_libc_version);
	if (module < 0)
		return -1;
	libc = (size_t)module;
	const struct target_module *m = &self.items[libc];
	uint64_t at = target_place_near(&self, m->low, m->high, near_page_bytes(FUNCTIONS));
	return at ? near_page_init(&page, at, FUNCTIONS, &err) : -1;
}

static int unmap_page(void **state)
{
	(void)state;
	munmap((void *)(uintptr_t)page.at, page.size);
	near_page_fini(&page);
	target_modules_fini(&self);
	return 0;
}

/* How many functions of a page other code enters behind their first instruction. */
static int entered_elsewhere(const struct near_page *p)
{
	struct branch_range ranges[NEAR_PAGE_ENTRIES];
	int count = 0;
	for (unsigned i = 0; i < near_page_count(p); i++) {
		const struct near_entry *e = near_page_entry(p, i);
		ranges[i] = (struct branch_range){e->at, e->at + e->displaced, 0};
	}
	assert_int_equal(target_branches_find(&self, ranges, near_page_count(p), &err), 0);
	for (unsigned i = 0; i < near_page_count(p); i++)
		count += ranges[i].from != 0;
	return count;
}

/* Writes to code as heft does: it is never writable. */
static void write_code(uint64_t at, const void *bytes, size_t size)
{
	int fd = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		skip();
	assert_int_equal(pwrite(fd, bytes, size, (off_t)at), size);
	close(fd);
}

static void publish(void)
{
	void *at = (void *)(uintptr_t)page.at;
	void *map = mmap(at, page.size, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(map, at);
	write_code(page.at, page.bytes, page.size);
}

/* Its copy, which stands for the function; NULL: cannot be moved. */
static void *add(const char *name, uint64_t hook)
{
	struct target_function f;
	if (target_functions(&self, libc, &name, &f, 1, &err) < 0)
		fail_msg("%s", err.message);
	if (!f.address)
		fail_msg("%s: %s", name, f.refused ? f.refused : "not found");
	uint8_t *code = malloc(f.room);
	assert_true(target_modules_memory(&self, f.address, code, f.room));
	int entry = near_page_add(&page, name, code, f.room, f.address, f.bytes, hook, 7, &err);
	free(code);
	if (entry < 0) {
		print_message("%s: %s\n", name, err.message);
		return NULL;
	}
	return (void *)(uintptr_t)near_page_copy(&page, (unsigned)entry);
}

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return x < y ? -1 : x > y;
}

TEST_WITH(copies_do_what_their_functions_do, map_page, unmap_page)
{
	int (*copied_abs)(int) = (int (*)(int))add("abs", 0);
	long (*copied_labs)(long) = (long (*)(long))add("labs", 0);
	long (*copied_strtol)(const char *, char **,
			      int) = (long (*)(const char *, char **, int))add("strtol", 0);
	void (*copied_qsort)(void *, size_t, size_t, int (*)(const void *, const void *)) =
		(void (*)(void *, size_t, size_t, int (*)(const void *, const void *)))add("qsort",
											   0);
	int (*copied_ffsl)(long) = (int (*)(long))add("ffsl", 0);
	int (*copied_toupper)(int) = (int (*)(int))add("toupper", 0);
	div_t (*copied_div)(int, int) = (div_t(*)(int, int))add("div", 0);
	char *(*copied_getenv)(const char *) = (char *(*)(const char *))add("getenv", 0);
	publish();
	for (int i = -3; i < 300; i++) {
		if (copied_abs)
			assert_int_equal(copied_abs(i), abs(i));
		if (copied_labs)
			assert_int_equal(copied_labs(i), labs(i));
		if (copied_ffsl)
			assert_int_equal(copied_ffsl(i), ffsl(i));
		if (copied_toupper && i >= 0 && i < 256)
			assert_int_equal(copied_toupper(i), i >= 'a' && i <= 'z' ? i - 32 : i);
		if (copied_div) {
			assert_int_equal(copied_div(i, 7).quot, i / 7);
			assert_int_equal(copied_div(i, 7).rem, i % 7);
		}
	}
	if (copied_strtol) {
		char *end;
		assert_int_equal(copied_strtol("-0x7fz", &end, 16), -127);
		assert_string_equal(end, "z");
	}
	assert_non_null(copied_qsort);
	int numbers[] = {5, 3, 9, 1, 7, -4};
	copied_qsort(numbers, 6, sizeof *numbers, compare);
	static const int sorted[] = {-4, 1, 3, 5, 7, 9};
	assert_memory_equal(numbers, sorted, sizeof sorted);
	setenv("HEFT_NEAR", "here", 1);
	if (copied_getenv)
		assert_string_equal(copied_getenv("HEFT_NEAR"), "here");
	int ran = !!copied_abs + !!copied_labs + !!copied_strtol + !!copied_ffsl +
		  !!copied_toupper + !!copied_div + !!copied_getenv;
	assert_true(ran >= 5);
}

TEST_WITH(copies_of_the_allocator_work, map_page, unmap_page)
{
	void *(*copied_malloc)(size_t) = (void *(*)(size_t))add("malloc", 0);
	void (*copied_free)(void *) = (void (*)(void *))add("free", 0);
	void *(*copied_calloc)(size_t, size_t) = (void *(*)(size_t, size_t))add("calloc", 0);
	void *(*copied_realloc)(void *, size_t) = (void *(*)(void *, size_t))add("realloc", 0);
	void *(*copied_memalign)(size_t, size_t) = (void *(*)(size_t, size_t))add("memalign", 0);
	void *(*copied_aligned)(size_t, size_t) = (void *(*)(size_t, size_t))add("aligned_alloc",
										 0);
	int (*copied_posix)(void **, size_t,
			    size_t) = (int (*)(void **, size_t, size_t))add("posix_memalign", 0);
	void *(*copied_valloc)(size_t) = (void *(*)(size_t))add("valloc", 0);
	void *(*copied_pvalloc)(size_t) = (void *(*)(size_t))add("pvalloc", 0);
	void *(*copied_array)(void *, size_t,
			      size_t) = (void *(*)(void *, size_t, size_t))add("reallocarray", 0);
	assert_int_equal(entered_elsewhere(&page), 0);
	publish();
	assert_true(copied_malloc && copied_free && copied_calloc && copied_realloc &&
		    copied_memalign && copied_aligned && copied_posix && copied_valloc &&
		    copied_pvalloc && copied_array);
	for (size_t i = 1; i < 300000; i = i * 3 + 1) {
		uint8_t *a = copied_malloc(i), *b = copied_calloc(i, 2), *c = NULL;
		memset(a, 0x11, i);
		for (size_t k = 0; k < 2 * i; k++)
			assert_int_equal(b[k], 0);
		a = copied_realloc(a, 3 * i);
		assert_int_equal(a[i - 1], 0x11);
		/* It calls whatever realloc the program has; a sanitizer has one of its own. */
		if (target_module_at(&self, (uintptr_t)realloc) == (ssize_t)libc)
			b = copied_array(b, i, 5);
		assert_int_equal((uintptr_t)(c = copied_memalign(256, i)) % 256, 0);
		copied_free(c);
		assert_int_equal((uintptr_t)(c = copied_aligned(512, i)) % 512, 0);
		copied_free(c);
		assert_int_equal(copied_posix((void **)&c, 1024, i), 0);
		assert_int_equal((uintptr_t)c % 1024, 0);
		copied_free(c);
		assert_int_equal((uintptr_t)(c = copied_valloc(i)) % 4096, 0);
		copied_free(c);
		assert_int_equal((uintptr_t)(c = copied_pvalloc(i)) % 4096, 0);
		copied_free(c);
		copied_free(a);
		copied_free(b);
	}
	assert_null(copied_malloc(SIZE_MAX / 2));
	copied_free(NULL);
}

/* ---- the whole: entry, trampoline, hook, copy */

static long (*hooked)(const char *, char **, int);
static unsigned hook_calls;

static long hook(const char *text, char **end, int base)
{
	hook_calls++;
	return hooked(text, end, base);
}

TEST_WITH(a_hooked_function_calls_the_hook_until_it_is_restored, map_page, unmap_page)
{
	uint8_t jump[JUMP_BYTES];
	hooked = (long (*)(const char *, char **, int))add("strtol", (uintptr_t)hook);
	assert_non_null(hooked);
	publish();
	near_page_jump(&page, 0, jump);
	const struct near_entry *e = near_page_entry(&page, 0);
	/* Not by its name, for which newer headers have another function. */
	long (*real)(const char *, char **,
		     int) = (long (*)(const char *, char **, int))(uintptr_t)e->at;
	write_code(e->at, jump, JUMP_BYTES);
	hook_calls = 0;
	long sum = real("12", NULL, 10) + real("0x20", NULL, 0);
	write_code(e->at, e->old, JUMP_BYTES);
	assert_int_equal(sum, 44);
	assert_int_equal(hook_calls, 2);
	assert_int_equal(real("7", NULL, 10), 7);
	assert_int_equal(hook_calls, 2);
}

/* ---- entries behind the entry */

/* A function, and code elsewhere in this program that enters it behind its first instruction. */
__asm__(".text\n.p2align 4\n.globl entered\n.type entered, @function\n"
	"entered: push %rbx\nbehind: mov %rdi, %rbx\nxor %eax, %eax\npop %rbx\nret\n"
	".size entered, . - entered\n"
	".p2align 4\n.globl clean\n.type clean, @function\n"
	"clean: push %rbx\nmov %rdi, %rbx\nxor %eax, %eax\npop %rbx\nret\n"
	".size clean, . - clean\n"
	".section .text.unlikely,\"ax\"\nnop\npush %rbx\ntest %rdi, %rdi\njmp behind\n.text\n");
void entered(void);
void clean(void);

static int check_entry(void (*function)(void), size_t bytes)
{
	struct near_page p;
	uint8_t code[32];
	uint64_t at = (uintptr_t)function;
	memcpy(code, (const void *)(uintptr_t)at, sizeof code);
	assert_int_equal(near_page_init(&p, at - 0x100000, 1, &err), 0);
	assert_int_equal(near_page_add(&p, "it", code, bytes, at, bytes, HOOK, 7, &err), 0);
	int count = entered_elsewhere(&p);
	near_page_fini(&p);
	return count;
}

TEST_WITH(a_function_that_is_entered_elsewhere_is_found, map_page, unmap_page)
{
	assert_int_equal(check_entry(clean, 8), 0);
	assert_int_equal(check_entry(entered, 8), 1);
}

UNIT_TESTS(NULL, NULL)
