/* Reads files of other tools into the model. A file is recognised by its content. Each format has a source
 * file, and a row in the table of import.c. Everything in such a file is hostile. */
#ifndef HEFT_IMPORT_IMPORT_H
#define HEFT_IMPORT_IMPORT_H

#include "profile/profile_from_trace.h"

struct import_source; /* bytes of a file, decompressed (gzip, zstd) as they are read: import_source.h */

struct importer {
	const char *name; /* as profile.format will say: "jemalloc", "pprof" ... */
	const char *summary;
	/* Whether these first bytes (decompressed; all of them if the file is short) are its own. */
	bool (*recognise)(const uint8_t *head, size_t length);
	/* Fills an empty profile, sites finished. */
	int (*load)(struct profile *p, struct import_source *in);
};
extern const struct importer importers[]; /* ends with a NULL name */

/* A file of another tool; src/profile opens heft's own recordings (profile_open_recording).
 * Selections (pid, thread, window, sizes) are for recordings; with another format they are refused
 * with the reason. A file of no known format: a message that names those that are. */
int import_profile(struct profile **out, const char *path, const struct profile_selection *sel,
		   struct heft_error *err);

#endif
