/* Finds the processes of a recording: their session files come into the session directory, and each becomes
 * a process of the recorder, with its place among its parents and earlier images.
 *
 * Invariant: processes are added in the order in which they began, so a parent comes before its child. */
#include "record/recorder_parts.h"

#include "hosted/program_name.h"
#include "hosted/vector.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	FOUND_AT_ONCE = 256,
	UNREADY_MS = 200, /* how long a process may take to make its file */
};

/* Gives p its place in the recording; false: no memory. */
static bool keep_known(struct recorder *r, struct process *p)
{
	if (!array_reserve(r->known, r->process_count, r->known_capacity, 1))
		return false;
	p->index = r->process_count++;
	r->known[p->index] = (struct known_process){p->pid, p->child, p->index, p->start_tsc};
	return true;
}

static void add_process(struct recorder *r, struct process *p)
{
	if (r->full) {
		atomic_store(&p->view.session.header->state, WIRE_OFF);
		process_free(p);
		return;
	}
	struct process_parent parent = {0};
	if (p->entry.facts.ppid == getpid())
		parent = (struct process_parent){getpid(), true};
	recorded(p)->first_tsc = p->start_tsc;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *q = r->set->list[i];
		if (q->pid != p->entry.facts.ppid)
			continue;
		q->kernel.has_children = true;
		recorded(q)->children_seen += p->child;
		parent = (struct process_parent){q->seen_pid, q->seen_pid == q->pid};
	}
	if (!recorder_attach_owns(r, p))
		process_find(p, &parent);
	/* The same pid again: the image before has been replaced by exec. In another namespace it is another
	 * process. */
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *q = r->set->list[i];
		if (q->pid != p->pid || (q->seen_pid != p->seen_pid && p->seen_pid))
			continue;
		p->kernel.has_children |= q->kernel.has_children; /* the kernel's account goes on */
		if (!q->ended && (p->seen_pid || process_leaving_tsc(q))) {
			recorder_see_exec(r, q, p);
			recorded(p)->first_tsc = recorded(q)->first_tsc;
		}
	}
	if (!keep_known(r, p)) {
		process_free(p);
		return;
	}
	recorded(p)->direct = recorder_is_command(r, p);
	/* It allocated before heft came. A child of it has blocks that it inherited: that is the same. */
	p->attached = r->command.attached && recorded(p)->direct && !p->child;
	recorded(p)->reorder.is_attached = p->attached;
	r->command.found |= recorded(p)->direct;
	/* It may have gone into a cgroup of its own before it called exec. */
	if (recorded(p)->direct)
		process_watch_memory(p);
	p->entry.facts.start_ns = drain_stamp_ns(&r->drain, p->start_tsc);
	if (process_set_add(r->set, p)) {
		r->process_count--;
		process_free(p);
		return;
	}
	recorder_watch(r, p);
	trace_writer_process(r->writer, &p->entry.facts);
	if (p->attached && r->o->attach->before && r->o->attach->before[0])
		recorder_note(r, TRACE_NOTE_INFO, p->index, r->o->attach->before);
	const char *unseen = p->attached ? r->o->attach->unseen
			     : r->o->entry && recorded(p)->direct && !p->child ? r->o->entry->unseen
									       : NULL;
	if (unseen && unseen[0])
		recorder_note(r, TRACE_NOTE_INFO, p->index, unseen);
	if (p->attached)
		recorder_take_older(r, p);
	process_watch_rss(p);
	r->due.rss_ns = 0;
	if (p->view.sampled)
		r->due.peak_ns = 0;
	recorder_begin_memory(r, p);
	if (r->o->verbose && r->o->say) {
		char text[512], program[400];
		program_words(program, sizeof program, p->entry.facts.exe,
			      p->entry.facts.argc ? p->entry.facts.argv[0] : NULL);
		snprintf(text, sizeof text, "recording process %d (%s), %s by %d", p->pid, program,
			 p->child ? "forked" : "started", p->entry.facts.ppid);
		r->o->say(text);
	}
}

static int by_start(const void *a, const void *b)
{
	uint64_t x = (*(struct process *const *)a)->start_tsc;
	uint64_t y = (*(struct process *const *)b)->start_tsc;
	return x < y ? -1 : x > y;
}

/* Only of processes that run: the files of others are gone. */
static bool has_file(const struct process_set *set, const char *name)
{
	int32_t pid;
	uint64_t start_tsc;
	session_file_name(name, &pid, &start_tsc);
	for (uint32_t i = 0; i < set->count; i++)
		if (set->list[i]->pid == pid && set->list[i]->start_tsc == start_tsc)
			return true;
	return false;
}

/* A file that is being made is waited for, but not for one whose process was killed over it. */
static bool is_young(const struct recorder *r, uint64_t start_tsc)
{
	uint64_t start_ns = drain_stamp_ns(&r->drain, start_tsc);
	return start_ns + UNREADY_MS * 1000000ull > drain_now_ns(&r->drain);
}

static bool has_no_descriptor(int error)
{
	return error == EMFILE || error == ENFILE;
}

/* No descriptor is left for one more process. It goes on, and what it did is read when another one has ended: nothing of it
 * is lost, but it is too late for what all have at one moment. */
static void tell_file_limit(struct recorder *r)
{
	char text[400];
	struct rlimit files = {0};
	r->rescan = true;
	if (r->told.files)
		return;
	r->told.files = true;
	getrlimit(RLIMIT_NOFILE, &files);
	snprintf(text, sizeof text,
		 "heft may not open more files (limit of open files: %llu), and follows %u "
		 "processes: it sees what further ones did only after others have ended, so the "
		 "peak of all together is too low. A higher limit (ulimit -Hn) avoids that.",
		 (unsigned long long)files.rlim_cur, r->set->count);
	recorder_note(r, TRACE_NOTE_LOST, TRACE_NONE, text);
	if (r->o->say)
		r->o->say(text);
}

/* Takes files of the session directory that are ready, FOUND_AT_ONCE at most, the oldest first: a parent
 * before its child, an image before the one that replaces it. A file that was taken is removed: the
 * mapping is what counts, and nothing is left behind if we are killed. One of a sampled process
 * stays until its end, so that heft ctl finds it. Returns how many; *unready is lowered to when the
 * oldest process began whose file is not. */
static size_t take_files(struct recorder *r, uint64_t *unready)
{
	int fd = openat(r->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && has_no_descriptor(errno))
		tell_file_limit(r);
	DIR *dir = fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		r->rescan = true;
		return 0;
	}
	struct dirent *e;
	struct process *found[FOUND_AT_ONCE];
	size_t n = 0;
	while (n < FOUND_AT_ONCE && (e = readdir(dir))) {
		if (e->d_name[0] == '.' ||
		    !strncmp(e->d_name, WIRE_SPARE_NAME, sizeof WIRE_SPARE_NAME - 1))
			continue;
		struct heft_error err;
		int32_t pid;
		uint64_t start_tsc;
		if (has_file(r->set, e->d_name))
			continue;
		int rc = recorded_process_open(&found[n], r->dir.fd, e->d_name, &err);
		bool full = rc && rc != HEFT_ENOTFOUND && has_no_descriptor(err.sys_errno);
		/* It is not ready, or we are out of descriptors or memory until another process has ended. */
		if (rc == HEFT_ENOTFOUND || rc == HEFT_ENOMEM || full) {
			r->rescan = true;
			if (full)
				tell_file_limit(r);
			if (session_file_name(e->d_name, &pid, &start_tsc) &&
			    is_young(r, start_tsc) && start_tsc < *unready)
				*unready = start_tsc;
			continue;
		}
		if (rc || !found[n]->view.sampled)
			unlinkat(r->dir.fd, e->d_name, 0);
		n += !rc;
	}
	closedir(dir);
	if (n)
		session_dir_spares(&r->dir);
	qsort(found, n, sizeof *found, by_start);
	for (size_t i = 0; i < n; i++)
		add_process(r, found[i]);
	return n;
}

uint64_t recorder_find_processes(struct recorder *r)
{
	uint64_t unready = UINT64_MAX;
	if (!session_dir_changed(&r->dir) && !r->rescan && !r->command.ended)
		return unready;
	r->rescan = false;
	while (take_files(r, &unready) == FOUND_AT_ONCE)
		;
	return unready;
}
