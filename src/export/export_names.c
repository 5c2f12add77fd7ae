/* Names for XML, and numbers for people. The profiled program chose its names: hosted/name_words.h makes
 * them one line of valid UTF-8, this file also escapes markup. */
#include "export/export_names.h"

#include "hosted/name_words.h"

size_t export_name_xml(FILE *out, const char *name, size_t most)
{
	char piece[WORDS_GLYPH];
	size_t letters = 0;
	for (size_t n; (n = words_glyph(&name, piece)) > 0;) {
		size_t more = n > 4 ? n : 1; /* \xNN counts as it shows */
		if (letters + more > most || (letters + more == most && *name)) {
			fputs("\xe2\x80\xa6", out);
			return letters + 1;
		}
		letters += more;
		const char *entity = words_entity(piece[0]);
		if (entity)
			fputs(entity, out);
		else
			fwrite(piece, 1, n, out);
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
