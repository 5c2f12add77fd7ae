/* The command line. One table of verbs (verb_table.c) drives dispatch, help, completions and the test that
 * every verb has its manual page. A verb is one file here with one function. Its options stand in the
 * table; cli_parse_options() calls the verb back once for each option that was given. */
#ifndef HEFT_CLI_CLI_H
#define HEFT_CLI_CLI_H

#include "hosted/error.h"
#include "hosted/number_parse.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum cli_exit {
	CLI_SUCCESS = 0,
	CLI_FAILED = 1,        /* failed, or over budget */
	CLI_USAGE = 2,         /* wrong usage, in every verb but `run` */
	CLI_RUN_FAILED = 125,  /* `run`: heft itself failed, or wrong usage */
	CLI_RUN_NOEXEC = 126,  /* `run`: the command cannot be executed */
	CLI_RUN_NOTFOUND = 127 /* `run`: no such command */
};

/* What an option means, the same in every verb. */
enum cli_option_id {
	CLI_OPT_HELP,
	CLI_OPT_OUTPUT,
	CLI_OPT_FORCE,
	CLI_OPT_QUIET,
	CLI_OPT_VERBOSE,
	CLI_OPT_JSON,
	CLI_OPT_COLOR,
	CLI_OPT_FOLLOW,
	CLI_OPT_LIMIT_SIZE,
	CLI_OPT_SORT,
	CLI_OPT_NUMBER,
	CLI_OPT_TREE,
	CLI_OPT_INVERT,
	CLI_OPT_PROCESSES,
	CLI_OPT_FOCUS,
	CLI_OPT_IGNORE,
	CLI_OPT_FROM,
	CLI_OPT_TO,
	CLI_OPT_THREAD,
	CLI_OPT_PID,
	CLI_OPT_COMPLETIONS,
	CLI_OPT_AT,
	CLI_OPT_ALL,
	CLI_OPT_EXPLAIN,
	CLI_OPT_FULL,
	CLI_OPT_THREADS,
	CLI_OPT_SIZES,
	CLI_OPT_LIFETIMES,
	CLI_OPT_PER,
	CLI_OPT_BUDGET,
	CLI_OPT_UPDATE,
	CLI_OPT_HEADROOM,
	CLI_OPT_FRAMES,
	CLI_OPT_SAMPLE,
	CLI_OPT_THRESHOLD,
	CLI_OPT_FORMAT,
	CLI_OPT_MEASURE,
	CLI_OPT_RAW,
	CLI_OPT_PORT,
	CLI_OPT_NO_OPEN,
	CLI_OPT_SOURCE,
	CLI_OPT_EVENTS,
	CLI_OPT_ONCE,
	CLI_OPT_PATH_FD,
	CLI_OPT_LISTEN,
	CLI_OPT_TOKEN_FILE,
	CLI_OPT_HOST,
	CLI_OPT_SOCKET,
	CLI_OPT_TLS_CERT,
	CLI_OPT_TLS_KEY,
	CLI_OPT_TLS_CLIENT_CA,
	CLI_OPT_LINGER,
	CLI_OPT_DURATION,
	CLI_OPT_OLDER,
	CLI_OPT_ALLOC_FN,
	CLI_OPT_MEMPOOLS,
	CLI_OPT_COUNT,
	CLI_OPT_DIR,
	CLI_OPT_OUTPUT_DIR,
	CLI_OPT_KEEP,
	CLI_OPT_QUOTA,
	CLI_OPT_ATTACH_EXE,
	CLI_OPT_COMPACT,
	CLI_OPT_IGNORE_UNSEEN,
	CLI_OPT_CSV,
	CLI_OPT_VIA,
	CLI_OPT_ATTACH,
	CLI_OPT_SUPPRESSIONS,
	CLI_OPT_LEAKS,
	CLI_OPT_LEDGER,
	CLI_OPT_NO_LEDGER,
	CLI_OPT_LEDGER_EVERY,
	CLI_OPT_MOMENT,
	CLI_OPT_BASELINE,
	CLI_OPT_UPDATE_BASELINE,
	CLI_OPT_JUNIT,
	CLI_OPT_ANNOTATIONS,
	CLI_OPT_FAILED_ONLY,
};

enum cli_argument { CLI_NO_ARG, CLI_ARG, CLI_OPTIONAL_ARG /* only as --name=value */ };

struct cli_option {
	enum cli_option_id id;
	const char *name; /* long, without its dashes; NULL ends a list */
	char letter;      /* 0: none */
	enum cli_argument argument;
	const char
		*value; /* how help names the argument; "a|b|c" lists all values that it can have */
	const char *help; /* one line */
	bool hidden;      /* parsed, but neither in help nor in the manual */
};
/* "NAME|TID" describes two kinds of value, "all|none" lists all values: only values themselves are
 * written in small letters. */
static inline bool cli_option_has_list(const struct cli_option *o)
{
	return o->value && o->value[0] >= 'a' && o->value[0] <= 'z';
}

struct cli_verb {
	const char *name;
	const char *summary; /* a few words, for `heft help` */
	const char *usage;   /* what follows "heft VERB " */
	const struct cli_option *options;
	int (*function)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
	int usage_status;                       /* exit status for wrong usage */
	bool stops_at_operand; /* the first operand begins another command, with its own options */
	const char *operands;  /* for completions: "file", "command", "process", "verb" */
};

extern const struct cli_verb cli_verbs[]; /* ends with a NULL name */
const struct cli_verb *cli_verb_find(const char *name);
/* The verb that a mistyped one is most like; NULL: it is like none. */
const struct cli_verb *cli_verb_nearest(const char *name);

/* How many insertions, deletions, replacements and swaps of neighbours make one word the other. Words of
 * more than 31 bytes are far from every word. */
size_t cli_edit_distance(const char *a, const char *b);
/* The smallest distance at which a word of this length is another word, not a mistyped one. */
size_t cli_too_far(size_t length);

/* Calls set() for each option in order; a value of an "a|b|c" list is already checked. set() returns 0, or
 * the exit status to end with, after it has printed why (cli_usage_error). argv is permuted so that the
 * operands stand last: *first is the index of the first one, argc if there is none. `--` ends the
 * options. Returns CLI_GO_ON, or the status to end with: 0 after --help, which works here for all
 * verbs. */
#define CLI_GO_ON (-1)
typedef int cli_set_fn(void *ctx, const struct cli_option *option, const char *value);
int cli_parse_options(const struct cli_verb *verb, int argc, char **argv, cli_set_fn *set,
		      void *ctx, int *first);

/* For verbs that take exactly one recording. Returns CLI_GO_ON, or the status to end with. */
int cli_one_recording(const struct cli_verb *verb, int argc, char **argv, int first);

/* How many words stand after the first "--", for verbs that take a command there; -1: there is no "--".
 * Call it before cli_parse_options, which moves words. */
int cli_words_after_dashes(int argc, char **argv);

/* Prints "heft VERB: ..." and where to find help on stderr; returns the verb's usage status. Without a verb
 * (NULL): "heft: ...", and 2. */
int cli_usage_error(const struct cli_verb *verb, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Prints a text that may hold names of a user or a program: shows control characters and the like as \xNN,
 * but keeps line ends. Everything that heft prints on a terminal goes through here or name_words.h. */
void cli_putf(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "heft: " and a text on stderr, for functions that report by a callback. */
void cli_say(const char *text);
/* The same as a line to print, to free(). NULL: no memory. */
char *cli_message(const char *text);
/* cli_say of a recorder, which waits for nobody: what standard error does not take now is kept (say_soon.c). One thread
 * may call these two. */
void cli_say_soon(const char *text);
/* At the end: writes what was kept, and waits for that. */
void cli_say_kept(void);
/* "heft: ..." on stderr. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints a hosted error the same way, and what can be done about it (its further lines). */
void cli_print_error(const struct heft_error *err);
/* The same; returns the status to end with: CLI_USAGE for HEFT_EUSAGE, else CLI_FAILED. */
int cli_failed(const struct heft_error *err, int rc);
/* Ends a verb that wrote to stdout: flushes it and returns `status`. If the output could not be written, as
 * on a full disk, says so and returns CLI_FAILED. */
int cli_finish_output(int status);

/* Values. Each returns 0, or HEFT_EUSAGE if the text is not one. */
struct cli_time {
	bool relative;  /* percent of the run */
	double percent; /* 0 to 100 */
	uint64_t time_ns;
	const char *mark; /* the name behind "mark:" instead of a time; only in selection.h */
};
int cli_parse_time(const char *text, struct cli_time *time); /* 10ns us ms s m h, or 50% */
/* A positive process id: 0, or HEFT_EUSAGE. */
int cli_parse_pid(const char *text, pid_t *pid);
uint64_t cli_time_resolve(const struct cli_time *time, uint64_t duration_ns);

enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER };
int cli_parse_color(const char *text, enum cli_color *color);
/* CLI_COLOR_AUTO: if `stream` is a terminal that can show colours, and NO_COLOR is not set. */
bool cli_use_color(enum cli_color color, FILE *stream);

/* Columns of a line: $COLUMNS, or the terminal's; 0: neither is known. */
size_t cli_width(FILE *stream);
/* The locale's text is UTF-8. */
bool cli_is_utf8(void);

/* Decides which frames are the user's own, by the built-in rules, the user's file, and `file` unless it is
 * NULL. Every verb that shows frames calls this when its profile is loaded. */
int cli_apply_frame_rules(struct profile *p, const char *file, struct heft_error *err);

/* Finds the library for the profiled program: beside this executable (in a build directory), or in
 * ../lib/heft relative to it (installed). The path is absolute. */
int cli_locate_preload(char *path, size_t size, struct heft_error *err);
int cli_locate_blob(char *path, size_t size, struct heft_error *err);

void cli_print_help(const struct cli_verb *verb, FILE *out); /* NULL: heft itself */
void cli_print_bash_completion(FILE *out);

int cmd_run(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_detach(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_map(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_help(int argc, char **argv);

#endif
