/* Putting calls into their order: blocks that are resized, and frees that are held because theirs may
 * have been (the table in record/reorder.c). */
#include "reorder_fixture.h"

/* ---- held: from the first realloc of a process with several threads on */

CASE(test_held_until_it_is_resized)
{
	struct world *w = *state;
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	release(w, T2, 10500, A);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	nothing_more(w);
	announce(w, T1, 10600, A); /* stamped after the free that follows it */
	complete(w, T1, 10700, A, 30);
	const struct trace_event *e = next(w, TRACE_REALLOC, T1, 10700, 30);
	assert_int_equal(e->old_size, 10);
	assert_int_equal(e->flags, 0);
	nothing_more(w); /* it may be resized again */
	expire(w, 10700 + 1999);
	nothing_more(w);
	expire(w, 10700 + 2000);
	next_free(w, T2, 12700, 30, 700, TRACE_GROWN);
	live_is(w, 1, 1);
	assert_int_equal(w->r.unknown_frees, 0);
}

CASE(test_held_stays_for_2_us)
{
	struct world *w = *state;
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	release(w, T2, 10500, A);
	expire(w, 10500 + 1999);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	nothing_more(w);
	expire(w, 10500 + 2000);
	next_free(w, T2, 12500, 10, 500,
		  0); /* it lived until it was freed, not until we believed it */
	nothing_more(w);
	live_is(w, 1, 1);
}

CASE(test_held_is_freed_before_the_next_block)
{
	struct world *w = *state;
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	release(w, T2, 10500, A);
	allocate(w, T1, 10600, A, 20);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	next_free(w, T2, 10600, 10, 500, 0);
	next(w, TRACE_ALLOC, T1, 10600, 20);
	nothing_more(w);
	release(w, T2, 10700, A); /* held again */
	release(w, T1, 10800, A); /* then this is of no block that is there */
	next_free(w, T2, 10800, 20, 100, 0);
	nothing_more(w);
	expire(w, 10800 + 20000);
	assert_int_equal(w->r.unknown_frees, 1);
}

CASE(test_held_is_freed_before_a_realloc_ends_there)
{
	struct world *w = *state;
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	release(w, T2, 10500, A);
	announce(w, T1, 10600, C);
	complete(w, T1, 10700, A, 2);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	next(w, TRACE_REALLOC, T1, 10700, 2);
	next_free(w, T2, 10700, 10, 500, 0);
	nothing_more(w);
	live_is(w, 2, 1);
	assert_int_equal(w->r.unknown_frees, 0);
}

CASE(test_held_lets_the_parked_in)
{
	struct world *w = *state;
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	allocate(w, T2, 10100, A, 20);
	release(w, T3, 10200, A);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	nothing_more(w);
	expire(w, 10200 + 2000);
	next_free(w, T3, 12200, 10, 200, 0);
	next(w, TRACE_ALLOC, T2, 12200, 20);
	nothing_more(w);
	assert_false(reorder_waits(&w->r));
}

CASE(test_who_is_not_held)
{
	struct world *w = *state;
	allocate(w, T1, 5000, A, 10);
	release(w, T2, 5001, A); /* nothing is ever resized here */
	next(w, TRACE_ALLOC, T1, 5000, 10);
	next_free(w, T2, 5001, 10, 1, 0);
	resize_something(w);
	allocate(w, T1, 10000, A, 10);
	release(w, T1, 10500, A); /* its own */
	allocate(w, T1, 20000, A, 10);
	release(w, T2, 22000, A); /* old enough */
	next(w, TRACE_ALLOC, T1, 10000, 10);
	next_free(w, T1, 10500, 10, 500, TRACE_TEMPORARY);
	next(w, TRACE_ALLOC, T1, 20000, 10);
	next_free(w, T2, 22000, 10, 2000, 0);
	nothing_more(w);
}

/* An early free in a process that resizes: it may be of what the new block is resized to. */
CASE(test_early_becomes_held)
{
	struct world *w = *state;
	resize_something(w);
	release(w, T2, 9990, A);
	allocate(w, T1, 10000, A, 10);
	next(w, TRACE_ALLOC, T1, 10000, 10);
	nothing_more(w);
	announce(w, T1, 10100, A);
	complete(w, T1, 10200, A, 20);
	next(w, TRACE_REALLOC, T1, 10200, 20);
	expire(w, 10200 + 2000);
	next_free(w, T2, 12200, 20, 200, TRACE_GROWN);
	nothing_more(w);
}

/* ---- announced */

CASE(test_announced_address_is_anybodys)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	announce(w, T1, 200, A);
	allocate(w, T2, 250, A, 40);
	complete(w, T1, 300, B, 30);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next(w, TRACE_ALLOC, T2, 250, 40);
	const struct trace_event *e = next(w, TRACE_REALLOC, T1, 300, 30);
	assert_int_equal(e->old_size, 10);
	assert_int_equal(e->old_site, 1);
	assert_int_equal(e->site, 11);
	assert_int_equal(e->flags, TRACE_MOVED | TRACE_COPIED);
	live_is(w, 70, 2);
	assert_int_equal(w->r.peak_bytes, 70);
	release(w, T1, 400, B); /* still the thread's last block, and as old as it was */
	next_free(w, T1, 400, 30, 300, TRACE_TEMPORARY | TRACE_GROWN);
	release(w, T2, 500, A);
	next_free(w, T2, 500, 40, 250, TRACE_TEMPORARY);
	nothing_more(w);
	live_is(w, 0, 0);
}

/* Who resizes a block has not made it. */
CASE(test_resized_by_another_thread)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	announce(w, T2, 200, A);
	complete(w, T2, 300, A, 30);
	release(w, T2, 5000, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	const struct trace_event *e = next(w, TRACE_REALLOC, T2, 300, 30);
	assert_int_equal(e->birth_thread, T1);
	e = next(w, TRACE_FREE, T2, 5000, 30);
	assert_int_equal(e->birth_thread, T1);
	assert_int_equal(e->lifetime_ns, 4900);
}

/* glibc maps large blocks by themselves, 16 bytes into a page: the kernel moves those. */
CASE(test_moved_pages_are_not_copied)
{
	struct world *w = *state;
	allocate(w, T1, 100, 0x7f0000000010, 128 << 10);
	announce(w, T1, 200, 0x7f0000000010);
	complete(w, T1, 300, 0x7f0001000010, 256 << 10);
	next(w, TRACE_ALLOC, T1, 100, 128 << 10);
	const struct trace_event *e = next(w, TRACE_REALLOC, T1, 300, 256 << 10);
	assert_int_equal(e->flags, TRACE_MOVED);
	announce(w, T1, 400, 0x7f0001000010);
	complete(w, T1, 500, A, 1000); /* into the heap */
	e = next(w, TRACE_REALLOC, T1, 500, 1000);
	assert_int_equal(e->flags, TRACE_MOVED | TRACE_COPIED);
	live_is(w, 1000, 1);
}

CASE(test_realloc_failed)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	announce(w, T1, 200, A);
	struct reorder_now now = at(w, 300);
	reorder_realloc_failed(&w->r, &now, &w->threads[T1]);
	release(w, T1, 400, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T1, 400, 10, 300, TRACE_TEMPORARY);
	nothing_more(w);
	live_is(w, 0, 0);
}

CASE(test_realloc_was_a_free)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	announce(w, T1, 200, A);
	struct reorder_now now = at(w, 300);
	reorder_realloc_freed(&w->r, &now, &w->threads[T1]);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T1, 300, 10, 200, TRACE_TEMPORARY);
	announce(w, T1, 400, B); /* never seen */
	now = at(w, 500);
	reorder_realloc_freed(&w->r, &now, &w->threads[T1]);
	nothing_more(w);
	assert_int_equal(w->r.unknown_frees, 1);
	live_is(w, 0, 0);
}

CASE(test_realloc_of_a_block_never_seen)
{
	struct world *w = *state;
	w->r.is_child = true;
	announce(w, T1, 100, A);
	complete(w, T1, 200, B, 20);
	const struct trace_event *e = next(w, TRACE_ALLOC, T1, 200, 20);
	assert_int_equal(e->site, 11);
	nothing_more(w);
	assert_int_equal(w->r.inherited_frees, 0);
	release(w, T1, 300, B);
	next_free(w, T1, 300, 20, 100, TRACE_TEMPORARY);
}

CASE(test_realloc_onto_a_live_block)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 110, B, 20); /* its free is never seen */
	announce(w, T1, 200, A);
	complete(w, T1, 300, B, 30);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next(w, TRACE_ALLOC, T2, 110, 20);
	next(w, TRACE_REALLOC, T1, 300, 30);
	next_free(w, T2, 300, 20, 190, 0);
	nothing_more(w);
	assert_int_equal(w->r.unknown_frees, 1);
	live_is(w, 30, 1);
}

/* ---- unused */

CASE(test_unused_end_of_a_block_that_grew)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	reorder_unused(&w->r, A, 3); /* did not grow: left out */
	announce(w, T1, 200, A);
	complete(w, T1, 300, A, 30);
	reorder_unused(&w->r, A, 7);
	release(w, T1, 400, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next(w, TRACE_REALLOC, T1, 300, 30);
	const struct trace_event *e = next(w, TRACE_FREE, T1, 400, 30);
	assert_int_equal(e->flags, TRACE_TEMPORARY | TRACE_GROWN | TRACE_MEASURED);
	assert_int_equal(e->unused_bytes, 7);
	/* It is not said of the next block there. */
	allocate(w, T1, 500, A, 10);
	announce(w, T1, 600, A);
	complete(w, T1, 700, A, 30);
	release(w, T1, 800, A);
	next(w, TRACE_ALLOC, T1, 500, 10);
	next(w, TRACE_REALLOC, T1, 700, 30);
	next_free(w, T1, 800, 30, 300, TRACE_TEMPORARY | TRACE_GROWN);
}

/* Hundreds may be told at once, when the process ends. Two at one place replace each other, and none is taken
 * for that of another block. */
CASE(test_unused_ends_of_many_blocks)
{
	struct world *w = *state;
	enum { MANY = REORDER_UNUSED / 4 };
	uint64_t measured = 0;
	for (uint64_t i = 0; i < MANY; i++) {
		allocate(w, T1, 100, A + i * 208, 10);
		announce(w, T1, 100, A + i * 208);
		complete(w, T1, 100, A + i * 208, 30);
		reorder_unused(&w->r, A + i * 208, i);
	}
	flush(w);
	w->read = w->count;
	for (uint64_t i = 0; i < MANY; i++) {
		release(w, T1, 200, A + i * 208);
		const struct trace_event *e = next(w, TRACE_FREE, T1, 200, 30);
		if (!(e->flags & TRACE_MEASURED))
			continue;
		assert_int_equal(e->unused_bytes, i);
		measured++;
	}
	assert_true(measured > MANY * 3 / 4);
}

UNIT_TESTS(NULL, NULL)
