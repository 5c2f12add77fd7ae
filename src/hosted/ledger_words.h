/* What people read of a ledger: the sections that its lines stand in, in the order of what can be changed (the heap
 * first), and words for lines and moments. Text, page and comparisons have the same. */
#ifndef HEFT_HOSTED_LEDGER_WORDS_H
#define HEFT_HOSTED_LEDGER_WORDS_H

#include "hosted/ledger.h"

struct ledger_section {
	const char *title;
	const char *brief; /* in a sentence; NULL: its largest line's name */
	enum ledger_kind first, last;
};
enum { LEDGER_SECTIONS = 9 };
extern const struct ledger_section ledger_sections[LEDGER_SECTIONS];

/* What a kind is called in a picture of few words: "free in the heap" */
const char *ledger_kind_title(enum ledger_kind kind);
/* The section of a kind: an index. */
size_t ledger_section_of(enum ledger_kind kind);
/* Of a section's lines that are resident */
uint64_t ledger_section_bytes(const struct ledger *l, size_t section);

enum { LEDGER_BEHIND = 48, LEDGER_LINE_WORDS = 600 };
/* What a line is called: of modules the file's name alone. */
const char *ledger_line_name(const struct ledger_line *line);
/* The same with who has mapped it, if the name does not say that. */
const char *ledger_line_words(const struct ledger_line *line, char text[LEDGER_LINE_WORDS]);
/* What stands behind that name: ", private", ": 12 blocks", or nothing. */
const char *ledger_line_behind(const struct ledger_line *line, char text[LEDGER_BEHIND]);

/* For qsort of pointers to lines: the one with most resident bytes first. */
int ledger_line_by_size(const void *a, const void *b);
/* "near the peak of its heap": when a ledger was taken */
const char *ledger_moment_words(enum ledger_moment moment);

#endif
