/* Writes over a session file what costs its reader most, as a hostile program can: thousands of modules, a million
 * nodes, and sites at the ends of very deep stacks.
 *
 *	forge_session FILE DEPTH SITES [MODULES] */
#include "wire/samples.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LEAVES = 150000 };

static void fill_log(struct wire_session *s, uint64_t modules)
{
	size_t at = 0;
	for (uint64_t i = 0; i < modules; i++) {
		char path[40];
		size_t length = (size_t)snprintf(path, sizeof path, "/nowhere/m%llu.so",
						 (unsigned long long)i);
		size_t bytes = (sizeof(struct wire_module) + length + 7) & ~7ul;
		if (at + bytes + 8 > WIRE_LOG_BYTES)
			break;
		struct wire_module *m = (struct wire_module *)(s->log + at);
		memset(m, 0, bytes);
		m->start = 0x10000000 + i * 4096;
		m->end = m->start + 4096;
		m->path_bytes = (uint16_t)length;
		m->kind = WIRE_LOG_MODULE;
		memcpy(m->data, path, length);
		m->bytes = (uint32_t)bytes;
		at += bytes;
	}
	memset(s->log + at, 0, 8);
	s->header->log_used = (uint32_t)at;
}

static void set_node(struct wire_session *s, uint32_t i, uint64_t pc, uint32_t parent,
		     uint64_t flags)
{
	s->nodes[i].parent = parent;
	s->nodes[i].check = ~parent;
	s->nodes[i].pc_flags = pc | flags << WIRE_FLAG_SHIFT;
}

int main(int argc, char **argv)
{
	int fd = argc >= 4 ? open(argv[1], O_RDWR) : -1;
	void *base = fd < 0 ? MAP_FAILED
			    : mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				   0);
	if (base == MAP_FAILED)
		return 1;
	uint32_t depth = (uint32_t)atoi(argv[2]), sites = (uint32_t)atoi(argv[3]), made = 0;
	struct wire_session s = wire_session_at(base);
	const uint32_t leaf = WIRE_NODES - LEAVES;
	fill_log(&s, argc > 4 ? strtoull(argv[4], NULL, 10) : UINT64_MAX);
	for (uint32_t i = 1; i < leaf; i++)
		set_node(&s, i, 0x10000000 + (uint64_t)i * 160, i % depth ? i - 1 : 0,
			 WIRE_NODE_PRESENT | WIRE_NODE_EXACT);
	for (uint32_t i = leaf; i < WIRE_NODES; i++)
		set_node(&s, i, 0, (i - leaf) % (leaf / depth) * depth + depth - 1,
			 WIRE_NODE_PRESENT | WIRE_NODE_VIA);
	s.header->node_count = WIRE_NODES;
	s.header->sampling.sum_levels = WIRE_SAMPLE_LEVELS;
	for (unsigned k = 0; k < WIRE_SAMPLE_LEVELS; k++) {
		struct wire_sum_level l = wire_sum_level(base, k);
		for (uint32_t i = 0; i < 1u << l.bits && made < sites; i++, made++) {
			l.sums[i].samples = 1;
			l.sums[i].bytes_16 = 16 * 1000;
			l.sums[i].objects_1024 = 1024;
			l.sums[i].site = leaf + made % LEAVES;
		}
	}
	printf("%u\n", made);
	return 0;
}
