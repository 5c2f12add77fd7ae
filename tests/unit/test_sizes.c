/* Allocations by size: the classes share out all sizes, and what they count is what
 * a list of every live block says. */
#include "behaviour_model.h"
#include "profile/trace_sizes.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>

TEST(test_classes_share_out_all_sizes)
{
	uint64_t next = 0;
	for (unsigned i = 0; i < TRACE_SIZE_CLASSES; i++) {
		uint64_t low, high;
		trace_size_bounds(i, &low, &high);
		assert_int_equal(low, next); /* no gap, no overlap */
		assert_true(high >= low);
		assert_int_equal(trace_size_class(low), i);
		assert_int_equal(trace_size_class(high), i);
		assert_int_equal(trace_size_class(low + (high - low) / 2), i);
		if (i <= 1024)
			assert_int_equal(low, high);
		else if (i > 1025) /* eight for each power of two: an eighth of it wide */
			assert_true(high - low + 1 == low / (8 + (i - 1025) % 8));
		next = high + 1;
	}
	assert_int_equal(next, 0); /* beyond UINT64_MAX */
}

TEST(test_some_classes)
{
	uint64_t low, high;
	trace_size_bounds(trace_size_class(1025), &low, &high);
	assert_int_equal(low, 1025);
	assert_int_equal(high, 1151);
	trace_size_bounds(trace_size_class(393216), &low, &high); /* 16384 structs of 24 bytes */
	assert_int_equal(low, 393216);
	assert_int_equal(high, 425983);
	assert_int_equal(trace_size_class(UINT64_MAX), TRACE_SIZE_CLASSES - 1);
}

/* ---- against a list of blocks */

struct counts {
	uint64_t allocations, allocated, slack, peak_blocks, peak_bytes, peak_slack, blocks, bytes;
};

static unsigned class_by_search(uint64_t size)
{
	for (unsigned i = 0; i < TRACE_SIZE_CLASSES; i++) {
		uint64_t low, high;
		trace_size_bounds(i, &low, &high);
		if (size >= low && size <= high)
			return i;
	}
	fail_msg("no class");
	return 0;
}

static uint64_t total_of(const struct model_block *blocks, uint32_t count)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		bytes += blocks[i].live ? blocks[i].size : 0;
	return bytes;
}

static void keep_peak(struct counts *c, const struct model_block *blocks, uint32_t count)
{
	for (unsigned i = 0; i < TRACE_SIZE_CLASSES; i++)
		c[i].peak_blocks = c[i].peak_bytes = c[i].peak_slack = 0;
	for (uint32_t i = 0; i < count; i++)
		if (blocks[i].live) {
			struct counts *k = &c[class_by_search(blocks[i].size)];
			k->peak_blocks++;
			k->peak_bytes += blocks[i].size;
			k->peak_slack += blocks[i].slack;
		}
}

/* Steps [from, count) are counted, those before only leave what is live. */
static void brute(struct counts *c, const struct history *h, size_t from)
{
	struct model_block *b = calloc(h->block_count + 1u, sizeof *b);
	bool *gone = calloc(h->block_count + 1u, sizeof *gone); /* in the window: live at the end */
	uint64_t peak = 0;
	memset(c, 0, TRACE_SIZE_CLASSES * sizeof *c);
	for (size_t i = 0; i <= h->count; i++) {
		if (i == from) {
			keep_peak(c, b, h->block_count);
			peak = total_of(b, h->block_count);
		}
		if (i == h->count)
			break;
		const struct trace_event *e = &h->steps[i].e;
		struct model_block *k = &b[h->steps[i].block];
		k->live = e->op == TRACE_ALLOC || e->op == TRACE_REALLOC;
		k->size = e->size;
		k->slack = e->slack;
		if (k->live && i >= from) {
			struct counts *made = &c[class_by_search(e->size)];
			made->allocations++;
			made->allocated += e->size;
			made->slack += e->slack;
		}
		gone[h->steps[i].block] = e->op == TRACE_GONE && i >= from;
		if (i >= from && total_of(b, h->block_count) > peak) {
			peak = total_of(b, h->block_count);
			keep_peak(c, b, h->block_count);
		}
	}
	for (uint32_t i = 0; i < h->block_count; i++)
		if (b[i].live || gone[i]) {
			struct counts *k = &c[class_by_search(b[i].size)];
			k->blocks++;
			k->bytes += b[i].size;
		}
	free(b);
	free(gone);
}

static void one_history(enum model_shape shape, unsigned seed, size_t from)
{
	static struct counts c[TRACE_SIZE_CLASSES];
	struct history *h = history_new(shape, seed, 700, 10, 1000);
	struct trace_sizes *s = calloc(1, sizeof *s);
	struct profile *p = profile_new();
	brute(c, h, from);
	for (size_t i = 0; i < h->count; i++) {
		if (i == from)
			trace_sizes_begin(s);
		trace_sizes_apply(s, &h->steps[i].e, i >= from, true);
	}
	if (from == h->count)
		trace_sizes_begin(s);
	assert_int_equal(trace_sizes_load(s, p), 0);
	uint32_t n = 0;
	for (unsigned i = 0; i < TRACE_SIZE_CLASSES; i++) {
		uint64_t low, high;
		if (!c[i].allocations && !c[i].peak_blocks && !c[i].blocks)
			continue;
		assert_true(n < p->behaviour.size_count);
		const struct profile_size *z = &p->behaviour.sizes[n++];
		trace_size_bounds(i, &low, &high);
		assert_int_equal(z->low_bytes, low);
		assert_int_equal(z->high_bytes, high);
		assert_int_equal(z->allocations, c[i].allocations);
		assert_int_equal(z->allocated_bytes, c[i].allocated);
		assert_int_equal(z->slack_bytes, c[i].slack);
		assert_int_equal(z->peak_blocks, c[i].peak_blocks);
		assert_int_equal(z->peak_bytes, c[i].peak_bytes);
		assert_int_equal(z->peak_slack_bytes, c[i].peak_slack);
		assert_int_equal(z->live_blocks, c[i].blocks);
		assert_int_equal(z->live_bytes, c[i].bytes);
	}
	assert_int_equal(n, p->behaviour.size_count);
	profile_free(p);
	free(s);
	history_free(h);
}

TEST(test_against_brute_force)
{
	for (int shape = 0; shape < MODEL_SHAPES; shape++)
		one_history((enum model_shape)shape, 21, 0);
}

TEST(test_windows)
{
	static const size_t from[] = {1, 150, 350, 699, 700 /* nothing happens in it */};
	for (int shape = 0; shape < MODEL_SHAPES; shape++)
		one_history((enum model_shape)shape, 22, from[(unsigned)shape % 5]);
	one_history(MODEL_MANY_THREADS, 23, 700);
}

UNIT_TESTS(NULL, NULL)
