/* Reads --pid, --from, --focus and the like for all verbs, so that they take the same values and refuse
 * others in the same words everywhere.
 *
 * A time may be a percentage of the run, whose length stands in the recording, or a mark that the program made. So times
 * are resolved when the path of the recording is known, before it is loaded.
 *
 * Times of events are rounded down to ticks of about 2 us, and so are those of marks. A window that ends with a mark ends
 * before its tick, one that begins with it begins with its tick: what happens between two marks is in one window.
 *
 * Invariant: after a successful resolve, from_ns <= to_ns <= the duration. */
#include "cli/selection.h"

#include "trace/trace.h"

#include <string.h>

/* A time, or "mark:NAME". */
static int parse_time(const char *value, struct cli_time *time)
{
	static const char prefix[] = "mark:";
	const size_t length = sizeof prefix - 1;
	if (strncmp(value, prefix, length) != 0 || !value[length])
		return cli_parse_time(value, time);
	*time = (struct cli_time){.mark = value + length};
	return 0;
}

static int set_time(const struct cli_verb *verb, const struct cli_option *option, const char *value,
		    const char **text, struct cli_time *time)
{
	*text = value;
	if (parse_time(value, time) == 0)
		return 0;
	return cli_usage_error(verb, "--%s needs a time (1.5s, 20ms, 50%%) or mark:NAME, not '%s'",
			       option->name, value);
}

static int set_moment(struct cli_selection *s, const struct cli_verb *verb, const char *value)
{
	static const char *const words[] = {
		[CLI_AT_PEAK] = "peak", [CLI_AT_END] = "end", [CLI_AT_EXIT] = "exit"};
	s->at_text = value;
	for (int i = CLI_AT_PEAK; i <= CLI_AT_EXIT; i++)
		if (strcmp(value, words[i]) == 0) {
			s->moment = (enum cli_moment)i;
			return 0;
		}
	s->moment = CLI_AT_TIME;
	if (parse_time(value, &s->at) == 0)
		return 0;
	return cli_usage_error(
		verb,
		"--at needs peak, end, exit, a time (1.5s, 20ms, 50%%) or mark:NAME, not '%s'",
		value);
}

int cli_selection_set(struct cli_selection *s, const struct cli_verb *verb,
		      const struct cli_option *option, const char *value)
{
	uint64_t number;
	switch (option->id) {
	case CLI_OPT_JSON: s->json = true; return 0;
	case CLI_OPT_QUIET: s->quiet = true; return 0;
	case CLI_OPT_FOCUS: s->focus = value; return 0;
	case CLI_OPT_IGNORE: s->ignore = value; return 0;
	case CLI_OPT_FRAMES: s->frames = value; return 0;
	case CLI_OPT_THREAD: s->part.thread = value; return 0;
	case CLI_OPT_PID:
		if (number_parse(value, INT32_MAX, &number) < 0)
			return cli_usage_error(verb, "--pid needs a process id, not '%s'", value);
		s->part.has_pid = true;
		s->part.pid = (int32_t)number;
		return 0;
	case CLI_OPT_PROCESSES: /* a value of its list */
		s->no_roots = strcmp(value, "none") == 0;
		s->has_roots = true;
		s->part.merging = strcmp(value, "each") == 0 ? PROCESSES_EACH : PROCESSES_AS_FIT;
		return 0;
	case CLI_OPT_FROM: return set_time(verb, option, value, &s->from_text, &s->from);
	case CLI_OPT_TO: return set_time(verb, option, value, &s->to_text, &s->to);
	case CLI_OPT_AT: return set_moment(s, verb, value);
	case CLI_OPT_NUMBER:
		if (number_parse(value, UINT32_MAX, &number) < 0)
			return cli_usage_error(verb, "-n needs a number, not '%s'", value);
		s->limit = (size_t)number;
		s->has_limit = true;
		return 0;
	case CLI_OPT_SORT: /* a value of its list, as the colour */
		s->has_sort = true;
		s->sort = measure_of_option(value);
		s->part.mapped = s->sort == MEASURE_MAPPED_BYTES;
		return s->sort == MEASURE_COUNT ? HEFT_EUSAGE : 0;
	case CLI_OPT_COLOR: return cli_parse_color(value, &s->color);
	default: return cli_usage_error(verb, "--%s does not work here", option->name);
	}
}

const char *cli_moment_words(enum cli_moment moment)
{
	static const char *const words[] = {
		[CLI_AT_UNSAID] = "what was live at the end",
		[CLI_AT_PEAK] = "what was live at the peak",
		[CLI_AT_END] = "what was live at the end",
		[CLI_AT_EXIT] = "what each process had not freed when it ended",
		[CLI_AT_TIME] = "what was live",
	};
	return words[moment];
}

bool cli_selection_has_window(const struct cli_selection *s)
{
	return s->from_text || s->to_text;
}

/* Sets *time_ns, which counts from s->start_ns. ends: what happens from a mark on is not meant. */
static int resolve(const struct cli_selection *s, struct trace_reader *r,
		   const struct cli_time *time, bool ends, uint64_t *time_ns,
		   struct heft_error *err)
{
	uint64_t mark_ns = 0;
	if (!time->mark) {
		*time_ns = cli_time_resolve(time, s->duration_ns - s->start_ns);
		return 0;
	}
	int rc = trace_mark_time(r, &s->part, time->mark, &mark_ns, err);
	mark_ns -= ends && mark_ns;
	*time_ns = mark_ns > s->start_ns ? mark_ns - s->start_ns : 0;
	return rc;
}

static int set_window(struct cli_selection *s, struct trace_reader *r, struct heft_error *err)
{
	uint64_t duration = s->duration_ns - s->start_ns;
	const char *whose = s->part.has_pid ? "process" : "recording";
	struct profile_selection *part = &s->part;
	int rc = 0;
	part->from_ns = 0;
	part->to_ns = duration;
	if (s->from_text)
		rc = resolve(s, r, &s->from, false, &part->from_ns, err);
	if (rc == 0 && s->to_text)
		rc = resolve(s, r, &s->to, true, &part->to_ns, err);
	if (rc == 0 && s->moment == CLI_AT_TIME) {
		rc = resolve(s, r, &s->at, true, &part->to_ns, err);
		part->from_ns = part->to_ns;
	}
	if (rc < 0)
		return rc;
	if (s->from.mark && s->to.mark && part->from_ns == part->to_ns + 1)
		part->to_ns = part->from_ns + 1; /* both marks are in one tick */
	if (s->moment == CLI_AT_TIME && part->to_ns > duration)
		return heft_fail(err, HEFT_EUSAGE, "--at is after the end of the %s (%.6f s)",
				 whose, (double)duration / 1e9);
	if (part->to_ns > duration)
		part->to_ns = duration;
	if (part->from_ns > part->to_ns)
		return heft_fail(err, HEFT_EUSAGE,
				 "--from is after --to or after the end of the %s (%.6f s)", whose,
				 (double)duration / 1e9);
	part->origin_ns = s->start_ns;
	part->from_ns += s->start_ns;
	part->to_ns += s->start_ns;
	return 0;
}

/* Sets when the chosen process began and ended: with --pid, times count from its start. */
static void set_run_time(struct cli_selection *s, const struct trace_contents *c)
{
	uint64_t start = UINT64_MAX, end = 0;
	s->start_ns = 0;
	s->duration_ns = c->duration_ns;
	for (uint32_t i = 0; i < c->process_count && s->part.has_pid; i++) {
		const struct trace_process *p = &c->processes[i];
		uint64_t last = p->end == TRACE_END_RUNNING ? c->duration_ns : p->end_ns;
		if (p->pid != s->part.pid)
			continue;
		start = p->start_ns < start ? p->start_ns : start;
		end = last > end ? last : end;
	}
	end = end < c->duration_ns ? end : c->duration_ns;
	if (start < end) {
		s->start_ns = start;
		s->duration_ns = end;
	}
}

int cli_selection_resolve(struct cli_selection *s, const struct input_file *in,
			  struct heft_error *err)
{
	s->part.own_time = s->part.has_pid;
	if (s->moment != CLI_AT_TIME && !cli_selection_has_window(s))
		return 0;
	s->part.has_window = true;
	s->duration_ns = UINT64_MAX;
	s->start_ns = 0;
	if (!in->reader)
		return 0;
	set_run_time(s, trace_reader_contents(in->reader));
	return set_window(s, in->reader, err);
}

bool cli_selection_at_end(const struct cli_selection *s)
{
	return s->moment == CLI_AT_TIME && s->part.to_ns == s->duration_ns;
}

int cli_selection_apply_moment(const struct cli_selection *s, struct profile *p,
			       struct heft_error *err)
{
	static const enum profile_moment moments[] = {[CLI_AT_UNSAID] = PROFILE_AT_END,
						      [CLI_AT_PEAK] = PROFILE_AT_PEAK,
						      [CLI_AT_END] = PROFILE_AT_END,
						      [CLI_AT_EXIT] = PROFILE_AT_EXIT,
						      [CLI_AT_TIME] = PROFILE_AT_END};
	return s->at_text ? profile_select_moment(p, moments[s->moment], err) : 0;
}

int cli_selection_apply_any(const struct cli_selection *s, struct profile *p,
			    struct heft_error *err)
{
	int rc = cli_apply_frame_rules(p, s->frames, err);
	if (rc == 0)
		rc = cli_selection_apply_moment(s, p, err);
	if (rc == 0 && (s->focus || s->ignore))
		rc = profile_filter(p, s->focus, s->ignore, err);
	return rc;
}

int cli_selection_note_nothing(const struct cli_selection *s, struct profile *p)
{
	if (!s->ignore)
		return profile_add_note(
			p, PROFILE_NOTE_WARNING, 0,
			"no call stack matches --focus '%s', a regular expression for "
			"functions, files and modules",
			s->focus);
	return profile_add_note(p, PROFILE_NOTE_WARNING, 0,
				"%s%s%s--ignore '%s' leaves no call stack",
				s->focus ? "with --focus '" : "", s->focus ? s->focus : "",
				s->focus ? "' " : "", s->ignore);
}

int cli_selection_apply(const struct cli_selection *s, struct profile *p, struct heft_error *err)
{
	uint32_t before = p->site_count;
	int rc = cli_selection_apply_any(s, p, err);
	if (rc == 0 && before && !p->site_count && cli_selection_note_nothing(s, p) < 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for a note");
	return rc;
}
