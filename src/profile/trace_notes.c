/* The notes of a recording. Each is of one process, and a build or a test suite runs
 * hundreds of processes that are alike: a note that comes 590 times is shown once, with a
 * count. Two notes are the same if only the numbers of their processes differ.
 *
 * What the processes lost is added up over them. */
#include "profile/trace_notes.h"

#include "hosted/compare.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct note_key {
	const struct trace_note *note;
	size_t order;
	char *shape;    /* kind, then the text without numbers of processes */
	uint32_t count; /* of the first of a group: how many there are */
	bool alike;     /* of the first of a group: texts are equal, numbers and all */
};

/* Drops the digits that follow this word. */
static void drop_numbers_after(char *text, const char *word)
{
	for (char *at = strstr(text, word); at; at = strstr(at, word)) {
		char *from = at += strlen(word), *to = from;
		while (isdigit((unsigned char)*to))
			to++;
		memmove(from, to, strlen(to) + 1);
	}
}

static char *shape_of(const struct trace_note *n)
{
	size_t length = strlen(n->text);
	char *shape = malloc(length + 2);
	if (!shape)
		return NULL;
	shape[0] = (char)('0' + n->kind);
	memcpy(shape + 1, n->text, length + 1);
	drop_numbers_after(shape, "process ");
	drop_numbers_after(shape, "pid ");
	return shape;
}

static int by_shape(const void *a, const void *b)
{
	const struct note_key *x = a, *y = b;
	int order = strcmp(x->shape, y->shape);
	return order ? order : x->order < y->order ? -1 : 1;
}

static int by_order(const void *a, const void *b)
{
	const struct note_key *x = a, *y = b;
	return compare_numbers(x->order, y->order);
}

static int add_group(struct profile *p, const struct note_key *k)
{
	const struct trace_note *n = k->note;
	enum profile_note_kind kind = n->kind == TRACE_NOTE_INFO ? PROFILE_NOTE_INFO
								 : PROFILE_NOTE_WARNING;
	char count[48] = ""; /* in front: summaries cut lines at their end */
	if (k->count > 1)
		snprintf(count, sizeof count,
			 k->alike ? "(%" PRIu32 " times) " : "(%" PRIu32 " like this) ", k->count);
	int rc = profile_add_note(p, kind, n->time_ns, "%s%s", count, n->text);
	if (!rc)
		p->notes[p->note_count - 1].count = k->count;
	return rc;
}

static int load_texts(struct profile *p, const struct trace_contents *c)
{
	struct note_key *keys = calloc((size_t)c->note_count + 1, sizeof *keys);
	size_t count = 0, groups = 0;
	int rc = keys ? 0 : HEFT_ENOMEM;
	for (size_t i = 0; i < c->note_count && !rc; i++) {
		if (!c->notes[i].text)
			continue;
		keys[count] = (struct note_key){&c->notes[i], i, shape_of(&c->notes[i]), 0, true};
		rc = keys[count++].shape ? 0 : HEFT_ENOMEM;
	}
	if (!rc)
		qsort(keys, count, sizeof *keys, by_shape);
	for (size_t i = 0; i < count && !rc; i++) {
		struct note_key *group = &keys[groups ? groups - 1 : 0];
		if (groups && !strcmp(group->shape, keys[i].shape)) {
			group->count++;
			group->alike &= !strcmp(group->note->text, keys[i].note->text);
			continue;
		}
		/* The shapes must all be freed: they change places. */
		struct note_key here = keys[i];
		keys[i] = keys[groups];
		keys[groups] = here;
		keys[groups++].count = 1;
	}
	if (!rc)
		qsort(keys, groups, sizeof *keys, by_order);
	for (size_t i = 0; i < groups && !rc; i++)
		rc = add_group(p, &keys[i]);
	for (size_t i = 0; keys && i < count; i++)
		free(keys[i].shape);
	free(keys);
	return rc;
}

/* One thing that processes lost, added up. */
struct loss {
	uint64_t sum, time_ns; /* time: of the first */
	uint32_t processes;
	int32_t pid; /* if it is one */
};

static void add_loss(struct loss *loss, uint64_t count, uint64_t time_ns, int32_t pid)
{
	if (!count)
		return;
	loss->time_ns = loss->processes && loss->time_ns < time_ns ? loss->time_ns : time_ns;
	loss->sum += count;
	loss->pid = pid;
	loss->processes++;
}

static int note_loss(struct profile *p, enum profile_note_kind kind, const struct loss *loss,
		     const char *what)
{
	char who[48];
	if (!loss->processes)
		return 0;
	if (loss->processes == 1)
		snprintf(who, sizeof who, "pid %" PRId32, loss->pid);
	else
		snprintf(who, sizeof who, "%" PRIu32 " processes", loss->processes);
	int rc = profile_add_note(p, kind, loss->time_ns, "%s: %" PRIu64 " %s", who, loss->sum,
				  what);
	if (!rc)
		p->notes[p->note_count - 1].count = loss->processes;
	return rc;
}

static int load_losses(struct profile *p, const struct trace_contents *c, const uint32_t *processes)
{
	struct loss dropped = {0}, stacks = {0}, reentrant = {0};
	for (uint32_t i = 0; i < c->process_count; i++) {
		const struct trace_process *t = &c->processes[i];
		if (processes[i] == PROFILE_NONE)
			continue;
		add_loss(&dropped, t->dropped, t->dropped_from_ns, t->pid);
		add_loss(&stacks, t->lost_stacks, t->start_ns, t->pid);
		add_loss(&reentrant, t->reentrant, t->start_ns, t->pid);
	}
	char events[64];
	snprintf(events, sizeof events, "events are missing, from %.3f s on",
		 (double)dropped.time_ns / 1e9);
	int rc = note_loss(p, PROFILE_NOTE_WARNING, &dropped, events);
	if (!rc)
		rc = note_loss(p, PROFILE_NOTE_WARNING, &stacks,
			       "allocations have an incomplete stack, because the table of stacks "
			       "was full");
	if (!rc)
		rc = note_loss(p, PROFILE_NOTE_INFO, &reentrant,
			       "calls made from inside an allocation function were not recorded");
	return rc;
}

int trace_notes_load(struct profile *p, const struct trace_contents *c, const uint32_t *processes)
{
	int rc = 0;
	if (!c->complete)
		rc = profile_add_note(p, PROFILE_NOTE_WARNING, c->duration_ns,
				      "the recording is incomplete (cut off, or still being "
				      "written): it can be read up to %.3f s, byte %" PRIu64,
				      (double)c->duration_ns / 1e9, c->cut_offset);
	if (!rc)
		rc = load_texts(p, c);
	return rc ? rc : load_losses(p, c, processes);
}
