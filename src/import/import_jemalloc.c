/* Reads jemalloc's heap dump, heap_v2:
 *
 *   heap_v2/524288
 *     t*: 28106: 56637512 [0: 0]           everything: live objects and bytes, and since the start
 *     t3: 352: 16777344 [0: 0] worker      one thread, with its name
 *   @ 0x5f86da8 0x5f5a1dc ...              a stack, innermost first
 *     t*: 13: 6688 [0: 0]                  the same numbers of this stack
 *     t3: 12: 6496 [0: 0]
 *
 *   MAPPED_LIBRARIES:
 *   /proc/PID/maps as it was
 *
 * The numbers count sampled objects. Each line becomes an estimate by itself, by its own
 * mean size; jemalloc with prof_unbias (5.3) writes its numbers so that exactly this
 * gives the right sums. The totals at the top cannot be estimated so (their mean size is
 * that of everything), hence totals are the sums over stacks, and those of a thread are
 * the sums of its lines. Numbers since the start are 0 unless the program ran with prof_accum. */
#include "import/import_formats.h"
#include "import/import_sites.h"
#include "import/stack_lines.h"
#include "import/text_scan.h"

#include <stdlib.h>
#include <string.h>

static const char magic[] = "heap_v2/";

enum { MAX_THREADS = 1 << 20 };

struct jemalloc_thread {
	uint64_t number;
	const char *name;
	struct stack_counts counts;
};

struct jemalloc_file {
	struct stack_lines lines;
	VECTOR(struct jemalloc_thread) threads;
	struct hash_index thread_index; /* by number */
	uint64_t rate;
	bool in_stack;   /* below an "@" */
	bool has_counts; /* and its t* was there */
	uint32_t node;
	uint64_t accumulated;
};

bool import_jemalloc_recognise(const uint8_t *head, size_t length)
{
	return length >= sizeof magic - 1 && memcmp(head, magic, sizeof magic - 1) == 0;
}

static void unbias(const struct jemalloc_file *f, struct stack_counts *c)
{
	import_unbias(f->rate, &c->live_blocks, &c->live_bytes);
	import_unbias(f->rate, &c->blocks, &c->bytes);
}

static int find_thread(struct jemalloc_file *f, uint64_t number, struct jemalloc_thread **thread)
{
	uint32_t hash = hash_number(number), i;
	for (uint32_t at = hash; (i = hash_index_step(&f->thread_index, hash, &at)) != HASH_NONE;)
		if (f->threads.items[i].number == number) {
			*thread = &f->threads.items[i];
			return 0;
		}
	if (f->threads.count == MAX_THREADS)
		return HEFT_EFORMAT;
	if (hash_index_add(&f->thread_index, hash, (uint32_t)f->threads.count) < 0 ||
	    !vector_push(&f->threads, (struct jemalloc_thread){.number = number, .name = ""}))
		return HEFT_ENOMEM;
	*thread = &f->threads.items[f->threads.count - 1];
	return 0;
}

/* "  t*: ..." or "  t3: ... name"; `at` is behind the "t". */
static int counts_line(struct jemalloc_file *f, const char *line, const char *at)
{
	struct stack_counts c;
	uint64_t number = 0;
	bool all = scan_one(&at, '*');
	if ((!all && !scan_decimal(&at, &number)) || !scan_one(&at, ':') ||
	    !stack_lines_counts(&at, &c))
		return import_expected(f->lines.in, line, "'t*: objects: bytes [objects: bytes]'");
	f->accumulated |= c.blocks;
	unbias(f, &c);
	if (all) {
		if (!f->in_stack)
			return 0; /* the sums of what follows, not estimates */
		if (f->has_counts)
			return import_expected(f->lines.in, line,
					       "one line 't*' for a stack, not two");
		f->has_counts = true;
		return stack_lines_add(&f->lines, f->node, &c);
	}
	struct jemalloc_thread *t;
	int rc = find_thread(f, number, &t);
	if (rc == HEFT_EFORMAT)
		return import_fail(f->lines.in, import_source_offset(f->lines.in, line),
				   "expected at most %d threads", MAX_THREADS);
	if (rc < 0)
		return rc;
	if (f->in_stack) {
		import_add(&t->counts.live_blocks, c.live_blocks);
		import_add(&t->counts.live_bytes, c.live_bytes);
		import_add(&t->counts.blocks, c.blocks);
		import_add(&t->counts.bytes, c.bytes);
	} else {
		scan_blanks(&at);
		t->name = name_pool_add(f->lines.p->names, at);
		if (!t->name)
			return HEFT_ENOMEM;
	}
	return 0;
}

static int end_stack(const struct jemalloc_file *f, const char *line)
{
	if (!f->in_stack || f->has_counts)
		return 0;
	return import_expected(f->lines.in, line,
			       "a line 't*' with the numbers of the stack before");
}

static int read_lines(struct jemalloc_file *f)
{
	struct stack_lines *l = &f->lines;
	char *line;
	size_t length;
	int rc = import_source_line(l->in, &line, &length);
	if (rc < 0)
		return rc;
	const char *at = line + sizeof magic - 1;
	if (rc == 0 || !scan_decimal(&at, &f->rate) || !f->rate || *at)
		return import_fail(l->in, 0, "expected 'heap_v2/' and the sampling rate");
	while ((rc = stack_lines_next(l, &line, &at)) == 1) {
		if (scan_one(&at, '@')) {
			rc = end_stack(f, line);
			f->in_stack = true;
			f->has_counts = false;
			if (rc == 0)
				rc = stack_lines_addresses(l, line, at, false, &f->node);
		} else if (*at == 't' && (at[1] == '*' || (at[1] >= '0' && at[1] <= '9'))) {
			rc = counts_line(f, line, at + 1);
		} else {
			rc = import_expected(l->in, line,
					     "a stack ('@'), its numbers ('t*') or "
					     "'MAPPED_LIBRARIES:'");
		}
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		rc = end_stack(f, line);
	return rc < 0 ? rc : stack_lines_maps(l);
}

static int add_threads(struct jemalloc_file *f)
{
	for (size_t i = 0; i < f->threads.count; i++) {
		const struct jemalloc_thread *t = &f->threads.items[i];
		struct profile_thread thread = {
			.tid = t->number > INT32_MAX ? INT32_MAX : (int32_t)t->number,
			.name = t->name,
			.allocations = t->counts.blocks,
			.allocated_bytes = t->counts.bytes,
			.live_blocks = t->counts.live_blocks,
			.live_bytes = t->counts.live_bytes,
		};
		if (profile_add_thread(f->lines.p, &thread) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

int import_jemalloc_load(struct profile *p, struct import_source *in)
{
	struct jemalloc_file f = {.lines = {.p = p, .in = in}};
	int rc = read_lines(&f);
	if (rc == 0) {
		p->run.has = PROFILE_HAS_LIVE;
		if (f.accumulated)
			p->run.has |= PROFILE_HAS_ALLOCATED;
		if (f.threads.count)
			p->run.has |= PROFILE_HAS_THREADS;
		p->run.rate_bytes = f.rate > 1 ? f.rate : 0;
		rc = add_threads(&f);
	}
	if (rc == 0)
		rc = stack_lines_finish(&f.lines);
	stack_lines_fini(&f.lines);
	vector_free(&f.threads);
	hash_index_fini(&f.thread_index);
	return rc;
}
