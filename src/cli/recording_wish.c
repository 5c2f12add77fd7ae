/* Options that go on to the heft that records (recording_wish.h).
 *
 * They are checked here already: a mistake in one is told before anything is started or asked. */
#include "cli/recording_wish.h"

#include "cli/record_verb.h"

#include <stdio.h>

int recording_wish_set(struct recording_wish *w, const struct cli_verb *verb,
		       const struct cli_option *option, const char *value, bool *taken)
{
	int status = 0;
	*taken = true;
	switch (option->id) {
	case CLI_OPT_OUTPUT: w->output = value; break;
	case CLI_OPT_FORCE: w->force = true; break;
	case CLI_OPT_SAMPLE:
		w->has_sample = true;
		w->sample = value;
		break;
	case CLI_OPT_ALLOC_FN:
		status = record_function_set(verb, value, &w->functions);
		if (!status)
			w->function_words[w->functions.count - 1] = value;
		break;
	default: *taken = false; break;
	}
	return status;
}

bool recording_wish_is_given(const struct recording_wish *w)
{
	return w->output || w->force || w->has_sample || w->functions.count;
}

void recording_words_make(struct recording_words *out, const char *verb, int path_fd,
			  const struct recording_wish *w)
{
	int n = 0;
	out->items[n++] = "heft";
	out->items[n++] = verb;
	out->items[n++] = "-q";
	out->items[n++] = "--path-fd";
	snprintf(out->fd, sizeof out->fd, "%d", path_fd);
	out->items[n++] = out->fd;
	if (w->output) {
		out->items[n++] = "-o";
		out->items[n++] = w->output;
	}
	if (w->force)
		out->items[n++] = "--force";
	if (w->has_sample) {
		snprintf(out->sample, sizeof out->sample, "--sample%s%.40s", w->sample ? "=" : "",
			 w->sample ? w->sample : "");
		out->items[n++] = out->sample;
	}
	for (unsigned i = 0; i < w->functions.count; i++) {
		out->items[n++] = "--alloc-fn";
		out->items[n++] = w->function_words[i];
	}
	out->count = n;
}
