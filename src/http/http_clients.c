/* Clients: the connections of a server, in one list under the server's lock. A client enters it when its
 * connection is accepted, and leaves it before libmicrohttpd closes the socket. So whoever holds the lock may
 * use the socket of every client in the list.
 *
 * No address may take all connections, because whoever sends half a request holds one for 20 seconds. When an
 * address has its share (a quarter), its slowest client that is still sending gets 503 and makes room for the
 * new one. If none is slow, the new one is refused. The same is done among all clients when all connections
 * are taken. A refused client may send its request, to get its 503 as an ordinary answer, but not for long;
 * if many are refused they get it at once.
 *
 * Whoever can use one address can often use its neighbours. So an IPv6 network of 64 bits counts as one
 * address, and so do all IPv4 loopback addresses but 127.0.0.1. On the Unix socket a user is an address, and within the
 * machine each user of an address counts apart, if the kernel tells. */
#include "hosted/hash_index.h"
#include "http/http_state.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	SLOW_MS = 1000,    /* a client that sends longer may have to make room */
	REFUSED_MS = 2000, /* for a refused client to send its request */
};

static void set_v4(struct http_address *a, uint32_t address)
{
	if (address >> 24 == 127 && address != INADDR_LOOPBACK)
		address = 127u << 24;
	*a = (struct http_address){.family = AF_INET, .number = address};
}

static void set_v6(struct http_address *a, const struct in6_addr *address)
{
	uint32_t last;
	if (IN6_IS_ADDR_V4MAPPED(address)) {
		memcpy(&last, address->s6_addr + 12, sizeof last);
		set_v4(a, ntohl(last));
		return;
	}
	a->family = AF_INET6;
	memcpy(&a->number, address->s6_addr, sizeof a->number);
}

static void set_address(struct client *k, const void *from)
{
	const struct sockaddr *any = from;
	const struct sockaddr_in *v4 = from;
	const struct sockaddr_in6 *v6 = from;
	if (k->door->local)
		k->address = (struct http_address){
			.family = AF_UNIX, .number = k->peer.uid, .user = k->peer.uid + 1ull};
	else if (any && any->sa_family == AF_INET)
		set_v4(&k->address, ntohl(v4->sin_addr.s_addr));
	else if (any && any->sa_family == AF_INET6)
		set_v6(&k->address, &v6->sin6_addr);
	uint32_t uid;
	if (!k->door->local && http_loopback_user(k->fd, &uid))
		k->address.user = uid + 1ull;
}

bool http_same_address(const struct client *a, const struct client *b)
{
	return a->door == b->door && a->address.family == b->address.family &&
	       a->address.number == b->address.number && a->address.user == b->address.user;
}

uint64_t http_sender(const struct client *k)
{
	if (k->address.user)
		return k->address.user;
	return hash_mix((uint64_t)k->address.family, k->address.number) | 1ull << 63;
}

void http_turn_away_locked(struct client *k)
{
	static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
				   "Content-Type: text/plain; charset=utf-8\r\n"
				   "Content-Length: 45\r\nRetry-After: 5\r\n"
				   "Connection: close\r\n\r\n"
				   "too many connections; please try again later\n";
	struct http_server *s = k->door->server;
	k->refused = true;
	k->deadline_ns = NEVER;
	if (k->asking || !k->answered) {         /* else it waits for no answer */
		if (k->door->local || !s->o.tls) /* a TLS client only sees the end */
			send(k->fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		s->requests++;
		s->failed++;
	}
	shutdown(k->fd, SHUT_RDWR);
}

/* The client of this door that has been sending for longest, of one address or (NULL) of all. NULL: none
 * is slow. */
static struct client *find_slowest(const struct http_door *d, const struct client *like,
				   uint64_t now)
{
	struct client *slowest = NULL;
	for (struct client *k = d->server->clients; k; k = k->next) {
		if (k->door != d || !k->reading || k->refused ||
		    (like && !http_same_address(k, like)))
			continue;
		if (after(k->since_ns, http_limit_ns(0, SLOW_MS)) <= now &&
		    (!slowest || k->since_ns < slowest->since_ns))
			slowest = k;
	}
	return slowest;
}

/* Makes room for a new client, or refuses it. False: somebody was refused. */
static bool make_room_locked(struct client *k, uint64_t now)
{
	struct http_door *d = k->door;
	uint32_t same = 0, all = 0, refused = 0;
	if (d->clients <= d->share && d->clients <= d->connections)
		return true; /* as almost always */
	for (const struct client *o = d->server->clients; o; o = o->next) {
		bool counts = o->door == d && !o->refused;
		all += counts;
		same += counts && http_same_address(o, k);
		refused += o->door == d && o->refused;
	}
	if (same <= d->share && all <= d->connections)
		return true;
	struct client *slowest = find_slowest(d, same > d->share ? k : NULL, now);
	if (slowest) {
		http_turn_away_locked(slowest);
		return false;
	}
	k->refused = true;
	k->deadline_ns = after(now, http_limit_ns(0, REFUSED_MS));
	if (refused >= (d->sockets - d->connections) / 2)
		http_turn_away_locked(k);
	return false;
}

/* Says that clients are refused, once a minute. */
static bool may_say_locked(struct http_server *s, uint64_t now)
{
	bool say = s->o.say && (!s->said_full_ns || now > after(s->said_full_ns, 60 * SECOND));
	if (say)
		s->said_full_ns = now;
	return say;
}

void http_client_begins(struct http_door *d, struct MHD_Connection *mhd, void **context)
{
	struct http_server *s = d->server;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *k = calloc(1, sizeof *k);
	*context = k;
	if (!k || !info)
		return;
	k->door = d;
	k->fd = info->connect_fd;
	k->since_ns = monotonic_ns();
	k->reading = true;
	if (d->local)
		http_peer_viewer(&s->local, k->fd, &k->peer);
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	set_address(k, info ? info->client_addr : NULL);
	pthread_mutex_lock(&s->lock);
	k->deadline_ns = after(k->since_ns, http_limit_ns(s->o.limits.idle_ms, HTTP_IDLE_MS));
	k->next = s->clients;
	k->at = &s->clients;
	if (k->next)
		k->next->at = &k->next;
	s->clients = k;
	d->clients++;
	bool say = !make_room_locked(k, k->since_ns) && may_say_locked(s, k->since_ns);
	pthread_mutex_unlock(&s->lock);
	if (say)
		s->o.say("HTTP: too many connections; some are refused (503)");
}

void http_client_ends(struct client *k)
{
	if (!k)
		return;
	if (k->at) {
		struct http_server *s = k->door->server;
		pthread_mutex_lock(&s->lock);
		*k->at = k->next;
		if (k->next)
			k->next->at = k->at;
		k->door->clients--;
		pthread_mutex_unlock(&s->lock);
	}
	free(k);
}
