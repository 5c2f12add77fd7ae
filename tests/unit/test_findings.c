/* Findings about memory on profiles made by hand: the four scenarios with their figures, and for
 * every rule the cases in which it must stay silent. */
#include "diagnosis_fixture.h"

#include "findings/finding_words.h"

#include <math.h>

/* ---- unbounded-queue */

enum { ITEMS = 5000 };
static uint64_t born[ITEMS], freed[ITEMS];

/* One consumer takes `service` ns for each item, in order; the producer makes one every `arrival`
 * ns and waits while `bound` are queued (0: no bound). */
static void simulate(uint64_t items, uint64_t arrival, uint64_t service, uint64_t bound)
{
	uint64_t now = 1 * MS, idle = 0;
	for (uint64_t i = 0; i < items; i++) {
		now += arrival;
		if (bound && i >= bound && freed[i - bound] > now)
			now = freed[i - bound];
		born[i] = now;
		idle = (idle > now ? idle : now) + service;
		freed[i] = idle;
	}
}

/* Scenario 1: a node of 24 bytes and a payload of 1024 for each message. */
static struct profile *queue_profile(uint64_t items)
{
	struct profile *p = new_profile(freed[items - 1] + 5 * MS);
	uint32_t main_thread = add_thread(p, "queue"), worker = add_thread(p, "worker");
	add_site(p, "main:91 send_message:37 allocate:26", items, 1024);
	add_site(p, "main:91 send_message:34 allocate:26", items, 24);
	for (uint32_t i = 0; i < 2; i++) {
		add_handover(p, i, items, born, freed, main_thread, worker);
		add_release(p, i, "clone:1 deliver_messages:73");
	}
	add_site(p, "main:80", 1, 1000);
	return p;
}

TEST(test_queue_without_a_bound)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 1);
	const struct finding *q = findings_get(f, 0);
	assert_int_equal(q->kind, FINDING_UNBOUNDED_QUEUE);
	assert_int_equal(q->severity, FINDING_HIGH);
	assert_int_equal(q->site, 0);
	assert_string_equal(evidence(q, "producer_function")->text, "send_message");
	assert_string_equal(evidence(q, "consumer_function")->text, "deliver_messages");
	assert_int_equal(evidence(q, "producer_threads")->count, 1);
	assert_string_equal(evidence(q, "producer_threads")->texts[0], "queue");
	assert_string_equal(evidence(q, "consumer_threads")->texts[0], "worker");
	assert_int_equal(evidence(q, "items")->number, 5000);
	/* Made in 20 ms, in which the worker ends 109. */
	assert_in_range(evidence(q, "backlog_items")->number, 4880, 4900);
	assert_int_equal(evidence(q, "backlog_blocks")->number,
			 2 * evidence(q, "backlog_items")->number);
	assert_int_equal(evidence(q, "backlog_bytes")->number,
			 1048 * evidence(q, "backlog_items")->number);
	assert_int_equal(evidence(q, "arrival_ns")->number, 4000);
	assert_int_equal(evidence(q, "service_ns")->number, 182000);
	assert_int_equal(evidence(q, "wait_growth_ns")->number, 178000);
	expect_text(q->summary, "unbounded queue");
	expect_text(q->summary, "send_message (prog.c:37)");
	expect_text(q->summary, "deliver_messages (prog.c:73)");
	expect_text(q->summary, "178 us longer");
	expect_text(q->advice, "Bound");
	done(f, p);
}

/* Who makes and who takes: one thread, one without a name, several. */
TEST(test_queue_in_words)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	expect_text(findings_get(f, 0)->summary,
		    "unbounded queue: thread \"queue\" makes an item every 4 us at send_message "
		    "(prog.c:37), but thread \"worker\" takes 182 us for each at deliver_messages "
		    "(prog.c:73). Each item waits 178 us longer");
	findings_free(f);
	p->threads[0].name = "";
	p->threads[1].name = NULL;
	f = diagnose(p, 0);
	expect_text(findings_get(f, 0)->summary,
		    "unbounded queue: a thread without a name makes an item every 4 us at "
		    "send_message (prog.c:37), but a thread without a name takes 182 us for each");
	done(f, p);
}

/* What a program had before heft was attached is all there at once, as far as heft knows. */
TEST(test_no_queue_of_older_blocks)
{
	simulate(ITEMS, 0, 182000, 0);
	for (int older = 0; older < 2; older++) {
		struct profile *p = new_profile(freed[ITEMS - 1] + 5 * MS);
		uint32_t main_thread = add_thread(p, "main"), worker = add_thread(p, "worker");
		add_site(p, "older:1", ITEMS, 1024);
		add_handover(p, 0, ITEMS, born, freed, main_thread, worker);
		add_release(p, 0, "clone:1 deliver_messages:73");
		if (older)
			p->stacks.frames[p->stacks.nodes[p->sites[0].node].frame].function =
				PROFILE_OLDER_PLACE;
		p->run.older_listed = older;
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), !older);
		done(f, p);
	}
}

TEST(test_queue_with_a_bound)
{
	static const uint64_t runs[] = {130, 200, 500, 2000, 5000};
	static const uint64_t bounds[] = {8, 64, 100};
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
		for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
			simulate(runs[i], 4000, 182000, bounds[k]);
			struct profile *p = queue_profile(runs[i]);
			struct findings *f = diagnose(p, 0);
			if (count_of(f, FINDING_UNBOUNDED_QUEUE))
				fail_msg("%d items, bound %d: %s", (int)runs[i], (int)bounds[k],
					 findings_get(f, 0)->summary);
			done(f, p);
		}
}

TEST(test_queue_that_keeps_up)
{
	/* Jitter: arrivals and services vary, the consumer is 20 % faster. */
	uint32_t x = 1;
	uint64_t now = 1 * MS, idle = 0;
	for (int i = 0; i < ITEMS; i++) {
		x = x * 1664525 + 1013904223;
		now += 50000 + (x >> 16) % 100000;
		born[i] = now;
		x = x * 1664525 + 1013904223;
		idle = (idle > now ? idle : now) + 40000 + (x >> 16) % 80000;
		freed[i] = idle;
	}
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 0);
	done(f, p);
}

TEST(test_queue_that_is_barely_overloaded)
{
	/* 10 % too slow, and the program is killed in mid-run: a tenth of what came is waiting. */
	simulate(ITEMS, 100000, 111111, 0);
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	const struct finding *q = find(f, FINDING_UNBOUNDED_QUEUE);
	assert_non_null(q);
	assert_in_range(evidence(q, "wait_growth_ns")->number, 11000, 11200);
	assert_in_range(evidence(q, "backlog_items")->number, 480, 520);
	done(f, p);
}

TEST(test_queue_with_batches)
{
	/* The consumer takes 50 at a time and frees them together, back to front. */
	simulate(ITEMS, 4000, 182000, 0);
	for (uint64_t i = 0; i < ITEMS; i += 50) {
		uint64_t end = freed[i + 49];
		for (uint64_t k = 0; k < 50; k++)
			freed[i + k] = end + 50 * k;
	}
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 1);
	done(f, p);
}

TEST(test_burst_in_heaps)
{
	/* The producer was stopped twice for a while: no line fits. */
	for (uint64_t i = 0; i < ITEMS; i++) {
		born[i] = 1 * MS + 1000 * i + (i > 10 ? 15 * MS : 0) + (i > 4700 ? 60 * MS : 0);
		freed[i] = (i ? freed[i - 1] : 30 * MS) + 180000;
	}
	struct profile *p = queue_profile(ITEMS);
	assert_true(p->behaviour.handovers[0].wait_fit < 0.5);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 1);
	done(f, p);
}

static uint32_t seed = 1;

/* Exponential with this mean: as irregular as arrivals get. */
static uint64_t irregular(uint64_t mean)
{
	seed = seed * 1664525 + 1013904223;
	double u = ((double)(seed >> 8) + 1) / 16777217.0;
	return (uint64_t)(-log(u) * (double)mean) + 1;
}

/* Items come irregularly, and take irregularly long with one of `consumers`. */
static void simulate_irregular(uint64_t items, uint64_t arrival, uint64_t service,
			       uint64_t consumers, uint64_t bound)
{
	uint64_t now = 1 * MS, idle[8] = {0};
	for (uint64_t i = 0; i < items; i++) {
		now += irregular(arrival);
		if (bound && i >= bound && freed[i - bound] > now)
			now = freed[i - bound];
		born[i] = now;
		uint64_t next = 0;
		for (uint64_t k = 1; k < consumers; k++)
			if (idle[k] < idle[next])
				next = k;
		idle[next] = (idle[next] > now ? idle[next] : now) + irregular(service);
		freed[i] = idle[next];
	}
}

TEST(test_queues_at_random)
{
	for (int round = 0; round < 1500; round++) {
		uint64_t items = 300 + irregular(600) % 1500, consumers = 1 + irregular(2) % 4;
		uint64_t service = 100000 * consumers;
		/* Kept up with by 10 % or more; bounded, and full within a quarter of the run (one that
		 * fills up all the time is not told from one without a bound); overloaded by 40 %. */
		int what = round % 3;
		if (what == 2 && consumers > 2) /* more overtake too often to be told */
			continue;
		uint64_t arrival = what == 0   ? 111000 + irregular(100000)
				   : what == 1 ? 1000 + irregular(30000) % 49000
					       : 1000 + irregular(30000) % 70000;
		uint64_t bound = what == 1 ? 4 + irregular(20) % (items / 8) : 0;
		simulate_irregular(items, arrival, service, consumers, bound);
		struct profile *p = queue_profile(items);
		struct findings *f = diagnose(p, 0);
		uint32_t found = count_of(f, FINDING_UNBOUNDED_QUEUE);
		if (found != (what == 2))
			fail_msg(
				"round %d: %u found; %d items, %d consumers, arrival %d, bound %d, "
				"fit %g, growth %g, in order %d, backlog %d",
				round, found, (int)items, (int)consumers, (int)arrival, (int)bound,
				p->behaviour.handovers[0].wait_fit,
				p->behaviour.handovers[0].wait_slope *
					(double)(p->behaviour.handovers[0].last_birth_ns -
						 p->behaviour.handovers[0].first_birth_ns) /
					p->behaviour.handovers[0].wait_mean_ns,
				(int)p->behaviour.handovers[0].in_order,
				(int)p->behaviour.handovers[0].backlog_blocks);
		done(f, p);
	}
}

TEST(test_table_taken_down_by_another_thread)
{
	/* Freed in order once it is built, and slower than it was built: each lives longer. */
	for (uint64_t slow = 1; slow <= 16; slow *= 4) {
		for (uint64_t i = 0; i < ITEMS; i++) {
			born[i] = 1 * MS + 1000 * i;
			freed[i] = 7 * MS + 1100 * slow * i;
		}
		struct profile *p = queue_profile(ITEMS);
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 0);
		done(f, p);
	}
}

TEST(test_cache_emptied_by_another_thread)
{
	/* Each entry lives until 1000 newer ones are there. */
	for (uint64_t i = 0; i < ITEMS; i++) {
		born[i] = 1 * MS + 100000 * i;
		freed[i] = born[i] + 1000 * 100000;
	}
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 0);
	done(f, p);
}

TEST(test_stack_is_no_queue)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	for (uint32_t i = 0; i < 2; i++) /* last in, first out: most overtake */
		p->behaviour.handovers[i].in_order = ITEMS / 10;
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 0);
	done(f, p);
}

TEST(test_queue_of_nothing_much)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, (uint64_t)600 << 20); /* 5 of 600 MiB */
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 0);
	done(f, p);
}

TEST(test_several_producers_of_one_queue)
{
	struct profile *p = new_profile(1 * SECOND);
	uint32_t worker = add_thread(p, "drain");
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t from = add_thread(p, "rx");
		char words[64];
		snprintf(words, sizeof words, "clone:1 receive_%u:20 post:7", i);
		add_site(p, words, 1500, 2000);
		for (uint64_t k = 0; k < 1500; k++) {
			born[k] = 1 * MS + 10000 * k + 1000 * i;
			freed[k] = 2 * MS + 600000 * k + 200000 * i;
		}
		add_handover(p, i, 1500, born, freed, from, worker);
		add_release(p, i, "clone:1 drain:50 message_free:3");
	}
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 1);
	const struct finding *q = find(f, FINDING_UNBOUNDED_QUEUE);
	assert_int_equal(evidence(q, "items")->number, 4500);
	assert_string_equal(evidence(q, "producer_threads")->texts[0], "rx (3 threads)");
	expect_text(q->summary, "unbounded queue: 3 threads \"rx\" make an item every ");
	assert_string_equal(evidence(q, "consumer_function")->text, "drain");
	assert_string_equal(evidence(q, "freeing_function")->text, "message_free");
	done(f, p);
}

TEST(test_two_queues)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	uint32_t other = add_thread(p, "logger");
	add_site(p, "main:95 log_line:12", ITEMS, 500);
	add_handover(p, p->site_count - 1, ITEMS, born, freed, 0, other);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_UNBOUNDED_QUEUE), 2);
	assert_string_equal(evidence(findings_get(f, 1), "producer_function")->text, "log_line");
	assert_string_equal(evidence(findings_get(f, 1), "consumer_function")->text, "unknown");
	done(f, p);
}

/* ---- per-instance-cost */

/* Scenario 2. */
static struct profile *connections(const char *caller, uint64_t count)
{
	struct profile *p = new_profile(1 * SECOND);
	static const struct {
		const char *words;
		uint64_t bytes;
	} parts[] = {{"conn_new:46", 40},        {"conn_new:48", 144 * 101},
		     {"conn_new:49", 4 * 101},   {"conn_new:50 make_id_table:38", 4 * 65536},
		     {"conn_new:51", 144 * 100}, {"conn_new:52", 10240}};
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char words[128];
		snprintf(words, sizeof words, "%s %s", caller, parts[i].words);
		all_freed(add_site(p, words, count, parts[i].bytes));
	}
	return p;
}

TEST(test_connections)
{
	struct profile *p = connections("main:79", 300);
	add_site(p, "main:77", 1, 300 * 8);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 1);
	const struct finding *o = findings_get(f, 0);
	assert_int_equal(o->kind, FINDING_PER_INSTANCE_COST);
	assert_int_equal(o->severity, FINDING_HIGH);
	assert_int_equal(o->bytes, 300 * 301772);
	assert_string_equal(evidence(o, "function")->text, "conn_new");
	assert_int_equal(evidence(o, "instances")->number, 300);
	assert_int_equal(evidence(o, "bytes_each")->number, 301772);
	const struct evidence *parts = evidence(o, "parts");
	assert_int_equal(parts->count, 6);
	static const uint64_t sizes[] = {262144, 14544, 14400, 10240, 404, 40};
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(parts->parts[i].bytes, sizes[i]);
	assert_string_equal(parts->parts[0].function, "make_id_table");
	assert_string_equal(parts->parts[1].where, "prog.c:48");
	assert_true(parts->parts[0].share > 0.868 && parts->parts[0].share < 0.869);
	expect_text(o->summary, "300 objects of 301,772 bytes each, made at conn_new (prog.c:46)");
	expect_text(o->summary, "3,558 objects fit in 1 GiB");
	done(f, p);
}

TEST(test_objects_with_several_blocks_of_a_site)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 session_new:20", 200, 128);
	add_site(p, "main:9 session_new:24 make_page:4", 1600, 4096); /* 8 for each */
	add_site(p, "main:5 load:3", 1, 90000);
	struct findings *f = diagnose(p, 0);
	const struct finding *o = find(f, FINDING_PER_INSTANCE_COST);
	assert_non_null(o);
	assert_int_equal(evidence(o, "instances")->number, 200);
	assert_int_equal(evidence(o, "bytes_each")->number, 128 + 8 * 4096);
	assert_int_equal(evidence(o, "blocks_each")->number, 9);
	assert_string_equal(evidence(o, "function")->text, "session_new");
	done(f, p);
}

/* perl has pools for scalars and for their bodies: one of each for every so many hashes. */
TEST(test_chunks_of_pools_are_no_object)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 run:3 store:20 more_scalars:4", 237, 4028);
	add_site(p, "main:9 run:3 store:22 more_bodies:4", 237, 4080);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 0);
	done(f, p);
	/* The same with sizes that are the program's own. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 run:3 store:20 more_scalars:4", 237, 4096);
	add_site(p, "main:9 run:3 store:22 more_bodies:4", 237, 3900);
	f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 1);
	done(f, p);
}

TEST(test_one_constructor_two_callers)
{
	/* 200 and 100 of them: counts that are multiples of each other. */
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 serve:2 accept_v4:5 conn_new:20", 200, 8192);
	add_site(p, "main:9 serve:2 accept_v4:5 conn_new:21", 200, 512);
	add_site(p, "main:9 serve:3 accept_v6:5 conn_new:20", 100, 8192);
	add_site(p, "main:9 serve:3 accept_v6:5 conn_new:21", 100, 512);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 1);
	const struct finding *o = find(f, FINDING_PER_INSTANCE_COST);
	assert_int_equal(evidence(o, "instances")->number, 300);
	assert_int_equal(evidence(o, "bytes_each")->number, 8704);
	done(f, p);
}

TEST(test_no_objects)
{
	/* Rows of strings: small, and not even the same number in each. */
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 read:5 split_row:20 grow:3", 12427, 192);
	add_site(p, "main:9 read:5 split_row:22 make_field:7", 86989, 10);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 0);
	done(f, p);

	/* Tables made at the start. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 init:5", 1, 4 << 20);
	add_site(p, "main:9 init:6", 1, 8 << 20);
	f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	done(f, p);

	/* Counts that do not agree. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 load:5", 1000, 4096);
	add_site(p, "main:9 load:6", 1433, 4096);
	f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	done(f, p);

	/* Live counts agree at the peak, but one site was made ten times as often. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 load:5", 1000, 4096);
	struct profile_site *s = add_site(p, "main:9 load:6", 1000, 4096);
	s->allocations = 10000;
	s->frees = 9000;
	f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	done(f, p);

	/* One pair agrees by chance among many under main. */
	p = new_profile(1 * SECOND);
	add_site(p, "main:9 tree:5", 1000, 700);
	add_site(p, "main:12 names:6", 1000, 700);
	add_site(p, "main:14 index:6", 3701, 3000);
	f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 0);
	done(f, p);
}

TEST(test_counts_must_move_together)
{
	/* First all of one, then all of the other: two arrays, not a thousand objects. */
	for (int together = 0; together < 2; together++) {
		struct profile *p = new_profile(1 * SECOND);
		set_slots(p, 100);
		add_site(p, "main:9", 1000, 4096);
		add_site(p, "main:12", 1000, 512);
		for (uint32_t site = 0; site < 2; site++) {
			struct profile_history_row *row = add_history(p, site);
			for (uint32_t i = 0; i < 100; i++) {
				row->blocks[i] = together    ? 10 * (i + 1)
						 : site == 0 ? (i < 50 ? 20 * (i + 1) : 1000)
							     : (i < 50 ? 0 : 20 * (i - 49));
				row->bytes[i] = row->blocks[i] * (site ? 512 : 4096);
			}
		}
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), together);
		done(f, p);
	}
}

TEST(test_queue_is_not_an_object_too)
{
	simulate(ITEMS, 4000, 182000, 0);
	struct profile *p = queue_profile(ITEMS);
	struct findings *f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 0);
	for (uint32_t i = 0; i < 2; i++) /* without the hand-over it is one */
		p->sites[i].handover = PROFILE_NONE;
	findings_free(f);
	f = diagnose(p, 0);
	assert_int_equal(count_of(f, FINDING_PER_INSTANCE_COST), 1);
	done(f, p);
}

/* ---- growth-slack, allocator-rounding: scenario 3 */

TEST(test_sheet)
{
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:97 read_sheet:85 split_row:55 make_field:38", 86982, 10)->peak_bytes =
		882982;
	p->sites[0].peak_slack_bytes = 86982 * 24 - 882982; /* chunks of 32, 8 of them the header */
	struct profile_site *s = add_site(p, "main:97 read_sheet:90 add_row:68 grow:28", 1, 393216);
	s->reallocations = 12;
	s->allocations = 0;
	s->peak_slack_bytes = 4080;
	add_site(p, "main:97 read_sheet:85 split_row:54 grow:28", 12427, 192)->peak_slack_bytes =
		12427 * 8;
	struct profile_growth *g = add_growth(p, 1);
	g->steps = 12;
	g->moved_steps = 9;
	g->copied_bytes = 196416;
	g->blocks = g->measured_blocks = 1;
	g->final_bytes = g->largest_bytes = g->measured_bytes = 393216;
	g->unused_bytes = 94992;
	struct findings *f = diagnose(p, 0);
	assert_int_equal(findings_count(f), 2);
	const struct finding *r = findings_get(f, 0), *w = findings_get(f, 1);
	assert_int_equal(r->kind, FINDING_ALLOCATOR_ROUNDING);
	assert_int_equal(r->severity, FINDING_HIGH);
	assert_int_equal(r->bytes, 1900442);
	assert_string_equal(evidence(r, "function")->text, "make_field");
	assert_int_equal(evidence(r, "header_bytes")->number, 695856);
	expect_text(r->summary, "86,982 blocks from make_field (prog.c:38) hold 10.2 bytes");
	expect_text(r->summary, "take 32.0 each");
	expect_text(r->summary, "1,900,442 bytes");
	assert_int_equal(w->kind, FINDING_GROWTH_SLACK);
	assert_int_equal(w->severity, FINDING_LOW); /* 2.6 % of 3.66 MB */
	assert_int_equal(w->bytes, 94992);
	assert_string_equal(evidence(w, "function")->text, "add_row");
	assert_int_equal(evidence(w, "steps")->number, 12);
	assert_int_equal(evidence(w, "copied_bytes")->number, 196416);
	assert_int_equal(evidence(w, "slack_bytes")->number, 94992);
	expect_text(w->summary, "94,992 bytes of 393,216 bytes unused (24.2 %)");
	done(f, p);
}

TEST(test_slack_of_blocks_that_came_and_went)
{
	/* 1000 arrays of 64 KiB one after the other, half empty: 32 KiB at any time. */
	struct profile *p = new_profile(1 * SECOND);
	add_site(p, "main:9 push:3", 1, 65536);
	struct profile_growth *g = add_growth(p, 0);
	g->steps = 10000;
	g->blocks = g->measured_blocks = 1000;
	g->measured_bytes = 65536000;
	g->unused_bytes = 32768000;
	g->largest_bytes = 65536;
	struct findings *f = diagnose(p, 0);
	const struct finding *w = find(f, FINDING_GROWTH_SLACK);
	assert_int_equal(w->bytes, 32768);
	done(f, p);
}

TEST(test_no_slack)
{
	for (int i = 0; i < 4; i++) {
		struct profile *p = new_profile(1 * SECOND);
		add_site(p, "main:9 push:3", 1, 1 << 20);
		struct profile_growth *g = add_growth(p, 0);
		g->steps = i == 0 ? 1 : 10;                      /* one realloc is no growth */
		g->blocks = g->measured_blocks = i == 1 ? 0 : 1; /* not looked at */
		g->measured_bytes = i == 1 ? 0 : 1 << 20;
		g->unused_bytes = i == 2 ? 1000 : i == 1 ? 0 : 500000;            /* well used */
		struct findings *f = diagnose(p, i == 3 ? (uint64_t)1 << 30 : 0); /* beside a GiB */
		assert_int_equal(findings_count(f), 0);
		done(f, p);
	}
}

TEST(test_rounding_without_headers)
{
	struct profile *p = new_profile(1 * SECOND);
	uint32_t id;
	assert_int_equal(profile_add_module(p, "/usr/lib/libjemalloc.so.2", NULL, 0, &id), 0);
	add_site(p, "main:9 make_field:3", 50000, 9)->peak_slack_bytes = 50000 * 7;
	add_site(p, "main:9 make_field:5", 50000, 10)->peak_slack_bytes = 50000 * 6;
	struct findings *f = diagnose(p, 0);
	const struct finding *r = find(f, FINDING_ALLOCATOR_ROUNDING);
	assert_int_equal(r->bytes, 650000); /* both lines of one function */
	assert_int_equal(evidence(r, "header_bytes")->number, 0);
	assert_int_equal(evidence(r, "blocks")->number, 100000);
	done(f, p);
}

TEST(test_no_rounding)
{
	/* Larger blocks; few blocks; well-fitting ones; not measured. */
	static const struct {
		uint64_t blocks, bytes, slack;
	} cases[] = {{10000, 1000, 16}, {500, 9, 15}, {100000, 56, 0}, {100000, 10, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *p = new_profile(1 * SECOND);
		add_site(p, "main:9 make:3", cases[i].blocks, cases[i].bytes)->peak_slack_bytes =
			cases[i].blocks * cases[i].slack;
		add_site(p, "main:10 rest:3", 1, 1 << 20)->peak_slack_bytes = i == 3 ? 0 : 100;
		struct findings *f = diagnose(p, 0);
		assert_int_equal(count_of(f, FINDING_ALLOCATOR_ROUNDING), 0);
		done(f, p);
	}
}

/* ---- names in sentences */

TEST(test_names_in_sentences)
{
	char name[100];
	assert_string_equal(phrase_function("map<int, char>::get(int)").text, "map<..>::get(..)");
	assert_string_equal(phrase_function("a::operator<<(int)").text, "a::operator<<(..)");
	assert_string_equal(phrase_function("<T as Q<U>>::f").text, "<T as Q<..>>::f");
	assert_string_equal(phrase_function("n::(anonymous namespace)::f(int)").text,
			    "n::(anonymous namespace)::f(..)");
	memset(name, 'x', sizeof name);
	name[72] = 0; /* the longest that is whole */
	assert_string_equal(phrase_function(name).text, name);
	name[72] = 'x';
	name[73] = 0;
	struct phrase cut = phrase_function(name);
	assert_int_equal(strlen(cut.text), 75);
	assert_string_equal(cut.text + 71, "x...");
}

UNIT_TESTS(NULL, NULL)
