/* Runs the command of `heft top -- CMD`. A `heft run -q` of this same executable records it, so there is
 * one recorder, and the command can outlive the view.
 *
 * The view has the terminal. What the command would write to the terminal goes to a file instead. Standard
 * output and error append to the same file: their order is kept, nothing can block, and nothing is lost
 * whoever ends first. A redirected stream stays as it is. `heft run` gets a session of its own, so that
 * neither keys nor a hang-up of the terminal reach the command.
 *
 * While the recorder runs, its open files give the name of the recording. When it has ended, a pipe gives
 * it, in case it ran too shortly to be looked at. */
#include "cli/top_command.h"

#include "record/recording_of.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAIL_BYTES = 64 << 10 };

static int keep_output(struct top_command *c, struct heft_error *err)
{
	const char *base = getenv("TMPDIR");
	if (!base || !*base)
		base = "/tmp";
	if ((size_t)snprintf(c->kept, sizeof c->kept, "%s/heft-top-XXXXXX", base) < sizeof c->kept)
		c->kept_fd = mkostemp(c->kept, O_APPEND | O_CLOEXEC);
	if (c->kept_fd >= 0)
		return 0;
	c->kept[0] = 0;
	return heft_fail_errno(err, "cannot make a file for the command's output in %s", base);
}

static void child_main(const struct top_command *c, char **argv, bool screen)
{
	if (screen) {
		setsid();
		int null = open("/dev/null", O_RDONLY);
		if (isatty(STDIN_FILENO) && null >= 0)
			dup2(null, STDIN_FILENO);
		for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
			if (isatty(fd))
				dup2(c->kept_fd, fd);
		if (null > STDERR_FILENO)
			close(null);
	}
	execv("/proc/self/exe", argv);
	dprintf(STDERR_FILENO, "heft: cannot start the recorder: %s\n", strerror(errno));
	_exit(125);
}

int top_command_start(struct top_command *c, bool screen, struct heft_error *err)
{
	int pipe_fds[2];
	struct recording_words words;
	char **argv = calloc((size_t)c->argc + sizeof words.items / sizeof *words.items + 2,
			     sizeof *argv);
	c->kept_fd = c->path_fd = -1;
	if (!argv)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = screen ? keep_output(c, err) : 0;
	if (rc == 0 && pipe2(pipe_fds, O_CLOEXEC) != 0)
		rc = heft_fail_errno(err, "cannot make a pipe");
	if (rc < 0) {
		free(argv);
		return rc;
	}
	recording_words_make(&words, "run", pipe_fds[1], &c->wish);
	memcpy(argv, words.items, (size_t)words.count * sizeof *argv);
	argv[words.count] = (char *)"--";
	memcpy(argv + words.count + 1, c->argv, (size_t)c->argc * sizeof *argv);
	c->recorder = fork();
	if (c->recorder == 0) {
		fcntl(pipe_fds[1], F_SETFD, 0);
		child_main(c, argv, screen);
	}
	if (c->recorder < 0)
		rc = heft_fail_errno(err, "cannot start a process");
	free(argv);
	close(pipe_fds[1]);
	c->path_fd = pipe_fds[0];
	fcntl(c->path_fd, F_SETFL, O_NONBLOCK);
	return rc;
}

bool top_command_ended(struct top_command *c, bool wait)
{
	int status;
	pid_t pid;
	if (c->ended || c->recorder <= 0)
		return c->ended;
	do
		pid = waitpid(c->recorder, &status, wait ? 0 : WNOHANG);
	while (pid < 0 && errno == EINTR);
	if (pid != c->recorder)
		return false;
	c->ended = true;
	c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return true;
}

int top_command_recording(struct top_command *c, char *path, size_t size)
{
	ssize_t n = c->path_fd < 0 ? 0 : read(c->path_fd, path, size - 1);
	if (n < 0) /* the recorder runs */
		return recording_written_by(c->recorder, path, size) == 0 ? 0 : HEFT_ENOTFOUND;
	if (c->path_fd >= 0)
		close(c->path_fd);
	c->path_fd = -1;
	path[n] = 0;
	return n ? 0 : HEFT_EREFUSED;
}

void top_command_kill(struct top_command *c, pid_t program)
{
	if (c->ended || c->recorder <= 0)
		return;
	if (!c->kills++)
		kill(c->recorder, SIGTERM); /* the recorder passes it on */
	else if (program > 0)
		kill(program, SIGKILL);
}

char *top_command_tail(const struct top_command *c)
{
	struct stat facts;
	if (!c->kept[0] || fstat(c->kept_fd, &facts) != 0)
		return NULL;
	char *text = malloc(TAIL_BYTES + 1);
	off_t from = facts.st_size > TAIL_BYTES ? facts.st_size - TAIL_BYTES : 0;
	ssize_t n = text ? pread(c->kept_fd, text, TAIL_BYTES, from) : -1;
	if (n < 0) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n; i++) /* a NUL would end the text */
		if (!text[i])
			text[i] = '?';
	text[n] = 0;
	return text;
}

int top_command_copy(int from, int to)
{
	char bytes[64 << 10];
	ssize_t n;
	while ((n = read(from, bytes, sizeof bytes)) > 0)
		for (ssize_t at = 0, put; at < n; at += put > 0 ? put : 0)
			if ((put = write(to, bytes + at, (size_t)(n - at))) < 0 && errno != EINTR)
				return -1;
	return n < 0 ? -1 : 0;
}

void top_command_release(struct top_command *c)
{
	if (c->path_fd >= 0)
		close(c->path_fd);
	c->path_fd = -1;
	if (!c->kept[0])
		return;
	/* Both streams are the same terminal, or only one is a terminal. */
	if (lseek(c->kept_fd, 0, SEEK_SET) == 0)
		top_command_copy(c->kept_fd, isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO);
	close(c->kept_fd);
	if (!c->detached)
		unlink(c->kept);
}
