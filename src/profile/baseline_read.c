/* Reads baselines (baseline.h).
 *
 * The numbers are rules of a budget, so the reader of budgets reads them; this file reads the sites behind them. The file
 * comes out of a repository, where merges leave their marks and editors cut lines: what is not wholly understood is
 * refused, with line and column, and the last line tells whether something is missing before it.
 *
 * Names are escaped as \xNN where they have a control character or a backslash. */
#include "profile/baseline.h"

#include "hosted/hex.h"
#include "hosted/number_parse.h"
#include "hosted/saturating.h"
#include "hosted/vector.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	struct baseline *b;
	const char *name, *text, *end;
	const char *line, *line_end; /* the current one, without what ends it */
	const char *next;            /* where the next one begins */
	uint32_t number;             /* from 1 */
	struct heft_error *err;
	struct profile_site sum; /* of the site that is being read */
	bool in_site;
	VECTOR(uint32_t) frames; /* its stack, innermost first */
};

static int bad(struct reader *r, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int bad(struct reader *r, const char *at, const char *fmt, ...)
{
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	heft_fail(r->err, HEFT_EFORMAT, "%s:%u:%zu: %s", r->name, r->number,
		  (size_t)(at - r->line) + 1, what);
	if (r->err)
		r->err->offset = (uint64_t)(at - r->text);
	return HEFT_EFORMAT;
}

/* Goes to the next line; false: there is none. */
static bool next_line(struct reader *r)
{
	if (r->line && r->next == r->end)
		return false;
	r->line = r->line ? r->next : r->text;
	const char *newline = memchr(r->line, '\n', (size_t)(r->end - r->line));
	r->line_end = newline ? newline : r->end;
	r->next = newline ? newline + 1 : r->end;
	if (r->line_end > r->line && r->line_end[-1] == '\r')
		r->line_end--;
	r->number++;
	return true;
}

static bool begins(const struct reader *r, const char *word)
{
	size_t length = strlen(word);
	return (size_t)(r->line_end - r->line) >= length && memcmp(r->line, word, length) == 0;
}

/* ---- stacks */

static int take_hex(struct reader *r, const char **at, char *byte)
{
	const char *s = *at + 1;
	int high = -1, low = -1;
	if (r->line_end - s >= 3 && *s == 'x') {
		high = hex_digit(s[1]);
		low = hex_digit(s[2]);
	}
	if (high < 0 || low < 0 || high + low == 0)
		return bad(r, *at, "expected \\xNN, a byte in two digits that are not both 0");
	*byte = (char)(high << 4 | low);
	*at = s + 3;
	return 0;
}

/* The name up to a tab or the line's end. */
static int take_name(struct reader *r, const char **at, const char **name)
{
	char *copy = malloc((size_t)(r->line_end - *at) + 1);
	size_t length = 0;
	int rc = copy ? 0 : HEFT_ENOMEM;
	while (rc == 0 && *at < r->line_end && **at != '\t') {
		if (**at == '\\')
			rc = take_hex(r, at, &copy[length++]);
		else if (!**at)
			rc = bad(r, *at, "expected a name, found a zero byte");
		else
			copy[length++] = *(*at)++;
	}
	if (rc == 0) {
		*name = name_pool_add_n(r->b->sites->names, copy, length);
		rc = *name ? 0 : HEFT_ENOMEM;
	}
	free(copy);
	return rc;
}

/* A function without a name is known by its module, as keys of stacks have it. */
static int nameless(struct reader *r, const char *module, const char **name)
{
	char *text;
	if (asprintf(&text, "%s+0x0", module) < 0)
		return HEFT_ENOMEM;
	*name = name_pool_add(r->b->sites->names, text);
	free(text);
	return *name ? 0 : HEFT_ENOMEM;
}

static int read_frame(struct reader *r)
{
	struct profile *p = r->b->sites;
	struct profile_frame f = {.module = PROFILE_NONE};
	const char *at = r->line + 1, *module = "";
	uint32_t id;
	if (!r->in_site)
		return bad(r, r->line, "expected \"site\" before the functions of its stack");
	int rc = take_name(r, &at, &f.function);
	if (rc == 0 && at < r->line_end) {
		at++;
		rc = take_name(r, &at, &module);
		if (rc == 0 && at < r->line_end)
			rc = bad(r, at, "expected the end of the line behind the module");
		if (rc == 0 && *module)
			rc = profile_add_module(p, module, NULL, 0, &f.module);
	}
	if (rc == 0 && strcmp(f.function, BASELINE_NAMELESS) == 0)
		rc = nameless(r, module, &f.function);
	if (rc == 0)
		rc = profile_add_frame(p, &f, &id);
	if (rc == 0 && !vector_push(&r->frames, id))
		rc = HEFT_ENOMEM;
	return rc;
}

/* ---- sites */

static int end_site(struct reader *r)
{
	uint32_t node = PROFILE_NONE, site;
	int rc = 0;
	if (!r->in_site)
		return 0;
	for (size_t i = r->frames.count; rc == 0 && i-- > 0;)
		rc = profile_add_node(r->b->sites, node, r->frames.items[i], 0, &node);
	if (rc == 0)
		rc = profile_add_site(r->b->sites, node, PROFILE_VIA_UNKNOWN, &site);
	if (rc == 0)
		measure_add_sums(&r->b->sites->sites[site], &r->sum);
	r->frames.count = 0;
	r->in_site = false;
	return rc;
}

/* " NAME=NUMBER" */
static int read_number(struct reader *r, const char **at)
{
	const char *name = *at + 1, *sign = name;
	while (sign < r->line_end && *sign != '=' && *sign != ' ')
		sign++;
	struct decimal d = {0};
	uint64_t value;
	if (sign < r->line_end && *sign == '=')
		d = decimal_parse(sign + 1, (size_t)(r->line_end - sign - 1));
	const char *after = sign + 1 + d.length;
	if (**at != ' ' || !d.length || d.billionths || !decimal_scale(&d, 1, &value) ||
	    (after < r->line_end && *after != ' '))
		return bad(r, *at, "expected a blank, the name of a measure, = and a whole number");
	for (const struct measure *m = measures; m < measures + MEASURE_COUNT; m++) {
		if (!measure_adds_up(m) || strlen(m->name) != (size_t)(sign - name) ||
		    memcmp(m->name, name, (size_t)(sign - name)) != 0)
			continue;
		measure_set_site(&r->sum, (enum measure_id)(m - measures), value);
		*at = after;
		return 0;
	}
	return bad(r, name, "expected a measure of sites, such as peak_bytes");
}

static int read_site(struct reader *r)
{
	const char *at = r->line + strlen("site");
	int rc = end_site(r);
	memset(&r->sum, 0, sizeof r->sum);
	r->in_site = true;
	while (rc == 0 && at < r->line_end)
		rc = read_number(r, &at);
	return rc;
}

static int read_end(struct reader *r)
{
	const char *number = r->line + strlen("end ");
	struct decimal d = decimal_parse(number, (size_t)(r->line_end - number));
	if (!d.length || d.billionths || number + d.length != r->line_end)
		return bad(r, number, "expected the number of sites that were left out");
	r->b->left_out = d.whole;
	int rc = end_site(r);
	while (rc == 0 && next_line(r))
		if (r->line < r->line_end)
			rc = bad(r, r->line, "expected nothing behind \"end\"");
	return rc;
}

static int read_sites(struct reader *r)
{
	bool more = true;
	while (more) {
		int rc;
		if (begins(r, "end "))
			return read_end(r);
		if (begins(r, "site"))
			rc = read_site(r);
		else if (begins(r, "\t"))
			rc = read_frame(r);
		else
			rc = bad(r, r->line, "expected \"site\", \"end\", or a tab and a function");
		if (rc < 0)
			return rc;
		more = next_line(r);
	}
	return bad(r, r->line_end, "expected \"end\": the rest of the file is missing");
}

/* ---- the file */

static int read_numbers(struct reader *r, const struct budget_kind *kinds, size_t kind_count)
{
	int rc = budget_parse(&r->b->measured, r->name, r->text, (size_t)(r->line - r->text), kinds,
			      kind_count, r->err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < r->b->measured->count; i++) {
		const struct budget_rule *rule = &r->b->measured->rules[i];
		if (rule->op == BUDGET_EQUAL && !rule->relative.is)
			continue;
		heft_fail(r->err, HEFT_EFORMAT,
			  "%s:%u: expected == and a number: a baseline says what was measured",
			  r->name, rule->line);
		if (r->err)
			r->err->offset = rule->at;
		return HEFT_EFORMAT;
	}
	return 0;
}

static int read_all(struct reader *r, const struct budget_kind *kinds, size_t kind_count)
{
	static const char first[] = "# heft baseline ";
	next_line(r);
	if (!begins(r, first))
		return bad(r, r->line, "expected \"%s1\", the first line of a baseline", first);
	if ((size_t)(r->line_end - r->line) != sizeof first || r->line[sizeof first - 1] != '1')
		return bad(r, r->line + sizeof first - 1,
			   "expected version 1, the only one that this heft knows");
	while (!begins(r, "site") && !begins(r, "end "))
		if (!next_line(r))
			return bad(r, r->line_end,
				   "expected \"site\" or \"end\": the rest of the file is missing");
	int rc = read_numbers(r, kinds, kind_count);
	return rc < 0 ? rc : read_sites(r);
}

int baseline_parse(struct baseline **out, const char *name, const char *text, size_t size,
		   const struct budget_kind *kinds, size_t kind_count, struct heft_error *err)
{
	struct reader r = {.name = name, .text = text, .end = text + size, .err = err};
	int rc = HEFT_ENOMEM;
	*out = NULL;
	r.b = calloc(1, sizeof *r.b);
	if (r.b)
		r.b->sites = profile_new();
	if (r.b && r.b->sites)
		rc = read_all(&r, kinds, kind_count);
	vector_free(&r.frames);
	if (rc == HEFT_ENOMEM)
		heft_fail(err, rc, "not enough memory to read %s", name);
	if (rc < 0) {
		baseline_free(r.b);
		return rc;
	}
	*out = r.b;
	return 0;
}

void baseline_free(struct baseline *b)
{
	if (!b)
		return;
	budget_free(b->measured);
	profile_free(b->sites);
	free(b);
}
