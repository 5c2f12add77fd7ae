/* Which processes and threads of a recording are selected, and the words for that.
 *
 * A block belongs to the thread that allocated it, and so to that thread's process, whoever frees it. A
 * process here is one program image: exec makes another with the same pid, so a pid may select several
 * images; a number selects one. */
#include "profile/trace_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of a thread, or of a group of them as reports call it ("worker-*"): * is anything, ? one
 * character. Not fnmatch(): names like "pool[1]" have brackets. */
static bool name_matches(const char *name, const char *wanted)
{
	const char *star = NULL, *from = NULL; /* the last *, and what it has taken up to */
	while (*name) {
		if (*wanted == '*') {
			star = wanted++;
			from = name;
		} else if (*wanted == '?' || *wanted == *name) {
			wanted++;
			name++;
		} else if (star) {
			wanted = star + 1;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*wanted == '*')
		wanted++;
	return !*wanted;
}

static bool thread_is(const struct trace_thread *t, const char *wanted)
{
	char tid[16];
	snprintf(tid, sizeof tid, "%" PRId32, t->tid);
	return strcmp(tid, wanted) == 0 ||
	       (t->name && (strcmp(t->name, wanted) == 0 || name_matches(t->name, wanted)));
}

static bool chooses_processes(const struct profile_selection *s)
{
	return s->has_pid || s->has_process || s->program;
}

bool trace_process_is_chosen(const struct load *l, uint32_t process)
{
	const struct profile_selection *s = l->sel;
	const struct trace_process *t = &l->c->processes[process];
	if ((s->has_pid && t->pid != s->pid) || (s->has_process && s->process != process))
		return false;
	struct profile_process named = {
		.exe = t->exe, .argv = (const char **)(uintptr_t)t->argv, .argc = t->argc};
	return !s->program || strcmp(process_program(&named), s->program) == 0;
}

bool trace_process_begins_after(const struct load *l, uint32_t process)
{
	/* Times in the file are rounded down. */
	return l->sel->has_window && l->c->processes[process].start_ns > l->c->meta.tick_ns &&
	       l->c->processes[process].start_ns - l->c->meta.tick_ns > l->sel->to_ns;
}

bool trace_process_is_outside(const struct load *l, uint32_t process)
{
	const struct trace_process *t = &l->c->processes[process];
	if (!l->sel->has_window || l->sel->part_of || l->sel->by_process ||
	    chooses_processes(l->sel))
		return false;
	return trace_process_begins_after(l, process) ||
	       (t->end != TRACE_END_RUNNING && t->end_ns < trace_counts_from(l));
}

static int no_such_process(struct load *l)
{
	char which[240];
	if (l->sel->has_pid)
		snprintf(which, sizeof which, "%" PRId32, l->sel->pid);
	else if (l->sel->has_process)
		snprintf(which, sizeof which, "number %" PRIu32, l->sel->process);
	else
		snprintf(which, sizeof which, "of the program '%.200s'", l->sel->program);
	return heft_fail(l->err, HEFT_ENOTFOUND,
			 "no process %s in this recording\n"
			 "heft report --json lists its processes",
			 which);
}

int trace_select_threads(struct load *l)
{
	const struct trace_contents *c = l->c;
	uint32_t selected = 0;
	bool chosen = false;
	l->threads = calloc((size_t)c->thread_count + 1, sizeof *l->threads);
	if (!l->threads)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count && !chosen; i++)
		chosen = trace_process_is_chosen(l, i);
	for (uint32_t i = 0; i < c->thread_count; i++) {
		const struct trace_thread *t = &c->threads[i];
		bool in = true;
		if (chooses_processes(l->sel))
			in = t->process < c->process_count &&
			     trace_process_is_chosen(l, t->process);
		if (in && l->sel->thread)
			in = thread_is(t, l->sel->thread);
		l->threads[i] = in;
		selected += in;
	}
	l->all_threads = selected == c->thread_count;
	if (chooses_processes(l->sel) && !chosen)
		return no_such_process(l);
	if (l->sel->thread && !selected)
		return heft_fail(l->err, HEFT_ENOTFOUND,
				 "no thread '%s' in this recording\n"
				 "heft report --json lists its threads",
				 l->sel->thread);
	return 0;
}

int trace_describe_selection(struct load *l)
{
	char words[512] = "";
	size_t used = 0;
	const struct profile_selection *s = l->sel;
	if (s->has_pid)
		used += (size_t)snprintf(words, sizeof words, "process %" PRId32, s->pid);
	else if (s->has_process)
		used += (size_t)snprintf(words, sizeof words, "process %" PRId32,
					 l->c->processes[s->process].pid);
	else if (s->program)
		used += (size_t)snprintf(words, sizeof words, "processes of %.200s", s->program);
	if (s->thread)
		used += (size_t)snprintf(words + used, sizeof words - used, "%sthread %.200s",
					 used ? ", " : "", s->thread);
	if (s->has_window)
		used += (size_t)snprintf(words + used, sizeof words - used,
					 "%sfrom %.6f s to %.6f s", used ? ", " : "",
					 (double)(s->from_ns - s->origin_ns) / 1e9,
					 (double)(s->to_ns - s->origin_ns) / 1e9);
	if (!used)
		return 0;
	l->p->chosen.words = name_pool_add(l->p->names, words);
	return l->p->chosen.words ? 0 : HEFT_ENOMEM;
}
