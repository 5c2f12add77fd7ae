/* What heft can see of a process's memory, and what it cannot. There are three signs that it cannot: the
 * library inside says that malloc is not ours, the process has another allocator in its files
 * (own_allocator.c), or far more memory is resident than was recorded (trace/unseen_memory.h). The
 * last sign needs no name and no symbol, but it shows only when there is much memory.
 *
 * A forked child begins with its parent's pages, and their blocks count in the parent. So those pages
 * are subtracted from what is resident in the child. So are those of a program from before heft was attached. */
#include "session/process_memory.h"

#include "hosted/saturating.h"
#include "session/own_allocator.h"
#include "trace/unseen_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
/* A library may come by dlopen at any time, most likely soon; a look costs some 50 us. */
static const uint64_t look_at_ns[] = {0, 200 * MS, 1000 * MS, 5000 * MS, 30000 * MS};
#define LOOK_EVERY_NS (300000 * MS)

/* If less than this part of its memory was recorded, heft cannot see into the process. */
#define BLIND_PART 256
#define BLIND_LIBRARY_PART 16
/* The same where nobody knows how much memory it had: it ended before it was looked at. */
#define BLIND_BYTES (1 << 20)

/* Under entry.lock. */
static bool has_gaps(const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	return p->view.corrupt || p->view.dropped || p->entry.facts.dropped ||
	       atomic_load(&h->dropped) || atomic_load(&h->off_tsc) ||
	       (p->view.sampled && !atomic_load(&h->sampling.on));
}

void process_see_gaps(struct process *p)
{
	p->entry.rss.gaps |= has_gaps(p);
}

void process_begin_memory(struct process *p, struct process *parent)
{
	uint64_t had = 0;
	process_read_rss(p, 0, 0);
	if (!p->child && !p->attached)
		return;
	if (parent) {
		pthread_mutex_lock(&parent->entry.lock);
		had = parent->entry.rss.anonymous_bytes;
		pthread_mutex_unlock(&parent->entry.lock);
	}
	struct process_rss *rss = &p->entry.rss;
	pthread_mutex_lock(&p->entry.lock);
	rss->inherited = had > rss->anonymous_bytes ? had : rss->anonymous_bytes;
	pthread_mutex_unlock(&p->entry.lock);
}

bool process_anonymous(struct process *p, struct trace_anonymous *a)
{
	const struct process_rss *rss = &p->entry.rss;
	pthread_mutex_lock(&p->entry.lock);
	*a = (struct trace_anonymous){
		.process = p->index,
		.peak_bytes = rss->anonymous_bytes,
		.inherited_bytes = rss->inherited,
		.recorded_bytes = p->entry.shown.peak_bytes,
		.recorded_blocks = p->entry.shown.peak_blocks,
	};
	bool known = a->peak_bytes && !rss->gaps && !has_gaps(p);
	pthread_mutex_unlock(&p->entry.lock);
	if (!p->view.sampled)
		return known;
	pthread_mutex_lock(&p->samples.lock);
	a->recorded_bytes = saturating_whole(p->samples.peak.bytes);
	a->recorded_blocks = saturating_whole(p->samples.peak.objects);
	pthread_mutex_unlock(&p->samples.lock);
	return known;
}

/* ---- allocators */

/* The library inside says that the program's malloc is another one. A program that heft was attached to calls
 * whatever malloc it likes: it is hooked where it begins. */
static bool says_own_malloc(const struct process *p)
{
	return p->view.session.header->own_malloc == WIRE_MALLOC_OWN && !p->attached;
}

void process_take_allocator(struct process *p, const struct own_allocator *found)
{
	struct own_allocator *copy = malloc(sizeof *copy);
	if (!copy)
		return;
	*copy = *found;
	pthread_mutex_lock(&p->entry.lock);
	if (!p->entry.allocator) {
		p->entry.allocator = copy;
		copy = NULL;
	}
	pthread_mutex_unlock(&p->entry.lock);
	free(copy);
}

/* The allocators that heft attach has hooked, as the process says. It may say anything, of itself. */
static struct own_allocator_seen seen_in(const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	uint32_t count = h->hooked_count;
	return (struct own_allocator_seen){h->hooked, count < WIRE_HOOKED ? count : WIRE_HOOKED};
}

/* One thread looks at a time: others wait for what it finds. */
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

static bool look_for_allocator(struct process *p, uint64_t since_start_ns)
{
	struct own_allocator found;
	pthread_mutex_lock(&p->entry.lock);
	bool due = !p->entry.allocator && since_start_ns >= p->entry.allocator_look_ns &&
		   p->entry.facts.end == TRACE_END_RUNNING;
	if (due) {
		uint64_t next = p->entry.allocator_look_ns + LOOK_EVERY_NS;
		for (size_t i = 0; i < sizeof look_at_ns / sizeof *look_at_ns; i++)
			if (look_at_ns[i] > since_start_ns && look_at_ns[i] < next)
				next = look_at_ns[i];
		p->entry.allocator_look_ns = next;
	}
	pthread_mutex_unlock(&p->entry.lock);
	if (!due || !own_allocator_of_process(p->seen_pid, seen_in(p), &found) ||
	    found.how == ELF_MALLOC_SHARED)
		return false;
	process_take_allocator(p, &found);
	return true;
}

bool process_look_for_allocator(struct process *p, uint64_t since_start_ns)
{
	pthread_mutex_lock(&looking);
	bool found = look_for_allocator(p, since_start_ns);
	pthread_mutex_unlock(&looking);
	return found;
}

void process_look_at_program(struct process *p)
{
	struct own_allocator found;
	pthread_mutex_lock(&p->entry.lock);
	bool known = p->entry.allocator;
	pthread_mutex_unlock(&p->entry.lock);
	if (!known && own_allocator_of_program(p->entry.facts.exe, seen_in(p), &found) &&
	    found.how != ELF_MALLOC_SHARED)
		process_take_allocator(p, &found);
}

bool process_allocator_words(struct process *p, char *text, size_t size)
{
	bool found = false;
	pthread_mutex_lock(&p->entry.lock);
	if (p->entry.allocator && p->entry.allocator->how != ELF_MALLOC_SHARED) {
		snprintf(text, size, "%s", p->entry.allocator->text);
		found = true;
	}
	pthread_mutex_unlock(&p->entry.lock);
	if (!found && says_own_malloc(p)) {
		/* It ended before its file was looked at: the library inside told this much. */
		const struct elf_facts told = {.own_malloc = ELF_MALLOC_EXPORTED};
		own_allocator_words(p->entry.facts.exe, &told, false, text, size);
		found = true;
	}
	return found;
}

/* ---- both together */

enum process_sight process_sight(struct process *p, const struct sampled_sums *sums, char *text,
				 size_t size)
{
	struct trace_anonymous a = {0};
	bool known = process_anonymous(p, &a);
	double allocated = sums ? unseen_memory_footprint(sums->allocated_bytes,
							  sums->allocated_objects)
				: INFINITY;
	enum unseen_memory unseen = known ? unseen_memory(&a, allocated) : UNSEEN_NOTHING;
	uint64_t own = a.peak_bytes > a.inherited_bytes ? a.peak_bytes - a.inherited_bytes : 0;
	pthread_mutex_lock(&p->entry.lock);
	enum elf_own_malloc how = p->entry.allocator ? p->entry.allocator->how : ELF_MALLOC_SHARED;
	bool library = p->entry.allocator && p->entry.allocator->library;
	pthread_mutex_unlock(&p->entry.lock);
	if (how == ELF_MALLOC_SHARED && says_own_malloc(p))
		how = ELF_MALLOC_EXPORTED;

	bool blind;
	if (how == ELF_MALLOC_SHARED)
		blind = unseen && (a.recorded_bytes < own / BLIND_PART || (sums && !sums->samples));
	else if (library)
		blind = unseen && a.recorded_bytes < own / BLIND_LIBRARY_PART;
	else if (how == ELF_MALLOC_LIKELY)
		blind = unseen || !a.recorded_bytes;
	else /* it may use malloc as well: if that is half of its memory, there is much to see */
		blind = a.peak_bytes ? !a.recorded_bytes || a.recorded_bytes < own / 2
				     : a.recorded_bytes < BLIND_BYTES;
	/* An allocator explains it; what was ever allocated exactly is not at hand here. */
	if (unseen && how != ELF_MALLOC_SHARED && a.recorded_bytes < own / BLIND_LIBRARY_PART)
		unseen = UNSEEN_MOST;
	*text = 0;
	if (!blind && !unseen)
		return PROCESS_SEEN;
	bool named = process_allocator_words(p, text, size);
	size_t used = strlen(text);
	if (unseen && used + 2 < size) {
		if (named)
			text[used++] = '\n';
		unseen_memory_words(&a, unseen, p->entry.facts.exe, named, text + used,
				    size - used);
	}
	return blind ? PROCESS_BLIND : PROCESS_PARTLY;
}
