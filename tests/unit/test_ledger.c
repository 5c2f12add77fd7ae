/* Ledgers: claims on an address space, and the pages of a process, read in both ways and compared with what the kernel
 * says in smaps. */
#include "unit_test.h"

#include "hosted/error.h"
#include "ledger/ledger_pages.h"
#include "ledger/ledger_spans.h"
#include "trace/definitions.h"
#include "trace/ledger_block.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { P = LEDGER_PAGE };

/* ---- claims */

static void want(struct ledger_spans *wanted, uint64_t first, uint64_t end, const char *name)
{
	const struct ledger_span s = {
		.start = first * P, .end = end * P, .kind = LEDGER_ANONYMOUS, .name = name};
	assert_true(ledger_spans_add(wanted, &s));
}

static void claim(struct ledger_spans *taken, struct ledger_spans *wanted)
{
	struct heft_error err;
	assert_int_equal(ledger_spans_claim(taken, wanted, &err), 0);
	assert_int_equal(wanted->count, 0);
}

static void expect(const struct ledger_spans *taken, const char *text)
{
	char got[256] = "";
	for (size_t i = 0; i < taken->count; i++) {
		const struct ledger_span *s = &taken->items[i];
		size_t used = strlen(got);
		snprintf(got + used, sizeof got - used, "%s%d-%d%s", i ? " " : "",
			 (int)(s->start / P), (int)(s->end / P), s->name);
	}
	assert_string_equal(got, text);
}

TEST(the_first_claim_wins)
{
	struct ledger_spans taken = {0}, wanted = {0};
	want(&wanted, 20, 30, "b");
	want(&wanted, 5, 10, "a");
	claim(&taken, &wanted);
	expect(&taken, "5-10a 20-30b");
	/* Around, between, inside, beyond */
	want(&wanted, 25, 40, "d");
	want(&wanted, 1, 22, "c");
	want(&wanted, 6, 9, "e");
	claim(&taken, &wanted);
	expect(&taken, "1-5c 5-10a 10-20c 20-30b 30-40d");
	want(&wanted, 0, 50, "f");
	claim(&taken, &wanted);
	expect(&taken, "0-1f 1-5c 5-10a 10-20c 20-30b 30-40d 40-50f");
	vector_free(&taken);
	vector_free(&wanted);
}

TEST(claims_are_of_whole_pages)
{
	struct ledger_spans taken = {0}, wanted = {0};
	struct ledger_span s = {.start = P + 5, .end = 2 * P + 1, .name = "x"};
	assert_true(ledger_spans_add(&wanted, &s));
	s.start = s.end = 9 * P; /* nothing */
	assert_true(ledger_spans_add(&wanted, &s));
	claim(&taken, &wanted);
	expect(&taken, "1-3x");
	vector_free(&taken);
	vector_free(&wanted);
}

TEST(lines_of_one_name_are_one)
{
	struct ledger l = {0};
	struct heft_error err;
	assert_int_equal(ledger_add(&l, LEDGER_BSS, "x", &(struct ledger_bytes){1, 1, 0, 5}, &err),
			 0);
	assert_int_equal(
		ledger_add(&l, LEDGER_STACKS, "x", &(struct ledger_bytes){7, 7, 1, 9}, &err), 0);
	assert_int_equal(ledger_add(&l, LEDGER_BSS, "y", &(struct ledger_bytes){4, 4, 0, 4}, &err),
			 0);
	assert_int_equal(ledger_add(&l, LEDGER_BSS, "x", &(struct ledger_bytes){2, 0, 3, 5}, &err),
			 0);
	ledger_sort(&l);
	assert_int_equal(l.count, 3);
	assert_string_equal(l.items[0].name, "y");
	assert_string_equal(l.items[1].name, "x");
	assert_int_equal(l.items[1].bytes.resident, 3);
	assert_int_equal(l.items[2].kind, LEDGER_STACKS);
	struct ledger_bytes sum = ledger_sum(&l);
	assert_int_equal(sum.resident, 14);
	assert_int_equal(sum.own, 12);
	assert_int_equal(sum.swapped, 4);
	assert_int_equal(sum.mapped, 23);
	ledger_fini(&l);
}

TEST(lines_of_different_sites_are_apart_until_they_are_joined)
{
	const struct ledger_bytes one = {.resident = 4096, .own = 4096, .mapped = 8192};
	struct ledger l = {0};
	struct heft_error err;
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(
			ledger_add_mapped(&l, LEDGER_ANONYMOUS, "x", 1 + i % 3, &one, &err), 0);
	assert_int_equal(ledger_add(&l, LEDGER_BSS, "x", &one, &err), 0);
	assert_int_equal(l.count, 4);
	assert_int_equal(l.items[1].site, 2);
	assert_int_equal(l.items[1].bytes.resident, 8192);
	ledger_join(&l);
	assert_int_equal(l.count, 2);
	assert_int_equal(l.items[0].bytes.resident, 6 * 4096);
	assert_int_equal(l.items[0].bytes.mapped, 6 * 8192);
	assert_int_equal(l.items[1].kind, LEDGER_BSS);
	ledger_fini(&l);
}

/* ---- in recordings */

static void make_ledger(struct ledger *l)
{
	struct heft_error err;
	*l = (struct ledger){.moment = LEDGER_PEAK,
			     .time_ns = 5,
			     .pause_ns = 6,
			     .rss_bytes = 300,
			     .peak_rss_bytes = 400,
			     .share_of_peak = 0.75,
			     .reserved_bytes = 7,
			     .page_table_bytes = 8,
			     .huge_bytes = 9,
			     .hugetlb_bytes = 10,
			     .live_bytes = 13,
			     .note = "about"};
	assert_int_equal(
		ledger_add(l, LEDGER_BSS, "a", &(struct ledger_bytes){100, 50, 3, 500}, &err), 0);
	assert_int_equal(ledger_add(l, LEDGER_UNEXPLAINED, "",
				    &(struct ledger_bytes){200, 200, 0, 200}, &err),
			 0);
	l->items[1].blocks = 11;
	l->items[0].site = 12;
}

/* Reads a ledger from bytes, of which `count` are there; NULL, or what was expected. */
static const char *read_back(struct ledger *l, const struct byte_buffer *b, size_t count)
{
	uint32_t process;
	/* Of its own size, so that a sanitizer sees who reads behind it */
	uint8_t *copy = calloc(1, count + PREFIX_SCRATCH);
	memcpy(copy, b->data, count);
	struct byte_cursor c = {copy, copy + count, false};
	memset(l, 0, sizeof *l);
	const char *wrong = ledger_block_get(l, &process, &c);
	if (!wrong)
		assert_int_equal(process, 2);
	free(copy);
	return wrong;
}

/* Of a process that rose to 200 bytes, of one that never had as much, and of one that a damaged file does not define */
TEST(ledgers_are_compared_with_the_peak_of_the_run)
{
	struct trace_process processes[] = {{.peak_bytes = 200}, {.peak_bytes = 40}};
	struct ledger ledgers[3];
	for (uint32_t i = 0; i < 3; i++)
		ledgers[i] = (struct ledger){.live_bytes = 50, .share_of_peak = 1, .process = i};
	struct definitions d = {
		.ledgers = ledgers, .ledger_count = 3, .processes = processes, .process_count = 2};
	definitions_compare_with_peaks(&d);
	assert_true(ledgers[0].share_of_peak == 0.25);
	assert_true(ledgers[1].share_of_peak == 1 && ledgers[2].share_of_peak == 1);
	d = (struct definitions){.ledgers = ledgers, .ledger_count = 3};
	definitions_compare_with_peaks(&d);
}

TEST(ledgers_come_back_as_they_were)
{
	struct ledger l, back;
	struct byte_buffer b = {0};
	make_ledger(&l);
	ledger_block_put(&b, &l, 2);
	assert_null(read_back(&back, &b, b.len));
	assert_int_equal(back.count, 2);
	assert_int_equal(back.moment, LEDGER_PEAK);
	assert_int_equal(back.time_ns, 5);
	assert_int_equal(back.pause_ns, 6);
	assert_int_equal(back.rss_bytes, 300);
	assert_int_equal(back.peak_rss_bytes, 400);
	assert_true(back.share_of_peak == 0.75);
	assert_int_equal(back.hugetlb_bytes, 10);
	assert_string_equal(back.note, "about");
	assert_string_equal(back.items[0].name, "a");
	assert_int_equal(back.items[0].kind, LEDGER_BSS);
	assert_memory_equal(&back.items[0].bytes, &l.items[0].bytes, sizeof l.items[0].bytes);
	assert_int_equal(back.items[1].blocks, 11);
	assert_int_equal(back.items[0].site, 12);
	assert_int_equal(back.items[1].site, 0);
	assert_int_equal(back.live_bytes, 13);
	ledger_fini(&back);
	/* Those of earlier hefts end before the live bytes, or before the sites: each a byte here. */
	assert_null(read_back(&back, &b, b.len - 1));
	assert_int_equal(back.items[0].site, 12);
	assert_int_equal(back.live_bytes, 0);
	ledger_fini(&back);
	assert_null(read_back(&back, &b, b.len - 3));
	assert_int_equal(back.items[0].site, 0);
	ledger_fini(&back);
	/* Every shorter one is refused. */
	for (size_t i = 0; i < b.len; i++) {
		if (i == b.len - 1 || i == b.len - 3)
			continue;
		assert_non_null(read_back(&back, &b, i));
		ledger_fini(&back);
	}
	buffer_fini(&b);
	ledger_fini(&l);
}

TEST(ledgers_that_are_wrong_are_refused)
{
	struct ledger l, back;
	struct byte_buffer b = {0};
	make_ledger(&l);
	l.rss_bytes = 301; /* its lines do not add up */
	ledger_block_put(&b, &l, 2);
	assert_string_equal(read_back(&back, &b, b.len), "lines that add up to the resident bytes");
	ledger_fini(&back);
	l.rss_bytes = 300;
	l.items[0].bytes.own = 101; /* more than is resident */
	b.len = 0;
	ledger_block_put(&b, &l, 2);
	assert_non_null(read_back(&back, &b, b.len));
	ledger_fini(&back);
	l.items[0].bytes.own = 50;
	l.items[0].kind = LEDGER_KINDS + 5; /* of a later heft */
	b.len = 0;
	ledger_block_put(&b, &l, 2);
	assert_null(read_back(&back, &b, b.len));
	assert_int_equal(back.items[0].kind, LEDGER_UNEXPLAINED);
	ledger_fini(&back);
	buffer_fini(&b);
	ledger_fini(&l);
}

/* ---- pages */

enum { PAGES = 600 };
struct child {
	pid_t pid;
	uint8_t *zeros, *every_second, *file, *shared, *untouched, *inherited;
};

static void *map(size_t pages, int flags, int fd)
{
	void *at = mmap(NULL, pages * P, PROT_READ | PROT_WRITE, flags, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/* A child that stands still, with pages of every sort. Its mappings are made here, so that their places are known, and
 * touched there. */
static void begin(struct child *c)
{
	int ready[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	volatile uint8_t sum = 0;
	char byte;
	assert_int_equal(pipe(ready), 0);
	c->zeros = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	c->every_second = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	c->untouched = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	c->shared = map(PAGES, MAP_SHARED | MAP_ANONYMOUS, -1);
	c->inherited = map(PAGES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(c->zeros, PAGES * P, MADV_NOHUGEPAGE);
	madvise(c->every_second, PAGES * P, MADV_NOHUGEPAGE);
	madvise(c->inherited, PAGES * P, MADV_NOHUGEPAGE);
	c->file = map(4, MAP_PRIVATE, file);
	/* Shared with the child from here on: some hold nothing but zeros. */
	for (size_t i = 0; i < 100; i++)
		c->inherited[i * P] = i % 2 ? 1 : 0;
	c->pid = fork();
	if (c->pid == 0) {
		for (size_t i = 0; i < PAGES; i++)
			sum = (uint8_t)(sum + c->zeros[i * P]);
		for (size_t i = 0; i < 10; i++)
			c->zeros[i * 3 * P] = 1; /* not of zeros any more */
		for (size_t i = 0; i < PAGES; i += 2)
			c->every_second[i * P] = 1;
		for (size_t i = 0; i < 50; i++)
			c->shared[i * P] = 1;
		for (size_t i = 100; i < 200; i++)
			sum = (uint8_t)(sum + c->inherited[i * P]); /* of zeros */
		sum = (uint8_t)(sum + c->file[0]);
		c->file[P] = 1;
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	assert_true(c->pid > 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	int status;
	kill(c->pid, SIGSTOP);
	assert_int_equal(waitpid(c->pid, &status, WUNTRACED), c->pid);
	close(ready[0]);
	close(ready[1]);
	close(file);
}

static void end(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	munmap(c->zeros, PAGES * P);
	munmap(c->every_second, PAGES * P);
	munmap(c->untouched, PAGES * P);
	munmap(c->shared, PAGES * P);
	munmap(c->inherited, PAGES * P);
	munmap(c->file, 4 * P);
}

static char *read_file(pid_t pid, const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 4 << 20);
	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (4 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

static uint64_t smaps_sum(pid_t pid, const char *field)
{
	char *text = read_file(pid, "smaps");
	uint64_t sum = 0;
	for (const char *at = text; (at = strstr(at, field)); at++)
		sum += strtoull(at + strlen(field), NULL, 10) * 1024;
	free(text);
	return sum;
}

static struct ledger_bytes measure(struct ledger_pages *p, const uint8_t *at, size_t pages)
{
	struct ledger_bytes b = {0};
	ledger_pages_measure(p, (uintptr_t)at, (uintptr_t)at + pages * P, &b);
	assert_int_equal(b.mapped, pages * P);
	return b;
}

static void check_pages(enum ledger_pages_way way, size_t room)
{
	struct child c;
	struct ledger_pages p;
	struct heft_error err = {0};
	begin(&c);
	char *maps = read_file(c.pid, "maps");
	assert_int_equal(ledger_pages_open(&p, c.pid, &err), 0);
	assert_int_equal(ledger_pages_read(&p, maps, way, room, &err), 0);
	uint64_t resident = 0;
	for (size_t i = 0; i < p.count; i++)
		if (p.items[i].flags & LEDGER_IN_MEMORY)
			resident += p.items[i].end - p.items[i].start;
	assert_int_equal(resident, smaps_sum(c.pid, "\nRss:"));
	assert_int_equal(measure(&p, c.zeros, PAGES).resident, 10 * P);
	assert_int_equal(measure(&p, c.every_second, PAGES).resident, PAGES / 2 * P);
	assert_int_equal(measure(&p, c.untouched, PAGES).resident, 0);
	assert_int_equal(measure(&p, c.inherited, PAGES).resident, 100 * P);
	struct ledger_bytes shared = measure(&p, c.shared, PAGES);
	assert_int_equal(shared.resident, 50 * P);
	assert_int_equal(shared.own, 0);
	assert_int_equal(measure(&p, c.file + P, 1).own, P);
	assert_int_equal(measure(&p, c.file, 1).own, 0);
	assert_true(ledger_pages_have(&p, (uintptr_t)c.every_second + 2 * P + 5));
	assert_false(ledger_pages_have(&p, (uintptr_t)c.every_second + 3 * P));
	/* Parts of pages count by byte. */
	struct ledger_bytes part = {0};
	ledger_pages_measure(&p, (uintptr_t)c.every_second + 100,
			     (uintptr_t)c.every_second + 2 * P + 7, &part);
	assert_int_equal(part.resident, P - 100 + 7);
	ledger_pages_fini(&p);
	free(maps);
	end(&c);
}

TEST(pages_are_those_of_smaps)
{
	check_pages(LEDGER_BEST_WAY, 0);
}

TEST(pages_are_those_of_smaps_by_pagemap)
{
	check_pages(LEDGER_PAGEMAP, 0);
}

/* More runs than are asked for at a time: the reading goes on where it was, and counts no page twice. */
TEST(pages_are_read_in_many_calls)
{
	static const size_t rooms[] = {1, 2, 3, 7, 64, 100, 511, 512, 513};
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
		check_pages(LEDGER_BEST_WAY, rooms[i]);
}

TEST(dropped_pages_are_gone)
{
	struct ledger_pages p = {.fd = -1};
	assert_true(vector_push(&p, (struct ledger_run){P, 11 * P, LEDGER_IN_MEMORY}));
	assert_true(vector_push(&p, (struct ledger_run){20 * P, 21 * P, LEDGER_SWAPPED}));
	assert_int_equal(ledger_pages_drop(&p, 3 * P, 5 * P), 2 * P);
	assert_int_equal(ledger_pages_drop(&p, 0, 2 * P), P);
	assert_int_equal(ledger_pages_drop(&p, 10 * P, 30 * P), 2 * P);
	struct ledger_bytes b = measure(&p, NULL, 40);
	assert_int_equal(b.resident, 6 * P);
	assert_int_equal(b.swapped, 0);
	ledger_pages_fini(&p);
}

UNIT_TESTS(NULL, NULL)
