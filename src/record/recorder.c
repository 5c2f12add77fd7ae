/* The recorder's loop: launch the command, find the processes of the session,
 * drain them, see them end, close the file.
 *
 * It sleeps between rounds and takes whole batches: a consumer that is always
 * there fights the program for its cache lines. Rounds are about a millisecond
 * apart while there is much to read, more when there is little.
 *
 * The program's fate is not ours: if the disk is full or memory runs out, the
 * draining goes on so that no thread waits, and the user is told at the end.
 *
 * A program that heft is attached to is recorded in the same loop (recorder_attach.c). */
#include "record/recorder_parts.h"

#include "agent/answer_call.h"
#include "hosted/monotonic.h"
#include "hosted/number_words.h"
#include "session/session_guard.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ROUND_MIN_US = 700,
	ROUND_QUIET_US = 5000,
	ROUND_MAX_US = 20000,
	ROUND_EVENTS = 8000,  /* as many make a round worth its while */
	BUSY_EVENTS = 150000, /* a round this full is followed by the next one at once */
	RSS_EVERY_MS = 10,
	RSS_YOUNG_MS = 30, /* a process that is younger is looked at in every round */
	FLUSH_EVERY_MS = 1000,
	CHECKPOINT_EVERY_MS = 10000,
	CHECKPOINT_EVENTS = 4 << 20,
	PEAK_EVERY_MS = 50, /* sampled processes: how often to look for a new maximum, */
	PEAK_AGE_PARTS =
		16, /* and of young ones, which may end soon: so often in their life so far */
	SAMPLES_EVERY_MS = 2000,    /* and to write down what they have, */
	SAMPLES_SELDOM_MS = 300000, /* less often as time goes by: each time it is all of it */
	LATE_CHILD_MS = 300,        /* a child that was forked but has not come yet is waited for */
	CALLS_EVERY_MS = 20,        /* heft_pprof_dump: how often to look */
	BUDGET_EVERY_MS = 1000,     /* sampled processes: what it costs, and a better rate */
	LIMIT_PIECES = 16,
	BEHIND_BYTES = 64 << 20, /* of the recording may wait for the disk, */
	BEHIND_MS = 900, /* for so long: programs give up after a second without a free buffer */
	LAST_BLOCK_BYTES =
		2, /* in the recording, of the end of a block that is never freed, as measured */
};

/* It ends with its last process. One that was never found ended when we noticed. */
static uint64_t end_of_recording(const struct recorder *r)
{
	uint64_t end = r->command.found ? r->last_end_ns : r->command.end_ns;
	if (!r->command.ended || r->stop)
		end = drain_now_ns(&r->drain);
	if (r->full)
		end = r->full_ns;
	return end > r->drain.last_ns ? end : r->drain.last_ns;
}

/* What is known of processes and of the whole only when recording ends. */
static void write_last(struct recorder *r)
{
	recorder_leave(r);
	sampled_sum_write(&r->sum, &r->samples_to, r->set->list, r->set->count);
	recorder_note_absent_command(r);
	recorder_note_unfollowed(r);
	drain_flush(&r->drain);
}

/* Would the recording have its size if it ended now? What waits to be written has no length before it is
 * compressed, and the tables at the end grow, too: so it is written and measured, each time that half of
 * what was left has come to it. */
static bool is_full(struct recorder *r)
{
	uint64_t limit = r->o->limit_bytes;
	if (!limit || r->full ||
	    trace_writer_bytes(r->writer) + trace_writer_waiting_bytes(r->writer) <
		    r->due.size_bytes)
		return false;
	trace_writer_flush(r->writer);
	uint64_t bytes = trace_writer_bytes(r->writer) +
			 trace_writer_end_bytes(r->writer, &r->drain.tally) +
			 r->drain.tally.live_blocks * LAST_BLOCK_BYTES;
	uint64_t left = bytes < limit ? limit - bytes : 0;
	r->due.size_bytes = trace_writer_bytes(r->writer) + (left > 1024 ? left / 2 : left);
	return !left;
}

/* The recording ends, the program goes on, and its status is still waited for. */
static void end_early(struct recorder *r, const char *why)
{
	char text[300];
	r->full = true;
	r->full_ns = drain_now_ns(&r->drain);
	snprintf(text, sizeof text, "%s at %.3f s: later events are missing", why,
		 (double)r->full_ns / 1e9);
	recorder_note(r, TRACE_NOTE_LOST, TRACE_NONE, text);
	write_last(r);
	trace_writer_end(r->writer, end_of_recording(r), &r->drain.tally);
	if (r->o->say)
		r->o->say(text);
}

static void heed_limit(struct recorder *r)
{
	char text[200], limit[NUMBER_WORDS];
	if (!is_full(r))
		return;
	number_bytes(limit, r->o->limit_bytes, "byte", "bytes");
	snprintf(text, sizeof text, "the recording reached its limit of %s (--limit-size)", limit);
	end_early(r, text);
}

static bool somebody_runs(const struct recorder *r)
{
	bool runs = !r->command.ended;
	for (uint32_t i = 0; i < r->set->count && !runs; i++)
		runs = !r->set->list[i]->ended;
	return runs;
}

/* Whether there is room for what a round brings. A disk that is slow for a moment is waited for: nothing is
 * drained, and programs that fill their buffers wait, too. A second of that is enough.
 * If no program runs any more, nobody waits but the user, who can press Ctrl-C. */
static bool has_room(struct recorder *r)
{
	uint64_t now = drain_now_ns(&r->drain);
	if (r->full || trace_writer_behind_bytes(r->writer) < BEHIND_BYTES) {
		r->due.room_ns = 0;
		return true;
	}
	if (!r->due.room_ns || !somebody_runs(r))
		r->due.room_ns = now + BEHIND_MS * 1000000ull;
	if (now < r->due.room_ns)
		return false;
	end_early(r, "the disk was too slow for the recording, which ended");
	return true;
}

/* ---- now and then */

static void sample_rss(struct recorder *r, uint64_t now)
{
	if (now < r->due.rss_ns)
		return;
	/* Often at first, when most programs do all they do; rarer with many processes. */
	uint64_t every = (uint64_t)RSS_EVERY_MS * 1000000ull;
	if (now > 10000000000ull)
		every *= 10;
	uint32_t alive = 0;
	bool young = false;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->ended)
			continue;
		uint64_t since = now > p->entry.facts.start_ns ? now - p->entry.facts.start_ns : 0;
		struct trace_rss s = {now, p->index,
				      process_read_rss(p, since, recorded(p)->reorder.live_bytes)};
		if (!s.rss_bytes)
			continue;
		alive++;
		young |= since < RSS_YOUNG_MS * 1000000ull;
		trace_writer_rss(r->writer, &s, 1);
		if (!process_leaving_tsc(p)) /* else it may be another program by now */
			recorder_look_for_allocator(r, p, since);
	}
	/* One that ends after 15 ms may have mapped all its memory meanwhile. */
	r->due.rss_ns = now + (young ? 1000000ull : every) * (1 + alive / 16);
}

static void refresh_names(struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		for (uint32_t k = 0; k < p->view.slots && !recorded(p)->done && !p->view.corrupt;
		     k++) {
			struct stream *s = &p->view.streams[k];
			const char *name = p->view.session.streams[k].name;
			if (!s->active || s->thread.number == TRACE_NONE ||
			    !memcmp(name, s->name, 16))
				continue;
			memcpy(s->name, name, 16);
			char text[17] = {0};
			memcpy(text, s->name, 16);
			trace_writer_thread_name(r->writer, s->thread.number, text);
		}
	}
}

static void answer_calls(struct recorder *r, uint64_t now)
{
	if (recorder_answer_questions(r))
		r->due.call_ns = now; /* it takes several steps */
	if (!r->o->answer || now < r->due.call_ns)
		return;
	r->due.call_ns = now + CALLS_EVERY_MS * 1000000ull;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->view.sampled && !p->ended)
			answer_call(p, r->o->answer, r->o->answer_ctx);
	}
}

/* A tenth of the time so far, so that the recording of a service does not grow with its days. */
static uint64_t samples_pause_ns(uint64_t now)
{
	uint64_t pause = now / 10;
	if (pause < SAMPLES_EVERY_MS * 1000000ull)
		return SAMPLES_EVERY_MS * 1000000ull;
	return pause < SAMPLES_SELDOM_MS * 1000000ull ? pause : SAMPLES_SELDOM_MS * 1000000ull;
}

static uint64_t peak_pause_ns(const struct recorder *r, uint64_t now)
{
	uint64_t pause = PEAK_EVERY_MS * 1000000ull;
	for (uint32_t i = 0; i < r->set->count; i++) {
		const struct process *p = r->set->list[i];
		uint64_t start = p->entry.facts.start_ns, age = now > start ? now - start : 0;
		if (p->view.sampled && !p->ended && age / PEAK_AGE_PARTS < pause)
			pause = age / PEAK_AGE_PARTS;
	}
	return pause > 1000000 ? pause : 1000000;
}

static void look_at_processes(struct recorder *r, uint64_t now)
{
	if (now < r->due.peak_ns)
		return;
	sampled_sum_look(&r->sum, r->set->list, r->set->count);
	r->due.peak_ns = now + peak_pause_ns(r, now);
	bool write = now >= r->due.samples_ns, budget = now >= r->due.budget_ns;
	if (write)
		r->due.samples_ns = now + samples_pause_ns(now);
	if (budget)
		r->due.budget_ns = now + BUDGET_EVERY_MS * 1000000ull;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (recorded(p)->done || p->view.corrupt)
			continue;
		if (!p->view.sampled) {
			recorder_show_exact(p);
			continue;
		}
		if (budget && !p->ended)
			sampled_follow_budget(p);
		if (write) /* so that it is there even if we are killed */
			sampled_write(&r->samples_to, p, &p->stacks, p->index, now);
	}
	if (write)
		sampled_sum_write(&r->sum, &r->samples_to, r->set->list, r->set->count);
}

static void now_and_then(struct recorder *r)
{
	uint64_t now = drain_now_ns(&r->drain);
	sample_rss(r, now);
	look_at_processes(r, now);
	answer_calls(r, now);
	refresh_names(r);
	if (now >= r->due.checkpoint_ns &&
	    r->drain.event_total - r->due.after_events >= CHECKPOINT_EVENTS) {
		trace_writer_checkpoint(r->writer, r->drain.last_ns, &r->drain.tally);
		r->due.after_events = r->drain.event_total;
		r->due.checkpoint_ns = now + CHECKPOINT_EVERY_MS * 1000000ull;
	} else if (now >= r->due.flush_ns) {
		for (uint32_t i = 0; i < r->set->count; i++)
			if (!recorded(r->set->list[i])->done)
				recorder_write_memory(r, r->set->list[i]);
		trace_writer_flush(r->writer);
	} else
		return;
	r->due.flush_ns = now + FLUSH_EVERY_MS * 1000000ull;
}

static void take_signals(struct recorder *r)
{
	struct signalfd_siginfo s;
	while (read(r->signals, &s, sizeof s) == sizeof s) {
		int sig = (int)s.ssi_signo;
		if (sig == SIGCHLD)
			r->child_signal = true;
		if (sig == SIGCHLD || sig == SIGXFSZ)
			continue;
		/* A program that we did not start is not ours to end: heft goes, it stays. */
		if (r->command.ended || r->command.attached) {
			r->stop = true;
			continue;
		}
		r->asked.signal = sig;
		r->asked.ns = drain_now_ns(&r->drain);
		if (s.ssi_code == SI_USER || s.ssi_code == SI_QUEUE || sig == SIGTERM ||
		    sig == SIGHUP)
			kill(r->command.pid,
			     sig); /* the terminal's own reach the program without us */
	}
}

static void say_disk(struct recorder *r)
{
	char text[512];
	snprintf(text, sizeof text,
		 "the session directory %s is on a disk, not in memory (tmpfs): each process takes "
		 "some 20 ms longer to start and to end. Set HEFT_DIR to a tmpfs such as /dev/shm "
		 "to avoid that.",
		 r->dir.path);
	if (r->o->say)
		r->o->say(text);
}

static void say_daemons(struct recorder *r)
{
	char text[512];
	uint32_t alive = 0;
	int32_t pid = 0;
	for (uint32_t i = 0; i < r->set->count; i++)
		if (!r->set->list[i]->ended) {
			alive++;
			pid = r->set->list[i]->pid;
		}
	r->told.daemons = true;
	if (!r->o->say || !alive)
		return;
	snprintf(text, sizeof text,
		 "%s has ended; recording goes on for %u process%s it left behind (pid %d%s). "
		 "Ctrl-C ends the recording.",
		 r->command.argv[0], alive, alive == 1 ? "" : "es", pid, alive == 1 ? "" : " ...");
	r->o->say(text);
}

/* ---- the end */

static void finish(struct recorder *r)
{
	struct drain *d = &r->drain;
	if (!r->full)
		write_last(r);
	recorder_note_ledgers(r);
	r->result->events = d->event_total;
	r->result->processes = r->process_count;
	trace_writer_close(r->writer, end_of_recording(r), &d->tally, &r->result->problem);
	d->tally.behaviour = NULL;
	r->result->tally = d->tally;
	tally_init(&d->tally);
	if (d->out.failed && !r->result->problem.code)
		heft_fail(&r->result->problem, HEFT_ENOMEM,
			  "out of memory: the recording ends early");
}

void recorder_result_fini(struct recorder_result *result)
{
	tally_fini(&result->tally);
}

/* A busy program may write more in a round than a small recording holds: with --limit-size a round is taken
 * in pieces of equal time, and the size is looked at after each. */
static uint64_t drain_up_to(struct recorder *r, uint64_t round, uint64_t limit)
{
	uint64_t events = 0, since = r->last_round < round ? round - r->last_round : 0;
	for (uint64_t i = 1; i < LIMIT_PIECES && r->o->limit_bytes && !r->full; i++) {
		uint64_t piece = round - since + since / LIMIT_PIECES * i;
		events += drain_round(&r->drain, r->set->list, r->set->count, round,
				      piece < limit ? piece : limit);
		heed_limit(r);
	}
	r->last_round = round;
	if (r->full)
		return events;
	return events + drain_round(&r->drain, r->set->list, r->set->count, round, limit);
}

static void loop(struct recorder *r)
{
	uint32_t sleep_us = ROUND_MIN_US;
	for (;;) {
		/* The stamp first: then who is there, who has ended, and what they have published. */
		uint64_t round = drain_begin(&r->drain);
		uint64_t limit = recorder_find_processes(r);
		while (recorder_find_gone(r)) {
			r->rescan = true;
			uint64_t again = recorder_find_processes(r);
			limit = again < limit ? again : limit;
		}
		recorder_see_ends(r, round);
		recorder_look_for_holds(r);
		if (!has_room(r)) {
			take_signals(r);
			if (r->stop)
				return;
			recorder_sleep(r, ROUND_MIN_US * 1000ull);
			continue;
		}
		uint64_t leaving = recorder_leaving_limit(r, round);
		limit = leaving < limit ? leaving : limit;
		uint64_t events = drain_up_to(r, round, limit);
		bool awaited_ledger = recorder_look_for_ledgers(r);
		now_and_then(r);
		heed_limit(r);
		bool running = recorder_close_ended(r);
		running |= recorder_holds_start(r);
		uint64_t now = drain_now_ns(&r->drain);
		if (running || !r->command.ended)
			r->last_alive_ns = now;
		take_signals(r);
		r->stop |= r->full && r->command.attached; /* nothing is recorded any more */
		if (r->stop)
			return;
		bool awaited = r->rescan || recorder_children_missing(r);
		if (r->command.ended && !running &&
		    (!awaited || now - r->last_alive_ns > LATE_CHILD_MS * 1000000ull))
			return;
		if (r->command.ended && running && !r->told.daemons &&
		    now - r->command.end_ns > LATE_CHILD_MS * 1000000ull)
			say_daemons(r);
		if (events >= BUSY_EVENTS || r->child_signal || awaited_ledger) {
			r->child_signal = false;
			continue;
		}
		/* A busy program is drained while its records are still in the cache; one that allocates
		 * now and then is not to be disturbed for a handful of them. */
		if (events > ROUND_EVENTS)
			sleep_us = ROUND_MIN_US;
		else if (sleep_us < (events ? ROUND_QUIET_US : ROUND_MAX_US))
			sleep_us += sleep_us / 2;
		uint64_t wait_ns = sleep_us * 1000ull;
		if (r->due.peak_ns < now + wait_ns)
			wait_ns = r->due.peak_ns > now ? r->due.peak_ns - now : 100000;
		recorder_sleep(r, wait_ns);
	}
}

/* What was recorded can still be asked for, until the time is over or the user has enough. */
static void linger(struct recorder *r)
{
	uint64_t until = monotonic_ns() + r->o->linger_ns;
	if (r->command.attached)
		r->stop = false; /* the first Ctrl-C ended the recording, the next one ends this */
	if (!r->o->linger_ns || r->stop)
		return;
	if (r->o->ended)
		r->o->ended(r->o->ready_ctx, r->result);
	while (!r->stop) {
		uint64_t now = monotonic_ns();
		if (now >= until)
			return;
		struct timespec left = {(time_t)((until - now) / 1000000000ull),
					(long)((until - now) % 1000000000ull)};
		struct pollfd signals = {.fd = r->signals, .events = POLLIN};
		ppoll(&signals, 1, &left, NULL);
		take_signals(r);
	}
}

int recorder_run(const struct recorder_options *o, struct recorder_result *result,
		 struct heft_error *err)
{
	struct recorder *r = calloc(1, sizeof *r);
	memset(result, 0, sizeof *result);
	if (!r)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	r->o = o;
	r->result = result;
	r->dir.fd = r->books.bell = -1;
	r->set = o->set ? o->set : &r->own_set;
	process_set_init(&r->own_set);
	sigset_t mine, before;
	sigemptyset(&mine);
	const int watched[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
		sigaddset(&mine, watched[i]);
	/* A file size limit is an error of write(2) to us. Blocked, not ignored: that the program would
	 * inherit. */
	sigaddset(&mine, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &mine, &before);
	prctl(PR_SET_TIMERSLACK, 50000ul);
	session_guard_install();
	int rc = session_dir_make(&r->dir, err);
	if (!rc && r->dir.on_disk)
		say_disk(r);
	if (!rc) {
		recorder_offer_holds(r);
		recorder_offer_ledgers(r);
		r->signals = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
		r->deaths = epoll_create1(EPOLL_CLOEXEC);
		rc = o->ready ? o->ready(o->ready_ctx, err) : 0;
		if (!rc)
			rc = o->attach ? recorder_attach(r, err) : recorder_launch(r, &before, err);
		if (!rc) {
			process_set_start_heartbeat(r->set, &r->drain.steps);
			loop(r);
			if (o->attach)
				recorder_detach(r);
			finish(r);
			if (o->entry)
				o->entry->end(o->entry->ctx);
			recorder_end_holds(r);
			process_set_stop_heartbeat(r->set);
			drain_fini(&r->drain);
			linger(r);
		}
		close(r->signals);
		if (r->deaths >= 0)
			close(r->deaths);
		if (r->books.bell >= 0)
			close(r->books.bell);
		session_dir_remove(&r->dir);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	process_set_fini(&r->own_set);
	recorder_attach_fini(r);
	for (uint32_t i = 0; i < r->execs.count; i++)
		free(r->execs.list[i].note.path);
	free(r->execs.list);
	free(r->known);
	sampled_sum_fini(&r->sum);
	recorder_questions_fini(r);
	free(r);
	return rc;
}
