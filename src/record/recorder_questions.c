/* A process that is recorded exactly asks something of its recording: which call sites have broken an expectation, or a
 * copy (wire/session.h, struct wire_call).
 *
 * The answer is made from the file, by a thread of its own: looking names up may take a second, and the drain must go
 * on meanwhile. Before it begins, everything that the process did before it asked must be in the file. One process is
 * answered at a time; the others wait. */
#include "record/recorder_parts.h"

#include "agent/answer_call.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum question_state {
	QUESTION_NONE,
	QUESTION_WAITS, /* until all is in the file */
	QUESTION_MADE,  /* a thread makes the answer */
	QUESTION_GIVEN, /* piece by piece */
};

struct question {
	struct recorder_question asked;
	recorder_answer_fn *answer;
	void *ctx;
	uint32_t number; /* the process's; it may give up, and ask something else */
	char *bytes;
	size_t length;
	_Atomic int state; /* enum question_state; the thread sets the last one */
	struct process *p; /* NULL: it has gone */
	pthread_t thread;
	bool has_thread;
	bool written; /* what the process did before it asked; it may wait for the disk */
};

static void *make_answer(void *ctx)
{
	struct question *q = ctx;
	if (q->answer(q->ctx, &q->asked, &q->bytes, &q->length)) {
		free(q->bytes);
		q->bytes = NULL;
	}
	atomic_store(&q->state, QUESTION_GIVEN);
	return NULL;
}

static struct question *take_question(struct recorder *r, struct process *p)
{
	const struct wire_call *c = &p->view.session.header->call;
	struct question *q = calloc(1, sizeof *q);
	if (!q)
		return NULL;
	q->p = p;
	q->answer = r->o->answer_exact;
	q->ctx = r->o->answer_ctx;
	atomic_store(&q->state, QUESTION_WAITS);
	q->number = atomic_load(&c->number);
	q->asked.wants_copy = atomic_load(&c->what) == WIRE_ASKS_COPY;
	q->asked.pid = p->pid;
	q->asked.tid = atomic_load(&c->tid);
	q->asked.field = atomic_load(&c->field);
	q->asked.from_ns = drain_stamp_ns(&r->drain, atomic_load(&c->from_tsc));
	q->asked.to_tsc = atomic_load(&c->to_tsc);
	q->asked.to_ns = drain_stamp_ns(&r->drain, q->asked.to_tsc);
	return q;
}

static void begin_answer(struct question *q)
{
	atomic_store(&q->state, QUESTION_MADE);
	q->has_thread = !pthread_create(&q->thread, NULL, make_answer, q);
	if (!q->has_thread)
		atomic_store(&q->state, QUESTION_GIVEN); /* without bytes: it failed */
}

static void drop(struct recorder *r)
{
	struct question *q = r->asked.question;
	if (q->has_thread)
		pthread_join(q->thread, NULL);
	free(q->bytes);
	free(q);
	r->asked.question = NULL;
}

static bool is_another(const struct question *q)
{
	return atomic_load(&q->p->view.session.header->call.number) != q->number;
}

/* One step. False: it is over. */
static bool go_on(struct recorder *r, struct question *q)
{
	struct process *p = q->p;
	switch (atomic_load(&q->state)) {
	case QUESTION_WAITS:
		if (!p || p->ended || !answer_is_asked(p) || is_another(q))
			return false; /* it has given up */
		if (!q->written && (r->full || r->drain.watermark >= q->asked.to_tsc)) {
			drain_flush(&r->drain);
			trace_writer_flush(r->writer);
			q->written = true;
		}
		if (q->written && trace_writer_behind_bytes(r->writer) == 0)
			begin_answer(q);
		return true;
	case QUESTION_MADE: return true;
	default: break;
	}
	if (!p || p->ended || is_another(q))
		return false;
	if (answer_is_asked(p)) {
		answer_begin(p, q->bytes, q->length);
		q->bytes = NULL;
	} else
		answer_go_on(p);
	return p->answer.bytes != NULL;
}

bool recorder_answer_questions(struct recorder *r)
{
	struct question *q = r->asked.question;
	if (!r->o->answer_exact)
		return false;
	for (uint32_t i = 0; i < r->set->count && !q; i++) {
		struct process *p = r->set->list[i];
		if (!p->view.sampled && !p->view.corrupt && !p->ended && answer_is_asked(p))
			q = r->asked.question = take_question(r, p);
	}
	if (!q)
		return false;
	if (!go_on(r, q))
		drop(r);
	return true;
}

/* The process goes away. */
void recorder_forget_question(struct recorder *r, const struct process *p)
{
	if (r->asked.question && r->asked.question->p == p)
		r->asked.question->p = NULL;
}

void recorder_questions_fini(struct recorder *r)
{
	if (r->asked.question)
		drop(r);
}
