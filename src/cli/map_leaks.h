/* heft map --leaks: which blocks of a running process are lost, and who made them as far as that is known. */
#ifndef HEFT_CLI_MAP_LEAKS_H
#define HEFT_CLI_MAP_LEAKS_H

#include "hosted/heap_look.h"
#include "hosted/json_writer.h"
#include "hosted/ledger.h"

#include <stdio.h>
#include <sys/types.h>

struct map_leaks {
	struct ledger ledger; /* of the same moment */
	struct heap_look look;
	struct profile *p; /* names the sites of the look; NULL: nobody records the process */
};

/* Looks at the process, which stands still meanwhile. One that is recorded exactly is looked at by the heft that
 * records it. What could not be taken needs no fini. */
int map_leaks_take(struct map_leaks *l, pid_t pid, struct heft_error *err);
void map_leaks_fini(struct map_leaks *l);
/* limit: rows */
int map_leaks_text(FILE *out, const struct map_leaks *l, size_t limit, size_t width);
/* "leaks": {} */
int map_leaks_json(struct json_writer *w, const struct map_leaks *l);

#endif
