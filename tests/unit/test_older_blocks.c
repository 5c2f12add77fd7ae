/* Blocks of running programs, read from outside: tests/programs/older_heap.c says which blocks it holds, and exactly
 * these must be found. HEFT_TEST_LOADER names another loader with its libc beside it, to try another glibc. */
#include "attach/older_blocks.h"
#include "attach/stop.h"
#include "attach/target_modules.h"
#include "hosted/error.h"
#include "unit_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECOND = 1000000000 };
static char folder[64];
static struct heft_error err;

struct block {
	uint64_t at, bytes;
};
struct blocks {
	VECTOR_MEMBERS(struct block);
};

static struct target {
	pid_t pid;
	int in, out;
} target;

static int make_folder(void **state)
{
	char command[1024];
	(void)state;
	strcpy(folder, "/tmp/heft-older-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(command, sizeof command,
		 "cc -O1 -pthread -o %s/older_heap %s/tests/programs/older_heap.c", folder,
		 getenv("HEFT_SOURCE_ROOT"));
	return system(command);
}

static int remove_folder(void **state)
{
	char command[128];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void start(void)
{
	int in[2], out[2];
	char path[128], libraries[512] = "";
	const char *loader = getenv("HEFT_TEST_LOADER");
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	snprintf(path, sizeof path, "%s/older_heap", folder);
	if (loader) {
		snprintf(libraries, sizeof libraries, "%s", loader);
		*strrchr(libraries, '/') = 0;
	}
	target.pid = fork();
	if (target.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (loader)
			execl(loader, loader, "--library-path", libraries, path, (char *)NULL);
		else
			execl(path, path, (char *)NULL);
		_exit(99);
	}
	close(in[0]);
	close(out[1]);
	target.in = in[1];
	target.out = out[0];
}

static int begin(void **state)
{
	(void)state;
	start();
	return 0;
}

static int end(void **state)
{
	(void)state;
	kill(target.pid, SIGKILL);
	waitpid(target.pid, NULL, 0);
	close(target.in);
	close(target.out);
	return 0;
}

/* Does a step; what the program holds after it. */
static struct blocks ask(char step)
{
	struct blocks held = {0};
	struct block b;
	assert_int_equal(write(target.in, &step, 1), 1);
	for (;;) {
		size_t n = 0;
		while (n < sizeof b) {
			ssize_t got = read(target.out, (char *)&b + n, sizeof b - n);
			assert_true(got > 0);
			n += (size_t)got;
		}
		if (!b.at)
			return held;
		assert_true(vector_push(&held, b));
	}
}

/* ---- reading */

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

static void collect(void *ctx, uint64_t at, uint64_t bytes)
{
	assert_true(vector_push((struct blocks *)ctx, (struct block){at, bytes}));
}

static int by_address(const void *a, const void *b)
{
	const struct block *x = a, *y = b;
	return (x->at > y->at) - (x->at < y->at);
}

struct found {
	bool refused; /* this machine does not allow ptrace */
	struct older_totals running, still;
	struct blocks blocks;
};

static int read_all(void *ctx)
{
	struct found *f = ctx;
	struct target_modules m;
	struct older_heap *h = NULL;
	struct stop *s = NULL;
	const struct stop_thread *threads;
	uint64_t pointers[64];
	size_t count, libc = 0;
	int rc = target_modules_read(&m, target.pid, &err);
	assert_int_equal(rc, 0);
	const struct target_memory memory = {read_memory, &m};
	while (libc < m.count && !strstr(m.items[libc].path, "/libc.so"))
		libc++;
	assert_true(libc < m.count);
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/pagemap", target.pid);
	rc = older_open(&h, &memory, &m.items[libc].image, &m.maps, open(path, O_RDONLY), &err);
	assert_int_equal(rc, 0);
	struct older_reading reading = {.limit_ns = 20ull * SECOND};
	older_read(h, &reading, &f->running);
	do {
		if (!s)
			rc = stop_open(&s, target.pid, &err);
		if (!rc)
			rc = stop_all(s, 50000000, &err);
	} while (rc == HEFT_EBUSY);
	if (rc) {
		f->refused = true;
		stop_close(s);
		older_close(h);
		target_modules_fini(&m);
		return 0;
	}
	assert_int_equal(stop_threads(s, &threads, &count), 0);
	assert_true(count <= 64);
	for (size_t i = 0; i < count; i++)
		pointers[i] = threads[i].thread_pointer;
	reading = (struct older_reading){.still = true,
					 .thread_pointers = pointers,
					 .thread_count = count,
					 .limit_ns = 20ull * SECOND,
					 .each = collect,
					 .ctx = &f->blocks};
	older_read(h, &reading, &f->still);
	stop_resume(s, &err);
	stop_close(s);
	older_close(h);
	target_modules_fini(&m);
	if (f->blocks.count)
		qsort(f->blocks.items, f->blocks.count, sizeof *f->blocks.items, by_address);
	return 0;
}

static struct found read_target(void)
{
	struct found f = {0};
	assert_int_equal(stop_run(read_all, &f, &err), 0);
	if (f.refused)
		skip();
	return f;
}

static const struct block *find(const struct blocks *list, uint64_t at)
{
	const struct block wanted = {at, 0};
	return list->count ? bsearch(&wanted, list->items, list->count, sizeof wanted, by_address)
			   : NULL;
}

/* What is there now and was not there before is exactly what the program holds. */
static void check_new(const struct blocks *before, const struct blocks *now, struct blocks *held)
{
	size_t new = 0;
	if (held->count)
		qsort(held->items, held->count, sizeof *held->items, by_address);
	for (size_t i = 0; i < held->count; i++) {
		const struct block *b = find(now, held->items[i].at);
		if (!b || b->bytes != held->items[i].bytes)
			fail_msg("block %#lx of %lu bytes: %s", (long)held->items[i].at,
				 (long)held->items[i].bytes, b ? "another size" : "not found");
	}
	for (size_t i = 0; i < now->count; i++) {
		const struct block *b = &now->items[i];
		if (find(before, b->at))
			continue;
		new ++;
		if (!find(held, b->at))
			fail_msg("block %#lx of %lu bytes is not the program's", (long)b->at,
				 (long)b->bytes);
	}
	assert_int_equal(new, held->count);
}

static void check_sums(const struct found *f)
{
	struct older_sum classes = {0}, all = {0};
	for (unsigned i = 0; i < OLDER_CLASSES; i++) {
		classes.blocks += f->still.classes[i].blocks;
		classes.bytes += f->still.classes[i].bytes;
	}
	for (size_t i = 0; i < f->blocks.count; i++) {
		all.blocks++;
		all.bytes += f->blocks.items[i].bytes;
	}
	assert_int_equal(all.blocks, f->still.used.blocks);
	assert_int_equal(all.bytes, f->still.used.bytes);
	assert_int_equal(classes.blocks, f->still.used.blocks);
	assert_int_equal(classes.bytes, f->still.used.bytes);
	assert_true(f->still.exact);
	assert_false(f->still.incomplete);
}

TEST_WITH(every_kind_of_block, begin, end)
{
	struct blocks held = ask('a');
	struct found a = read_target();
	vector_free(&held);
	check_sums(&a);
	assert_int_equal(a.still.arena_count, 4);
	held = ask('b');
	struct found b = read_target();
	check_sums(&b);
	check_new(&a.blocks, &b.blocks, &held);
	/* 15 rows of 20, 3 times 5 of the large and aligned ones, and the zeros, of each of 4 threads */
	assert_int_equal(held.count, 4 * (15 * 20 + 3 * 5 + 1));
	/* Large ones: 200,000, 250,000, 300,000 (aligned, 3), 150,000 (3): each thread */
	assert_int_equal(b.still.mapped.blocks - a.still.mapped.blocks, 4 * 9);
	/* In every row as many are free as are held; what lies in bins is at least that. */
	assert_true(b.still.unused.bytes - a.still.unused.bytes > 4 * 20 * (30000 + 5000 + 1040));
	vector_free(&held);
	held = ask('c');
	struct found c = read_target();
	check_sums(&c);
	check_new(&a.blocks, &c.blocks, &held);
	assert_int_equal(c.still.used.blocks, a.still.used.blocks);
	assert_int_equal(c.still.used.bytes, a.still.used.bytes);
	vector_free(&held);
	vector_free(&a.blocks);
	vector_free(&b.blocks);
	vector_free(&c.blocks);
}

TEST_WITH(more_than_one_heap, begin, end)
{
	struct blocks held = ask('a');
	struct found a = read_target();
	vector_free(&held);
	held = ask('d');
	struct found d = read_target();
	check_sums(&d);
	check_new(&a.blocks, &d.blocks, &held);
	assert_int_equal(held.count, 1100);
	assert_true(d.still.arenas[0].used.bytes >= 1100 * 65000);
	assert_true(d.still.arenas[0].system_bytes > 64 << 20);
	/* Nothing changed meanwhile, so what is read while it runs is the same. Only who does not know the
	 * threads may take an empty cache for a block. */
	assert_false(d.running.incomplete);
	assert_false(d.running.exact);
	assert_in_range(d.running.used.blocks, d.still.used.blocks, d.still.used.blocks + 3);
	vector_free(&held);
	vector_free(&a.blocks);
	vector_free(&d.blocks);
}

/* Three threads allocate and free as fast as they can: 256 blocks each, of 0 to 4,095 bytes. */
TEST_WITH(while_all_allocate, begin, end)
{
	struct blocks held = ask('a');
	vector_free(&held);
	held = ask('e');
	for (unsigned i = 0, early = 0; i < 20; i++) {
		struct found f = read_target();
		vector_free(&f.blocks);
		if (f.still.used.blocks < 3 * 200 && early < 3000) { /* they have not begun yet */
			early++;
			i = (unsigned)-1;
			usleep(10000);
			continue;
		}
		assert_int_equal(f.running.arena_count, 4);
		assert_int_equal(f.still.arena_count, 4);
		assert_in_range(f.still.used.blocks, 3 * 200, 3 * 260 + 20);
		assert_in_range(f.still.used.bytes, 3 * 200 * 1500, 3 * 260 * 2700);
		assert_true(f.running.used.blocks <= 3 * 400);
	}
	vector_free(&held);
}

/* ---- memory that was written over */

struct overlay {
	struct target_modules *m;
	struct {
		uint64_t at, value;
	} words[8];
	size_t count;
	uint64_t seed, from, to; /* random words in this range, a 64th of them; seed 0: none */
};

static uint64_t mixed(uint64_t x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44d;
	return x ^ x >> 33;
}

static bool read_overlay(void *context, uint64_t at, void *to, size_t bytes)
{
	const struct overlay *o = context;
	if (!target_modules_memory(o->m, at, to, bytes))
		return false;
	for (size_t i = 0; i < o->count; i++)
		if (o->words[i].at >= at && o->words[i].at + 8 <= at + bytes)
			memcpy((char *)to + (o->words[i].at - at), &o->words[i].value, 8);
	for (uint64_t w = (at + 7) & ~UINT64_C(7); o->seed && w + 8 <= at + bytes; w += 8) {
		uint64_t dice = mixed(o->seed ^ w), value;
		if (w < o->from || w >= o->to || dice % 64)
			continue;
		memcpy(&value, (char *)to + (w - at), 8);
		switch (dice >> 8 & 3) {
		case 0: value ^= UINT64_C(1) << (dice >> 16 & 63); break;
		case 1: value = mixed(dice); break;
		case 2: value = w & ~UINT64_C(15); break;
		default: value += (dice >> 20 & 0xff) * 16; break;
		}
		memcpy((char *)to + (w - at), &value, 8);
	}
	return true;
}

static void hostile_open(struct overlay *o, struct target_modules *m, struct older_heap **h)
{
	char path[64];
	size_t libc = 0;
	assert_int_equal(target_modules_read(m, target.pid, &err), 0);
	while (libc < m->count && !strstr(m->items[libc].path, "/libc.so"))
		libc++;
	assert_true(libc < m->count);
	memset(o, 0, sizeof *o);
	o->m = m;
	const struct target_memory memory = {read_overlay, o};
	snprintf(path, sizeof path, "/proc/%d/pagemap", target.pid);
	assert_int_equal(older_open(h, &memory, &m->items[libc].image, &m->maps,
				    open(path, O_RDONLY | O_CLOEXEC), &err),
			 0);
}

/* still: nothing runs, since the program waits in read */
static struct older_totals hostile_read(struct older_heap *h, bool still)
{
	struct older_totals t;
	const struct older_reading r = {.still = still, .limit_ns = 60ull * SECOND};
	older_read(h, &r, &t);
	assert_true(t.took_ns < 60ull * SECOND);
	return t;
}

static void set(struct overlay *o, uint64_t at, uint64_t value)
{
	o->count = 1;
	o->words[0].at = at;
	o->words[0].value = value;
}

TEST_WITH(heaps_that_were_written_over, begin, end)
{
	struct blocks held = ask('b');
	struct target_modules m;
	struct older_heap *h;
	struct overlay o;
	hostile_open(&o, &m, &h);
	const struct older_totals t = hostile_read(h, true);
	assert_false(t.incomplete);
	/* A size in the middle of a heap: what is before it is counted, what is in other arenas too. The 24 bytes
	 * row's 10th block of the first thread has some hundred behind it. */
	static const uint64_t sizes[] = {0,
					 1,
					 8,
					 16,
					 17,
					 0x21 - 8,
					 UINT64_MAX,
					 UINT64_MAX - 14,
					 UINT64_C(1) << 62,
					 1 << 30,
					 0x7ffffffffff1,
					 2 | 0x1000};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (unsigned still = 0; still < 2; still++) {
			set(&o, held.items[30].at - 8, sizes[i]);
			struct older_totals now = hostile_read(h, still);
			assert_true(now.incomplete);
			assert_int_equal(now.arena_count, 4);
			assert_in_range(now.used.blocks, t.used.blocks - 316, t.used.blocks - 100);
		}
	/* An arena that follows itself, and one that leads to another program's */
	uint64_t other = t.arenas[0].at % (64 << 20) == 0x30 ? t.arenas[0].at : t.arenas[1].at;
	uint64_t next = other + offsetof(struct glibc_arena, next);
	static const uint64_t wrong[] = {0, 8, 0x1000, UINT64_MAX, UINT64_MAX - 7};
	for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
		set(&o, next, i ? wrong[i - 1] : other);
		struct older_totals now = hostile_read(h, true);
		assert_true(now.incomplete);
		assert_true(now.used.blocks < t.used.blocks && now.arena_count < 4);
	}
	/* A heap that comes before itself */
	set(&o, (other & ~UINT64_C(0x3ffffff)) + 8, other & ~UINT64_C(0x3ffffff));
	struct older_totals now = hostile_read(h, true);
	assert_true(now.incomplete);
	assert_true(now.used.blocks <= t.used.blocks);
	/* Fast bins whose list leads to itself, and nowhere */
	struct glibc_arena arena;
	assert_true(target_modules_memory(&m, other, &arena, sizeof arena));
	uint64_t fast = arena.fast[0] ? arena.fast[0] : arena.fast[2];
	assert_true(fast != 0);
	set(&o, fast + 16, fast ^ (fast + 16) >> 12);
	now = hostile_read(h, true);
	assert_true(now.used.blocks >= t.used.blocks && now.used.blocks <= t.used.blocks + 40);
	set(&o, fast + 16, 0x1234567890);
	now = hostile_read(h, true);
	assert_true(now.used.blocks >= t.used.blocks && now.used.blocks <= t.used.blocks + 40);
	o.count = 0;
	now = hostile_read(h, true);
	assert_int_equal(now.used.blocks, t.used.blocks);
	older_close(h);
	target_modules_fini(&m);
	vector_free(&held);
}

/* Anything anywhere: it ends, and touches nothing that is not there. */
TEST_WITH(random_words, begin, end)
{
	struct blocks held = ask('b');
	vector_free(&held);
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct target_modules m;
		struct older_heap *h;
		struct overlay o;
		hostile_open(&o, &m, &h);
		const struct target_mapping *in = &m.maps.items[seed % m.maps.count];
		o.seed = mixed(seed) | 1;
		/* One mapping at a time, then all */
		o.from = seed % 3 ? in->start : 0;
		o.to = seed % 3 ? in->end : UINT64_MAX;
		hostile_read(h, seed & 1);
		hostile_read(h, true);
		older_close(h);
		target_modules_fini(&m);
	}
}

UNIT_TESTS(make_folder, remove_folder)
