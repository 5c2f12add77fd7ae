/* Inside src/pprof: questions about processes, and their answers, over a stream socket between two processes of heft. A
 * worker serves its source there (source_server.h); who answers HTTP asks (source_workers.h).
 *
 * A question is a struct and, behind it, text. An answer is a struct and, behind it, bytes. Both sides are the same
 * program, so structs are sent as they are; but the worker has read hostile bytes, and its answers are hostile input:
 * their size is bounded, and nothing in them is trusted. */
#ifndef HEFT_PPROF_SOURCE_CHANNEL_H
#define HEFT_PPROF_SOURCE_CHANNEL_H

#include "pprof/source.h"

enum channel_ask {
	CHANNEL_DESCRIBE = 1,
	CHANNEL_CONTROL,
	CHANNEL_TAKE,
	CHANNEL_RENDER,
	CHANNEL_DROP, /* has no answer */
};

struct channel_question {
	uint32_t ask; /* enum channel_ask */
	uint32_t form;
	uint64_t key;
	uint64_t profile, before; /* numbers that the worker gave; 0: none */
	uint64_t between_ns;
	uint64_t rate_bytes;
	uint32_t set_on, on, automatic, set_rate; /* of a control */
	uint32_t text_bytes;                      /* of addresses */
};

struct channel_answer {
	int32_t code; /* 0 or a negative heft_code */
	uint32_t pad;
	uint64_t profile; /* of a take */
	uint64_t bytes;   /* that follow */
	char message[sizeof((struct heft_error *)0)->message];
};

enum {
	CHANNEL_TEXT_MOST = 1 << 20,
	CHANNEL_BYTES_MOST = 64 << 20, /* a larger profile is refused */
};

/* A question on its way, asked by one thread at a time. Nobody waits for it. */
struct channel_call {
	int fd;         /* nonblocking; -1: the other side is gone */
	bool busy;      /* asked, and not answered yet */
	bool abandoned; /* nobody wants the answer: it is read and thrown away */
	char *out;      /* what is to be sent */
	size_t out_bytes, sent;
	struct channel_answer answer;
	size_t got; /* bytes of the answer and of what follows it */
	char *body;
	uint64_t begun_ns;
};

/* The channel must not be busy. `text` may be NULL. HEFT_ENOMEM, HEFT_EBUSY: the other side is gone. */
int channel_ask(struct channel_call *c, const struct channel_question *q, const char *text);
/* A question without an answer; the channel must not be busy. */
void channel_tell(struct channel_call *c, const struct channel_question *q);
/* 0: answered; c->answer and c->body are there until the next question. SOURCE_LATER. HEFT_EBUSY: the other side is gone
 * or talks nonsense; the channel is closed. */
int channel_go_on(struct channel_call *c);
/* The same, but waits so long. */
int channel_wait(struct channel_call *c, uint64_t most_ns);
void channel_close(struct channel_call *c);

#endif
