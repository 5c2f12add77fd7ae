/* heft's recording into the model.
 *
 * The recording carries a finished tally, so opening it costs its tables and its
 * symbols, however many events it has. Only a selection by process, thread or time
 * replays the events: into a fresh tally, with the blocks that the selected threads
 * allocated (a free of such a block counts whoever does it), so that the selection
 * has a peak of its own.
 *
 * A window begins with what is live then and counts what happens in it.
 *
 * Of several selections only the first, of everything, reads symbols; the others
 * are parts of it and borrow its stacks (part_of).
 *
 * Invariants: the sums over sites equal the totals; all indices in the recording
 * are checked before they are used, events' included. */
#include "profile/profile_from_trace.h"

#include "profile/missing_symbols.h"
#include "profile/process_images.h"
#include "profile/trace_load.h"
#include "profile/trace_notes.h"
#include "profile/trace_unseen.h"
#include "profile/user_frame.h"
#include "trace/trace_block.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a sampled recording */

static int refuse_selection(struct load *l)
{
	if (!l->c->samples_count || !(l->sel->thread || l->sel->has_window || l->sel->sizes))
		return 0;
	return heft_fail(l->err, HEFT_EREFUSED,
			 "a sampled recording does not tell threads, times and sizes\n"
			 "record without --sample to select by them");
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

static int load_process_totals(struct load *l)
{
	const struct profile *p = l->p;
	uint64_t left = 0;
	if (l->sel->process_totals)
		return trace_load_process_totals(l);
	if (p->process_count < 2 || l->sel->top_only || l->sel->has_window || l->sel->by_process ||
	    l->sel->thread)
		return 0;
	int rc = trace_ends_left(l);
	for (uint32_t i = 0; i < p->process_count; i++)
		left += p->processes[i].totals.left_bytes;
	/* What one that still runs has now is in no event at its end, and in early recordings blocks
	 * end later than their process. */
	return rc == 0 && left != p->totals.left_bytes ? trace_load_process_totals(l) : rc;
}

int trace_load_part(struct load *l)
{
	int rc = trace_select_threads(l);
	if (rc == 0)
		rc = trace_load_meta(l);
	if (rc == 0)
		rc = trace_load_processes(l);
	if (rc == 0)
		rc = trace_load_threads(l);
	if (rc == 0)
		rc = trace_load_sites(l);
	return rc == 0 ? trace_load_totals(l) : rc;
}

/* r: for events; NULL if c has samples, of which nothing is replayed. */
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
	l.p = profile_new();
	int rc = l.p ? 0 : HEFT_ENOMEM;
	if (l.p) {
		l.p->chosen.apart = l.sel->apart;
		l.p->chosen.keep_calls = l.sel->calls && !l.sel->part_of;
	}

	if (rc == 0)
		rc = refuse_selection(&l);
	if (rc == 0)
		rc = trace_select_threads(&l);
	if (rc == 0)
		rc = trace_describe_selection(&l);
	if (rc == 0)
		rc = trace_load_meta(&l);
	if (rc == 0)
		rc = trace_load_processes(&l);
	if (rc == 0 && l.sel->by_process && l.p->process_count > 1)
		rc = trace_split_new(&l.split, l.p, l.processes, l.c->process_count,
				     l.sel->merging);
	if (rc == 0)
		rc = trace_ends_load(&l);
	if (rc == 0 && l.c->samples_count)
		rc = estimate(&l);
	else if (rc == 0 && (!l.all_threads || l.sel->has_window || l.split))
		rc = trace_load_replay(&l);
	if (rc == 0)
		rc = trace_load_threads(&l);
	if (rc == 0 && !l.c->samples_count && !l.sel->thread)
		rc = profile_add_silent_threads(l.p);
	if (rc == 0)
		rc = trace_notes_load(l.p, l.c, l.processes);
	if (rc == 0 && !l.sel->part_of)
		rc = trace_load_modules(&l);
	if (rc == 0)
		rc = trace_load_sites(&l);
	if (rc == 0)
		rc = trace_load_totals(&l);
	if (rc == 0 && l.spread) {
		profile_settle_errors(l.p);
		rc = trace_load_sampled_parts(&l);
	}
	if (rc == 0)
		rc = trace_load_unseen(&l);
	if (rc == 0) {
		user_frame_settle(l.p);
		rc = l.sel->numbers_only ? 0 : missing_symbols_note(l.p);
	}
	if (rc == 0 && !l.spread && l.p->process_count)
		rc = load_process_totals(&l);
	if (rc == 0 && l.sel->history && l.p->stacks.lender && !l.spread && !l.split)
		rc = trace_load_history(&l);
	if (rc == 0 && l.sel->sizes)
		rc = trace_load_sizes(&l);
	if (rc == 0)
		rc = trace_judge(&l);
	if (rc == 0 && !l.sel->keep && !l.p->stacks.lender) {
		free(l.p->recorded.nodes);
		free(l.p->recorded.sites);
		l.p->recorded.nodes = l.p->recorded.sites = NULL;
	}
	if (rc == 0 && l.sel->own_time)
		rc = profile_take_own_time(l.p);

	free(l.threads);
	free(l.processes);
	free(l.modules);
	free(l.replayed_processes);
	free(l.thread_ids);
	free(l.start);
	free(l.last);
	free(l.last_processes);
	free(l.spread);
	trace_split_free(l.split);
	free(l.sizes);
	tally_fini(&l.replayed);
	if (rc < 0) {
		profile_free(l.p);
		if (err && !err->message[0])
			heft_fail(err, rc, "%s",
				  rc == HEFT_ENOMEM
					  ? "not enough memory to load the recording"
					  : "an event names a thread or site that does not exist");
		return rc;
	}
	*out = l.p;
	return 0;
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
