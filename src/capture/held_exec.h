/* Asking the outside to hold the program that is executed next at its first instruction. */
#ifndef HEFT_CAPTURE_HELD_EXEC_H
#define HEFT_CAPTURE_HELD_EXEC_H

#include "capture/preloadable.h"

/* Asks, and waits until it is ready, for a bounded time. NULL: nobody will hold the program. */
HIDDEN struct wire_hold *heft_hold_next(void);
/* The same for a program that the next process executes which this thread makes. heft_hold_made: it has made it. */
HIDDEN struct wire_hold *heft_hold_spawned(void);
HIDDEN void heft_hold_made(struct wire_hold *hold);
/* The program was not executed: the outside lets go of this process. The place may be used again. */
HIDDEN void heft_hold_failed(struct wire_hold *hold);
/* What the outside says about a program that seems to take our library; if it says nothing, it is that. */
HIDDEN enum heft_file_kind heft_ask_kind(const struct heft_file *f);

#endif
