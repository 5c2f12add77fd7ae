/* Attaches to a process for as long as a view lasts (attach_offer.h).
 *
 * The recorder is a `heft attach -q` of this same executable, in a session of its own: keys that end the view do not
 * reach it. It is told to leave when the view ends, and the kernel tells it if heft is killed before. So the process
 * is never left with heft in it. */
#include "cli/attach_offer.h"

#include "cli/cli.h"
#include "cli/input_file.h"
#include "hosted/name_words.h"
#include "hosted/proc_text.h"
#include "record/recording_of.h"
#include "session/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 20, FIRST_BLOCK_LOOKS = 250 };

static bool ask(pid_t pid)
{
	char name[64], line[64] = "";
	proc_text(name, sizeof name, "/proc/%d/comm", (int)pid);
	name[strcspn(name, "\n")] = 0;
	cli_putf(stderr,
		 "heft: process %d (%s) is not being recorded.\n"
		 "      Attach to it until you leave this view? [Y/n] ",
		 (int)pid, name);
	if (!fgets(line, sizeof line, stdin)) {
		fputc('\n', stderr);
		return false;
	}
	return line[0] == '\n' || line[0] == 'y' || line[0] == 'Y';
}

static void child_main(pid_t pid, pid_t parent, int ready, const struct recording_wish *wish)
{
	char pid_text[16];
	struct recording_words words;
	recording_words_make(&words, "attach", ready, wish);
	snprintf(pid_text, sizeof pid_text, "%d", (int)pid);
	words.items[words.count] = pid_text;
	words.items[words.count + 1] = NULL;
	fcntl(ready, F_SETFD, 0);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	execv("/proc/self/exe", (char **)words.items);
	dprintf(STDERR_FILENO, "heft: cannot start the recorder: %s\n", strerror(errno));
	_exit(CLI_FAILED);
}

static bool is_profiled(pid_t pid)
{
	char session[PATH_MAX];
	struct heft_error ignored = {0};
	int rc = owner_file(pid, session, sizeof session, &ignored);
	return rc == 0 || rc == HEFT_EREFUSED;
}

static bool can_be_read(const char *path)
{
	struct input_file in;
	struct heft_error ignored = {0};
	bool fine = input_file_open(&in, path, &ignored) == 0;
	input_file_close(&in);
	return fine;
}

/* Waits until heft is in the process, and its recording has begun. */
static int wait_for_recorder(struct attach_offer *o, pid_t pid, int ready, struct heft_error *err)
{
	char line;
	ssize_t n;
	do
		n = read(ready, &line, 1);
	while (n < 0 && errno == EINTR);
	if (n <= 0) {
		attach_offer_end(o);
		err->message[0] = 0; /* it has said why */
		return HEFT_EREFUSED;
	}
	for (int i = 0; i < FIRST_BLOCK_LOOKS; i++) {
		if (recording_written_by(o->recorder, o->path, sizeof o->path) == 0 &&
		    can_be_read(o->path))
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_MS * 1000000L}, NULL);
	}
	attach_offer_end(o);
	return heft_fail(err, HEFT_EREFUSED, "process %d was attached to, but nothing is recorded",
			 (int)pid);
}

int attach_offer_make(struct attach_offer *o, pid_t pid, bool asked,
		      const struct recording_wish *wish, int rc, struct heft_error *err)
{
	if (rc != HEFT_EREFUSED || !owner_is_readable(pid) || is_profiled(pid))
		return rc;
	if (!asked && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !isatty(STDERR_FILENO)))
		return rc;
	if (!asked && !ask(pid))
		return rc;
	int ready[2];
	pid_t self = getpid();
	if (pipe2(ready, O_CLOEXEC) != 0)
		return heft_fail_errno(err, "cannot make a pipe");
	o->recorder = fork();
	if (o->recorder == 0)
		child_main(pid, self, ready[1], wish);
	close(ready[1]);
	if (o->recorder < 0)
		rc = heft_fail_errno(err, "cannot start a process");
	else
		rc = wait_for_recorder(o, pid, ready[0], err);
	close(ready[0]);
	if (!rc)
		*err = (struct heft_error){0};
	return rc;
}

void attach_offer_end(struct attach_offer *o)
{
	int status = 0;
	if (o->recorder <= 0)
		return;
	kill(o->recorder, SIGTERM);
	while (waitpid(o->recorder, &status, 0) < 0 && errno == EINTR)
		;
	o->recorder = 0;
	if (!o->path[0] || access(o->path, F_OK) != 0)
		return;
	cli_putf(stderr, "heft: recorded in %s\n      heft report ", words_from_here(o->path));
	words_print_shell(stderr, words_from_here(o->path));
	fputs(" says what it found\n", stderr);
}
