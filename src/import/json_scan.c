/* Takes JSON values out of a stream (json_scan.h). This is by hand because jansson makes an object of
 * every value before the first one can be read: DHAT files of large programs have hundreds of
 * megabytes, and hostile ones would cost ten times their size.
 *
 * Bounds: a string has at most LONGEST_STRING bytes, nesting MAX_DEPTH levels. */
#include "import/json_scan.h"

#include "hosted/hex.h"
#include "hosted/utf8.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, LONGEST_STRING = 2 * IMPORT_LINE_MAX - 1 };

void json_scan_fini(struct json_scan *s)
{
	free(s->text);
	s->text = NULL;
}

int json_scan_fail(struct json_scan *s, const char *expected)
{
	return import_fail(s->in, import_source_offset(s->in, s->in->at), "expected %s%s", expected,
			   s->in->at == s->in->end && s->in->ended ? ": the file was cut" : "");
}

/* The next byte, or 0 at the end. */
static int next_byte(struct json_scan *s)
{
	struct import_source *in = s->in;
	if (in->at == in->end) {
		int rc = import_source_more(in);
		if (rc <= 0)
			return rc;
	}
	return *in->at ? *in->at : ' ' + 256; /* a NUL is nothing that JSON knows */
}

int json_scan_peek(struct json_scan *s)
{
	for (;;) {
		int c = next_byte(s);
		if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
			return c;
		s->in->at++;
	}
}

int json_scan_take(struct json_scan *s, char c)
{
	char what[] = "'?'";
	int got = json_scan_peek(s);
	if (got < 0)
		return got;
	what[1] = c;
	if (got != c)
		return json_scan_fail(s, what);
	s->in->at++;
	return 0;
}

static int put(struct json_scan *s, uint32_t c)
{
	if (s->length >= LONGEST_STRING)
		return json_scan_fail(s, "a shorter string");
	if (!array_reserve(s->text, s->length, s->capacity, 1))
		return import_no_memory(s->in);
	s->text[s->length++] = (char)(c ? c : '?');
	return 0;
}

static int put_code_point(struct json_scan *s, uint32_t c)
{
	char bytes[4];
	size_t count = utf8_encode(c, bytes);
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = put(s, (unsigned char)bytes[i]);
	return rc;
}

static int four_digits(struct json_scan *s, uint32_t *value)
{
	*value = 0;
	for (int i = 0; i < 4; i++) {
		int c = next_byte(s);
		if (c < 0)
			return c;
		int digit = hex_digit((char)c);
		if (digit < 0)
			return json_scan_fail(s, "four digits after \\u");
		*value = *value << 4 | (uint32_t)digit;
		s->in->at++;
	}
	return 0;
}

static int escape(struct json_scan *s)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	uint32_t high, low;
	int c = next_byte(s);
	if (c < 0)
		return c;
	const char *found = c < 128 && c ? strchr(from, c) : NULL;
	if (found) {
		s->in->at++;
		return put(s, (uint32_t)(unsigned char)to[found - from]);
	}
	if (c != 'u')
		return json_scan_fail(s, "an escape of JSON");
	s->in->at++;
	int rc = four_digits(s, &high);
	if (rc < 0 || high < 0xd800 || high > 0xdbff)
		return rc < 0 ? rc
			      : put_code_point(s, high >= 0xdc00 && high <= 0xdfff ? '?' : high);
	if (next_byte(s) != '\\')
		return put(s, '?');
	s->in->at++;
	if (next_byte(s) != 'u')
		return json_scan_fail(s, "the second half of a pair of \\u");
	s->in->at++;
	rc = four_digits(s, &low);
	if (rc < 0)
		return rc;
	return put_code_point(s, low >= 0xdc00 && low <= 0xdfff
					 ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
					 : '?');
}

int json_scan_string(struct json_scan *s)
{
	int rc = json_scan_peek(s);
	if (rc < 0)
		return rc;
	if (rc != '"')
		return json_scan_fail(s, "a string");
	s->in->at++;
	s->length = 0;
	for (;;) {
		int c = next_byte(s);
		if (c < 0)
			return c;
		if (c == 0)
			return json_scan_fail(s, "the end of a string");
		s->in->at++;
		if (c == '"')
			break;
		rc = c == '\\' ? escape(s) : put(s, c > 255 ? '?' : (uint32_t)c);
		if (rc < 0)
			return rc;
	}
	rc = put(s, '.'); /* reserves the byte for the NUL */
	if (rc < 0)
		return rc;
	s->text[--s->length] = 0;
	return 0;
}

int json_scan_uint(struct json_scan *s, uint64_t *value)
{
	int c = json_scan_peek(s);
	if (c < 0)
		return c;
	if (c < '0' || c > '9')
		return json_scan_fail(s, "a number, not negative");
	uint64_t v = 0;
	for (; (c = next_byte(s)) >= '0' && c <= '9'; s->in->at++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(c - '0'), &v))
			v = UINT64_MAX / 16; /* further digits keep it large */
	if (c == '.')
		for (s->in->at++; (c = next_byte(s)) >= '0' && c <= '9';)
			s->in->at++;
	if (c < 0)
		return c;
	if (c == 'e' || c == 'E')
		return json_scan_fail(s, "a number without an exponent");
	*value = v;
	return 0;
}

int json_scan_bool(struct json_scan *s, bool *value)
{
	int c = json_scan_peek(s);
	if (c < 0)
		return c;
	const char *word = c == 't' ? "true" : "false";
	*value = c == 't';
	int rc = import_source_need(s->in, strlen(word));
	if (rc < 0)
		return rc;
	if ((size_t)(s->in->end - s->in->at) < strlen(word) ||
	    memcmp(s->in->at, word, strlen(word)))
		return json_scan_fail(s, "true or false");
	s->in->at += strlen(word);
	return 0;
}

int json_scan_next(struct json_scan *s, char open, bool *first)
{
	char close = open == '{' ? '}' : ']';
	int c = json_scan_peek(s);
	if (c < 0)
		return c;
	if (c == close) {
		s->in->at++;
		return 0;
	}
	if (!*first) {
		if (c != ',')
			return json_scan_fail(s, open == '{' ? "',' or '}'" : "',' or ']'");
		s->in->at++;
	}
	*first = false;
	return 1;
}

int json_scan_key(struct json_scan *s, bool *first)
{
	int rc = json_scan_next(s, '{', first);
	if (rc != 1)
		return rc;
	rc = json_scan_string(s);
	if (rc == 0)
		rc = json_scan_take(s, ':');
	return rc < 0 ? rc : 1;
}

/* Brackets are counted, not matched: a skipped value need not be sound, only bounded. */
int json_scan_skip(struct json_scan *s)
{
	int depth = 0;
	do {
		int c = json_scan_peek(s), rc = 0;
		if (c < 0)
			return c;
		if (c == 0)
			return json_scan_fail(s, "a value");
		if (c == '"') {
			rc = json_scan_string(s);
		} else if (c == '[' || c == '{') {
			s->in->at++;
			if (++depth > MAX_DEPTH)
				return json_scan_fail(s, "less nesting");
		} else if (c == ']' || c == '}') {
			if (--depth < 0)
				return json_scan_fail(s, "a value");
			s->in->at++;
		} else if (c == ',' || c == ':') {
			if (!depth)
				return json_scan_fail(s, "a value");
			s->in->at++;
		} else { /* a number or a word */
			const uint8_t *from = s->in->at;
			uint64_t start = import_source_offset(s->in, from);
			while ((c = next_byte(s)) > 0 && c < 256 &&
			       ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' ||
				c == '-' || c == '+' || c == 'E'))
				s->in->at++;
			if (c < 0)
				return c;
			if (import_source_offset(s->in, s->in->at) == start)
				return json_scan_fail(s, "a value");
		}
		if (rc < 0)
			return rc;
	} while (depth);
	return 0;
}
