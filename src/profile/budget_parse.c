/* Reading budget files (budget.h).
 *
 *     rule    = measure [ "in" scope ] operator limit
 *     measure = NAME | "finding" KIND
 *     scope   = [ "file:" | "module:" | "thread:" | "function:" ] PATTERN
 *     operator = "<=" | "<" | ">=" | ">" | "=="
 *     limit   = amount | "baseline" [ ( "+" | "-" ) ( NUMBER "%" | amount ) ]
 *     amount  = NUMBER [ suffix ]
 *
 * A pattern ends at a blank, or stands in double quotes. "#" begins a comment at the start of a
 * line or after a blank. A file is hostile: it is bounded in size, every position is checked, and a
 * message names line and column. What is not wholly understood is refused, because a budget that
 * silently checks something else is worse than none; so is a file without any rule. */
#include "profile/budget.h"

#include "hosted/number_parse.h"
#include "hosted/vector.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_SHOWN = 40 };

static const char *const operator_signs[] = {
	[BUDGET_AT_MOST] = "<=", [BUDGET_BELOW] = "<",  [BUDGET_AT_LEAST] = ">=",
	[BUDGET_ABOVE] = ">",    [BUDGET_EQUAL] = "==",
};

const char *budget_operator_sign(enum budget_operator op)
{
	return operator_signs[op];
}

struct parser {
	struct budget *b;
	const struct budget_kind *kinds;
	size_t kind_count;
	struct heft_error *err;
	size_t at, line_start, line_end;
	uint32_t line, capacity;
};

/* ---- messages */

static int bad(struct parser *p, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int bad(struct parser *p, size_t at, const char *fmt, ...)
{
	char what[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	heft_fail(p->err, HEFT_EFORMAT, "%s:%u:%zu: %s", p->b->name, p->line,
		  at - p->line_start + 1, what);
	if (p->err)
		p->err->offset = at;
	return HEFT_EFORMAT;
}

static size_t word_length(const struct parser *p, size_t at)
{
	size_t end = at;
	while (end < p->line_end && p->b->text[end] != ' ' && p->b->text[end] != '\t')
		end++;
	return end - at;
}

/* The word at a position for a message: bytes that are no plain text become "?". */
struct shown {
	char text[LONGEST_SHOWN + 8];
};

static struct shown found(const struct parser *p, size_t at)
{
	struct shown s;
	size_t length = word_length(p, at), used = 0;
	if (!length) {
		strcpy(s.text, "the line's end");
		return s;
	}
	s.text[used++] = '\'';
	for (size_t i = 0; i < length && i < LONGEST_SHOWN; i++) {
		char c = p->b->text[at + i];
		s.text[used++] = c >= 0x20 && c < 0x7f ? c : '?';
	}
	if (length > LONGEST_SHOWN) {
		memcpy(s.text + used, "...", 3);
		used += 3;
	}
	s.text[used++] = '\'';
	s.text[used] = 0;
	return s;
}

/* The name with the longest common beginning so far, of at least three letters. */
static const char *meant(const char *word, size_t length, const char *name, size_t *best,
			 const char *so_far)
{
	size_t same = 0;
	while (same < length && name[same] && word[same] == name[same])
		same++;
	if (same < 3 || same <= *best)
		return so_far;
	*best = same;
	return name;
}

/* ---- words */

static void skip_blanks(struct parser *p)
{
	while (p->at < p->line_end && (p->b->text[p->at] == ' ' || p->b->text[p->at] == '\t'))
		p->at++;
}

static size_t name_length(const struct parser *p)
{
	size_t end = p->at;
	while (end < p->line_end &&
	       (isalnum((unsigned char)p->b->text[end]) || strchr("_-.", p->b->text[end])))
		end++;
	return end - p->at;
}

static bool is_word(const struct parser *p, size_t length, const char *word)
{
	return strlen(word) == length && memcmp(p->b->text + p->at, word, length) == 0;
}

static int parse_kind(struct parser *p, struct budget_rule *r)
{
	skip_blanks(p);
	size_t length = name_length(p), best = 0;
	const char *near = NULL;
	for (size_t i = 0; i < p->kind_count; i++) {
		if (is_word(p, length, p->kinds[i].name)) {
			r->finding = &p->kinds[i];
			p->at += length;
			return 0;
		}
		near = meant(p->b->text + p->at, length, p->kinds[i].name, &best, near);
	}
	if (near)
		return bad(p, p->at, "expected a kind of finding, found %s; did you mean %s?",
			   found(p, p->at).text, near);
	return bad(p, p->at,
		   "expected a kind of finding that this heft looks for (such as %s), found %s",
		   p->kind_count ? p->kinds[0].name : "none", found(p, p->at).text);
}

static int parse_measure(struct parser *p, struct budget_rule *r)
{
	size_t length = name_length(p), best = 0;
	const char *near = NULL;
	if (is_word(p, length, "finding")) {
		p->at += length;
		return parse_kind(p, r);
	}
	for (const struct measure *m = measures; m < measures + MEASURE_COUNT; m++) {
		if (m->minus || m->kind == MEASURE_OF_BLOCKS) /* of a window, or does not add up */
			continue;
		if (is_word(p, length, m->name)) {
			r->measure = m;
			p->at += length;
			return 0;
		}
		near = meant(p->b->text + p->at, length, m->name, &best, near);
	}
	if (near)
		return bad(p, p->at, "expected a measure, found %s; did you mean %s?",
			   found(p, p->at).text, near);
	return bad(p, p->at,
		   "expected a measure (peak_bytes, live_bytes, allocations, ...) or 'finding', "
		   "found %s",
		   found(p, p->at).text);
}

static int keep_pattern(struct parser *p, struct budget_rule *r, size_t from, size_t length)
{
	if (!length)
		return bad(p, from, "expected a pattern such as parse_*, found nothing");
	r->pattern = strndup(p->b->text + from, length);
	return r->pattern ? 0 : HEFT_ENOMEM;
}

static int parse_pattern(struct parser *p, struct budget_rule *r)
{
	size_t from = p->at;
	if (from < p->line_end && p->b->text[from] == '"') {
		const char *end = memchr(p->b->text + from + 1, '"', p->line_end - from - 1);
		if (!end)
			return bad(p, from, "expected a second \" that ends the pattern");
		size_t length = (size_t)(end - (p->b->text + from + 1));
		p->at = from + length + 2;
		return keep_pattern(p, r, from + 1, length);
	}
	size_t length = word_length(p, from);
	p->at += length;
	return keep_pattern(p, r, from, length);
}

static int parse_scope(struct parser *p, struct budget_rule *r)
{
	static const struct {
		const char *word;
		enum budget_scope scope;
	} prefixes[] = {
		{"file:", BUDGET_IN_FILE},
		{"module:", BUDGET_IN_MODULE},
		{"thread:", BUDGET_IN_THREAD},
		{"function:", BUDGET_IN_FUNCTION},
	};
	skip_blanks(p);
	if (!is_word(p, name_length(p), "in"))
		return 0;
	size_t in = p->at;
	p->at += 2;
	skip_blanks(p);
	r->scope = BUDGET_IN_FUNCTION;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		size_t length = strlen(prefixes[i].word);
		if (p->line_end - p->at >= length &&
		    memcmp(p->b->text + p->at, prefixes[i].word, length) == 0) {
			r->scope = prefixes[i].scope;
			p->at += length;
			break;
		}
	}
	if (!r->measure)
		return bad(
			p, in,
			"expected an operator: findings are counted for the whole recording only");
	if (r->scope == BUDGET_IN_THREAD && !r->measure->thread)
		return bad(p, in, "expected an operator: %s is not counted by thread",
			   r->measure->name);
	if (r->scope != BUDGET_IN_THREAD && !r->measure->site)
		return bad(p, in, "expected an operator: %s is known for the whole run only",
			   r->measure->name);
	return parse_pattern(p, r);
}

static int parse_operator(struct parser *p, struct budget_rule *r)
{
	skip_blanks(p);
	size_t length = 0;
	while (p->at + length < p->line_end && strchr("<>=!~", p->b->text[p->at + length]))
		length++;
	for (unsigned op = 0; length && op <= BUDGET_EQUAL; op++)
		if (is_word(p, length, operator_signs[op])) {
			r->op = (enum budget_operator)op;
			p->at += length;
			return 0;
		}
	return bad(p, p->at, "expected %sone of <= < >= > ==, found %s",
		   r->measure && !r->pattern ? "'in' or " : "", found(p, p->at).text);
}

/* ---- limits */

/* The unit of what is measured, written out; 0: none. */
static uint64_t suffix_scale(enum measure_unit unit, const char *text, size_t length)
{
	if (unit == MEASURE_IS_BYTES)
		return size_unit(text, length);
	if (!length)
		return 1;
	return unit == MEASURE_IS_TIME ? time_unit(text, length) : 0;
}

/* A number with its unit, which becomes the rule's suffix. */
static int parse_amount(struct parser *p, struct budget_rule *r, uint64_t *value)
{
	static const char *const wants[] = {
		[MEASURE_IS_COUNT] = "a whole number",
		[MEASURE_IS_BYTES] = "a size such as 4096, 64k, 1.5M or 2G",
		[MEASURE_IS_TIME] = "a time such as 250ms, 1.5s or 2m",
	};
	enum measure_unit unit = r->measure ? r->measure->unit : MEASURE_IS_COUNT;
	const char *text = p->b->text + p->at;
	size_t length = word_length(p, p->at);
	struct decimal d = decimal_parse(text, length);
	const char *suffix = text + d.length;
	uint64_t scale = d.length ? suffix_scale(unit, suffix, length - d.length) : 0;
	if (!scale)
		return bad(p, p->at, "expected %s, found %s", wants[unit], found(p, p->at).text);
	if (scale == 1 && d.billionths)
		return bad(p, p->at, "expected a whole number, found %s", found(p, p->at).text);
	if (!decimal_scale(&d, scale, value))
		return bad(p, p->at, "expected a number below 2^64, found %s",
			   found(p, p->at).text);
	snprintf(r->suffix, sizeof r->suffix, "%.*s", (int)(length - d.length), suffix);
	p->at += length;
	return 0;
}

/* "5%", "5 %" or "0.5 %". False: it is no share, and nothing was taken. */
static bool parse_share(struct parser *p, uint32_t *ppm)
{
	enum { MOST_PERCENT = 100000 };
	const char *text = p->b->text + p->at;
	struct decimal d = decimal_parse(text, word_length(p, p->at));
	size_t end = p->at + d.length;
	uint64_t scaled;
	while (end < p->line_end && (p->b->text[end] == ' ' || p->b->text[end] == '\t'))
		end++;
	if (!d.length || end == p->line_end || p->b->text[end] != '%' || d.whole > MOST_PERCENT ||
	    !decimal_scale(&d, 10000, &scaled))
		return false;
	*ppm = (uint32_t)scaled;
	p->at = end + 1;
	return true;
}

/* What follows "baseline". */
static int parse_relative(struct parser *p, struct budget_rule *r)
{
	size_t end = p->at;
	r->relative.is = true;
	skip_blanks(p);
	char sign = p->at < p->line_end ? p->b->text[p->at] : 0;
	if (sign != '+' && sign != '-') {
		p->at = end;
		return 0;
	}
	r->relative.less = sign == '-';
	p->at++;
	skip_blanks(p);
	return parse_share(p, &r->relative.ppm) ? 0 : parse_amount(p, r, &r->relative.amount);
}

static int parse_limit(struct parser *p, struct budget_rule *r)
{
	static const char word[] = "baseline";
	skip_blanks(p);
	r->limit_at = p->at;
	size_t length = name_length(p);
	int rc;
	/* "baseline+5%" and "baseline-5%" are words, too. */
	if (length >= sizeof word - 1 && memcmp(p->b->text + p->at, word, sizeof word - 1) == 0 &&
	    (length == sizeof word - 1 || p->b->text[p->at + sizeof word - 1] == '-')) {
		p->at += sizeof word - 1;
		rc = parse_relative(p, r);
	} else {
		rc = parse_amount(p, r, &r->limit);
	}
	r->limit_length = p->at - r->limit_at;
	return rc;
}

/* ---- lines */

static int parse_rule(struct parser *p)
{
	struct budget *b = p->b;
	if (!array_reserve(b->rules, b->count, p->capacity, 1))
		return HEFT_ENOMEM;
	struct budget_rule *r = &b->rules[b->count];
	memset(r, 0, sizeof *r);
	b->count++; /* from here on budget_free knows its pattern */
	r->line = p->line;
	r->at = p->at;
	int rc = parse_measure(p, r);
	if (rc == 0)
		rc = parse_scope(p, r);
	r->subject_length = p->at - r->at;
	while (r->subject_length && strchr(" \t", b->text[r->at + r->subject_length - 1]))
		r->subject_length--;
	if (rc == 0)
		rc = parse_operator(p, r);
	if (rc == 0)
		rc = parse_limit(p, r);
	if (rc < 0)
		return rc;
	r->length = p->at - r->at;
	skip_blanks(p);
	if (p->at < p->line_end && b->text[p->at] != '#')
		return bad(p, p->at, "expected the end of the rule or a comment (#), found %s",
			   found(p, p->at).text);
	return 0;
}

static int parse_lines(struct parser *p)
{
	struct budget *b = p->b;
	int rc = 0;
	for (size_t next = 0; rc == 0 && next < b->size;) {
		const char *newline = memchr(b->text + next, '\n', b->size - next);
		size_t end = newline ? (size_t)(newline - b->text) : b->size;
		p->line++;
		p->line_start = p->at = next;
		next = newline ? end + 1 : end;
		const char *nul = memchr(b->text + p->at, 0, end - p->at);
		if (nul)
			return bad(p, (size_t)(nul - b->text), "expected text, found a zero byte");
		if (end > p->at && b->text[end - 1] == '\r')
			end--;
		p->line_end = end;
		skip_blanks(p);
		if (p->at < end && b->text[p->at] != '#')
			rc = parse_rule(p);
	}
	if (rc == 0 && !b->count) {
		p->line = p->line ? p->line : 1;
		p->line_end = p->line_start = p->at = b->size;
		return bad(p, p->at, "expected at least one rule, such as: peak_bytes <= 20M");
	}
	return rc;
}

int budget_parse(struct budget **out, const char *name, const char *text, size_t size,
		 const struct budget_kind *kinds, size_t kind_count, struct heft_error *err)
{
	struct parser p = {.kinds = kinds, .kind_count = kind_count, .err = err};
	int rc = HEFT_ENOMEM;
	*out = NULL;
	p.b = calloc(1, sizeof *p.b);
	if (!p.b)
		goto out;
	p.b->name = strdup(name);
	p.b->text = malloc(size + 1);
	if (!p.b->name || !p.b->text)
		goto out;
	memcpy(p.b->text, text, size);
	p.b->text[size] = 0;
	p.b->size = size;
	rc = parse_lines(&p);
out:
	if (rc == HEFT_ENOMEM)
		heft_fail(err, rc, "not enough memory to read %s", name);
	if (rc < 0) {
		budget_free(p.b);
		return rc;
	}
	*out = p.b;
	return 0;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	for (uint32_t i = 0; i < b->count; i++)
		free((char *)b->rules[i].pattern);
	free(b->rules);
	free(b->name);
	free(b->text);
	free(b);
}
