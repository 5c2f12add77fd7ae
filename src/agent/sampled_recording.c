/* A recording of a sampled process has the same writer and the same tables as any other. So one that was saved
 * after a kill, one of heft run and a profile that is served say the same. Everything is read from the session
 * file: the process does nothing for it and does not notice. */
#include "agent/sampled_recording.h"

#include "agent/sampled_reading.h"
#include "session/session_guard.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The writer latches failures. */
static void write_contents(struct trace_writer *w, const struct trace_contents *c)
{
	trace_writer_process(w, &c->processes[0]);
	for (uint32_t i = 0; i < c->module_count; i++)
		trace_writer_module(w, &c->modules[i]);
	trace_writer_nodes(w, c->nodes, c->node_count);
	trace_writer_sites(w, c->sites, c->site_count);
	trace_writer_samples(w, &c->samples[0]);
	trace_writer_rss(w, c->rss, c->rss_count);
	for (size_t i = 0; i < c->anonymous_count; i++)
		trace_writer_anonymous(w, &c->anonymous[i]);
	for (size_t i = 0; i < c->note_count; i++)
		trace_writer_note(w, &c->notes[i]);
	if (c->processes[0].end != TRACE_END_RUNNING)
		trace_writer_process_end(w, 0, &c->processes[0]);
}

int sampled_recording_write(struct process *p, const char *path, bool force, struct heft_error *err)
{
	struct sampled_known known;
	struct sampled_reading r;
	struct trace_writer *w;
	if (sampled_known_of(p, &known))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = sampled_read(&r, p->view.fd, &known, err);
	if (!rc) {
		rc = trace_writer_open(&w, path, force, &r.contents.meta, err);
		if (!rc) {
			write_contents(w, &r.contents);
			rc = trace_writer_close(w, r.contents.duration_ns, &r.no_events, err);
		}
		sampled_reading_fini(&r);
	}
	sampled_known_fini(&known);
	return rc;
}

int sampled_recording_of(pid_t pid, char *path, size_t size, struct heft_error *err)
{
	struct process *p;
	char session[4200];
	session_guard_install();
	int rc = process_open_of(pid, session, sizeof session, &p, err);
	if (rc)
		return rc;
	int fd = memfd_create("heft-recording", MFD_CLOEXEC);
	if (fd < 0)
		rc = heft_fail_errno(err, "no memory for a recording");
	else if (!p->view.sampled)
		rc = heft_fail(err, HEFT_EREFUSED, "process %d is not sampled by heft", pid);
	snprintf(path, size, "/proc/self/fd/%d", fd);
	if (!rc)
		rc = sampled_recording_write(p, path, true, err);
	if (rc && fd >= 0)
		close(fd);
	process_free(p);
	return rc;
}
