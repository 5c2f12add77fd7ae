/* A client for tests of the HTTP server: raw bytes out, the whole answer in, bounded in time. */
#ifndef HEFT_TESTS_HTTP_CLIENT_H
#define HEFT_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct http_reply {
	int status; /* 0: none came */
	char *text; /* all of it, with headers; ends with NUL */
	size_t bytes;
	char *body; /* in text */
	size_t body_bytes;
};

static inline int client_connect(uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static inline int client_send(int fd, const char *text)
{
	return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text) ? 0 : -1;
}

/* Waits for more of at most `size` bytes: their number, 0: the end, -1: nothing in a minute. */
static inline ssize_t client_read(int fd, void *data, size_t size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	if (poll(&p, 1, 60000) <= 0)
		return -1;
	ssize_t n = recv(fd, data, size, 0);
	return n < 0 ? 0 : n;
}

static inline void reply_free(struct http_reply *r)
{
	free(r->text);
	*r = (struct http_reply){0};
}

/* Reads one answer of a connection that is kept: its status, 0 if none came. */
static inline int client_read_one(int fd)
{
	char text[8192] = "", *body = NULL, *length = NULL;
	size_t bytes = 0;
	int status = 0;
	while (!body || bytes < (size_t)(body - text) + strtoul(length + 17, NULL, 10)) {
		ssize_t n = client_read(fd, text + bytes, sizeof text - 1 - bytes);
		if (n <= 0)
			return 0;
		text[bytes += (size_t)n] = 0;
		length = strstr(text, "\r\nContent-Length: ");
		body = length ? strstr(length, "\r\n\r\n") : NULL;
		body = body ? body + 4 : NULL;
	}
	sscanf(text, "HTTP/1.1 %d ", &status);
	return status;
}

/* Reads until the end of the connection. */
static inline struct http_reply client_read_all(int fd)
{
	struct http_reply r = {.text = calloc(1, 1)};
	char part[65536];
	for (ssize_t n; (n = client_read(fd, part, sizeof part)) > 0;) {
		r.text = realloc(r.text, r.bytes + (size_t)n + 1);
		memcpy(r.text + r.bytes, part, (size_t)n);
		r.bytes += (size_t)n;
		r.text[r.bytes] = 0;
	}
	sscanf(r.text, "HTTP/1.1 %d ", &r.status);
	r.body = strstr(r.text, "\r\n\r\n");
	r.body = r.body ? r.body + 4 : r.text + r.bytes;
	r.body_bytes = r.bytes - (size_t)(r.body - r.text);
	return r;
}

/* One request on a connection of its own; headers are whole lines, with their ends. */
static inline struct http_reply client_ask(uint16_t port, const char *line, const char *headers,
					   const char *body)
{
	char *text = NULL;
	int fd = client_connect(port);
	struct http_reply r = {0};
	if (fd < 0 || asprintf(&text,
			       "%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n%s"
			       "Content-Length: %zu\r\n\r\n%s",
			       line, port, headers, strlen(body), body) < 0)
		return r;
	client_send(fd, text);
	free(text);
	r = client_read_all(fd);
	close(fd);
	return r;
}

#endif
