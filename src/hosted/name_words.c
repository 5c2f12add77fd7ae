/* Prints foreign names so that they do no harm and fit into a line.
 *
 * The name of a function, thread or file comes from the profiled program. It may hold escape sequences for
 * the terminal, direction marks that reorder a line, or bytes that are no text at all. Everything that is
 * not printable is shown as \xNN. Names may have any length: a C++ function of 10,000 characters takes one
 * line like every other. Cuts are always marked.
 *
 * Names are read glyph by glyph, so a cut never falls into a character or an escape. */
#include "hosted/name_words.h"

#include "hosted/utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUT = 3 /* "..." */ };

/* True for C1 controls, marks that change the direction of text, line separators, and U+FFFE and U+FFFF,
 * which are no characters (XML forbids them). */
static bool is_trouble(const unsigned char *s, size_t length)
{
	if (length == 2)
		return s[0] == 0xc2 && s[1] < 0xa0;
	if (length != 3)
		return false;
	if (s[0] == 0xe2 && s[1] == 0x80)
		return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae);
	if (s[0] == 0xe2 && s[1] == 0x81)
		return s[2] >= 0xa6 && s[2] <= 0xa9;
	return s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
}

/* True for scripts whose characters take two columns. */
static bool is_wide(const unsigned char *s, size_t length)
{
	if (length == 4)
		return s[0] == 0xf0 && (s[1] >= 0xa0 || s[1] == 0x9f);
	if (length != 3)
		return false;
	unsigned code = (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
	return (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
	       (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
	       (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60);
}

struct glyph {
	size_t bytes, columns;
	bool escaped;
};

static struct glyph glyph_at(const unsigned char *s)
{
	if (*s >= 0x20 && *s < 0x7f)
		return (struct glyph){1, 1, false};
	size_t length = utf8_sequence_length(s);
	if (!length)
		return (struct glyph){1, 4, true};
	if (is_trouble(s, length))
		return (struct glyph){length, 4 * length, true};
	return (struct glyph){length, is_wide(s, length) ? 2 : 1, false};
}

static size_t spell(char text[WORDS_GLYPH], const unsigned char *s, struct glyph g)
{
	size_t used = 0;
	if (!g.escaped)
		memcpy(text, s, used = g.bytes);
	for (size_t i = 0; g.escaped && i < g.bytes; i++)
		used += (size_t)snprintf(text + used, WORDS_GLYPH - used, "\\x%02x", s[i]);
	text[used] = 0;
	return used;
}

size_t words_glyph(const char **name, char text[WORDS_GLYPH])
{
	const unsigned char *s = (const unsigned char *)*name;
	if (!*s)
		return 0;
	struct glyph g = glyph_at(s);
	*name += g.bytes;
	return spell(text, s, g);
}

const char *words_entity(char c)
{
	switch (c) {
	case '&': return "&amp;";
	case '<': return "&lt;";
	case '>': return "&gt;";
	case '"': return "&quot;";
	case '\'': return "&#39;";
	default: return NULL;
	}
}

void words_print_xml(FILE *out, const char *name)
{
	char piece[WORDS_GLYPH];
	for (size_t n; (n = words_glyph(&name, piece)) > 0;) {
		const char *entity = words_entity(piece[0]);
		fwrite(entity ? entity : piece, 1, entity ? strlen(entity) : n, out);
	}
}

size_t words_plain(const char *name, char but, char or_but)
{
	const char *at = name;
	while (*at >= 0x20 && *at < 0x7f && *at != but && *at != or_but)
		at++;
	return (size_t)(at - name);
}

static void put_glyph(FILE *out, const unsigned char *s, struct glyph g)
{
	char text[WORDS_GLYPH];
	fwrite(text, 1, spell(text, s, g), out);
}

size_t words_columns(const char *name)
{
	size_t columns = 0;
	for (const unsigned char *s = (const unsigned char *)name; *s;) {
		struct glyph g = glyph_at(s);
		columns += g.columns;
		s += g.bytes;
	}
	return columns;
}

void words_print(FILE *out, const char *name, size_t max)
{
	size_t columns = 0;
	for (const unsigned char *s = (const unsigned char *)name; *s;) {
		struct glyph g = glyph_at(s);
		if (columns + g.columns > max) {
			fputs("...", out);
			return;
		}
		put_glyph(out, s, g);
		columns += g.columns;
		s += g.bytes;
	}
}

size_t words_print_fit(FILE *out, const char *name, size_t max)
{
	size_t total = words_columns(name), used = 0;
	bool cut = total > max;
	size_t space = max > CUT ? max - CUT : 0;
	size_t head = cut ? (space + 1) / 2 : total, tail = space - (space + 1) / 2;
	const unsigned char *s = (const unsigned char *)name;
	while (*s) {
		struct glyph g = glyph_at(s);
		if (used + g.columns > head)
			break;
		put_glyph(out, s, g);
		used += g.columns;
		total -= g.columns;
		s += g.bytes;
	}
	if (!cut)
		return used;
	fprintf(out, "%.*s", (int)(max < CUT ? max : CUT), "...");
	used += max < CUT ? max : CUT;
	while (*s) {
		struct glyph g = glyph_at(s);
		if (total <= tail) {
			put_glyph(out, s, g);
			used += g.columns;
		} else {
			total -= g.columns;
		}
		s += g.bytes;
	}
	return used;
}

/* The length of the sign after "operator", if it contains brackets; else 0. */
static size_t operator_sign(const char *s)
{
	static const char *const signs[] = {
		"<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<", ">"};
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (strncmp(s, signs[i], strlen(signs[i])) == 0)
			return strlen(signs[i]);
	return 0;
}

/* Rust's "<Type as Trait>::method" keeps its outer brackets, because the type stands in them. */
bool words_shorten(char text[WORDS_SHORT], const char *function)
{
	static const char word[] = "operator", nameless[] = "(anonymous namespace)";
	size_t used = 0;
	unsigned depth = 0;
	const char *s = function;
	if (*s == '<')
		text[used++] = *s++;
	while (*s && used + 32 < WORDS_SHORT) {
		size_t take = 1;
		bool opens = *s == '<' || *s == '(';
		bool closes = *s == '>' || *s == ')';
		if (strncmp(s, word, sizeof word - 1) == 0) {
			take = sizeof word - 1;
			take += operator_sign(s + take);
			opens = closes = false;
		} else if (strncmp(s, nameless, sizeof nameless - 1) == 0) {
			take = sizeof nameless - 1;
			opens = closes = false;
		} else if (closes && s > function && s[-1] == '-') {
			closes = false; /* -> in an expression */
		}
		if (closes && depth && --depth == 0) {
			if (s[-1] != '(' && s[-1] != '<') {
				text[used++] = '.';
				text[used++] = '.';
			}
			text[used++] = *s;
		} else if (depth == 0) {
			memcpy(text + used, s, take);
			used += take;
		}
		depth += opens;
		s += take;
	}
	text[used] = 0;
	return !depth && !*s;
}

void words_print_short(FILE *out, const char *function, size_t max)
{
	char text[WORDS_SHORT];
	words_print_fit(out, words_shorten(text, function) ? text : function, max);
}

size_t words_print_function(FILE *out, const char *function, size_t max)
{
	char text[WORDS_SHORT];
	if (words_columns(function) > max && words_shorten(text, function))
		function = text;
	return words_print_fit(out, function, max);
}

void words_print_command(FILE *out, const char *const *argv, uint32_t argc, size_t max)
{
	size_t used = 0;
	for (uint32_t i = 0; i < argc; i++) {
		size_t columns = words_columns(argv[i]) + (i > 0);
		size_t after = i + 1 < argc ? CUT + 1 : 0; /* columns to mark a cut */
		if (used + columns + after > max) {
			size_t space = max > used + CUT + (i > 0) ? max - used - CUT - (i > 0) : 0;
			if (i)
				putc(' ', out);
			if (columns - (i > 0) <=
			    space) /* it fits, but the mark after it does not */
				space = space ? space - 1 : 0;
			words_print(out, argv[i], space);
			return;
		}
		if (i)
			putc(' ', out);
		words_print(out, argv[i], columns);
		used += columns;
	}
}

const char *words_from_here(const char *path)
{
	char here[PATH_MAX];
	size_t folder = getcwd(here, sizeof here) ? strlen(here) : 0;
	if (folder > 1 && strncmp(path, here, folder) == 0 && path[folder] == '/')
		return path + folder + 1;
	return path;
}

void words_print_shell(FILE *out, const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./,:@%^";
	if (path[0] && strspn(path, plain) == strlen(path)) {
		fputs(path, out);
		return;
	}
	putc('\'', out);
	for (const char *s = path; *s;) {
		size_t length = strcspn(s, "'");
		char part[256];
		if (length >= sizeof part)
			length = sizeof part - 1;
		memcpy(part, s, length);
		part[length] = 0;
		words_print(out, part, SIZE_MAX);
		s += length;
		if (*s == '\'') {
			fputs("'\\''", out);
			s++;
		}
	}
	putc('\'', out);
}

/* The length of the word here with a unit that follows it: "97.7 %" stays together. */
static size_t word_length(const char *text)
{
	static const char *const units[] = {"%",   "B",  "KiB", "MiB", "GiB", "TiB",
					    "PiB", "ns", "us",  "ms",  "s",   "h"};
	size_t length = strcspn(text, " \n"), open = text[0] == '(';
	if (text[length] != ' ' || text[open] < '0' || text[open] > '9')
		return length;
	const char *next = text + length + 1;
	size_t more = strcspn(next, " \n,;.:)");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strlen(units[i]) == more && strncmp(units[i], next, more) == 0)
			return length + 1 + strcspn(next, " \n");
	return length;
}

void words_print_wrapped(FILE *out, const char *text, size_t indent, size_t width)
{
	if (width > WORDS_PROSE)
		width = WORDS_PROSE;
	size_t space = width > indent + 20 ? width - indent : 20, at = 0;
	while (*(text += strspn(text, " \n"))) {
		size_t length = word_length(text);
		char *word = strndup(text, length);
		if (!word)
			return;
		size_t columns = words_columns(word);
		if (columns > space)
			columns = space;
		if (at && at + 1 + columns > space) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = 0;
		} else if (at) {
			putc(' ', out);
			at++;
		}
		at += words_print_fit(out, word, space);
		free(word);
		text += length;
	}
}

/* The length of the word here with the numbers that follow it: "offset 482:" stays together, so that
 * people and scripts find it in one line. */
static size_t numbered_length(const char *text)
{
	size_t length = word_length(text);
	while (text[length] == ' ' && text[length + 1] >= '0' && text[length + 1] <= '9')
		length += 1 + word_length(text + length + 1);
	return length;
}

void words_print_message(FILE *out, const char *text, size_t used, size_t indent)
{
	bool begun = false; /* a line has a word at least */
	while (*text) {
		if (*text == '\n') {
			text++;
			if (*text) /* nothing follows the last line */
				fprintf(out, "\n%*s", (int)indent, "");
			used = indent;
			begun = false;
			continue;
		}
		size_t blanks = strspn(text, " "), length = numbered_length(text + blanks);
		char *word = strndup(text + blanks, length);
		if (!word)
			return;
		const char *slash = strrchr(word, '/');
		size_t columns = words_columns(slash ? slash + 1 : word);
		if (begun && used + blanks + columns > WORDS_PROSE) {
			fprintf(out, "\n%*s", (int)indent, "");
			used = indent;
		} else {
			fprintf(out, "%*s", (int)blanks, "");
			used += blanks;
		}
		words_print(out, word, SIZE_MAX);
		used += columns;
		begun = true;
		text += blanks + length;
		free(word);
	}
}

void words_print_next(FILE *out, const char *command, const char *why, size_t width)
{
	size_t used = strlen("Next:     ()") + words_columns(command) + words_columns(why);
	fprintf(out, "Next: %s", command);
	if (*why && used <= (width < WORDS_PROSE ? width : WORDS_PROSE))
		fprintf(out, "    (%s)", why);
	putc('\n', out);
}
