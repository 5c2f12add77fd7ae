/* Our half of heft_pprof_dump, and of what else a process asks for. We make the answer once
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

static char *area_of(struct process *p)
{
	return (char *)p->view.base + (p->view.sampled ? WIRE_ANSWER_OFFSET : WIRE_ASK_OFFSET);
}

static size_t area_bytes(const struct process *p)
{
	return p->view.sampled ? WIRE_ANSWER_BYTES : WIRE_ASK_BYTES;
}

/* The area is a hole of a file on a file system that may be full: ask the kernel for pages before writing. */
static bool area_is_there(struct process *p)
{
	char *area = area_of(p);
	uintptr_t from = (uintptr_t)area & ~4095ul;
	return madvise((void *)from, area_bytes(p) + ((uintptr_t)area - from),
		       23 /* MADV_POPULATE_WRITE */) == 0;
}

static void give_piece(struct process *p, uint32_t heard)
{
	struct wire_call *c = &p->view.session.header->call;
	struct process_answer *a = &p->answer;
	size_t left = a->length - a->given, most = area_bytes(p);
	size_t bytes = left < most ? left : most;
	memcpy(area_of(p), a->bytes + a->given, bytes);
	a->given += bytes;
	atomic_store(&c->bytes, (uint32_t)bytes);
	say(c, heard, a->given == a->length ? WIRE_CALL_LAST : WIRE_CALL_PIECE);
	if (a->given == a->length)
		drop(a);
}

bool answer_is_asked(const struct process *p)
{
	return atomic_load(&p->view.session.header->call.state) == WIRE_CALL_ASKED;
}

void answer_begin(struct process *p, char *bytes, size_t length)
{
	drop(&p->answer);
	p->answer.bytes = bytes;
	p->answer.length = length;
	if (bytes && area_is_there(p)) {
		give_piece(p, WIRE_CALL_ASKED);
		return;
	}
	drop(&p->answer);
	say(&p->view.session.header->call, WIRE_CALL_ASKED, WIRE_CALL_FAILED);
}

void answer_go_on(struct process *p)
{
	struct wire_call *c = &p->view.session.header->call;
	if (atomic_load(&c->state) != WIRE_CALL_TAKEN)
		return;
	if (p->answer.bytes)
		give_piece(p, WIRE_CALL_TAKEN);
	else
		say(c, WIRE_CALL_TAKEN, WIRE_CALL_FAILED);
}

void answer_call(struct process *p, answer_make *make, void *ctx)
{
	char *bytes = NULL;
	size_t length = 0;
	if (!answer_is_asked(p)) {
		answer_go_on(p);
		return;
	}
	if (make(ctx, p, &bytes, &length)) {
		free(bytes);
		bytes = NULL;
	}
	answer_begin(p, bytes, length);
}
