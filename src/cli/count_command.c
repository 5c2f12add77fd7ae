/* heft run --count: runs a command that counts its calls, and prints the sums. Nothing is recorded. */
#include "cli/count_command.h"

#include "hosted/json_writer.h"
#include "hosted/number_words.h"
#include "record/counted_run.h"
#include "record/output_name.h"
#include "report/report_words.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_SHOWN = 10 };
/* As in src/capture/count.h: how far the peak of several threads may be off, for each of them and once more */
enum { FOLD_BYTES = 32 << 10 };

static int check(const struct record_verb *r)
{
	if (r->o.sample_bytes || r->o.sample_automatic)
		return cli_usage_error(r->verb, "--count does not go with --sample");
	if (r->via == LAUNCH_VIA_ENTRY)
		return cli_usage_error(r->verb, "--count does not go with --via=entry");
	if (serve_options_wanted(&r->serve) || r->o.leaks || r->o.all_ledgers ||
	    r->o.ledger_every_ns || r->o.limit_bytes)
		return cli_usage_error(r->verb, "--count records nothing: of the other options "
						"only -o, --force, --follow, --quiet and --color "
						"go with it");
	return 0;
}

/* ---- words */

static void print_counts(FILE *out, const struct counted_sums *s, bool several)
{
	struct words live = words_bytes(s->live_bytes > 0 ? (uint64_t)s->live_bytes : 0);
	int64_t blocks = (int64_t)(s->allocations - s->frees);
	cli_putf(out, "  %-13s %s", several ? "largest peak" : "peak",
		 words_bytes(s->peak_bytes).text);
	if (s->threads > 1) /* its peak is not exact */
		cli_putf(out, " within %s", words_bytes((s->threads + 1ull) * FOLD_BYTES).text);
	cli_putf(out, "\n  %-13s %s in %s\n", several ? "left at exit" : "live at end", live.text,
		 words_blocks(blocks > 0 ? (uint64_t)blocks : 0).text);
	cli_putf(out, "  allocations   %s, %s; ", words_count(s->allocations).text,
		 words_bytes(s->allocated_bytes).text);
	cli_putf(out, "%s reallocation%s, %s free%s\n", words_count(s->reallocations).text,
		 s->reallocations == 1 ? "" : "s", words_count(s->frees).text,
		 s->frees == 1 ? "" : "s");
}

static void print_processes(FILE *out, const struct counted_result *c)
{
	cli_putf(out, "  %7s %14s %11s %11s  %s\n", "pid", "allocations", "allocated", "peak",
		 "program");
	for (uint32_t i = 0; i < c->count && i < PROCESSES_SHOWN; i++) {
		const struct counted_process *p = &c->processes[i];
		const char *slash = strrchr(p->program, '/');
		cli_putf(out, "  %7d %14s %11s %11s  ", (int)p->pid,
			 words_count(p->sums.allocations).text,
			 words_bytes(p->sums.allocated_bytes).text,
			 words_bytes(p->sums.peak_bytes).text);
		words_print(out, slash ? slash + 1 : p->program, 40);
		fputs(p->running ? " (still running)\n"
		      : p->cut   ? " (its last calls are missing)\n"
				 : "\n",
		      out);
	}
	if (c->count > PROCESSES_SHOWN)
		cli_putf(out, "  and %u more processes\n", c->count - PROCESSES_SHOWN);
}

static void print_result(FILE *out, const struct counted_result *c, char *const *argv, int argc)
{
	const int status = c->status;
	fputs("heft: ", out);
	words_print(out, argv[0], 40);
	cli_putf(out, "%s: %s, %s %d: counted, not recorded\n", argc > 1 ? " ..." : "",
		 words_time((double)c->duration_ns).text,
		 WIFSIGNALED(status) ? "killed by signal" : "exit status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	if (!c->count) {
		fputs("  ! no process has counted: the command ended before heft's library was "
		      "loaded, or nothing can be preloaded into it\n",
		      out);
		return;
	}
	print_counts(out, &c->all, c->count > 1);
	if (c->count > 1)
		print_processes(out, c);
	else if (c->processes[0].cut && !c->processes[0].running)
		fputs("  ! it was killed, or left by a system call of its own: its last calls are "
		      "missing\n",
		      out);
	cli_putf(out, "Next: heft run -- COMMAND records where these calls come from\n");
}

/* ---- JSON */

static void write_sums(struct json_writer *w, const struct counted_sums *s)
{
	json_write_key(w, "totals");
	json_write_object(w);
	json_write_key_uint(w, "allocations", s->allocations);
	json_write_key_uint(w, "reallocations", s->reallocations);
	json_write_key_uint(w, "frees", s->frees);
	json_write_key_uint(w, "allocated_bytes", s->allocated_bytes);
	json_write_key_int(w, "live_bytes", s->live_bytes);
	json_write_key_int(w, "live_blocks", (int64_t)(s->allocations - s->frees));
	json_write_key_uint(w, "peak_bytes", s->peak_bytes);
	json_write_key_uint(w, "peak_within_bytes",
			    s->threads > 1 ? (s->threads + 1ull) * FOLD_BYTES : 0);
	json_write_key_uint(w, "threads", s->threads);
	json_write_object_end(w);
}

static void write_json(FILE *out, const struct counted_result *c, char *const *argv, int argc)
{
	struct json_writer w;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_uint(&w, "schema", 1);
	json_write_key_string(&w, "heft", HEFT_VERSION);
	json_write_key_string(&w, "mode", "count");
	json_write_key(&w, "command");
	json_write_array(&w);
	for (int i = 0; i < argc; i++)
		json_write_string(&w, argv[i]);
	json_write_array_end(&w);
	json_write_key_uint(&w, "duration_ns", c->duration_ns);
	json_write_key_int(&w, "exit_status", WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 0);
	json_write_key_int(&w, "signal", WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0);
	write_sums(&w, &c->all);
	json_write_key(&w, "processes");
	json_write_array(&w);
	for (uint32_t i = 0; i < c->count; i++) {
		json_write_object(&w);
		json_write_key_int(&w, "pid", c->processes[i].pid);
		json_write_key_string(&w, "program", c->processes[i].program);
		json_write_key_bool(&w, "running", c->processes[i].running);
		json_write_key_bool(&w, "cut", c->processes[i].cut);
		write_sums(&w, &c->processes[i].sums);
		json_write_object_end(&w);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	putc('\n', out);
}

/* Where the numbers go as JSON, if -o was given. */
struct json_output {
	const struct record_verb *verb;
	const char *program;
	FILE *file; /* NULL: nowhere */
	char path[PATH_MAX];
};

/* The file is made before the command runs: if it cannot be, that is a reason not to run it. */
static int open_output(void *ctx, pid_t pid, struct heft_error *err)
{
	struct json_output *out = ctx;
	const struct recorder_options *o = &out->verb->o;
	if (!o->output)
		return 0;
	output_name(o->output, out->program, pid, out->path, sizeof out->path);
	int fd = open(out->path, O_WRONLY | O_CREAT | O_CLOEXEC | (o->force ? O_TRUNC : O_EXCL),
		      0666);
	if (fd < 0 && errno == EEXIST)
		return heft_fail(err, HEFT_EREFUSED,
				 "%s exists\n--force overwrites it, -o names another file",
				 out->path);
	out->file = fd < 0 ? NULL : fdopen(fd, "w");
	return out->file ? 0 : heft_fail_errno(err, "cannot write %s", out->path);
}

int count_command(const struct record_verb *r, int argc, char **argv)
{
	struct launch_plan plan;
	struct counted_result result = {0};
	struct json_output json = {.verb = r, .program = plan.path};
	struct heft_error err = {0};
	char preload[PATH_MAX];
	int rc = check(r);
	if (rc)
		return rc;
	if ((rc = cli_locate_preload(preload, sizeof preload, &err)) ||
	    (rc = launch_inspect(argv[0], LAUNCH_VIA_COUNT, &plan, &err)))
		return run_refused(&err, rc);
	if (plan.own_malloc_text[0] && !r->quiet)
		cli_say(plan.own_malloc_text);
	const struct counted_options options = {
		.argv = argv,
		.plan = &plan,
		.preload = preload,
		.follow = r->o.follow,
		.in_child = http_restore_file_limit,
		.prepare = open_output,
		.ctx = &json,
	};
	rc = counted_run(&options, &result, &err);
	if (!rc && !r->quiet)
		print_result(stderr, &result, argv, argc);
	if (json.file && rc) {
		fclose(json.file);
		unlink(json.path);
	} else if (json.file) {
		write_json(json.file, &result, argv, argc);
		if (ferror(json.file) | fclose(json.file))
			cli_say("the numbers could not be written to the file");
	}
	const int status = WIFSIGNALED(result.status) ? 128 + WTERMSIG(result.status)
						      : WEXITSTATUS(result.status);
	counted_result_fini(&result);
	return rc ? run_refused(&err, rc) : status;
}
