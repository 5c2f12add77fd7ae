/* What the program had allocated before heft came, looked at while heft is put into it. */
#ifndef HEFT_ATTACH_PLACEMENT_BEFORE_H
#define HEFT_ATTACH_PLACEMENT_BEFORE_H

#include "attach/older_blocks.h"
#include "attach/stop.h"
#include "attach/target_modules.h"

struct attach_report;

struct before {
	struct older_heap *heap; /* NULL: not known */
	struct older_totals totals;
	uint64_t frozen_limit_ns; /* 0: it would take too long */
	char refused[160];        /* why it is not known, or not listed */
	/* All blocks, in memory that heft can be given; room 0: they are not wanted */
	struct older_block *list;
	uint64_t listed, room, listing_ns;
	int list_fd;
};

/* While the program runs. module: the one that has malloc. Never fails: what is not known is not known. */
void before_look(struct before *b, struct target_modules *m, size_t module, bool list);
/* While all threads are stopped, after the last change: makes the list, or looks again if that takes little time. */
void before_look_again(struct before *b, struct stop *stop);
/* The list is the report's afterwards. */
void before_report(struct before *b, struct attach_report *report);
void before_fini(struct before *b);

#endif
