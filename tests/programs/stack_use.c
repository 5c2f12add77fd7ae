/* How much stack calls of the allocator take: paints the memory below its own frame, calls, and looks how far down
 * the paint was changed. One line a situation: its name and the bytes.
 *
 * argv[1]: a library built from stack_plugin.c, for a call from code that nobody has seen before. argv[2]: the size
 * of blocks. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { PAINTED = 24 << 10, SKIPPED = 128, STACK = 128 << 10 };

static void *block;
static size_t block_bytes;
static void *(*plugin_entry)(size_t);

/* Bytes below this frame that the call used; SKIPPED: that or less. */
NOINLINE static unsigned used_by(void (*call)(void))
{
	unsigned char *frame = __builtin_frame_address(0);
	volatile unsigned char *low = frame - PAINTED;
	unsigned at = 0;

	for (unsigned i = 0; i < PAINTED - SKIPPED; i++)
		low[i] = 0xa5;
	call();
	__asm__ volatile("" : : : "memory");
	while (at < PAINTED - SKIPPED && low[at] == 0xa5)
		at++;
	return PAINTED - at;
}

static void say_use(const char *name, void (*call)(void))
{
	say_number(name, used_by(call));
}

NOINLINE static void allocates(void)
{
	block = malloc(block_bytes);
	keep(block);
}

NOINLINE static void allocates_elsewhere(void)
{
	block = malloc(block_bytes);
	keep(block);
	__asm__ volatile("nop");
}

NOINLINE static void frees(void)
{
	free(block);
	block = NULL;
}

NOINLINE static void resizes(void)
{
	block = realloc(block, 3 * block_bytes);
	keep(block);
}

NOINLINE static void by_plugin(void)
{
	block = plugin_entry(block_bytes);
	keep(block);
}

/* A stack that is aligned by hand: its caller is found by an expression. */
NOINLINE static void aligned(void)
{
	volatile double wide __attribute__((aligned(64))) = 1;

	block = malloc((size_t)wide - 1 + block_bytes);
	keep(block);
}

/* Its frame is found by a register that unwinders seldom need: heft's slow path. */
void slow_frame(void (*call)(void));
__asm__(".text\n"
	".type slow_frame, @function\n"
	"slow_frame:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset 3, -16\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa 3, 16\n"
	"	sub $32, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa 7, 16\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size slow_frame, .-slow_frame\n");

NOINLINE static void slowly(void)
{
	slow_frame(allocates);
	keep(block);
}

NOINLINE static void many_times(void)
{
	for (int i = 0; i < 3000; i++) {
		void *p = malloc(50 + (size_t)i % 50);

		keep(p);
		free(p);
	}
}

static void *thread(void *arg)
{
	say_use("thread_first", allocates);
	say_use("thread_free", frees);
	return arg;
}

static ucontext_t here, there;

static void coroutine(void)
{
	say_use("coroutine_first", allocates);
	say_use("coroutine_again", allocates);
	say_use("coroutine_free", frees);
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t id;
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	unsigned unchanged = 0;

	must(library != NULL, "usage: stack_use PLUGIN SIZE");
	block_bytes = (size_t)atoi(argv[2]);
	plugin_entry = (void *(*)(size_t))dlsym(library, "plugin_entry");
	must(plugin_entry != NULL, "plugin");
	many_times(); /* the allocator has its memory */
	free(malloc(3 * block_bytes));
	say_use("new_site", allocates);
	frees();
	for (size_t i = opaque(3); i > 0; i--) {
		unchanged = used_by(allocates);
		frees();
	}
	say_number("unchanged", unchanged);
	say_use("same_function", allocates);
	say_use("free", frees);
	say_use("another_site", allocates_elsewhere);
	say_use("realloc", resizes);
	frees();
	say_use("new_library", by_plugin);
	frees();
	say_use("aligned", aligned);
	frees();
	say_use("aligned_again", aligned);
	frees();
	say_use("slow", slowly);
	frees();
	say_use("slow_again", slowly);
	frees();
	say_use("many", many_times);
	pthread_attr_init(&attributes);
	must(!pthread_attr_setstacksize(&attributes, STACK), "stack size");
	must(!pthread_create(&id, &attributes, thread, NULL), "pthread_create");
	pthread_join(id, NULL);
	must(!getcontext(&there), "getcontext");
	there.uc_stack.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(there.uc_stack.ss_sp != MAP_FAILED, "mmap");
	there.uc_stack.ss_size = STACK;
	there.uc_link = &here;
	makecontext(&there, coroutine, 0);
	must(!swapcontext(&here, &there), "swapcontext");
	return 0;
}
