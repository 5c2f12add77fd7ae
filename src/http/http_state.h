/* Inside src/http: the server, its clients and their requests, for http.c (the network), http_clients.c
 * (connections), http_room.c (memory), http_work.c (threads that make answers) and http_admit.c (which requests are allowed). */
#ifndef HEFT_HTTP_HTTP_STATE_H
#define HEFT_HTTP_HTTP_STATE_H

#include "hosted/monotonic.h"
#include "http/http_parts.h"

#include <pthread.h>

#define SECOND 1000000000ull
#define NEVER UINT64_MAX

enum {
	HTTP_REQUEST_MS = 20000, /* if the options give no limit */
	HTTP_ANSWER_MS = 30000,
	HTTP_IDLE_MS = 60000,
	HTTP_WORKERS = 4,
	HTTP_HEADERS = 16 * 1024, /* bytes of a request's headers; more get 431 */
};

struct MHD_Connection;
struct MHD_Daemon;

/* Where a client is, as far as it counts for its share of the connections */
struct http_address {
	int family;
	uint64_t number;
	uint64_t user; /* of this machine, and 1; 0: not known */
};

/* What clients come in by: the port, or the Unix socket */
struct http_door {
	struct http_server *server;
	struct MHD_Daemon *daemon; /* NULL: closed */
	bool local;                /* the Unix socket */
	uint32_t sockets;          /* at most; those above the limit of connections get 503 */
	uint32_t connections;      /* at most */
	uint32_t share;            /* of them, for one address */
	uint32_t clients;          /* now */
};

/* A connection */
struct client {
	struct client *next, **at;
	struct http_door *door;
	struct http_viewer peer; /* at the other end of a Unix socket */
	struct http_address address;
	int fd;
	bool refused;  /* gets 503, or has got it */
	bool answered; /* had an answer before */
	bool certificate_checked, certificate_right;
	bool asking;  /* a request has begun */
	bool reading; /* ... or may begin, and is not complete */
	uint64_t since_ns, deadline_ns;
	uint64_t holds_bytes; /* of memory: the body of its request, or the answer that it takes */
};

enum state {
	READING,
	WORKING, /* with a worker, or in the queue */
	WAITING, /* in the list of waiting requests */
	READY,
	GONE, /* the client has gone meanwhile */
};

struct http_connection {
	struct http_server *server;
	struct MHD_Connection *mhd;
	struct client *client;
	struct http_connection *next; /* in the queue, or the list */
	uint64_t turn;                /* in the queue */
	char *query;
	bool begun, head, stream, done, nul;
	enum state state;
	const struct http_route *route;
	struct http_request request;
	struct http_answer answer;
	char *body;
	size_t body_bytes, body_capacity, too_much_bytes;
	uint64_t due_ns;
	size_t sent; /* of the events */
	void *kept;  /* of a stream, as long as it lives */
	void (*drop)(void *kept);
};

struct http_server {
	struct http_options o;
	const struct http_route *routes;
	struct http_own_names own;
	struct http_local local;
	uint16_t port;
	struct http_door doors[2];
	pthread_t workers[HTTP_WORKERS], clock;
	uint32_t worker_count;
	bool has_clock;
	pthread_mutex_t lock;
	pthread_cond_t work, tick, calm;
	bool stopping;
	struct http_connection *queue; /* by their turns */
	uint64_t turn;                 /* of the last that was taken */
	struct http_connection *waiting;
	struct client *clients;
	uint32_t active; /* requests that were begun and not ended */
	uint64_t requests, refused, failed;
	uint64_t said_full_ns;
};

static inline uint64_t after(uint64_t now, uint64_t ns)
{
	return ns < NEVER - now ? now + ns : NEVER;
}

static inline uint64_t http_limit_ns(uint32_t given_ms, uint32_t usual_ms)
{
	return (uint64_t)(given_ms ? given_ms : usual_ms) * 1000000;
}

/* Whether both count as one for shares. */
bool http_same_address(const struct client *a, const struct client *b);

/* ---- http_work.c */

void *http_worker(void *server); /* threads */
void *http_clock(void *server);
void http_call_route(struct http_connection *c);
/* Call it after a route: puts the request into the list if the route wants to be called again. True: the
 * request goes back to the network and must be resumed. */
bool http_after_route(struct http_connection *c);
void http_enqueue_locked(struct http_server *s, struct http_connection *c);
/* Puts a suspended request into the list of waiting ones. */
void http_wait_locked(struct http_server *s, struct http_connection *c);
/* The server is stopping: gives all waiting requests back to the network, without the routes' answers. */
void http_give_up_waiting(struct http_server *s);

/* ---- http_clients.c */

/* A connection was accepted: *context becomes its client, or NULL if memory runs out. */
void http_client_begins(struct http_door *d, struct MHD_Connection *mhd, void **context);
void http_client_ends(struct client *k); /* NULL is nothing */
/* Ends the connection of a client that is still sending, with 503. */
void http_turn_away_locked(struct client *k);

/* Who is at the other end: a user of this machine, whatever its addresses, or else an address. */
uint64_t http_sender(const struct client *k);

/* ---- http_room.c */

/* Whether this client may hold so many bytes now, instead of what it held. True: it holds them, until http_leave_room. */
bool http_find_room(struct http_connection *c, uint64_t bytes);
void http_leave_room_locked(struct client *k);

/* ---- http_tls.c */

/* The client has shown a certificate that the server trusts. */
bool http_tls_is_trusted(struct http_connection *c);

/* ---- http_admit.c */

/* Finds the route of a request (c->route), or fills in the answer that says why it has none. */
void http_admit(struct http_connection *c, const char *method, const char *path);

#endif
