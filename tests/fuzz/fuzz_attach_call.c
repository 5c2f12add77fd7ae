/* Fuzzes calls to the heft that is attached to a process, on both sides: others may say anything, in any order. The input is
 * a byte, whose lowest bit says which side is asked.
 *
 * On the side of the attached heft, bytes are orders: somebody connects, somebody sends a message, somebody hangs up, heft
 * looks. A model says who has asked it to leave, and these, and nobody else, get an answer. On the other side, the rest is
 * that answer. */
#include "hosted/error.h"
#include "session/attach_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CALLS = 24, MESSAGES = 8, LARGEST = 4096, LEAVE = 'l', DONE = 'd', FAILED = 'f' };

/* What is known of one caller */
struct caller {
	int fd;
	char words[MESSAGES]; /* that were not heard yet; 0: an empty message */
	unsigned count;
	bool closed, taken, dropped, asked;
};

static struct caller callers[CALLS];
static unsigned count;

static void call(const struct attach_calls *c)
{
	struct sockaddr_un name;
	socklen_t length = sizeof name;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || count == CALLS || getsockname(c->listener, (void *)&name, &length) ||
	    connect(fd, (void *)&name, length)) {
		close(fd); /* too many are waiting */
		return;
	}
	callers[count++] = (struct caller){.fd = fd};
}

static void say(struct caller *q, const uint8_t *bytes, size_t size)
{
	if (q->closed || q->count == MESSAGES ||
	    send(q->fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
		return;
	q->words[q->count++] = size ? (char)bytes[0] : 0;
}

/* As attach_calls_look must hear one caller; true: it has asked. */
static bool hear(struct caller *q)
{
	if (!q->count && !q->closed)
		return q->asked;
	if (!q->count || q->words[0] != LEAVE) {
		q->dropped = true;
		return false;
	}
	memmove(q->words, q->words + 1, --q->count);
	return q->asked = true;
}

static bool expect(void)
{
	unsigned taken = 0;
	bool asked = false;
	for (unsigned i = 0; i < count; i++)
		taken += callers[i].taken && !callers[i].dropped;
	for (unsigned i = 0; i < count; i++)
		if (!callers[i].taken && taken < ATTACH_CALLERS) {
			callers[i].taken = true;
			taken++;
		}
	for (unsigned i = 0; i < count; i++)
		if (callers[i].taken && !callers[i].dropped)
			asked |= hear(&callers[i]);
	return asked;
}

/* Everybody who asked and still listens gets one answer; then heft hangs up. */
static void check_answer(const struct caller *q, const char *problem)
{
	char answer[LARGEST];
	ssize_t n = recv(q->fd, answer, sizeof answer - 1, 0);
	if (!q->asked || q->dropped) {
		if (n > 0)
			abort();
		return;
	}
	if (n <= 0 && errno == ECONNRESET)
		return; /* something it said was not heard */
	if (n <= 0 || answer[0] != (problem ? FAILED : DONE))
		abort();
	answer[n] = 0;
	if (problem && strncmp(problem, answer + 1, (size_t)n - 1) != 0)
		abort();
}

static void attached(const uint8_t *data, size_t size)
{
	struct attach_calls c;
	struct heft_error err;
	const char *warning;
	char problem[1500];
	count = 0;
	if (attach_calls_open(&c, getpid(), &warning, &err) || warning || c.listener < 0)
		abort();
	/* The first call is heft's own, which only looks who is here. */
	if (attach_holder(getpid()) != getpid())
		abort();
	callers[count++] = (struct caller){.fd = -1, .closed = true};
	for (; size; data++, size--) {
		struct caller *q = &callers[data[0] / 4 % count];
		switch (data[0] % 4) {
		case 0: call(&c); break;
		case 1:
			if (size > 1)
				say(q, data + 1, data[1] % 3 ? 1 : size - 1 < 9 ? size - 1 : 9);
			break;
		case 2:
			if (!q->closed)
				close(q->fd);
			q->closed = true;
			break;
		default:
			if (attach_calls_look(&c) != expect() || c.count > ATTACH_CALLERS)
				abort();
		}
	}
	expect();
	memset(problem, 'p', sizeof problem);
	problem[sizeof problem - 1] = 0;
	attach_calls_close(&c, count % 2 ? problem : NULL);
	if (c.listener != -1 || c.count)
		abort();
	for (unsigned i = 0; i < count; i++)
		if (!callers[i].closed) {
			check_answer(&callers[i], count % 2 ? problem : NULL);
			close(callers[i].fd);
		}
}

static void asking(const uint8_t *data, size_t size, uid_t uid)
{
	const struct ucred who = {.pid = 77, .uid = uid};
	struct heft_error err = {0};
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		abort();
	if (size && send(pair[1], data, size, 0) != (ssize_t)size)
		abort();
	shutdown(pair[1], SHUT_WR);
	bool hung_up = false;
	int rc = attach_ask_holder(pair[0], 1234, &who, &hung_up, &err);
	if ((rc == 0) != (size && data[0] == DONE) || rc > 0 || hung_up != !size)
		abort();
	if (rc && !memchr(err.message, 0, sizeof err.message))
		abort();
	if (rc && size &&
	    strncmp(err.message, (const char *)data + 1, size - 1 < 998 ? size - 1 : 998))
		abort();
	close(pair[0]);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > LARGEST)
		return 0;
	if (data[0] & 1)
		attached(data + 1, size - 1);
	else
		asking(data + 1, size - 1, data[0] & 2 ? getuid() : getuid() + 1);
	return 0;
}

#include "fuzz_corpus.h"
