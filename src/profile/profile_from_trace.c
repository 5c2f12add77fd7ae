/* heft's recording into the model.
 *
 * The recording carries a finished tally, so opening it costs its tables and its
 * symbols, however many events it has. Events are replayed only where that tally does
 * not have the answer (struct profile_selection). They go into a fresh tally, which counts the blocks that the
 * selected threads allocated, whoever frees them. So the selection has its own peak.
 *
 * A window begins with what is live then and counts what happens in it.
 *
 * A selection with part_of borrows the stacks of the profile that it names and reads no
 * symbols. Every other selection reads them.
 *
 * Invariants: the sums over sites equal the totals; every index of the recording and
 * of its events is checked before it is used. */
#include "profile/profile_from_trace.h"

#include "hosted/ledger.h"
#include "profile/missing_symbols.h"
#include "profile/profile_ledgers.h"
#include "profile/process_images.h"
#include "profile/trace_load.h"
#include "profile/trace_looks.h"
#include "profile/trace_notes.h"
#include "profile/trace_remarks.h"
#include "profile/trace_unseen.h"
#include "profile/user_frame.h"
#include "trace/trace_block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- steps of loading: each decides whether it has anything to do */

static int refuse_selection(struct load *l)
{
	if (!l->c->samples_count || !(l->sel->thread || l->sel->has_window || l->sel->sizes))
		return 0;
	return heft_fail(l->err, HEFT_EREFUSED,
			 "a sampled recording has no sizes, and no events to select by thread or "
			 "time\nrecord without --sample to get them");
}

static int split_by_process(struct load *l)
{
	return l->sel->by_process && l->p->process_count > 1
		       ? trace_split_new(&l->split, l->p, l->processes, l->c->process_count,
					 l->sel->merging)
		       : 0;
}

static int estimate(struct load *l)
{
	const struct trace_contents *c = l->c;
	bool *processes = calloc((size_t)c->process_count + 1, sizeof *processes);
	if (!processes)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count; i++)
		processes[i] = l->processes[i] != PROFILE_NONE;
	int rc = trace_samples_tally(c, processes, l->last_processes, l->split, &l->replayed,
				     &l->spread);
	free(processes);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < c->samples_count; i++)
		if (c->samples[i].rate_bytes > l->p->run.rate_bytes)
			l->p->run.rate_bytes = c->samples[i].rate_bytes;
	l->p->run.has = PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED |
			PROFILE_HAS_TIMES;
	l->tally = &l->replayed;
	return 0;
}

/* The recording's own tally will do if everything is selected. */
static int load_tally(struct load *l)
{
	if (l->c->samples_count)
		return estimate(l);
	return !l->all_threads || l->sel->has_window || l->split ? trace_load_replay(l) : 0;
}

static int add_silent_threads(struct load *l)
{
	return l->c->samples_count || l->sel->thread ? 0 : profile_add_silent_threads(l->p);
}

static int load_notes(struct load *l)
{
	return trace_notes_load(l->p, l->c, l->processes);
}

static int load_ledgers(struct load *l)
{
	struct profile *p = l->p;
	int rc = 0;
	if (!l->c->ledger_count)
		return 0;
	p->ledgers = calloc(l->c->ledger_count, sizeof *p->ledgers);
	if (!p->ledgers)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < l->c->ledger_count && !rc; i++) {
		if (profile_ledger_process(p, &l->c->ledgers[i]) == PROFILE_NONE)
			continue;
		rc = ledger_copy(&p->ledgers[p->ledger_count], &l->c->ledgers[i]);
		p->ledger_count += !rc;
	}
	return rc;
}

/* When the other totals of processes are there. A window or a thread has no resident memory of its own. */
static int sum_ledgers(struct load *l)
{
	if (!l->sel->has_window && !l->sel->thread)
		profile_sum_ledgers(l->p);
	return 0;
}

static int load_errors(struct load *l)
{
	if (!l->spread)
		return 0;
	profile_compute_errors(l->p);
	return trace_load_sampled_parts(l);
}

static int name_user_frames(struct load *l)
{
	user_frame_find_machinery(l->p);
	int rc = profile_name_ledgers(l->p); /* their sites are nodes by now (trace_load_sites) */
	return rc || l->sel->numbers_only ? rc : missing_symbols_note(l->p);
}

static int load_process_totals(struct load *l)
{
	const struct profile *p = l->p;
	uint64_t left = 0;
	if (l->spread || !p->process_count)
		return 0;
	if (l->sel->process_totals)
		return trace_load_process_totals(l);
	if (p->process_count < 2 || l->sel->top_only || l->sel->has_window || l->sel->by_process ||
	    l->sel->thread)
		return 0;
	int rc = trace_ends_left(l);
	for (uint32_t i = 0; i < p->process_count; i++)
		left += p->processes[i].totals.left_bytes;
	/* No event tells what a running process has, and in early recordings blocks end later than
	 * their process. */
	return rc == 0 && left != p->totals.left_bytes ? trace_load_process_totals(l) : rc;
}

static int drop_recorded(struct load *l)
{
	struct profile *p = l->p;
	if (!l->sel->keep && !p->stacks.lender) {
		free(p->recorded.nodes);
		free(p->recorded.sites);
		p->recorded.nodes = p->recorded.sites = NULL;
	}
	return 0;
}

static int use_own_time(struct load *l)
{
	return l->sel->own_time ? profile_take_own_time(l->p) : 0;
}

typedef int load_step(struct load *l);

static int run_steps(struct load *l, load_step *const *steps)
{
	int rc = 0;
	while (*steps && rc == 0)
		rc = (*steps++)(l);
	return rc;
}

int trace_load_part(struct load *l)
{
	static load_step *const steps[] = {
		trace_select_threads,
		trace_load_meta,
		trace_load_processes,
		trace_load_threads,
		trace_load_sites,
		trace_load_totals,
		NULL,
	};
	return run_steps(l, steps);
}

static int load_whole(struct load *l)
{
	static load_step *const steps[] = {
		refuse_selection,      trace_select_threads, trace_describe_selection,
		trace_load_meta,       trace_load_processes, split_by_process,
		trace_ends_load,       load_tally,           trace_load_threads,
		add_silent_threads,    load_notes,           load_ledgers,
		trace_load_modules,    trace_load_mapped,    trace_remarks_read,
		trace_load_sites,      trace_load_totals,    load_errors,
		trace_load_unseen,     name_user_frames,     load_process_totals,
		trace_looks_processes, sum_ledgers,          trace_load_history,
		trace_load_sizes,      trace_load_firsts,    trace_judge,
		drop_recorded,         use_own_time,         NULL,
	};
	l->p = profile_new();
	if (!l->p)
		return HEFT_ENOMEM;
	l->p->chosen.apart = l->sel->apart;
	l->p->chosen.keep_calls = l->sel->calls && !l->sel->part_of;
	return run_steps(l, steps);
}

/* Frees what is not the profile's. */
static void load_fini(struct load *l)
{
	free(l->threads);
	free(l->processes);
	free(l->modules);
	free(l->replayed_processes);
	free(l->thread_ids);
	free(l->start);
	free(l->last);
	free(l->last_processes);
	free(l->spread);
	trace_split_free(l->split);
	free(l->sizes);
	tally_fini(&l->replayed);
	tally_fini(&l->mapped);
	free(l->map_calls);
	trace_remarks_free(l->remarks);
}

/* r: for events; NULL if c has samples, which are not replayed. */
static int load_all(struct profile **out, struct trace_reader *r, const struct trace_contents *c,
		    const struct profile_selection *sel, struct heft_error *err)
{
	static const struct profile_selection everything;
	struct load l = {.reader = r, .c = c, .sel = sel ? sel : &everything, .err = err};
	*out = NULL;
	if (err)
		err->message[0] = 0;
	l.tally = c->tally;
	tally_init(&l.replayed);
	tally_init(&l.mapped);
	int rc = load_whole(&l);
	load_fini(&l);
	if (rc == 0) {
		*out = l.p;
		return 0;
	}
	profile_free(l.p);
	if (err && !err->message[0])
		heft_fail(err, rc, "%s",
			  rc == HEFT_ENOMEM
				  ? "not enough memory to load the recording"
				  : "an event names a thread or site that does not exist");
	return rc;
}

int profile_open_recording(struct trace_reader **r, const char *path, struct heft_error *err)
{
	uint8_t head[sizeof TRACE_FILE_MAGIC - 1];
	struct stat facts;
	*r = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool recording = fd >= 0 && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
			 pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head &&
			 profile_is_recording(head, sizeof head);
	if (fd >= 0)
		close(fd);
	return recording ? trace_reader_open(r, path, err) : 0;
}

int profile_from_trace(struct profile **out, struct trace_reader *r,
		       const struct profile_selection *sel, struct heft_error *err)
{
	return load_all(out, r, trace_reader_contents(r), sel, err);
}

int profile_from_samples(struct profile **out, const struct trace_contents *c,
			 const struct profile_selection *sel, struct heft_error *err)
{
	if (!c->samples_count)
		return heft_fail(err, HEFT_EFORMAT, "there are no samples");
	return load_all(out, NULL, c, sel, err);
}

int profile_from_recording(struct profile **out, const char *path,
			   const struct profile_selection *sel, struct heft_error *err)
{
	struct trace_reader *r = NULL;
	*out = NULL;
	int rc = trace_reader_open(&r, path, err);
	if (rc < 0)
		return rc;
	rc = profile_from_trace(out, r, sel, err);
	trace_reader_close(r);
	return rc;
}

bool profile_is_recording(const uint8_t *head, size_t length)
{
	size_t magic = sizeof TRACE_FILE_MAGIC - 1;
	return length >= magic && memcmp(head, TRACE_FILE_MAGIC, magic) == 0;
}
