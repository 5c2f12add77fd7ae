/* Writes numbers and places for the sentences of findings.
 *
 * Sentences are for people: sizes have units, counts have separators. The evidence has the exact numbers.
 * Names are as the program has them; whoever prints a sentence on a terminal cleans them (report_words.h),
 * as every other name. Long names are cut, because a C++ name of 2,000 characters makes a sentence
 * unreadable; the evidence has them whole. */
#include "findings/finding_words.h"

#include "hosted/name_words.h"
#include "hosted/program_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST_NAME = 72, LONGEST_FILE_NAME = 48 };

uint64_t whole_number(double value)
{
	return value >= 1.8e19 ? UINT64_MAX : value > 0 ? (uint64_t)(value + 0.5) : 0;
}

struct words words_exact_size(uint64_t bytes)
{
	return words_many(bytes, "byte", "bytes");
}

struct phrase phrase_rate(double per_second)
{
	struct phrase w;
	if (per_second >= 999.5e3)
		snprintf(w.text, sizeof w.text, "%.1f million a second", per_second / 1e6);
	else if (per_second >= 999.5)
		snprintf(w.text, sizeof w.text, "%.0f thousand a second", per_second / 1e3);
	else
		snprintf(w.text, sizeof w.text, "%.0f a second", per_second);
	return w;
}

struct phrase phrase_function(const char *function)
{
	struct phrase w;
	char text[WORDS_SHORT];
	const char *name = words_shorten(text, function) ? text : function;
	snprintf(w.text, sizeof w.text, "%.*s%s", LONGEST_NAME, name,
		 strlen(name) > LONGEST_NAME ? "..." : "");
	return w;
}

struct phrase phrase_where(const struct profile *p, uint32_t frame)
{
	struct phrase w = {""};
	const struct profile_frame *f = &p->stacks.frames[frame];
	const char *name = NULL;
	if (f->file) {
		name = path_file(f->file);
		name = *name ? name : f->file;
	} else if (f->module < p->stacks.module_count && !strstr(f->function, "+0x")) {
		name = profile_module_name(p, f->module);
	}
	if (name && f->file && f->line)
		snprintf(w.text, sizeof w.text, "%.*s:%" PRIu32, LONGEST_FILE_NAME, name, f->line);
	else if (name)
		snprintf(w.text, sizeof w.text, "%.*s", LONGEST_FILE_NAME, name);
	return w;
}

struct phrase phrase_place(const struct profile *p, uint32_t node)
{
	struct phrase w = {"an unknown place"};
	if (node >= p->stacks.node_count)
		return w;
	uint32_t frame = p->stacks.nodes[node].frame;
	struct phrase name = phrase_function(p->stacks.frames[frame].function);
	struct phrase where = phrase_where(p, frame);
	if (where.text[0])
		snprintf(w.text, sizeof w.text, "%.78s (%.70s)", name.text, where.text);
	else
		snprintf(w.text, sizeof w.text, "%.78s", name.text);
	return w;
}
