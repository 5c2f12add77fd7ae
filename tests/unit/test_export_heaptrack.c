/* heaptrack's format, replayed by the rules of heaptrack_print: the profile in export_fixture.h with
 * its numbers worked out by hand, then some hundred random runs, whose sums the test makes as the
 * recorder does. */
#include "export_fixture.h"

#include <zstd.h>

/* What heaptrack_print adds up, of each trace and in all */
struct replay {
	struct sums {
		int64_t calls, live, peak, temporary, live_blocks, peak_blocks;
	} all, traces[256];
	uint64_t ms, peak_ms, rss_pages;
	uint32_t traces_count;
};

static const char *next_hex(const char *s, uint64_t *n)
{
	char *end;
	assert_int_equal(*s, ' ');
	*n = strtoull(s + 1, &end, 16);
	assert_true(end > s + 1);
	return end;
}

static void replay_heaptrack(struct text t, struct replay *r)
{
	struct info {
		uint64_t size, trace;
	} *infos = calloc(4096, sizeof *infos);
	uint64_t count = 0, last = 0, n, m;
	memset(r, 0, sizeof *r);
	for (char *line = t.data, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		*end = 0;
		switch (*line) {
		case 't': r->traces_count++; break;
		case 'a':
			assert_true(count < 4096);
			next_hex(next_hex(line + 1, &infos[count].size), &infos[count].trace);
			assert_in_range(infos[count].trace, 1, r->traces_count);
			count++;
			break;
		case 'c':
			next_hex(line + 1, &n);
			assert_true(n >= r->ms);
			r->ms = n;
			break;
		case 'R': next_hex(line + 1, &r->rss_pages); break;
		case '+':
		case '-':
			next_hex(line + 1, &n);
			assert_in_range(n, 1, count - 1); /* 0 is never used */
			m = infos[n].trace;
			struct sums *both[] = {&r->all, &r->traces[m]};
			int sign = *line == '+' ? 1 : -1;
			for (int i = 0; i < 2; i++) {
				both[i]->live += sign * (int64_t)infos[n].size;
				both[i]->live_blocks += sign;
				both[i]->calls += *line == '+';
				both[i]->temporary += *line == '-' && last == n;
				assert_true(both[i]->live_blocks >= 0 && both[i]->live >= 0);
			}
			last = *line == '+' ? n : 0;
			if (*line == '+' && r->all.live > r->all.peak) {
				r->peak_ms = r->ms;
				r->all.peak = r->all.live;
				for (int i = 0; i < 256; i++) {
					r->traces[i].peak = r->traces[i].live;
					r->traces[i].peak_blocks = r->traces[i].live_blocks;
				}
			}
			break;
		default: assert_non_null(strchr("vXIsi#", *line));
		}
		*end = '\n';
	}
	free(infos);
}

TEST(test_heaptrack)
{
	struct profile *p = by_hand();
	struct replay *r = malloc(sizeof *r);
	struct export_options o = {0};
	struct text t = write_with(export_heaptrack, p, &o);
	const char *head = "v 10500 3\nX /x/prog a\\x0a#b\nI 1000 0\n#";
	assert_memory_equal(t.data, head, strlen(head));
	/* strings as first used, innermost first; traces callers first */
	assert_non_null(strstr(t.data, "\ns 7 /x/prog\ns 1 g\ns 3 a.h\ns 1 f\ns 3 a.c\n"
				       "i 1005 1 2 3 3 4 5 5\ns 4 main\ni 1010 1 6 5 a\n"));
	assert_non_null(strstr(t.data, "\ni 9000 7 8 0 0\n"));
	assert_non_null(strstr(t.data, "\ns 28 h{closure#0}\\x0a\\x1b[31m\\xff; \"</script>\n"));
	assert_non_null(strstr(t.data, "\nt 3 0\nt 2 1\nt 1 2\nt 4 2\ns f [stack unknown]\n"
				       "i 0 0 a 0 0\nt 5 0\n"));
	replay_heaptrack(t, r);
	assert_int_equal(r->all.calls, 12);
	assert_int_equal(r->all.peak, 407);
	assert_int_equal(r->all.live, 117);
	assert_int_equal(r->all.live_blocks, 4);
	assert_int_equal(r->all.temporary, 1);
	assert_int_equal(r->peak_ms, 3);
	assert_int_equal(r->ms, 10);
	assert_int_equal(r->rss_pages, 5);
	static const struct sums expected[] = {{0}, /* calls, live, peak, temporary, blocks */
					       {0}, /* start */
					       {4, 0, 100, 0, 0, 1},   /* main: B */
					       {5, 100, 300, 1, 1, 3}, /* A */
					       {2, 7, 7, 0, 2, 2},     /* C */
					       {1, 10, 0, 0, 1, 0}};   /* D */
	assert_memory_equal(r->traces, expected, sizeof expected);
	free(t.data);
	/* Packed by its name. */
	o.name = "x.gz";
	t = gunzip(write_with(export_heaptrack, p, &o));
	assert_memory_equal(t.data, head, strlen(head));
	free(t.data);
	o.name = "x.zst";
	t = write_with(export_heaptrack, p, &o);
	char *plain = malloc(1 << 20);
	size_t length = ZSTD_decompress(plain, 1 << 20, t.data, t.length);
	assert_false(ZSTD_isError(length));
	assert_memory_equal(plain, head, strlen(head));
	free(plain);
	free(t.data);
	free(r);
	profile_free(p);
}

/* Too many to have a line each: refused, not begun. */
TEST(test_heaptrack_too_many)
{
	struct profile *p = by_hand();
	struct heft_error err = {0};
	p->sites[0].allocations = UINT64_MAX;
	struct text t = {0};
	FILE *out = open_memstream(&t.data, &t.length);
	assert_int_equal(export_heaptrack(out, p, &(struct export_options){0}, &err),
			 HEFT_EREFUSED);
	fclose(out);
	assert_int_equal(t.length, 0);
	free(t.data);
	profile_free(p);
}

static uint32_t random_state;

static uint32_t rnd(uint32_t below)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % below;
}

/* A run of random events over a few sites, added up as the recorder does. One thread, so a block is
 * temporary if it is freed before the next event that makes one. */
static struct profile *random_run(void)
{
	enum { SITES = 6, BLOCKS = 400 };
	struct {
		uint32_t site, size;
	} blocks[BLOCKS];
	struct profile *p = profile_new();
	uint32_t count = 0, events = 1 + rnd(600), last = BLOCKS, live = 0, sites = 1 + rnd(SITES);
	uint32_t largest = rnd(4) ? 1 + rnd(1000) : 2;
	for (uint32_t i = 0; i < sites; i++)
		site(p, node(p, PROFILE_NONE, frame(p, "f", "f.c", i + 1, PROFILE_NONE, i, false)),
		     0);
	p->totals.peak_time_ns = 0;
	for (uint32_t i = 0; i < events; i++) {
		uint32_t what = rnd(8), at = count ? rnd(count) : 0;
		if (rnd(3) == 0 && last < count)
			at = last;
		struct profile_site *s = &p->sites[rnd(sites)];
		uint32_t size = rnd(largest);
		if (what < 4 && count < BLOCKS) {
			last = count;
			blocks[count].site = (uint32_t)(s - p->sites);
			blocks[count++].size = size;
			s->allocations++;
			s->allocated_bytes += size;
			s->live_blocks++;
			s->live_bytes += size;
			live += size;
		} else if (what == 4 && count) {
			struct profile_site *old = &p->sites[blocks[at].site];
			old->live_blocks--;
			old->live_bytes -= blocks[at].size;
			s->live_blocks++;
			s->live_bytes += size;
			s->reallocations++;
			s->reallocated_bytes += size;
			if (size > blocks[at].size)
				s->allocated_bytes += size - blocks[at].size;
			live += size - blocks[at].size;
			blocks[at].site = (uint32_t)(s - p->sites);
			blocks[at].size = size;
			last = at;
		} else if (count) {
			struct profile_site *of = &p->sites[blocks[at].site];
			of->frees++;
			of->live_blocks--;
			of->live_bytes -= blocks[at].size;
			of->temporary += at == last;
			live -= blocks[at].size;
			last = BLOCKS;
			blocks[at] = blocks[--count];
		}
		if (live > p->totals.peak_bytes) {
			p->totals.peak_bytes = live;
			p->totals.peak_time_ns = i * 1000000ull;
			for (uint32_t k = 0; k < sites; k++) {
				p->sites[k].peak_bytes = p->sites[k].live_bytes;
				p->sites[k].peak_blocks = p->sites[k].live_blocks;
			}
		}
	}
	p->run.has = PROFILE_HAS_ALL;
	p->run.duration_ns = events * 1000000ull;
	return p;
}

TEST(test_heaptrack_replays_any_run)
{
	struct replay *r = malloc(sizeof *r);
	uint64_t temporary = 0, wrong = 0;
	for (uint32_t seed = 0; seed < 500; seed++) {
		random_state = seed;
		struct profile *p = random_run();
		struct text t = write_with(export_heaptrack, p, &(struct export_options){0});
		replay_heaptrack(t, r);
		assert_int_equal(r->all.peak, p->totals.peak_bytes);
		if (p->totals.peak_bytes)
			assert_int_equal(r->peak_ms, p->totals.peak_time_ns / 1000000);
		int64_t expected = 0;
		for (uint32_t i = 0; i < p->site_count; i++) {
			const struct profile_site *s = &p->sites[i];
			const struct sums *have = &r->traces[i + 1];
			assert_int_equal(have->calls, s->allocations + s->reallocations);
			assert_int_equal(have->live, s->live_bytes);
			assert_int_equal(have->live_blocks, s->live_blocks);
			assert_int_equal(have->peak, s->peak_bytes);
			if (p->totals.peak_bytes)
				assert_int_equal(have->peak_blocks, s->peak_blocks);
			expected += (int64_t)s->temporary;
		}
		temporary += (uint64_t)expected;
		wrong += (uint64_t)llabs(r->all.temporary - expected);
		free(t.data);
		profile_free(p);
	}
	/* heaptrack's temporaries follow from the order alone, and sometimes none fits. */
	assert_true(temporary > 10000);
	if (wrong * 200 > temporary)
		fail_msg("%u of %u temporaries are wrong", (unsigned)wrong, (unsigned)temporary);
	free(r);
}

/* A dump tells what is live, some files without counts: that is then all there is. */
TEST(test_heaptrack_of_what_is_live)
{
	struct profile *p = by_hand();
	struct replay *r = malloc(sizeof *r);
	p->run.has = PROFILE_HAS_LIVE;
	p->sites[0].live_blocks = 0;
	struct text t = write_with(export_heaptrack, p, &(struct export_options){0});
	replay_heaptrack(t, r);
	assert_int_equal(r->all.calls, 4);
	assert_int_equal(r->all.live, 117);
	assert_int_equal(r->all.peak, 117);
	assert_int_equal(r->all.temporary, 0);
	free(t.data);
	free(r);
	profile_free(p);
}

/* Foreign files may say anything: numbers that contradict each other give some file, in bounded
 * time, and what is said of the end holds. */
TEST(test_contradictions)
{
	static const uint64_t odd[] = {0, 1, 2, 3, 7, 1000};
	export_fn *const all[] = {export_pprof, export_dhat, export_massif, export_heaptrack};
	struct replay *r = malloc(sizeof *r);
	for (uint32_t seed = 0; seed < 300; seed++) {
		random_state = seed;
		struct profile *p = random_run();
		for (uint32_t i = 0; i < p->site_count; i++) {
			struct profile_site *s = &p->sites[i];
			uint64_t *fields[] = {
				&s->allocations,     &s->reallocations,     &s->peak_blocks,
				&s->live_blocks,     &s->temporary,         &s->frees,
				&s->allocated_bytes, &s->reallocated_bytes, &s->peak_bytes,
				&s->live_bytes,      &s->own_peak_bytes,    &s->lifetime.mean_ns};
			for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
				if (rnd(2))
					*fields[k] = odd[rnd(6)];
			if (rnd(4) == 0)
				s->own_peak_bytes = s->lifetime.mean_ns = UINT64_MAX;
		}
		if (rnd(2))
			p->totals.peak_time_ns = UINT64_MAX;
		p->run.has = rnd(512);
		for (size_t k = 0; k < 4; k++) {
			struct text t = write_with(all[k], p, &(struct export_options){0});
			if (all[k] == export_heaptrack) {
				int64_t live = 0;
				for (uint32_t i = 0; i < p->site_count; i++)
					live += (int64_t)p->sites[i].live_bytes;
				replay_heaptrack(t, r);
				assert_int_equal(r->all.live,
						 p->run.has & PROFILE_HAS_LIVE ? live : 0);
			}
			free(t.data);
		}
		profile_free(p);
	}
	free(r);
}

TEST(test_heaptrack_of_nothing)
{
	struct profile *p = profile_new();
	p->run.has = PROFILE_HAS_ALL;
	struct text t = write_with(export_heaptrack, p, &(struct export_options){0});
	assert_non_null(strstr(t.data, "X unknown\n"));
	free(t.data);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
