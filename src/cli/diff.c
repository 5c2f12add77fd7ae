/* `heft diff OLD NEW` compares two recordings, as text or JSON. Differences are no failure: the exit status
 * is 0 with and without them. It prints everything after loading, so a bad recording or option leaves
 * stdout empty. */
#include "cli/cli.h"

#include "cli/selection.h"
#include "profile/profile_diff.h"
#include "report/report_diff.h"

#include <stdlib.h>
#include <string.h>

enum { CHANGES_SHOWN = 20 };

struct diff_command {
	const struct cli_verb *verb;
	struct cli_selection selection;
	struct report_diff_options options;
	struct profile_per per;
	const char *threshold; /* as it was typed: its unit depends on the measure */
	bool had_sites;        /* one recording had sites before --focus and --ignore */
};

/* Reads "1000" for both sides, or "1000,1200". */
static int parse_operations(const char *text, struct profile_per *per)
{
	char first[32];
	uint64_t old, new;
	size_t length = strcspn(text, ",");
	if (length >= sizeof first)
		return HEFT_EUSAGE;
	memcpy(first, text, length);
	first[length] = 0;
	if (number_parse(first, UINT64_MAX, &old) < 0 || !old)
		return HEFT_EUSAGE;
	new = old;
	if (text[length] && (number_parse(text + length + 1, UINT64_MAX, &new) < 0 || !new))
		return HEFT_EUSAGE;
	per->unit = PROFILE_PER_OPERATIONS;
	per->old = (double)old;
	per->new = (double)new;
	return 0;
}

static int parse_per(const char *text, struct profile_per *per)
{
	if (strcmp(text, "s") == 0 || strcmp(text, "second") == 0) {
		per->unit = PROFILE_PER_SECOND;
		return 0;
	}
	return parse_operations(text, per);
}

/* Reads a percentage of the total ("2%"), or an amount in the measure's own unit. */
static int parse_threshold(const char *text, enum measure_id sort, struct profile_threshold *t)
{
	struct cli_time time;
	uint64_t amount = 0;
	int rc;
	if (cli_parse_time(text, &time) == 0 && time.relative) {
		*t = (struct profile_threshold){.share = time.percent / 100};
		return 0;
	}
	if (sort == MEASURE_LIFETIME) {
		rc = cli_parse_time(text, &time);
		amount = time.time_ns;
	} else if (sort == MEASURE_ALLOCATIONS || sort == MEASURE_TEMPORARY) {
		rc = number_parse(text, UINT64_MAX, &amount);
	} else {
		rc = size_parse(text, &amount);
	}
	*t = (struct profile_threshold){.absolute = true, .value = (double)amount};
	return rc;
}

static int set_option(void *ctx, const struct cli_option *option, const char *value)
{
	struct diff_command *c = ctx;
	switch (option->id) {
	case CLI_OPT_THRESHOLD: c->threshold = value; return 0;
	case CLI_OPT_FULL: c->options.full = true; return 0;
	case CLI_OPT_PER:
		if (parse_per(value, &c->per) < 0)
			return cli_usage_error(c->verb,
					       "--per needs 's', a number of operations (1000), or "
					       "one for each side (1000,1200), not '%s'",
					       value);
		return 0;
	default: return cli_selection_set(&c->selection, c->verb, option, value);
	}
}

/* Sets *at_ns to the time of --at; false: that moment has no time. */
static bool time_of(const struct cli_selection *s, const struct profile *p, uint64_t *at_ns)
{
	if (!(p->run.has & PROFILE_HAS_TIMES) ||
	    (s->moment != CLI_AT_TIME && s->moment != CLI_AT_PEAK))
		return false;
	*at_ns = s->moment == CLI_AT_PEAK ? p->totals.peak_time_ns : s->part.to_ns - s->start_ns;
	return true;
}

static int load(struct diff_command *c, const char *path, struct profile **p, uint64_t *at_ns,
		struct heft_error *err)
{
	struct cli_selection s = c->selection; /* a percentage is another time in each recording */
	struct input_file in;
	int rc = input_file_open(&in, path, err);
	if (rc == 0)
		rc = cli_selection_resolve(&s, &in, err);
	if (cli_selection_at_end(&s))
		s.part.has_window = false;
	if (rc == 0)
		rc = input_file_load(&in, &s.part, p, err);
	input_file_close(&in);
	if (rc < 0)
		return rc;
	c->options.has_times &= time_of(&s, *p, at_ns);
	c->had_sites |= (*p)->site_count > 0;
	return cli_selection_apply_any(&s, *p, err); /* a site may be in one recording only */
}

/* Takes the measure that was asked for, or the first that both files have. */
static int choose_measure(struct diff_command *c, const struct profile_diff *d,
			  struct heft_error *err)
{
	static const enum measure_id instead[] = {MEASURE_LIVE_BYTES, MEASURE_ALLOCATED_BYTES};
	if (c->selection.moment == CLI_AT_EXIT && !c->selection.has_sort)
		c->options.sort = MEASURE_LEFT_BYTES;
	if (profile_diff_has(d, c->options.sort))
		return 0;
	for (size_t i = 0; !c->selection.has_sort && i < sizeof instead / sizeof *instead; i++)
		if (profile_diff_has(d, instead[i])) {
			c->options.sort = instead[i];
			return 0;
		}
	return heft_fail(err, HEFT_EUSAGE,
			 "one of the files does not record what --sort %s compares",
			 measures[c->options.sort].option);
}

static int compare(struct diff_command *c, struct heft_error *err)
{
	struct profile *old = NULL, *new = NULL;
	struct profile_diff *d = NULL;
	int rc = load(c, c->options.old_path, &old, &c->options.old_ns, err);
	if (rc == 0)
		rc = load(c, c->options.new_path, &new, &c->options.new_ns, err);
	if (rc == 0 && c->had_sites && !old->site_count && !new->site_count &&
	    cli_selection_note_nothing(&c->selection, new) < 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for a note");
	if (rc == 0)
		rc = profile_diff_new(&d, old, new, c->per.unit ? &c->per : NULL, err);
	if (rc == 0)
		rc = choose_measure(c, d, err);
	if (rc == 0) {
		rc = c->selection.json ? report_diff_json(stdout, d, &c->options)
				       : report_diff_text(stdout, d, &c->options);
		if (rc < 0)
			heft_fail(err, rc, "not enough memory to write the comparison");
	}
	profile_diff_free(d);
	profile_free(new);
	profile_free(old);
	return rc;
}

int cmd_diff(int argc, char **argv)
{
	struct diff_command c = {.verb = cli_verb_find("diff")};
	const struct cli_selection *s = &c.selection;
	struct heft_error err = {0};
	int first, status = cli_parse_options(c.verb, argc, argv, set_option, &c, &first);
	if (status != CLI_GO_ON)
		return status;
	if (argc - first < 2)
		return cli_usage_error(c.verb, "two recordings are needed, OLD and NEW");
	if (argc - first > 2)
		return cli_usage_error(c.verb, "two recordings at a time; '%s' is one too many",
				       argv[first + 2]);
	c.options.focus = s->focus;
	c.options.ignore = s->ignore;
	c.options.sort = s->sort;
	c.options.limit = s->has_limit ? s->limit : s->json ? SIZE_MAX : CHANGES_SHOWN;
	c.options.width = cli_width(stdout);
	c.options.color = cli_use_color(s->color, stdout);
	if (s->at_text && s->has_sort && s->sort != MEASURE_LIVE_BYTES)
		return cli_usage_error(
			c.verb,
			"--at compares what is live at that moment, so it needs --sort live");
	if (s->at_text)
		c.options.sort = MEASURE_LIVE_BYTES;
	c.options.at = s->at_text;
	c.options.moment = cli_moment_words(s->moment);
	c.options.at_time = s->moment == CLI_AT_TIME;
	c.options.has_times = true; /* load() clears it if a recording has no times */
	/* A peak has no rate: --per second shows the first measure that has one. */
	if (c.per.unit == PROFILE_PER_SECOND && !s->has_sort && !s->at_text)
		c.options.sort = MEASURE_ALLOCATED_BYTES;
	c.options.threshold.share = c.per.unit == PROFILE_PER_SECOND ||
						    c.options.sort == MEASURE_LIFETIME
					    ? PROFILE_NOISE_TIMED
					    : PROFILE_NOISE;
	if (c.threshold && parse_threshold(c.threshold, c.options.sort, &c.options.threshold) < 0)
		return cli_usage_error(
			c.verb,
			"--threshold needs a share (2%%) or an amount of what --sort "
			"names, not '%s'",
			c.threshold);
	c.options.old_path = argv[first];
	c.options.new_path = argv[first + 1];
	int rc = compare(&c, &err);
	if (rc < 0)
		return cli_failed(&err, rc);
	return cli_finish_output(CLI_SUCCESS);
}
