/* The processes of a recording one by one, for findings (profile.judged).
 *
 * The recorder adds up the behaviour of all processes together. That is no basis for a verdict:
 * children that run one after the other look like growth, and a queue in one process looks like a
 * queue in all. So this replays the events. Each event goes to the tally and the behaviour of its
 * own process, and each process becomes a part of the profile whose time begins at its start.
 *
 * A build has thousands of processes. This takes those with the greatest peaks, but few of one
 * program (they show the same things, and one that leaks is among the largest of its kind), and the
 * busiest. A process knows few of the recording's sites, so its tally numbers its own.
 *
 * Events do not have everything that the recorder sees (event.h). Who frees comes from the whole
 * recording; the unused ends of arrays are divided by how often each process grew them.
 *
 * Invariant: ids in events are checked before they are used. */
#include "profile/trace_load.h"

#include "hosted/ranking.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_BY_PEAK = 8,
	MOST_BY_CALLS = 4,
	MOST = MOST_BY_PEAK + MOST_BY_CALLS,
	MOST_OF_A_PROGRAM = 4,
	BATCH = 256,
};

struct judged {
	uint32_t process; /* the recording's */
	uint64_t start_ns;
	struct tally tally;
	struct behaviour behaviour;
	uint32_t *local;             /* by the recording's site: number here + 1; 0: none */
	struct split_site *recorded; /* the other way round; all in group 0 */
	uint32_t count, capacity;
	struct trace_event *kept; /* BATCH */
	uint32_t kept_count;
};

struct judge {
	struct load *l;
	uint32_t *slots; /* in the list, by the recording's process; PROFILE_NONE: not looked at */
	struct judged list[MOST];
	uint32_t count;
};

/* ---- which ones */

static bool is_alike(const struct profile *p, uint32_t a, uint32_t b)
{
	return strcmp(process_program(&p->processes[a]), process_program(&p->processes[b])) == 0;
}

/* Takes the first `most` of the order that are not taken yet. */
static void take(struct judge *j, const struct ranked *order, uint32_t count, uint32_t most)
{
	const struct profile *p = j->l->p;
	for (uint32_t i = 0; i < count && most; i++) {
		uint32_t process = order[i].index, number = p->processes[process].number, alike = 0;
		bool taken = !order[i].value || j->slots[number] != PROFILE_NONE;
		for (uint32_t k = 0; k < j->count && !taken; k++)
			alike += is_alike(p, j->l->processes[j->list[k].process], process);
		if (taken || alike >= MOST_OF_A_PROGRAM)
			continue;
		j->slots[number] = j->count;
		j->list[j->count++] = (struct judged){.process = number,
						      .start_ns = p->processes[process].start_ns};
		most--;
	}
}

static int choose(struct judge *j)
{
	const struct load *l = j->l;
	const struct profile *p = l->p;
	struct ranked *order = malloc(((size_t)p->process_count + 1) * sizeof *order);
	j->slots = malloc(((size_t)l->c->process_count + 1) * sizeof *j->slots);
	if (!order || !j->slots) {
		free(order);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < l->c->process_count; i++)
		j->slots[i] = PROFILE_NONE;
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < p->process_count; i++) {
			const struct profile_totals *t = &p->processes[i].totals;
			uint64_t calls = t->allocations + t->reallocations;
			/* The peak of one that still runs may not be in the file. */
			uint64_t peak = t->peak_bytes ? t->peak_bytes : t->allocated_bytes;
			order[i] = (struct ranked){pass ? calls : peak, i};
		}
		rank_greatest_first(order, p->process_count);
		take(j, order, p->process_count, pass ? MOST_BY_CALLS : MOST_BY_PEAK);
	}
	free(order);
	return 0;
}

/* ---- their events */

static int init_one(struct judged *one, const struct trace_contents *c)
{
	tally_init(&one->tally);
	behaviour_init(&one->behaviour);
	one->tally.behaviour = &one->behaviour;
	one->local = calloc((size_t)c->site_count + 1, sizeof *one->local);
	one->kept = malloc(BATCH * sizeof *one->kept);
	return one->local && one->kept ? 0 : HEFT_ENOMEM;
}

static void fini_one(struct judged *one)
{
	tally_fini(&one->tally);
	behaviour_fini(&one->behaviour);
	free(one->local);
	free(one->recorded);
	free(one->kept);
}

static int flush(struct judged *one, const struct trace_contents *c)
{
	if (!one->kept_count)
		return 0;
	int rc = tally_reserve(&one->tally, one->count, c->thread_count);
	if (rc == 0)
		tally_apply(&one->tally, one->kept, one->kept_count);
	one->kept_count = 0;
	return rc;
}

static int local_site(struct judged *one, uint32_t site, uint32_t *local)
{
	if (!one->local[site]) {
		if (!array_reserve(one->recorded, one->count, one->capacity, 1))
			return HEFT_ENOMEM;
		one->recorded[one->count++] = (struct split_site){.site = site};
		one->local[site] = one->count;
	}
	*local = one->local[site] - 1;
	return 0;
}

static int keep_event(struct judged *one, const struct trace_contents *c,
		      const struct trace_event *e)
{
	struct trace_event own = *e;
	own.time_ns = e->time_ns > one->start_ns ? e->time_ns - one->start_ns : 0;
	if (local_site(one, e->site, &own.site) < 0 ||
	    (e->op == TRACE_REALLOC && local_site(one, e->old_site, &own.old_site) < 0))
		return HEFT_ENOMEM;
	/* The tally updates its history between batches, so a batch ends with a slot of the history,
	 * and what a process leaves behind is in a batch of its own. */
	if (one->kept_count) {
		const struct trace_event *first = one->kept,
					 *last = &one->kept[one->kept_count - 1];
		if (one->kept_count == BATCH ||
		    own.time_ns - first->time_ns >= one->behaviour.slot_ns ||
		    (own.op == TRACE_GONE) != (last->op == TRACE_GONE)) {
			if (flush(one, c) < 0)
				return HEFT_ENOMEM;
		}
	}
	one->kept[one->kept_count++] = own;
	return 0;
}

static int batch(void *ctx, const struct trace_event *events, size_t count)
{
	struct judge *j = ctx;
	const struct trace_contents *c = j->l->c;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (!trace_event_is_valid(c, e))
			return HEFT_EFORMAT;
		uint32_t process = c->threads[e->birth_thread].process;
		uint32_t slot = process < c->process_count ? j->slots[process] : PROFILE_NONE;
		if (slot != PROFILE_NONE && keep_event(&j->list[slot], c, e) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

/* ---- as parts of the profile */

/* The part begins and ends with its process. */
static void set_times(struct profile *part, const struct profile_process *q, uint64_t duration_ns)
{
	uint64_t end_ns = q->end == PROFILE_END_RUNNING ? duration_ns : q->end_ns;
	part->run.duration_ns = end_ns > q->start_ns ? end_ns - q->start_ns : 0;
	/* A program that became another one ended by itself. */
	part->run.end = q->end == PROFILE_END_EXEC ? PROFILE_END_EXIT : q->end;
	part->run.exit_status = q->exit_status;
	part->run.signal = q->signal;
	part->run.pid = q->pid;
}

static int make_part(struct judge *j, struct judged *one)
{
	struct load *whole = j->l;
	struct profile *p = whole->p;
	uint32_t process = whole->processes[one->process], none = PROFILE_NONE;
	struct trace_split numbers = {.sites = one->recorded, .labels = &none, .count = one->count};
	const struct profile_selection sel = {
		.has_process = true, .process = one->process, .part_of = p};
	struct load l = {.p = profile_new(),
			 .c = whole->c,
			 .reader = whole->reader,
			 .sel = &sel,
			 .err = whole->err,
			 .tally = &one->tally,
			 .split = &numbers,
			 .behaviour = &one->behaviour};
	tally_update_peaks(&one->tally);
	int rc = l.p ? trace_load_part(&l) : HEFT_ENOMEM;
	if (rc == 0) {
		p->judged[p->judged_count++] = (struct profile_judged){.p = l.p,
								       .process = process};
		set_times(l.p, &p->processes[process], p->run.duration_ns);
		l.p = NULL;
	}
	free(l.threads);
	free(l.processes);
	free(l.thread_ids);
	profile_free(l.p);
	return rc;
}

static bool is_asked(const struct load *l)
{
	const struct profile_selection *s = l->sel;
	return s->judge_events && l->c->process_count > 1 && !l->c->samples_count && !l->split &&
	       !s->part_of && !s->top_only && !s->has_window && l->all_threads;
}

bool trace_judges(const struct load *l)
{
	return is_asked(l) && l->c->events <= l->sel->judge_events;
}

int trace_judge(struct load *l)
{
	struct judge j = {.l = l};
	if (!trace_judges(l))
		return is_asked(l) ? profile_add_note(l->p, PROFILE_NOTE_INFO, 0,
						      "this recording has too many events to judge "
						      "each process here; heft report does")
				   : 0;
	l->p->judged = calloc(MOST, sizeof *l->p->judged);
	int rc = l->p->judged ? choose(&j) : HEFT_ENOMEM;
	for (uint32_t i = 0; i < j.count && rc == 0; i++)
		rc = init_one(&j.list[i], l->c);
	if (rc == 0)
		rc = trace_reader_events(l->reader, 0, UINT64_MAX, batch, &j, l->err);
	for (uint32_t i = 0; i < j.count && rc == 0; i++) {
		rc = flush(&j.list[i], l->c);
		if (rc == 0)
			rc = make_part(&j, &j.list[i]);
	}
	for (uint32_t i = 0; i < j.count; i++)
		fini_one(&j.list[i]);
	free(j.slots);
	return rc;
}
