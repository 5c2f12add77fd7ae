/* Writes JSON as a stream, without building it in memory: the report of a large program has a million
 * frames.
 *
 * Names come from ELF files, command lines and thread names and need not be UTF-8, but JSON must be: every
 * byte that does not belong to a well-formed sequence becomes U+FFFD. Integers are written with all 64
 * bits; readers that have only doubles round them. */
#include "hosted/json_writer.h"

#include "hosted/utf8.h"

void json_write_init(struct json_writer *w, FILE *out)
{
	w->out = out;
	w->comma = false;
}

static void value_begins(struct json_writer *w)
{
	if (w->comma)
		putc_unlocked(',', w->out);
	w->comma = true;
}

static void begin(struct json_writer *w, char bracket)
{
	value_begins(w);
	putc_unlocked(bracket, w->out);
	w->comma = false;
}

static void end(struct json_writer *w, char bracket)
{
	putc_unlocked(bracket, w->out);
	w->comma = true;
}

void json_write_object(struct json_writer *w)
{
	begin(w, '{');
}

void json_write_object_end(struct json_writer *w)
{
	end(w, '}');
}

void json_write_array(struct json_writer *w)
{
	begin(w, '[');
}

void json_write_array_end(struct json_writer *w)
{
	end(w, ']');
}

static void write_string(struct json_writer *w, const char *text)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = (const unsigned char *)(text ? text : "");
	FILE *out = w->out;
	putc_unlocked('"', out);
	while (*s) {
		const unsigned char *run = s;
		while (*s >= 0x20 && *s < 0x7f && *s != '"' && *s != '\\')
			s++;
		if (s > run)
			fwrite_unlocked(run, 1, (size_t)(s - run), out);
		if (!*s)
			break;
		if (*s < 0x80) {
			putc_unlocked('\\', out);
			switch (*s) {
			case '"':
			case '\\': putc_unlocked(*s, out); break;
			case '\n': putc_unlocked('n', out); break;
			case '\t': putc_unlocked('t', out); break;
			default:
				fputs_unlocked("u00", out);
				putc_unlocked(hex[*s >> 4], out);
				putc_unlocked(hex[*s & 15], out);
			}
			s++;
			continue;
		}
		size_t length = utf8_sequence_length(s);
		if (length) {
			fwrite_unlocked(s, 1, length, out);
			s += length;
		} else {
			fputs_unlocked("\xef\xbf\xbd", out);
			s++;
		}
	}
	putc_unlocked('"', out);
}

void json_write_key(struct json_writer *w, const char *key)
{
	value_begins(w);
	write_string(w, key);
	putc_unlocked(':', w->out);
	w->comma = false;
}

void json_write_string(struct json_writer *w, const char *s)
{
	value_begins(w);
	write_string(w, s);
}

void json_write_uint(struct json_writer *w, uint64_t n)
{
	char digits[20];
	size_t at = sizeof digits;
	value_begins(w);
	do {
		digits[--at] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	if (sizeof digits - at > 6) {
		fwrite_unlocked(digits + at, 1, sizeof digits - at, w->out);
		return;
	}
	while (at < sizeof digits) /* a library call costs more than a few digits */
		putc_unlocked(digits[at++], w->out);
}

void json_write_int(struct json_writer *w, int64_t n)
{
	if (n >= 0) {
		json_write_uint(w, (uint64_t)n);
		return;
	}
	value_begins(w);
	putc_unlocked('-', w->out);
	w->comma = false;
	json_write_uint(w, 0 - (uint64_t)n);
}

void json_write_bool(struct json_writer *w, bool b)
{
	value_begins(w);
	fputs_unlocked(b ? "true" : "false", w->out);
}

void json_write_real(struct json_writer *w, double x)
{
	value_begins(w);
	if (x != x || x > 1e300 || x < -1e300) /* JSON cannot express these */
		x = 0;
	fprintf(w->out, "%.9g", x);
}

void json_write_null(struct json_writer *w)
{
	value_begins(w);
	fputs_unlocked("null", w->out);
}

void json_write_members(struct json_writer *w, const char *text, size_t length)
{
	value_begins(w);
	fwrite_unlocked(text, 1, length, w->out);
}

void json_write_newline(struct json_writer *w)
{
	putc_unlocked('\n', w->out);
}

void json_write_key_string(struct json_writer *w, const char *key, const char *s)
{
	json_write_key(w, key);
	json_write_string(w, s);
}

void json_write_key_uint(struct json_writer *w, const char *key, uint64_t n)
{
	json_write_key(w, key);
	json_write_uint(w, n);
}

void json_write_key_int(struct json_writer *w, const char *key, int64_t n)
{
	json_write_key(w, key);
	json_write_int(w, n);
}

void json_write_key_bool(struct json_writer *w, const char *key, bool b)
{
	json_write_key(w, key);
	json_write_bool(w, b);
}
