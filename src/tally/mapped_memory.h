/* Which addresses of a process are mapped, and by whom: what its calls that map memory come to. */
#ifndef HEFT_TALLY_MAPPED_MEMORY_H
#define HEFT_TALLY_MAPPED_MEMORY_H

#include "tally/mapping.h"

#include <stdbool.h>
#include <stddef.h>

/* Memory that one call has mapped, or what is left of it */
struct mapped_piece {
	uint64_t start, end, since_ns;
	uint32_t site, thread;
	bool attached; /* by shmat */
};

/* A piece is there now (added), or is not any more: one that a call cuts goes, and its parts come. A negative return
 * ends the call that said so. */
typedef int mapped_change_fn(void *ctx, const struct mapped_piece *piece, bool added);

struct mapped_memory;
struct mapped_memory *mapped_memory_new(void); /* NULL: no memory */
void mapped_memory_free(struct mapped_memory *m);
/* What a SEEN or a DERIVED call of brk changes; other calls change nothing. HEFT_ENOMEM, or what `change` said. */
int mapped_memory_apply(struct mapped_memory *m, const struct trace_mapping *call,
			mapped_change_fn *change, void *ctx);
/* Calls each() for all pieces, by address. */
int mapped_memory_each(const struct mapped_memory *m, mapped_change_fn *each, void *ctx);

#endif
