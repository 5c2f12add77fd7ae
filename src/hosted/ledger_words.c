/* The sections and the words of ledgers (ledger_words.h). A section is a run of kinds: every kind is in exactly one, and
 * the kinds that src/hosted/ledger.h lists stand in the order of the sections. */
#include "hosted/ledger_words.h"

#include "hosted/number_words.h"
#include "hosted/program_name.h"

#include <stdio.h>

const struct ledger_section ledger_sections[LEDGER_SECTIONS] = {
	{"heap", "heap", LEDGER_REQUESTED, LEDGER_LARGE_MAPPINGS},
	{"other allocators", NULL, LEDGER_ALLOCATOR, LEDGER_ALLOCATOR},
	{"program and libraries", "libraries", LEDGER_MODULES_PRIVATE, LEDGER_BSS},
	{"stacks", "stacks", LEDGER_STACKS, LEDGER_STACKS},
	{"files", "files", LEDGER_FILES, LEDGER_FILES},
	{"shared memory", "shared memory", LEDGER_SHARED_MEMORY, LEDGER_SHARED_MEMORY},
	{"anonymous memory", "anonymous", LEDGER_ANONYMOUS, LEDGER_ANONYMOUS},
	{"heft itself", "heft", LEDGER_HEFT, LEDGER_HEFT},
	{"unexplained", "unexplained", LEDGER_UNEXPLAINED, LEDGER_UNEXPLAINED},
};

const char *ledger_kind_title(enum ledger_kind kind)
{
	static const char *const titles[LEDGER_KINDS] = {
		[LEDGER_REQUESTED] = "requested",
		[LEDGER_IN_USE] = "in use",
		[LEDGER_ROUNDING] = "rounding",
		[LEDGER_HEADERS] = "headers",
		[LEDGER_HELD_FREE] = "free in the heap",
		[LEDGER_LARGE_MAPPINGS] = "large mappings",
		[LEDGER_ALLOCATOR] = "other allocators",
		[LEDGER_MODULES_PRIVATE] = "libraries, private",
		[LEDGER_MODULES_SHARED] = "libraries, shared",
		[LEDGER_BSS] = ".bss",
		[LEDGER_STACKS] = "stacks",
		[LEDGER_FILES] = "files",
		[LEDGER_SHARED_MEMORY] = "shared memory",
		[LEDGER_ANONYMOUS] = "anonymous",
		[LEDGER_HEFT] = "heft",
		[LEDGER_UNEXPLAINED] = "unexplained",
	};
	return kind < LEDGER_KINDS ? titles[kind] : "unexplained";
}

size_t ledger_section_of(enum ledger_kind kind)
{
	size_t i = 0;
	while (i + 1 < LEDGER_SECTIONS && kind > ledger_sections[i].last)
		i++;
	return i;
}

uint64_t ledger_section_bytes(const struct ledger *l, size_t section)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < l->count; i++)
		if (ledger_section_of(l->items[i].kind) == section)
			sum += l->items[i].bytes.resident;
	return sum;
}

const char *ledger_line_name(const struct ledger_line *line)
{
	bool module = line->kind >= LEDGER_MODULES_PRIVATE && line->kind <= LEDGER_BSS;
	return module && line->name[0] == '/' ? path_file(line->name) : line->name;
}

const char *ledger_line_words(const struct ledger_line *line, char text[LEDGER_LINE_WORDS])
{
	const char *name = ledger_line_name(line);
	if (!line->maker || line->kind == LEDGER_ANONYMOUS)
		return name;
	snprintf(text, LEDGER_LINE_WORDS, "%.280s, mapped by %.280s", name, line->maker);
	return text;
}

const char *ledger_line_behind(const struct ledger_line *line, char text[LEDGER_BEHIND])
{
	*text = 0;
	if (line->kind == LEDGER_MODULES_PRIVATE)
		return ", private";
	if (line->kind == LEDGER_MODULES_SHARED)
		return ", shared";
	if (line->kind == LEDGER_BSS)
		return ", .bss";
	if (line->blocks)
		snprintf(text, LEDGER_BEHIND, ": %s",
			 words_many(line->blocks, "block", "blocks").text);
	return text;
}

int ledger_line_by_size(const void *a, const void *b)
{
	const struct ledger_line *x = *(const struct ledger_line *const *)a;
	const struct ledger_line *y = *(const struct ledger_line *const *)b;
	if (x->bytes.resident != y->bytes.resident)
		return x->bytes.resident > y->bytes.resident ? -1 : 1;
	return (x > y) - (x < y);
}

const char *ledger_moment_words(enum ledger_moment moment)
{
	static const char *const words[] = {
		[LEDGER_PEAK] = "near the peak of its heap",
		[LEDGER_EXIT] = "when it exited",
		[LEDGER_REQUEST] = "when the recording ended",
		[LEDGER_INTERVAL] = "while it ran",
	};
	return words[moment <= LEDGER_INTERVAL ? moment : LEDGER_REQUEST];
}
