/* Finds the modules of a running process (target_modules.h).
 *
 * A module is found by its ELF header in memory, at each mapping that begins a file, and its segments come from there.
 * So it does not matter whether the file can be opened, whether the object was mapped twice (dlmopen), whether other
 * mappings lie in the gaps between its segments, or whether somebody moved its code to huge pages. A file that is
 * mapped only to be read has no executable memory where its code would be, and is no module.
 *
 * A place for a near page keeps clear of everything that is there, and of what will grow: the span of a module
 * with its gaps (an unwinder takes what is there for the module), 1 GiB above the heap and 1 GiB below the
 * stack. It is the middle of the largest gap in reach, below the module if there is one. The kernel puts new
 * mappings at the edges of gaps, so the place is still free when heft comes to map it. */
#include "attach/target_modules.h"

#include "attach/relocate.h"
#include "hosted/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
/* The kernel maps nothing below vm.mmap_min_addr, which is this unless somebody raised it. */
#define LOWEST_PLACE UINT64_C(0x10000)
/* The end of user space with 4-level page tables. */
#define HIGHEST_PLACE UINT64_C(0x7ffffffff000)
/* What a stack may want below it. */
#define STACK_CLEARANCE (UINT64_C(1) << 30)
/* What the heap may want above it. Before it is there, the kernel has chosen a place for it at random, up to as far
 * above the program. */
#define HEAP_CLEARANCE (UINT64_C(1) << 30)

bool target_modules_memory(const struct target_modules *m, uint64_t at, void *to, size_t bytes)
{
	uint8_t *p = to;
	if (at > INT64_MAX || bytes > INT64_MAX - at)
		return false;
	while (bytes) {
		ssize_t got = pread(m->memory_fd, p, bytes, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		p += got;
		at += (uint64_t)got;
		bytes -= (size_t)got;
	}
	return true;
}

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

/* Run-time span, in whole pages; false: no module is that large, or it wraps. */
static bool find_span(const struct target_image *im, uint64_t *low, uint64_t *high)
{
	*low = UINT64_MAX;
	*high = 0;
	for (uint32_t i = 0; i < im->segment_count; i++) {
		uint64_t from = im->bias + im->segments[i].address;
		uint64_t to = from + im->segments[i].bytes;
		if (to < from || to > HIGHEST_PLACE)
			return false;
		*low = from < *low ? from : *low;
		*high = to > *high ? to : *high;
	}
	*low &= ~(PAGE - 1);
	*high = (*high + PAGE - 1) & ~(PAGE - 1);
	return *low < *high;
}

/* Code of it can run. */
static bool is_executable(const struct target_modules *m, const struct target_image *im)
{
	for (uint32_t i = 0; i < im->segment_count; i++) {
		const struct target_segment *s = &im->segments[i];
		const struct target_mapping *at = s->execute
							  ? target_maps_find(&m->maps,
									     im->bias + s->address)
							  : NULL;
		if (at && at->execute)
			return true;
	}
	return false;
}

static bool is_file(const struct target_mapping *at, const struct stat *st)
{
	return at->inode == st->st_ino && at->device_major == major(st->st_dev) &&
	       at->device_minor == minor(st->st_dev);
}

/* The executable: the file of /proc/PID/exe or, where the file system gives other numbers (overlayfs), the first
 * module with that name. */
static void mark_program(struct target_modules *m)
{
	char path[64], name[4096];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/exe", m->pid);
	ssize_t length = readlink(path, name, sizeof name - 1);
	bool known = stat(path, &st) == 0;
	name[length > 0 ? length : 0] = 0;
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < m->count; i++) {
			const struct target_mapping *at = &m->maps.items[m->items[i].mapping];
			size_t bytes = strlen(at->name);
			bool named = strncmp(name, at->name, bytes) == 0 &&
				     (!name[bytes] || strcmp(name + bytes, " (deleted)") == 0);
			if (pass == 0 ? known && is_file(at, &st) : named) {
				m->items[i].program = true;
				return;
			}
		}
}

/* Whether the mapping may be the start of a module. Its memory is not touched for this: it may be that of a device,
 * or of a file on a server that does not answer. Code is a few mappings behind, of the same file or, moved to huge
 * pages, of none. */
static bool may_be_module(const struct target_maps *maps, size_t i)
{
	enum { NEXT = 16 };
	const struct target_mapping *at = &maps->items[i];
	if (!at->inode || at->offset || at->shared)
		return false;
	for (size_t k = i; k < maps->count && k < i + NEXT; k++) {
		const struct target_mapping *p = &maps->items[k];
		bool same = p->inode == at->inode && p->device_major == at->device_major &&
			    p->device_minor == at->device_minor;
		if (p->execute && (same || !p->inode))
			return true;
	}
	return false;
}

static int add_modules(struct target_modules *m, struct heft_error *err)
{
	const struct target_memory memory = {read_memory, m};
	for (size_t i = 0; i < m->maps.count; i++) {
		const struct target_mapping *at = &m->maps.items[i];
		struct target_module module = {
			.path = at->name, .deleted = at->deleted, .mapping = i};
		if (!may_be_module(&m->maps, i) ||
		    !target_image_read(&module.image, &memory, at->start) ||
		    !find_span(&module.image, &module.low, &module.high) ||
		    !is_executable(m, &module.image))
			continue;
		if (!vector_push(m, module))
			return heft_fail(err, HEFT_ENOMEM, "no memory for the program's modules");
	}
	mark_program(m);
	return 0;
}

int target_modules_read(struct target_modules *m, pid_t pid, struct heft_error *err)
{
	char path[64];
	memset(m, 0, sizeof *m);
	m->pid = pid;
	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	m->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (m->memory_fd < 0)
		return errno == ENOENT
			       ? heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", pid)
			       : heft_fail_errno(err, "cannot read the memory of process %d", pid);
	int rc = target_maps_read(&m->maps, pid, err);
	if (rc == 0)
		rc = add_modules(m, err);
	if (rc == 0 && !m->maps.count)
		rc = heft_fail(err, HEFT_ENOTFOUND, "process %d has no memory: it has ended", pid);
	if (rc < 0)
		target_modules_fini(m);
	return rc;
}

void target_modules_fini(struct target_modules *m)
{
	if (m->memory_fd >= 0)
		close(m->memory_fd);
	m->memory_fd = -1;
	target_maps_fini(&m->maps);
	vector_free(m);
}

ssize_t target_module_at(const struct target_modules *m, uint64_t address)
{
	for (size_t i = 0; i < m->count; i++)
		if (address - m->items[i].low < m->items[i].high - m->items[i].low)
			return (ssize_t)i;
	return -1;
}

/* ---- a place near a module */

struct place_search {
	const struct target_modules *m;
	uint64_t low, high, bytes;
	uint64_t first, last;  /* the lowest and the highest start that reaches everything */
	uint64_t below, above; /* the best found; 0: none */
	uint64_t below_bytes, above_bytes; /* the gaps they are in */
};

/* Takes [from, to), which is free, into account. */
static void consider(struct place_search *s, uint64_t from, uint64_t to)
{
	from = (from + PAGE - 1) & ~(PAGE - 1);
	if (from < s->first)
		from = s->first;
	if (to > s->last + s->bytes)
		to = s->last + s->bytes;
	to &= ~(PAGE - 1);
	if (from >= to || to - from < s->bytes)
		return;
	uint64_t middle = from + ((to - from - s->bytes) / 2 & ~(PAGE - 1));
	if (to <= s->low && to - from > s->below_bytes) {
		s->below = middle;
		s->below_bytes = to - from;
	} else if (from >= s->high && to - from > s->above_bytes) {
		s->above = middle;
		s->above_bytes = to - from;
	}
}

/* Free memory from `from` up to the mapping `next`, of which `before` is the one below; either may be NULL. */
static void consider_gap(struct place_search *s, const struct target_mapping *before, uint64_t from,
			 const struct target_mapping *next)
{
	uint64_t to = next ? next->start : HIGHEST_PLACE;
	if (to > HIGHEST_PLACE)
		to = HIGHEST_PLACE;
	bool grows = before && !before->inode && strcmp(before->name, "[heap]") == 0;
	for (ssize_t module; from < to && (module = target_module_at(s->m, from)) >= 0;)
		from = s->m->items[module].high;
	/* A heap that is there has its own line; one that is to come begins somewhere above the program. */
	ssize_t below = target_module_at(s->m, from - 1);
	if (below >= 0 && s->m->items[below].program &&
	    !(next && !next->inode && strcmp(next->name, "[heap]") == 0))
		grows = true;
	if (grows)
		from = to - from > HEAP_CLEARANCE ? from + HEAP_CLEARANCE : to;
	if (next && !next->inode && strcmp(next->name, "[stack]") == 0)
		to = to > STACK_CLEARANCE ? to - STACK_CLEARANCE : 0;
	if (from < to)
		consider(s, from, to);
}

uint64_t target_place_near(const struct target_modules *m, uint64_t low, uint64_t high,
			   size_t bytes)
{
	struct place_search s = {.m = m, .low = low, .high = high};
	if (!bytes || low >= high || high > HIGHEST_PLACE || bytes >= JUMP_REACH - PAGE)
		return 0;
	s.bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
	if (high - low >= JUMP_REACH - s.bytes)
		return 0;
	/* From one end of the two to the other it is no more than the reach of a jump. */
	s.first = high > JUMP_REACH + LOWEST_PLACE ? high - JUMP_REACH : LOWEST_PLACE;
	s.first = (s.first + PAGE - 1) & ~(PAGE - 1);
	s.last = low + JUMP_REACH - s.bytes;
	const struct target_mapping *before = NULL;
	for (size_t i = 0; i <= m->maps.count; i++) {
		const struct target_mapping *next = i < m->maps.count ? &m->maps.items[i] : NULL;
		consider_gap(&s, before, before ? before->end : LOWEST_PLACE, next);
		before = next;
		if (next && next->start >= HIGHEST_PLACE)
			break;
	}
	return s.below ? s.below : s.above;
}
