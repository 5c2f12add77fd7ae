/* What a recording says about itself beside its events: what is missing and why, which
 * processes were not followed, what sampling was allowed to cost. */
#include "record/recorder_parts.h"

#include "agent/sampled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void recorder_note(struct recorder *r, uint32_t kind, uint32_t process, const char *text)
{
	struct trace_note n = {kind, process, drain_now_ns(&r->drain), text};
	trace_writer_note(r->writer, &n);
}

void recorder_count_losses(struct recorder *r, struct process *p)
{
	struct wire_header *h = p->view.session.header;
	struct trace_process *f = &p->entry.facts;
	uint64_t off = atomic_load(&h->off_tsc), tsc0 = r->drain.clock.tsc0;
	pthread_mutex_lock(&p->entry.lock);
	for (uint32_t i = 0; i < p->view.slots; i++)
		f->dropped += atomic_load(&p->view.session.streams[i].dropped);
	f->dropped += p->view.dropped + atomic_load(&h->dropped);
	f->reentrant = atomic_load(&h->reentrant);
	f->lost_stacks = atomic_load(&h->lost_stacks);
	if (f->dropped)
		f->dropped_from_ns = off > tsc0 ? drain_stamp_ns(&r->drain, off) : f->start_ns;
	pthread_mutex_unlock(&p->entry.lock);
}

void recorder_note_losses(struct recorder *r, struct process *p)
{
	struct wire_header *h = p->view.session.header;
	const struct trace_process *f = &p->entry.facts;
	unsigned long long dropped = f->dropped;
	char text[512];
	if (p->view.corrupt)
		snprintf(text, sizeof text,
			 "process %d wrote over the memory it shares with heft: its recording ends "
			 "at %.3f s",
			 p->pid, (double)r->drain.last_ns / 1e9);
	else if (atomic_load(&h->off_tsc) && atomic_load(&h->off_reason) == WIRE_OFF_SANDBOX)
		snprintf(
			text, sizeof text,
			"process %d went on without being recorded from %.3f s on, because it went "
			"into a sandbox without time stamps (strict seccomp or PR_SET_TSC)",
			p->pid, (double)f->dropped_from_ns / 1e9);
	else if (atomic_load(&h->off_reason) == WIRE_OFF_SANDBOX)
		snprintf(text, sizeof text,
			 "process %d went into a sandbox that does not allow what heft needs for "
			 "new "
			 "threads: %llu of their calls are missing",
			 p->pid, dropped);
	else if (p->view.sampled)
		snprintf(text, sizeof text,
			 "process %d lost %llu samples, because its tables were full", p->pid,
			 dropped);
	else if (atomic_load(&h->off_tsc))
		snprintf(text, sizeof text,
			 "process %d went on without being recorded from %.3f s on, because the "
			 "recorder made no progress: %llu calls are missing",
			 p->pid, (double)f->dropped_from_ns / 1e9, dropped);
	else
		snprintf(text, sizeof text,
			 "process %d had more than %d threads at once: %llu of their calls are "
			 "missing",
			 p->pid, WIRE_STREAMS, dropped);
	if (p->view.corrupt || dropped)
		recorder_note(r, TRACE_NOTE_LOST, p->index, text);
	if (!atomic_load(&h->lost_children))
		return;
	snprintf(text, sizeof text,
		 "%u forked children of process %d could not be recorded: cannot make a file "
		 "in the session directory: %s",
		 atomic_load(&h->lost_children), p->pid,
		 strerror((int)(atomic_load(&h->lost_child_errno) & 0xfff)));
	recorder_note(r, TRACE_NOTE_UNFOLLOWED, p->index, text);
}

/* A library that ran before heft saw it (src/capture/redirect.c) may free what it allocated then. That is no
 * error of the program, and as far as we know nothing was lost. */
void recorder_note_late_libraries(struct recorder *r, struct process *p)
{
	struct trace_process *f = &p->entry.facts;
	char text[256];
	if (p->view.sampled || p->view.corrupt || !f->unknown_frees ||
	    !atomic_load(&p->view.session.header->late_libraries))
		return;
	snprintf(text, sizeof text,
		 "process %d freed %llu blocks that libraries loaded with RTLD_DEEPBIND had "
		 "allocated "
		 "before heft saw them",
		 p->pid, (unsigned long long)f->unknown_frees);
	pthread_mutex_lock(&p->entry.lock);
	f->unknown_frees = 0;
	pthread_mutex_unlock(&p->entry.lock);
	recorder_note(r, TRACE_NOTE_INFO, p->index, text);
}

/* What the program allocated before heft was attached, or while it had stopped the recording, is not known: that it
 * frees such blocks is no error. */
void recorder_note_older_blocks(struct recorder *r, struct process *p)
{
	const struct reorder *b = &recorded(p)->reorder;
	char text[256];
	if (!b->is_attached || p->view.sampled || p->view.corrupt ||
	    !(b->older_frees + b->older_reallocs))
		return;
	snprintf(text, sizeof text,
		 "process %d freed %llu and resized %llu blocks that it had allocated %s", p->pid,
		 (unsigned long long)b->older_frees, (unsigned long long)b->older_reallocs,
		 p->attached ? "before heft was attached" : "while it had stopped the recording");
	recorder_note(r, TRACE_NOTE_INFO, p->index, text);
}

void recorder_note_budget(struct recorder *r, struct process *p)
{
	char text[sizeof r->result->budget];
	if (!sampled_budget_words(p, text, sizeof text))
		return;
	recorder_note(r, TRACE_NOTE_INFO, p->index, text);
	if (recorded(p)->direct)
		memcpy(r->result->budget, text, sizeof text);
}

static int by_pid(const void *a, const void *b)
{
	const struct known_process *x = a, *y = b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Whether the program that was executed has come. known: sorted by pid. */
static bool exec_came(const struct recorder *r, const struct known_process *known, uint32_t exec)
{
	const struct known_exec *x = &r->execs.list[exec];
	bool came = x->note.failed;
	for (uint32_t k = exec + 1;
	     k < r->execs.count && !came && r->execs.list[k].process == x->process; k++)
		came = r->execs.list[k].note.pid == x->note.pid && r->execs.list[k].note.failed;
	struct known_process wanted = {.pid = x->note.pid};
	const struct known_process *p = bsearch(&wanted, known, r->process_count, sizeof *known,
						by_pid);
	while (p && p > known && p[-1].pid == x->note.pid)
		p--;
	/* A spawned child may have opened its file before the note was written. */
	for (; p && p < known + r->process_count && p->pid == x->note.pid && !came; p++)
		came = (p->index != x->process && !p->child) || p->start_tsc > x->note.tsc;
	return came;
}

void recorder_note_unfollowed(struct recorder *r)
{
	if (!r->o->follow || !r->process_count)
		return;
	qsort(r->known, r->process_count, sizeof *r->known, by_pid);
	for (uint32_t i = 0; i < r->execs.count; i++) {
		const struct exec_note *x = &r->execs.list[i].note;
		if (exec_came(r, r->known, i))
			continue;
		struct launch_plan plan;
		struct heft_error why = {0};
		char text[1536];
		const char *reason =
			r->command.attached
				? "heft follows the forks of an attached program, not what they "
				  "execute"
				: "it did not load heft's library (was its environment cleared?)";
		if (r->o->holder && !launch_inspect(x->path, LAUNCH_VIA_AUTO, &plan, &why) &&
		    plan.way == LAUNCH_ENTRY) {
			snprintf(why.message, sizeof why.message,
				 "it %s, and got no hooks: 'heft doctor %s' says why, or heft was "
				 "too slow for it on a busy machine",
				 plan.why, x->path);
			reason = why.message;
		} else if (launch_inspect(x->path, LAUNCH_VIA_PRELOAD, &plan, &why))
			reason = why.message;
		snprintf(text, sizeof text, "process %d executed %s and was not recorded: %s",
			 x->pid, x->path, reason);
		char *line = strchr(text, '\n');
		if (line)
			*line = 0;
		recorder_note(r, TRACE_NOTE_UNFOLLOWED, r->execs.list[i].process, text);
	}
}

void recorder_note_absent_command(struct recorder *r)
{
	int status = r->result->status;
	bool known = !r->command.attached || r->command.status_known;
	if (r->command.found)
		return;
	struct trace_process p = {
		.pid = r->command.pid,
		.ppid = r->command.attached ? 0 : getpid(),
		.exe = r->command.path,
		.argv = r->command.argv,
		.argc = r->command.argc,
		.end_ns = r->command.end_ns,
		.end = !r->command.ended     ? TRACE_END_DETACHED
		       : !known              ? TRACE_END_UNKNOWN
		       : WIFSIGNALED(status) ? TRACE_END_SIGNAL
					     : TRACE_END_EXIT,
		.exit_status = known && WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.signal = known && WIFSIGNALED(status) ? WTERMSIG(status) : 0,
	};
	trace_writer_process(r->writer, &p);
	trace_writer_process_end(r->writer, r->process_count, &p);
	recorder_note(
		r, TRACE_NOTE_UNFOLLOWED, r->process_count,
		r->command.attached
			? "nothing was recorded: the program allocated and freed nothing "
			  "while heft was attached, or wrote over the memory it shares with heft"
			: "the command was not recorded: it ended before heft's library was "
			  "loaded, or wrote over the memory it shares with heft");
}
