/* The model and its loader, on the recording of recording_fixture.h: every expected number follows
 * from the table there. */
#include "profile/measure.h"
#include "profile/user_frame.h"

#include "profile_fixture.h"

static const struct profile_site *site_of(const struct profile *p, const char *function,
					  uint32_t line, uint32_t via)
{
	const struct profile_site *found = NULL;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		if (s->via != via || s->node == PROFILE_NONE)
			continue;
		const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[s->node].frame];
		if (strcmp(f->function, function) == 0 && f->line == line) {
			assert_null(found);
			found = s;
		}
	}
	if (!found)
		fail_msg("no site at %s:%u", function, line);
	return found;
}

static void expect_sums(const struct profile *p)
{
	struct profile_totals t = {0};
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		t.allocations += s->allocations;
		t.reallocations += s->reallocations;
		t.frees += s->frees;
		t.allocated_bytes += s->allocated_bytes;
		t.reallocated_bytes += s->reallocated_bytes;
		t.peak_bytes += s->peak_bytes;
		t.peak_blocks += s->peak_blocks;
		t.live_bytes += s->live_bytes;
		t.live_blocks += s->live_blocks;
		t.temporary += s->temporary;
	}
	assert_int_equal(t.allocations, p->totals.allocations);
	assert_int_equal(t.reallocations, p->totals.reallocations);
	assert_int_equal(t.frees, p->totals.frees);
	assert_int_equal(t.allocated_bytes, p->totals.allocated_bytes);
	assert_int_equal(t.reallocated_bytes, p->totals.reallocated_bytes);
	assert_int_equal(t.peak_bytes, p->totals.peak_bytes);
	assert_int_equal(t.peak_blocks, p->totals.peak_blocks);
	assert_int_equal(t.live_bytes, p->totals.live_bytes);
	assert_int_equal(t.live_blocks, p->totals.live_blocks);
	assert_int_equal(t.temporary, p->totals.temporary);
}

TEST(test_totals)
{
	struct profile *p = load(NULL);
	assert_int_equal(p->totals.allocations, 5);
	assert_int_equal(p->totals.reallocations, 1);
	assert_int_equal(p->totals.frees, 3);
	assert_int_equal(p->totals.allocated_bytes, 100 + 50 + 30 + 200 + 10 + 300);
	assert_int_equal(p->totals.reallocated_bytes, 500);
	assert_int_equal(p->totals.peak_bytes, 630);
	assert_int_equal(p->totals.peak_blocks, 3);
	assert_int_equal(p->totals.peak_time_ns, 6000);
	assert_int_equal(p->totals.live_bytes, 110);
	assert_int_equal(p->totals.live_blocks, 2);
	assert_int_equal(p->totals.live_slack_bytes, 4);
	assert_int_equal(p->totals.temporary, 1);
	assert_int_equal(p->totals.threads, 3);
	assert_int_equal(p->totals.dropped, 7);
	assert_int_equal(p->totals.unknown_frees, 2);
	/* 2000 + 500 at 3000; at 9600 the second process is gone. */
	assert_int_equal(p->totals.peak_rss_bytes, 2500);
	expect_sums(p);
	assert_int_equal(p->run.pid, 100);
	assert_int_equal(p->run.end, PROFILE_END_EXIT);
	assert_int_equal(p->run.exit_status, 3);
	assert_int_equal(p->run.duration_ns, 20000);
	assert_true(p->run.complete);
	assert_null(p->chosen.words);
	profile_free(p);
}

TEST(test_sites_merge_by_what_is_read)
{
	struct profile *p = load(NULL);
	assert_int_equal(p->site_count, 5);
	assert_int_equal(p->stacks.module_count, 1);
	const struct profile_site *same = site_of(p, "f", 5, PROFILE_VIA_MALLOC);
	assert_int_equal(same->merged, 2);
	assert_int_equal(same->allocations, 2);
	assert_int_equal(same->allocated_bytes, 150);
	assert_int_equal(same->frees, 1);
	assert_int_equal(same->peak_bytes, 100);
	assert_int_equal(same->own_peak_bytes, 150);
	assert_int_equal(same->live_bytes, 100);
	assert_int_equal(same->live_blocks, 1);
	assert_int_equal(same->live_slack_bytes, 4);
	assert_int_equal(same->temporary, 1);
	/* Two lifetimes, 2000 and 9000: in the buckets [1024, 2048) and [8192, 16384). The median is
	 * the end of the first, the 99th percentile 98 % into the second but never above the max. */
	assert_int_equal(same->lifetime.mean_ns, 5500);
	assert_int_equal(same->lifetime.p50_ns, 2048);
	assert_int_equal(same->lifetime.p99_ns, 9000);
	assert_int_equal(same->lifetime.max_ns, 9000);
	/* The same line through calloc is another site. */
	const struct profile_site *calloc_site = site_of(p, "f", 5, PROFILE_VIA_CALLOC);
	assert_int_equal(calloc_site->merged, 1);
	assert_int_equal(calloc_site->cross_thread_frees, 1);
	assert_int_equal(calloc_site->own_peak_bytes, 30);
	assert_int_equal(site_of(p, "f", 6, PROFILE_VIA_MALLOC)->allocations, 1);
	/* Its stack: f, called by main. */
	uint32_t parent = p->stacks.nodes[same->node].parent;
	assert_string_equal(p->stacks.frames[p->stacks.nodes[parent].frame].function, "main");
	assert_int_equal(p->stacks.frames[p->stacks.nodes[parent].frame].line, 11);
	assert_int_equal(p->stacks.nodes[parent].parent, PROFILE_NONE);
	/* Unknown code: an address, marked as a guess, and the realloc's numbers. */
	const struct profile_site *s = &p->sites[0]; /* the greatest at the peak */
	assert_int_equal(s->id, 1);
	assert_int_equal(s->via, PROFILE_VIA_REALLOC);
	assert_string_equal(p->stacks.frames[p->stacks.nodes[s->node].frame].function,
			    "[unknown]+0x1234");
	assert_true(p->stacks.nodes[s->node].flags & PROFILE_GUESSED);
	assert_int_equal(s->peak_bytes, 500);
	assert_int_equal(s->reallocations, 1);
	assert_int_equal(s->allocated_bytes, 300);
	assert_int_equal(s->reallocated_bytes, 500);
	profile_free(p);
}

TEST(test_threads_processes_and_notes)
{
	struct profile *p = load(&(struct profile_selection){.process_totals = true});
	assert_int_equal(p->thread_count, 3);
	assert_string_equal(p->threads[1].name, "worker");
	assert_int_equal(p->threads[1].pid, 100);
	assert_int_equal(p->threads[1].tid, 101);
	assert_int_equal(p->threads[1].allocations, 2);
	assert_int_equal(p->threads[1].allocated_bytes, 40);
	assert_int_equal(p->threads[0].frees, 2);
	assert_int_equal(p->process_count, 2);
	const struct profile_totals *a = &p->processes[0].totals, *b = &p->processes[1].totals;
	assert_int_equal(a->allocations, 4);
	assert_int_equal(a->frees, 2);
	assert_int_equal(a->allocated_bytes, 190);
	assert_int_equal(a->peak_bytes, 180);
	assert_int_equal(a->peak_time_ns, 3000);
	assert_int_equal(a->live_bytes, 110);
	assert_int_equal(a->live_blocks, 2);
	assert_int_equal(a->temporary, 1);
	assert_int_equal(a->threads, 2);
	assert_int_equal(a->unknown_frees, 2);
	assert_int_equal(a->peak_rss_bytes, 2200);
	assert_int_equal(b->allocations, 1);
	assert_int_equal(b->reallocations, 1);
	assert_int_equal(b->allocated_bytes, 500);
	assert_int_equal(b->reallocated_bytes, 500);
	assert_int_equal(b->peak_bytes, 500);
	assert_int_equal(b->live_bytes, 0);
	assert_int_equal(b->peak_rss_bytes, 500);
	assert_int_equal(p->processes[1].end, PROFILE_END_SIGNAL);
	assert_int_equal(p->processes[1].signal, 9);
	assert_int_equal(p->note_count, 2);
	assert_string_equal(p->notes[0].text, "pid 300 was not followed: static");
	assert_int_equal(p->notes[0].kind, PROFILE_NOTE_WARNING);
	assert_non_null(strstr(p->notes[1].text, "7 events are missing"));
	profile_free(p);
}

TEST(test_select_thread)
{
	const char *const names[] = {"worker", "101"};
	for (int i = 0; i < 2; i++) {
		struct profile *p = load(&(struct profile_selection){.thread = names[i]});
		assert_int_equal(p->totals.allocations, 2);
		assert_int_equal(p->totals.frees, 1); /* by another thread, but of its block */
		assert_int_equal(p->totals.peak_bytes, 30);
		assert_int_equal(p->totals.peak_time_ns, 3000);
		assert_int_equal(p->totals.live_bytes, 10);
		assert_int_equal(p->totals.threads, 1);
		assert_int_equal(p->thread_count, 1);
		assert_int_equal(p->site_count, 2);
		assert_non_null(p->chosen.words);
		expect_sums(p);
		profile_free(p);
	}
}

TEST(test_select_process)
{
	struct profile *p = load(
		&(struct profile_selection){.has_pid = true, .pid = 200, .process_totals = true});
	assert_int_equal(p->totals.allocations, 1);
	assert_int_equal(p->totals.reallocations, 1);
	assert_int_equal(p->totals.peak_bytes, 500);
	assert_int_equal(p->totals.live_bytes, 0);
	assert_int_equal(p->totals.dropped, 7);
	assert_int_equal(p->totals.unknown_frees, 0);
	assert_int_equal(p->process_count, 1);
	assert_int_equal(p->processes[0].totals.allocations, 1);
	expect_sums(p);
	profile_free(p);
}

TEST(test_select_window)
{
	struct profile *p = load(
		&(struct profile_selection){.has_window = true, .from_ns = 4500, .to_ns = 7500});
	assert_int_equal(p->totals.allocations, 1);
	assert_int_equal(p->totals.reallocations, 1);
	assert_int_equal(p->totals.frees, 1);
	assert_int_equal(p->totals.allocated_bytes, 500);
	assert_int_equal(p->totals.peak_bytes, 630);
	assert_int_equal(p->totals.peak_time_ns, 6000);
	assert_int_equal(p->totals.live_bytes, 600);
	assert_int_equal(p->totals.live_blocks, 2);
	expect_sums(p);
	profile_free(p);
}

TEST(test_nothing_selected)
{
	struct profile *p;
	struct heft_error err;
	struct profile_selection sel = {.has_pid = true, .pid = 300};
	assert_int_equal(profile_from_recording(&p, fixture_path, &sel, &err), HEFT_ENOTFOUND);
	assert_null(p);
	assert_non_null(strstr(err.message, "no process 300"));
	sel = (struct profile_selection){.thread = "nobody"};
	assert_int_equal(profile_from_recording(&p, fixture_path, &sel, &err), HEFT_ENOTFOUND);
	assert_non_null(strstr(err.message, "no thread 'nobody'"));
}

TEST(test_filters)
{
	struct heft_error err;
	struct profile *p = load(NULL);
	assert_int_equal(profile_filter(p, "^f$", NULL, &err), 0);
	assert_int_equal(p->site_count, 4); /* all but the one without a stack */
	assert_int_equal(p->totals.allocations, 4);
	assert_int_equal(p->totals.peak_bytes, 630);
	expect_sums(p);
	assert_int_equal(profile_filter(p, NULL, "unknown", &err), 0);
	assert_int_equal(p->site_count, 3);
	assert_int_equal(p->totals.peak_bytes, 130);
	expect_sums(p);
	assert_int_equal(profile_filter(p, "prog[.]c$", NULL, &err), 0); /* by file */
	assert_int_equal(p->site_count, 3);
	assert_int_equal(profile_filter(p, "/prog$", NULL, &err), 0); /* by module */
	assert_int_equal(p->site_count, 3);
	assert_int_equal(profile_filter(p, "no such thing", NULL, &err), 0);
	assert_int_equal(p->site_count, 0);
	assert_int_equal(p->totals.allocations, 0);
	assert_int_equal(profile_filter(p, "(", NULL, &err), HEFT_EUSAGE);
	assert_non_null(strstr(err.message, "--focus"));
	profile_free(p);
}

TEST(test_order)
{
	struct profile *p = load(NULL);
	uint32_t *order = measure_sort_sites(p, MEASURE_ALLOCATIONS);
	assert_int_equal(p->sites[order[0]].allocations, 2);
	free(order);
	order = measure_sort_sites(p, MEASURE_LIVE_BYTES);
	assert_int_equal(p->sites[order[0]].live_bytes, 100);
	assert_int_equal(p->sites[order[1]].live_bytes, 10);
	free(order);
	order = measure_sort_sites(p, MEASURE_LIFETIME);
	assert_int_equal(p->sites[order[0]].lifetime.mean_ns, 5500);
	free(order);
	assert_int_equal(measure_of_option("temporary"), MEASURE_TEMPORARY);
	assert_int_equal(measure_of_option("size"), MEASURE_COUNT);
	profile_free(p);
}

TEST(test_summary_takes_the_top)
{
	struct profile *p = load(&(struct profile_selection){.top_only = true});
	assert_int_equal(p->site_count, 3); /* those with something at the peak */
	assert_int_equal(p->chosen.sites_left_out,
			 3); /* stacks of the recording: nothing of them is live then */
	assert_int_equal(p->sites[1].peak_bytes, 100);
	assert_int_equal(p->totals.allocations, 5);
	profile_free(p);
}

TEST(test_cut_recording)
{
	char path[160];
	struct profile *p;
	struct heft_error err;
	snprintf(path, sizeof path, "%s.cut", fixture_path);
	fixture_record(path, false);
	if (profile_from_recording(&p, path, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(p->run.complete);
	assert_int_equal(p->run.end, PROFILE_END_RUNNING);
	assert_int_equal(p->totals.allocations, 5);
	assert_int_equal(p->totals.live_bytes, 110); /* not gone, just live */
	assert_non_null(strstr(p->notes[0].text, "incomplete"));
	expect_sums(p);
	profile_free(p);
}

TEST(test_replaced_program)
{
	char command[512];
	setenv("XDG_CACHE_HOME", "/dev/null", 1); /* names found before would still be known */
	snprintf(command, sizeof command,
		 "cd %s && mv prog kept && cc -O0 -Wl,--build-id=sha1 -o prog prog.c",
		 fixture_folder);
	assert_int_equal(system(command), 0);
	struct profile *p = load(NULL);
	/* Addresses now: the two calls of line 5 can no longer be told to be on one line. */
	assert_int_equal(p->site_count, 6);
	expect_sums(p);
	bool noted = false;
	for (uint32_t i = 0; i < p->note_count; i++)
		noted |= strstr(p->notes[i].text, "replaced since the recording") != NULL;
	assert_true(noted);
	profile_free(p);
	snprintf(command, sizeof command, "cd %s && mv kept prog", fixture_folder);
	assert_int_equal(system(command), 0);
}

TEST(test_building)
{
	struct profile *p = profile_new();
	uint32_t libc, program, a, b, c, n, m, s, t;
	assert_int_equal(
		profile_add_module(p, "/usr/lib/x86_64-linux-gnu/libc.so.6", NULL, 0, &libc), 0);
	assert_int_equal(profile_add_module(p, "/opt/prog", NULL, 0, &program), 0);
	struct profile_frame frame = {.function = name_pool_add(p->names, "strdup"),
				      .module = libc};
	assert_int_equal(profile_add_frame(p, &frame, &a), 0);
	frame.address = 99; /* not part of what makes a frame */
	assert_int_equal(profile_add_frame(p, &frame, &b), 0);
	assert_int_equal(a, b);
	frame.module = program;
	assert_int_equal(profile_add_frame(p, &frame, &b), 0);
	assert_int_not_equal(a, b);
	assert_false(p->stacks.frames[a].user);
	assert_true(p->stacks.frames[b].user);
	frame.function = name_pool_add(p->names, "std::vector<int>::push_back(int&&)");
	assert_int_equal(profile_add_frame(p, &frame, &c), 0);
	assert_false(p->stacks.frames[c].user);
	assert_int_equal(profile_add_node(p, PROFILE_NONE, b, 0, &n), 0);
	assert_int_equal(profile_add_node(p, n, c, 0, &m), 0);
	assert_int_equal(profile_first_user_node(p, m), n);
	assert_int_equal(profile_add_node(p, PROFILE_NONE, a, 0, &m), 0);
	assert_int_equal(profile_first_user_node(p, m), m); /* none: the innermost */
	for (uint32_t i = 0; i < 5000; i++) { /* through several growths of the tables */
		frame.line = i;
		assert_int_equal(profile_add_frame(p, &frame, &a), 0);
		assert_int_equal(profile_add_node(p, n, a, 0, &m), 0);
		assert_int_equal(profile_add_site(p, m, 0, &s), 0);
		assert_int_equal(s, i);
	}
	assert_int_equal(profile_expect_nodes(p, 100000), 0); /* and one by announcement */
	assert_int_equal(profile_expect_nodes(p, UINT32_MAX), HEFT_ENOMEM);
	frame.line = 17;
	profile_add_frame(p, &frame, &a);
	profile_add_node(p, n, a, PROFILE_GUESSED, &m);
	profile_add_site(p, m, 0, &t);
	assert_int_equal(t, 17);
	assert_int_equal(p->stacks.nodes[m].flags, PROFILE_GUESSED);
	assert_int_equal(p->site_count, 5000);
	profile_add_node(p, n, a, PROFILE_LOST, &b); /* not what was called with all it called */
	assert_int_not_equal(m, b);
	profile_add_node(p, n, a, PROFILE_LOST, &c);
	assert_int_equal(b, c);
	profile_free(p);
}

/* Frames of one function at several addresses, in a profile that tells them apart. */
TEST(test_apart)
{
	struct profile *p = profile_new();
	struct profile_frame frame = {
		.function = name_pool_add(p->names, "f"), .line = 3, .module = PROFILE_NONE};
	uint32_t a, b, first;
	p->chosen.apart = true;
	for (uint32_t i = 0; i < 3000; i++) {
		frame.address = 0x1000 + i;
		assert_int_equal(profile_add_frame(p, &frame, &a), 0);
		assert_int_equal(a, i);
	}
	frame.address = 0x1000;
	assert_int_equal(profile_add_frame(p, &frame, &first), 0);
	assert_int_equal(first, 0);
	frame.inlined = true;
	assert_int_equal(profile_add_frame(p, &frame, &b), 0);
	assert_int_equal(b, 3000);
	profile_free(p);
}

/* A site of f, inlined g in it, called by main: its addresses are those of its calls, whatever the
 * frames say. */
TEST(test_calls)
{
	struct profile *p = profile_new();
	struct profile_frame frame = {
		.function = name_pool_add(p->names, "main"), .address = 1, .module = PROFILE_NONE};
	uint32_t frames[3], nodes[3], outer, inner, call;
	bool inlined;
	profile_add_frame(p, &frame, &frames[0]);
	frame.function = name_pool_add(p->names, "f");
	frame.address = 2;
	profile_add_frame(p, &frame, &frames[1]);
	frame.function = name_pool_add(p->names, "g");
	profile_add_frame(p, &frame, &frames[2]); /* where it was met first, it was not inlined */
	for (int i = 0; i < 3; i++)
		profile_add_node(p, i ? nodes[i - 1] : PROFILE_NONE, frames[i], 0, &nodes[i]);
	assert_int_equal(profile_add_call(p, PROFILE_NONE, nodes[0], 0x10, &outer), 0);
	assert_int_equal(outer, PROFILE_NONE); /* nobody asked for them */
	assert_int_equal(profile_frame_address(p, nodes[0], &outer, &inlined), 1);
	p->chosen.keep_calls = true;
	assert_int_equal(profile_add_call(p, PROFILE_NONE, nodes[0], 0x10, &outer), 0);
	assert_int_equal(profile_add_call(p, outer, nodes[2], 0x20, &inner), 0);
	call = inner;
	assert_int_equal(profile_frame_address(p, nodes[2], &call, &inlined), 0x20);
	assert_true(inlined);
	assert_int_equal(profile_frame_address(p, nodes[1], &call, &inlined), 0x20);
	assert_false(inlined);
	assert_int_equal(profile_frame_address(p, nodes[0], &call, &inlined), 0x10);
	assert_false(inlined);
	profile_free(p);
}

TEST(test_user_frames)
{
	assert_true(user_frame_module_is_runtime("/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"));
	assert_true(user_frame_module_is_runtime("/lib/libc-2.31.so"));
	assert_true(user_frame_module_is_runtime("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"));
	assert_false(user_frame_module_is_runtime("/usr/lib/libcurl.so.4"));
	assert_false(user_frame_module_is_runtime("/usr/bin/perl"));
	assert_true(
		user_frame_is_runtime("<alloc::vec::Vec<T> as core::clone::Clone>::clone", NULL));
	assert_true(user_frame_is_runtime("push", "/usr/include/c++/12/bits/stl_vector.h"));
	assert_true(user_frame_is_runtime("xmalloc", "/src/xmalloc.c"));
	assert_false(user_frame_is_runtime("xmalloc_all_rows", "/src/rows.c"));
	assert_false(user_frame_is_runtime("stdin_read", "/src/stdin.c"));
}

UNIT_TESTS(fixture_make, fixture_remove)
