/* A snapshot is a recording like any other, with the same writer and the same reader. So
 * a profile that is served, one that is saved after a kill and one of heft run say the
 * same. Everything is read from the session file: the process does nothing for it and
 * does not notice. */
#include "agent/snapshot.h"

#include "hosted/monotonic.h"
#include "session/owner.h"
#include "session/process_memory.h"
#include "agent/sampled.h"
#include "session/session_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A clock that began with the process, at the rate between then and now. The header may say anything: if the
 * rate is impossible, the usual one stays. */
static struct tsc_clock clock_of(const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	struct tsc_clock c;
	tsc_clock_start(&c);
	double each = c.tsc0 > p->start_tsc && c.ns0 > h->start_mono_ns
			      ? (double)(c.ns0 - h->start_mono_ns) / (double)(c.tsc0 - p->start_tsc)
			      : 0;
	if (each > 0.05 && each < 10) {
		c.ns0 = h->start_mono_ns;
		c.mult = (uint64_t)(each * 4294967296.0);
	}
	c.tsc0 = p->start_tsc;
	return c;
}

static struct trace_process facts_of(struct process *p, struct trace_meta *meta)
{
	struct wire_header *h = p->view.session.header;
	pthread_mutex_lock(&p->entry.lock);
	struct trace_process f = p->entry.facts;
	meta->memory_limit_bytes = p->entry.limit_bytes;
	meta->limit_is_cgroup = p->entry.limit_is_cgroup;
	pthread_mutex_unlock(&p->entry.lock);
	f.end_ns = f.end_ns > f.start_ns ? f.end_ns - f.start_ns
					 : 0; /* a recorder's times are its own */
	f.start_ns = 0;
	f.dropped = atomic_load(&h->dropped);
	f.reentrant = atomic_load(&h->reentrant);
	f.lost_stacks = atomic_load(&h->lost_stacks);
	return f;
}

static void write_rss(struct process *p, struct trace_writer *w, uint64_t now_ns)
{
	pthread_mutex_lock(&p->entry.lock);
	struct process_rss r = p->entry.rss;
	pthread_mutex_unlock(&p->entry.lock);
	struct trace_rss list[] = {{r.peak_ns < now_ns ? r.peak_ns : now_ns, 0, r.peak_bytes},
				   {now_ns, 0, r.bytes}};
	if (r.peak_bytes)
		trace_writer_rss(w, list, r.bytes ? 2 : 1);
	struct trace_anonymous a;
	if (!process_anonymous(p, &a))
		return;
	a.process = 0;
	a.time_ns = now_ns;
	trace_writer_anonymous(w, &a);
}

static void write_notes(struct process *p, struct trace_writer *w, const struct trace_process *f)
{
	char text[OWN_ALLOCATOR_TEXT];
	struct trace_note n = {TRACE_NOTE_OWN_MALLOC, 0, 0, text};
	if (process_allocator_words(p, text, sizeof text))
		trace_writer_note(w, &n);
	if (f->dropped) {
		n.kind = TRACE_NOTE_LOST;
		snprintf(text, sizeof text,
			 "%llu samples found no place in the tables of process %d",
			 (unsigned long long)f->dropped, f->pid);
		trace_writer_note(w, &n);
	}
}

int snapshot_write(struct process *p, const char *path, bool force, struct heft_error *err)
{
	struct trace_meta meta = {
		.heft_version = HEFT_VERSION,
		.start_unix_ns = p->view.session.header->start_unix_ns,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.tick_ns = 2048,
	};
	struct trace_process f = facts_of(p, &meta);
	meta.argv = f.argv;
	meta.argc = f.argc;
	struct trace_writer *w;
	int rc = trace_writer_open(&w, path, force, &meta, err);
	if (rc)
		return rc;
	struct stack_map map = {0};
	struct tally tally;
	tally_init(&tally);
	const struct tsc_clock clock = clock_of(p);
	const struct sampled_output to = {&map, &clock, w};
	uint64_t now_ns = f.end == TRACE_END_RUNNING ? monotonic_ns() - clock.ns0 : f.end_ns;
	struct process_stacks stacks = {.session = &p->view.session};
	trace_writer_process(w, &f);
	sampled_write(&to, p, &stacks, 0, now_ns);
	write_rss(p, w, now_ns);
	write_notes(p, w, &f);
	if (f.end != TRACE_END_RUNNING)
		trace_writer_process_end(w, 0, &f);
	rc = trace_writer_close(w, now_ns, &tally, err);
	process_stacks_fini(&stacks);
	stack_map_fini(&map);
	tally_fini(&tally);
	return rc;
}

/* Only its recording is left, and somebody may have removed or changed that. */
static int open_saved(const struct process *p, const struct process_rest *rest,
		      struct trace_reader **reader, struct heft_error *err)
{
	if (access(rest->recording, F_OK))
		return heft_fail(err, HEFT_ENOTFOUND,
				 "process %d has ended, and its recording %s is not there any more",
				 p->pid, rest->recording);
	return trace_reader_open(reader, rest->recording, err);
}

int snapshot_open(struct process *p, struct trace_reader **reader, struct heft_error *err)
{
	char path[64];
	const struct process_rest *rest = atomic_load(&p->samples.rest);
	if (rest)
		return open_saved(p, rest, reader, err);
	int fd = memfd_create("heft-snapshot", MFD_CLOEXEC);
	if (fd < 0)
		return heft_fail_errno(err, "no memory for a snapshot");
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int rc = snapshot_write(p, path, true, err);
	if (!rc)
		rc = trace_reader_open(reader, path, err);
	close(fd);
	return rc;
}

/* ---- of a process that somebody else holds, or nobody */

int process_open_of(pid_t pid, char *path, size_t size, struct process **out,
		    struct heft_error *err)
{
	char copy[4200];
	int rc = owner_file(pid, path, size, err);
	if (rc)
		return rc;
	snprintf(copy, sizeof copy, "%s", path);
	char *slash = strrchr(copy, '/');
	if (!slash)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d is not sampled by heft", pid);
	*slash = 0;
	int dir = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
	rc = process_open(out, dir, slash + 1, err);
	if (dir >= 0)
		close(dir);
	if (rc == HEFT_EIO && (err->sys_errno == EACCES || err->sys_errno == EPERM))
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d is another user's\nAsk as that user or as root.", pid);
	if (rc == HEFT_ENOTFOUND)
		return heft_fail(err, rc, "process %d has a session file that makes no sense: %s",
				 pid, path);
	if (!rc)
		(*out)->pid = pid; /* as seen from here */
	return rc;
}

int snapshot_of(pid_t pid, char *path, size_t size, struct heft_error *err)
{
	struct process *p;
	char session[4200];
	session_guard_install();
	int rc = process_open_of(pid, session, sizeof session, &p, err);
	if (rc)
		return rc;
	int fd = memfd_create("heft-snapshot", MFD_CLOEXEC);
	if (fd < 0)
		rc = heft_fail_errno(err, "no memory for a snapshot");
	else if (!p->view.sampled)
		rc = heft_fail(err, HEFT_EREFUSED, "process %d is not sampled by heft", pid);
	snprintf(path, size, "/proc/self/fd/%d", fd);
	if (!rc)
		rc = snapshot_write(p, path, true, err);
	if (rc && fd >= 0)
		close(fd);
	process_free(p);
	return rc;
}
