/* Our half of heft_pprof_dump. We make the profile once, when the process asks for it,
 * and hand it over in pieces as the process takes them. A process that asks again, or
 * ends in the middle, only costs the bytes that are kept for it. */
#include "agent/answer_call.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(struct wire_call *c, uint32_t heard, uint32_t state)
{
	/* Only if the process still waits: it may have given up. */
	if (atomic_compare_exchange_strong(&c->state, &heard, state))
		syscall(SYS_futex, &c->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void drop(struct process_answer *a)
{
	free(a->bytes);
	memset(a, 0, sizeof *a);
}

/* The area is a hole of a file on a file system that may be full: ask the kernel for pages before writing. */
static bool area_is_there(char *area)
{
	uintptr_t from = (uintptr_t)area & ~4095ul;
	return madvise((void *)from, WIRE_ANSWER_BYTES + ((uintptr_t)area - from),
		       23 /* MADV_POPULATE_WRITE */) == 0;
}

static void give_piece(struct process *p, uint32_t heard)
{
	struct wire_call *c = &p->view.session.header->call;
	struct process_answer *a = &p->answer;
	char *area = (char *)p->view.base + WIRE_ANSWER_OFFSET;
	size_t left = a->length - a->given;
	size_t bytes = left < WIRE_ANSWER_BYTES ? left : WIRE_ANSWER_BYTES;
	memcpy(area, a->bytes + a->given, bytes);
	a->given += bytes;
	atomic_store(&c->bytes, (uint32_t)bytes);
	say(c, heard, a->given == a->length ? WIRE_CALL_LAST : WIRE_CALL_PIECE);
	if (a->given == a->length)
		drop(a);
}

void answer_call(struct process *p, answer_make *make, void *ctx)
{
	struct wire_call *c = &p->view.session.header->call;
	uint32_t heard = atomic_load(&c->state);
	if (heard == WIRE_CALL_ASKED) {
		drop(&p->answer);
		if (!area_is_there((char *)p->view.base + WIRE_ANSWER_OFFSET) ||
		    make(ctx, p, &p->answer.bytes, &p->answer.length)) {
			drop(&p->answer);
			say(c, heard, WIRE_CALL_FAILED);
		} else
			give_piece(p, heard);
	} else if (heard == WIRE_CALL_TAKEN) {
		if (p->answer.bytes)
			give_piece(p, heard);
		else
			say(c, heard, WIRE_CALL_FAILED);
	}
}
