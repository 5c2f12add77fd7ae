/* Memory that a recording does not account for: the resident anonymous memory of each process compared
 * with what was recorded (trace/unseen_memory.h has the rule). This looks at the whole recording,
 * whatever is selected: a window without allocations does not show that the memory is not malloc's.
 *
 * Processes of one program are alike: the one with most stands for all, so that a server of a hundred
 * workers has one note. */
#include "profile/trace_unseen.h"

#include "trace/unseen_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory of one process of the recording. */
struct memory {
	struct trace_anonymous last;
	double allocated; /* what malloc needed for all its allocations */
	enum unseen_memory unseen;
	bool named, said;
};

static void gather(const struct trace_contents *c, struct memory *all)
{
	for (size_t i = 0; i < c->anonymous_count; i++)
		all[c->anonymous[i].process].last = c->anonymous[i];
	uint32_t threads = c->tally->thread_count < c->thread_count ? c->tally->thread_count
								    : c->thread_count;
	for (uint32_t i = 0; i < threads; i++)
		if (c->threads[i].process < c->process_count)
			all[c->threads[i].process].allocated += unseen_memory_footprint(
				(double)c->tally->threads[i].allocated_bytes,
				(double)c->tally->threads[i].allocations);
	for (uint32_t i = 0; i < c->samples_count; i++)
		for (uint32_t k = 0; k < c->samples[i].sum_count; k++)
			if (c->samples[i].process < c->process_count)
				all[c->samples[i].process].allocated += unseen_memory_footprint(
					c->samples[i].sums[k].bytes, c->samples[i].sums[k].objects);
	for (size_t i = 0; i < c->note_count; i++)
		if (c->notes[i].kind == TRACE_NOTE_OWN_MALLOC &&
		    c->notes[i].process < c->process_count)
			all[c->notes[i].process].named = true;
	for (uint32_t i = 0; i < c->process_count; i++)
		all[i].unseen = unseen_memory(&all[i].last, all[i].allocated);
}

static bool same_program(const struct trace_process *a, const struct trace_process *b)
{
	return strcmp(a->exe ? a->exe : "", b->exe ? b->exe : "") == 0;
}

/* The process with most among those of the same program that are shown, and how many these are. */
static uint32_t find_largest(const struct load *l, struct memory *all, uint32_t first,
			     uint32_t *count)
{
	uint32_t largest = first;
	*count = 0;
	for (uint32_t i = first; i < l->c->process_count; i++) {
		if (!all[i].unseen || l->processes[i] == PROFILE_NONE ||
		    !same_program(&l->c->processes[i], &l->c->processes[first]))
			continue;
		all[i].said = true;
		++*count;
		if (all[i].last.peak_bytes > all[largest].last.peak_bytes)
			largest = i;
	}
	return largest;
}

static int add_note(struct load *l, struct memory *all, uint32_t first)
{
	char words[1024], which[400] = "", others[80] = "";
	uint32_t count, of = find_largest(l, all, first, &count);
	const struct trace_process *t = &l->c->processes[of];
	const char *exe = t->exe ? t->exe : "";
	if (l->c->process_count > 1)
		snprintf(which, sizeof which, "process %" PRId32 " (%.300s): ", t->pid, exe);
	if (count > 1)
		snprintf(others, sizeof others,
			 "; the same holds for %" PRIu32 " more process%s of this program",
			 count - 1, count == 2 ? "" : "es");
	unseen_memory_words(&all[of].last, all[of].unseen, exe, all[of].named, words, sizeof words);
	size_t line = strcspn(words, "\n");
	if (line && words[line - 1] == '.') /* the others come before it */
		line--;
	int rc = profile_add_note(l->p, PROFILE_NOTE_WARNING, all[of].last.time_ns, "%s%.*s%s%s",
				  which, (int)line, words, others, words + line);
	if (rc == 0 && !l->p->unseen)
		l->p->unseen = l->p->notes[l->p->note_count - 1].text;
	return rc;
}

/* The program is known to have an allocator of its own, and little of its memory was recorded. */
static const char *find_named(const struct load *l, const struct memory *all)
{
	for (size_t i = 0; i < l->c->note_count; i++) {
		const struct trace_note *n = &l->c->notes[i];
		if (n->kind == TRACE_NOTE_OWN_MALLOC && n->process < l->c->process_count &&
		    n->text && l->processes[n->process] != PROFILE_NONE &&
		    (!all[n->process].last.peak_bytes || /* it ended too soon to be looked at */
		     all[n->process].last.recorded_bytes < all[n->process].last.peak_bytes / 2))
			return name_pool_add(l->p->names, n->text);
	}
	return NULL;
}

int trace_load_unseen(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct memory *all = calloc((size_t)c->process_count + 1, sizeof *all);
	int rc = 0;
	if (!all)
		return HEFT_ENOMEM;
	gather(c, all);
	for (uint32_t i = 0; i < c->process_count && rc == 0; i++) {
		if (l->processes[i] == PROFILE_NONE)
			continue;
		uint64_t peak = c->processes[i].peak_anonymous_bytes; /* known at its end */
		l->p->processes[l->processes[i]].totals.peak_anonymous_bytes =
			peak > all[i].last.peak_bytes ? peak : all[i].last.peak_bytes;
		if (all[i].unseen && !all[i].said)
			rc = add_note(l, all, i);
	}
	if (rc == 0 && !l->p->unseen)
		l->p->unseen = find_named(l, all);
	/* Several processes have no sum: when they had most of it is not known. */
	if (l->p->process_count == 1)
		l->p->totals.peak_anonymous_bytes = l->p->processes[0].totals.peak_anonymous_bytes;
	free(all);
	return rc;
}
