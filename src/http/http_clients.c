/* Clients: the connections of a server, in one list under the server's lock. A client enters it when its
 * connection is accepted, and leaves it before libmicrohttpd closes the socket. So whoever holds the lock may
 * use the socket of every client in the list. */
#include "http/http_state.h"

#include <microhttpd.h>
#include <stdlib.h>

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
	pthread_mutex_lock(&s->lock);
	k->deadline_ns = after(k->since_ns, http_limit_ns(s->o.limits.idle_ms, HTTP_IDLE_MS));
	k->next = s->clients;
	k->at = &s->clients;
	if (k->next)
		k->next->at = &k->next;
	s->clients = k;
	d->clients++;
	pthread_mutex_unlock(&s->lock);
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
