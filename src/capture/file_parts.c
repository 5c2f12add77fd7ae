/* Which parts of its session file a process has mapped.
 *
 * Mostly all of it: 50 MiB of addresses cost nothing, and memory comes page by page.
 * That is different where a program counts addresses (RLIMIT_AS), or where it locks all
 * that is mapped into memory (mlockall). There the inside maps less: the beginning of
 * the table of stack nodes, and fewer chunks, or fewer tables of samples. Each part is
 * where it would be if all were mapped, so everybody else knows only how far they reach
 * (struct heft_part); what lies between may become somebody else's memory.
 *
 * A part never grows. It shrinks at mlockall and setrlimit, while other threads record: they may take
 * a node or a chunk of which they do not know yet that it is too far. So what stays is
 * a good deal more than what is used. */
#include "capture/sample.h"
#include "capture/settings.h"

#include <sys/mman.h>

enum { PAGE = 4096, RESERVE = 1 << 20, PARTS = 4, TRIES = 4 };
#define FIXED_NOREPLACE 0x100000
#define APART (128ull << 20)

struct heft_part heft_part = HEFT_PART_ALL;

struct parts {
	unsigned count;
	struct {
		uint64_t from, to; /* in the file, whole pages */
	} part[PARTS];
};

static void add_part(struct parts *p, uint64_t from, uint64_t to)
{
	from &= ~(uint64_t)(PAGE - 1);
	to = (to + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (p->count && from <= p->part[p->count - 1].to)
		p->part[p->count - 1].to = to;
	else {
		p->part[p->count].from = from;
		p->part[p->count++].to = to;
	}
}

static struct parts parts_now(void)
{
	struct parts p = {0};
	uint64_t nodes = atomic_load(&heft_part.nodes), chunks = atomic_load(&heft_part.chunks);
	int all = atomic_load(&heft_part.levels) == WIRE_SAMPLE_LEVELS;
	add_part(&p, 0, WIRE_NODES_OFFSET + nodes * sizeof(struct wire_node));
	if (!heft_settings.sample_bytes) {
		add_part(&p, WIRE_CHUNKS_OFFSET, WIRE_CHUNKS_OFFSET + chunks * WIRE_CHUNK_BYTES);
		return p;
	}
	add_part(&p, WIRE_CHUNKS_OFFSET, all ? WIRE_SUMS_0 : WIRE_LIVE_2);
	add_part(&p, WIRE_SUMS_0, all ? WIRE_ANSWER_OFFSET : WIRE_SUMS_2);
	add_part(&p, WIRE_ANSWER_OFFSET, WIRE_ANSWER_OFFSET + WIRE_ANSWER_BYTES);
	return p;
}

static uint32_t at_most(uint64_t wanted, uint32_t most)
{
	return wanted < most ? (uint32_t)wanted : most;
}

/* A process whose addresses are limited gives us a small share of them. */
static void choose_parts(void)
{
	uint64_t share = sys_limit(RLIMIT_AS) / HEFT_PART_SHARE;
	if (heft_mapped || share >= WIRE_FILE_BYTES)
		return;
	if (share < RESERVE)
		share = RESERVE;
	atomic_store(&heft_part.nodes, at_most(share / sizeof(struct wire_node), WIRE_NODES));
	atomic_store(&heft_part.chunks, at_most(share / WIRE_CHUNK_BYTES, WIRE_CHUNKS));
	atomic_store(&heft_part.levels, WIRE_SAMPLE_LEVELS - 1);
}

void heft_parts_unmap(void *at)
{
	const struct parts p = parts_now();
	for (unsigned i = 0; i < p.count; i++)
		sys_munmap((char *)at + p.part[i].from, p.part[i].to - p.part[i].from);
}

/* Maps the parts where they belong if the file began at `base`. */
static int map_at(int fd, const struct parts *p, char *base)
{
	for (unsigned i = 0; i < p->count; i++) {
		const uint64_t from = p->part[i].from, bytes = p->part[i].to - from;
		void *got = sys_mmap_file(base + from, bytes, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_NORESERVE | FIXED_NOREPLACE, fd, from);
		if (got == base + from)
			continue;
		if (got) /* kernels before 4.17 take it for a wish */
			sys_munmap(got, bytes);
		while (i-- > 0)
			sys_munmap(base + p->part[i].from, p->part[i].to - p->part[i].from);
		return -1;
	}
	return 0;
}

void *heft_parts_map(int fd)
{
	choose_parts();
	const struct parts p = parts_now();
	const uint64_t first = p.part[0].to;
	char *at = sys_mmap_file(NULL, first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
				 fd, 0);
	if (!at || p.count == 1)
		return at;
	/* The kernel gives the highest addresses first: below these there is space. */
	sys_munmap(at, first);
	char *base = (char *)((uintptr_t)at - WIRE_FILE_BYTES - RESERVE);
	for (unsigned i = 0; i < TRIES; i++, base -= APART)
		if (!map_at(fd, &p, base))
			return base;
	return NULL;
}

/* The header comes last: without its own one a process uses nothing of the rest. */
int heft_parts_move(void *at, void *to)
{
	const struct parts p = parts_now();
	for (unsigned i = p.count; i-- > 0;)
		if (sys_mremap_to((char *)at + p.part[i].from, p.part[i].to - p.part[i].from,
				  (char *)to + p.part[i].from))
			return -1;
	return 0;
}

/* Unmaps what is in `was` and in no part now. */
static void unmap_rest(char *base, const struct parts *was)
{
	const struct parts p = parts_now();
	for (unsigned i = 0; i < was->count; i++) {
		uint64_t at = was->part[i].from;
		for (unsigned k = 0; k < p.count; k++) {
			if (p.part[k].from < at || p.part[k].from >= was->part[i].to)
				continue;
			if (p.part[k].from > at)
				sys_munmap(base + at, p.part[k].from - at);
			at = p.part[k].to;
		}
		if (at < was->part[i].to)
			sys_munmap(base + at, was->part[i].to - at);
	}
}

static void shrink(const struct wire_header *h)
{
	const struct parts was = parts_now();
	const uint64_t nodes = atomic_load(&h->node_count) + RESERVE / sizeof(struct wire_node);
	const uint64_t chunks = atomic_load(&h->fresh) + RESERVE / WIRE_CHUNK_BYTES;
	const uint32_t had = atomic_load(&heft_part.nodes),
		       had_chunks = atomic_load(&heft_part.chunks);
	atomic_store(&heft_part.nodes, at_most(nodes, had));
	atomic_store(&heft_part.chunks, at_most(chunks, had_chunks));
	if (atomic_load(&h->sampling.live_levels) < WIRE_SAMPLE_LEVELS &&
	    atomic_load(&h->sampling.sum_levels) < WIRE_SAMPLE_LEVELS)
		atomic_store(&heft_part.levels, WIRE_SAMPLE_LEVELS - 1);
	unmap_rest(heft_mapped, &was);
}

/* Not in a vfork child: the memory is its parent's, but what it locks or limits is not. */
void heft_parts_shrink(void)
{
	struct heft_process *p = heft_process;
	if (p && atomic_load(&p->phase) == HEFT_OPEN && p->session.header->pid == sys_getpid())
		shrink(p->session.header);
}
