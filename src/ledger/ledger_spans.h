/* Who has which part of an address space. The first claim of a page wins; later ones get what is left. */
#ifndef HEFT_LEDGER_LEDGER_SPANS_H
#define HEFT_LEDGER_LEDGER_SPANS_H

#include "hosted/ledger.h"

struct ledger_span {
	uint64_t start, end;
	enum ledger_kind kind;
	const char *name; /* borrowed */
	/* Pages that are the process's own are another line: those that a module's file gave and the process wrote to */
	bool by_owner;
	uint32_t site; /* as in struct ledger_line */
};
struct ledger_spans {
	VECTOR_MEMBERS(struct ledger_span);
};

/* Collects a claim for ledger_spans_claim. It is rounded to whole pages; empty ones are left out. False: no memory. */
bool ledger_spans_add(struct ledger_spans *wanted, const struct ledger_span *span);
/* Gives what nobody has claimed before; `wanted` is empty afterwards. Both may be in any order before. */
int ledger_spans_claim(struct ledger_spans *taken, struct ledger_spans *wanted,
		       struct heft_error *err);

#endif
