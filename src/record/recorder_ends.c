/* How the recorder sees processes end.
 *
 * A process is found gone some milliseconds after it went. What it had live must
 * not count until then: the sums over several processes would be of processes
 * that never ran together. So an end is put into the order of events, by what is
 * known of its moment, the best first:
 *
 *   - the process said that it leaves (exit, _exit, exec): the end is there, or after the last
 *     record that it made later;
 *   - its parent waited for it: a killed one ended before that;
 *   - its parent called system() or pclose(), and it began in that time: it ended before that returned;
 *   - it was seen to die, or found gone in this round: it ended before that;
 *
 * and never before a moment at which it was seen running, but for a short while after it said that it
 * leaves. Each of these lies
 * between the real end and whatever another process could do because of it, so
 * that a child's blocks are gone before its parent goes on.
 *
 * A closed process is forgotten after a while: thousands of them would cost every
 * round more. What is to be said of it at the end is kept. */
#include "record/recorder_parts.h"

#include "base/arch.h"
#include "hosted/monotonic.h"
#include "session/owner.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { REAP_PATIENCE = 20 }; /* looks */
/* Nothing that came after a process said that it leaves is read for so long, so that its end is not late. Who is
 * still there after that is a vfork child's parent, or takes long over its exit handlers. */
#define LEAVING_NS 50000000ull
/* Who exits so soon after a signal asked it to end does so because of it. We may read that signal a little after
 * the program has ended. */
#define ASKED_TO_END_NS 60000000000ull
#define ASKED_LATE_NS 1000000000ull
enum { CLOSED_KEPT = 64 }; /* for whoever asks about processes that have just ended */

/* Whoever of those that are watched has ended by now: when that was seen. */
static void take_deaths(struct recorder *r)
{
	struct epoll_event e[64];
	int n;
	do {
		n = r->deaths < 0 ? 0 : epoll_wait(r->deaths, e, 64, 0);
		uint64_t now = arch_stamp_after();
		for (int i = 0; i < n; i++)
			for (uint32_t k = 0; k < r->set->count; k++)
				if (r->set->list[k]->place.key == e[i].data.u64 &&
				    !recorded(r->set->list[k])->gone_tsc)
					recorded(r->set->list[k])->gone_tsc = now;
	} while (n == 64);
}

/* A death is only noted: what it means waits for the round that is due anyway. */
void recorder_sleep(struct recorder *r, uint64_t ns)
{
	uint64_t now = monotonic_ns(), until = now + ns;
	struct pollfd f[] = {{.fd = r->signals, .events = POLLIN},
			     {.fd = r->deaths, .events = POLLIN},
			     {.fd = r->books.bell, .events = POLLIN}};
	for (; now < until; now = monotonic_ns()) {
		struct timespec wait = {0, (long)(until - now)};
		if (ppoll(f, 3, &wait, NULL) <= 0 || f[0].revents || f[2].revents ||
		    !(f[1].revents & POLLIN))
			break;
		take_deaths(r);
	}
	recorder_hush_bell(r);
}

static bool has_ended(const struct process *p)
{
	if (recorded(p)->watched || recorded(p)->gone_tsc)
		return recorded(p)->gone_tsc;
	if (p->pidfd < 0)
		return !p->seen_pid || (kill(p->seen_pid, 0) && errno == ESRCH);
	struct pollfd f = {.fd = p->pidfd, .events = POLLIN};
	return poll(&f, 1, 0) > 0;
}

bool recorder_is_command(const struct recorder *r, const struct process *p)
{
	/* A program that was attached to may be in another namespace: we know its number here, unless it has
	 * executed another program before its file was found. */
	if (r->command.attached && p->seen_pid)
		return p->seen_pid == r->command.pid;
	return p->pid == r->command.pid;
}

static void reap_child(struct recorder *r)
{
	int status;
	struct rusage usage;
	if (r->command.attached) {
		recorder_attach_look(r);
		return;
	}
	if (r->command.ended || wait4(r->command.pid, &status, WNOHANG, &usage) != r->command.pid)
		return;
	r->command.ended = true;
	r->result->status = status;
	r->command.end_ns = drain_now_ns(&r->drain);
	r->command.maxrss_kib = (uint64_t)usage.ru_maxrss;
}

/* Somebody waited for a child only after we had found that it ended: its account comes late. */
static void take_late_account(struct recorder *r, const struct reaped_child *c)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (!p->closed || p->pid != c->pid || p->start_tsc > c->tsc ||
		    p->entry.facts.end == TRACE_END_EXEC)
			continue;
		uint64_t before = p->entry.facts.peak_rss_bytes;
		process_take_account(p, c->maxrss_kib);
		if (process_peak_rss(p) == before)
			continue;
		pthread_mutex_lock(&p->entry.lock);
		p->entry.facts.peak_rss_bytes = process_peak_rss(p);
		pthread_mutex_unlock(&p->entry.lock);
		trace_writer_process_end(r->writer, p->index, &p->entry.facts);
	}
}

/* In a namespace the number may be another's. */
static bool is_about(const struct reaped_child *c, const struct process *p)
{
	return p->pid == c->pid && p->entry.facts.ppid == c->parent && p->start_tsc < c->tsc &&
	       p->seen_pid == p->pid;
}

/* Its parent has waited for p: that may be before the kernel tells us. */
static void take_word(struct process *p, const struct reaped_child *c)
{
	if (!p->ended && !recorded(p)->gone_tsc && is_about(c, p))
		recorded(p)->gone_tsc = c->tsc;
}

/* c is a call of system() or pclose(), and p, which is no fork, began in that time. */
static bool is_command(const struct reaped_child *c, const struct process *p)
{
	return !c->pid && !p->child && c->parent == p->entry.facts.ppid &&
	       c->since_tsc < recorded(p)->first_tsc && recorded(p)->first_tsc < c->tsc;
}

static uint32_t kept_reaps(const struct recorder *r)
{
	return r->reap_count < RECORDER_REAPS ? r->reap_count : RECORDER_REAPS;
}

/* How p ended, from who waited for it: the first time after its start, for its number may be another's
 * after that. A command has no number: only if there is one process for one call. */
static bool told_status(const struct recorder *r, const struct process *p, int *status)
{
	const struct reaped_child *command = NULL;
	uint32_t commands = 0;
	for (uint32_t i = kept_reaps(r); i; i--) {
		const struct reaped_child *c = &r->reaps[(r->reap_count - i) % RECORDER_REAPS];
		if (!(c->status & WIRE_STATUS_KNOWN))
			continue;
		if (is_about(c, p)) {
			*status = (uint16_t)c->status;
			return true;
		}
		if (is_command(c, p)) {
			command = c;
			commands++;
		}
	}
	for (uint32_t i = 0; commands == 1 && i < r->set->count; i++) {
		const struct process *q = r->set->list[i];
		commands += q->pid != p->pid && is_command(command, q);
	}
	if (commands == 1)
		*status = (uint16_t)command->status;
	return commands == 1;
}

/* A program that catches the signal which asks it to end exits like one that was done. */
static void take_status(struct recorder *r, struct process *p, int status, uint64_t end_ns)
{
	struct trace_process *f = &p->entry.facts;
	process_ended_with(p, status, end_ns);
	if (f->end != TRACE_END_EXIT || !r->asked.signal || end_ns + ASKED_LATE_NS < r->asked.ns ||
	    end_ns > r->asked.ns + ASKED_TO_END_NS)
		return;
	pthread_mutex_lock(&p->entry.lock);
	f->signal = r->asked.signal;
	pthread_mutex_unlock(&p->entry.lock);
}

/* Somebody waited for a child, or said so, only after we had found that it ended. */
static void take_late_statuses(struct recorder *r)
{
	int status;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (!p->ended || p->entry.facts.end != TRACE_END_UNKNOWN ||
		    !told_status(r, p, &status))
			continue;
		take_status(r, p, status, p->entry.facts.end_ns);
		if (p->closed)
			trace_writer_process_end(r->writer, p->index, &p->entry.facts);
	}
}

/* From when on the child may have begun that was waited for at `tsc`. */
static uint64_t since_of(const struct wire_reap *w, uint64_t tsc)
{
	uint32_t span = atomic_load(&w->since);
	uint64_t cycles = (uint64_t)span << WIRE_SINCE_SHIFT;
	return span == UINT32_MAX || cycles > tsc ? 0 : tsc - cycles;
}

/* Takes over which children the processes have waited for. */
static void gather_reaps(struct recorder *r)
{
	const uint32_t before = r->reap_count;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		const struct wire_header *h = p->view.session.header;
		if (recorded(p)->done || p->view.corrupt)
			continue;
		uint32_t count = atomic_load(&h->reap_count);
		bool lost = count - recorded(p)->reaps_seen > WIRE_REAPS;
		if (lost)
			recorded(p)->reaps_seen = count - WIRE_REAPS;
		for (; recorded(p)->reaps_seen != count; recorded(p)->reaps_seen++) {
			const struct wire_reap *w = &h->reaps[recorded(p)->reaps_seen % WIRE_REAPS];
			uint64_t pid_number = atomic_load(&w->pid_number);
			uint32_t ahead = (uint32_t)(pid_number >> 32) -
					 (recorded(p)->reaps_seen + 1u);
			if (ahead && ahead < UINT32_MAX / 2) { /* written over while we read */
				lost = true;
				continue;
			}
			if (ahead) {
				/* Being written: the next look finds it, unless its thread was killed. */
				if (recorded(p)->reap_waits++ < REAP_PATIENCE)
					break;
				recorded(p)->reap_waits = 0;
				continue;
			}
			recorded(p)->reap_waits = 0;
			struct reaped_child *c = &r->reaps[r->reap_count++ % RECORDER_REAPS];
			*c = (struct reaped_child){
				(int32_t)pid_number,         p->pid,
				atomic_load(&w->maxrss_kib), atomic_load(&w->status),
				atomic_load(&w->tsc),        0};
			c->since_tsc = since_of(w, c->tsc);
			if (lost) /* the ones that were written over are older than this one */
				recorded(p)->reaps_lost_tsc = c->tsc;
			lost = false;
			p->kernel.has_children = true;
			for (uint32_t k = 0; k < r->set->count; k++)
				take_word(r->set->list[k], c);
			take_late_account(r, c);
		}
	}
	if (r->reap_count != before)
		take_late_statuses(r);
}

/* The last time that somebody waited for p; NULL: nobody has. */
static const struct reaped_child *reap_of(const struct recorder *r, const struct process *p)
{
	for (uint32_t i = 1; i <= kept_reaps(r); i++) {
		const struct reaped_child *c = &r->reaps[(r->reap_count - i) % RECORDER_REAPS];
		if (c->pid == p->pid && c->tsc > p->start_tsc)
			return c;
	}
	return NULL;
}

void recorder_watch(struct recorder *r, struct process *p)
{
	/* Once: nobody asks again after it has come. Closing the descriptor ends it. */
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = p->place.key};
	recorded(p)->watched = p->pidfd >= 0 && r->deaths >= 0 &&
			       !epoll_ctl(r->deaths, EPOLL_CTL_ADD, p->pidfd, &e);
	const struct reaped_child *c = reap_of(r, p);
	if (c)
		take_word(p, c);
}

/* Its parent called system() or popen() when it began: when that was over. The last such call is taken
 * where several threads made some at a time. 0: there was none. */
static uint64_t command_end(const struct recorder *r, const struct process *p)
{
	uint64_t end = 0;
	for (uint32_t i = 0; i < kept_reaps(r); i++) {
		const struct reaped_child *c = &r->reaps[i];
		if (is_command(c, p) && c->tsc > end)
			end = c->tsc;
	}
	return end;
}

/* Its parent waited for more children than it could write down before we looked: then for p as well, if
 * nobody has to any more. 0: it is not so. */
static uint64_t lost_end(const struct recorder *r, const struct process *p)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		const struct process *q = r->set->list[i];
		if (q->pid == p->entry.facts.ppid && recorded(q)->reaps_lost_tsc > p->start_tsc &&
		    kill(p->seen_pid, 0) && errno == ESRCH)
			return recorded(q)->reaps_lost_tsc;
	}
	return 0;
}

/* The end of a process that did not say that it leaves. */
static uint64_t end_of_killed(const struct recorder *r, const struct process *p,
			      const struct reaped_child *reap, uint64_t round)
{
	uint64_t seen = recorded(p)->gone_tsc && recorded(p)->gone_tsc < round
				? recorded(p)->gone_tsc
				: round;
	uint64_t end = reap ? reap->tsc : command_end(r, p);
	if (!end)
		end = lost_end(r, p);
	return end && end < seen ? end : seen;
}

/* p said that it leaves, and was still there shortly after: it takes a while to give its memory back. */
static bool is_on_its_way(const struct recorder *r, const struct process *p, uint64_t leaving,
			  uint64_t seen)
{
	return leaving && !p->view.corrupt &&
	       (seen < leaving || tsc_clock_ns(&r->drain.clock, seen - leaving) < LEAVING_NS);
}

uint64_t recorder_leaving_limit(const struct recorder *r, uint64_t round)
{
	uint64_t limit = UINT64_MAX;
	for (uint32_t i = 0; i < r->set->count; i++) {
		const struct process *p = r->set->list[i];
		uint64_t leaving = p->ended || recorded(p)->gone || p->view.sampled
					   ? 0
					   : process_leaving_tsc(p);
		if (leaving < limit && is_on_its_way(r, p, leaving, round))
			limit = leaving;
	}
	return limit;
}

static uint64_t end_of(const struct recorder *r, struct process *p, uint64_t round)
{
	const struct reaped_child *reap = reap_of(r, p);
	uint64_t end = process_leaving_tsc(p);
	bool believed = is_on_its_way(r, p, end, recorded(p)->alive_tsc);
	p->kernel.has_children |= !p->view.corrupt && atomic_load(&p->view.session.header->forks);
	if (!end)
		end = end_of_killed(r, p, reap, round);
	if (recorder_is_command(r, p) && !r->command.attached)
		process_take_account(p, r->command.maxrss_kib);
	else if (reap)
		process_take_account(p, reap->maxrss_kib);
	return end > recorded(p)->alive_tsc || believed ? end : recorded(p)->alive_tsc;
}

/* Nobody reads what it writes from now on. Should it run all the same (we cannot see every process), it
 * must not wait for us. */
static void switch_off(struct process *p)
{
	if (!p->view.sampled && !p->view.corrupt)
		atomic_store(&p->view.session.header->state, WIRE_OFF);
}

bool recorder_find_gone(struct recorder *r)
{
	bool found = false;
	reap_child(r);
	take_deaths(r);
	gather_reaps(r); /* before anything is read: who is dead for others is dead for us */
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->ended || recorded(p)->gone ||
		    (recorder_is_command(r, p) ? !r->command.ended : !has_ended(p)))
			continue;
		recorded(p)->gone = found = true;
	}
	return found;
}

void recorder_see_ends(struct recorder *r, uint64_t round)
{
	gather_reaps(r);
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		bool has_status = recorder_is_command(r, p) &&
				  (!r->command.attached || r->command.status_known);
		if (p->ended)
			continue;
		if (!recorded(p)->gone) {
			recorded(p)->alive_tsc = round;
			continue;
		}
		p->ended = true;
		switch_off(p);
		p->end_tsc = end_of(r, p, round);
		uint64_t end_ns = drain_stamp_ns(&r->drain, p->end_tsc);
		/* Another's child: its parent knows, and the kernel, for a while. */
		int status = r->result->status;
		if (has_status || told_status(r, p, &status) ||
		    (p->seen_pid && owner_exit_status(p->pidfd, p->seen_pid, &status)))
			take_status(r, p, status, end_ns);
		else
			process_ended_as(p, TRACE_END_UNKNOWN, end_ns);
	}
}

void recorder_see_exec(struct recorder *r, struct process *old, const struct process *new)
{
	uint64_t leaving = process_leaving_tsc(old);
	old->ended = true;
	switch_off(old);
	old->end_tsc = leaving && leaving < new->start_tsc ? leaving : new->start_tsc;
	process_ended_as(old, TRACE_END_EXEC, drain_stamp_ns(&r->drain, old->end_tsc));
}

void recorder_show_exact(struct process *p)
{
	const struct reorder *r = &recorded(p)->reorder;
	pthread_mutex_lock(&p->entry.lock);
	p->entry.shown = (struct process_shown){recorded(p)->done ? r->left_bytes : r->live_bytes,
						recorded(p)->done ? r->left_blocks : r->live_blocks,
						r->peak_bytes, r->peak_blocks};
	pthread_mutex_unlock(&p->entry.lock);
}

static void take_counts(struct process *p)
{
	struct trace_process *f = &p->entry.facts;
	const struct reorder *r = &recorded(p)->reorder;
	pthread_mutex_lock(&p->entry.lock);
	f->peak_bytes = r->peak_bytes;
	f->peak_blocks = r->peak_blocks;
	f->peak_time_ns = r->peak_time_ns;
	f->unknown_frees = r->unknown_frees;
	f->inherited_frees = r->inherited_frees + r->older_frees;
	pthread_mutex_unlock(&p->entry.lock);
}

/* What it executed is looked at when the recording ends. An exec that was under way when another thread
 * called exit, which no image after it would have done, had not happened and was not to. */
static void take_execs(struct recorder *r, struct process *p)
{
	uint32_t count = p->stacks.exec_count;
	uint64_t exits = p->view.corrupt ? 0 : atomic_load(&p->view.session.header->exit_tsc);
	struct known_exec *execs = reallocarray(r->execs.list, r->execs.count + count + 1u,
						sizeof *execs);
	if (!execs)
		return;
	r->execs.list = execs;
	for (uint32_t i = 0; i < count; i++) {
		struct exec_note *note = &p->stacks.execs[i];
		note->failed |= note->pid == p->pid && note->tsc < exits;
		execs[r->execs.count++] = (struct known_exec){*note, p->index};
	}
	p->stacks.exec_count = 0;
}

static void close_process(struct recorder *r, struct process *p)
{
	struct trace_process *f = &p->entry.facts;
	process_stacks_read_log(&r->drain.stacks, &p->stacks);
	take_counts(p);
	if (!recorded(p)->losses_counted)
		recorder_count_losses(r, p);
	recorder_note_losses(r, p);
	recorder_note_late_libraries(r, p);
	recorder_note_older_blocks(r, p);
	pthread_mutex_lock(&p->entry.lock);
	f->end_ns = drain_stamp_ns(&r->drain, p->end_tsc);
	f->peak_rss_bytes = process_peak_rss(p);
	f->peak_anonymous_bytes = p->entry.rss.anonymous_bytes;
	pthread_mutex_unlock(&p->entry.lock);
	if (f->end_ns > r->last_end_ns)
		r->last_end_ns = f->end_ns;
	if (p->view.sampled) {
		recorder_note_budget(r, p);
		sampled_write(&r->samples_to, p, &p->stacks, p->index, f->end_ns);
		sampled_sum_close(&r->sum, &r->samples_to, p);
		session_dir_drop(&r->dir, p->pid, p->start_tsc);
	} else
		recorder_show_exact(p);
	recorder_forget_question(r, p);
	recorder_write_memory(r, p);
	trace_writer_process_end(r->writer, p->index, f);
	take_execs(r, p);
	if (f->end != TRACE_END_DETACHED && !(r->o->keep_ended && p->view.sampled))
		session_view_drop_pages(&p->view);
	process_close_descriptors(p);
	p->closed = true;
}

/* A child that was forked has not come yet. */
static bool is_awaiting(const struct recorder *r, const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	return r->o->follow && !p->view.corrupt &&
	       atomic_load(&h->forks) > recorded(p)->children_seen + atomic_load(&h->lost_children);
}

bool recorder_children_missing(const struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count && !r->full; i++)
		if (is_awaiting(r, r->set->list[i]))
			return true;
	return false;
}

/* The oldest that are closed, but for some. */
static void forget_closed(struct recorder *r)
{
	uint32_t closed = 0;
	for (uint32_t i = 0; i < r->set->count; i++)
		closed += r->set->list[i]->closed;
	for (uint32_t i = 0; i < r->set->count && closed > CLOSED_KEPT;) {
		struct process *p = r->set->list[i];
		if (!p->closed || is_awaiting(r, p) || (r->o->keep_ended && p->view.sampled)) {
			i++;
			continue;
		}
		process_set_remove(r->set, p);
		closed--;
	}
}

/* What sampled processes had together is looked at while the memory of those that ended is there. */
static void look_before_closing(struct recorder *r)
{
	bool ended = false;
	for (uint32_t i = 0; i < r->set->count; i++)
		ended |= r->set->list[i]->view.sampled && recorded(r->set->list[i])->done &&
			 !r->set->list[i]->closed;
	if (ended)
		sampled_sum_look(&r->sum, r->set->list, r->set->count);
}

bool recorder_close_ended(struct recorder *r)
{
	bool running = false, closed = false;
	look_before_closing(r);
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->closed)
			continue;
		if (recorded(p)->done) {
			close_process(r, p);
			closed = true;
		} else
			running = true;
	}
	if (closed)
		forget_closed(r);
	return running;
}

void recorder_switch_off(struct recorder *r, struct process *p)
{
	if (recorded(p)->losses_counted)
		return;
	recorder_count_losses(r, p);
	recorded(p)->losses_counted = true;
	atomic_store(&p->view.session.header->state, WIRE_OFF);
}

void recorder_leave(struct recorder *r)
{
	sampled_sum_look(&r->sum, r->set->list, r->set->count);
	uint64_t now = arch_stamp();
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->closed)
			continue;
		if (!p->ended) {
			p->ended = true;
			p->end_tsc = now;
			process_ended_as(p, TRACE_END_DETACHED, drain_stamp_ns(&r->drain, now));
			recorder_switch_off(r, p);
		}
		if (!recorded(p)->done)
			drain_process_end(&r->drain, p);
		close_process(r, p);
	}
}
