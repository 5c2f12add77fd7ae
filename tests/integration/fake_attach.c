/* In place of src/attach/attach.c, for tests of the recorder and the command line: the program itself loads
 * heft's library when it is asked to (tests/programs/attach_target.c). Files in $HEFT_FAKE_DIR say what is
 * wanted and what was done: PID.attach holds the session directory, the rate and the library, PID.attached
 * says that it is done; PID.detach and PID.detached likewise. "refuse" there makes both fail; "alone" makes it
 * look as if the guardian had gone. */
#include "attach/attach.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };

struct attached {
	int guardian[2];
};

static const char *path_of(const char *name)
{
	static char path[4096];
	snprintf(path, sizeof path, "%s/%s", getenv("HEFT_FAKE_DIR"), name);
	return path;
}

static bool is_there(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

/* Writes PID.what, and waits until the process has answered with PID.done, or ended. */
static int ask(pid_t pid, const char *what, const char *text, const char *done,
	       struct heft_error *err)
{
	char name[64];
	snprintf(name, sizeof name, "%d.%s", (int)pid, what);
	FILE *f = fopen(path_of(name), "w");
	if (!f)
		return heft_fail_errno(err, "cannot write %s", path_of(name));
	fputs(text, f);
	fclose(f);
	if (kill(pid, SIGUSR1))
		return 0; /* it has ended */
	snprintf(name, sizeof name, "%d.%s", (int)pid, done);
	for (int i = 0; i < PATIENCE_MS && !is_there(name); i++) {
		nanosleep(&(struct timespec){0, 1000000}, NULL);
		if (kill(pid, 0))
			return 0;
	}
	if (!is_there(name))
		return heft_fail(err, HEFT_EBUSY, "process %d does not answer", (int)pid);
	unlink(path_of(name));
	return 0;
}

int attach_begin(struct attached **out, const struct attach_options *o,
		 struct attach_report *report, struct heft_error *err)
{
	char text[8192];
	if (is_there("refuse") || o->start_lets_go)
		return heft_fail(err, HEFT_EREFUSED, "attaching was refused\nas the test wanted");
	snprintf(text, sizeof text, "%s\n%" PRIu64 "\n%s\n%s\n", o->session_dir, o->sample_bytes,
		 o->follow ? "all" : "none", getenv("HEFT_FAKE_LIBRARY"));
	int rc = ask(o->pid, "attach", text, "attached", err);
	if (rc)
		return rc;
	*out = calloc(1, sizeof **out);
	if (!*out || pipe2((*out)->guardian, O_CLOEXEC))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	*report = (struct attach_report){.pause_ns = 1250000, .threads = 3, .tries = 2};
	snprintf(report->before, sizeof report->before, "it had something before");
	return 0;
}

/* Nothing is held that a program executes: these are not called. */
void attach_go(struct attached *a)
{
	(void)a;
}

void attach_cancel(struct attached *a, pid_t guardian)
{
	(void)a, (void)guardian;
}

void attach_process_ended(struct attached *a)
{
	(void)a;
}

void attach_forget(struct attached *a)
{
	(void)a;
}

int attach_started(struct attached *a, struct attach_report *report, struct heft_error *err)
{
	(void)a, (void)report;
	return heft_fail(err, HEFT_EREFUSED, "nothing is started here");
}

int attach_end(struct attached *a, const pid_t *pids, uint32_t count, struct attach_report *report,
	       struct heft_error *err)
{
	int rc = 0;
	if (is_there("refuse"))
		rc = heft_fail(err, HEFT_EREFUSED, "detaching was refused\nas the test wanted");
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = ask(pids[i], "detach", "", "detached", err);
	report->pause_ns = 750000;
	close(a->guardian[0]);
	close(a->guardian[1]);
	free(a);
	return rc;
}

int attached_fd(const struct attached *a)
{
	if (is_there("alone") && write(a->guardian[1], "", 1) == 1)
		unlink(path_of("alone"));
	return a->guardian[0];
}
