/* HTTP for everything that heft serves: listening, limits, who may ask. Routes make the answers
 * (pprof/routes_pprof.c, pprof/routes_metrics.c, pages/routes_view.c). Only this folder knows
 * libmicrohttpd.
 *
 * One thread does the network. It suspends a connection while one of a few workers makes the answer, so a
 * slow client costs a buffer, never a thread. */
#ifndef HEFT_HTTP_HTTP_H
#define HEFT_HTTP_HTTP_H

#include "hosted/error.h"
#include "hosted/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;
struct http_tokens;
struct http_tls;

/* Whose things the sender of a request may see. Routes decide what belongs to whom. */
enum http_sees { HTTP_SEES_NOTHING, HTTP_SEES_UID, HTTP_SEES_ALL };
struct http_viewer {
	enum http_sees sees;
	uint32_t uid; /* for HTTP_SEES_UID */
	bool known;   /* by a token, a certificate or the socket: may also change what it sees */
};

struct http_request {
	const char *method; /* "GET" or "POST"; HEAD gets the answer of GET without the body */
	const char *path;   /* decoded, begins with '/', without the query */
	const char *rest;   /* the part of the path that '*' of the route stands for; else "" */
	const char *body;   /* of a POST; ends with NUL */
	size_t body_bytes;
	const struct http_connection *connection; /* for http_query and http_header */
	void *kept;          /* what the route kept when it was called before (http_later) */
	const char *query;   /* the whole query as it was sent, not decoded; "": none */
	uint64_t arrived_ns; /* monotonic_ns() when the whole request had arrived */
	struct http_viewer viewer;
	uint64_t sender; /* one number for a user of this machine, or for an address */
};
/* The decoded value of a query parameter; "" if it has no value; NULL: it is not there. */
const char *http_query(const struct http_request *q, const char *name);
const char *http_header(const struct http_request *q, const char *name);

bool http_takes_gzip(const struct http_request *q); /* the client can unpack it */

struct http_answer; /* to be filled by a route */
/* Takes the body and frees it with free(). */
void http_answer_body(struct http_answer *a, unsigned status, const char *type, char *body,
		      size_t bytes);
/* text/plain; the text is copied. */
void http_answer_text(struct http_answer *a, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The body is static data, such as the embedded page, and is not copied. gzip: it is packed; a client that
 * cannot unpack gets it unpacked. */
void http_answer_static(struct http_answer *a, const char *type, const void *body, size_t bytes,
			bool gzip);
void http_answer_header(struct http_answer *a, const char *name, const char *value);
/* There is no answer yet: calls the route again after `ns`, with q->kept = kept. If the client leaves or the
 * server stops meanwhile, calls drop(kept) instead. */
void http_later(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept));
/* Begins server-sent events: calls the route every `ns` from now on. The route adds what is new
 * (http_event); if there is nothing, a comment is sent. drop is as above. */
void http_answer_events(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept));
void http_event(struct http_answer *a, const char *name, const char *data);
/* Ends the stream of events: the client sees its end. */
void http_events_end(struct http_answer *a);

struct http_route {
	const char *method; /* "GET" or "POST"; other methods get 405 */
	const char *path;   /* a whole path, or the start of one, with '*' at its end */
	void (*answer)(void *ctx, const struct http_request *q, struct http_answer *a);
	void *ctx;
	bool open;  /* needs no token, even if the server has one (/healthz) */
	bool quick; /* takes no time, so the network's own thread makes the answer */
};

/* 0: the default, which is given here */
struct http_limits {
	uint32_t connections; /* 4096; a few more get 503, the rest wait */
	uint32_t per_address; /* a quarter of them, and 16 at least */
	uint32_t body_bytes;  /* of a POST: 1 MiB; more gets 413 */
	uint32_t idle_ms;     /* a connection without a request: 60 s */
	uint32_t request_ms;  /* a whole request from its first line on: 20 s */
	uint32_t answer_ms;   /* to take an answer: 30 s, and a second for each 16 KiB */
};

struct http_options {
	const char *
		address; /* NULL: 127.0.0.1; others than loopback need tokens or client_ca; IPv6: ::1 or [::1] */
	uint16_t port;  /* 0: any free one */
	uint16_t tries; /* further ports to try if it is taken */
	/* A Unix socket to listen on as well; NULL: none. Its callers need no token: the kernel tells their
	 * user, and they see what is theirs; root sees all. */
	const char *socket;
	bool socket_only;                 /* and on no port */
	const struct http_tls *tls;       /* for the port; NULL: it speaks plain HTTP */
	const struct http_tokens *tokens; /* NULL: none asked for */
	/* Clients send a token as "Authorization: Bearer T", as the password of Basic with any name
	 * (go tool pprof http://x:T@host/...), or as the query parameter "token". */
	/* Further names of this server, for Host and Origin, separated by commas; NULL: none. A request that
	 * uses another name is refused (DNS rebinding), unless it has a token or a certificate. */
	const char *names;
	struct http_limits limits;
	const char *headers;           /* further lines "Name: value\n" on every answer, or NULL */
	void (*say)(const char *text); /* says what goes wrong while serving; NULL: silence */
	/* Called when all sockets are open, and before anything is read from one: gives up privileges. NULL: has
	 * none. 0 or a negative code, which ends the server. */
	int (*confine)(struct heft_error *err);
};

/* Routes end with a NULL path. They, and everything in the options, must live as long as the server. An
 * address that is not loopback needs tokens or client_ca: HEFT_EREFUSED says what to do. */
int http_server_start(struct http_server **out, const struct http_options *o,
		      const struct http_route *routes, struct heft_error *err);
uint16_t http_server_port(const struct http_server *s);
/* Ends open connections and waits for routes that are at work. NULL: does nothing. */
void http_server_stop(struct http_server *s);

struct http_stats {
	uint64_t connections;     /* open now */
	uint64_t requests;        /* answered so far */
	uint64_t refused, failed; /* requests that were answered with 4xx and with 5xx */
};
void http_request_stats(const struct http_request *q, struct http_stats *stats);

/* Removes a Unix socket that no server answers any more. http_server_stop does this; if the server gave up its
 * privileges, or was killed, another process has to. */
void http_remove_socket(const char *path);

/* The server raises the soft limit of open files as far as the hard limit allows. Whoever starts programs
 * calls this in the child before exec, to give it heft's original limit. It may be called after fork, and
 * without any server. */
void http_restore_file_limit(void);

/* Splits "127.0.0.1:6060", ":6060", "6060" or "[::1]:0"; changes the text. Without an address, *address is
 * NULL, which means loopback. 0 or HEFT_EUSAGE. */
int http_parse_listen(char *text, const char **address, uint16_t *port);
/* Makes a token of 32 hex digits from the kernel's random numbers. */
void http_make_token(char token[33]);

struct http_token {
	char *text;
	enum http_sees sees;
	uint32_t uid;
};
struct http_tokens {
	VECTOR_MEMBERS(struct http_token);
};
/* Reads a file that only its owner may read: each line is a token of at least 16 characters, then "all",
 * "uid=1000" or nothing, which means all. Empty lines and those that begin with '#' are skipped. */
int http_tokens_read(struct http_tokens *t, const char *path, struct heft_error *err);
void http_tokens_fini(struct http_tokens *t);

struct http_tls_files {
	const char *cert, *key;
	const char *client_ca; /* NULL: clients need no certificate */
};
/* PEM texts */
struct http_tls {
	char *cert, *key, *client_ca;
};
/* Reads and checks the files; only the owner and the group of the key may be able to read it. A client whose
 * certificate client_ca signed is known and sees all. */
int http_tls_read(struct http_tls *t, const struct http_tls_files *f, struct heft_error *err);
void http_tls_fini(struct http_tls *t);

#endif
