/* Inside src/symbol: files and lines from .debug_line, for many addresses in one pass. */
#ifndef HEFT_SYMBOL_LINE_TABLE_H
#define HEFT_SYMBOL_LINE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sections of the file that the unit is in; NULL: it has no such section */
struct line_sections {
	const uint8_t *line, *line_str, *str;
	size_t line_size, line_str_size, str_size;
};

struct line_answer {
	uint64_t address; /* asked for */
	uint32_t file;    /* number in the table; 0 with line 0: not known */
	uint32_t line;
	bool found;
};

struct line_file {
	const char *folder, *name; /* in the sections; folder NULL: none */
};

/* The files of one unit */
struct line_table {
	struct line_file *files;
	uint32_t file_count, capacity;
	uint16_t version;
	uint64_t bytes; /* that were read, also in vain */
};

/* Reads the table at an offset: its files, and the answers, which are sorted by address. comp_dir
 * may be NULL. False: the table has something that is not understood here (or no memory), and
 * nothing was answered; libdw may do better. */
bool line_table_read(struct line_table *t, const struct line_sections *s, uint64_t offset,
		     struct line_answer *answers, size_t count);
/* Writes the file's path: the unit's folder, the file's folder and its name, as far as each is relative. False:
 * there is no such file, or the path is too long. */
bool line_table_path(const struct line_table *t, uint32_t file, const char *comp_dir, char *path,
		     size_t size);
void line_table_fini(struct line_table *t);

#endif
