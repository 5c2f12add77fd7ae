/* Built without unwind tables and without frame pointers: a hole in the stack.
 * Its locals hold a copy of a code address, bait for an unwinder that scans. */
#include "program.h"

void untabled(void (*call)(void));

NOINLINE void untabled(void (*call)(void))
{
	void (*volatile bait[4])(void) = {call, call, call, call};

	bait[1]();
	keep(bait);
}
