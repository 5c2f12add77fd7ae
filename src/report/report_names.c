/* Fits places of the profile into a line: which of function, path and line is shortened when they do not
 * all fit. hosted/name_words.h makes the names harmless. */
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_FILE = 12, SHORT_NAME = 16, CUT = 3 /* "..." */ };

/* The end of a path says most: whole folders go first. */
static size_t print_path(FILE *out, const char *path, size_t max)
{
	size_t columns = words_columns(path);
	if (columns <= max)
		return words_print_fit(out, path, max);
	for (const char *s = path; (s = strchr(s + 1, '/'));) {
		columns = words_columns(s);
		if (columns + CUT <= max) {
			fputs("...", out);
			return CUT + words_print_fit(out, s, columns);
		}
	}
	const char *slash = strrchr(path, '/');
	return words_print_fit(out, slash ? slash + 1 : path, max);
}

size_t words_print_place(FILE *out, const struct profile *p, uint32_t frame, size_t max)
{
	const struct profile_frame *f = &p->stacks.frames[frame];
	char line[16] = "";
	const char *where = NULL, *link = " at ";
	if (f->file) {
		where = words_from_here(f->file);
		if (f->line)
			snprintf(line, sizeof line, ":%" PRIu32, f->line);
	} else if (f->module < p->stacks.module_count && !strstr(f->function, "+0x")) {
		where = profile_module_name(p, f->module);
		link = " in ";
	}
	if (!where)
		return words_print_function(out, f->function, max);
	/* People go to the place, so the function is shortened first, to half of the line or to its
	 * name without arguments; then the path. */
	char text[WORDS_SHORT];
	size_t fixed = strlen(link) + strlen(line), place = words_columns(where);
	size_t name = words_columns(f->function);
	if (name + fixed + place > max && words_shorten(text, f->function))
		name = words_columns(text);
	if (name + fixed + place > max) {
		size_t half = max / 2;
		size_t keep = name < half ? name : half;
		size_t room = max > keep + fixed ? max - keep - fixed : 0;
		size_t least = half < SHORTEST_FILE ? half : SHORTEST_FILE;
		if (room < least && keep > SHORT_NAME) /* a short name says more than a path */
			room = least;
		if (place > room)
			place = room;
	}
	/* The path is printed first, into memory: its width decides how wide the name may be. */
	char *path_text = NULL;
	size_t path_size;
	FILE *path_out = open_memstream(&path_text, &path_size);
	if (!path_out)
		return 0;
	size_t path_columns = print_path(path_out, where, place);
	fclose(path_out);
	size_t rest = fixed + path_columns;
	size_t used = words_print_function(out, f->function, max > rest ? max - rest : CUT);
	fprintf(out, "%s%s%s", link, path_text ? path_text : "", line);
	free(path_text);
	return used + rest;
}

size_t words_print_frame(FILE *out, const struct profile *p, uint32_t node, size_t max)
{
	static const char guessed[] = " [guessed]", lost[] = " [inner frames missing]";
	if (node >= p->stacks.node_count) {
		fputs("[stack unknown]", out);
		return 15;
	}
	uint32_t flags = p->stacks.nodes[node].flags;
	size_t marks = (flags & PROFILE_GUESSED ? sizeof guessed - 1 : 0) +
		       (flags & PROFILE_LOST ? sizeof lost - 1 : 0);
	size_t used = words_print_place(out, p, p->stacks.nodes[node].frame,
					max > marks ? max - marks : 0);
	if (flags & PROFILE_GUESSED)
		fputs(guessed, out);
	if (flags & PROFILE_LOST)
		fputs(lost, out);
	return used + marks;
}
