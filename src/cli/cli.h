/* The command line: one table of verbs drives dispatch, help, completions and the test that every
 * verb has its manual page. A verb is one file here with one function; it declares its options in
 * the table (verb_table.c) and gets them back, one call each, from cli_parse_options(). */
#ifndef HEFT_CLI_CLI_H
#define HEFT_CLI_CLI_H

#include "hosted/error.h"
#include "hosted/number_parse.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_exit {
	CLI_SUCCESS = 0,
	CLI_FAILED = 1,        /* failed, or over budget */
	CLI_USAGE = 2,         /* everywhere but in `run` */
	CLI_RUN_FAILED = 125,  /* `run`: heft's own failure, wrong usage included */
	CLI_RUN_NOEXEC = 126,  /* `run`: cannot be executed */
	CLI_RUN_NOTFOUND = 127 /* `run`: no such command */
};

/* What an option means, whatever verb it stands under. */
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
	CLI_OPT_ONCE,
	CLI_OPT_PATH_FD,
	CLI_OPT_LISTEN,
	CLI_OPT_TOKEN_FILE,
	CLI_OPT_LINGER,
	CLI_OPT_DIR,
	CLI_OPT_OUTPUT_DIR,
	CLI_OPT_KEEP,
	CLI_OPT_COMPACT,
	CLI_OPT_IGNORE_UNSEEN,
};

enum cli_argument { CLI_NO_ARG, CLI_ARG, CLI_OPTIONAL_ARG /* only as --name=value */ };

struct cli_option {
	enum cli_option_id id;
	const char *name; /* long, without its dashes; NULL ends a list */
	char letter;      /* 0: none */
	enum cli_argument argument;
	const char *value; /* how help names the argument; "a|b|c" is the list of all it can be */
	const char *help;  /* one line */
	bool hidden;       /* parsed, but in neither help nor manual */
};

struct cli_verb {
	const char *name;
	const char *summary; /* a few words, for `heft help` */
	const char *usage;   /* what follows "heft VERB " */
	const struct cli_option *options;
	int (*function)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
	int usage_status;                       /* exit status for wrong usage */
	bool stops_at_operand; /* the first operand ends the options: the rest is another command */
	const char *operands;  /* for completions: "file", "command", "verb" */
};

extern const struct cli_verb cli_verbs[]; /* ends with a NULL name */
const struct cli_verb *cli_verb_find(const char *name);
/* The verb nearest to a mistyped one, or NULL if none is near. */
const struct cli_verb *cli_verb_nearest(const char *name);

/* Insertions, deletions, replacements and swaps of neighbours between two words; words longer than
 * 31 bytes are never near. */
size_t cli_edit_distance(const char *a, const char *b);
/* The distance from which on a word of that length is another word, not a slip. */
size_t cli_too_far(size_t length);

/* Each option found is handed to set() in order, its value already checked against an "a|b|c"
 * list. set() returns 0, or the exit status to end with (having told why: cli_usage_error).
 * argv is permuted so that the operands stand last: *first is the index of the first one, argc if
 * there is none. `--` ends the options. Returns CLI_GO_ON, or the status to end with (0 after
 * --help, which is handled here for all verbs). */
#define CLI_GO_ON (-1)
typedef int cli_set_fn(void *ctx, const struct cli_option *option, const char *value);
int cli_parse_options(const struct cli_verb *verb, int argc, char **argv, cli_set_fn *set,
		      void *ctx, int *first);

/* For verbs of one recording: exactly one operand. Returns CLI_GO_ON, or the status to end with. */
int cli_one_recording(const struct cli_verb *verb, int argc, char **argv, int first);

/* How many words stand after the first "--", for verbs that take a command there; -1: there is no
 * "--". To be asked before cli_parse_options, which moves words. */
int cli_words_after_dashes(int argc, char **argv);

/* "heft VERB: ..." and where to find help, on stderr; returns the verb's usage status. verb may be
 * NULL (then "heft: ..." and 2). */
int cli_usage_error(const struct cli_verb *verb, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A text with names that a user or a program chose: control characters and the like are shown as \xNN,
 * lines stay. Whatever heft prints on a terminal goes through here or through name_words.h. */
void cli_putf(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "heft: ..." on stderr. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Prints a hosted error the same way, its second line (the way out) included. */
void cli_print_error(const struct heft_error *err);
/* The same, and the status that a verb ends with for it: CLI_USAGE of HEFT_EUSAGE, else CLI_FAILED. */
int cli_failed(const struct heft_error *err, int rc);
/* Ends a verb that wrote to stdout: flushes it, and returns `status`, or CLI_FAILED (told) if the
 * output did not arrive, as on a full disk. */
int cli_finish_output(int status);

/* Values. Each returns 0, or HEFT_EUSAGE if the text is not one. */
struct cli_time {
	bool relative;  /* percent of the run */
	double percent; /* 0 to 100 */
	uint64_t time_ns;
};
int cli_parse_time(const char *text, struct cli_time *time); /* 10ns us ms s m h, or 50% */
uint64_t cli_time_resolve(const struct cli_time *time, uint64_t duration_ns);

enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER };
int cli_parse_color(const char *text, enum cli_color *color);
/* auto: `stream` is a terminal that can show it, and NO_COLOR is not set. */
bool cli_use_color(enum cli_color color, FILE *stream);

/* Columns of a line: $COLUMNS, or the terminal's; 0: neither is known. */
size_t cli_width(FILE *stream);
/* The locale's text is UTF-8. */
bool cli_is_utf8(void);

/* Decides which frames are the user's own by the built-in rules, the user's file, and `file` unless
 * it is NULL. Every verb that shows frames calls this once its profile is loaded. */
int cli_apply_frame_rules(struct profile *p, const char *file, struct heft_error *err);

/* Where the library for the profiled program is: beside this executable (a build directory), or in
 * ../lib/heft relative to it (installed). Fills path (absolute) or err. */
int cli_locate_preload(char *path, size_t size, struct heft_error *err);

void cli_print_help(const struct cli_verb *verb, FILE *out); /* NULL: heft itself */
void cli_print_bash_completion(FILE *out);

int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_agent(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_help(int argc, char **argv);

#endif
