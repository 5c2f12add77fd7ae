/* Which part of a recording a verb shows, in which order and form: the options that several verbs
 * take are read and worked out in one place (selection.c). A verb keeps what is its own, and hands
 * every other option on. */
#ifndef HEFT_CLI_SELECTION_H
#define HEFT_CLI_SELECTION_H

#include "cli/cli.h"
#include "cli/input_file.h"
#include "profile/measure.h"
#include "profile/profile_from_trace.h"

enum cli_moment { CLI_AT_UNSAID, CLI_AT_PEAK, CLI_AT_END, CLI_AT_EXIT, CLI_AT_TIME };

struct cli_selection {
	struct profile_selection part; /* its window: from cli_selection_resolve on */
	const char *focus, *ignore;    /* NULL: not given, as the next ones */
	const char *frames;            /* a file of rules */
	const char *from_text, *to_text, *at_text;
	struct cli_time from, to, at;
	enum cli_moment moment; /* of --at; the time is `at` */
	uint64_t duration_ns;   /* of the run, from there on; UINT64_MAX: it has no times */
	uint64_t start_ns;      /* with --pid: when it began; duration_ns is then when it ended */
	enum measure_id sort;
	size_t limit;
	bool has_sort, has_limit;
	bool has_roots, no_roots; /* --processes; none of them */
	bool json, quiet;
	enum cli_color color;
};

/* One option, as a cli_set_fn does; one that is not among these is refused. */
int cli_selection_set(struct cli_selection *s, const struct cli_verb *verb,
		      const struct cli_option *option, const char *value);

/* "what was live at the peak": words for the moment of --at. */
const char *cli_moment_words(enum cli_moment moment);

/* --from or --to was given. */
bool cli_selection_has_window(const struct cli_selection *s);

/* Times to nanoseconds of the recording, in s->part: a moment is a window that ends where
 * it begins. A file of another format has no times: the window stays empty, and loading refuses it. */
int cli_selection_resolve(struct cli_selection *s, const struct input_file *in,
			  struct heft_error *err);

/* After loading: which frames are the user's own, then the moment that --at names in a word (what is
 * live is then what was live at that moment), then --focus and --ignore. If these leave nothing, the
 * profile gets a note that says so. */
int cli_selection_apply(const struct cli_selection *s, struct profile *p, struct heft_error *err);
/* The same without that note; and the note: 0 or HEFT_ENOMEM. */
int cli_selection_apply_any(const struct cli_selection *s, struct profile *p,
			    struct heft_error *err);
int cli_selection_say_nothing(const struct cli_selection *s, struct profile *p);
/* Of these, the moment alone. */
int cli_selection_apply_moment(const struct cli_selection *s, struct profile *p,
			       struct heft_error *err);

#endif
