/* HTTP for everything that heft serves: listening, limits, who may ask. The routes
 * make the answers (pprof/routes_pprof.c, pprof/routes_metrics.c, pages/routes_view.c).
 * Only this folder knows libmicrohttpd.
 *
 * One thread does the network and suspends a connection while one of a few workers
 * makes its answer: a slow client costs a buffer, never a thread. */
#ifndef HEFT_HTTP_HTTP_H
#define HEFT_HTTP_HTTP_H

#include "hosted/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;

struct http_request {
	const char *method; /* "GET", "POST"; HEAD is answered as GET without its body */
	const char *path;   /* decoded, begins with '/', without the query */
	const char *rest;   /* of the path, behind what a route with '*' names; else "" */
	const char *body;   /* of a POST; ends with NUL */
	size_t body_bytes;
	const struct http_connection *connection; /* for http_query and http_header */
	void *kept;        /* an answer that came back later (http_later) finds what it left here */
	const char *query; /* all of it as it was sent, undecoded; "" without one */
	uint64_t arrived_ns; /* monotonic_ns() when the whole request was there */
};
/* The decoded value of a query parameter, "" for one without value, NULL: not there. */
const char *http_query(const struct http_request *q, const char *name);
const char *http_header(const struct http_request *q, const char *name);

bool http_takes_gzip(const struct http_request *q); /* the client unpacks */

struct http_answer; /* to be filled by a route */
/* The body is taken over and freed with free(). */
void http_answer_body(struct http_answer *a, unsigned status, const char *type, char *body,
		      size_t bytes);
/* text/plain; the text is copied. */
void http_answer_text(struct http_answer *a, unsigned status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Not copied: static data, such as the embedded page. gzip: it is packed, and a client that cannot
 * unpack gets it unpacked. */
void http_answer_static(struct http_answer *a, const char *type, const void *body, size_t bytes,
			bool gzip);
void http_answer_header(struct http_answer *a, const char *name, const char *value);
/* No answer yet: the route is called again after `ns` with q->kept = kept. If the client goes or the
 * server ends in the meantime, drop(kept) is called instead. */
void http_later(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept));
/* Server-sent events: the route is called every `ns` from now on and adds what is new to say
 * (http_event); a comment goes out where nothing is. drop as above. */
void http_answer_events(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept));
void http_event(struct http_answer *a, const char *name, const char *data);
/* In place of further events, if nothing more is to be said: the client sees the end. */
void http_events_end(struct http_answer *a);

struct http_route {
	const char *method; /* "GET" or "POST"; another one of a known path is 405 */
	const char *path;   /* exact, or up to a '*' at its end */
	void (*answer)(void *ctx, const struct http_request *q, struct http_answer *a);
	void *ctx;
	bool open;  /* no token needed, not even where one is (/healthz) */
	bool quick; /* answers at once from memory: made by the network's own thread */
};

/* 0: the usual */
struct http_limits {
	uint32_t connections; /* 2048; further ones get 503, and beyond a few of these wait */
	uint32_t body_bytes;  /* of a POST; 1 MiB, else 413 */
	uint32_t idle_ms;     /* without a request; 60 s */
	uint32_t request_ms;  /* for a whole request from its first line on; 20 s */
	uint32_t answer_ms;   /* to take an answer, plus a second for each 16 KiB; 30 s */
};

struct http_options {
	const char *address; /* NULL: 127.0.0.1. Others need a token. IPv6 as ::1 or [::1] */
	uint16_t port;       /* 0: any free one */
	uint16_t tries;      /* further ports to try if it is taken */
	const char *token;   /* NULL: none asked for */
	/* Where it may stand: always "Authorization: Bearer T", the password of Basic (with any name:
	 * go tool pprof http://x:T@host/...) and the query parameter "token". */
	bool check_host; /* refuse other Host and Origin headers than our own (DNS rebinding) */
	struct http_limits limits;
	const char *headers;           /* further lines "Name: value\n" on every answer, or NULL */
	void (*say)(const char *text); /* what goes wrong while serving; NULL: silence */
};

/* Routes end with a NULL path and, as everything in options, must live as long as the server.
 * Refuses an address that is not loopback without a token: HEFT_EREFUSED, with the way out. */
int http_server_start(struct http_server **out, const struct http_options *o,
		      const struct http_route *routes, struct heft_error *err);
uint16_t http_server_port(const struct http_server *s);
/* Ends open connections; waits for routes that are at work. NULL is nothing. */
void http_server_stop(struct http_server *s);

struct http_stats {
	uint64_t connections;     /* open now */
	uint64_t requests;        /* answered so far */
	uint64_t refused, failed; /* of them, with a status of 4xx and of 5xx */
};
void http_request_stats(const struct http_request *q, struct http_stats *stats);

/* The server raises the soft limit of open files if the hard one allows. Whoever starts programs
 * calls this in the child before exec: it has the limit again that heft was given. May be called
 * after fork, and without any server. */
void http_restore_file_limit(void);

/* "127.0.0.1:6060", ":6060", "6060", "[::1]:0" taken apart; text is changed. Without an address:
 * NULL, which is loopback. HEFT_EUSAGE. */
int http_parse_listen(char *text, const char **address, uint16_t *port);
/* A token of 32 hex digits from the kernel. */
void http_make_token(char token[33]);
/* The first line of a file that only its owner may read; 16 characters at least. */
int http_read_token(const char *path, char *token, size_t size, struct heft_error *err);

#endif
