/* The HTTP server itself, with routes made for the purpose: what it answers, what it refuses, and
 * that slow, broken and many clients do it no harm. */
#include "http/http_parts.h"

#include "http_client.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <zlib.h>

static atomic_int dropped, calls, begun; /* begun: answers that keep something */
static char packed[256];
static size_t packed_bytes;

static void answer_hello(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	const char *name = http_query(q, "name");
	http_answer_header(a, "X-Rest", q->rest);
	http_answer_text(a, 200, "hello %s|%s|%s", name ? name : "(none)", q->rest, q->query);
}

static void answer_echo(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	char *copy = malloc(q->body_bytes + 1);
	memcpy(copy, q->body, q->body_bytes + 1);
	http_answer_body(a, 200, "application/octet-stream", copy, q->body_bytes);
}

static void answer_static(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	http_answer_static(a, "text/css", packed, packed_bytes, true);
}

static void drop_kept(void *kept)
{
	free(kept);
	atomic_fetch_add(&dropped, 1);
}

/* Twice later, then an answer that says so. ?ns= */
static void answer_later(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	const char *ns = http_query(q, "ns");
	bool first = !q->kept;
	int *times = first ? calloc(1, sizeof *times) : q->kept;
	if (++*times <= 2) {
		http_later(a, ns ? strtoull(ns, NULL, 10) : 1000000, times, drop_kept);
		atomic_fetch_add(&begun, first);
		return;
	}
	http_answer_text(a, 200, "called %d times", *times);
	free(times);
}

/* Three events, one of two lines; then the end. With ?forever it goes on. */
static void answer_events(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	atomic_fetch_add(&calls, 1);
	int *times = q->kept;
	if (!times) {
		times = calloc(1, sizeof *times);
		http_answer_events(a, 1000000, times, drop_kept);
		atomic_fetch_add(&begun, 1);
	}
	++*times;
	if (*times == 1)
		http_event(a, "first", "one");
	else if (*times == 3)
		http_event(a, NULL, "two\nlines");
	else if (*times > 3 && !http_query(q, "forever"))
		http_events_end(a);
}

static void answer_nothing(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	(void)a;
}

static const struct http_route routes[] = {
	{.method = "GET", .path = "/hello", .answer = answer_hello},
	{.method = "GET", .path = "/quick", .answer = answer_hello, .quick = true},
	{.method = "GET", .path = "/under/*", .answer = answer_hello},
	{.method = "POST", .path = "/echo", .answer = answer_echo},
	{.method = "GET", .path = "/both", .answer = answer_hello},
	{.method = "POST", .path = "/both", .answer = answer_echo},
	{.method = "GET", .path = "/style", .answer = answer_static},
	{.method = "GET", .path = "/later", .answer = answer_later},
	{.method = "GET", .path = "/quick-later", .answer = answer_later, .quick = true},
	{.method = "GET", .path = "/events", .answer = answer_events},
	{.method = "GET", .path = "/nothing", .answer = answer_nothing},
	{.path = NULL},
};

static struct http_server *start(const struct http_options *o)
{
	struct http_server *s = NULL;
	struct heft_error err = {0};
	int rc = http_server_start(&s, o, routes, &err);
	if (rc < 0)
		fprintf(stderr, "%s\n", err.message);
	assert_int_equal(rc, 0);
	return s;
}

static struct http_server *server; /* of most tests */
static uint16_t port;

static int start_plain(void **state)
{
	(void)state;
	server = start(&(struct http_options){.headers = "X-One: 1\nX-Two: 2\n"});
	port = http_server_port(server);
	atomic_store(&dropped, 0);
	atomic_store(&begun, 0);
	return 0;
}

static int stop_plain(void **state)
{
	(void)state;
	http_server_stop(server);
	return 0;
}

/* One request: its status, and that its body begins so. */
static void expect(const char *line, const char *headers, const char *body, int status,
		   const char *answer)
{
	struct http_reply r = client_ask(port, line, headers, body);
	if (r.status != status || strncmp(r.body, answer, strlen(answer)) != 0)
		fprintf(stderr, "%s %s: %s\n", line, headers, r.text ? r.text : "");
	assert_int_equal(r.status, status);
	assert_memory_equal(r.body, answer, strlen(answer));
	reply_free(&r);
}

TEST_WITH(test_routes, start_plain, stop_plain)
{
	expect("GET /hello", "", "", 200, "hello (none)||");
	expect("GET /hello?name=a%20b+c", "", "", 200, "hello a b c||name=a%20b+c");
	expect("GET /hello?name", "", "", 200, "hello ||name");
	expect("GET /quick?name=x", "", "", 200, "hello x");
	expect("GET /under/some/where", "", "", 200, "hello (none)|some/where|");
	expect("GET /under/", "", "", 200, "hello (none)||");
	expect("GET /under", "", "", 404, "404: nothing");
	expect("GET /nowhere", "", "", 404,
	       "404: nothing is served under this path. Paths of this server:\n  /hello\n");
	expect("POST /echo", "", "some\nbody", 200, "some\nbody");
	expect("POST /both", "", "x", 200, "x");
	expect("GET /both", "", "", 200, "hello");
	expect("GET /later", "", "", 200, "called 3 times");
	expect("GET /quick-later", "", "", 200, "called 3 times");
	expect("GET /nothing", "", "", 500, "heft could not");
	expect("GET /hello%00x", "", "", 400, "an address may not contain a NUL byte");
	assert_int_equal(atomic_load(&dropped), 0);
}

TEST_WITH(test_methods, start_plain, stop_plain)
{
	expect("POST /hello", "", "", 405, "this path takes GET, HEAD only");
	expect("GET /echo", "", "", 405, "this path takes POST only");
	expect("DELETE /both", "", "", 405, "this path takes GET, HEAD, POST only");
	expect("OPTIONS /hello", "", "", 405, "this path");
	struct http_reply r = client_ask(port, "PUT /hello", "", "body");
	assert_int_equal(r.status, 405);
	assert_non_null(strstr(r.text, "\r\nAllow: GET, HEAD\r\n"));
	reply_free(&r);
	r = client_ask(port, "HEAD /hello", "", "");
	assert_int_equal(r.status, 200);
	assert_int_equal(r.body_bytes, 0);
	assert_non_null(strstr(r.text, "\r\nContent-Length: 14\r\n"));
	reply_free(&r);
}

TEST_WITH(test_headers, start_plain, stop_plain)
{
	struct http_reply r = client_ask(port, "GET /under/a%0d%0aX-Evil:%201", "", "");
	assert_non_null(strstr(r.text, "\r\nX-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(r.text, "\r\nX-One: 1\r\n"));
	assert_non_null(strstr(r.text, "\r\nX-Two: 2\r\n"));
	assert_non_null(strstr(r.text, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
	char *evil = strstr(r.text, "X-Evil");
	assert_true(!evil || evil > r.body);
	reply_free(&r);
	r = client_ask(port, "GET /nowhere", "", "");
	assert_non_null(strstr(r.text, "\r\nX-Content-Type-Options: nosniff\r\n"));
	reply_free(&r);
}

TEST_WITH(test_packed, start_plain, stop_plain)
{
	expect("GET /style", "", "", 200, "body { color: red }");
	expect("GET /style", "Accept-Encoding: gzip;q=0, br\r\n", "", 200, "body {");
	struct http_reply r = client_ask(port, "GET /style", "Accept-Encoding: br, gzip\r\n", "");
	assert_non_null(strstr(r.text, "\r\nContent-Encoding: gzip\r\n"));
	assert_int_equal(r.body_bytes, packed_bytes);
	assert_memory_equal(r.body, packed, packed_bytes);
	reply_free(&r);
}

TEST_WITH(test_kept_connection, start_plain, stop_plain)
{
	int fd = client_connect(port);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(
			client_send(fd, i % 3 == 1 ? "POST /hello HTTP/1.1\r\nHost: localhost\r\n"
						     "Content-Length: 2\r\n\r\nab"
					: i % 3 ? "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n"
						: "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n"),
			0);
		assert_int_equal(client_read_one(fd), i % 3 == 1 ? 405 : 200);
	}
	close(fd);
}

TEST_WITH(test_events, start_plain, stop_plain)
{
	struct http_reply r = client_ask(port, "GET /events", "", "");
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.text, "\r\nContent-Type: text/event-stream; charset=utf-8\r\n"));
	char *first = strstr(r.body, "event: first\ndata: one\n\n");
	char *comment = strstr(r.body, ":\n\n");
	char *second = strstr(r.body, "data: two\ndata: lines\n\n");
	assert_non_null(first);
	assert_non_null(second);
	assert_true(first < comment && comment < second);
	assert_string_equal(r.text + r.bytes - 5, "0\r\n\r\n"); /* the last chunk */
	reply_free(&r);
	assert_int_equal(atomic_load(&dropped), 1);
}

static void wait_for(atomic_int *counter, int n)
{
	for (int i = 0; i < 6000 && atomic_load(counter) < n; i++)
		usleep(10000);
	assert_int_equal(atomic_load(counter), n);
}

/* Whoever hangs up is noticed while nothing is sent, and what was kept for it goes. */
TEST_WITH(test_client_goes, start_plain, stop_plain)
{
	static const char *const paths[] = {"/later?ns=3600000000000", "/events?forever"};
	for (int i = 0; i < 2; i++) {
		char line[100];
		int fd = client_connect(port);
		snprintf(line, sizeof line, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[i]);
		client_send(fd, line);
		wait_for(&begun, i + 1);
		assert_int_equal(atomic_load(&dropped), i);
		close(fd);
		wait_for(&dropped, i + 1);
	}
}

/* The end of the server is the end of those that wait; they are told. */
TEST_WITH(test_stop_while_waiting, start_plain, stop_plain)
{
	int later[8], events[8];
	for (int i = 0; i < 8; i++) {
		later[i] = client_connect(port);
		client_send(later[i],
			    "GET /later?ns=3600000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
		events[i] = client_connect(port);
		client_send(events[i], "GET /events?forever HTTP/1.1\r\nHost: localhost\r\n\r\n");
	}
	char byte;
	for (int i = 0; i < 8; i++)
		assert_int_equal(recv(events[i], &byte, 1, MSG_PEEK), 1);
	wait_for(&begun, 16);
	assert_int_equal(atomic_load(&dropped), 0);
	http_server_stop(server);
	server = NULL;
	assert_int_equal(atomic_load(&dropped), 16);
	for (int i = 0; i < 8; i++) {
		struct http_reply r = client_read_all(later[i]);
		assert_int_equal(r.status, 503);
		reply_free(&r);
		r = client_read_all(events[i]);
		assert_int_equal(r.status, 200);
		reply_free(&r);
		close(later[i]);
		close(events[i]);
	}
}

int main(void)
{
	z_stream z = {.next_in = (Bytef *)"body { color: red }", .avail_in = 19};
	z.next_out = (Bytef *)packed;
	z.avail_out = sizeof packed;
	deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
	deflate(&z, Z_FINISH);
	packed_bytes = z.total_out;
	deflateEnd(&z);
	return unit_tests_run(NULL, NULL);
}
