/* Memory that clients make the server hold: the bodies of their requests, and answers that they do not take. Answers may
 * have 64 MiB, and one address has a thousand connections: who asked on all of them and read nothing would fill the
 * machine.
 *
 * So all together hold MOST at once, and one user or address holds half of what the others leave, as it is with places
 * for processes. Who has more under way gets 503. Nobody is refused while the server holds nothing, because a single
 * answer of one's own programs may be larger than that.
 *
 * Users of this machine have several addresses (all of 127.0.0.0/8, ::1, the Unix socket): here one counts as one sender. */
#include "http/http_state.h"

#define MOST (512ull << 20)
#define FREE_BYTES (64 * 1024) /* what everybody may hold: the limit of connections bounds it */

bool http_find_room(struct http_connection *c, uint64_t bytes)
{
	struct client *k = c->client;
	uint64_t own = 0, others = 0, sender = http_sender(k);
	pthread_mutex_lock(&c->server->lock);
	k->holds_bytes = 0;
	if (bytes > FREE_BYTES) {
		for (const struct client *o = c->server->clients; o; o = o->next)
			*(http_sender(o) == sender ? &own : &others) += o->holds_bytes;
		uint64_t left = others < MOST ? MOST - others : 0;
		bool room = own + bytes <= left / 2 || own + others == 0;
		if (room)
			k->holds_bytes = bytes;
		pthread_mutex_unlock(&c->server->lock);
		return room;
	}
	pthread_mutex_unlock(&c->server->lock);
	return true;
}

void http_leave_room_locked(struct client *k)
{
	k->holds_bytes = 0;
}
