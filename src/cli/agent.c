/* `heft agent` watches all sampled programs of a machine. Its default directories depend on who runs it:
 * root uses /run/heft and /var/lib/heft, anyone else XDG_RUNTIME_DIR and XDG_STATE_HOME. It makes
 * directories that do not exist.
 *
 * It writes one line an event to stderr, which systemd keeps in the journal. */
#include "cli/cli.h"

#include "agent/agent_loop.h"
#include "agent/sampled.h"
#include "cli/agent_guardian.h"
#include "cli/agent_processes.h"
#include "cli/record_verb.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEFAULT_LISTEN "127.0.0.1:6070"
#define DEFAULT_DIR "/run/heft"
#define DEFAULT_OUTPUT "/var/lib/heft"
#define DEFAULT_QUOTA (1ull << 30)
enum { RULES_MOST = 64 };

struct agent_command {
	struct agent_options o;
	struct live_server server;
	struct serve_options serve;
	char dir[4096], output[4096], cache[4096];
	bool quiet;
	const char *globs[RULES_MOST];
	struct guardian_settings guardian;
};

static int set_keep(struct agent_command *a, const char *value)
{
	struct cli_time time;
	uint64_t count;
	if (!number_parse(value, 100000, &count))
		a->o.keep_count = (uint32_t)count;
	else if (!cli_parse_time(value, &time) && !time.relative)
		a->o.keep_ns = time.time_ns;
	else
		return cli_usage_error(
			cli_verb_find("agent"),
			"--keep needs a number of programs or a time such as 2h, not '%s'", value);
	return 0;
}

static int add_rule(struct agent_command *a, const char *glob)
{
	const struct cli_verb *verb = cli_verb_find("agent");
	if (!*glob)
		return cli_usage_error(
			verb, "--attach-exe needs the name of an executable, or a pattern");
	if (strchr(glob, '/') && *glob != '/' && *glob != '*')
		return cli_usage_error(
			verb,
			"--attach-exe=%s matches nothing: with a slash it is compared "
			"with whole paths, which begin with one",
			glob);
	if (a->o.attach.count == RULES_MOST)
		return cli_usage_error(verb, "more than %d times --attach-exe", (int)RULES_MOST);
	a->globs[a->o.attach.count++] = glob;
	return 0;
}

static int set(void *ctx, const struct cli_option *option, const char *value)
{
	struct agent_command *a = ctx;
	switch (option->id) {
	case CLI_OPT_DIR: a->o.dir = value; break;
	case CLI_OPT_OUTPUT_DIR: a->o.output_dir = value; break;
	case CLI_OPT_KEEP: return set_keep(a, value);
	case CLI_OPT_QUOTA:
		if (size_parse(value, &a->o.quota_bytes) < 0)
			return cli_usage_error(cli_verb_find("agent"),
					       "--quota needs a size such as 500M, not '%s'",
					       value);
		break;
	case CLI_OPT_ATTACH_EXE: return add_rule(a, value);
	case CLI_OPT_SAMPLE:
		return record_sample_set(cli_verb_find("agent"), value, &a->guardian.sample_bytes,
					 &a->guardian.sample_automatic);
	case CLI_OPT_ALLOC_FN:
		return record_function_set(cli_verb_find("agent"), value, &a->guardian.functions);
	case CLI_OPT_QUIET: a->quiet = true; break;
	case CLI_OPT_VERBOSE: a->o.verbose = true; break;
	default: serve_options_set(&a->serve, option, value); break;
	}
	return 0;
}

static void say(const char *text)
{
	cli_putf(stderr, "heft agent: %s\n", text);
}

/* The user's own directory for heft, by the environment; NULL: it names none. */
static const char *user_dir(const char *variable, const char *below_home, char *path, size_t size)
{
	const char *base = getenv(variable), *home = getenv("HOME");
	if (base && *base == '/')
		snprintf(path, size, "%.3900s/heft", base);
	else if (below_home && home && *home == '/')
		snprintf(path, size, "%.3900s/%s/heft", home, below_home);
	else
		return NULL;
	return path;
}

/* Makes a directory with this mode, and those above it with 0755. */
static int make_dir(const char *path, mode_t mode, struct heft_error *err)
{
	char part[4096];
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return heft_fail(err, HEFT_EUSAGE, "the path is too long: %.100s...", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(part, 0755);
		*slash = '/';
	}
	/* chmod, because the umask takes bits from mkdir's mode. */
	if (mkdir(path, 0700) || chmod(path, mode))
		return heft_fail_errno(err, "cannot make the directory %s", path);
	return 0;
}

static int choose_dirs(struct agent_command *a, struct heft_error *err)
{
	bool root = geteuid() == 0;
	const char *given = getenv("HEFT_DIR");
	if (!a->o.dir && given && *given == '/')
		a->o.dir = given;
	if (!a->o.dir)
		a->o.dir = root ? DEFAULT_DIR
				: user_dir("XDG_RUNTIME_DIR", NULL, a->dir, sizeof a->dir);
	if (!a->o.dir)
		return heft_fail(
			err, HEFT_EUSAGE,
			"no session directory: neither HEFT_DIR nor XDG_RUNTIME_DIR is set\n"
			"--dir names one, the same that programs have in HEFT_DIR.");
	if (!a->o.output_dir)
		a->o.output_dir = root ? DEFAULT_OUTPUT
				       : user_dir("XDG_STATE_HOME", ".local/state", a->output,
						  sizeof a->output);
	if (!a->o.output_dir) {
		snprintf(a->output, sizeof a->output, "%.3900s/ended", a->o.dir);
		a->o.output_dir = a->output;
	}
	/* Programs of root that drop their privileges must still make their files here: see
	 * session/session_dir.c. */
	int rc = make_dir(a->o.dir, root ? 01733 : 0700, err);
	/* Programs take no other HEFT_DIR than a whole path. */
	if (!rc && *a->o.dir != '/' && realpath(a->o.dir, a->dir))
		a->o.dir = a->dir;
	return rc ? rc : make_dir(a->o.output_dir, root ? 0755 : 0700, err);
}

/* With a cache, symbols are looked up only once. Root's agent has a folder for each user; any other has its user's
 * own. */
static void choose_cache(struct agent_command *a)
{
	const char *base = getenv("XDG_CACHE_HOME");
	if (geteuid() != 0)
		return;
	snprintf(a->cache, sizeof a->cache, "%.3900s/heft-agent",
		 base && *base == '/' ? base : "/var/cache");
	a->o.cache_dir = a->cache;
}

static void warn_of_disk(const struct agent_command *a)
{
	struct statfs fs;
	char text[4300];
	if (statfs(a->o.dir, &fs) || fs.f_type == TMPFS_MAGIC || a->quiet)
		return;
	snprintf(text, sizeof text,
		 "%s is not in memory (tmpfs): each process takes 20 ms longer to start and to end",
		 a->o.dir);
	say(text);
}

static int prepare_rules(struct agent_command *a, struct heft_error *err)
{
	char blob[4096];
	int rc = a->o.attach.count ? cli_locate_blob(blob, sizeof blob, err) : 0;
	if (rc || !a->o.attach.count)
		return rc;
	a->guardian.session_dir = a->o.dir;
	a->guardian.agent_is_root = geteuid() == 0;
	if (!a->guardian.sample_bytes)
		a->guardian.sample_bytes = SAMPLED_RATE_DEFAULT;
	a->o.attach.globs = a->globs;
	a->o.attach.guard = agent_guard;
	a->o.attach.ctx = &a->guardian;
	a->o.attach.blob = open(blob, O_RDONLY | O_CLOEXEC);
	return a->o.attach.blob < 0 ? heft_fail_errno(err, "%s", blob) : 0;
}

static int serve(void *ctx, int link)
{
	struct agent_command *a = ctx;
	return agent_front(&a->server, link);
}

/* In the supervisor. The server has the secrets now: here they are not needed. */
static void served(void *ctx, const char *place)
{
	struct agent_command *a = ctx;
	live_server_forget(&a->server);
	if (a->quiet)
		return;
	cli_putf(stderr, "heft agent: serving %s for programs with HEFT_DIR=%s\n", place, a->o.dir);
	struct heft_error ignored;
	char library[4096];
	if (!cli_locate_preload(library, sizeof library, &ignored))
		cli_putf(stderr,
			 "heft agent: their other variables: LD_PRELOAD=%s HEFT_SAMPLE=512k\n",
			 library);
	for (uint32_t i = 0; i < a->o.attach.count; i++)
		cli_putf(stderr, "heft agent: attaching to programs that match %s\n", a->globs[i]);
}

int cmd_agent(int argc, char **argv)
{
	struct agent_command a = {.o = {.keep_ns = 3600ull * 1000000000ull,
					.keep_count = 100,
					.quota_bytes = DEFAULT_QUOTA},
				  .serve = {.listen = DEFAULT_LISTEN}};
	struct heft_error err = {0};
	int first;
	const struct cli_verb *verb = cli_verb_find("agent");
	int rc = cli_parse_options(verb, argc, argv, set, &a, &first);
	if (rc != CLI_GO_ON)
		return rc;
	if (first < argc)
		return cli_usage_error(verb, "unexpected argument '%s'", argv[first]);
	if ((a.guardian.sample_bytes || a.guardian.functions.count) && !a.o.attach.count)
		return cli_usage_error(verb, "%s goes with --attach-exe",
				       a.guardian.sample_bytes ? "--sample" : "--alloc-fn");
	if ((rc = serve_options_check(&a.serve, verb)))
		return rc;
	rc = live_server_init(&a.server, &a.serve, &err);
	if (!rc)
		rc = choose_dirs(&a, &err);
	if (!rc)
		rc = prepare_rules(&a, &err);
	if (!rc) {
		umask(077);               /* only its user may read what it saves */
		signal(SIGPIPE, SIG_IGN); /* whoever reads the log may be gone */
		warn_of_disk(&a);
		choose_cache(&a);
		a.o.say = a.quiet ? NULL : say;
		a.o.serve = serve;
		a.o.serve_ctx = &a;
		a.o.served = served;
		a.o.parts = agent_worker_parts();
		rc = agent_run(&a.o, &err);
	}
	live_server_fini(&a.server);
	return rc ? cli_failed(&err, rc) : CLI_SUCCESS;
}
