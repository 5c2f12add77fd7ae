/* The asking side of a channel. It never blocks: what the socket does not take or give now is sent or read at the next
 * call. The answer's size is checked before memory is taken for it. */
#include "pprof/source_channel.h"

#include "hosted/monotonic.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void channel_close(struct channel_call *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->out);
	free(c->body);
	memset(c, 0, sizeof *c);
	c->fd = -1;
}

static int gone(struct channel_call *c)
{
	channel_close(c);
	return HEFT_EBUSY;
}

int channel_ask(struct channel_call *c, const struct channel_question *q, const char *text)
{
	size_t bytes = sizeof *q + q->text_bytes;
	if (c->fd < 0)
		return HEFT_EBUSY;
	free(c->out);
	free(c->body);
	c->body = NULL;
	c->sent = c->got = 0;
	c->out = malloc(bytes);
	c->out_bytes = bytes;
	if (!c->out)
		return HEFT_ENOMEM;
	memcpy(c->out, q, sizeof *q);
	if (q->text_bytes)
		memcpy(c->out + sizeof *q, text, q->text_bytes);
	c->busy = true;
	c->abandoned = false;
	c->begun_ns = monotonic_ns();
	return 0;
}

/* Nothing is on its way, so there is room for it in the socket. */
void channel_tell(struct channel_call *c, const struct channel_question *q)
{
	if (c->fd >= 0 && send(c->fd, q, sizeof *q, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof *q)
		channel_close(c);
}

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* True: all of it was sent. */
static bool send_rest(struct channel_call *c)
{
	while (c->sent < c->out_bytes) {
		ssize_t n = send(c->fd, c->out + c->sent, c->out_bytes - c->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return false;
		c->sent += (size_t)n;
	}
	return true;
}

static bool answer_is_sane(struct channel_answer *a)
{
	a->message[sizeof a->message - 1] = 0;
	return a->bytes <= CHANNEL_BYTES_MOST && a->code <= 0;
}

int channel_go_on(struct channel_call *c)
{
	if (c->fd < 0)
		return HEFT_EBUSY;
	errno = 0;
	if (!send_rest(c))
		return would_block(-1) ? SOURCE_LATER : gone(c);
	for (;;) {
		size_t head = sizeof c->answer;
		size_t whole = c->got < head ? head : head + c->answer.bytes;
		char *to = c->got < head ? (char *)&c->answer + c->got : c->body + (c->got - head);
		if (c->got == whole) {
			c->busy = false;
			return 0;
		}
		ssize_t n = recv(c->fd, to, whole - c->got, MSG_DONTWAIT);
		if (would_block(n))
			return SOURCE_LATER;
		if (n <= 0)
			return gone(c);
		c->got += (size_t)n;
		if (c->got != head)
			continue;
		if (!answer_is_sane(&c->answer) || !(c->body = malloc(c->answer.bytes + 1)))
			return gone(c);
		c->body[c->answer.bytes] = 0;
	}
}

int channel_wait(struct channel_call *c, uint64_t most_ns)
{
	uint64_t end = monotonic_ns() + most_ns;
	int rc;
	while ((rc = channel_go_on(c)) == SOURCE_LATER) {
		uint64_t now = monotonic_ns();
		if (now >= end)
			break;
		struct pollfd p = {.fd = c->fd,
				   .events = c->sent < c->out_bytes ? POLLOUT : POLLIN};
		poll(&p, 1, (int)((end - now) / 1000000) + 1);
	}
	return rc;
}
