/* What the recording says about memory that heft does not see: a note about another allocator than malloc, as
 * soon as one is found, and numbers that show a reader of the recording whether there is more. */
#include "record/recorder_parts.h"

#include "session/process_memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct process *find_parent(const struct recorder *r, const struct process *p)
{
	struct process *found = NULL;
	for (uint32_t i = 0; i < r->set->count; i++)
		if (r->set->list[i]->pid == p->entry.facts.ppid && r->set->list[i] != p)
			found = r->set->list[i];
	return found;
}

static bool process_is_there(const struct process *p)
{
	char path[64], exe[1];
	snprintf(path, sizeof path, "/proc/%d/exe", p->seen_pid);
	return readlink(path, exe, sizeof exe) > 0;
}

static void note_allocator(struct recorder *r, struct process *p)
{
	char text[OWN_ALLOCATOR_TEXT];
	if (process_allocator_words(p, text, sizeof text))
		recorder_note(r, TRACE_NOTE_OWN_MALLOC, p->index, text);
}

void recorder_begin_memory(struct recorder *r, struct process *p)
{
	const struct launch_plan *plan = r->o->plan;
	process_begin_memory(p, p->child ? find_parent(r, p) : NULL);
	/* Of a program that was hooked at its start, this is what it has executed in its place. */
	if (recorded(p)->direct && !p->child && plan && plan->own_malloc_text[0] &&
	    plan->way == LAUNCH_PRELOAD) {
		struct own_allocator found = {.how = plan->own_malloc};
		snprintf(found.text, sizeof found.text, "%s", plan->own_malloc_text);
		process_take_allocator(p, &found);
	}
	/* A forked child has the same files as its parent, which has the note. */
	if (p->child)
		return;
	if (!process_look_for_allocator(p, 0) && !process_is_there(p)) /* an echo is gone by now */
		process_look_at_program(p);
	note_allocator(r, p);
}

void recorder_look_for_allocator(struct recorder *r, struct process *p, uint64_t since_ns)
{
	if (process_look_for_allocator(p, since_ns))
		note_allocator(r, p);
}

/* Some operators new that map memory call malloc, too: one that keeps a table of its own beside the blocks. Then what they
 * map says nothing. */
static bool has_malloc_in_new(const struct recorder *r, const struct process *p)
{
	const struct stack_map *m = &r->drain.stacks;
	for (uint32_t i = 0; i < m->site_count; i++)
		if (m->sites[i].via != TRACE_VIA_FREE &&
		    drain_site_is_in_new(&r->drain, recorded(p), i))
			return true;
	return false;
}

/* The program's own operator new has mapped more than all that malloc gave out, and calls no malloc. */
static void note_own_new(struct recorder *r, struct process *p)
{
	struct recorded_new *n = &recorded(p)->own_new;
	struct own_allocator found = {.how = ELF_MALLOC_INTERNAL};
	if (n->judged || !n->mapped_bytes || n->mapped_bytes < recorded(p)->reorder.peak_bytes)
		return;
	n->judged = true;
	if (has_malloc_in_new(r, p))
		return;
	own_new_words(p->entry.facts.exe, found.text, sizeof found.text);
	process_take_allocator(p, &found);
	note_allocator(r, p);
}

void recorder_write_memory(struct recorder *r, struct process *p)
{
	struct trace_anonymous a;
	note_own_new(r, p);
	if (!process_anonymous(p, &a) || (a.peak_bytes == recorded(p)->written.peak_bytes &&
					  a.recorded_bytes == recorded(p)->written.recorded_bytes))
		return;
	a.time_ns = drain_now_ns(&r->drain);
	trace_writer_anonymous(r->writer, &a);
	recorded(p)->written = a;
}
