/* Ends of processes. How a process ended is learned from its pidfd; what it had is written by its worker, into a file
 * that the supervisor opened and then names. Ended processes stay for a while, served from their recordings. */
#include "agent/supervisor.h"

#include "hosted/monotonic.h"
#include "hosted/number_words.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define STATUS_PATIENCE_NS (2000 * MS) /* for a parent to wait for its child */
#define RETRY_SAVE_NS (60000 * MS)

enum {
	SAVE_MOST = 8,  /* that one worker writes at a time */
	SAVE_TRIES = 3, /* workers that may end over it */
};

static void be_done(struct supervisor *a, struct supervised *c)
{
	c->saving = false;
	c->saved = true;
	if (c->saving_fd >= 0)
		close(c->saving_fd);
	c->saving_fd = -1;
	session_dir_drop(&a->dir, c->named_pid, c->start_tsc);
}

static void try_again(struct supervisor *a, struct supervised *c, const char *why)
{
	if (c->saving_fd >= 0)
		close(c->saving_fd);
	c->saving_fd = -1;
	c->saving = false;
	recordings_undo(&a->recordings, c->key);
	if (!c->retry_mono_ns)
		supervisor_say(a, "process %d (%s) cannot be saved: %s", c->pid, c->name, why);
	c->retry_mono_ns = monotonic_ns() + RETRY_SAVE_NS;
}

static void begin_to_save(struct supervisor *a, struct supervised *c)
{
	const struct link_message m = {.kind = LINK_SAVE, .key = c->key};
	struct heft_error err;
	recordings_undo(&a->recordings, c->key);
	c->saving_fd = recordings_begin(&a->recordings, c->key);
	int copy = c->saving_fd < 0 ? -1 : dup(c->saving_fd);
	if (copy < 0) {
		heft_fail_errno(&err, "cannot write into %s", a->o->output_dir);
		try_again(a, c, err.message);
		return;
	}
	c->saving = true;
	c->seat->saving++;
	link_send(&c->seat->link, &m, &copy, 1);
}

/* Tells its worker how it ended, and to save it. */
static void see_end(struct supervisor *a, struct supervised *c, uint64_t now)
{
	if (!c->end_known && !supervised_learn_end(c, now > c->ended_mono_ns + STATUS_PATIENCE_NS))
		return;
	if (now < c->retry_mono_ns || c->saving || !c->told || c->told != c->seat->number)
		return;
	if (c->seat->saving >= SAVE_MOST)
		return;
	const struct link_message m = {.kind = LINK_END,
				       .key = c->key,
				       .end = c->end.end,
				       .exit_status = c->end.exit_status,
				       .signal = c->end.signal,
				       .end_ns = c->end.end_ns,
				       .limit_bytes = c->limit_bytes,
				       .limit_is_cgroup = c->limit_is_cgroup};
	link_send(&c->seat->link, &m, NULL, 0);
	begin_to_save(a, c);
}

void supervisor_see_ends(struct supervisor *a, uint64_t now)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (!a->list[i]->running && !a->list[i]->saved)
			see_end(a, a->list[i], now);
}

void supervisor_lose_saving(struct supervisor *a, struct supervised *c)
{
	if (c->saving_fd >= 0)
		close(c->saving_fd);
	c->saving_fd = -1;
	c->saving = false;
	recordings_undo(&a->recordings, c->key);
	if (++c->tries < SAVE_TRIES)
		return;
	supervisor_say(a, "process %d (%s) is not saved: %d workers have ended over it", c->pid,
		       c->name, SAVE_TRIES);
	c->empty = true;
	be_done(a, c);
}

static void make_room(struct supervisor *a, uid_t uid)
{
	uint64_t bytes;
	uint32_t removed = recordings_make_room(&a->recordings, uid, &bytes);
	struct words had = words_bytes(bytes), most = words_bytes(a->recordings.quota_bytes);
	if (removed)
		supervisor_say(a,
			       "user %u has more than %s of recordings in %s: the %u oldest (%s) "
			       "were removed",
			       uid, most.text, a->o->output_dir, removed, had.text);
}

void supervisor_recount(struct supervisor *a)
{
	recordings_recount(&a->recordings);
	for (size_t i = 0; i < a->recordings.grown.count; i++)
		make_room(a, a->recordings.grown.items[i]);
}

static void say_saved(struct supervisor *a, const struct supervised *c, const char *path)
{
	char how[200];
	const struct trace_process facts = {.end = c->end.end,
					    .exit_status = c->end.exit_status,
					    .signal = c->end.signal,
					    .memory_limit_bytes = c->limit_bytes,
					    .limit_is_cgroup = c->limit_is_cgroup};
	process_end_words(&facts, how, sizeof how);
	supervisor_say(a, "process %d (%s): %s; its last profile: %s", c->pid, c->name, how, path);
}

void supervisor_take_saved(struct supervisor *a, struct supervised *c, const struct link_message *m)
{
	struct heft_error err = {0};
	struct link_message keep = {
		.kind = LINK_KEEP, .key = c->key, .sums = m->sums, .blind = m->blind};
	char name[256];
	if (!c->saving)
		return;
	c->seat->saving -= c->seat->saving > 0;
	if (m->code) {
		char why[LINK_TEXT];
		snprintf(why, sizeof why, "%s", m->text);
		why[strcspn(why, "\n")] = 0;    /* what can be done about it is for who runs heft */
		for (char *at = why; *at; at++) /* what a worker says goes to a log */
			if (*at < ' ' || *at > '~')
				*at = '?';
		try_again(a, c, why);
		return;
	}
	int fd = -1;
	if (!m->sums.samples) {
		recordings_undo(&a->recordings, c->key);
		c->empty = !m->blind;
	} else if (recordings_finish(&a->recordings, c->key, c->saving_fd, c->file.uid, c->stem,
				     c->pid, name, sizeof name, &err)) {
		try_again(a, c, err.message);
		return;
	} else {
		snprintf(keep.text, sizeof keep.text, "%s/%s", a->o->output_dir, name);
		say_saved(a, c, keep.text);
		fd = dup(c->saving_fd);
		make_room(a, c->file.uid);
	}
	be_done(a, c);
	if (!c->empty)
		link_send(&c->seat->link, &keep, &fd, fd >= 0);
}

/* The user who has most of those that are kept. */
static uid_t who_keeps_most(const struct supervisor *a)
{
	uid_t who = 0;
	uint32_t most = 0;
	for (size_t i = 0; i < a->shares.count; i++) {
		uint32_t kept = 0;
		for (uint32_t k = 0; k < a->count; k++)
			kept += a->list[k]->saved && a->list[k]->file.uid == a->shares.items[i].uid;
		if (kept > most) {
			most = kept;
			who = a->shares.items[i].uid;
		}
	}
	return who;
}

/* Those that ended and were saved stay for a while. If there are too many, the first of the user who has most goes. */
void supervisor_drop_old(struct supervisor *a, uint64_t now)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < a->count;) {
		struct supervised *c = a->list[i];
		if (c->saved && (c->empty || now > c->ended_mono_ns + a->o->keep_ns)) {
			supervisor_drop(a, c);
			continue;
		}
		kept += c->saved;
		i++;
	}
	while (kept > a->o->keep_count) {
		uid_t who = who_keeps_most(a);
		struct supervised *first = NULL;
		for (uint32_t i = 0; i < a->count; i++) {
			struct supervised *c = a->list[i];
			if (c->saved && c->file.uid == who &&
			    (!first || c->ended_mono_ns < first->ended_mono_ns))
				first = c;
		}
		if (!first)
			return;
		supervisor_drop(a, first);
		kept--;
	}
}
