/* Parameters into a query. Addresses come from pages, bookmarks and people: every
 * number is bounded, every word must be one of its list, and an empty text counts
 * as not given, as forms send it. */
#include "pages/view_query.h"

#include "hosted/number_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parsing {
	const struct view_parameters *from;
	const char *prefix;
	struct heft_error *err;
	int rc;
};

#define SHOWN(measure) (UINT64_C(1) << MEASURE_##measure)

void view_query_init(struct view_query *q)
{
	*q = (struct view_query){
		.within_ns = 1000000,
		.limit = VIEW_TREE_NODES,
		.rows = VIEW_ROWS,
		.slots = VIEW_SLOTS,
		.limits = {.name_bytes = MODEL_JSON_NAME_BYTES,
			   .short_modules = true,
			   .measures = SHOWN(PEAK_BYTES) | SHOWN(LIVE_BYTES) | SHOWN(LIVE_BLOCKS) |
				       SHOWN(LEFT_BYTES) | SHOWN(ALLOCATED_BYTES) |
				       SHOWN(ALLOCATIONS) | SHOWN(REALLOCATIONS) |
				       SHOWN(TEMPORARY) | SHOWN(PEAK_RSS_BYTES)},
	};
}

static const char *text_of(struct parsing *s, const char *name)
{
	char prefixed[64];
	const char *value = NULL;
	if (*s->prefix) {
		snprintf(prefixed, sizeof prefixed, "%s%s", s->prefix, name);
		value = s->from->get(s->from->ctx, prefixed);
	}
	if (!value)
		value = s->from->get(s->from->ctx, name);
	return value && *value ? value : NULL;
}

static bool number_of(struct parsing *s, const char *name, uint64_t most, uint64_t *number)
{
	const char *text = text_of(s, name);
	if (!text || s->rc < 0)
		return false;
	if (number_parse(text, most, number) == 0)
		return true;
	s->rc = heft_fail(s->err, HEFT_EUSAGE, "%s needs a whole number up to %llu, not '%.40s'",
			  name, (unsigned long long)most, text);
	return false;
}

static void count_of(struct parsing *s, const char *name, uint32_t most, uint32_t *count)
{
	uint64_t number;
	if (number_of(s, name, most, &number))
		*count = (uint32_t)number;
}

/* The place of the value in a list that ends with NULL; `otherwise` if it is not given. */
static int word_of(struct parsing *s, const char *name, const char *const *list, int otherwise)
{
	const char *text = text_of(s, name);
	if (!text || s->rc < 0)
		return otherwise;
	for (int i = 0; list[i]; i++)
		if (strcmp(list[i], text) == 0)
			return i;
	s->rc = heft_fail(s->err, HEFT_EUSAGE, "%s cannot be '%.40s'", name, text);
	return otherwise;
}

static void parse_instant(struct parsing *s, struct view_query *q)
{
	const char *at = text_of(s, "at");
	if (!at || strcmp(at, "peak") == 0)
		q->at = VIEW_AT_PEAK;
	else if (strcmp(at, "end") == 0)
		q->at = VIEW_AT_END;
	else if (number_of(s, "at", INT64_MAX, &q->at_ns))
		q->at = VIEW_AT_TIME;
}

static void parse_selection(struct parsing *s, struct view_query *q)
{
	static const char *const modes[] = {"live", "grew", "allocated", "churn", NULL};
	static const char *const metrics[] = {"bytes", "count", NULL};
	uint64_t pid, process;
	q->mode = (enum view_mode)word_of(s, "mode", modes, VIEW_LIVE);
	q->count = word_of(s, "metric", metrics, 0) == 1;
	parse_instant(s, q);
	q->has_from = number_of(s, "from", INT64_MAX, &q->from_ns);
	q->has_to = number_of(s, "to", INT64_MAX, &q->to_ns);
	q->has_pid = number_of(s, "pid", INT32_MAX, &pid);
	if (q->has_pid)
		q->pid = (int32_t)pid;
	q->has_process = number_of(s, "process", UINT32_MAX - 1, &process);
	if (q->has_process)
		q->process = (uint32_t)process;
	q->program = text_of(s, "program");
	q->thread = text_of(s, "thread");
	q->focus = text_of(s, "focus");
	q->ignore = text_of(s, "ignore");
	number_of(s, "within", INT64_MAX, &q->within_ns);
	if (s->rc == 0 && q->has_from && q->has_to && q->from_ns > q->to_ns)
		s->rc = heft_fail(s->err, HEFT_EUSAGE, "from is after to");
}

int view_query_parse(struct view_query *q, const struct view_parameters *from, const char *prefix,
		     struct heft_error *err)
{
	static const char *const switches[] = {"0", "1", NULL};
	static const char *const processes[] = {"merged", "each", "none", NULL};
	static const char *const sorts[] = {"value", "peak",      "live",     "allocated",
					    "count", "temporary", "lifetime", NULL};
	struct parsing s = {.from = from, .prefix = prefix ? prefix : "", .err = err};
	view_query_init(q);
	parse_selection(&s, q);
	s.prefix = "";
	q->processes = (enum view_processes)word_of(&s, "processes", processes, 0);
	q->invert = word_of(&s, "invert", switches, 0) == 1;
	q->sort = (enum view_sort)word_of(&s, "sort", sorts, VIEW_BY_VALUE);
	count_of(&s, "limit", VIEW_TREE_MOST, &q->limit);
	count_of(&s, "n", VIEW_ROWS_MOST, &q->rows);
	count_of(&s, "slots", 10000, &q->slots);
	count_of(&s, "site", UINT32_MAX - 1, &q->site);
	q->root = text_of(&s, "root");
	q->search = text_of(&s, "search");
	q->function = text_of(&s, "function");
	q->module = text_of(&s, "module");
	q->file = text_of(&s, "file");
	return s.rc;
}
