/* A profile whose every number is worked out by hand, for the tests of the export formats. */
#ifndef HEFT_TESTS_EXPORT_FIXTURE_H
#define HEFT_TESTS_EXPORT_FIXTURE_H

#include "export/export_formats.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

struct text {
	char *data;
	size_t length;
};

static inline struct text write_with(export_fn *write, const struct profile *p,
				     const struct export_options *o)
{
	struct text t = {0};
	struct heft_error err = {0};
	FILE *out = open_memstream(&t.data, &t.length);
	if (write(out, p, o, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fclose(out), 0);
	return t;
}

static inline struct text gunzip(struct text packed)
{
	struct text t = {malloc(1 << 22), 1 << 22};
	z_stream z = {.next_in = (Bytef *)packed.data, .avail_in = (uInt)packed.length};
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = (Bytef *)t.data;
	z.avail_out = (uInt)t.length - 1;
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	t.length = z.total_out;
	t.data[t.length] = 0;
	inflateEnd(&z);
	free(packed.data);
	return t;
}

/* ---- the profile
 *
 *   A  main > f > g (inlined)   malloc   5 allocations, 500 bytes; peak 300 in 3, end 100 in 1
 *   B  main                     realloc  4 reallocations to 240 bytes, growth 60; peak 100 in 1
 *   C  main > a hostile name    calloc   2 allocations, 7 bytes, all of them there from the peak on
 *   D  stack unknown            malloc   1 allocation, 10 bytes, after the peak
 *
 * The peak is 407 bytes at 3 ms, the end 117 bytes at 10 ms. */

static const char hostile[] = "h{closure#0}\n\033[31m\xff; \"</script>";

static inline uint32_t frame(struct profile *p, const char *function, const char *file,
			     uint32_t line, uint32_t module, uint64_t address, bool inlined)
{
	struct profile_frame f = {
		.function = name_pool_add(p->names, function),
		.file = file ? name_pool_add(p->names, file) : NULL,
		.line = line,
		.module = module,
		.address = address,
		.inlined = inlined,
	};
	uint32_t id;
	assert_int_equal(profile_add_frame(p, &f, &id), 0);
	return id;
}

static inline uint32_t node(struct profile *p, uint32_t parent, uint32_t of)
{
	uint32_t id;
	assert_int_equal(profile_add_node(p, parent, of, 0, &id), 0);
	return id;
}

static inline struct profile_site *site(struct profile *p, uint32_t at, uint32_t via)
{
	uint32_t id;
	assert_int_equal(profile_add_site(p, at, via, &id), 0);
	return &p->sites[id];
}

#define FILL(target, ...)                                                                          \
	do {                                                                                       \
		struct profile_site *s_ = (target);                                                \
		struct profile_site from_ = {__VA_ARGS__};                                         \
		from_.id = s_->id, from_.node = s_->node, from_.via = s_->via, from_.merged = 1;   \
		from_.handover = from_.growth = from_.history = PROFILE_NONE;                      \
		*s_ = from_;                                                                       \
	} while (0)

static inline void add_up(struct profile *p)
{
	p->totals.peak_bytes = p->totals.live_bytes = 0;
	for (uint32_t i = 0; i < p->site_count; i++) {
		p->totals.peak_bytes += p->sites[i].peak_bytes;
		p->totals.live_bytes += p->sites[i].live_bytes;
	}
}

static inline struct profile *by_hand(void)
{
	static const uint8_t id[] = {0xab, 0x0c};
	struct profile *p = profile_new();
	uint32_t libc, program;
	static char *argv[] = {(char *)"/x/prog", (char *)"a\n#b"};
	assert_int_equal(profile_add_module(p, "/lib/libc.so.6", NULL, 0, &libc), 0);
	assert_int_equal(profile_add_module(p, "/x/prog", id, sizeof id, &program), 0);
	uint32_t start = node(p, PROFILE_NONE, frame(p, "start", NULL, 0, libc, 0x9000, false));
	uint32_t main_ = node(p, start, frame(p, "main", "a.c", 10, program, 0x1010, false));
	uint32_t f = node(p, main_, frame(p, "f", "a.c", 5, program, 0x1005, false));
	uint32_t g = node(p, f, frame(p, "g", "a.h", 3, program, 0x1005, true));
	uint32_t h = node(p, main_, frame(p, hostile, NULL, 0, program, 0x1020, false));
	FILL(site(p, g, PROFILE_VIA_MALLOC), .allocations = 5, .frees = 4, .allocated_bytes = 500,
	     .peak_bytes = 300, .peak_blocks = 3, .own_peak_bytes = 300, .live_bytes = 100,
	     .live_blocks = 1, .temporary = 1, .lifetime = {.mean_ns = 2000000});
	FILL(site(p, main_, PROFILE_VIA_REALLOC), .reallocations = 4, .frees = 4,
	     .allocated_bytes = 60, .reallocated_bytes = 240, .peak_bytes = 100, .peak_blocks = 1,
	     .own_peak_bytes = 110, .lifetime = {.mean_ns = 500});
	FILL(site(p, h, PROFILE_VIA_CALLOC), .allocations = 2, .allocated_bytes = 7,
	     .peak_bytes = 7, .peak_blocks = 2, .own_peak_bytes = 7, .live_bytes = 7,
	     .live_blocks = 2, .lifetime = {.mean_ns = 9000000});
	FILL(site(p, PROFILE_NONE, PROFILE_VIA_MALLOC), .allocations = 1, .allocated_bytes = 10,
	     .own_peak_bytes = 10, .live_bytes = 10, .live_blocks = 1,
	     .lifetime = {.mean_ns = 1000000});
	for (uint32_t i = 0; i < p->site_count; i++) { /* of one process it is the same */
		p->sites[i].left_bytes = p->sites[i].live_bytes;
		p->sites[i].left_blocks = p->sites[i].live_blocks;
	}
	profile_finish_sites(p);
	add_up(p);
	p->run.has = PROFILE_HAS_ALL;
	p->run.argv = profile_copy_strings(p, argv, 2);
	p->run.argc = 2;
	p->run.pid = 77;
	p->run.start_unix_ns = 1700000000000000000;
	p->run.duration_ns = p->chosen.to_ns = 10000000;
	p->totals.peak_time_ns = 3000000;
	p->totals.peak_rss_bytes = 5 * 4096;
	return p;
}

#endif
