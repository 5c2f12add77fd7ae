/* Takes a ledger of a running process: where its resident memory is, page by page. */
#ifndef HEFT_LEDGER_LEDGER_TAKE_H
#define HEFT_LEDGER_LEDGER_TAKE_H

#include "hosted/ledger.h"

#include <sys/types.h>

struct heft_error;
struct ledger_view;

/* Looks at a process while it stands still (ledger_view.h). A failure is no failure of the ledger. */
struct ledger_look {
	void *ctx;
	int (*while_stopped)(void *ctx, struct ledger_view *view);
};
/* The process stands still while its pages are read, and l->pause_ns says how long. look: or NULL. Errors are those of
 * stop.h. A ledger that could not be taken needs no fini. */
int ledger_take(struct ledger *l, pid_t pid, const struct ledger_look *look,
		struct heft_error *err);

/* The same of a recorded process, whose live blocks are known. look: or NULL. HEFT_EBUSY: not now. */
int ledger_take_recorded(struct ledger *l, const struct ledger_request *request,
			 const struct ledger_look *look, struct heft_error *err);

#endif
