/* What programs said, in the model: made-up remarks, whose numbers are worked out by hand. */
#include "profile/profile_from_trace.h"

#include "remarks_fixture.h"

static void expect_hop(const struct profile_hop *h, const char *from, const char *to,
		       bool still_there, uint64_t blocks, uint64_t total_ns, uint64_t p50_ns,
		       uint64_t p99_ns, uint64_t max_ns)
{
	assert_string_equal(h->from ? h->from : "allocated", from);
	assert_string_equal(h->to ? h->to : "no stage", to);
	assert_int_equal(h->still_there, still_there);
	assert_int_equal(h->blocks, blocks);
	assert_int_equal(h->total_ns, total_ns);
	assert_int_equal(h->p50_ns, p50_ns);
	assert_int_equal(h->p99_ns, p99_ns);
	assert_int_equal(h->max_ns, max_ns);
}

TEST(test_marks_and_regions)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 4);
	assert_string_equal(r->marks[0].name, "A");
	assert_int_equal(r->marks[0].time_ns, 1000);
	assert_int_equal(r->marks[1].time_ns, 9001);
	assert_int_equal(p->processes[r->marks[1].process].pid, 200);
	assert_int_equal(p->threads[r->marks[2].thread].tid, 101);
	assert_int_equal(r->region_count, 3);
	assert_string_equal(r->regions[0].name, "load");
	assert_int_equal(r->regions[0].begin_ns, 2000);
	assert_int_equal(r->regions[0].end_ns, 7000);
	assert_false(r->regions[0].is_open);
	/* Nobody ended it: it lasts as long as its process. */
	assert_string_equal(r->regions[1].name, "request");
	assert_true(r->regions[1].of_thread && r->regions[1].is_open);
	assert_int_equal(r->regions[1].end_ns, 100000);
	/* The child's copy began with the child. */
	assert_string_equal(r->regions[2].name, "load");
	assert_int_equal(p->processes[r->regions[2].process].pid, 200);
	assert_true(r->regions[2].is_inherited);
	assert_int_equal(r->regions[2].begin_ns, 4000);
	assert_int_equal(r->regions[2].end_ns, 6000);
	profile_free(p);
}

TEST(test_stages)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->hop_count, 5);
	expect_hop(&r->hops[0], "allocated", "queued", false, 4, 4600, 500, 3000, 3000);
	expect_hop(&r->hops[1], "queued", "handled", false, 2, 9000, 3000, 6000, 6000);
	expect_hop(&r->hops[2], "queued", "no stage", false, 2, 1500, 500, 1000, 1000);
	expect_hop(&r->hops[3], "handled", "no stage", false, 1, 500, 500, 500, 500);
	expect_hop(&r->hops[4], "handled", "no stage", true, 1, 88000, 88000, 88000, 88000);
	assert_int_equal(profile_hop_mean_ns(&r->hops[0]), 1150);
	assert_int_equal(r->lost_blocks, 1);
	/* Sites 0 and 1 read the same. */
	assert_int_equal(r->hop_site_count, 5);
	assert_int_equal(r->hop_sites[0].hop, 0);
	assert_int_equal(r->hop_sites[0].blocks, 4);
	assert_int_equal(p->sites[r->hop_sites[0].site].allocations, 2);
	assert_int_equal(r->hop_sites[2].blocks, 1); /* nobody knows where 0x30 was allocated */
	profile_free(p);
}

TEST(test_events)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->event_count, 2);
	assert_string_equal(r->events[0].name, "boom");
	assert_int_equal(r->events[0].weight, 100);
	assert_int_equal(r->event_sites[r->events[0].first].node, PROFILE_NONE);
	assert_string_equal(r->events[1].name, "tick");
	assert_int_equal(r->events[1].count, 3);
	assert_int_equal(r->events[1].weight, 13);
	assert_int_equal(r->events[1].sites, 2);
	const struct profile_event_site *s = &r->event_sites[r->events[1].first];
	assert_int_equal(s[0].count, 2);
	assert_int_equal(s[0].weight, 12);
	assert_int_equal(profile_node_frame(p, s[0].node)->line, 6);
	assert_int_equal(s[1].weight, 1);
	assert_int_equal(profile_node_frame(p, s[1].node)->line, 5);
	profile_free(p);
}

/* At 9000: 100 and 60 of line 6, 30 and 10 of line 5. */
TEST(test_pools)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(NULL);
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->pool_count, 2);
	const struct profile_pool *cells = &r->pools[0];
	assert_string_equal(cells->name, "cells");
	assert_int_equal(cells->pools, 2);
	assert_int_equal(cells->destroyed, 1);
	assert_int_equal(cells->objects, 6);
	assert_int_equal(cells->bytes, 270);
	assert_int_equal(cells->freed, 1);
	assert_int_equal(cells->unknown_frees, 1);
	assert_int_equal(cells->peak_bytes, 200);
	assert_int_equal(cells->peak_objects, 4);
	assert_int_equal(cells->peak_time_ns, 9000);
	assert_int_equal(cells->left_bytes, 200);
	assert_int_equal(cells->left_objects, 4);
	assert_int_equal(cells->sites, 3);
	const struct profile_pool_site *s = &r->pool_sites[cells->first];
	assert_int_equal(profile_node_frame(p, s[0].node)->line, 6);
	assert_int_equal(s[0].objects, 3);
	assert_int_equal(s[0].bytes, 210);
	assert_int_equal(s[0].freed, 1);
	assert_int_equal(s[0].left_objects, 2);
	assert_int_equal(s[0].left_bytes, 160);
	assert_int_equal(s[0].peak_objects, 2);
	assert_int_equal(s[0].peak_bytes, 160);
	assert_int_equal(s[0].left_parts[0], 2);
	assert_int_equal(profile_node_frame(p, s[1].node)->line, 5);
	assert_int_equal(s[1].left_bytes, 40);
	assert_int_equal(s[1].peak_bytes, 40);
	assert_int_equal(s[2].node, PROFILE_NONE);
	assert_int_equal(s[2].bytes, 20);
	assert_int_equal(s[2].left_bytes, 0); /* its pool was destroyed */
	assert_int_equal(s[2].peak_bytes, 0);
	assert_string_equal(r->pools[1].name, "pool 0x3000");
	assert_int_equal(r->pools[1].pools, 0);
	assert_int_equal(r->pools[1].left_bytes, 8);
	/* Of 42000 to 100000: the fourth eighth */
	assert_int_equal(r->pool_sites[r->pools[1].first].left_parts[3], 1);
	profile_free(p);
}

TEST(test_a_window)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(
		&(struct profile_selection){.has_window = true, .from_ns = 5504, .to_ns = 13000});
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 1);
	assert_string_equal(r->marks[0].name, "B");
	assert_int_equal(r->region_count, 3); /* they reach into it */
	assert_int_equal(r->regions[1].end_ns, 100000);
	assert_int_equal(r->hop_count, 4);
	expect_hop(&r->hops[0], "allocated", "queued", false, 1, 3000, 3000, 3000, 3000);
	expect_hop(&r->hops[1], "queued", "handled", false, 2, 9000, 3000, 6000, 6000);
	expect_hop(&r->hops[2], "handled", "no stage", false, 1, 500, 500, 500, 500);
	expect_hop(&r->hops[3], "handled", "no stage", true, 1, 1000, 1000, 1000, 1000);
	assert_int_equal(r->event_count, 0);
	assert_int_equal(r->pool_count, 1);
	assert_int_equal(r->pools[0].objects, 3); /* 10, 20, 60 */
	assert_int_equal(r->pools[0].bytes, 90);
	assert_int_equal(r->pools[0].peak_bytes, 200);
	assert_int_equal(r->pools[0].left_bytes, 200); /* live when the window ends */
	profile_free(p);
	/* Nothing is allocated in it: the peak is what it began with. */
	p = load_remarks(
		&(struct profile_selection){.has_window = true, .from_ns = 10000, .to_ns = 20000});
	assert_int_equal(p->remarks.pools[0].objects, 0);
	assert_int_equal(p->remarks.pools[0].peak_bytes, 200);
	assert_int_equal(p->remarks.pools[0].peak_time_ns, 10000);
	profile_free(p);
}

TEST(test_one_process)
{
	remarks_record(said, SAID_COUNT);
	struct profile *p = load_remarks(
		&(struct profile_selection){.has_pid = true, .pid = 200, .own_time = true});
	const struct profile_remarks *r = &p->remarks;
	assert_int_equal(r->mark_count, 1);
	assert_int_equal(r->marks[0].time_ns, 5001); /* since it began */
	assert_int_equal(r->region_count, 1);
	assert_int_equal(r->regions[0].begin_ns, 0);
	assert_int_equal(r->hop_count, 0);
	assert_int_equal(r->pools[0].left_bytes, 60);
	assert_int_equal(r->pools[0].peak_time_ns, 5000);
	profile_free(p);
	p = load_remarks(&(struct profile_selection){.thread = "worker"});
	assert_int_equal(p->remarks.mark_count, 1);
	assert_int_equal(p->remarks.pool_count, 0);
	assert_int_equal(p->remarks.event_count, 1);
	assert_int_equal(p->remarks.events[0].weight, 8);
	profile_free(p);
}

/* Beyond 65,536 blocks of a hop, every second one is kept: 1, 3, 5 ... of 1 to 100,000 ns. */
TEST(test_quantiles_of_many)
{
	enum { BLOCKS = 100000 };
	struct trace_remark *list = calloc(2 * BLOCKS, sizeof *list);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		list[2 * i] = (struct trace_remark)SAID(STAGE, 200000 * i, MAIN, .a = 16 * i,
							.name = QUEUED);
		list[2 * i + 1] = (struct trace_remark)SAID(STAGE_END, 200000 * i + i + 1, MAIN,
							    .a = 16 * i);
	}
	remarks_record(list, 2 * BLOCKS);
	struct profile *p = load_remarks(NULL);
	assert_int_equal(p->remarks.hop_count, 1);
	expect_hop(&p->remarks.hops[0], "queued", "no stage", false, BLOCKS, 5000050000, 49999,
		   98999, 100000);
	profile_free(p);
	free(list);
}

static uint64_t time_of(const char *text, const struct profile_selection *sel, char *message)
{
	static const struct profile_selection all;
	struct trace_reader *r;
	struct heft_error err = {0};
	uint64_t time_ns = 0;
	assert_int_equal(trace_reader_open(&r, remarks_path, &err), 0);
	int rc = trace_mark_time(r, sel ? sel : &all, text, &time_ns, &err);
	trace_reader_close(r);
	assert_int_equal(rc, message ? HEFT_ENOTFOUND : 0);
	if (message)
		strcpy(message, err.message);
	return time_ns;
}

TEST(test_times_of_marks)
{
	char message[1024];
	remarks_record(said, SAID_COUNT);
	assert_int_equal(time_of("A", NULL, NULL), 1000);
	assert_int_equal(time_of("A#1", NULL, NULL), 1000);
	assert_int_equal(time_of("A#2", NULL, NULL), 15000);
	assert_int_equal(time_of("B", NULL, NULL), 9000);            /* a tick is 8 ns */
	assert_int_equal(time_of("A#2\033[31m", NULL, NULL), 16000); /* its whole name */
	time_of("A#3", NULL, message);
	assert_string_equal(message, "there is no mark 'A#3' in this recording\n"
				     "its marks are: A (2 times), B, A#2\033[31m");
	time_of("A", &(struct profile_selection){.has_pid = true, .pid = 200}, message);
	assert_string_equal(message, "there is no mark 'A' in this recording\nits marks are: B");
	remarks_record(said + 1, 1);
	time_of("A", NULL, message);
	assert_string_equal(message, "there is no mark 'A': this recording has no marks\n"
				     "a program makes them with heft_mark(\"NAME\") of heft.h");
}

/* Nothing that a file can say leads out of what it holds: ends without beginnings, objects of destroyed pools, regions with
 * one number, ages of more than the recording. */
TEST(test_wild_remarks)
{
	enum { COUNT = 20000 };
	struct trace_remark *list = calloc(COUNT, sizeof *list);
	uint64_t random = 7, time_ns = 0;
	for (size_t i = 0; i < COUNT; i++) {
		uint32_t dice[8];
		for (int k = 0; k < 8; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			dice[k] = (uint32_t)(random >> 33);
		}
		time_ns += dice[0] % 20;
		list[i] = (struct trace_remark){.kind = (uint8_t)(dice[1] % TRACE_REMARK_KINDS),
						.time_ns = time_ns,
						.thread = dice[2] % 3,
						.a = dice[3] % 4,
						.b = dice[4] % 64,
						.c = dice[5] % 100 ? dice[5] % 1000 : UINT64_MAX,
						.site = dice[6] % 6,
						.born_at = dice[6] % 7,
						.name = dice[7] % 11};
	}
	remarks_record(list, COUNT);
	const struct profile_selection selections[] = {
		{.has_pid = false},
		{.has_window = true, .from_ns = 50000, .to_ns = 90000},
		{.has_window = true, .from_ns = 50000, .to_ns = 50000},
		{.has_pid = true, .pid = 200, .own_time = true},
		{.thread = "main"},
		{.by_process = true},
	};
	for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
		struct profile *p = load_remarks(&selections[i]);
		const struct profile_remarks *r = &p->remarks;
		for (uint32_t k = 0; k < r->hop_count; k++) {
			const struct profile_hop *h = &r->hops[k];
			assert_true(h->blocks && h->p50_ns <= h->p99_ns && h->p99_ns <= h->max_ns);
			assert_true(h->max_ns <= h->total_ns || h->blocks == 1);
		}
		for (uint32_t k = 0; k < r->hop_site_count; k++)
			assert_true(r->hop_sites[k].hop < r->hop_count &&
				    r->hop_sites[k].site < p->site_count);
		for (uint32_t k = 0; k < r->region_count; k++)
			assert_true(r->regions[k].begin_ns <= r->regions[k].end_ns);
		uint32_t sites = 0;
		for (uint32_t k = 0; k < r->pool_count; k++) {
			const struct profile_pool *x = &r->pools[k];
			uint64_t left = 0, parts = 0;
			assert_int_equal(x->first <= UINT32_MAX - x->sites, 1);
			for (uint32_t n = 0; n < x->sites; n++) {
				left += r->pool_sites[x->first + n].left_objects;
				for (int part = 0; part < PROFILE_POOL_PARTS; part++)
					parts += r->pool_sites[x->first + n].left_parts[part];
			}
			sites += x->sites;
			assert_true(left == x->left_objects && parts == left);
			assert_true(selections[i].has_window ||
				    x->left_objects + x->freed <= x->objects);
		}
		assert_true(sites <= 6 * r->pool_count);
		profile_free(p);
	}
	free(list);
}

UNIT_TESTS(fixture_make, fixture_remove)
