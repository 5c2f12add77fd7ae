/* Inside src/http: an answer that is being made (http_answer.c), who may ask (http_access.c, http_tokens.c) and
 * listening (http_listen.c, http_local.c), for http.c, which does the network. */
#ifndef HEFT_HTTP_HTTP_PARTS_H
#define HEFT_HTTP_HTTP_PARTS_H

#include "http/http.h"

enum http_answer_kind {
	HTTP_NO_ANSWER,
	HTTP_WHOLE,
	HTTP_LATER,
	HTTP_EVENTS,
	HTTP_EVENTS_END,
};

enum { HTTP_ANSWER_HEADERS = 12 };

struct http_answer {
	enum http_answer_kind kind;
	unsigned status;
	char *body;        /* owned; or */
	const void *fixed; /* static data */
	size_t bytes;
	bool packed; /* `fixed` is gzip */
	struct {
		char *name, *value;
	} headers[HTTP_ANSWER_HEADERS];
	uint32_t header_count;
	bool no_memory;
	/* for HTTP_LATER and HTTP_EVENTS */
	uint64_t wait_ns;
	void *kept;
	void (*drop)(void *kept);
	char *events;
	size_t event_bytes;
};
/* Frees what the answer holds, except what the route kept. */
void http_answer_fini(struct http_answer *a);
/* Unpacks a body for clients without gzip. */
int http_unpack(const void *packed, size_t packed_bytes, char **body, size_t *bytes);

/* The names that clients may use for this server. */
struct http_own_names {
	char address[64]; /* as bound */
	char machine[256];
	bool any; /* bound to every address: any number and the machine's name are right */
	const char *further; /* separated by commas; NULL: none */
};
/* Returns a socket that listens as the options say, or a negative code (http_listen.c). */
int http_listen(const struct http_options *o, struct http_own_names *own, uint16_t *port,
		struct heft_error *err);
/* The Unix socket of a server */
struct http_local {
	bool has_stranger; /* users that this namespace does not know have the uid `stranger` */
	uint32_t stranger;
};
/* Returns a socket that listens there, or a negative code (http_local.c). */
int http_listen_local(const char *path, struct http_local *l, struct heft_error *err);
/* Who is at the other end of a connection. */
void http_peer_viewer(const struct http_local *l, int fd, struct http_viewer *viewer);

/* The user whose process has the other end of this TCP connection, if that is on this machine. For shares, not for
 * rights. False: not known. */
bool http_loopback_user(int fd, uint32_t *uid);
/* Raises the limit of open files for that many connections, as far as the system allows. Returns how many
 * connections there may be. */
uint32_t http_raise_file_limit(uint32_t sockets);
bool http_host_is_own(const struct http_own_names *own, const char *host);
/* The Origin is that of a page that this server served under that Host, or under one of its further names. */
bool http_origin_is_own(const struct http_own_names *own, const char *origin, const char *host);
/* Compares in a time that depends on the token's own length only. */
bool http_token_equal(const char *token, const char *given);
/* The token's viewer; false: no token is this one. */
bool http_tokens_find(const struct http_tokens *t, const char *given, struct http_viewer *viewer);
/* Reads the password in "Basic BASE64"; false: there is none. */
bool http_basic_password(const char *header, char *password, size_t size);

#endif
