/* A session file as a sampled process leaves it: one site, BLOCKS live blocks that are far larger than the
 * rate, so that each stands for itself. */
#ifndef HEFT_TESTS_SAMPLED_SESSION_H
#define HEFT_TESTS_SAMPLED_SESSION_H

#include "wire/samples.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 5, BLOCK_BYTES = 1000000 };

static inline uint64_t session_mono_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Into the file fd, which is empty. Returns its mapping, or NULL. */
static inline void *sampled_session_make(int fd)
{
	if (ftruncate(fd, (off_t)WIRE_FILE_BYTES))
		return NULL;
	void *base = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return NULL;
	struct wire_session s = wire_session_at(base);
	struct wire_header *h = s.header;
	h->version = WIRE_VERSION;
	h->mode = WIRE_SAMPLED;
	h->start_mono_ns = session_mono_ns();
	strcpy(h->text, "/bin/program");
	memcpy(h->text + 13, "program\0-x", 11);
	h->text_bytes = 24;
	h->arg_count = 2;
	h->sampling.on = 1;
	h->sampling.rate_bytes = 1024;
	h->sampling.live_levels = h->sampling.sum_levels = 1;
	const uint64_t present = (uint64_t)WIRE_NODE_PRESENT << WIRE_FLAG_SHIFT;
	s.nodes[0] = (struct wire_node){present, 0, ~0u};
	s.nodes[1] = (struct wire_node){present | 0x1234, 0, ~0u};
	s.nodes[2] = (struct wire_node){present | (uint64_t)WIRE_NODE_VIA << WIRE_FLAG_SHIFT, 1,
					~1u};
	h->node_count = 3;
	struct wire_live_level live = wire_live_level(base, 0);
	for (uint32_t i = 0; i < BLOCKS; i++) {
		live.blocks[i * 100] = (struct wire_sample){BLOCK_BYTES, 1024, 1, 0, 2, 7};
		live.addresses[i * 100] = 0x1000 * (i + 1);
	}
	struct wire_sum *sum = &wire_sum_level(base, 0).sums[0];
	sum->site = 2;
	sum->samples = BLOCKS;
	sum->bytes_16 = 16ull * BLOCKS * BLOCK_BYTES;
	sum->objects_1024 = 1024ull * BLOCKS;
	h->magic = WIRE_MAGIC;
	return base;
}

#endif
