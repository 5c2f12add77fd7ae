/* Options that several verbs take: which part of a recording is shown, in which order and form. A verb
 * reads its own options itself and gives every other one to cli_selection_set(). */
#ifndef HEFT_CLI_SELECTION_H
#define HEFT_CLI_SELECTION_H

#include "cli/cli.h"
#include "cli/input_file.h"
#include "profile/measure.h"
#include "profile/profile_from_trace.h"

enum cli_moment { CLI_AT_UNSAID, CLI_AT_PEAK, CLI_AT_END, CLI_AT_EXIT, CLI_AT_TIME };

struct cli_selection {
	struct profile_selection part; /* cli_selection_resolve sets its window */
	const char *focus, *ignore;    /* these and the next ones are NULL if they are not given */
	const char *frames;            /* a file of rules */
	const char *from_text, *to_text, *at_text;
	struct cli_time from, to, at;
	enum cli_moment moment; /* of --at; CLI_AT_TIME: the time is `at` */
	uint64_t duration_ns;   /* of the run, once resolved; UINT64_MAX: it has no times */
	uint64_t start_ns;      /* with --pid: when the process began; it ended at duration_ns */
	enum measure_id sort;
	size_t limit;
	bool has_sort, has_limit;
	bool has_roots, no_roots; /* --processes; none of them */
	bool json, quiet;
	enum cli_color color;
};

/* Takes one option, as a cli_set_fn does; refuses one that is not among these. */
int cli_selection_set(struct cli_selection *s, const struct cli_verb *verb,
		      const struct cli_option *option, const char *value);

/* "what was live at the peak": words for the moment of --at. */
const char *cli_moment_words(enum cli_moment moment);

/* --from or --to was given. */
bool cli_selection_has_window(const struct cli_selection *s);

/* Turns times into nanoseconds of the recording, in s->part. A moment is a window that ends where it begins.
 * A file of another format has no times: the window stays empty, and loading refuses it. */
int cli_selection_resolve(struct cli_selection *s, const struct input_file *in,
			  struct heft_error *err);
/* Once resolved: --at is the last moment of the run. By then the program has often freed everything; what
 * people mean is what it left. */
bool cli_selection_at_end(const struct cli_selection *s);

/* Call it after loading. Decides which frames are the user's own; applies the moment that --at names (what
 * is live becomes what was live at that moment), then --focus and --ignore. If these leave nothing, the
 * profile gets a note that says so. */
int cli_selection_apply(const struct cli_selection *s, struct profile *p, struct heft_error *err);
/* The same without that note. */
int cli_selection_apply_any(const struct cli_selection *s, struct profile *p,
			    struct heft_error *err);
/* Adds the note that --focus and --ignore leave nothing. 0 or HEFT_ENOMEM. */
int cli_selection_note_nothing(const struct cli_selection *s, struct profile *p);
/* Applies the moment alone. */
int cli_selection_apply_moment(const struct cli_selection *s, struct profile *p,
			       struct heft_error *err);

#endif
