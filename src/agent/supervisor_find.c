/* Finding session files. Others may put anything into the directory at any rate: looking it through takes a part of the
 * time only, in slices, so that the loop comes round. What it takes to look at a file is its owner's time: who has spent
 * a slice waits, and the others' files are looked at meanwhile. Places are shared, too: one user may have half of those
 * that the others leave. Who comes when there is no place is refused, and the log says so;
 * its file stays, and it is taken as soon as there is one. */
#include "agent/supervisor.h"

#include "hosted/foreign_entry.h"
#include "hosted/monotonic.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define RESCAN_NS (1000 * MS) /* for files that were not ready */
#define SLICE_NS (20 * MS)    /* of a pass, without what users are charged for */
#define SPEND_NS (25 * MS)    /* for one user's files in one pass, or a part of its time */
#define DEAR_NS (2 * MS)      /* a look that takes longer is charged */
#define CHECK_EVERY_NS (10000 * MS)
#define LIMIT_EVERY_NS (60000 * MS)
#define UNSEEN_AGAIN_NS (60000 * MS)
#define ENDING_AGAIN_NS (500 * MS)
#define SLOW_AGAIN_NS (2000 * MS)
#define SAY_AGAIN_NS (60000 * MS)

enum {
	TAKE_MOST = 128, /* taken in one go, so that the loop comes round */
	SEARCH_MOST = 8, /* of one user's files searched for in vain in one pass */
	REST = 4,        /* how much longer than a slice that finds nothing the pause after it is */
	USER_REST = 9,   /* the same for one user's files */
	IMAGES_MOST = 4, /* of one process that are looked at when another one comes */
	ENDING_LOOKS = 4, /* a process that is just ending cannot be seen either: not for long */
	UNSEEN_KNOWN =
		4096, /* files whose process cannot be seen: remembered, not searched for again */
	SHARE_LEAST = 16,
};

/* What this process and its looker have done so far, in time of a processor: how busy others keep the machine is nobody's
 * fault here. A look that was given up counts as a whole. */
static uint64_t spent_ns(const struct supervisor *a)
{
	struct timespec t = {0};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec + a->looker.cost_ns;
}

/* ---- shares */

static struct share *share_of(struct supervisor *a, uid_t uid)
{
	for (size_t i = 0; i < a->shares.count; i++)
		if (a->shares.items[i].uid == uid)
			return &a->shares.items[i];
	struct share *s = vector_add(&a->shares);
	if (s)
		s->uid = uid;
	return s;
}

void supervisor_leave_share(struct supervisor *a, uid_t uid)
{
	struct share *s = share_of(a, uid);
	if (s && s->processes)
		s->processes--;
}

/* What a user has spent is not forgotten with its last process: it could start over at once. */
static void begin_shares(struct supervisor *a, uint64_t now)
{
	for (size_t i = 0; i < a->shares.count; i++) {
		struct share *s = &a->shares.items[i];
		s->spent_ns = s->taken = s->searches = 0;
		s->turn_ns = s->waited_ns;
		s->waited_ns = 0;
		bool said = s->said_ns && now - s->said_ns < SAY_AGAIN_NS;
		if (!s->processes && now >= s->again_ns && now >= s->look_ns && !said)
			a->shares.items[i--] = a->shares.items[--a->shares.count];
	}
}

static void end_shares(struct supervisor *a, uint64_t now)
{
	for (size_t i = 0; i < a->shares.count; i++) {
		struct share *s = &a->shares.items[i];
		uint64_t until = now + (s->taken ? 1 : USER_REST) * s->spent_ns;
		if (until > s->again_ns)
			s->again_ns = until;
	}
}

/* Whether it has no time left for now. A pass through thousands of files on a busy machine takes long: its time grows with
 * that. */
static bool has_spent(const struct supervisor *a, const struct share *s, uint64_t now)
{
	uint64_t part = (now - a->looking.begun_ns) / (1 + USER_REST);
	return now < s->again_ns || s->spent_ns > (part > SPEND_NS ? part : SPEND_NS);
}

/* Whether this file has to wait for another pass. Directories list the newest files first: the oldest would wait for ever
 * if newer ones always came before them. */
static bool must_wait(const struct supervisor *a, struct share *s, const struct stat *st)
{
	int64_t changed_ns = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec;
	if (s->turn_ns && changed_ns > s->turn_ns)
		return true;
	bool wait = has_spent(a, s, monotonic_ns());
	if (wait && changed_ns > s->waited_ns)
		s->waited_ns = changed_ns;
	return wait;
}

bool supervisor_was_replaced(struct supervisor *a, const struct supervised *c)
{
	struct share *s = share_of(a, c->file.uid);
	uint64_t begun = spent_ns(a);
	if (!s || monotonic_ns() < s->look_ns)
		return false;
	bool replaced = supervised_was_replaced(c, &a->looker);
	uint64_t took = spent_ns(a) - begun;
	if (took > DEAR_NS)
		s->look_ns = monotonic_ns() + USER_REST * took;
	return replaced;
}

/* Whether there is a place for one more process of this user. */
static bool has_place(struct supervisor *a, uid_t uid)
{
	struct share *s = share_of(a, uid);
	uint32_t own = s ? s->processes : 0, others = a->count - own;
	uint32_t most = uid == 0 || uid == geteuid() ? a->places - others
						     : (a->places - others) / 2;
	if (most < SHARE_LEAST)
		most = SHARE_LEAST;
	if (s && own < most && a->count < a->places)
		return true;
	uint64_t now = monotonic_ns();
	if (s && (!s->said_ns || now - s->said_ns > SAY_AGAIN_NS)) {
		supervisor_say(
			a,
			"there is no place for more processes of user %u: %u of %u are taken, "
			"%u of them by this user; the newest are not profiled",
			uid, a->count, a->places, own);
		s->said_ns = now;
	}
	return false;
}

/* ---- taking */

/* The same process again: it was replaced by exec. */
static void end_image_before(struct supervisor *a, const struct supervised *c)
{
	uint32_t looked = 0;
	for (uint32_t i = a->count; i-- > 0 && looked < IMAGES_MOST;) {
		struct supervised *b = a->list[i];
		if (b == c || !b->running || b->pid != c->pid)
			continue;
		looked++;
		if (!supervisor_was_replaced(a, b))
			continue; /* it was given another's file to map, or is seen to later */
		uint64_t start = b->start_mono_ns, end = c->start_mono_ns;
		supervised_ended_as(b, c->attached ? TRACE_END_DETACHED : TRACE_END_EXEC,
				    end > start ? end - start : 0);
		supervisor_end_process(a, b);
		supervisor_tell_front(a, b);
	}
}

static void say_no_worker(struct supervisor *a, uid_t uid)
{
	struct share *s = share_of(a, uid);
	uint64_t now = monotonic_ns();
	if (!s || (s->said_ns && now - s->said_ns <= SAY_AGAIN_NS))
		return;
	supervisor_say(a,
		       "there is no worker for programs of user %u: %u are there already, for as "
		       "many users; its programs are not profiled",
		       uid, a->workers.count);
	s->said_ns = now;
}

/* Takes c over. False: there is no place. */
static bool take(struct supervisor *a, struct supervised *c)
{
	const struct identity who = supervised_identity(c, &a->workers.others);
	struct share *share = share_of(a, c->file.uid);
	c->seat = workers_seat(&a->workers, &who);
	if (!c->seat || !share || !array_reserve(a->list, a->count, a->capacity, 1)) {
		if (!c->seat)
			say_no_worker(a, c->file.uid);
		supervised_free(c); /* its file stays, and another look will come */
		return false;
	}
	c->key = ++a->last_key;
	c->attached = attacher_origin(a, c);
	c->seat->processes++;
	share->processes++;
	a->list[a->count++] = c;
	if (c->running)
		end_image_before(a, c);
	if (a->o->verbose)
		supervisor_say(a, "process %d (%s): %s", c->pid, c->name,
			       c->running ? "found" : "ended before this agent looked");
	if (!c->running) {
		supervised_ended_as(c, TRACE_END_UNKNOWN, UINT64_MAX);
		supervisor_end_process(a, c);
	} else {
		uint64_t now = monotonic_ns();
		supervised_watch_memory(c);
		c->limit_mono_ns = now + LIMIT_EVERY_NS;
		c->check_mono_ns = now + CHECK_EVERY_NS;
		struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = c->key};
		epoll_ctl(a->epoll, EPOLL_CTL_ADD, c->pidfd, &event);
	}
	if (!supervisor_tell_worker(a, c))
		supervisor_drop(a, c);
	else if (c->told) /* else there is nobody yet who could answer for it */
		supervisor_tell_front(a, c);
	return true;
}

/* ---- looking */

/* How long ago the file was made or last changed its size: one that is not ready after a while will
 * never be. */
static bool is_young(const struct stat *st)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - st->st_ctim.tv_sec < 10;
}

static struct unseen *find_unseen(struct supervisor *a, int32_t named_pid, uint64_t start_tsc)
{
	uint32_t known = a->unseen_count < UNSEEN_KNOWN ? a->unseen_count : UNSEEN_KNOWN;
	for (uint32_t i = 0; i < known; i++)
		if (a->unseen[i].named_pid == named_pid && a->unseen[i].start_tsc == start_tsc)
			return &a->unseen[i];
	return NULL;
}

static void remember_unseen(struct supervisor *a, int32_t named_pid, uint64_t start_tsc,
			    const char *name, bool slow)
{
	struct unseen *u = find_unseen(a, named_pid, start_tsc);
	uint32_t looks = u ? u->looks + 1 : 1;
	bool ending = looks < ENDING_LOOKS;
	if (!u)
		u = &a->unseen[a->unseen_count++ % UNSEEN_KNOWN];
	/* Slow looks are charged, so they may be repeated sooner. */
	uint64_t wait = slow ? SLOW_AGAIN_NS : ending ? ENDING_AGAIN_NS : UNSEEN_AGAIN_NS;
	*u = (struct unseen){named_pid, start_tsc, monotonic_ns() + wait, looks};
	a->rescan = true;
	if (ending)
		return;
	if (slow && !a->said_slow)
		supervisor_say(a,
			       "%s/%s: its process takes too long to look at (mappings); it is not "
			       "profiled for now",
			       a->o->dir, name);
	a->said_slow |= slow;
	if (slow)
		return;
	if (!a->said_unseen)
		supervisor_say(a,
			       "%s/%s is in use by a process that cannot be seen from here\n"
			       "The agent has to share the pid namespace of the programs' host "
			       "(docs/always-on.md).",
			       a->o->dir, name);
	a->said_unseen = true;
}

static uint32_t hash_of(int32_t named_pid, uint64_t start_tsc)
{
	return hash_number(hash_mix((uint64_t)(uint32_t)named_pid, start_tsc));
}

static bool index_known(struct supervisor *a)
{
	hash_index_clear(&a->known);
	for (uint32_t i = 0; i < a->count; i++)
		if (hash_index_add(&a->known, hash_of(a->list[i]->named_pid, a->list[i]->start_tsc),
				   i))
			return false;
	return true;
}

static bool is_known(const struct supervisor *a, int32_t named_pid, uint64_t start_tsc)
{
	uint32_t hash = hash_of(named_pid, start_tsc), at = hash, i;
	while ((i = hash_index_step(&a->known, hash, &at)) != HASH_NONE)
		if (i < a->count && a->list[i]->named_pid == named_pid &&
		    a->list[i]->start_tsc == start_tsc)
			return true;
	return false;
}

static void look_at_ready_file(struct supervisor *a, const char *name, const struct stat *st,
			       struct share *s)
{
	struct supervised *c;
	int32_t pid;
	uint64_t start_tsc;
	if (!session_file_name(name, &pid, &start_tsc))
		return;
	struct unseen *u = find_unseen(a, pid, start_tsc);
	if (u && monotonic_ns() < u->again_ns) {
		a->rescan = true;
		return;
	}
	if (!has_place(a, st->st_uid)) {
		a->looking.refused++;
		a->rescan = true;
		return;
	}
	bool search = s->searches < SEARCH_MOST;
	const uint64_t given_up = a->looker.given_up;
	switch (supervised_open(&c, a->dir.fd, name, &a->looker, search)) {
	case SUPERVISED_TAKEN:
		s->taken++; /* take may move it */
		if (take(a, c))
			a->looking.taken++;
		else
			a->looking.refused++;
		a->rescan |= a->looking.refused > 0;
		break;
	case SUPERVISED_LATER: a->rescan |= is_young(st); break;
	case SUPERVISED_UNSEEN:
		if (search)
			remember_unseen(a, pid, start_tsc, name, a->looker.given_up > given_up);
		a->rescan = true;
		s->searches++;
		break;
	case SUPERVISED_NOTHING: break;
	}
}

static void look_at_file(struct supervisor *a, const char *name)
{
	struct stat st;
	int32_t pid;
	uint64_t start_tsc;
	if (!session_file_name(name, &pid, &start_tsc) || is_known(a, pid, start_tsc) ||
	    !foreign_entry_stat(a->dir.fd, name, &st) || !S_ISREG(st.st_mode))
		return;
	uint64_t begun = spent_ns(a);
	struct share *s = share_of(a, st.st_uid);
	if (!s || must_wait(a, s, &st)) {
		a->more |= s && s->taken;
		a->rescan = true;
		return;
	}
	look_at_ready_file(a, name, &st, s);
	uint64_t took = spent_ns(a) - begun;
	a->looking.charged_ns += took;
	s = share_of(a, st.st_uid);
	if (s)
		s->spent_ns += took;
}

static bool begin_pass(struct supervisor *a, uint64_t now)
{
	if (!a->unseen && !(a->unseen = calloc(UNSEEN_KNOWN, sizeof *a->unseen)))
		return false;
	int fd = openat(a->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream && fd >= 0)
		close(fd);
	a->rescan = false;
	a->more = !stream;
	a->looking = (struct looking){.stream = stream, .begun_ns = now};
	begin_shares(a, now);
	return stream;
}

static void end_pass(struct supervisor *a, uint64_t now)
{
	supervisor_stop_scan(a);
	end_shares(a, now);
	a->refused = a->looking.refused;
	if (a->looking.taken)
		session_dir_spares(&a->dir);
	a->scan_again_ns = now + RESCAN_NS;
}

/* A part of a pass. Returns whether something was taken. */
static bool scan_slice(struct supervisor *a, uint64_t begun)
{
	struct looking *l = &a->looking;
	uint32_t before = l->taken;
	bool all = false;
	l->charged_ns = 0;
	if (!index_known(a))
		return false;
	while (!all && l->taken - before < TAKE_MOST &&
	       spent_ns(a) - begun < SLICE_NS + l->charged_ns) {
		const struct dirent *e = readdir(l->stream);
		all = !e;
		if (e)
			look_at_file(a, e->d_name);
	}
	bool taken = l->taken != before;
	if (all)
		end_pass(a, monotonic_ns());
	return taken;
}

void supervisor_scan(struct supervisor *a)
{
	uint64_t now = monotonic_ns(), begun = spent_ns(a);
	a->more |= session_dir_changed(&a->dir);
	if (now < a->scan_not_before_ns ||
	    !(a->looking.stream || a->more || (a->rescan && now >= a->scan_again_ns)))
		return;
	if (!a->looking.stream && !begin_pass(a, now))
		return;
	bool taken = scan_slice(a, begun);
	/* A directory in which nothing is found gets a part of the time. */
	uint64_t took = spent_ns(a) - begun, charged = a->looking.charged_ns;
	a->scan_not_before_ns = monotonic_ns() +
				(taken ? 1 : REST) * (took > charged ? took - charged : 0);
}

void supervisor_stop_scan(struct supervisor *a)
{
	if (a->looking.stream)
		closedir(a->looking.stream);
	a->looking.stream = NULL;
}
