/* Packets with descriptors. A packet that is too short, too long or whose numbers make no sense ends the link. */
#include "agent/link.h"

#include "hosted/error.h"
#include "hosted/monotonic.h"
#include "trace/trace.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAITING_USUAL = 16 }; /* room for so many messages is kept */

int link_pair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) ? HEFT_EIO : 0;
}

void link_init(struct link *l, int fd)
{
	memset(l, 0, sizeof *l);
	l->fd = fd;
}

static void close_all(const int *fds, int count)
{
	for (int i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void link_fini(struct link *l)
{
	for (size_t i = l->first_waiting; i < l->waiting.count; i++) {
		close_all(l->waiting.items[i].fds, l->waiting.items[i].fd_count);
		free(l->waiting.items[i].message);
	}
	vector_free(&l->waiting);
	l->first_waiting = 0;
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

/* ETOOMANYREFS: too many descriptors are on their way to processes that do not take them. */
static bool is_for_later(void)
{
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS;
}

/* 1: sent. 0: not now. -1: never. */
static int send_one(int fd, const struct link_out *o)
{
	if (!o->fd_count) { /* a worker may not call sendmsg */
		ssize_t sent = send(fd, o->message, o->bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		return sent >= 0 ? 1 : is_for_later() ? 0 : -1;
	}
	char control[CMSG_SPACE(sizeof o->fds)] __attribute__((aligned(8))) = {0};
	struct iovec part = {o->message, o->bytes};
	struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
	size_t bytes = (size_t)o->fd_count * sizeof *o->fds;
	if (o->fd_count) {
		head.msg_control = control;
		head.msg_controllen = CMSG_SPACE(bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(c), o->fds, bytes);
	}
	ssize_t n = sendmsg(fd, &head, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n >= 0 ? 1 : is_for_later() ? 0 : -1;
}

void link_flush(struct link *l)
{
	int sent = 1;
	while (l->first_waiting < l->waiting.count && sent) {
		struct link_out *o = &l->waiting.items[l->first_waiting];
		sent = send_one(l->fd, o);
		if (!sent)
			break;
		close_all(o->fds, o->fd_count);
		free(o->message);
		l->first_waiting++;
		l->stuck_ns = 0;
	}
	if (l->first_waiting == l->waiting.count) {
		l->first_waiting = l->waiting.count = 0;
		if (l->waiting.capacity > WAITING_USUAL)
			vector_free(&l->waiting);
	} else if (!l->stuck_ns)
		l->stuck_ns = monotonic_ns();
}

void link_send(struct link *l, const struct link_message *m, const int *fds, int fd_count)
{
	size_t bytes = offsetof(struct link_message, text) + strnlen(m->text, LINK_TEXT - 1) + 1;
	struct link_out o = {.message = malloc(bytes), .bytes = bytes, .fd_count = fd_count};
	if (o.message)
		memcpy(o.message, m, bytes);
	if (fd_count)
		memcpy(o.fds, fds, (size_t)fd_count * sizeof *fds);
	if (l->fd < 0 || !o.message || !vector_push(&l->waiting, o)) {
		free(o.message);
		close_all(fds, fd_count);
	} else
		link_flush(l);
}

static bool is_sane(struct link_message *m)
{
	unsigned char flags[4];
	m->text[LINK_TEXT - 1] = 0;
	memcpy(&flags[0], &m->running, 1);
	memcpy(&flags[1], &m->has_recording, 1);
	memcpy(&flags[2], &m->limit_is_cgroup, 1);
	memcpy(&flags[3], &m->blind, 1);
	return m->kind >= LINK_TAKE && m->kind <= LINK_FAILED && m->end <= TRACE_END_LAST &&
	       flags[0] < 2 && flags[1] < 2 && flags[2] < 2 && flags[3] < 2;
}

/* What was received, so many bytes of it. */
static bool is_message(struct link_message *m, size_t n)
{
	if (n <= offsetof(struct link_message, text))
		return false;
	memset((char *)m + n, 0, sizeof *m - n);
	return is_sane(m);
}

/* Takes the descriptors of a packet. False: there were more than there may be. */
static bool take_descriptors(struct msghdr *head, int fds[LINK_DESCRIPTORS])
{
	int taken = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (taken < LINK_DESCRIPTORS)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return !(head->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
}

int link_receive_plain(int fd, struct link_message *m)
{
	ssize_t n = recv(fd, m, sizeof *m, MSG_DONTWAIT); /* the kernel drops descriptors */
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return is_message(m, (size_t)n) ? 1 : -1;
}

int link_receive(int fd, struct link_message *m, int fds[LINK_DESCRIPTORS])
{
	char control[CMSG_SPACE(LINK_DESCRIPTORS * sizeof(int))] __attribute__((aligned(8)));
	struct iovec part = {m, sizeof *m};
	struct msghdr head = {.msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof control};
	for (int i = 0; i < LINK_DESCRIPTORS; i++)
		fds[i] = -1;
	ssize_t n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (take_descriptors(&head, fds) && is_message(m, (size_t)n))
		return 1;
	close_all(fds, LINK_DESCRIPTORS);
	return -1;
}
