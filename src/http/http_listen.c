/* Listens: reads the address as people write it, checks whether it is loopback, finds a free port, and
 * gets enough descriptors for the connections.
 *
 * An address that others can reach needs a token or certificates of clients, because a profile tells much about a program. */
#include "http/http_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OTHER_FILES = 256 }; /* files that heft has open besides connections */

static struct rlimit given_files;
static bool files_raised;

/* Everything else gets its files first: heft reads symbols while clients wait. */
static uint32_t sockets_of(rlim_t files)
{
	rlim_t sockets = files > 2 * OTHER_FILES ? files - OTHER_FILES : files / 2;
	return sockets < UINT32_MAX ? (uint32_t)sockets : UINT32_MAX;
}

uint32_t http_raise_file_limit(uint32_t sockets)
{
	struct rlimit now;
	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return sockets;
	rlim_t wanted = (rlim_t)sockets + OTHER_FILES;
	struct rlimit more = {wanted < now.rlim_max ? wanted : now.rlim_max, now.rlim_max};
	if (more.rlim_cur > now.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0) {
		if (!files_raised)
			given_files = now;
		files_raised = true;
		now = more;
	}
	uint32_t most = sockets_of(now.rlim_cur);
	return most < sockets ? most : sockets;
}

void http_restore_file_limit(void)
{
	if (files_raised)
		setrlimit(RLIMIT_NOFILE, &given_files);
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

static int resolve(const char *text, union address *to, struct heft_error *err)
{
	char name[256];
	struct addrinfo *found = NULL;
	struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	size_t length = text ? strlen(text) : 0;
	if (length >= sizeof name)
		return heft_fail(err, HEFT_EUSAGE, "the address to listen on is too long");
	strcpy(name, length ? text : "127.0.0.1");
	if (*name == '[' && name[length - 1] == ']') {
		name[length - 1] = 0;
		memmove(name, name + 1, length - 1);
	}
	int rc = getaddrinfo(name, NULL, &wanted, &found);
	if (rc != 0 || !found)
		return heft_fail(err, HEFT_EUSAGE, "cannot listen on %s: %s", name,
				 gai_strerror(rc));
	memset(to, 0, sizeof *to);
	memcpy(to, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	if (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
		return a->v6.sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void set_own_names(struct http_own_names *own, const union address *a)
{
	bool v4 = a->any.sa_family == AF_INET;
	own->any = v4 ? a->v4.sin_addr.s_addr == htonl(INADDR_ANY)
		      : IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
	inet_ntop(a->any.sa_family, v4 ? (const void *)&a->v4.sin_addr : &a->v6.sin6_addr,
		  own->address, sizeof own->address);
	if (gethostname(own->machine, sizeof own->machine - 1) < 0)
		*own->machine = 0;
}

static int bind_port(union address *a, uint16_t port)
{
	bool v4 = a->any.sa_family == AF_INET;
	int on = 1;
	int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	*(v4 ? &a->v4.sin_port : &a->v6.sin6_port) = htons(port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, &a->any, v4 ? sizeof a->v4 : sizeof a->v6) < 0 || listen(fd, 1024) < 0) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static bool is_taken(int fd)
{
	return fd < 0 && errno == EADDRINUSE;
}

static int refuse_taken(const struct http_options *o, const char *address, struct heft_error *err)
{
	if (o->tries && o->port)
		return heft_fail(err, HEFT_EIO,
				 "all ports from %u to %u on %s are taken\n"
				 "another one may be free; port 0 takes any that is",
				 o->port, (unsigned)o->port + o->tries, address);
	return heft_fail(err, HEFT_EIO,
			 "port %u on %s is taken by another program\n"
			 "give another one; port 0 takes any that is free",
			 o->port, address);
}

int http_listen(const struct http_options *o, struct http_own_names *own, uint16_t *port,
		struct heft_error *err)
{
	union address a;
	int rc = resolve(o->address, &a, err);
	if (rc < 0)
		return rc;
	if (!o->tokens && !(o->tls && o->tls->client_ca) && !is_loopback(&a))
		return heft_fail(
			err, HEFT_EREFUSED,
			"%s can be reached from other machines, and there is no token\n"
			"--token-file FILE asks for one, --tls-client-ca FILE for a certificate;\n"
			"127.0.0.1 is for this machine alone",
			o->address);
	set_own_names(own, &a);
	uint32_t last = o->port ? (uint32_t)o->port + o->tries : 0;
	int fd = bind_port(&a, o->port);
	for (uint32_t next = o->port + 1u; is_taken(fd) && next <= last && next <= UINT16_MAX;
	     next++)
		fd = bind_port(&a, (uint16_t)next);
	if (is_taken(fd))
		return refuse_taken(o, own->address, err);
	if (fd < 0)
		return heft_fail_errno(err, "cannot listen on port %u of %s", o->port,
				       own->address);
	socklen_t length = sizeof a;
	getsockname(fd, &a.any, &length);
	*port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
	return fd;
}
