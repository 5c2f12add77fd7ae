/* Inside src/http: an answer in the making (http_answer.c) and who may ask
 * (http_access.c), for http.c, which does the network. */
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
	char *body;        /* ours; or */
	const void *fixed; /* somebody's for ever */
	size_t bytes;
	bool packed; /* fixed, in gzip */
	struct {
		char *name, *value;
	} headers[HTTP_ANSWER_HEADERS];
	uint32_t header_count;
	bool no_memory;
	/* later and events */
	uint64_t wait_ns;
	void *kept;
	void (*drop)(void *kept);
	char *events;
	size_t event_bytes;
};
/* Frees what it holds, but for what was kept. */
void http_answer_fini(struct http_answer *a);
/* The unpacked body of a packed one, for clients without gzip. */
int http_unpack(const void *packed, size_t packed_bytes, char **body, size_t *bytes);

/* Under which names clients may reach us. */
struct http_own_names {
	char address[64]; /* as bound */
	char machine[256];
	bool any; /* bound to every address of the machine: any number is ours, and its name */
};
/* A socket that listens as the options say, or a negative code (http_listen.c). */
int http_listen(const struct http_options *o, struct http_own_names *own, uint16_t *port,
		struct heft_error *err);
/* Makes room for that many connections, as far as the system lets us; gives how many there may be. */
uint32_t http_raise_file_limit(uint32_t sockets);
bool http_host_is_own(const struct http_own_names *own, const char *host);
/* The Origin of a page that this server gave out itself under that Host. */
bool http_origin_is_host(const char *origin, const char *host);
/* Takes the time of its own length, whatever is given. */
bool http_token_equal(const char *token, const char *given);
/* The password in "Basic BASE64"; false: it is none. */
bool http_basic_password(const char *header, char *password, size_t size);

#endif
