/* To be linked with -z separate-code and a max-page-size of 2 MiB, so that megabytes lie between its
 * segments, with .text_far at an address of its own (a second executable segment), and with
 * gap_library.c. It allocates in each, and from code that it makes in one of its own gaps, as a JIT
 * compiler may that wants to be near. The page behind its headers is closed, and so is the one
 * behind its unwind tables: who reads on there dies. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

void *library_alloc(size_t n);

NOINLINE static void *near_alloc(size_t n)
{
	void *p = malloc(n); /* @gap.near */
	keep(p);
	return p;
}

NOINLINE __attribute__((section(".text_far"))) static void *far_alloc(size_t n)
{
	void *p = malloc(n); /* @gap.far */
	keep(p);
	return p;
}

NOINLINE static void *from_gap(void)
{
	void *p = malloc(opaque(4000)); /* @gap.made */
	keep(p);
	return p;
}

/* Into memory where no segment is: the call fails if there is one. */
static char *map_at(uintptr_t address, int protection)
{
	char *p = mmap((void *)address, 4096, protection,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	must(p == (char *)address, "the page is taken");
	return p;
}

int main(void)
{
	extern const char __ehdr_start[], __GNU_EH_FRAME_HDR[];
	/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

	map_at(((uintptr_t)__ehdr_start & ~4095ul) + 4096, PROT_NONE);
	map_at(((uintptr_t)__GNU_EH_FRAME_HDR & ~4095ul) + 4096, PROT_NONE);
	char *made = map_at(((uintptr_t)main & ~0x1ffffful) + 0x100000,
			    PROT_READ | PROT_WRITE | PROT_EXEC);
	memcpy(made, code, sizeof code);
	void *(*call)(void *(*)(void)) = (void *(*)(void *(*)(void)))(uintptr_t)made;
	for (int i = 0; i < 5; i++) {
		near_alloc(1000);
		far_alloc(2000);
		library_alloc(3000);
		call(from_gap);
	}
	return 0;
}
