/* What the program itself may ask of the outside (include/heft.h): its profile, a copy of its recording, and which
 * sites have broken an expectation.
 *
 * The outside makes the answer. The thread puts its request into the session file and
 * waits there for the bytes, piece by piece (wire/session.h, struct wire_call). It
 * opens nothing and allocates nothing, so it works after chroot, after setuid and with
 * no file descriptor to spare. It waits as long as somebody outside is alive: the
 * recorder raises `progress` several times a second. */
#include "capture/ask.h"
#include "capture/count.h"
#include "capture/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	WAIT_MS = 50,       /* between looks at the outside's progress */
	PATIENCE_MS = 2000, /* without any progress: nobody is there */
	LIMIT_MS = 60000,   /* with progress, but no piece */
	TURN_MS = 10000,    /* until another thread has its profile */
	WRITE_MS = 10000,   /* until a descriptor that does not block takes more */
};

static struct wire_header *sampled_header(void)
{
	struct heft_process *p = heft_process;
	if (!heft_sampling || !p || atomic_load(&p->phase) != HEFT_OPEN)
		return NULL;
	return p->session.header;
}

EXPORT int heft_sampling_active(void)
{
	struct wire_header *h = sampled_header();
	return h && atomic_load(&h->sampling.on) && atomic_load(&h->sampling.rate_bytes);
}

static void pause_ms(_Atomic uint32_t *word, uint32_t value, unsigned ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
	sys_futex(word, FUTEX_WAIT, value, &t);
}

/* One thread at a time. A thread that went away in the middle (cancelled, or by longjmp) loses its turn. */
static int take_turn(struct wire_call *c)
{
	int32_t self = sys_gettid();
	if (self <= 0) { /* a sandbox does not allow it, nor probably to wait */
		errno = EPERM;
		return -1;
	}
	for (unsigned ms = 0; ms < TURN_MS; ms += WAIT_MS) {
		int32_t owner = 0;
		if (atomic_compare_exchange_strong(&c->owner, &owner, self))
			return 0;
		bool gone = owner == self || sys_thread_there(sys_getpid(), owner) == -ESRCH;
		if (gone && atomic_compare_exchange_strong(&c->owner, &owner, self))
			return 0;
		pause_ms((_Atomic uint32_t *)&c->owner, (uint32_t)owner, WAIT_MS);
	}
	errno = EBUSY;
	return -1;
}

static void end_turn(struct wire_call *c)
{
	atomic_store(&c->state, WIRE_CALL_IDLE);
	atomic_store(&c->owner, 0);
	sys_futex(&c->owner, FUTEX_WAKE, 1, NULL);
}

/* Waits until the outside has answered. Returns the answer, or a negative errno: nobody is there, or
 * nobody answers. */
static int await(struct wire_header *h, uint32_t asked)
{
	struct wire_call *c = &h->call;
	uint32_t progress = atomic_load(&h->progress);
	unsigned idle = 0;
	for (unsigned all = 0; all < LIMIT_MS && idle < PATIENCE_MS; all += WAIT_MS) {
		uint32_t state = atomic_load(&c->state), now = atomic_load(&h->progress);
		if (state != asked)
			return (int)state;
		if (atomic_load(&h->state) == WIRE_OFF)
			return -ESRCH; /* nothing is recorded any more */
		idle = now != progress ? 0 : idle + WAIT_MS;
		progress = now;
		pause_ms(&c->state, asked, WAIT_MS);
	}
	return idle < PATIENCE_MS ? -ETIMEDOUT : -ESRCH;
}

static int write_all(int fd, const char *bytes, size_t left)
{
	while (left) {
		ssize_t n = write(fd, bytes, left);
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno != EAGAIN || poll(&p, 1, WRITE_MS) <= 0))
			return -1;
		if (n > 0) {
			bytes += n;
			left -= (size_t)n;
		}
	}
	return 0;
}

/* Where an answer goes: to a descriptor, or if that is -1 to a text. */
struct taker {
	int fd;
	struct heft_text *text;
};

static int take(const struct taker *to, char *bytes, uint32_t count)
{
	if (to->fd >= 0)
		return write_all(to->fd, bytes, count);
	for (uint32_t i = 0; to->text && i < count && to->text->at < to->text->end; i++)
		*to->text->at++ = bytes[i];
	return 0;
}

static int ask(struct wire_header *h, const struct taker *to)
{
	struct wire_call *c = &h->call;
	const uint32_t most = heft_sampling ? WIRE_ANSWER_BYTES : WIRE_ASK_BYTES;
	char *answer = (char *)h + (heft_sampling ? WIRE_ANSWER_OFFSET : WIRE_ASK_OFFSET);
	uint32_t say = WIRE_CALL_ASKED;
	atomic_fetch_add(&c->number, 1);
	for (;;) {
		atomic_store(&c->state, say);
		int got = await(h, say);
		uint32_t bytes = atomic_load(&c->bytes);
		if (got != WIRE_CALL_PIECE && got != WIRE_CALL_LAST) {
			errno = got < 0 ? -got : EIO;
			return -1;
		}
		if (bytes > most) {
			errno = EIO;
			return -1;
		}
		if (take(to, answer, bytes))
			return -1;
		if (got == WIRE_CALL_LAST)
			return 0;
		say = WIRE_CALL_TAKEN;
	}
}

EXPORT int heft_pprof_dump(int fd)
{
	struct wire_header *h = sampled_header();
	if (!h) {
		errno = ENOSYS;
		return -1;
	}
	if (!heft_sampling_active()) {
		errno = EPERM;
		return -1;
	}
	if (take_turn(&h->call))
		return -1;
	const struct taker to = {.fd = fd};
	atomic_store(&h->call.what, WIRE_ASKS_PROFILE);
	int rc = ask(h, &to), saved = errno;
	end_turn(&h->call);
	errno = saved;
	return rc;
}

static struct wire_header *exact_header(void)
{
	return heft_sampling || heft_counts_only() ? NULL : heft_own_header();
}

EXPORT int heft_dump(const char *path)
{
	struct wire_header *h = exact_header();
	if (!h) {
		errno = ENOSYS;
		return -1;
	}
	if (!path) {
		errno = EINVAL;
		return -1;
	}
	/* The program opens the file: it has its own rights and its own directories. */
	const struct taker to = {
		.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666)};
	if (to.fd < 0)
		return -1;
	int rc = sys_populate((char *)h + WIRE_ASK_OFFSET, WIRE_ASK_BYTES);
	if (!rc && take_turn(&h->call))
		rc = -errno;
	else if (!rc) {
		atomic_store(&h->call.what, WIRE_ASKS_COPY);
		atomic_store(&h->call.to_tsc, arch_stamp_after());
		rc = ask(h, &to) ? -errno : 0;
		end_turn(&h->call);
	}
	if (close(to.fd) && !rc)
		rc = -errno;
	if (rc)
		unlink(path);
	return (int)heft_as_libc(rc);
}

void heft_ask_sites(uint64_t from_tsc, uint64_t to_tsc, int32_t tid, size_t field,
		    struct heft_text *text)
{
	struct wire_header *h = exact_header();
	const struct taker to = {.fd = -1, .text = text};
	if (!h) {
		heft_text_put(text, "  (heft run records call sites and names them here)\n");
		return;
	}
	struct heft_text was = *text;
	bool answered = false;
	if (!take_turn(&h->call)) {
		atomic_store(&h->call.what, WIRE_ASKS_SITES);
		atomic_store(&h->call.from_tsc, from_tsc);
		atomic_store(&h->call.to_tsc, to_tsc ? to_tsc : arch_stamp_after());
		atomic_store(&h->call.tid, tid);
		atomic_store(&h->call.field, (uint32_t)field);
		answered = !sys_populate((char *)h + WIRE_ASK_OFFSET, WIRE_ASK_BYTES) &&
			   !ask(h, &to);
		end_turn(&h->call);
	}
	if (!answered) {
		*text = was;
		heft_text_put(text,
			      "  (heft run does not answer, so the call sites are not known)\n");
	} else if (text->at == was.at)
		heft_text_put(text, "  (no call site has any in this region)\n");
}
