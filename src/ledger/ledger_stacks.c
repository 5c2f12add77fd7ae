/* Stacks of threads in a ledger.
 *
 * glibc maps a stack with its guard at the low end and the thread's descriptor at the high one, where the thread pointer
 * leads. The descriptor says where the mapping begins, how long it is, and how much of it is the guard: three words one
 * after the other that cannot be there by chance. So no layout of any version needs to be known, and the end of a stack
 * is found even where the kernel has merged it with its neighbour.
 *
 * When a thread ends, glibc keeps its stack for the next one, with the descriptor in it. Such stacks are looked for right
 * behind guards, and with them those of threads that did not say in time where they are: the descriptor also has the
 * thread's number, which is 0 when it has ended. With another C library, the stack is the mapping that the stack pointer is in, up to the thread pointer
 * if that is above it.
 *
 * The first thread has its stack from the kernel, and its thread-local memory from the loader. */
#include "ledger/ledger_parts.h"

#include "hosted/error.h"

#include <stdio.h>
#include <unistd.h>

enum {
	DESCRIPTOR_BYTES = 4096, /* more than a descriptor has */
	TOP_BYTES = 32 << 10,    /* descriptor and thread-local variables above the stack */
	SIZES_MOST = 16,
	OTHER_MOST =
		64
		<< 20, /* a larger mapping is more than a stack: a runtime keeps stacks in its heap */
	LOADER_MOST =
		128 << 10, /* the mapping of the loader that the first thread's descriptor is in */
};
#define STACK_MOST (UINT64_C(1) << 40)

static const char running_name[] = "stacks of threads";
static const char kept_name[] = "stacks that ended threads have left, kept by glibc";

struct stack_block {
	uint64_t start, size, guard;
};
struct stack_sizes {
	uint64_t items[SIZES_MOST]; /* that stacks of this process have */
	size_t count;
};

static bool is_whole(uint64_t n)
{
	return n % LEDGER_PAGE == 0;
}

/* Looks for the three words in memory that was read, of which `at` is the address. `inside` is in the stack. */
static bool find_block(const uint64_t *words, size_t count, uint64_t inside, struct stack_block *b)
{
	for (size_t i = 0; i + 2 < count; i++) {
		uint64_t start = words[i], size = words[i + 1], guard = words[i + 2];
		if (start && is_whole(start) && size && is_whole(size) && size < STACK_MOST &&
		    is_whole(guard) && guard < size && inside >= start + guard &&
		    inside - start < size && start + size - inside <= TOP_BYTES) {
			*b = (struct stack_block){start, size, guard};
			return true;
		}
	}
	return false;
}

/* Reads only pages that are in memory: looking at others would make them. */
static size_t read_present(struct ledger_taking *t, uint64_t at, uint64_t *words, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		uint64_t from = at + done;
		size_t left = (size_t)(LEDGER_PAGE - from % LEDGER_PAGE);
		left = left < bytes - done ? left : bytes - done;
		if (!ledger_pages_have(&t->pages, from) ||
		    !ledger_read(t, from, (uint8_t *)words + done, left))
			break;
		done += left;
	}
	return done / sizeof *words;
}

/* A runtime may have taken the right to the lower pages away, for a guard of its own. */
static bool is_stack_memory(const struct ledger_taking *t, const struct stack_block *b)
{
	const struct target_mapping *m = target_maps_find(&t->maps, b->start + b->size - 1);
	return m && ledger_is_plain(m);
}

/* The number of the thread whose descriptor is in these words; 0: none is. A descriptor begins with its own address,
 * which also stands in its third word. */
static pid_t find_number(const uint64_t *words, size_t count, uint64_t at)
{
	enum { SELF = 2, NUMBER = 0x2d0 / 8 }; /* as glibc has them */
	for (size_t i = 0; i + NUMBER < count; i++)
		if (words[i] == at + i * 8 && words[i + SELF] == words[i])
			return (pid_t)(words[i + NUMBER] & INT32_MAX);
	return 0;
}

static void note_size(struct stack_sizes *sizes, uint64_t size)
{
	for (size_t i = 0; i < sizes->count; i++)
		if (sizes->items[i] == size)
			return;
	if (sizes->count < SIZES_MOST)
		sizes->items[sizes->count++] = size;
}

static bool claim_block(struct ledger_taking *t, const struct stack_block *b, const char *name)
{
	return ledger_claim(t, b->start + b->guard, b->start + b->size, LEDGER_STACKS, name);
}

/* ---- threads that run */

static bool claim_thread(struct ledger_taking *t, const struct stop_thread *thread,
			 struct stack_sizes *sizes)
{
	uint64_t words[DESCRIPTOR_BYTES / 8];
	struct stack_block b;
	if (!thread->stopped || !thread->thread_pointer || thread->thread_pointer % 8)
		return true;
	size_t count = read_present(t, thread->thread_pointer, words, sizeof words);
	if (find_block(words, count, thread->thread_pointer, &b) && is_stack_memory(t, &b)) {
		note_size(sizes, b.size);
		return claim_block(t, &b, running_name);
	}
	const struct target_mapping *m = target_maps_find(&t->maps, thread->sp);
	if (thread->tid == t->pid || !m || !ledger_is_plain(m) || m->end - m->start > OTHER_MOST)
		return true;
	uint64_t end = m->end;
	if (thread->thread_pointer > thread->sp && thread->thread_pointer < m->end)
		end = thread->thread_pointer + LEDGER_PAGE;
	return ledger_claim(t, m->start, end < m->end ? end : m->end, LEDGER_STACKS, running_name);
}

/* The loader maps memory for the first thread's variables and descriptor. */
static bool claim_first(struct ledger_taking *t)
{
	bool fine = true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		uint64_t words[LOADER_MOST / 8];
		if (!ledger_is_plain(m) || m->end - m->start > LOADER_MOST)
			continue;
		uint64_t at = m->start;
		while (at < m->end && !ledger_pages_have(&t->pages, at))
			at += LEDGER_PAGE;
		size_t count = read_present(t, at, words, (size_t)(m->end - at));
		if (count && find_number(words, count, at) == t->pid)
			fine = ledger_claim(
				t, m->start, m->end, LEDGER_ANONYMOUS,
				"made by the loader, for variables of the first thread");
	}
	return fine;
}

/* ---- threads that have ended */

static bool is_alive(const struct ledger_taking *t, pid_t number)
{
	for (size_t k = 0; k < t->threads.count; k++)
		if (t->threads.items[k].tid == number)
			return true;
	return false;
}

static bool claim_kept(struct ledger_taking *t, const struct target_mapping *guard,
		       const struct target_mapping *m, uint64_t end)
{
	uint64_t words[TOP_BYTES / 8];
	struct stack_block b;
	if (end > m->end || end <= m->start)
		return true;
	uint64_t from = end - m->start > TOP_BYTES ? end - TOP_BYTES : m->start;
	/* Its upper pages are in memory, those below may not be. */
	while (from < end && !ledger_pages_have(&t->pages, from))
		from += LEDGER_PAGE;
	size_t count = read_present(t, from, words, (size_t)(end - from));
	/* Something inside must be named: its last page is. */
	if (!find_block(words, count, end - 8, &b) || b.start + b.size != end ||
	    b.start < guard->start || b.start + b.guard > m->start)
		return true;
	return claim_block(t, &b,
			   is_alive(t, find_number(words, count, from)) ? running_name : kept_name);
}

static int claim_all_kept(struct ledger_taking *t, const struct stack_sizes *sizes)
{
	bool fine = true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		const struct target_mapping *guard = i ? &t->maps.items[i - 1] : NULL;
		if (!ledger_is_plain(m) || !guard || guard->end != m->start ||
		    !ledger_is_reserved(guard))
			continue;
		fine = claim_kept(t, guard, m, m->end);
		for (size_t k = 0; k < sizes->count && fine; k++)
			fine = claim_kept(t, guard, m, m->start - LEDGER_PAGE + sizes->items[k]);
	}
	return fine;
}

bool ledger_is_kept_stack(const struct ledger_span *s)
{
	return s->name == kept_name;
}

int ledger_stacks_claim(struct ledger_taking *t, struct heft_error *err)
{
	struct stack_sizes sizes = {.items = {8 << 20}, .count = 1};
	bool fine = true;
	for (size_t i = 0; i < t->threads.count && fine; i++)
		fine = claim_thread(t, &t->threads.items[i], &sizes);
	t->turn = LEDGER_TURN_KEPT_STACKS;
	fine = fine && claim_all_kept(t, &sizes);
	fine = fine && claim_first(t);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}
