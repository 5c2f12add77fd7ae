/* How `heft top` and `heft view` want a program to be recorded. They leave that to a `heft run` or a `heft attach` of
 * this same executable, which gets these options. */
#ifndef HEFT_CLI_RECORDING_WISH_H
#define HEFT_CLI_RECORDING_WISH_H

#include "attach/attach.h"
#include "cli/cli.h"

struct recording_wish {
	const char *output; /* NULL: the usual name */
	bool force, has_sample;
	const char *sample; /* with has_sample; NULL: the usual rate */
	struct attach_functions functions;
	const char *function_words[ATTACH_FUNCTIONS]; /* the same as they were given */
};

/* For the function that sets options: -o, --force, --sample and --alloc-fn. *taken: it was one of these. 0, or the
 * status to end with. */
int recording_wish_set(struct recording_wish *w, const struct cli_verb *verb,
		       const struct cli_option *option, const char *value, bool *taken);
/* Whether any of them was given. */
bool recording_wish_is_given(const struct recording_wish *w);

/* The words of the command that records, without its operands */
struct recording_words {
	const char *items[12 + 2 * ATTACH_FUNCTIONS]; /* with space for a process id and the end */
	int count;
	char fd[16], sample[64]; /* what items point to */
};
/* path_fd: where the recorder tells the path of the recording. */
void recording_words_make(struct recording_words *out, const char *verb, int path_fd,
			  const struct recording_wish *w);

#endif
