/* The user at the other end of a connection within this machine. All of them come from 127.0.0.1, so by its address one
 * user could take the share of all. The kernel knows whose socket that is, and tells everybody (sock_diag, as ss -e
 * shows). It is not proof of who asks (a socket can be handed on): it is for shares only.
 *
 * Where the kernel does not tell, the address has to do. */
#include "http/http_parts.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static bool is_loopback(const union address *a)
{
	const uint8_t *v6 = a->v6.sin6_addr.s6_addr;
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	return a->any.sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr) ||
		(IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && v6[12] == 127));
}

/* As the other end's socket has it. An IPv4 client of an IPv6 server has a socket of IPv4. */
static void set_end(const union address *a, bool v4, uint32_t address[4], uint16_t *port)
{
	if (a->any.sa_family == AF_INET)
		address[0] = a->v4.sin_addr.s_addr;
	else if (v4)
		memcpy(address, a->v6.sin6_addr.s6_addr + 12, 4);
	else
		memcpy(address, a->v6.sin6_addr.s6_addr, 16);
	*port = a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port;
}

static bool ask(const struct inet_diag_req_v2 *r, struct inet_diag_msg *m)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 request;
	} q = {.head = {.nlmsg_len = sizeof q,
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST},
	       .request = *r};
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg m;
		char attributes[1024];
	} a = {0};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return false;
	/* The kernel has answered before send returns. */
	ssize_t n = send(fd, &q, sizeof q, MSG_DONTWAIT) == (ssize_t)sizeof q
			    ? recv(fd, &a, sizeof a, MSG_DONTWAIT)
			    : -1;
	close(fd);
	*m = a.m;
	return n >= (ssize_t)(sizeof a.head + sizeof a.m) &&
	       a.head.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

bool http_loopback_user(int fd, uint32_t *uid)
{
	union address here = {0}, there = {0};
	socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
	struct inet_diag_req_v2 r = {.sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u};
	struct inet_diag_msg m;
	if (getsockname(fd, &here.any, &here_bytes) || getpeername(fd, &there.any, &there_bytes) ||
	    !is_loopback(&there))
		return false;
	bool v4 = there.any.sa_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&there.v6.sin6_addr);
	r.sdiag_family = v4 ? AF_INET : AF_INET6;
	set_end(&there, v4, r.id.idiag_src, &r.id.idiag_sport);
	set_end(&here, v4, r.id.idiag_dst, &r.id.idiag_dport);
	r.id.idiag_cookie[0] = r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	/* A socket that was closed belongs to nobody, which looks like root. */
	if (!ask(&r, &m) || m.idiag_state != TCP_ESTABLISHED)
		return false;
	*uid = m.idiag_uid;
	return true;
}
