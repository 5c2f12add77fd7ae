/* Names for text formats. Functions, files and command lines are the profiled program's: they may
 * hold line breaks, escape sequences, direction marks or bytes that are no text at all. Formats
 * with an escape of their own for such characters (JSON) use that; text formats get them spelt
 * out as \xNN here, so that a name is always one line of valid UTF-8. */
#include "export/export_names.h"

#include "hosted/utf8.h"

#include <stdbool.h>
#include <string.h>

/* C1 controls, marks that change the direction of text, separators of lines, and U+FFFE and U+FFFF,
 * which XML forbids. */
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

size_t export_name_next(const char **s, char text[EXPORT_NAME_PIECE])
{
	const unsigned char *u = (const unsigned char *)*s;
	size_t written = 0;
	if (!*u)
		return 0;
	size_t length = *u >= 0x20 && *u < 0x7f ? 1 : utf8_sequence_length(u);
	if (length && !is_trouble(u, length)) {
		memcpy(text, u, length);
		written = length;
	} else {
		if (!length)
			length = 1;
		for (size_t i = 0; i < length; i++)
			written += (size_t)snprintf(text + written, EXPORT_NAME_PIECE - written,
						    "\\x%02x", u[i]);
	}
	text[written] = 0;
	*s += length;
	return written;
}

size_t export_name_xml(FILE *out, const char *name, size_t most)
{
	char piece[EXPORT_NAME_PIECE];
	size_t letters = 0;
	for (size_t n; (n = export_name_next(&name, piece)) > 0;) {
		size_t more = n > 4 ? n : 1; /* \xNN counts as it shows */
		if (letters + more > most || (letters + more == most && *name)) {
			fputs("\xe2\x80\xa6", out);
			return letters + 1;
		}
		letters += more;
		switch (piece[0]) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fwrite(piece, 1, n, out);
		}
	}
	return letters;
}

struct words export_bytes(uint64_t bytes)
{
	struct words w;
	number_bytes(w.text, bytes, "byte", "bytes");
	return w;
}

struct words export_share(uint64_t part, uint64_t of)
{
	struct words w;
	snprintf(w.text, sizeof w.text, "%.2f %%", of ? 100 * (double)part / (double)of : 0.0);
	return w;
}
