/* What findings make of ledgers: books that do not close, and notes about memory that is not malloc's. */
#include "diagnosis_fixture.h"

#include "hosted/error.h"
#include "hosted/ledger.h"

#define MIB ((uint64_t)1 << 20)

static struct ledger *add_ledger(struct profile *p, int32_t pid, enum ledger_moment moment)
{
	struct ledger *l = APPEND(p->ledgers, p->ledger_count);
	l->pid = pid;
	l->moment = moment;
	l->time_ns = 500 * MS;
	return l;
}

static void add_line(struct ledger *l, enum ledger_kind kind, const char *name, uint64_t bytes,
		     uint64_t blocks)
{
	const struct ledger_bytes b = {.resident = bytes, .own = bytes, .mapped = bytes};
	struct heft_error err;
	assert_int_equal(ledger_add(l, kind, name, &b, &err), 0);
	l->items[l->count - 1].blocks = blocks;
	l->rss_bytes += bytes;
}

static void add_process(struct profile *p, int32_t pid, const char *exe)
{
	const struct profile_process q = {.pid = pid, .exe = exe, .end_ns = 1 * SECOND};
	uint32_t id;
	assert_int_equal(profile_add_process(p, &q, &id), 0);
}

/* 100 MiB of heap in use, one process */
static struct profile *with_heap(struct ledger **l, enum ledger_moment moment)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 10, 10 * MIB);
	add_process(p, 1, "/bin/one");
	*l = add_ledger(p, 1, moment);
	add_line(*l, LEDGER_REQUESTED, "requested", 90 * MIB, 10);
	add_line(*l, LEDGER_ROUNDING, "rounding", 9 * MIB, 10);
	add_line(*l, LEDGER_HEADERS, "headers", 80, 10);
	return p;
}

static uint32_t kinds_of(const struct findings *f, enum finding_kind kind)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < findings_count(f); i++)
		count += findings_get(f, i)->kind == kind;
	return count;
}

static uint32_t notes_about(const struct findings *f, const char *about)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < findings_note_count(f); i++)
		count += !strcmp(findings_note(f, i)->about, about);
	return count;
}

static uint32_t open_books(struct profile *p)
{
	struct findings *f = diagnose(p, 0);
	uint32_t count = kinds_of(f, FINDING_BOOKS_DO_NOT_CLOSE);
	done(f, p);
	return count;
}

TEST(test_blocks_that_are_missing)
{
	struct ledger *l;
	struct profile *p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_IN_USE, LEDGER_MISSED, MIB, 7);
	assert_int_equal(open_books(p), 1); /* 1 of 100 MiB: the limit */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_IN_USE, LEDGER_MISSED, MIB - 4096, 7);
	assert_int_equal(open_books(p), 0);
	/* Those from before heft was there */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_IN_USE, "blocks in use that were not recorded", 50 * MIB, 7);
	assert_int_equal(open_books(p), 0);
	/* The reason is known, and another finding says it. */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_IN_USE, LEDGER_MISSED, 50 * MIB, 7);
	p->totals.dropped = 1;
	assert_int_equal(open_books(p), 0);
}

TEST(test_a_small_gap)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	add_process(p, 1, "/bin/one");
	add_line(add_ledger(p, 1, LEDGER_EXIT), LEDGER_IN_USE, LEDGER_MISSED, (256 << 10) - 1, 7);
	assert_int_equal(open_books(p), 0);
}

TEST(test_pages_on_no_line)
{
	struct ledger *l;
	struct profile *p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_UNEXPLAINED, "pages", 99 * MIB / 98, 0);
	assert_int_equal(open_books(p), 1); /* a little over 1 % of all */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_UNEXPLAINED, "pages", 99 * MIB / 100, 0);
	assert_int_equal(open_books(p), 0);
	/* Another allocator than glibc's: 2 % */
	p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	add_process(p, 1, "/bin/one");
	l = add_ledger(p, 1, LEDGER_EXIT);
	add_line(l, LEDGER_REQUESTED, "requested", 99 * MIB, 10);
	add_line(l, LEDGER_UNEXPLAINED, "pages", 3 * MIB / 2, 0);
	assert_int_equal(open_books(p), 0);
	p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	add_process(p, 1, "/bin/one");
	l = add_ledger(p, 1, LEDGER_EXIT);
	add_line(l, LEDGER_REQUESTED, "requested", 97 * MIB, 10);
	add_line(l, LEDGER_UNEXPLAINED, "pages", 2 * MIB, 0);
	assert_int_equal(open_books(p), 1);
}

/* One finding a process, from the ledger with the greatest gap. */
TEST(test_several_ledgers)
{
	struct ledger *l;
	struct profile *p = with_heap(&l, LEDGER_PEAK);
	add_line(l, LEDGER_IN_USE, LEDGER_MISSED, 20 * MIB, 7);
	add_process(p, 2, "/bin/two");
	for (uint64_t i = 1; i < 4; i++)
		add_line(add_ledger(p, i == 3 ? 2 : 1, LEDGER_EXIT), LEDGER_IN_USE, LEDGER_MISSED,
			 i * 15 * MIB, i);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(kinds_of(f, FINDING_BOOKS_DO_NOT_CLOSE), 2);
	for (uint32_t i = 0; i < findings_count(f); i++) {
		const struct finding *x = findings_get(f, i);
		if (x->kind != FINDING_BOOKS_DO_NOT_CLOSE)
			continue;
		assert_true(x->bytes == 30 * MIB || x->bytes == 45 * MIB);
		assert_non_null(strstr(x->summary, x->bytes == 30 * MIB ? "(pid 1)" : "(pid 2)"));
	}
	done(f, p);
}

/* ---- notes */

static uint32_t resident_notes(struct profile *p, const char *words)
{
	struct findings *f = diagnose(p, 0);
	uint32_t count = notes_about(f, "resident-memory");
	for (uint32_t i = 0; i < findings_note_count(f); i++)
		if (!strcmp(findings_note(f, i)->about, "resident-memory"))
			assert_non_null(strstr(findings_note(f, i)->text, words));
	done(f, p);
	return count;
}

TEST(test_memory_of_others)
{
	struct ledger *l;
	struct profile *p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_ANONYMOUS, "made by grow (table.c:7)", 100 * MIB, 0);
	assert_int_equal(
		resident_notes(p, "most of the resident memory is not malloc's: when it exited "
				  "199.0 MiB were resident: malloc's heap had 99.0 MiB; "
				  "100.0 MiB: made by grow (table.c:7)"),
		1);
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_ANONYMOUS, "made by grow (table.c:7)", 98 * MIB, 0);
	assert_int_equal(resident_notes(p, ""), 0); /* less than half */
	/* Files and libraries are nobody's heap. */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_FILES, "/var/data", 900 * MIB, 0);
	assert_int_equal(resident_notes(p, ""), 0);
	/* Several lines: the largest first, and no small ones */
	p = with_heap(&l, LEDGER_PEAK);
	add_line(l, LEDGER_ANONYMOUS, "a", 50 * MIB, 0);
	add_line(l, LEDGER_SHARED_MEMORY, "b", 200 * MIB, 0);
	add_line(l, LEDGER_ALLOCATOR, "c", 50 * MIB, 0);
	add_line(l, LEDGER_ANONYMOUS, "d", 1 * MIB, 0);
	assert_int_equal(resident_notes(p, "; 200.0 MiB: b; 50.0 MiB: a; 50.0 MiB: c"), 1);
}

TEST(test_memory_of_another_allocator)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	add_process(p, 1, "/bin/one");
	struct ledger *l = add_ledger(p, 1, LEDGER_EXIT);
	add_line(l, LEDGER_REQUESTED, "requested", MIB, 10);
	add_line(l, LEDGER_ANONYMOUS, "made by libjemalloc.so.2, or the program", 100 * MIB, 0);
	assert_int_equal(resident_notes(p, ""), 0);
}

TEST(test_little_memory_of_others)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	add_process(p, 1, "/bin/one");
	struct ledger *l = add_ledger(p, 1, LEDGER_EXIT);
	add_line(l, LEDGER_HEADERS, "headers", 80, 10);
	add_line(l, LEDGER_ANONYMOUS, "made by grow", 8 * MIB - 4096, 0);
	assert_int_equal(resident_notes(p, ""), 0);
}

TEST(test_free_memory)
{
	struct ledger *l;
	struct profile *p = with_heap(&l, LEDGER_PEAK);
	add_line(l, LEDGER_HELD_FREE, "in bins", 60 * MIB, 0);
	add_line(l, LEDGER_HELD_FREE, "at the top", 40 * MIB, 0);
	assert_int_equal(resident_notes(p, "100.0 MiB of the resident memory are free, and malloc "
					   "keeps them: near the peak of its heap 199.0 MiB"),
			 1);
	/* What was freed before the exit is nothing to note. */
	p = with_heap(&l, LEDGER_EXIT);
	add_line(l, LEDGER_HELD_FREE, "in bins", 900 * MIB, 0);
	assert_int_equal(resident_notes(p, ""), 0);
}

/* Workers of one program are alike. */
TEST(test_one_note_for_a_program)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:1 keep:2", 1, 1000);
	for (int32_t pid = 1; pid < 6; pid++) {
		add_process(p, pid, pid == 5 ? "/bin/other" : "/bin/worker");
		struct ledger *l = add_ledger(p, pid, LEDGER_EXIT);
		add_line(l, LEDGER_HEADERS, "headers", 80, 10);
		add_line(l, LEDGER_ANONYMOUS, "made by grow", 50 * MIB, 0);
	}
	assert_int_equal(resident_notes(p, "made by grow"), 2);
}

UNIT_TESTS(NULL, NULL)
