/* The table of verbs. Dispatch (main.c), help (help.c), completions (completion.c) and the test of manual
 * pages (tests/unit/test_verbs.c) read it, so a verb or an option is declared only here. Options that
 * several verbs share are macros, so that an option has the same letter and words in every verb.
 *
 * Invariant: every option list ends with OPTION_HELP and END, because --help works everywhere. */
#include "cli/cli.h"

#include <string.h>

#define OPTION_HELP {CLI_OPT_HELP, "help", 'h', CLI_NO_ARG, NULL, "show this help", false}
#define OPTION_QUIET                                                                               \
	{CLI_OPT_QUIET, "quiet", 'q', CLI_NO_ARG, NULL, "say nothing but errors", false}
#define OPTION_ATTACH                                                                              \
	{CLI_OPT_ATTACH,                                                                           \
	 "attach",                                                                                 \
	 0,                                                                                        \
	 CLI_NO_ARG,                                                                               \
	 NULL,                                                                                     \
	 "attach to PID for this view if nobody records it, without asking",                       \
	 false}
#define OPTION_VERBOSE {CLI_OPT_VERBOSE, "verbose", 'v', CLI_NO_ARG, NULL, "say more", false}
#define OPTION_JSON {CLI_OPT_JSON, "json", 0, CLI_NO_ARG, NULL, "write JSON instead of text", false}
#define OPTION_COLOR                                                                               \
	{CLI_OPT_COLOR,                                                                            \
	 "color",                                                                                  \
	 0,                                                                                        \
	 CLI_ARG,                                                                                  \
	 "auto|always|never",                                                                      \
	 "colour the text (default: on a terminal)",                                               \
	 false}
#define OPTION_LISTEN(help) {CLI_OPT_LISTEN, "listen", 0, CLI_ARG, "ADDR:PORT", help, false}
#define OPTION_TOKEN                                                                               \
	{CLI_OPT_TOKEN_FILE,                                                                       \
	 "token-file",                                                                             \
	 0,                                                                                        \
	 CLI_ARG,                                                                                  \
	 "FILE",                                                                                   \
	 "require a token of FILE: lines TOKEN [uid=UID|all] (needed beyond 127.0.0.1)",           \
	 false}
#define OPTION_SOCKET                                                                              \
	{CLI_OPT_SOCKET,                                                                           \
	 "socket",                                                                                 \
	 0,                                                                                        \
	 CLI_ARG,                                                                                  \
	 "PATH",                                                                                   \
	 "serve on a Unix socket too, where users see only their own processes",                   \
	 false}
#define OPTION_HOST                                                                                \
	{CLI_OPT_HOST,                                                                             \
	 "host",                                                                                   \
	 0,                                                                                        \
	 CLI_ARG,                                                                                  \
	 "NAME[,NAME]",                                                                            \
	 "further names that requests may use for this server, as behind a proxy",                 \
	 false}
#define OPTION_OF_FILE(id, name, help) {id, name, 0, CLI_ARG, "FILE", help, false}
#define OPTIONS_TLS                                                                                \
	OPTION_OF_FILE(CLI_OPT_TLS_CERT, "tls-cert",                                               \
		       "serve HTTPS with the certificate in FILE (PEM)"),                          \
		OPTION_OF_FILE(CLI_OPT_TLS_KEY, "tls-key", "the key of the certificate"),          \
		OPTION_OF_FILE(CLI_OPT_TLS_CLIENT_CA, "tls-client-ca",                             \
			       "answer clients with certificates of these authorities")
#define OPTION_ALLOC_FN                                                                            \
	{CLI_OPT_ALLOC_FN,                                                                         \
	 "alloc-fn",                                                                               \
	 0,                                                                                        \
	 CLI_ARG,                                                                                  \
	 "NAME:KIND",                                                                              \
	 "also record calls of NAME, which works as KIND does: malloc, calloc, realloc, free ...", \
	 false}
#define OPTION_AT                                                                                  \
	{CLI_OPT_AT, "at",   0,                                                                    \
	 CLI_ARG,    "TIME", "only what was live at TIME, at the peak or end, or left at exit",    \
	 false}
#define END {.name = NULL}

/* Options of all verbs that record */
#define OPTIONS_RECORDING(linger)                                                                    \
	{CLI_OPT_OUTPUT,                                                                             \
	 "output",                                                                                   \
	 'o',                                                                                        \
	 CLI_ARG,                                                                                    \
	 "FILE",                                                                                     \
	 "record to FILE; %e executable, %p pid, %t time (default: heft.%e.%p.heft)",                \
	 false},                                                                                     \
		{CLI_OPT_FORCE, "force", 0, CLI_NO_ARG, NULL, "overwrite FILE if it exists", false}, \
		{CLI_OPT_FOLLOW, "follow",   0,                                                      \
		 CLI_ARG,        "all|none", "record child processes too (default: all)",            \
		 false},                                                                             \
		{CLI_OPT_SAMPLE,                                                                     \
		 "sample",                                                                           \
		 0,                                                                                  \
		 CLI_OPTIONAL_ARG,                                                                   \
		 "BYTES",                                                                            \
		 "take one sample per BYTES allocated, instead of every allocation (default: "       \
		 "512k); auto chooses the rate",                                                     \
		 false},                                                                             \
		{CLI_OPT_PATH_FD,                                                                    \
		 "path-fd",                                                                          \
		 0,                                                                                  \
		 CLI_ARG,                                                                            \
		 "FD",                                                                               \
		 "tell the recording's path there when it is finished",                              \
		 true},                                                                              \
		{CLI_OPT_LIMIT_SIZE,                                                                 \
		 "limit-size",                                                                       \
		 0,                                                                                  \
		 CLI_ARG,                                                                            \
		 "SIZE",                                                                             \
		 "end the recording, not the program, at SIZE",                                      \
		 false},                                                                             \
		{CLI_OPT_LEAKS,                                                                      \
		 "leaks",                                                                            \
		 0,                                                                                  \
		 CLI_NO_ARG,                                                                         \
		 NULL,                                                                               \
		 "look for leaks, equal blocks and untouched memory when it exits",                  \
		 false},                                                                             \
		{CLI_OPT_LEDGER,                                                                     \
		 "ledger",                                                                           \
		 0,                                                                                  \
		 CLI_NO_ARG,                                                                         \
		 NULL,                                                                               \
		 "look where the memory of all processes is, also of many short ones",               \
		 false},                                                                             \
		{CLI_OPT_NO_LEDGER,                                                                  \
		 "no-ledger",                                                                        \
		 0,                                                                                  \
		 CLI_NO_ARG,                                                                         \
		 NULL,                                                                               \
		 "do not look where the memory is, near the peak and at exit",                       \
		 false},                                                                             \
		{CLI_OPT_LEDGER_EVERY,                                                               \
		 "ledger-every",                                                                     \
		 0,                                                                                  \
		 CLI_ARG,                                                                            \
		 "TIME",                                                                             \
		 "look where it is every TIME, too, not only near the peak and at exit",             \
		 false},                                                                             \
		OPTION_LISTEN("serve profiles while it runs: /debug/pprof/ as in Go, /metrics"),     \
		OPTION_SOCKET, OPTION_TOKEN, OPTION_HOST, OPTIONS_TLS,                               \
		{CLI_OPT_LINGER, "linger", 0, CLI_ARG, "TIME", linger, false}, OPTION_QUIET,         \
		OPTION_VERBOSE, OPTION_COLOR, OPTION_HELP

static const struct cli_option run_options[] = {
	{CLI_OPT_COUNT, "count", 0, CLI_NO_ARG, NULL,
	 "count calls and bytes, and record nothing: cheap, for programs that use heft.h; -o FILE "
	 "writes the numbers as JSON",
	 false},
	{CLI_OPT_VIA, "via", 0, CLI_ARG, "auto|preload|entry",
	 "how heft gets into the program: its library is preloaded, or hooks are set at the "
	 "entries "
	 "of malloc (default: preload, entry where that cannot work)",
	 false},
	OPTION_ALLOC_FN,
	{CLI_OPT_MEMPOOLS, "mempools", 0, CLI_NO_ARG, NULL,
	 "also record objects of pools that the program describes to Valgrind", false},
	OPTIONS_RECORDING("keep serving for TIME after the end"),
	END,
};

static const struct cli_option attach_options[] = {
	{CLI_OPT_DURATION, "duration", 0, CLI_ARG, "TIME",
	 "end the recording after TIME (default: when the program ends, or at Ctrl-C)", false},
	OPTION_ALLOC_FN,
	{CLI_OPT_OLDER, "older", 0, CLI_NO_ARG, NULL,
	 "list the blocks from before too; the program stands still meanwhile", false},
	OPTIONS_RECORDING("keep serving for TIME after the recording"),
	END,
};

static const struct cli_option detach_options[] = {
	OPTION_HELP,
	END,
};

static const struct cli_option report_options[] = {
	{CLI_OPT_ALL, "all", 0, CLI_NO_ARG, NULL, "show all findings (default: the first seven)",
	 false},
	{CLI_OPT_EXPLAIN, "explain", 0, CLI_ARG, "N",
	 "show why finding N is reported: its rule, limits and measured values", false},
	{CLI_OPT_SORT, "sort", 's', CLI_ARG,
	 "peak|live|left|allocated|calls|count|temporary|lifetime|grew|mapped|unreachable|"
	 "untouched|duplicate|pinned",
	 "order of the sites (default: peak; in a window grew, at a moment live)", false},
	{CLI_OPT_NUMBER, "number", 'n', CLI_ARG, "N", "show N sites (default: 20; with --json all)",
	 false},
	{CLI_OPT_FULL, "full", 0, CLI_NO_ARG, NULL,
	 "show whole stacks, with the frames of the runtime; --json: do not cut deep ones", false},
	{CLI_OPT_COMPACT, "compact", 0, CLI_NO_ARG, NULL,
	 "with --json: list every frame once, in a table that the stacks refer to", false},
	{CLI_OPT_TREE, "tree", 0, CLI_NO_ARG, NULL, "show call stacks as a tree from main down",
	 false},
	{CLI_OPT_INVERT, "invert", 0, CLI_NO_ARG, NULL,
	 "show the tree from the allocating function up", false},
	{CLI_OPT_PROCESSES, "processes", 0, CLI_ARG, "merged|each|none",
	 "processes as roots of the tree: many of one program as one (default), each, or none",
	 false},
	{CLI_OPT_THREADS, "threads", 0, CLI_NO_ARG, NULL,
	 "show threads, and who frees whose blocks", false},
	{CLI_OPT_SIZES, "sizes", 0, CLI_NO_ARG, NULL, "show sizes, and what rounding them up costs",
	 false},
	{CLI_OPT_LIFETIMES, "lifetimes", 0, CLI_NO_ARG, NULL, "show how long blocks live", false},
	OPTION_AT,
	{CLI_OPT_FROM, "from", 0, CLI_ARG, "TIME",
	 "only what happened from TIME on; a time or mark:NAME", false},
	{CLI_OPT_TO, "to", 0, CLI_ARG, "TIME", "only what happened up to TIME; a time or mark:NAME",
	 false},
	{CLI_OPT_THREAD, "thread", 0, CLI_ARG, "NAME|TID", "only this thread", false},
	{CLI_OPT_PID, "pid", 0, CLI_ARG, "PID", "only this process", false},
	{CLI_OPT_FOCUS, "focus", 0, CLI_ARG, "RE", "only stacks with a frame that matches RE",
	 false},
	{CLI_OPT_IGNORE, "ignore", 0, CLI_ARG, "RE", "no stacks with a frame that matches RE",
	 false},
	{CLI_OPT_FRAMES, "frames", 0, CLI_ARG, "FILE",
	 "add rules that say which frames are not your own code", false},
	{CLI_OPT_SUPPRESSIONS, "suppressions", 0, CLI_ARG, "FILE",
	 "do not show these leaks: lines leak:PATTERN, as LeakSanitizer has them", false},
	OPTION_JSON,
	OPTION_COLOR,
	OPTION_HELP,
	END,
};

static const struct cli_option diff_options[] = {
	OPTION_JSON,
	{CLI_OPT_SORT, "sort", 's', CLI_ARG, "peak|live|left|allocated|count|temporary|lifetime",
	 "what to compare (default: peak; with --per s allocated)", false},
	{CLI_OPT_NUMBER, "number", 'n', CLI_ARG, "N",
	 "show N changes (default: 20; with --json all)", false},
	{CLI_OPT_PER, "per", 0, CLI_ARG, "N",
	 "divide by N operations (OLD,NEW if they differ), or by seconds: --per s", false},
	OPTION_AT,
	{CLI_OPT_THRESHOLD, "threshold", 0, CLI_ARG, "X",
	 "ignore changes below X: 2% of the total, or an amount (default: 1%, for times 5%)",
	 false},
	{CLI_OPT_FOCUS, "focus", 0, CLI_ARG, "RE", "only stacks with a frame that matches RE",
	 false},
	{CLI_OPT_IGNORE, "ignore", 0, CLI_ARG, "RE", "no stacks with a frame that matches RE",
	 false},
	{CLI_OPT_FULL, "full", 0, CLI_NO_ARG, NULL, "with --json: do not cut deep stacks", false},
	OPTION_COLOR,
	OPTION_HELP,
	END,
};

static const struct cli_option check_options[] = {
	{CLI_OPT_BUDGET, "budget", 0, CLI_ARG, "FILE",
	 "the file with the rules, one per line (required)", false},
	{CLI_OPT_UPDATE, "update", 0, CLI_NO_ARG, NULL,
	 "write what is measured, with headroom, into the budget", false},
	{CLI_OPT_BASELINE, "baseline", 0, CLI_ARG, "FILE",
	 "compare with the last accepted run, which FILE keeps", false},
	{CLI_OPT_UPDATE_BASELINE, "update-baseline", 0, CLI_NO_ARG, NULL,
	 "write what is measured into the baseline", false},
	OPTION_AT,
	{CLI_OPT_HEADROOM, "headroom", 0, CLI_ARG, "PERCENT",
	 "what --update adds to the measured values (default: 10%)", false},
	{CLI_OPT_IGNORE_UNSEEN, "ignore-unseen", 0, CLI_NO_ARG, NULL,
	 "judge what was recorded, even if most of the memory was not", false},
	{CLI_OPT_JUNIT, "junit", 0, CLI_ARG, "FILE",
	 "also write the rules to FILE as test cases, in JUnit's XML", false},
	{CLI_OPT_ANNOTATIONS, "annotations", 0, CLI_ARG, "auto|github|never",
	 "print broken rules as GitHub Actions reads them; auto: only if run there", false},
	{CLI_OPT_OUTPUT, "output", 'o', CLI_ARG, "FILE", "keep the command's recording as FILE",
	 false},
	{CLI_OPT_FAILED_ONLY, "failed-only", 0, CLI_NO_ARG, NULL,
	 "keep it only if a rule does not hold or the command fails", false},
	{CLI_OPT_FORCE, "force", 0, CLI_NO_ARG, NULL, "overwrite FILE if it exists", false},
	OPTION_JSON,
	OPTION_QUIET,
	{CLI_OPT_VERBOSE, "verbose", 'v', CLI_NO_ARG, NULL, "show rules that hold too", false},
	OPTION_COLOR,
	OPTION_HELP,
	END,
};

static const struct cli_option export_options[] = {
	{CLI_OPT_FORMAT, "format", 'f', CLI_ARG,
	 "pprof|heaptrack|dhat|massif|flamegraph|svg|folded|speedscope|csv|json|html",
	 "what to write (default: what OUT's name says); svg is flamegraph", false},
	{CLI_OPT_OUTPUT, "output", 'o', CLI_ARG, "OUT",
	 "write to OUT; - is standard output (default: FILE's name with the format's extension)",
	 false},
	{CLI_OPT_FORCE, "force", 0, CLI_NO_ARG, NULL, "overwrite OUT if it exists", false},
	{CLI_OPT_MEASURE, "measure", 'm', CLI_ARG,
	 "peak|live|left|allocated|count|temporary|lifetime|mapped",
	 "the number of each stack, in formats that have only one (default: peak)", false},
	OPTION_AT,
	{CLI_OPT_INVERT, "invert", 0, CLI_NO_ARG, NULL,
	 "folded, flamegraph: from the allocating function up", false},
	{CLI_OPT_PROCESSES, "processes", 0, CLI_ARG, "merged|each|none",
	 "flamegraph, folded, speedscope: processes as roots: many of one program as one "
	 "(default), each, or none",
	 false},
	{CLI_OPT_RAW, "raw", 0, CLI_NO_ARG, NULL,
	 "pprof: addresses and build ids instead of symbols; json: do not merge stacks", false},
	{CLI_OPT_FULL, "full", 0, CLI_NO_ARG, NULL,
	 "do not fold stacks or cut them at 256 frames; pprof: readers show runtime frames too",
	 false},
	{CLI_OPT_SOURCE, "source", 0, CLI_NO_ARG, NULL, "html: include the lines of source files",
	 false},
	{CLI_OPT_FOCUS, "focus", 0, CLI_ARG, "RE", "only stacks with a frame that matches RE",
	 false},
	{CLI_OPT_IGNORE, "ignore", 0, CLI_ARG, "RE", "no stacks with a frame that matches RE",
	 false},
	{CLI_OPT_FROM, "from", 0, CLI_ARG, "TIME",
	 "only what happened from TIME on; a time or mark:NAME", false},
	{CLI_OPT_TO, "to", 0, CLI_ARG, "TIME", "only what happened up to TIME; a time or mark:NAME",
	 false},
	{CLI_OPT_THREAD, "thread", 0, CLI_ARG, "NAME|TID", "only this thread", false},
	{CLI_OPT_PID, "pid", 0, CLI_ARG, "PID", "only this process", false},
	OPTION_QUIET,
	OPTION_HELP,
	END,
};

static const struct cli_option view_options[] = {
	OPTION_ATTACH,
	OPTION_ALLOC_FN,
	{CLI_OPT_PORT, "port", 0, CLI_ARG, "N",
	 "serve on port N; 0 is any free one (default: 7777, or the next free one)", false},
	{CLI_OPT_NO_OPEN, "no-open", 0, CLI_NO_ARG, NULL, "do not open a browser", false},
	OPTION_HOST,
	OPTIONS_TLS,
	{CLI_OPT_AT, "at", 0, CLI_ARG, "TIME", "open the page at TIME, at the peak or the end",
	 false},
	OPTION_QUIET,
	OPTION_HELP,
	END,
};

static const struct cli_option top_options[] = {
	OPTION_ATTACH,
	{CLI_OPT_ONCE, "once", 0, CLI_NO_ARG, NULL, "print one frame as plain text", false},
	{CLI_OPT_SORT, "sort", 's', CLI_ARG, "live|grew|blocks|age|peak|allocated",
	 "order of the rows (default: live)", false},
	{CLI_OPT_NUMBER, "number", 'n', CLI_ARG, "N", "with --once: show N rows (default: 20)",
	 false},
	{CLI_OPT_AT, "at", 0, CLI_ARG, "TIME", "refused: the view is of now", true},
	{CLI_OPT_OUTPUT, "output", 'o', CLI_ARG, "FILE",
	 "record CMD or PID to FILE (default: heft.%e.%p.heft, as heft run does)", false},
	{CLI_OPT_FORCE, "force", 0, CLI_NO_ARG, NULL, "overwrite FILE if it exists", false},
	{CLI_OPT_SAMPLE, "sample", 0, CLI_OPTIONAL_ARG, "BYTES",
	 "record CMD or PID sampled, as heft run does (default: 512k)", false},
	OPTION_ALLOC_FN,
	OPTION_COLOR,
	OPTION_HELP,
	END,
};

static const struct cli_option map_options[] = {
	{CLI_OPT_EVENTS, "events", 0, CLI_NO_ARG, NULL,
	 "list the calls of a recorded program that mapped memory", false},
	{CLI_OPT_LEAKS, "leaks", 0, CLI_NO_ARG, NULL,
	 "also look which blocks of the process nothing leads to; it stands still meanwhile",
	 false},
	{CLI_OPT_NUMBER, "number", 'n', CLI_ARG, "N",
	 "show N lines of each section (default: 6), N calls (40) or N places of leaks (20)",
	 false},
	{CLI_OPT_OUTPUT, "output", 'o', CLI_ARG, "FILE",
	 "keep the ledger of a process in FILE, which heft map shows later", false},
	{CLI_OPT_PID, "pid", 0, CLI_ARG, "PID", "of a recording: only this process", false},
	{CLI_OPT_MOMENT, "moment", 0, CLI_ARG, "peak|exit|request|interval",
	 "of a recording: only ledgers of this moment", false},
	{CLI_OPT_FORCE, "force", 0, CLI_NO_ARG, NULL, "overwrite FILE if it exists", false},
	OPTION_JSON,
	{CLI_OPT_CSV, "csv", 0, CLI_NO_ARG, NULL, "write CSV instead of text: a row for each line",
	 false},
	OPTION_HELP,
	END,
};

static const struct cli_option verify_options[] = {
	OPTION_QUIET,
	OPTION_HELP,
	END,
};

static const struct cli_option agent_options[] = {
	{CLI_OPT_DIR, "dir", 0, CLI_ARG, "DIR",
	 "where programs leave their session files (default: HEFT_DIR, or /run/heft)", false},
	OPTION_LISTEN("where to serve them (default: 127.0.0.1:6070)"),
	OPTION_SOCKET,
	OPTION_TOKEN,
	OPTION_HOST,
	OPTIONS_TLS,
	{CLI_OPT_OUTPUT_DIR, "output-dir", 0, CLI_ARG, "DIR",
	 "where to save the last profiles of ended programs (default: /var/lib/heft)", false},
	{CLI_OPT_KEEP, "keep", 0, CLI_ARG, "N|TIME",
	 "keep serving the last N ended programs, for TIME (default: 100, 1h)", false},
	{CLI_OPT_QUOTA, "quota", 0, CLI_ARG, "SIZE",
	 "saved profiles of each user, the oldest go first; 0: no limit (default: 1G)", false},
	{CLI_OPT_ATTACH_EXE, "attach-exe", 0, CLI_ARG, "GLOB",
	 "attach to running programs whose executable matches; may be repeated", false},
	{CLI_OPT_SAMPLE, "sample", 0, CLI_OPTIONAL_ARG, "BYTES",
	 "with --attach-exe: the rate, or auto (default: 512k)", false},
	OPTION_ALLOC_FN,
	OPTION_QUIET,
	OPTION_VERBOSE,
	OPTION_HELP,
	END,
};

static const struct cli_option ctl_options[] = {
	OPTION_HELP,
	END,
};

static const struct cli_option doctor_options[] = {
	OPTION_JSON,
	OPTION_COLOR,
	OPTION_HELP,
	END,
};

static const struct cli_option help_options[] = {
	{CLI_OPT_COMPLETIONS, "completions", 0, CLI_ARG, "bash", "print shell completions", true},
	OPTION_HELP,
	END,
};

const struct cli_verb cli_verbs[] = {
	{"run", "record every allocation of a program", "[OPTIONS] [--] CMD [ARG...]", run_options,
	 cmd_run, CLI_RUN_FAILED, true, "command"},
	{"attach", "record a program that already runs", "[OPTIONS] PID", attach_options,
	 cmd_attach, CLI_USAGE, false, "process"},
	{"detach", "end the recording of heft attach", "PID", detach_options, cmd_detach, CLI_USAGE,
	 false, "process"},
	{"report", "summary, findings and top sites of a recording", "[OPTIONS] FILE",
	 report_options, cmd_report, CLI_USAGE, false, "file"},
	{"diff", "what changed between two recordings", "[OPTIONS] OLD NEW", diff_options, cmd_diff,
	 CLI_USAGE, false, "file"},
	{"check", "fail if a program is over its memory budget", "--budget FILE (FILE | -- CMD)",
	 check_options, cmd_check, CLI_USAGE, false, "file"},
	{"export", "write a recording in another tool's format", "[-f FORMAT] [OPTIONS] FILE",
	 export_options, cmd_export, CLI_USAGE, false, "file"},
	{"view", "look at recordings in a browser", "[OPTIONS] [FILE | PID]...", view_options,
	 cmd_view, CLI_USAGE, false, "file"},
	{"top", "watch a program live in the terminal", "(PID | FILE | -- CMD)", top_options,
	 cmd_top, CLI_USAGE, false, "file"},
	{"map", "where the resident memory of a process is", "[OPTIONS] (PID | FILE)", map_options,
	 cmd_map, CLI_USAGE, false, "file"},
	{"verify", "check a recording, block by block", "[OPTIONS] FILE", verify_options,
	 cmd_verify, CLI_USAGE, false, "file"},
	{"agent", "hold and serve the profiles of sampled programs", "[OPTIONS]", agent_options,
	 cmd_agent, CLI_USAGE, false, ""},
	{"ctl", "switch the sampling of a running program", "PID [KEY=VALUE...]", ctl_options,
	 cmd_ctl, CLI_USAGE, false, "process"},
	{"doctor", "what will work here and what will not, with the fix",
	 "[OPTIONS] [PID | CMD [ARG...]]", doctor_options, cmd_doctor, CLI_USAGE, true, "command"},
	{"help", "explain heft or one of its verbs", "[VERB]", help_options, cmd_help, CLI_USAGE,
	 false, "verb"},
	{.name = NULL},
};

const struct cli_verb *cli_verb_find(const char *name)
{
	for (const struct cli_verb *v = cli_verbs; v->name; v++)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

/* The verb that other tools call by this name, or that people try first. */
static const char *verb_meant(const char *name)
{
	static const struct {
		const char *verb, *names; /* each between spaces */
	} meant[] = {
		{"run", " start record rec launch exec profile trace spawn command "},
		{"report",
		 " show print stats stat summary summarize summarise analyze analyse list "
		 "info inspect dump text cat read findings leaks json "},
		{"diff", " compare cmp delta changes difference versus vs "},
		{"check", " test assert budget budgets gate ci limit "},
		{"export", " convert write save pprof flamegraph flame svg csv folded speedscope "
			   "heaptrack massif dhat html "},
		{"view", " web serve server gui ui browse browser open page http "},
		{"top", " watch live monitor htop "},
		{"map", " ledger rss pmap smaps memory resident maps "},
		{"attach", " inject trace-pid hook "},
		{"detach", " release stop leave "},
		{"verify", " validate fsck integrity "},
		{"agent", " daemon service supervise "},
		{"ctl", " control set switch config enable disable rate "},
		{"doctor", " diagnose health selftest troubleshoot why "},
		{"help", " usage man manual commands verbs "},
	};
	char word[34];
	if (strlen(name) >= sizeof word - 2 || strchr(name, ' '))
		return NULL;
	snprintf(word, sizeof word, " %s ", name);
	for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
		if (strcasestr(meant[i].names, word))
			return meant[i].verb;
	return NULL;
}

const struct cli_verb *cli_verb_nearest(const char *name)
{
	const char *meant = verb_meant(name);
	const struct cli_verb *best = meant ? cli_verb_find(meant) : NULL;
	size_t length = strlen(name);
	size_t best_distance = cli_too_far(length);

	if (best)
		return best;
	for (const struct cli_verb *v = cli_verbs; v->name; v++) {
		size_t distance = cli_edit_distance(name, v->name);

		/* The start of a verb means that verb, however long the rest is. */
		if (length >= 2 && strncmp(v->name, name, length) == 0)
			distance = 0;
		if (distance < best_distance && distance < strlen(v->name)) {
			best = v;
			best_distance = distance;
		}
	}
	return best;
}
