/* An answer that is being made. What a route says through http.h goes into a plain struct, and only the
 * network's own thread makes libmicrohttpd's response from it. So routes can be called and tested without a
 * network, and a worker never touches a connection.
 *
 * If memory runs out, no_memory stays set: the client then gets 500, never half an answer. */
#include "http/http_parts.h"

#include "hosted/vector.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Begins a whole answer; a second one replaces the first. */
static void set_whole(struct http_answer *a, unsigned status, const char *type)
{
	free(a->body);
	a->body = NULL;
	a->fixed = NULL;
	a->bytes = 0;
	a->packed = false;
	a->kind = HTTP_WHOLE;
	a->status = status;
	http_answer_header(a, "Content-Type", type);
}

void http_answer_body(struct http_answer *a, unsigned status, const char *type, char *body,
		      size_t bytes)
{
	set_whole(a, status, type);
	a->body = body;
	a->bytes = bytes;
}

void http_answer_text(struct http_answer *a, unsigned status, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		a->no_memory = true;
		return;
	}
	http_answer_body(a, status, "text/plain; charset=utf-8", text, (size_t)n);
}

void http_answer_static(struct http_answer *a, const char *type, const void *body, size_t bytes,
			bool gzip)
{
	set_whole(a, 200, type);
	a->fixed = body;
	a->bytes = bytes;
	a->packed = gzip;
}

void http_answer_header(struct http_answer *a, const char *name, const char *value)
{
	uint32_t i = 0;
	while (i < a->header_count && strcasecmp(a->headers[i].name, name) != 0)
		i++;
	if (i == HTTP_ANSWER_HEADERS)
		return;
	char *copy = strdup(value);
	if (i == a->header_count && copy) {
		a->headers[i].name = strdup(name);
		if (!a->headers[i].name) {
			free(copy);
			copy = NULL;
		}
	}
	if (!copy) {
		a->no_memory = true;
		return;
	}
	if (i < a->header_count)
		free(a->headers[i].value);
	else
		a->header_count++;
	a->headers[i].value = copy;
}

void http_later(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept))
{
	a->kind = HTTP_LATER;
	a->wait_ns = ns;
	a->kept = kept;
	a->drop = drop;
}

void http_answer_events(struct http_answer *a, uint64_t ns, void *kept, void (*drop)(void *kept))
{
	http_later(a, ns, kept, drop);
	a->kind = HTTP_EVENTS;
}

void http_events_end(struct http_answer *a)
{
	a->kind = HTTP_EVENTS_END;
}

/* Each line of the data gets its own "data:". Characters that could end the event early are left out. */
void http_event(struct http_answer *a, const char *name, const char *data)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out) {
		a->no_memory = true;
		return;
	}
	if (a->event_bytes)
		fwrite(a->events, 1, a->event_bytes, out);
	if (name && *name)
		fprintf(out, "event: %.*s\n", (int)strcspn(name, "\r\n"), name);
	do {
		size_t line = strcspn(data, "\r\n");
		fprintf(out, "data: %.*s\n", (int)line, data);
		data += line;
		data += *data == '\r';
		data += *data == '\n';
	} while (*data);
	fputc('\n', out);
	if (fclose(out) != 0) {
		free(text);
		a->no_memory = true;
		return;
	}
	free(a->events);
	a->events = text;
	a->event_bytes = bytes;
}

void http_answer_fini(struct http_answer *a)
{
	free(a->body);
	free(a->events);
	for (uint32_t i = 0; i < a->header_count; i++) {
		free(a->headers[i].name);
		free(a->headers[i].value);
	}
	*a = (struct http_answer){0};
}

int http_unpack(const void *packed, size_t packed_bytes, char **body, size_t *bytes)
{
	z_stream z = {.next_in = (Bytef *)packed, .avail_in = (uInt)packed_bytes};
	size_t capacity = 0;
	char *out = NULL;
	if (!array_reserve(out, 0, capacity, packed_bytes * 4 + 1024) ||
	    inflateInit2(&z, 15 + 16) != Z_OK) {
		free(out);
		return HEFT_ENOMEM;
	}
	int rc = Z_OK;
	while (rc == Z_OK) {
		if (!array_reserve(out, z.total_out, capacity, 1))
			break;
		z.next_out = (Bytef *)out + z.total_out;
		z.avail_out = (uInt)(capacity - z.total_out);
		rc = inflate(&z, Z_NO_FLUSH);
	}
	*bytes = z.total_out;
	inflateEnd(&z);
	if (rc != Z_STREAM_END) {
		free(out);
		return rc == Z_OK ? HEFT_ENOMEM : HEFT_EFORMAT;
	}
	*body = out;
	return 0;
}
