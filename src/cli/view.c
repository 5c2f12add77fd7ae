/* `heft view [FILE...]` opens recordings and serves their page on loopback until it is interrupted. The
 * address, with its token, is the one line on stdout; everything else goes to stderr.
 *
 * Signals are blocked before any thread starts, and this file waits for them. Ctrl-C is the usual end, and
 * a success. */
#include "cli/attach_offer.h"
#include "cli/cli.h"

#include "agent/sampled_recording.h"
#include "cli/selection.h"
#include "cli/serve_options.h"
#include "cli/view_files.h"
#include "hosted/program_name.h"
#include "hosted/whole_io.h"
#include "http/http.h"
#include "pages/routes_view.h"
#include "record/recording_of.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_PORT = 7777, FURTHER_PORTS = 100, MOST_FILES = 64 };

struct view_command {
	const struct cli_verb *verb;
	bool no_open, quiet, has_port;
	bool attach;                    /* --attach: without being asked */
	struct recording_wish wish;     /* for processes that are attached to */
	struct cli_selection selection; /* only its moment is used */
	uint16_t port;
	struct serve_options serve; /* only names and TLS are used */
	char *newest;               /* owned: the newest file, if none was named */
	char moment[32];            /* the end of the page's address: "#at=end", or "" */
	struct view_recording *recordings[MOST_FILES];
	uint32_t count;
	VECTOR(struct attach_offer) offers; /* of processes that are recorded for this view */
};

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct view_command *c = ctx;
	uint64_t number;
	bool taken;
	switch (option->id) {
	case CLI_OPT_HOST:
	case CLI_OPT_TLS_CERT:
	case CLI_OPT_TLS_KEY:
	case CLI_OPT_TLS_CLIENT_CA: serve_options_set(&c->serve, option, value); return 0;
	case CLI_OPT_PORT:
		if (number_parse(value, UINT16_MAX, &number) < 0)
			return cli_usage_error(
				c->verb, "--port needs a number up to 65535, not '%s'", value);
		c->has_port = true;
		c->port = (uint16_t)number;
		return 0;
	case CLI_OPT_NO_OPEN: c->no_open = true; return 0;
	case CLI_OPT_ATTACH: c->attach = true; return 0;
	case CLI_OPT_ALLOC_FN: return recording_wish_set(&c->wish, c->verb, option, value, &taken);
	case CLI_OPT_QUIET: c->quiet = true; return 0;
	case CLI_OPT_AT:
		if (strcmp(value, "exit") == 0)
			return cli_usage_error(c->verb,
					       "--at takes peak, end or a time: exit is not one "
					       "moment, because every process has its own end (the "
					       "page's tables show what each left)");
		return cli_selection_set(&c->selection, c->verb, option, value);
	default: return cli_usage_error(c->verb, "--%s does not work here", option->name);
	}
}

/* ---- which recordings */

/* Finds the newest recording in this directory: people want to see what they have just recorded. */
static char *find_newest(void)
{
	glob_t found;
	struct stat st;
	const char *best = NULL;
	struct timespec newest = {0};
	if (glob("*.heft", 0, NULL, &found) != 0)
		return NULL;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (stat(found.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (!best || st.st_mtim.tv_sec > newest.tv_sec ||
		    (st.st_mtim.tv_sec == newest.tv_sec && st.st_mtim.tv_nsec > newest.tv_nsec)) {
			best = found.gl_pathv[i];
			newest = st.st_mtim;
		}
	}
	char *name = best ? strdup(best) : NULL;
	globfree(&found);
	return name;
}

/* Writes the moment as the page's address has it. Without one, the page shows the peak. */
static int choose_moment(struct view_command *c, const char *path, struct heft_error *err)
{
	struct cli_selection *s = &c->selection;
	if (s->moment == CLI_AT_END)
		snprintf(c->moment, sizeof c->moment, "#at=end");
	if (s->moment != CLI_AT_TIME)
		return 0;
	struct input_file in;
	int rc = input_file_open(&in, path, err);
	if (rc == 0)
		rc = cli_selection_resolve(s, &in, err);
	input_file_close(&in);
	if (rc == 0 && s->duration_ns == UINT64_MAX)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s has no times, so --at takes peak or end only", path);
	if (rc == 0 && cli_selection_at_end(s))
		snprintf(c->moment, sizeof c->moment, "#at=end");
	else if (rc == 0)
		snprintf(c->moment, sizeof c->moment, "#at=%" PRIu64, s->part.to_ns);
	return rc;
}

static int offer_attach(struct view_command *c, pid_t pid, char *path, size_t size, int rc,
			struct heft_error *err)
{
	struct attach_offer *offer = rc == HEFT_EREFUSED ? vector_add(&c->offers) : NULL;
	if (!offer)
		return rc;
	rc = attach_offer_make(offer, pid, c->attach, &c->wish, rc, err);
	snprintf(path, size, "%s", offer->path);
	return rc;
}

static int open_one(struct view_command *c, const char *operand, struct heft_error *err)
{
	char path[PATH_MAX], id[16], process[32];
	uint64_t pid;
	const char *name = path_file(operand);
	/* A number that is no file is a process. */
	if (access(operand, F_OK) < 0 && number_parse(operand, INT32_MAX, &pid) == 0) {
		struct heft_error ignored;
		int rc = recording_of((pid_t)pid, path, sizeof path, err);
		/* A sampled process of an agent has no recording yet, but it has a profile. */
		if (rc == HEFT_EREFUSED &&
		    sampled_recording_of((pid_t)pid, path, sizeof path, &ignored) == 0)
			rc = 0;
		if (rc < 0)
			rc = offer_attach(c, (pid_t)pid, path, sizeof path, rc, err);
		if (rc < 0)
			return rc;
		operand = path;
		snprintf(process, sizeof process, "pid %" PRIu64, pid);
		name = process;
	}
	snprintf(id, sizeof id, "%" PRIu32, c->count + 1);
	int rc = view_recording_open(&c->recordings[c->count], operand, id, name, &cli_view_loader,
				     err);
	if (rc == 0)
		view_recording_prepare(c->recordings[c->count++]);
	if (rc == 0 && c->count == 1) /* the page opens with the first one */
		rc = choose_moment(c, operand, err);
	return rc;
}

static int open_all(struct view_command *c, int argc, char **argv, int first,
		    struct heft_error *err)
{
	int rc = 0;
	if (first == argc) {
		c->newest = find_newest();
		if (!c->newest)
			return heft_fail(
				err, HEFT_EUSAGE,
				"no recording given, and there is no *.heft in this directory");
		return open_one(c, c->newest, err);
	}
	if (argc - first > MOST_FILES)
		return heft_fail(err, HEFT_EUSAGE, "at most %d recordings at once", MOST_FILES);
	for (int i = first; i < argc && rc == 0; i++)
		rc = open_one(c, argv[i], err);
	return rc;
}

/* ---- serving */

static void say(const char *text)
{
	cli_error("%s", text);
}

static bool has_screen(void)
{
	const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	return (x && *x) || (wayland && *wayland);
}

/* Makes a file that leads to the page, which only this user may read. The address has the token, and everybody sees
 * the arguments of a command. *path becomes "" if there is none. */
static void make_way_in(const char *url, char *path, size_t size)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char page[512];
	if (!dir || *dir != '/' || access(dir, W_OK) < 0)
		dir = "/tmp";
	bool fits = snprintf(path, size, "%s/heft-view-XXXXXX.html", dir) < (int)size;
	int fd = fits ? mkostemps(path, 5, O_CLOEXEC) : -1; /* mode 0600 */
	if (fd < 0) {
		*path = 0;
		return;
	}
	snprintf(page, sizeof page,
		 "<!doctype html><meta charset=\"utf-8\"><title>heft</title>"
		 "<script>location.replace(\"%s\")</script><a href=\"%s\">heft view</a>\n",
		 url, url);
	if (!write_whole(fd, page, strlen(page))) {
		unlink(path);
		*path = 0;
	}
	close(fd);
}

/* Starts a browser, without its output. */
static void open_browser(const char *path)
{
	signal(SIGCHLD, SIG_IGN); /* heft does not wait for the browser */
	pid_t pid = fork();
	if (pid != 0)
		return;
	sigset_t none;
	int nothing = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= 2 && nothing >= 0; fd++)
		dup2(nothing, fd);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGIO, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	http_restore_file_limit();
	setpgid(0, 0); /* Ctrl-C ends heft, not the browser */
	execlp("xdg-open", "xdg-open", path, (char *)NULL);
	_exit(127);
}

static int serve(struct view_command *c, const sigset_t *ends, struct heft_error *err)
{
	struct routes_view routes;
	struct http_server *server = NULL;
	struct http_tls tls = {0};
	char token[33], url[160], way_in[PATH_MAX] = "";
	struct http_token own_token = {.text = token, .sees = HTTP_SEES_ALL};
	const struct http_tokens tokens = {.items = &own_token, .count = 1};
	int signal_number;
	http_make_token(token);
	routes_view_init(&routes, c->recordings, c->count);
	struct http_options options = {
		.port = c->has_port ? c->port : USUAL_PORT,
		.tries = c->has_port ? 0 : FURTHER_PORTS,
		.tokens = &tokens,
		.names = c->serve.names,
		.tls = c->serve.tls.cert ? &tls : NULL,
		.headers = routes_view_headers(),
		.say = c->quiet ? NULL : say,
	};
	int rc = c->serve.tls.cert ? http_tls_read(&tls, &c->serve.tls, err) : 0;
	if (rc == 0)
		rc = http_server_start(&server, &options, routes.routes, err);
	if (rc < 0) {
		http_tls_fini(&tls);
		return rc;
	}
	snprintf(url, sizeof url, "http%s://127.0.0.1:%u/?token=%s%s", tls.cert ? "s" : "",
		 (unsigned)http_server_port(server), token, c->moment);
	printf("%s\n", url);
	rc = cli_finish_output(CLI_SUCCESS) == CLI_SUCCESS
		     ? 0
		     : heft_fail(err, HEFT_EIO, "the address could not be printed");
	if (rc == 0 && !c->quiet)
		cli_putf(stderr, "heft: serving %s at the address above; Ctrl-C ends it\n",
			 c->count == 1 ? view_recording_name(c->recordings[0]) : "the recordings");
	if (rc == 0 && !c->no_open && has_screen())
		make_way_in(url, way_in, sizeof way_in);
	if (*way_in)
		open_browser(way_in);
	if (rc == 0)
		while (sigwait(ends, &signal_number) != 0)
			;
	http_server_stop(server);
	http_tls_fini(&tls);
	if (*way_in)
		unlink(way_in);
	return rc;
}

int cmd_view(int argc, char **argv)
{
	struct view_command c = {.verb = cli_verb_find("view")};
	struct heft_error err = {0};
	sigset_t ends;
	int first;
	int status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status != CLI_GO_ON)
		return status;
	if ((status = serve_options_check_tls(&c.serve, c.verb)))
		return status;
	if (recording_wish_is_given(&c.wish) && !c.attach)
		return cli_usage_error(c.verb, "--alloc-fn needs --attach");
	signal(SIGPIPE, SIG_IGN); /* whoever reads the address may be gone */
	/* Of the lease that tells whether a recording is being written, if somebody opens it just then. */
	signal(SIGIO, SIG_IGN);
	int rc = open_all(&c, argc, argv, first, &err);
	if (rc == 0) {
		sigemptyset(&ends);
		sigaddset(&ends, SIGINT);
		sigaddset(&ends, SIGTERM);
		sigaddset(&ends, SIGHUP);
		pthread_sigmask(SIG_BLOCK, &ends, NULL);
		rc = serve(&c, &ends, &err);
	}
	for (uint32_t i = 0; i < c.count; i++)
		view_recording_close(c.recordings[i]);
	for (size_t i = 0; i < c.offers.count; i++)
		attach_offer_end(&c.offers.items[i]);
	vector_free(&c.offers);
	free(c.newest);
	if (rc < 0 && !err.message[0]) /* heft attach has said why */
		return CLI_FAILED;
	if (rc < 0)
		return cli_failed(&err, rc);
	return CLI_SUCCESS;
}
