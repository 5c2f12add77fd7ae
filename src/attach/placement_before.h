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
	char refused[160];        /* why it is not known */
};

/* While the program runs. module: the one that has malloc. Never fails: what is not known is not known. */
void before_look(struct before *b, struct target_modules *m, size_t module);
/* While all threads are stopped, after the last change: looks again if it took little time. */
void before_look_again(struct before *b, struct stop *stop);
void before_report(const struct before *b, struct attach_report *report);
void before_fini(struct before *b);

#endif
