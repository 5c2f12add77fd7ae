/* Putting calls into their order: allocations and frees, state by state (the table in
 * record/reorder.c), and the end of a process. */
#include "reorder_fixture.h"

/* ---- empty and live */

CASE(test_in_order)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T1, 110, B, 20);
	release(w, T1, 150, A); /* not temporary: B came after it */
	release(w, T1, 160, B);
	allocate(w, T1, 200, C, 30);
	release(w, T2, 260, C); /* by another thread */
	next(w, TRACE_ALLOC, T1, 100, 10);
	next(w, TRACE_ALLOC, T1, 110, 20);
	next_free(w, T1, 150, 10, 50, 0);
	next_free(w, T1, 160, 20, 50, TRACE_TEMPORARY);
	next(w, TRACE_ALLOC, T1, 200, 30);
	next_free(w, T2, 260, 30, 60, 0);
	nothing_more(w);
	live_is(w, 0, 0);
	assert_int_equal(w->r.peak_bytes, 30);
	assert_int_equal(w->r.peak_blocks, 2);
	assert_int_equal(w->r.peak_time_ns, 110); /* the first instant: at 200 it was 30 again */
	assert_false(reorder_waits(&w->r));
}

CASE(test_site_of_the_free)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	struct reorder_now now = at(w, 130);
	reorder_free(&w->r, &now, &w->threads[T2], A, TRACE_FREED_AT, 77);
	next(w, TRACE_ALLOC, T1, 100, 10);
	const struct trace_event *e = next(w, TRACE_FREE, T2, 130, 10);
	assert_int_equal(e->flags, TRACE_FREED_AT);
	assert_int_equal(e->free_site, 77);
}

CASE(test_batches_are_flushed)
{
	struct world *w = *state;
	for (uint64_t i = 0; i < 3 * TRACE_BATCH; i++)
		allocate(w, T1, 100 + i, A + i * 64, 1);
	assert_int_equal(w->flushes, 2);
	for (uint64_t i = 0; i < 3 * TRACE_BATCH; i++)
		next(w, TRACE_ALLOC, T1, 100 + i, 1);
	nothing_more(w);
}

/* ---- parked */

CASE(test_parked_until_the_free_comes)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20); /* the free before it is on its way */
	next(w, TRACE_ALLOC, T1, 100, 10);
	nothing_more(w);
	assert_true(reorder_waits(&w->r));
	release(w, T1, 210, A);
	next_free(w, T1, 210, 10, 110, TRACE_TEMPORARY);
	next(w, TRACE_ALLOC, T2, 210, 20);
	nothing_more(w);
	live_is(w, 20, 1);
	assert_false(reorder_waits(&w->r));
	release(w, T2, 230, A); /* it was born when it was stamped, not when it was let in */
	next_free(w, T2, 230, 20, 30, TRACE_TEMPORARY);
}

CASE(test_parked_and_freed)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	release(w, T2, 205, A);      /* its own: it waits with its allocation */
	allocate(w, T2, 206, A, 30); /* and another one behind it */
	next(w, TRACE_ALLOC, T1, 100, 10);
	nothing_more(w);
	release(w, T1, 210, A);
	next_free(w, T1, 210, 10, 110, TRACE_TEMPORARY);
	next(w, TRACE_ALLOC, T2, 210, 20);
	next_free(w, T2, 210, 20, 5, TRACE_TEMPORARY);
	next(w, TRACE_ALLOC, T2, 210, 30);
	nothing_more(w);
	live_is(w, 30, 1);
	assert_int_equal(w->r.unknown_frees, 0);
}

/* Only as many as the frees that came. */
CASE(test_parked_behind_one_that_is_live)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	allocate(w, T2, 210, A, 30);
	release(w, T3, 220, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T3, 220, 10, 120, 0);
	next(w, TRACE_ALLOC, T2, 220, 20);
	nothing_more(w);
	assert_true(reorder_waits(&w->r));
	release(w, T3, 230, A);
	next_free(w, T3, 230, 20, 30, 0);
	next(w, TRACE_ALLOC, T2, 230, 30);
	nothing_more(w);
	assert_false(reorder_waits(&w->r));
}

/* The second free of a thread with one parked block is of the block that is live. */
CASE(test_parked_is_freed_once)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	release(w, T2, 205, A);
	release(w, T2, 210, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T2, 210, 10, 110, 0);
	next(w, TRACE_ALLOC, T2, 210, 20);
	next_free(w, T2, 210, 20, 5, TRACE_TEMPORARY);
	nothing_more(w);
	live_is(w, 0, 0);
}

CASE(test_parked_stays_for_50_ms)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	allocate(w, T2, 300, A, 30);
	expire(w, 200 + 49999999);
	next(w, TRACE_ALLOC, T1, 100, 10);
	nothing_more(w);
	expire(w,
	       200 + 50000000); /* the first ends where the second begins; the third still waits */
	next_free(w, T1, 50000200, 10, 50000100, 0);
	next(w, TRACE_ALLOC, T2, 50000200, 20);
	nothing_more(w);
	assert_int_equal(w->r.unknown_frees, 1);
	live_is(w, 20, 1);
	assert_true(reorder_waits(&w->r));
	expire(w, 300 + 50000000);
	next_free(w, T2, 50000300, 20, 50000100, 0);
	next(w, TRACE_ALLOC, T2, 50000300, 30);
	assert_int_equal(w->r.unknown_frees, 2);
	assert_false(reorder_waits(&w->r));
}

/* A thread resizes its own parked block: it has it, so the one before it is gone. */
CASE(test_parked_and_resized)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	announce(w, T2, 250, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T1, 250, 10, 150, 0);
	next(w, TRACE_ALLOC, T2, 250, 20);
	nothing_more(w);
	assert_int_equal(w->r.unknown_frees, 1);
	complete(w, T2, 260, B, 40);
	const struct trace_event *e = next(w, TRACE_REALLOC, T2, 260, 40);
	assert_int_equal(e->old_size, 20);
	live_is(w, 40, 1);
}

/* The announcement of a realloc gives the address away as a free does. */
CASE(test_announced_lets_the_parked_in)
{
	struct world *w = *state;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	announce(w, T1, 210, A);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next(w, TRACE_ALLOC, T2, 210, 20);
	live_is(w, 30, 2); /* the bytes of what moves are live */
	complete(w, T1, 220, B, 15);
	next(w, TRACE_REALLOC, T1, 220, 15);
	nothing_more(w);
	live_is(w, 35, 2);
	assert_int_equal(w->r.unknown_frees, 0);
}

/* ---- early */

CASE(test_early_free_finds_its_block)
{
	struct world *w = *state;
	release(w, T2, 95, A);
	nothing_more(w);
	allocate(w, T1, 100, A, 10);
	next(w, TRACE_ALLOC, T1, 100, 10);
	next_free(w, T2, 100, 10, 0, 0);
	nothing_more(w);
	live_is(w, 0, 0);
	assert_int_equal(w->r.unknown_frees, 0);
	assert_false(reorder_waits(&w->r));
}

CASE(test_early_stays_for_20_us)
{
	struct world *w = *state;
	release(w, T2, 95, A);
	expire(w, 95 + 19999);
	assert_int_equal(w->r.unknown_frees, 0);
	expire(w, 95 + 20000);
	assert_int_equal(w->r.unknown_frees, 1);
	assert_false(reorder_waits(&w->r));
	allocate(w, T1, 21000, A, 10); /* another block */
	live_is(w, 10, 1);
}

CASE(test_one_thread_has_no_early_frees)
{
	struct world *w = *state;
	w->r.several_threads = false;
	release(w, T1, 95, A);
	assert_int_equal(w->r.unknown_frees, 1);
	allocate(w, T1, 100, A, 10);
	live_is(w, 10, 1);
}

CASE(test_child_frees_what_it_inherited)
{
	struct world *w = *state;
	w->r.is_child = true;
	release(w, T1, 95, A);
	allocate(w, T1, 100, A, 10); /* the same thread: a new block at an old address */
	live_is(w, 10, 1);
	expire(w, 95 + 1999);
	assert_int_equal(w->r.inherited_frees, 0);
	expire(w, 95 + 2000);
	assert_int_equal(w->r.inherited_frees, 1);
	release(w, T2, 3000, B);
	allocate(w, T1, 3100, B, 20); /* another thread's: that was early */
	live_is(w, 10, 1);
	assert_int_equal(w->r.inherited_frees, 1);
	assert_int_equal(w->r.unknown_frees, 0);
}

/* A program that heft was attached to frees what it had before: that is no unknown free. */
CASE(test_attached_frees_older_blocks)
{
	struct world *w = *state;
	w->r.is_attached = true;
	release(w, T1, 95, A);
	allocate(w, T1, 100, A, 10); /* the same thread: a new block at an old address */
	live_is(w, 10, 1);
	expire(w, 95 + 299);
	assert_int_equal(w->r.older_frees, 0);
	expire(w, 95 + 300);
	assert_int_equal(w->r.older_frees, 1);
	release(w, T2, 3000, B);
	allocate(w, T1, 3299, B, 20); /* another thread's, at once: that was early */
	live_is(w, 10, 1);
	assert_int_equal(w->r.older_frees, 1);
	release(w, T2, 5000, B);
	allocate(w, T1, 5300, B,
		 30); /* later: a new block at an old address, although nobody looked
					 meanwhile */
	live_is(w, 40, 2);
	expire(w, 5300);
	assert_int_equal(w->r.older_frees, 2);
	assert_int_equal(w->r.unknown_frees, 0);
	assert_int_equal(w->r.inherited_frees, 0);
}

/* heft leaves: a free is not seen any more, and a malloc that had begun before still is, at the same address. */
CASE(test_left_meanwhile)
{
	struct world *w = *state;
	w->r.is_attached = true;
	allocate(w, T1, 100, A, 10);
	allocate(w, T2, 200, A, 20);
	expire(w, 1ull << 40);
	live_is(w, 20, 1);
	assert_int_equal(w->r.unknown_frees, 1); /* while heft is there it would be one */
	w->r.is_leaving = true;
	allocate(w, T1, (1ull << 40) + 100, A, 30);
	expire(w, 1ull << 41);
	live_is(w, 30, 1);
	assert_int_equal(w->r.unknown_frees, 1);
	assert_int_equal(w->r.older_frees, 0);
}

/* Its realloc of an older block is an allocation of the new size; one that fails, or frees, changes nothing. */
CASE(test_attached_resizes_older_blocks)
{
	struct world *w = *state;
	w->r.is_attached = true;
	announce(w, T1, 100, A);
	complete(w, T1, 110, B, 70);
	next(w, TRACE_ALLOC, T1, 110, 70);
	live_is(w, 70, 1);
	assert_int_equal(w->r.older_reallocs, 1);
	struct reorder_now now = at(w, 210);
	announce(w, T1, 200, A);
	reorder_realloc_failed(&w->r, &now, &w->threads[T1]);
	live_is(w, 70, 1);
	assert_int_equal(w->r.older_reallocs, 1);
	announce(w, T1, 300, A);
	now = at(w, 310);
	reorder_realloc_freed(&w->r, &now, &w->threads[T1]);
	nothing_more(w);
	assert_int_equal(w->r.older_frees, 1);
	assert_int_equal(w->r.unknown_frees, 0);
}

CASE(test_too_many_early_frees)
{
	struct world *w = *state;
	for (uint64_t i = 0; i <= REORDER_FREES; i++)
		release(w, T2, 100 + i, A + i * 64);
	assert_int_equal(w->r.unknown_frees, 1); /* the oldest made way */
	allocate(w, T1, 200, A, 10);
	live_is(w, 10, 1);
	allocate(w, T1, 201, A + 64, 10);
	live_is(w, 10, 1);
	assert_int_equal(w->r.unknown_frees, 1);
}

/* ---- the end */

CASE(test_end)
{
	struct world *w = *state;
	resize_something(w); /* 1 byte at C */
	allocate(w, T1, 10000, A, 10);
	allocate(w, T1, 10010, B, 20);
	release(w, T2, 10100, B);       /* held */
	release(w, T2, 10110, 0x90000); /* early */
	allocate(w, T2, 10120, A, 40);  /* parked */
	announce(w, T1, 10200, C);      /* moving */
	next(w, TRACE_ALLOC, T1, 10000, 10);
	next(w, TRACE_ALLOC, T1, 10010, 20);
	nothing_more(w);
	live_is(w, 31, 3);
	end(w, 11000);
	next_free(w, T2, 11000, 20, 90, 0);
	next_free(w, T1, 11000, 10, 1000, 0);
	next(w, TRACE_ALLOC, T2, 11000, 40);
	assert_int_equal(w->r.unknown_frees, 2); /* the early one, and A's first block */
	assert_int_equal(w->r.left_bytes, 41);
	assert_int_equal(w->r.left_blocks, 2);
	const struct trace_event *e = next(w, TRACE_GONE, T1, 11000, 1);
	assert_int_equal(e->lifetime_ns, 11000 - 10);
	e = next(w, TRACE_GONE, T2, 11000, 40);
	assert_int_equal(e->lifetime_ns, 11000 - 10120);
	nothing_more(w);
	live_is(w, 0, 0);
	assert_false(reorder_waits(&w->r));
}

/* ---- anything, in any order */

/* Whatever comes, every block that begins ends once, and the sums are those of the events. */
CASE(test_every_block_ends)
{
	struct world *w = *state;
	uint64_t seed = 1, live = 0;
	int64_t blocks = 0;
	for (uint64_t i = 1; i <= 10000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t addr = A + (seed >> 40) % 20 * 16, ns = i * 100 + (seed >> 32) % 3000;
		int thread = seed >> 60 & 1;
		/* A thread with a realloc under way completes it before anything else. */
		if (w->threads[thread].moving.addr)
			complete(w, thread, ns, addr, (seed >> 20) % 100);
		else if ((seed >> 50) % 8 < 3)
			allocate(w, thread, ns, addr, (seed >> 20) % 100);
		else if ((seed >> 50) % 8 < 7)
			release(w, thread, ns, addr);
		else
			announce(w, thread, ns, addr);
		if (reorder_waits(&w->r))
			expire(w, ns);
	}
	end(w, 2000000);
	flush(w);
	for (uint32_t i = 0; i < w->count; i++) {
		const struct trace_event *e = &w->events[i];
		assert_true(!i || e->time_ns >= e[-1].time_ns);
		if (e->op == TRACE_ALLOC || e->op == TRACE_REALLOC)
			live += e->size;
		if (e->op == TRACE_REALLOC)
			assert_true(live >= e->old_size);
		if (e->op == TRACE_REALLOC)
			live -= e->old_size;
		if (e->op == TRACE_FREE || e->op == TRACE_GONE) {
			assert_true(live >= e->size);
			live -= e->size;
		}
		blocks += e->op == TRACE_ALLOC ? 1 : e->op == TRACE_REALLOC ? 0 : -1;
		assert_true(blocks >= 0);
	}
	assert_true(w->count > 5000);
	assert_int_equal(live, 0);
	assert_int_equal(blocks, 0);
	live_is(w, 0, 0);
}

UNIT_TESTS(NULL, NULL)
