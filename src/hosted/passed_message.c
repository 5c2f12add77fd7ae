/* See passed_message.h. */
#include "hosted/passed_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Room for one descriptor, aligned as the kernel wants it */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

bool passed_message_send(int socket, const void *bytes, size_t size, int fd)
{
	struct iovec part = {(void *)(size_t)bytes, size};
	union control control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof fd),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

ssize_t passed_message_receive(int socket, void *bytes, size_t size, int *fd)
{
	struct iovec part = {bytes, size};
	union control control = {0};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof control};
	ssize_t n;
	*fd = -1;
	while ((n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_TRUNC)) < 0 && errno == EINTR)
		;
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof *fd))
		memcpy(fd, CMSG_DATA(c), sizeof *fd);
	return n;
}
