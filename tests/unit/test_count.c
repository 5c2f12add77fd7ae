/* Counting inside: the shadow that has the slack of blocks, sums of several threads, and how far a peak may be off. Blocks
 * are addresses of nothing: counting never reads what they hold. Run under ThreadSanitizer too. */
#include "capture/count.h"
#include "capture/settings.h"
#include "unit_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What the rest of the library would bring. */
struct heft_process *heft_process;
_Atomic uint64_t sys_forbidden;
struct heft_next heft_next;
unsigned char heft_arena[HEFT_ARENA_BYTES];
union heft_unusual heft_unusual;
struct heft_settings heft_settings;
__thread struct heft_tls heft_tls __attribute__((tls_model("initial-exec")));
int heft_resolve_next(void)
{
	return 0;
}
static pthread_key_t end_of_thread;
static pthread_once_t end_of_thread_made = PTHREAD_ONCE_INIT;
static void thread_ends(void *unused)
{
	(void)unused;
	heft_count_thread_ends();
}
static void make_end_of_thread(void)
{
	pthread_key_create(&end_of_thread, thread_ends);
}
void heft_watch_end_of_thread(const void *of_thread)
{
	pthread_once(&end_of_thread_made, make_end_of_thread);
	pthread_setspecific(end_of_thread, of_thread);
}

static _Thread_local uint64_t usable_now;
static size_t usable(void *p)
{
	(void)p;
	return usable_now;
}

static void begin(void)
{
	heft_next.usable = usable;
	assert_int_equal(heft_count_begin(), 0);
	assert_true(heft_counts());
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void allocate(uint64_t address, uint64_t size, uint64_t slack)
{
	usable_now = size + slack;
	heft_count_new(at(address), size);
}

static uint64_t size_at(uint64_t address, uint64_t usable_bytes)
{
	usable_now = usable_bytes;
	return heft_count_size(at(address));
}

TEST(slack_of_any_length)
{
	static const uint64_t slacks[] = {
		0, 1, 254, 255, 256, 4095, 65535, 70001, 16777217, 5000000000, 0xffffffffffull};
	begin();
	for (unsigned i = 0; i < sizeof slacks / sizeof *slacks; i++) {
		allocate(0x10000000, 100, slacks[i]);
		assert_int_equal(size_at(0x10000000, 100 + slacks[i]), 100);
		/* A later block at the same place */
		allocate(0x10000000, 7, 1);
		assert_int_equal(size_at(0x10000000, 8), 7);
	}
	/* Blocks of 8 bytes beside each other */
	allocate(0x20000000, 3, 5);
	allocate(0x20000008, 8, 0);
	assert_int_equal(size_at(0x20000000, 8), 3);
	assert_int_equal(size_at(0x20000008, 8), 8);
}

TEST(slack_at_the_end_of_a_part)
{
	begin();
	const uint64_t edge = 0x7f0000000000 + (1ull << HEFT_SHADOW_BITS);
	for (uint64_t before = 8; before <= 80; before += 8) {
		allocate(edge - before, 1000, 123456);
		assert_int_equal(size_at(edge - before, 124456), 1000);
	}
}

TEST(older_blocks_count_by_usable_size)
{
	begin();
	assert_int_equal(size_at(0x660000000000, 48), 48);
	/* An address that no program has */
	assert_int_equal(size_at(0xffff800000000000, 48), 48);
	allocate(0xffff800000000000, 40, 8);
	assert_int_equal(size_at(0xffff800000000000, 48), 48);
}

enum { THREADS = 4, BLOCKS = 10000, BYTES = 100 };
static pthread_barrier_t barrier;

static void *go_up_and_down(void *number)
{
	const uint64_t base = 0x400000000000 + ((uint64_t)(uintptr_t)number << 32);
	struct heft_count_sums s;
	for (uint64_t i = 0; i < BLOCKS; i++)
		allocate(base + i * 128, BYTES, 4);
	pthread_barrier_wait(&barrier); /* here is the peak */
	pthread_barrier_wait(&barrier);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		usable_now = BYTES + 4;
		heft_count_end(at(base + i * 128));
	}
	heft_count_thread_sums(heft_count_slot(), &s);
	return s.allocations == BLOCKS && s.frees == BLOCKS && s.level == 0 &&
			       s.allocated_bytes == BLOCKS * BYTES
		       ? NULL
		       : number;
}

TEST(sums_and_the_peak_of_threads)
{
	struct heft_count_sums before, after;
	pthread_t t[THREADS];
	int64_t level;
	begin();
	heft_count_sums(&before);
	int peak = heft_peak_take(heft_count_serial(), &level);
	assert_in_range(peak, 1, HEFT_PEAKS - 1);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, go_up_and_down, (void *)(i + 1)), 0);
	pthread_barrier_wait(&barrier);
	heft_count_sums(&after);
	assert_int_equal(after.level - before.level, THREADS * BLOCKS * BYTES);
	assert_int_equal(after.allocations - before.allocations, THREADS * BLOCKS);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;
		pthread_join(t[i], &wrong);
		assert_null(wrong);
	}
	heft_count_sums(&after);
	assert_int_equal(after.level, before.level);
	assert_int_equal(after.frees - before.frees, THREADS * BLOCKS);
	const int64_t off = atomic_load(&heft_peak((unsigned)peak)->high) - level -
			    THREADS * BLOCKS * BYTES;
	assert_true(off <= (THREADS + 1) * HEFT_COUNT_FOLD);
	assert_true(-off <= (THREADS + 1) * HEFT_COUNT_FOLD);
	heft_peak_release((unsigned)peak);
	pthread_barrier_destroy(&barrier);
}

static void *allocate_one(void *unused)
{
	allocate(0x300000000000, 10, 0);
	return unused;
}

/* Each thread ends before the next one begins, so few slots are needed for many. */
TEST(slots_of_ended_threads_are_used_again)
{
	struct heft_count_sums before, after;
	begin();
	heft_count_sums(&before);
	for (int i = 0; i < 2 * HEFT_COUNT_SLOTS; i++) {
		pthread_t t;
		assert_int_equal(pthread_create(&t, NULL, allocate_one, NULL), 0);
		pthread_join(t, NULL);
	}
	heft_count_sums(&after);
	assert_int_equal(after.allocations - before.allocations, 2 * HEFT_COUNT_SLOTS);
}

/* With one thread the peak is exact, whatever the order. */
TEST(one_thread_has_an_exact_peak)
{
	int64_t level, live = 0, most = 0;
	unsigned random = 1;
	uint64_t sizes[64] = {0};
	begin();
	int peak = heft_peak_take(heft_count_serial(), &level);
	for (int i = 0; i < 200000; i++) {
		random = random * 1103515245 + 12345;
		const unsigned k = random >> 16 & 63;
		const uint64_t address = 0x500000000000 + k * 1048576ull;
		if (sizes[k]) {
			usable_now = sizes[k] + 9;
			heft_count_end(at(address));
			live -= (int64_t)sizes[k];
			sizes[k] = 0;
		} else {
			sizes[k] = 1 + (random >> 8) % 90000;
			allocate(address, sizes[k], 9);
			live += (int64_t)sizes[k];
			most = live > most ? live : most;
		}
	}
	heft_count_fold(heft_count_slot());
	assert_int_equal(atomic_load(&heft_peak((unsigned)peak)->high) - level, most);
	heft_peak_release((unsigned)peak);
}

UNIT_TESTS(NULL, NULL)
