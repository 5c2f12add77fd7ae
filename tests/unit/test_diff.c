/* Comparing profiles that are built by hand: what matches what, and what the numbers come to. */
#include "profile/estimate.h"
#include "profile/profile_diff.h"
#include "report/report_diff.h"
#include "unit_test.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAM, LIBC, LIBRARY };

static struct profile *make(const char *program, const char *library)
{
	struct profile *p = profile_new();
	uint32_t id;
	assert_non_null(p);
	assert_int_equal(profile_add_module(p, program, NULL, 0, &id), 0);
	assert_int_equal(profile_add_module(p, "/lib/libc.so.6", NULL, 0, &id), 0);
	assert_int_equal(profile_add_module(p, library, NULL, 0, &id), 0);
	struct profile_process process = {.pid = 1, .exe = program};
	assert_int_equal(profile_add_process(p, &process, &id), 0);
	p->run.duration_ns = 2000000000;
	return p;
}

/* "main:10 send:20 libc!strdup lib!f +0x12": outermost first. Without a line there is no file. */
static uint32_t stack(struct profile *p, const char *text, const char *file)
{
	uint32_t node = PROFILE_NONE;
	while (*text) {
		char word[128], *name = word, *colon;
		size_t length = strcspn(text, " ");
		assert_true(length < sizeof word);
		memcpy(word, text, length);
		word[length] = 0;
		text += length + strspn(text + length, " ");
		struct profile_frame f = {.module = PROGRAM};
		if (strncmp(name, "libc!", 5) == 0) {
			f.module = LIBC;
			name += 5;
		} else if (strncmp(name, "lib!", 4) == 0) {
			f.module = LIBRARY;
			name += 4;
		}
		if ((colon = strrchr(name, ':')) && colon[1] >= '0' && colon[1] <= '9') {
			f.line = (uint32_t)atoi(colon + 1);
			f.file = name_pool_add(p->names, file);
			*colon = 0;
		}
		f.function = name_pool_add(p->names, name);
		uint32_t frame;
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_node(p, node, frame, 0, &node), 0);
	}
	return node;
}

/* `count` blocks of `size`, all live at the peak, none at the end. */
static struct profile_site *site_via(struct profile *p, const char *text, const char *file,
				     uint32_t via, uint64_t count, uint64_t size)
{
	uint32_t id;
	assert_int_equal(profile_add_site(p, stack(p, text, file), via, &id), 0);
	struct profile_site *s = &p->sites[id];
	s->allocations += count;
	s->frees += count;
	s->allocated_bytes += count * size;
	s->peak_bytes += count * size;
	s->peak_blocks += count;
	p->totals.allocations += count;
	p->totals.allocated_bytes += count * size;
	p->totals.peak_bytes += count * size;
	return s;
}

static struct profile_site *site(struct profile *p, const char *text, uint64_t count, uint64_t size)
{
	return site_via(p, text, "a.c", PROFILE_VIA_MALLOC, count, size);
}

static struct profile_diff *compare(struct profile *old, struct profile *new,
				    const struct profile_per *per)
{
	struct profile_diff *d;
	struct heft_error err = {0};
	profile_finish_sites(old);
	profile_finish_sites(new);
	assert_int_equal(profile_diff_new(&d, old, new, per, &err), 0);
	/* What always holds: nothing lost, nothing twice. */
	double change = 0;
	uint32_t olds = 0, news = 0;
	for (uint32_t i = 0; i < d->count; i++) {
		change += profile_diff_change(d, &d->entries[i], MEASURE_PEAK_BYTES);
		olds += d->entries[i].old.sites;
		news += d->entries[i].new.sites;
		assert_int_equal(!d->entries[i].old.sites, d->entries[i].old.site == PROFILE_NONE);
		assert_int_equal(!d->entries[i].new.sites, d->entries[i].new.site == PROFILE_NONE);
	}
	assert_int_equal(olds, old->site_count);
	assert_int_equal(news, new->site_count);
	if (!per)
		assert_int_equal((int64_t)change,
				 (int64_t)(new->totals.peak_bytes - old->totals.peak_bytes));
	return d;
}

static void done(struct profile_diff *d)
{
	struct profile *old = (struct profile *)d->old, *new = (struct profile *)d->new;
	profile_diff_free(d);
	profile_free(old);
	profile_free(new);
}

/* The only entry with these bytes at the two peaks; -1: not on that side. */
static const struct profile_diff_entry *entry(const struct profile_diff *d, int64_t old,
					      int64_t new)
{
	const struct profile_diff_entry *found = NULL;
	for (uint32_t i = 0; i < d->count; i++) {
		const struct profile_diff_entry *e = &d->entries[i];
		if ((e->old.sites ? (int64_t)e->old.sums.peak_bytes : -1) == old &&
		    (e->new.sites ? (int64_t)e->new.sums.peak_bytes : -1) == new) {
			assert_null(found);
			found = e;
		}
	}
	if (!found)
		fail_msg("no entry %lld -> %lld", (long long)old, (long long)new);
	return found;
}

TEST(lines_folders_and_names_do_not_matter)
{
	struct profile *old = make("/a/prog", "/lib/libx.so.1.2"),
		       *new = make("/b/prog-2", "/usr/libx.so.1.3");
	site_via(old, "main:10 parse:20 lib!load:7", "/a/p.c", 0, 10, 100);
	site_via(new, "main:12 parse:29 lib!load:8", "/b/q.c", 0, 10, 150);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 1);
	assert_int_equal(entry(d, 1000, 1500)->matched, PROFILE_MATCHED_STACK);
	assert_int_equal(profile_diff_classify(d, d->entries, MEASURE_PEAK_BYTES, 0),
			 PROFILE_GROWN);
	assert_int_equal(profile_diff_classify(d, d->entries, MEASURE_ALLOCATIONS, 0),
			 PROFILE_SAME);
	done(d);
}

TEST(another_module_is_another_stack)
{
	struct profile *old = make("/a/prog", "/lib/libx.so.1"),
		       *new = make("/a/prog", "/lib/liby.so.1");
	site(old, "main:10 lib!load:7", 10, 100);
	site(new, "main:10 lib!load:7", 10, 100);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 2);
	assert_int_equal(profile_diff_classify(d, entry(d, 1000, -1), MEASURE_PEAK_BYTES, 0),
			 PROFILE_VANISHED);
	assert_int_equal(profile_diff_classify(d, entry(d, -1, 1000), MEASURE_PEAK_BYTES, 0),
			 PROFILE_NEW);
	done(d);
}

/* Five buffers of one function; the third goes, the lines of the rest move. */
TEST(lines_keep_their_order)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:5 conn_new:10", 300, 14544);
	site(old, "main:5 conn_new:11", 300, 404);
	site(old, "main:5 conn_new:12", 300, 262144);
	site(old, "main:5 conn_new:13", 300, 14400);
	site(old, "main:5 conn_new:14", 300, 10240);
	site(new, "main:7 conn_new:11", 300, 14544); /* stands where another stood */
	site(new, "main:7 conn_new:12", 300, 404);
	site(new, "main:7 conn_new:13", 300, 14400);
	site(new, "main:7 conn_new:14", 300, 20480); /* grown */
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 5);
	entry(d, 300 * 14544, 300 * 14544);
	entry(d, 300 * 404, 300 * 404);
	entry(d, 300 * 262144, -1);
	entry(d, 300 * 14400, 300 * 14400);
	entry(d, 300 * 10240, 300 * 20480);
	done(d);
}

TEST(kind_of_allocation_decides_between_neighbours)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site_via(old, "main:5 f:10", "a.c", PROFILE_VIA_MALLOC, 1, 64);
	site_via(old, "main:5 f:11", "a.c", PROFILE_VIA_CALLOC, 1, 65);
	site_via(new, "main:5 f:10", "a.c", PROFILE_VIA_CALLOC, 1, 66);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 2);
	entry(d, 65, 66);
	entry(d, 64, -1);
	done(d);
	/* Alone, it is still the same place. */
	old = make("/p", "/l");
	new = make("/p", "/l");
	site_via(old, "main:5 f:10", "a.c", PROFILE_VIA_MALLOC, 1, 64);
	site_via(new, "main:5 f:10", "a.c", PROFILE_VIA_CALLOC, 9, 640);
	d = compare(old, new, NULL);
	assert_int_equal(d->count, 1);
	done(d);
}

TEST(recursion_is_one_stack)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:5 walk:10", 1, 10);
	site(old, "main:5 walk:11 walk:10", 1, 10);
	site(old, "main:5 walk:11 walk:11 walk:10", 1, 10);
	/* through others, in no regular pattern */
	site(old, "main:5 expr:1 term:2 alloc:9", 1, 100);
	site(old, "main:5 expr:1 term:2 factor:3 expr:1 term:2 alloc:9", 1, 100);
	for (int i = 0; i < 40; i++) {
		char text[1024] = "main:6";
		for (int k = 0; k <= i; k++)
			strcat(text, " walk:12");
		strcat(text, " walk:10");
		site(new, text, 1, 10);
	}
	site(new, "main:6 expr:1 sum:4 expr:1 term:2 factor:3 expr:1 term:2 alloc:9", 1, 100);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 2);
	assert_int_equal(entry(d, 30, 400)->new.sites, 40);
	assert_int_equal(entry(d, 200, 100)->old.sites, 2);
	done(d);
}

TEST(functions_without_names)
{
	struct profile *old = make("/p", "/l/libx.so"), *new = make("/p", "/l/libx.so");
	/* Callbacks: the library's unnamed function stands on both sides of the program's. */
	site(old, "main:5 lib!libx.so+0x10 callback:9 lib!libx.so+0x99", 1, 10);
	site(new, "main:5 lib!libx.so+0x16 callback:9 lib!libx.so+0xa9 lib!libx.so+0xb0", 1, 20);
	/* The same without the callback must stay another stack. */
	site(new, "main:5 lib!libx.so+0x16", 1, 1000);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 2);
	entry(d, 10, 20);
	entry(d, -1, 1000);
	done(d);
}

TEST(runtime_frames_may_change)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:5 fill:9 std::vector<int>::push_back:1 std::__allocate:2", 100, 64);
	site(new, "main:5 fill:9 std::vector<int>::push_back:1", 100, 96);
	/* Neither count nor size agree: not the same. */
	site(old, "main:5 other:9 std::a:1", 100, 5000);
	site(new, "main:5 other:9 std::b:1", 7, 16);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 3);
	assert_int_equal(entry(d, 6400, 9600)->matched, PROFILE_MATCHED_USER);
	entry(d, 500000, -1);
	entry(d, -1, 112);
	done(d);
}

TEST(inlining_is_seen_through)
{
	for (int turn = 0; turn < 2; turn++) { /* inlined today, or no longer */
		struct profile *a = make("/p", "/l"), *b = make("/p", "/l");
		site(a, "main parse make_row", 100, 64);
		site(b, "main parse", 100, 128);
		struct profile_diff *d = turn ? compare(b, a, NULL) : compare(a, b, NULL);
		assert_int_equal(d->count, 1);
		assert_int_equal(d->entries[0].matched, PROFILE_MATCHED_INLINED);
		done(d);
	}
	/* One function removed, another added: two different things, however alike. */
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main send clone", 100, 64);
	site(new, "main send leak", 100, 64);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 2);
	done(d);
	/* The other side knows the function from another stack: it was not inlined away. */
	old = make("/p", "/l");
	new = make("/p", "/l");
	site(old, "main parse make_row", 100, 64);
	site(new, "main parse", 100, 64);
	site(new, "main rows make_row", 5, 64);
	d = compare(old, new, NULL);
	assert_int_equal(d->count, 3);
	done(d);
}

TEST(unknown_stacks_match)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "", 1, 10);
	site(new, "", 1, 30);
	struct profile_diff *d = compare(old, new, NULL);
	assert_int_equal(d->count, 1);
	entry(d, 10, 30);
	done(d);
	d = compare(make("/p", "/l"), make("/p", "/l"), NULL);
	assert_int_equal(d->count, 0);
	struct profile_diff_summary s;
	profile_diff_summarise(d, MEASURE_PEAK_BYTES, &(struct profile_threshold){.share = 0.01},
			       &s);
	assert_false(s.changed);
	done(d);
}

TEST(numbers_are_divided)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:1", 1000, 10);
	site(new, "main:1", 1200, 10);
	new->run.duration_ns = 4000000000; /* old: 2 s */
	struct profile_diff *d = compare(old, new,
					 &(struct profile_per){PROFILE_PER_OPERATIONS, 1000, 1200});
	const struct profile_diff_entry *e = d->entries;
	assert_true(profile_diff_change(d, e, MEASURE_ALLOCATIONS) == 0);
	assert_true(profile_diff_old(d, &e->old, MEASURE_PEAK_BYTES) == 10);
	profile_diff_free(d);
	d = compare(old, new, &(struct profile_per){.unit = PROFILE_PER_SECOND});
	e = d->entries;
	assert_true(profile_diff_old(d, &e->old, MEASURE_ALLOCATIONS) == 500);
	assert_true(profile_diff_new_value(d, &e->new, MEASURE_ALLOCATIONS) == 300);
	assert_true(profile_diff_new_value(d, &e->new, MEASURE_ALLOCATED_BYTES) == 3000);
	assert_true(profile_diff_new_value(d, &e->new, MEASURE_PEAK_BYTES) == 12000); /* no rate */
	profile_diff_free(d);
	new->run.duration_ns = 0;
	struct heft_error err = {0};
	assert_int_equal(profile_diff_new(&d, old, new,
					  &(struct profile_per){.unit = PROFILE_PER_SECOND}, &err),
			 HEFT_EUSAGE);
	assert_non_null(strstr(err.message, "duration"));
	profile_free(old);
	profile_free(new);
}

TEST(measures_that_both_tell)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:1", 1, 10);
	site(new, "main:1", 1, 20);
	struct profile_diff *d = compare(old, new, NULL);
	assert_true(profile_diff_has(d, MEASURE_PEAK_BYTES));
	assert_true(profile_diff_has(d, MEASURE_LIFETIME));
	old->run.has = PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED;
	assert_false(profile_diff_has(d, MEASURE_PEAK_BYTES));
	assert_true(profile_diff_has(d, MEASURE_LIVE_BYTES));
	assert_true(profile_diff_has(d, MEASURE_ALLOCATIONS));
	new->run.has = PROFILE_HAS_PEAK | PROFILE_HAS_ALLOCATED;
	assert_false(profile_diff_has(d, MEASURE_LIVE_BYTES));
	done(d);
}

TEST(threshold_and_summary)
{
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:1 a:1", 1, 10000);
	site(new, "main:1 a:1", 1, 9000);
	site(old, "main:1 b:1", 1, 500);
	site(new, "main:1 b:1", 1, 600);
	site(new, "main:1 c:1", 1, 40);
	struct profile_diff *d = compare(old, new, NULL);
	struct profile_diff_summary s;
	/* 1 % of 10500 is 105: b and c are noise. */
	profile_diff_summarise(d, MEASURE_PEAK_BYTES, &(struct profile_threshold){.share = 0.01},
			       &s);
	assert_true(s.old == 10500 && s.new == 9640 && s.threshold == 105);
	assert_int_equal(s.counts[PROFILE_SAME], 2);
	assert_int_equal(s.counts[PROFILE_SHRUNK], 1);
	assert_true(s.below == 140 && s.largest == -1000 && s.changed);
	/* An amount; what equals it is noise still. */
	profile_diff_summarise(d, MEASURE_PEAK_BYTES,
			       &(struct profile_threshold){.absolute = true, .value = 40}, &s);
	assert_int_equal(s.counts[PROFILE_GROWN], 1);
	assert_int_equal(s.counts[PROFILE_SAME], 1);
	profile_diff_summarise(d, MEASURE_PEAK_BYTES,
			       &(struct profile_threshold){.absolute = true, .value = 1000}, &s);
	assert_false(s.changed);
	uint32_t *order = profile_diff_sorted(d, MEASURE_PEAK_BYTES);
	assert_true(profile_diff_change(d, &d->entries[order[0]], MEASURE_PEAK_BYTES) == -1000);
	assert_true(profile_diff_change(d, &d->entries[order[2]], MEASURE_PEAK_BYTES) == 40);
	free(order);
	done(d);
	/* Many small ones: none stands out, but it did change. */
	old = make("/p", "/l");
	new = make("/p", "/l");
	for (int i = 0; i < 200; i++) {
		char text[64];
		snprintf(text, sizeof text, "main:1 f%d:1", i);
		site(old, text, 1, 100);
		site(new, text, 1, 120);
	}
	d = compare(old, new, NULL);
	profile_diff_summarise(d, MEASURE_PEAK_BYTES, &(struct profile_threshold){.share = 0.01},
			       &s);
	assert_int_equal(s.counts[PROFILE_SAME], 200);
	assert_true(s.changed);
	done(d);
}

static char *text_of(struct profile_diff *d, const struct report_diff_options *o)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_int_equal(report_diff_text(out, d, o), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void expect(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("'%s' is not in\n%s", words, text);
}

TEST(text_says_that_nothing_changed)
{
	struct report_diff_options o = {
		.old_path = "a.heft", .new_path = "b's.heft", .limit = 20, .threshold.share = 0.01};
	struct profile *old = make("/p", "/l"), *new = make("/p", "/l");
	site(old, "main:1 f:2", 100, 1024);
	site(new, "main:1 f:2", 100, 1024);
	site(new, "main:1 g:2", 1, 512)->allocations = 1;
	struct profile_diff *d = compare(old, new, NULL);
	char *text = text_of(d, &o);
	expect(text, "Nothing changed.\n"
		     "  peak: 100.0 KiB before, 100.5 KiB now\n"
		     "  largest difference: +512 B (g at a.c:2)\n"
		     "  differences up to 1.0 KiB (1 % of the larger total) count as noise "
		     "(--threshold)\n");
	expect(text, "Next: heft report 'b'\\''s.heft'\n");
	free(text);
	done(d);
	/* The peak is the same, but there was less to do: 50 copies that never stood together. */
	old = make("/p", "/l");
	new = make("/p", "/l");
	site(old, "main:1 f:2", 100, 1024);
	site(new, "main:1 f:2", 100, 1024);
	struct profile_site *copies = site(old, "main:1 copy:2", 50, 8);
	copies->peak_bytes = copies->peak_blocks = 0;
	old->totals.peak_bytes -= 400;
	d = compare(old, new, NULL);
	text = text_of(d, &o);
	expect(text, "By bytes at the peak nothing changed.\n"
		     "  peak: 100.0 KiB before, 100.0 KiB now\n"
		     "  no call stack differs at all\n");
	expect(text, "By number of allocations it did: 1 vanished; -50 in total.");
	expect(text, "Next: heft diff --sort count a.heft 'b'\\''s.heft'");
	free(text);
	o.sort = MEASURE_ALLOCATIONS;
	text = text_of(d, &o);
	expect(text, "By number of allocations: 1 vanished\n");
	expect(text, "         -50          50           -  vanished  copy at a.c:2 [malloc]\n"
		     "                                                 < main at a.c:1\n");
	expect(text, "Next: heft report --sort count --focus '^copy$' a.heft");
	assert_null(strchr(text, '\033'));
	free(text);
	o.color = true;
	text = text_of(d, &o);
	assert_non_null(strchr(text, '\033'));
	free(text);
	done(d);
}

/* Makes a profile of a few sites a sampled one: `samples` of them at each site, none freed. The
 * variances are those of small blocks: n R^2. */
static void make_sampled(struct profile *p, uint64_t rate, const uint64_t *samples)
{
	p->run.rate_bytes = rate;
	p->estimates.spreads = calloc(p->site_count + 1, sizeof *p->estimates.spreads);
	p->estimates.errors = calloc(p->site_count + 1, sizeof *p->estimates.errors);
	assert_true(p->estimates.spreads && p->estimates.errors);
	for (uint32_t i = 0; i < p->site_count; i++) {
		double r = (double)rate, n = (double)samples[i];
		p->estimates.spreads[i] = (struct profile_spread){
			.peak_bytes = n * r * r,
			.allocated_bytes = n * r * r,
			.allocations = n,
			.samples = samples[i],
			.peak_samples = samples[i],
		};
		estimate_add_spread(&p->estimates.total_spread, &p->estimates.spreads[i]);
	}
	profile_compute_errors(p);
}

/* Sites a to d, in order of their peaks; an old of 0 has none. Blocks of one rate: each is a sample. */
static struct profile *sampled_sites(const uint64_t samples[4])
{
	static const char *const stacks[] = {"main:1 a:1", "main:2 b:1", "main:3 c:1",
					     "main:4 d:1"};
	struct profile *p = make("/bin/prog", "/lib/l.so");
	for (int i = 0; i < 4; i++)
		if (samples[i])
			site(p, stacks[i], samples[i], 1000);
	profile_finish_sites(p);
	make_sampled(p, 1000, samples);
	return p;
}

/* 1000 to 1100 samples: 100 R, and 1.96 sqrt(2100) R = 89.8 R. 400 to 430: 30 against 56.5. 30 to 5:
 * 25 against 12. A new one of 3: 3 R against 1.96 sqrt(3) R and, on either side, 3 R unseen: 5.4. */
TEST(differences_of_estimates)
{
	struct profile_diff *d = compare(sampled_sites((uint64_t[]){1000, 400, 30, 0}),
					 sampled_sites((uint64_t[]){1100, 430, 5, 3}), NULL);
	assert_true(profile_diff_is_estimate(d));
	const struct profile_diff_entry *a = entry(d, 1000000, 1100000);
	const struct profile_diff_entry *b = entry(d, 400000, 430000);
	const struct profile_diff_entry *c = entry(d, 30000, 5000), *n = entry(d, -1, 3000);
	double error = profile_diff_error95(d, a, MEASURE_PEAK_BYTES);
	assert_true(fabs(error - 1.959964 * sqrt(2100) * 1000) < 2);
	error = profile_diff_error95(d, n, MEASURE_PEAK_BYTES);
	assert_true(fabs(error - 1000 * hypot(hypot(1.959964 * sqrt(3), 2.995732), 2.995732)) < 2);
	assert_int_equal(profile_diff_classify(d, a, MEASURE_PEAK_BYTES, 0), PROFILE_GROWN);
	assert_int_equal(profile_diff_classify(d, b, MEASURE_PEAK_BYTES, 0), PROFILE_INSIGNIFICANT);
	assert_int_equal(profile_diff_classify(d, c, MEASURE_PEAK_BYTES, 0), PROFILE_SHRUNK);
	assert_int_equal(profile_diff_classify(d, n, MEASURE_PEAK_BYTES, 0), PROFILE_INSIGNIFICANT);
	assert_int_equal(profile_diff_classify(d, b, MEASURE_PEAK_BYTES, 50000), PROFILE_SAME);
	/* 1430 to 1538 in all: 108 against 1.96 sqrt(2968) = 106.8. */
	struct profile_threshold none = {.absolute = true};
	struct profile_diff_summary s;
	profile_diff_summarise(d, MEASURE_PEAK_BYTES, &none, &s);
	assert_true(fabs(s.error95 - 1.959964 * sqrt(2968) * 1000) < 2);
	assert_true(s.changed);
	assert_int_equal(s.counts[PROFILE_INSIGNIFICANT], 2);
	assert_ptr_equal(&d->entries[s.next_entry], a);
	struct report_diff_options o = {
		.old_path = "o", .new_path = "n", .limit = 20, .threshold = none};
	char *text = text_of(d, &o);
	expect(text, "By bytes at the peak: 1 grown, 1 shrunk, 2 not significant");
	expect(text, "~ +29.3 KiB");
	expect(text, "not significant  b at a.c:1");
	free(text);
	done(d);
}

TEST(nothing_significant_is_no_change)
{
	struct profile_diff *d = compare(sampled_sites((uint64_t[]){1000, 400, 30, 0}),
					 sampled_sites((uint64_t[]){1050, 380, 35, 4}), NULL);
	struct profile_threshold none = {.absolute = true};
	struct profile_diff_summary s;
	profile_diff_summarise(d, MEASURE_PEAK_BYTES, &none, &s);
	assert_false(s.changed);
	struct report_diff_options o = {
		.old_path = "o", .new_path = "n", .limit = 20, .threshold = none};
	char *text = text_of(d, &o);
	expect(text, "Nothing changed significantly.\n");
	expect(text, "~ not significant");
	free(text);
	done(d);
}

/* An exact side has no error, and its reallocations count as samples' do. */
TEST(estimates_beside_exact_numbers)
{
	struct profile *exact = make("/bin/prog", "/lib/l.so");
	site(exact, "main:1 a:1", 990, 1000);
	struct profile_site *grown = site_via(exact, "main:2 b:1", "a.c", PROFILE_VIA_REALLOC, 0,
					      0);
	grown->reallocations = 400;
	grown->allocated_bytes = 1000;
	grown->reallocated_bytes = 400000;
	struct profile *sampled = make("/bin/prog", "/lib/l.so");
	site(sampled, "main:1 a:1", 1000, 1000);
	site_via(sampled, "main:2 b:1", "a.c", PROFILE_VIA_REALLOC, 390, 1000);
	profile_finish_sites(sampled);
	make_sampled(sampled, 1000, (uint64_t[]){1000, 390});
	struct profile_diff *d = compare(exact, sampled, NULL);
	struct profile_diff_summary s;
	struct profile_threshold none = {.absolute = true};
	profile_diff_summarise(d, MEASURE_ALLOCATED_BYTES, &none, &s);
	assert_true(s.old == 1390000 && s.new == 1390000);
	assert_false(s.changed);
	profile_diff_summarise(d, MEASURE_ALLOCATIONS, &none, &s);
	assert_true(s.old == 1390 && s.new == 1390);
	assert_false(s.changed);
	done(d);
}

UNIT_TESTS(NULL, NULL)
