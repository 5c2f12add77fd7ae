/* An allocator that describes its pools to Valgrind. The requests are written here as valgrind/valgrind.h makes them, so that
 * nothing needs it. Every check that fails ends the program with its line as the exit status (at most 255).
 *
 *     valgrind_pools arena           take_kept() takes 100 objects of 48 bytes, take_returned() takes 40 of 16 bytes and gives them
 *                                    back, and a second pool with 7 objects of 100 bytes is destroyed
 *     valgrind_pools changed         5 objects of 10 bytes become 5 of 25 bytes at other addresses; 3 blocks without a pool, of 32
 *                                    bytes: one is given back, one becomes 64 bytes where it is
 *     valgrind_pools registers       leaf() makes a request for a pool with values in the red zone, in all vector and general
 *                                    registers and in the flags, 1,000 times in each of 4 threads at once
 *     valgrind_pools storm           the same ten times, while a timer interrupts every 50 us with a handler that calls malloc
 *     valgrind_pools library FILE    loads FILE, a copy of this program as a library, in a program with two threads, and calls its
 *                                    library_takes(): 11 objects of 20 bytes. Twice: FILE is unloaded in between
 *     valgrind_pools forked          the same as arena, in a forked child
 *     valgrind_pools again ...       executes itself with the rest as its arguments and an environment without heft's variables
 *     valgrind_pools time            makes a million requests that no pool has, and a million of a pool: prints nanoseconds each
 *     valgrind_pools bytes           says whether the bytes of a request are as they were compiled: in code, and in data beside it
 *     valgrind_pools refused         the same, where the kernel lets no memory become executable
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	RUNNING_ON_VALGRIND = 0x1001,
	MALLOCLIKE_BLOCK = 0x1301,
	FREELIKE_BLOCK = 0x1302,
	CREATE_MEMPOOL = 0x1303,
	DESTROY_MEMPOOL = 0x1304,
	MEMPOOL_ALLOC = 0x1305,
	MEMPOOL_FREE = 0x1306,
	MEMPOOL_CHANGE = 0x1309,
	MEMPOOL_EXISTS = 0x130a,
	RESIZEINPLACE_BLOCK = 0x130b,
};
enum {
	KEPT = 100,
	RETURNED = 40,
	DESTROYED = 7,
	LEAF_ROUNDS = 1000,
	THREADS = 4,
	MILLION = 1000000
};

#define SEQUENCE                                                                                   \
	"rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"              \
	"xchgq %%rbx, %%rbx"
#define REQUEST(other, ...)                                                                        \
	({                                                                                         \
		volatile uint64_t words_[6] = {__VA_ARGS__};                                       \
		volatile uint64_t result_;                                                         \
		__asm__ volatile(SEQUENCE                                                          \
				 : "=d"(result_)                                                   \
				 : "a"(&words_[0]), "0"((uint64_t)(other))                         \
				 : "cc", "memory");                                                \
		result_;                                                                           \
	})
#define WORD(x) ((uint64_t)(uintptr_t)(x))
#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what))                                                                       \
			_exit(__LINE__ & 255 ?: 1);                                                \
	} while (0)

static char memory[1 << 20];
static size_t used;
static int pool, other_pool;

static char *carve(size_t size)
{
	used += size;
	return memory + used - size;
}

__attribute__((noinline)) static char *take_kept(void)
{
	char *object = carve(48);
	REQUEST(0, MEMPOOL_ALLOC, WORD(&pool), WORD(object), 48);
	return object;
}

__attribute__((noinline)) static char *take_returned(void)
{
	char *object = carve(16);
	REQUEST(0, MEMPOOL_ALLOC, WORD(&pool), WORD(object), 16);
	return object;
}

__attribute__((noinline)) static void take_destroyed(void)
{
	REQUEST(0, MEMPOOL_ALLOC, WORD(&other_pool), WORD(carve(100)), 100);
}

__attribute__((noinline)) static void arena(void)
{
	char *returned[RETURNED];
	REQUEST(0, CREATE_MEMPOOL, WORD(&pool));
	REQUEST(0, CREATE_MEMPOOL, WORD(&other_pool));
	for (int i = 0; i < KEPT; i++)
		take_kept();
	for (int i = 0; i < RETURNED; i++)
		returned[i] = take_returned();
	for (int i = 0; i < DESTROYED; i++)
		take_destroyed();
	for (int i = 0; i < RETURNED; i++)
		REQUEST(0, MEMPOOL_FREE, WORD(&pool), WORD(returned[i]));
	REQUEST(0, DESTROY_MEMPOOL, WORD(&other_pool));
	CHECK(REQUEST(0, RUNNING_ON_VALGRIND) == 0);
	CHECK(REQUEST(0, MEMPOOL_EXISTS, WORD(&pool)) == 0);
	CHECK(REQUEST(77, MEMPOOL_ALLOC + 0x1000) == 77);
}

__attribute__((noinline)) static void change(char *from, char *to)
{
	REQUEST(0, MEMPOOL_CHANGE, WORD(&pool), WORD(from), WORD(to), 25);
}

__attribute__((noinline)) static char *take_block(void)
{
	char *block = carve(32);
	REQUEST(0, MALLOCLIKE_BLOCK, WORD(block), 32);
	return block;
}

__attribute__((noinline)) static void resize_block(char *block)
{
	REQUEST(0, RESIZEINPLACE_BLOCK, WORD(block), 32, 64);
}

static void changed(void)
{
	REQUEST(0, CREATE_MEMPOOL, WORD(&pool));
	for (int i = 0; i < 5; i++) {
		char *object = carve(10);
		REQUEST(0, MEMPOOL_ALLOC, WORD(&pool), WORD(object), 10);
		change(object, carve(25));
	}
	char *blocks[3];
	for (int i = 0; i < 3; i++)
		blocks[i] = take_block();
	carve(64);
	REQUEST(0, FREELIKE_BLOCK, WORD(blocks[0]));
	resize_block(blocks[2]);
}

/* ---- registers */

struct vectors {
	_Alignas(64) uint8_t bytes[32][64];
};

/* A leaf: the request is in its red zone, with other words. It takes three numbers, and adds up what it finds afterwards. */
__attribute__((noinline)) static uint64_t leaf(uint64_t a, uint64_t b, uint64_t object)
{
	volatile uint64_t words[6] = {MEMPOOL_ALLOC, WORD(&pool), object, 24, 0, 0};
	volatile uint64_t zone[4] = {a, b, a ^ b, a + b};
	uint64_t result;
	__asm__ volatile(SEQUENCE : "=d"(result) : "a"(&words[0]), "0"(5ull) : "cc", "memory");
	return zone[0] + zone[1] * 3 + zone[2] * 5 + zone[3] * 7 + words[2] + result;
}

#define EACH_16(X)                                                                                 \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define LOAD_X(n) "movdqa " #n "*64(%[v]), %%xmm" #n "\n\t"
#define STORE_X(n) "movdqa %%xmm" #n ", " #n "*64(%[w])\n\t"
#define LOAD_Y(n) "vmovdqa " #n "*64(%[v]), %%ymm" #n "\n\t"
#define STORE_Y(n) "vmovdqa %%ymm" #n ", " #n "*64(%[w])\n\t"
#define EACH_32(X)                                                                                 \
	EACH_16(X)                                                                                 \
	X(16)                                                                                      \
	X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define LOAD_Z(n) "vmovdqa64 " #n "*64(%[v]), %%zmm" #n "\n\t"
#define STORE_Z(n) "vmovdqa64 %%zmm" #n ", " #n "*64(%[w])\n\t"

#define THROUGH(load, store, ...)                                                                  \
	__asm__ volatile(load SEQUENCE "\n\t" store                                                \
			 :                                                                         \
			 : [v] "r"(v), [w] "r"(w), "a"(words), "d"(0ull)                           \
			 : "cc", "memory", __VA_ARGS__)

__attribute__((noinline)) static void vectors_through(const struct vectors *v, struct vectors *w,
						      const uint64_t *words)
{
#define X                                                                                          \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
		THROUGH(EACH_32(LOAD_Z) "kmovq (%[v]), %%k1\n\tkmovq 64(%[v]), %%k7\n\t",
			EACH_32(STORE_Z) "kmovq %%k1, 32*64(%[w])\n\tkmovq %%k7, 32*64+8(%[w])\n\t"
					 "vzeroupper\n\t",
			X);
	else if (__builtin_cpu_supports("avx"))
		THROUGH(EACH_16(LOAD_Y), EACH_16(STORE_Y) "vzeroupper\n\t", X);
	else
		THROUGH(EACH_16(LOAD_X), EACH_16(STORE_X), X);
#undef X
}

static size_t vector_count(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? 32 : 16;
}

static size_t vector_bytes(void)
{
	return vector_count() == 32 ? 64 : __builtin_cpu_supports("avx") ? 32 : 16;
}

__attribute__((noinline)) static void check_vectors(uint64_t object, unsigned seed)
{
	static _Thread_local struct {
		struct vectors v, w;
		uint64_t masks[8];
	} here;
	uint64_t words[6] = {MEMPOOL_ALLOC, WORD(&pool), object, 24};
	uint8_t *bytes = here.v.bytes[0];
	for (size_t i = 0; i < sizeof here.v; i++)
		bytes[i] = (uint8_t)(i * 7 + seed + i / 64);
	memset(&here.w, 0, sizeof here.w);
	vectors_through(&here.v, &here.w, words);
	for (size_t i = 0; i < vector_count(); i++)
		CHECK(memcmp(here.v.bytes[i], here.w.bytes[i], vector_bytes()) == 0);
	if (vector_count() == 32)
		CHECK(memcmp(&here.masks[0], here.v.bytes[0], 8) == 0 &&
		      memcmp(&here.masks[1], here.v.bytes[1], 8) == 0);
}

/* Those that the bytes do not change natively: parity, adjust, zero, sign, direction */
enum { OURS = 0x4 | 0x10 | 0x40 | 0x80 | 0x400 };

/* All general registers but rax, rdx and rsp, and the flags. (-O1: the frame is found from rsp.) */
__attribute__((noinline)) static void check_general(uint64_t object, uint64_t before)
{
	uint64_t words[6] = {MEMPOOL_ALLOC, WORD(&pool), object, 24}, wrong, after;
	__asm__ volatile(
		"push %%rbx\n\tpush %%rbp\n\t.cfi_adjust_cfa_offset 16\n\t"
		"push %[flags]\n\tpopfq\n\t"
		"lea 0x1111, %%rbx\n\tlea 0x2222, %%rcx\n\tlea 0x3333, %%rsi\n\t"
		"lea 0x4444, %%rdi\n\tlea 0x5555, %%rbp\n\tlea 0x6666, %%r8\n\t"
		"lea 0x7777, %%r9\n\tlea 0x8888, %%r10\n\tlea 0x9999, %%r11\n\t"
		"lea 0xaaaa, %%r12\n\tlea 0xbbbb, %%r13\n\tlea 0xcccc, %%r14\n\t"
		"lea 0xdddd, %%r15\n\t" SEQUENCE "\n\t"
		"pushfq\n\t.cfi_adjust_cfa_offset 8\n\tcld\n\t"
		"sub $0x1111, %%rbx\n\tsub $0x2222, %%rcx\n\tsub $0x3333, %%rsi\n\t"
		"sub $0x4444, %%rdi\n\tsub $0x5555, %%rbp\n\tsub $0x6666, %%r8\n\t"
		"sub $0x7777, %%r9\n\tsub $0x8888, %%r10\n\tsub $0x9999, %%r11\n\t"
		"sub $0xaaaa, %%r12\n\tsub $0xbbbb, %%r13\n\tsub $0xcccc, %%r14\n\t"
		"sub $0xdddd, %%r15\n\t"
		"or %%rcx, %%rbx\n\tor %%rsi, %%rbx\n\tor %%rdi, %%rbx\n\tor %%rbp, %%rbx\n\t"
		"or %%r8, %%rbx\n\tor %%r9, %%rbx\n\tor %%r10, %%rbx\n\tor %%r11, %%rbx\n\t"
		"or %%r12, %%rbx\n\tor %%r13, %%rbx\n\tor %%r14, %%rbx\n\tor %%r15, %%rbx\n\t"
		"mov %%rbx, %%rcx\n\tpop %%rsi\n\tpop %%rbp\n\tpop %%rbx\n\t"
		".cfi_adjust_cfa_offset -24\n\t"
		: "=c"(wrong), "=S"(after)
		: "a"(words), "d"(0ull), [flags] "S"(before)
		: "cc", "memory", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15");
	CHECK(!wrong);
	CHECK((after & OURS) == (before & OURS));
}

static void *make_requests(void *number)
{
	uint64_t object = (WORD(number) + 1) << 32;
	for (uint64_t i = 0; i < LEAF_ROUNDS; i++, object += 96) {
		uint64_t a = i * 0x123456789abcdull, b = ~i;
		CHECK(leaf(a, b, object) == a + b * 3 + (a ^ b) * 5 + (a + b) * 7 + object + 5);
		check_vectors(object + 32, (unsigned)i);
		check_general(object + 64, i & 1 ? OURS : 0);
	}
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[THREADS];
	REQUEST(0, CREATE_MEMPOOL, WORD(&pool));
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, make_requests, (void *)i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static volatile int interruptions;

static void interrupt(int signal)
{
	(void)signal;
	static void *volatile block;
	block = malloc(24);
	free(block);
	interruptions++;
}

static void storm(void)
{
	const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
	CHECK(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 10; i++)
		in_threads();
	CHECK(!setitimer(ITIMER_REAL, &never, NULL) && interruptions);
}

/* ---- a library */

enum { OF_LIBRARY = 11 };

__attribute__((noinline)) void library_takes(void)
{
	char *objects[OF_LIBRARY];
	REQUEST(0, CREATE_MEMPOOL, WORD(&pool));
	for (int i = 0; i < OF_LIBRARY; i++) {
		objects[i] = carve(20);
		REQUEST(0, MEMPOOL_ALLOC, WORD(&pool), WORD(objects[i]), 20);
	}
	for (int i = 0; i < OF_LIBRARY; i++)
		REQUEST(0, MEMPOOL_FREE, WORD(&pool), WORD(objects[i]));
	REQUEST(0, DESTROY_MEMPOOL, WORD(&pool));
}

static _Atomic int is_over;

static void *ask_all_the_time(void *nothing)
{
	while (!is_over)
		CHECK(REQUEST(0, RUNNING_ON_VALGRIND) == 0);
	return nothing;
}

__attribute__((noinline)) static void use_library(const char *path)
{
	pthread_t other;
	CHECK(!pthread_create(&other, NULL, ask_all_the_time, NULL));
	for (int i = 0; i < 2; i++) {
		void *library = dlopen(path, RTLD_NOW);
		CHECK(library);
		void (*takes)(void) = (void (*)(void))(uintptr_t)dlsym(library, "library_takes");
		CHECK(takes && takes != library_takes);
		takes();
		dlclose(library);
	}
	is_over = 1;
	pthread_join(other, NULL);
}

/* ---- bytes */

/* Data among the code, which no unwind table describes, and a function with a request that nobody makes. */
__asm__(".pushsection .text\n"
	".hidden bytes_of_data, bytes_of_code\n"
	".globl bytes_of_data, bytes_of_code\n"
	"bytes_of_data: .byte 0x48, 0xc1, 0xc7, 3, 0x48, 0xc1, 0xc7, 13, 0x48, 0xc1, 0xc7, 61, "
	"0x48, 0xc1, 0xc7, 51\n\t"
	".byte 0x48, 0x87, 0xdb\n"
	"bytes_of_code:\n\t"
	".cfi_startproc\n\t"
	"rolq $3, %rdi\n\trolq $13, %rdi\n\trolq $61, %rdi\n\trolq $51, %rdi\n\txchgq %rbx, "
	"%rbx\n\t"
	"ret\n\t"
	".cfi_endproc\n"
	".popsection\n");
extern __attribute__((visibility("hidden"))) const uint8_t bytes_of_data[19], bytes_of_code[19];

static void say_bytes(void)
{
	static const uint8_t rolled[] = {3, 13, 61, 51};
	uint8_t native[19] = {[16] = 0x48, 0x87, 0xdb};
	for (int i = 0; i < 4; i++)
		memcpy(native + 4 * i, (const uint8_t[]){0x48, 0xc1, 0xc7, rolled[i]}, 4);
	printf("code %s, data %s\n", memcmp(bytes_of_code, native, 19) ? "changed" : "native",
	       memcmp(bytes_of_data, native, 19) ? "changed" : "native");
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void say_times(void)
{
	uint64_t start = now_ns();
	for (int i = 0; i < MILLION; i++)
		REQUEST(0, RUNNING_ON_VALGRIND);
	uint64_t middle = now_ns();
	for (int i = 0; i < MILLION / 2; i++) {
		REQUEST(0, MEMPOOL_ALLOC, WORD(&pool), WORD(memory), 32);
		REQUEST(0, MEMPOOL_FREE, WORD(&pool), WORD(memory));
	}
	printf("other %.1f ns, pool %.1f ns\n", (double)(middle - start) / MILLION,
	       (double)(now_ns() - middle) / MILLION);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	static char *const empty[] = {NULL};
	int status;
	if (!strcmp(mode, "arena"))
		arena();
	else if (!strcmp(mode, "changed"))
		changed();
	else if (!strcmp(mode, "registers"))
		in_threads();
	else if (!strcmp(mode, "storm"))
		storm();
	else if (!strcmp(mode, "library"))
		use_library(argv[2]);
	else if (!strcmp(mode, "forked")) {
		if (!fork()) {
			arena();
			exit(0);
		}
		CHECK(wait(&status) > 0 && status == 0);
	} else if (!strcmp(mode, "again"))
		CHECK(!execve("/proc/self/exe", argv + 1, empty)); /* argv[1] becomes its name */
	else if (!strcmp(mode, "refused")) {
		enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
		CHECK(!prctl(SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0));
		execl(argv[0], argv[0], "bytes", (char *)NULL);
	} else if (!strcmp(mode, "bytes"))
		say_bytes();
	else if (!strcmp(mode, "time"))
		say_times();
	else
		return 255;
	return 0;
}
