/* Evidence for answers that were given without whole debug information: the files that were used and the places
 * where better ones were not found. As long as all of it still holds, asking again would give the same answers. A
 * check takes one stat a line. */
#ifndef HEFT_SYMBOL_SYMBOL_EVIDENCE_H
#define HEFT_SYMBOL_SYMBOL_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum symbol_evidence_kind {
	SYMBOL_EVIDENCE_FILE,   /* the file is there, with this size and time of change */
	SYMBOL_EVIDENCE_ABSENT, /* there is no such file */
	/* path: the URLs of the servers, which do not have it; time_ns: until when that is believed */
	SYMBOL_EVIDENCE_ASKED,
	SYMBOL_EVIDENCE_ROOTS, /* path: the folders that debug files were looked for in */
	SYMBOL_EVIDENCE_KINDS
};

struct symbol_evidence_line {
	enum symbol_evidence_kind kind;
	char *path;
	uint64_t size;
	int64_t time_ns;
};

/* All zero: none */
struct symbol_evidence {
	struct symbol_evidence_line *lines;
	size_t count, capacity;
	bool incomplete; /* memory ran out: must not be relied on */
};

/* Which file answers come from: a build id is only what a file says of itself. All zero: no file of the
 * module was there. Nobody can set the time of change. */
struct symbol_origin {
	uint64_t device, inode, size;
	int64_t modified_ns, changed_ns;
};
struct stat;
struct symbol_origin symbol_origin_of(const struct stat *st);
bool symbol_origin_is(const struct symbol_origin *a, const struct symbol_origin *b);

/* How long heft believes a server that does not have a file, and one that did not answer. */
enum { SYMBOL_NO_SECONDS = 3600, SYMBOL_SILENCE_SECONDS = 300 };

/* Looks at the path and notes what is there. The same path is noted only once. */
void symbol_evidence_look(struct symbol_evidence *e, const char *path);
/* Notes that the servers were asked just now. */
void symbol_evidence_asked(struct symbol_evidence *e, const char *urls, bool answered);
/* Notes the folders in which debug files are looked for; NULL: the default. */
void symbol_evidence_roots(struct symbol_evidence *e, const char *roots);
/* Takes over a line unless its path is there already. */
void symbol_evidence_add(struct symbol_evidence *e, const struct symbol_evidence_line *line);
/* Whether everything is still as noted. server_urls and roots are those in use now. */
bool symbol_evidence_holds(const struct symbol_evidence *e, const char *server_urls,
			   const char *roots);
bool symbol_evidence_has_file(const struct symbol_evidence *e, const char *path);
void symbol_evidence_fini(struct symbol_evidence *e);

#endif
