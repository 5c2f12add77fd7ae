/* `heft check --annotations github`: a line for each broken rule that GitHub Actions shows beside the source line.
 *
 *     ::error file=src/queue.c,line=11,title=heft%3A over budget::MESSAGE
 *
 * GitHub looks files up in the repository, so paths begin at its folder. A rule that no source line of the repository can be
 * blamed for is shown at its own line of the budget. The characters that end a property or the command are written as %NN. */
#include "report/report_budget_parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* `property`: also what would end a property. Other control characters become \xNN, as everywhere. */
static void print_escaped(FILE *out, const char *text, bool property)
{
	char piece[WORDS_GLYPH];
	while (*text) {
		if (*text == '\n') {
			text++;
			fputs(*text ? "%0A" : "", out);
			continue;
		}
		size_t n = words_glyph(&text, piece);
		if (piece[0] == '%' || (property && (piece[0] == ':' || piece[0] == ',')))
			fprintf(out, "%%%02X", (unsigned char)piece[0]);
		else
			fwrite(piece, 1, n, out);
	}
}

/* An absolute path without ".", ".." and doubled slashes; false: it is not absolute, or too long. */
static bool normal_path(char normal[PATH_MAX], const char *path)
{
	size_t used = 0;
	if (*path != '/')
		return false;
	while (*path) {
		path += strspn(path, "/");
		size_t length = strcspn(path, "/");
		if (length == 2 && memcmp(path, "..", 2) == 0) {
			while (used && normal[--used] != '/')
				;
		} else if (length && !(length == 1 && *path == '.')) {
			if (used + length + 2 > PATH_MAX)
				return false;
			normal[used++] = '/';
			memcpy(normal + used, path, length);
			used += length;
		}
		path += length;
	}
	normal[used] = 0;
	return true;
}

/* The path as it is in the repository; false: it is not in there. */
static bool repository_path(char path[PATH_MAX], const char *file, const char *root)
{
	char inside[PATH_MAX];
	if (*file != '/' || !root) {
		snprintf(path, PATH_MAX, "%s", file);
		return true;
	}
	if (!normal_path(path, file) || !normal_path(inside, root))
		return false;
	size_t length = strlen(inside);
	if (strncmp(path, inside, length) != 0 || path[length] != '/')
		return false;
	memmove(path, path + length + 1, strlen(path + length + 1) + 1);
	return true;
}

/* The budget's own path may be relative, to where heft was started. */
static void budget_path(char path[PATH_MAX], const char *budget, const char *root)
{
	char whole[PATH_MAX];
	if (!root || !realpath(budget, whole) || !repository_path(path, whole, root))
		snprintf(path, PATH_MAX, "%s", budget);
}

int report_budget_github(FILE *out, const struct report_budget *r, const char *root)
{
	char path[PATH_MAX];
	for (uint32_t i = 0; i < r->budget->count; i++) {
		const struct budget_result *result = &r->results[i];
		if (result->holds)
			continue;
		const struct profile_frame *place = report_budget_place(r, i);
		uint32_t line = place ? place->line : 0;
		if (!line || !place->file || !repository_path(path, place->file, root)) {
			budget_path(path, r->budget->name, root);
			line = r->budget->rules[i].line;
		}
		char *message = report_budget_message(r, i);
		fputs("::error file=", out);
		print_escaped(out, path, true);
		fprintf(out, ",line=%" PRIu32 ",title=", line);
		print_escaped(out,
			      result->unknown || result->unseen ? "heft: budget not judged"
								: "heft: over budget",
			      true);
		fputs("::", out);
		print_escaped(out, message ? message : "", false);
		putc('\n', out);
		free(message);
	}
	return 0;
}
