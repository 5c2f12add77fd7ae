/* `heft top (PID | FILE | -- CMD)` shows the live view, or prints one frame of it as text.
 *
 * All three are a recording that is read again when it has grown: a process has the one that it is recorded
 * in, a command gets one. A sampled process of an agent has no recording; the view reads its session file.
 * Without a terminal, or with --once, heft prints one frame. A command's frame is printed when the command
 * has ended, to stderr, because stdout is the command's.
 *
 * Loading runs in a thread of its own (top_live.c). What it shares with drawing (`struct top_place`) is
 * touched with its lock held. */
#include "cli/attach_offer.h"
#include "cli/cli.h"
#include "cli/input_file.h"

#include "agent/sampled_profile.h"
#include "agent/sampled_recording.h"
#include "cli/selection.h"
#include "cli/top_command.h"
#include "findings/finding.h"
#include "ledger/ledger_take.h"
#include "report/report_ledger.h"
#include "hosted/end_words.h"
#include "hosted/monotonic.h"
#include "hosted/name_words.h"
#include "hosted/program_name.h"
#include "profile/profile_from_trace.h"
#include "record/recording_of.h"
#include "session/process_memory.h"
#include "session/session_guard.h"
#include "top/top.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	JUDGED_EVENTS = 2000000, /* with more, findings for each process take too long for a view */
	ROWS_SHOWN = 20,
	LEDGER_ROWS = 3, /* of a section */
	WIDTH_WITHOUT_TERMINAL = 100,
	SNAPSHOTS = 10000,
	QUIET_S = 10 /* a recorder writes about once a second */
};

/* Where the recording is, and which program it is of */
struct top_place {
	pthread_mutex_t lock;
	char path[PATH_MAX]; /* "": not known yet */
	char exe[64];
	pid_t pid; /* the program's; 0: not known */
};

struct top {
	const struct cli_verb *verb;
	struct cli_selection selection; /* how many rows, and colour */
	enum top_sort sort;
	bool once;
	pid_t pid;        /* 0: a file or a command */
	const char *file; /* NULL: a process or a command */
	bool is_command;
	struct top_command command;
	bool attach; /* --attach: without being asked */
	struct attach_offer offer;
	struct top_place place;
	struct process *held; /* a sampled process of an agent, which has no recording to read */
	struct stat facts;    /* the recording when it was last loaded */
	bool loaded;
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct top *t = ctx;
	bool taken;
	int status = recording_wish_set(&t->command.wish, t->verb, option, value, &taken);
	if (taken)
		return status;
	switch (option->id) {
	case CLI_OPT_ONCE: t->once = true; return 0;
	case CLI_OPT_ATTACH: t->attach = true; return 0;
	case CLI_OPT_SORT: /* a value of its list */ return top_sort_parse(value, &t->sort);
	case CLI_OPT_AT:
		return cli_usage_error(
			t->verb,
			"it shows the latest state only: heft report --at %s shows another moment",
			value);
	default: return cli_selection_set(&t->selection, t->verb, option, value);
	}
}

static int take_operands(struct top *t, int argc, char **argv, int first, int command)
{
	int operands = argc - first;
	uint64_t pid;
	t->is_command = command >= 0;
	if (t->is_command) {
		if (t->attach)
			return cli_usage_error(t->verb, "--attach needs a PID, not a command");
		if (command == 0)
			return cli_usage_error(t->verb, "no command after --");
		if (operands > command)
			return cli_usage_error(t->verb, "give '%s' or a command, not both",
					       argv[first]);
		t->command.argv = argv + first;
		t->command.argc = operands;
		return CLI_GO_ON;
	}
	if (operands == 0)
		return cli_usage_error(
			t->verb, "nothing to show: give a PID, a recording, or a command after --");
	if (operands > 1)
		return cli_usage_error(t->verb, "one program at a time; a command goes after --");
	t->file = argv[first];
	if (number_parse(t->file, INT32_MAX, &pid) == 0 && pid) {
		t->pid = (pid_t)pid;
		t->file = NULL;
	}
	if (t->attach && !t->pid)
		return cli_usage_error(t->verb, "--attach needs a PID, not a file");
	if (!t->attach && recording_wish_is_given(&t->command.wish))
		return cli_usage_error(t->verb, "-o, --force, --sample and --alloc-fn need a "
						"command to record, or --attach");
	return CLI_GO_ON;
}

/* ---- loading */

static void set_path(struct top *t, const char *path)
{
	path = words_from_here(path);
	pthread_mutex_lock(&t->place.lock);
	snprintf(t->place.path, sizeof t->place.path, "%s", path);
	pthread_mutex_unlock(&t->place.lock);
}

/* Opens the session file of a sampled process, whoever else holds it (heft agent). If there is none, *err
 * still says why there is no recording. */
static int hold_process(struct top *t, int rc, struct heft_error *err)
{
	struct heft_error other = {0};
	char session[PATH_MAX];
	session_guard_install();
	if (process_open_of(t->pid, session, sizeof session, &t->held, &other) < 0)
		return rc;
	if (t->held->view.sampled) {
		process_watch_rss(t->held);
		*err = (struct heft_error){0};
		return 0;
	}
	process_free(t->held);
	t->held = NULL;
	return rc;
}

/* 0: the recording is known; 1: not yet. */
static int find_recording(struct top *t, struct heft_error *err)
{
	char path[PATH_MAX];
	if (t->place.path[0] || t->held) /* only this thread sets it */
		return 0;
	if (t->is_command) {
		int rc = top_command_recording(&t->command, path, sizeof path);
		if (rc == HEFT_ENOTFOUND)
			return 1;
		if (rc < 0) { /* `heft run` has said why */
			err->message[0] = 0;
			return rc;
		}
	} else if (t->pid) {
		int rc = recording_of(t->pid, path, sizeof path, err);
		if (rc == HEFT_EREFUSED && (rc = hold_process(t, rc, err)) == 0)
			return 0;
		if (rc < 0 && (rc = attach_offer_make(&t->offer, t->pid, t->attach,
						      &t->command.wish, rc, err)) == 0)
			snprintf(path, sizeof path, "%s", t->offer.path);
		if (rc < 0)
			return rc;
	} else {
		snprintf(path, sizeof path, "%s", t->file);
	}
	set_path(t, path);
	return 0;
}

static void set_program(struct top *t, const struct profile *p)
{
	const char *exe = p->process_count && p->processes[0].exe ? p->processes[0].exe
			  : p->run.argc                           ? p->run.argv[0]
								  : "";
	pthread_mutex_lock(&t->place.lock);
	snprintf(t->place.exe, sizeof t->place.exe, "%s", path_file(exe));
	for (char *c = t->place.exe; *c; c++) /* it becomes a part of a file's name */
		if (!isalnum((unsigned char)*c) && !strchr("._-+", *c))
			*c = '_';
	t->place.pid = p->run.pid;
	pthread_mutex_unlock(&t->place.lock);
}

/* Samples do not know their threads: a view of one thread shows all of them. Nobody else tells this heft whether
 * the program has memory that is not seen: it looks itself. */
static int load_held(struct top *t, struct profile **p, struct heft_error *err)
{
	const uint64_t now = monotonic_ns(), start = t->held->view.session.header->start_mono_ns;
	const uint64_t age = now > start ? now - start : 0;
	process_read_rss(t->held, age, 0);
	process_look_for_allocator(t->held, age);
	return sampled_profile(p, t->held, NULL, err);
}

static int load(void *ctx, const char *thread, bool again, struct profile **p, struct findings **f,
		struct heft_error *err)
{
	struct top *t = ctx;
	struct stat facts;
	const struct profile_selection selection = {.thread = thread,
						    .judge_events = JUDGED_EVENTS};
	int rc = find_recording(t, err);
	if (rc)
		return rc;
	bool same = !t->held && stat(t->place.path, &facts) == 0 && t->loaded &&
		    facts.st_size == t->facts.st_size &&
		    facts.st_mtim.tv_sec == t->facts.st_mtim.tv_sec &&
		    facts.st_mtim.tv_nsec == t->facts.st_mtim.tv_nsec;
	if (same && !again)
		return 1;
	rc = t->held ? load_held(t, p, err) : input_file_profile(t->place.path, &selection, p, err);
	/* A recording that has just begun has nothing to read yet. */
	if (rc == HEFT_EFORMAT && !t->file)
		return 1;
	if (rc == 0)
		rc = cli_apply_frame_rules(*p, NULL, err);
	/* Findings are of all threads; if memory runs out, there are none. */
	if (rc == 0 && !thread)
		findings_new(f, *p);
	if (rc < 0) {
		profile_free(*p);
		*p = NULL;
		return rc;
	}
	if (!t->held)
		t->facts = facts;
	t->loaded = true;
	set_program(t, *p);
	return 0;
}

/* ---- what the view asks for */

static int start(void *ctx, struct heft_error *err)
{
	struct top *t = ctx;
	return t->is_command ? top_command_start(&t->command, true, err) : 0;
}

static bool ended(void *ctx, char *words, size_t size)
{
	struct top *t = ctx;
	if (t->held && kill(t->pid, 0) != 0 && errno == ESRCH) {
		snprintf(words, size, "ended");
		return true;
	}
	if (!t->is_command || !top_command_ended(&t->command, false))
		return false;
	int status = t->command.status;
	struct how_ended end = {status > 128 ? END_SIGNAL : END_EXIT, status, status - 128, 0, 0};
	snprintf(words, size, "ended: %s", words_of_end(&end).text);
	return true;
}

static void kill_command(void *ctx)
{
	struct top *t = ctx;
	pthread_mutex_lock(&t->place.lock);
	pid_t program = t->place.pid;
	pthread_mutex_unlock(&t->place.lock);
	top_command_kill(&t->command, program);
}

static char *output(void *ctx)
{
	struct top *t = ctx;
	return t->is_command ? top_command_tail(&t->command) : NULL;
}

/* Copies the recording as it is now. The block that is being written at this moment is cut, as in every
 * recording that is read while it grows. */
static int snapshot(void *ctx, char *path, size_t size, struct heft_error *err)
{
	struct top *t = ctx;
	struct top_place place;
	pthread_mutex_lock(&t->place.lock);
	place = t->place;
	pthread_mutex_unlock(&t->place.lock);
	bool held = t->held && t->loaded;
	int to = -1, rc = 0, from = place.path[0] ? open(place.path, O_RDONLY | O_CLOEXEC) : -1;
	if (from < 0 && !held)
		return heft_fail(err, HEFT_EREFUSED, "nothing is recorded yet");
	for (unsigned i = 1; to < 0 && i <= SNAPSHOTS; i++) { /* the first name that no file has */
		snprintf(path, size, "heft.%s.%d.snapshot-%u.heft", place.exe, (int)place.pid, i);
		if (held && access(path, F_OK) != 0)
			return sampled_recording_write(t->held, path, false, err);
		to = held ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (to < 0 && !held && errno != EEXIST)
			break;
	}
	if (to < 0 || top_command_copy(from, to) != 0)
		rc = heft_fail_errno(err, "cannot write %s", path);
	close(from);
	if (to >= 0 && close(to) != 0 && rc == 0)
		return heft_fail_errno(err, "cannot write %s", path);
	if (to >= 0 && rc < 0)
		unlink(path);
	return rc;
}

/* Whether the process is the one that the view shows: a recording from earlier may name one that is another now. */
static bool is_shown(const struct top *t, const struct top_place *place)
{
	char path[PATH_MAX];
	struct heft_error ignored = {0};
	struct stat here, there;
	return t->held || (recording_of(place->pid, path, sizeof path, &ignored) == 0 &&
			   stat(path, &there) == 0 && stat(place->path, &here) == 0 &&
			   here.st_dev == there.st_dev && here.st_ino == there.st_ino);
}

static char *ledger(void *ctx, size_t width, struct heft_error *err)
{
	struct top *t = ctx;
	struct top_place place;
	struct ledger l;
	char *text = NULL;
	size_t size;
	pthread_mutex_lock(&t->place.lock);
	place = t->place;
	pthread_mutex_unlock(&t->place.lock);
	if (!place.pid || !is_shown(t, &place)) {
		heft_fail(err, HEFT_ENOTFOUND, "the process does not run any more");
		return NULL;
	}
	if (ledger_take(&l, place.pid, NULL, err))
		return NULL;
	FILE *out = open_memstream(&text, &size);
	const struct report_ledger_options options = {.limit = LEDGER_ROWS, .width = width};
	if (out) {
		report_ledger_text(out, &l, &options);
		fclose(out);
	}
	ledger_fini(&l);
	return text;
}

/* ---- once */

static void print_next(FILE *out, const char *path)
{
	char *command = NULL;
	size_t size;
	FILE *text = open_memstream(&command, &size);
	if (!text)
		return;
	fputs("heft report ", text);
	words_print_shell(text, path);
	fclose(text);
	if (command)
		words_print_next(out, command, "all findings, with stacks and advice", WORDS_PROSE);
	free(command);
}

static int print_once(struct top *t, FILE *out, struct heft_error *err)
{
	struct profile *p = NULL;
	struct findings *f = NULL;
	char state[100];
	int rc = load(t, NULL, true, &p, &f, err);
	if (rc == 1)
		rc = heft_fail(err, HEFT_EREFUSED, "%s: nothing is recorded yet", t->place.path);
	if (rc < 0)
		return rc;
	top_end_words(state, sizeof state, p);
	if (t->held && kill(t->pid, 0) == 0)
		snprintf(state, sizeof state, "running");
	if (!t->held && !p->run.complete && time(NULL) - t->facts.st_mtim.tv_sec > QUIET_S)
		snprintf(state, sizeof state, "incomplete"); /* cut, or its recorder hangs */
	const struct top_view view = {.sort = t->sort};
	size_t width = cli_width(out);
	const struct top_look look = {
		.width = width ? width : WIDTH_WITHOUT_TERMINAL,
		.utf8 = cli_is_utf8(),
		.state = state,
		.limit = t->selection.limit,
	};
	rc = top_print(out, p, f, &view, &look);
	if (rc == 0) {
		if (t->held) {
			fprintf(out, "Next: heft view %d    (the same in a browser)\n",
				(int)t->pid);
		} else {
			print_next(out, t->place.path);
		}
	} else {
		heft_fail(err, rc, "not enough memory for the view");
	}
	findings_free(f);
	profile_free(p);
	return rc;
}

/* Runs the command to its end, with heft's own streams. */
static int run_once(struct top *t, struct heft_error *err)
{
	int rc = top_command_start(&t->command, false, err);
	if (rc < 0)
		return rc;
	/* Ctrl-C is for the command, and its recorder ends with it. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	top_command_ended(&t->command, true);
	return print_once(t, stderr, err);
}

/* ---- live */

static int show_live(struct top *t, struct heft_error *err)
{
	const struct top_source source = {
		.ctx = t,
		.start = start,
		.load = load,
		.ended = ended,
		.snapshot = snapshot,
		.kill = kill_command,
		.output = output,
		.ledger = ledger,
	};
	const struct top_state_options options = {
		.utf8 = cli_is_utf8(),
		.own_program = t->is_command,
		.sort = t->sort,
		.web = t->file,
	};
	FILE *terminal = isatty(STDOUT_FILENO) ? stdout : stderr;
	return top_live(&source, &options, cli_use_color(t->selection.color, terminal), err);
}

/* Called after the view of a command: prints what it wrote, and where its recording is. */
static void leave_command(struct top *t, bool detached)
{
	struct top_command *c = &t->command;
	bool kept = c->kept[0] != 0;
	if (!detached)
		top_command_ended(c, true); /* heft has sent it SIGTERM */
	c->detached = detached && !c->ended;
	top_command_release(c);
	if (!t->place.path[0])
		return;
	fputs("heft: ", stderr);
	if (c->detached) {
		cli_putf(stderr, "process %d goes on and is recorded in %s", (int)t->place.pid,
			 t->place.path);
		if (kept)
			cli_putf(stderr, "\n      its output goes to %s", c->kept);
		fprintf(stderr, "\n      heft top %d shows it again\n", (int)t->place.pid);
		return;
	}
	cli_putf(stderr, "recorded in %s\n      heft report ", t->place.path);
	words_print_shell(stderr, t->place.path);
	fputs(" says what it found\n", stderr);
}

static bool has_terminal(const struct top *t)
{
	return isatty(STDOUT_FILENO) || (t->is_command && isatty(STDERR_FILENO));
}

int cmd_top(int argc, char **argv)
{
	struct top t = {.verb = cli_verb_find("top"),
			.selection.limit = ROWS_SHOWN,
			.place.lock = PTHREAD_MUTEX_INITIALIZER};
	struct heft_error err = {0};
	int first, rc, command = cli_words_after_dashes(argc, argv);
	int status = cli_parse_options(t.verb, argc, argv, set_option, &t, &first);
	if (status == CLI_GO_ON)
		status = take_operands(&t, argc, argv, first, command);
	if (status != CLI_GO_ON)
		return status;
	bool live = !t.once && has_terminal(&t);
	if (t.attach && !live)
		return cli_usage_error(
			t.verb, "--attach shows what comes from now on, on a terminal: 'heft "
				"attach --duration 10s PID' records without one");
	if (live) {
		/* Fail before the screen changes if the process or file does not exist. */
		rc = t.is_command ? 0 : find_recording(&t, &err);
		if (rc == 0)
			rc = show_live(&t, &err);
		if (t.is_command && t.command.recorder > 0)
			leave_command(&t, rc == TOP_RESULT_DETACHED || rc < 0);
	} else {
		rc = t.is_command ? run_once(&t, &err) : print_once(&t, stdout, &err);
	}
	if (t.held)
		process_free(t.held);
	attach_offer_end(&t.offer);
	if (rc < 0 && err.message[0])
		cli_print_error(&err);
	if (t.is_command && t.command.ended)
		return t.command.status;
	if (rc < 0)
		return t.is_command ? CLI_RUN_FAILED : CLI_FAILED;
	return t.is_command ? CLI_SUCCESS : cli_finish_output(CLI_SUCCESS);
}
