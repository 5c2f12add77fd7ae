/* The HTTP server among strangers: requests too large, too slow, broken or too many; tokens, names
 * and addresses. After each of them it must go on answering. */
#include "http/http_parts.h"

#include "hosted/monotonic.h"
#include "http_client.h"
#include "unit_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

static void answer_ok(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	http_answer_text(a, 200, "ok %zu", q->body_bytes);
}

static void answer_large(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	size_t bytes = 32u << 20;
	http_answer_body(a, 200, "application/octet-stream", calloc(1, bytes), bytes);
}

static void answer_connections(void *ctx, const struct http_request *q, struct http_answer *a)
{
	struct http_stats stats;
	(void)ctx;
	http_request_stats(q, &stats);
	http_answer_text(a, 200, "%u", (unsigned)stats.connections);
}

static const struct http_route routes[] = {
	{.method = "GET", .path = "/ok", .answer = answer_ok},
	{.method = "POST", .path = "/ok", .answer = answer_ok},
	{.method = "GET", .path = "/open", .answer = answer_ok, .open = true, .quick = true},
	{.method = "GET", .path = "/large", .answer = answer_large},
	{.method = "GET", .path = "/connections", .answer = answer_connections},
	{.path = NULL},
};

static struct http_server *server;
static uint16_t port;

static void start(struct http_options o)
{
	struct heft_error err = {0};
	if (http_server_start(&server, &o, routes, &err) < 0)
		fail_msg("%s", err.message);
	port = http_server_port(server);
}

static void stop(void)
{
	http_server_stop(server);
	server = NULL;
}

static int status_of(const char *line, const char *headers, const char *body)
{
	struct http_reply r = client_ask(port, line, headers, body);
	int status = r.status;
	reply_free(&r);
	return status;
}

static void assert_alive(void)
{
	assert_int_equal(status_of("GET /ok", "", ""), 200);
}

/* Sends all of it, as far as it is taken, hangs up (or not) and gives the status of what comes
 * back. */
static int status_of_bytes(const char *data, size_t length, bool hang_up)
{
	int fd = client_connect(port);
	for (size_t sent = 0; sent < length;) {
		ssize_t n = send(fd, data + sent, length - sent, MSG_NOSIGNAL);
		if (n <= 0)
			break;
		sent += (size_t)n;
	}
	if (hang_up)
		shutdown(fd, SHUT_WR);
	struct http_reply r = client_read_all(fd);
	int status = r.status;
	reply_free(&r);
	close(fd);
	return status;
}

TEST(test_large_headers)
{
	start((struct http_options){0});
	static char header[200000];
	static const size_t lengths[] = {1000, 15000, 20000, 60000, 150000};
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		size_t length = lengths[i];
		strcpy(header, "X-Long: ");
		memset(header + 8, 'a', length);
		strcpy(header + 8 + length, "\r\n");
		int status = status_of("GET /ok", header, "");
		if (length <= 15000)
			assert_int_equal(status, 200);
		else if (length <= 20000) /* ours; above, libmicrohttpd may just close */
			assert_int_equal(status, 431);
		else
			assert_true(status != 200);
	}
	strcpy(header, "GET /ok?");
	memset(header + 8, 'a', 150000);
	assert_true(status_of(header, "", "") != 200);
	assert_alive();
	stop();
}

TEST(test_large_bodies)
{
	start((struct http_options){.limits = {.body_bytes = 1000}});
	static char body[20001];
	memset(body, 'b', sizeof body - 1);
	assert_int_equal(status_of("POST /ok", "", body + 19000), 200);
	assert_int_equal(status_of("POST /ok", "", body + 18999), 413);
	assert_int_equal(status_of("POST /ok", "", body + 13000), 413);
	assert_int_equal(status_of("POST /nowhere", "", body + 13000), 404);
	const char *huge =
		"POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nabc";
	assert_int_equal(status_of_bytes(huge, strlen(huge), false), 413);
	huge = "POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
	       "99999999999999999999999999\r\n\r\n";
	assert_true(status_of_bytes(huge, strlen(huge), false) >= 400);
	huge = "POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n";
	assert_int_equal(status_of_bytes(huge, strlen(huge), false), 400);
	assert_alive();
	stop();
}

/* A body in chunks says nothing of its length beforehand. */
TEST(test_chunked_bodies)
{
	start((struct http_options){.limits = {.body_bytes = 1000}});
	static char text[40000];
	static const char head[] = "POST /ok HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
				   "Transfer-Encoding: chunked\r\n\r\n";
	for (int chunks = 1; chunks <= 200; chunks += 50) {
		size_t length = sizeof head - 1;
		memcpy(text, head, length);
		for (int i = 0; i < chunks; i++, length += 105) {
			memcpy(text + length, "64\r\n", 4);
			memset(text + length + 4, 'c', 100);
			memcpy(text + length + 104, "\r\n", 2);
			length++;
		}
		memcpy(text + length, "0\r\n\r\n", 5);
		int status = status_of_bytes(text, length + 5, false);
		if (chunks * 100 <= 1000)
			assert_int_equal(status, 200);
		else if (chunks * 100 <= 8000)
			assert_int_equal(status, 413);
		else
			assert_int_not_equal(status, 200);
	}
	assert_alive();
	stop();
}

/* How long a client may take that sends its request byte by byte: the bytes do not save it. */
TEST(test_slow_requests)
{
	start((struct http_options){.limits = {.idle_ms = 1500, .request_ms = 1500}});
	static const char *const begin[] = {
		"",
		"GET /ok HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
		int fd = client_connect(port);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		bool ended = false;
		client_send(fd, begin[i]);
		for (int k = 0; k < 6000 && !ended; k++) { /* a minute at least */
			client_send(fd, "a");
			ended = poll(&p, 1, 10) > 0;
		}
		assert_true(ended);
		struct http_reply r = client_read_all(fd);
		assert_int_not_equal(r.status, 200);
		reply_free(&r);
		close(fd);
		assert_alive();
	}
	stop();
}

static unsigned open_connections(void)
{
	struct http_reply r = client_ask(port, "GET /connections", "", "");
	assert_int_equal(r.status, 200);
	unsigned n = (unsigned)atoi(r.body);
	reply_free(&r);
	return n;
}

static void wait_for_connections(unsigned n)
{
	for (int i = 0; i < 3000 && open_connections() != n; i++)
		usleep(20000);
	assert_int_equal(open_connections(), n);
}

/* The status of the next answer, of which nothing else is taken. */
static int first_status(int fd)
{
	char line[13] = "";
	size_t got = 0;
	for (ssize_t n; got < 12 && (n = client_read(fd, line + got, 12 - got)) > 0;)
		got += (size_t)n;
	return atoi(line + (got > 9 ? 9 : got));
}

/* Who asks for large answers and does not take them does not fill the memory: one user has half of 512 MiB. */
TEST(test_answers_that_nobody_takes)
{
	start((struct http_options){0});
	int fds[20], taken = 0, full = 0;
	for (int i = 0; i < 20; i++) {
		fds[i] = client_connect(port);
		client_send(fds[i], "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
		int status = first_status(fds[i]);
		taken += status == 200;
		full += status == 503;
	}
	assert_int_equal(taken, 8);
	assert_int_equal(full, 12);
	assert_alive(); /* small ones go on */
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	wait_for_connections(1);
	assert_int_equal(status_of("GET /large", "", ""), 200);
	stop();
}

/* The same of requests that never end. */
TEST(test_bodies_that_never_end)
{
	enum { BODY = 40 << 20 };
	char *body = calloc(1, BODY);
	assert_non_null(body);
	/* None of them has sent for too long, however slow this machine is. */
	start((struct http_options){.limits = {.body_bytes = BODY, .request_ms = 600000}});
	char head[200];
	snprintf(head, sizeof head,
		 "POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", BODY + 1);
	int fds[12], refused = 0;
	for (int i = 0; i < 12; i++) {
		fds[i] = client_connect(port);
		client_send(fds[i], head);
		for (size_t sent = 0; sent < BODY;) {
			ssize_t n = send(fds[i], body + sent, BODY - sent, MSG_NOSIGNAL);
			if (n <= 0)
				break;
			sent += (size_t)n;
		}
		assert_alive();
	}
	for (int i = 0; i < 12; i++) { /* the last byte */
		client_send(fds[i], "b");
		int status = first_status(fds[i]);
		assert_true(status == 413 || status == 503);
		refused += status == 503;
		close(fds[i]);
	}
	assert_in_range(refused, 6, 10); /* a buffer of 64 MiB each, as they grow in steps */
	wait_for_connections(1);
	assert_alive();
	stop();
	free(body);
}

TEST(test_idle_and_stalled)
{
	start((struct http_options){.limits = {.idle_ms = 1500, .request_ms = 1500}});
	int idle = client_connect(port), kept = client_connect(port),
	    stalled = client_connect(port);
	client_send(kept, "GET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n");
	client_send(stalled,
		    "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* and never reads */
	wait_for_connections(1);                                       /* the one that asks */
	char byte;
	assert_int_equal(client_read(idle, &byte, 1), 0);
	struct http_reply r = client_read_all(kept);
	assert_int_equal(r.status, 200);
	reply_free(&r);
	close(idle);
	close(kept);
	close(stalled);
	stop();
}

TEST(test_broken_requests)
{
	start((struct http_options){.limits = {.request_ms = 400}});
	static const char *const broken[] = {
		"",
		"\r\n\r\n",
		"GET",
		"GET /ok",
		"GET /ok HTTP/1.1\r\n",
		"GET /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
		"GET /ok HTTP/9.9\r\n\r\n",
		"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello",
		"GET /ok HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"GET /ok HTTP/1.1\r\n: x\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /%zz%%%1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		assert_int_not_equal(status_of_bytes(broken[i], strlen(broken[i]), true), 200);
	uint64_t rng = 1;
	for (int i = 0; i < 100; i++) {
		char garbage[3000];
		for (size_t k = 0; k < sizeof garbage; k++) {
			rng = rng * 6364136223846793005ull + 1442695040888963407ull;
			garbage[k] = (char)(rng >> 56);
		}
		if (i % 2)
			memcpy(garbage, "GET /ok HTTP/1.1\r\n", 18);
		assert_int_not_equal(status_of_bytes(garbage, sizeof garbage, true), 200);
	}
	assert_alive();
	stop();
}

TEST(test_too_many)
{
	enum { MOST = 20, MORE = 10 };
	start((struct http_options){.limits = {.connections = MOST}});
	int fds[MOST + MORE];
	const uint64_t begun = monotonic_ns();
	for (int i = 0; i < MOST; i++)
		fds[i] = client_connect(port);
	for (int i = MOST; i < MOST + MORE; i++) {
		fds[i] = client_connect(port);
		client_send(fds[i], "GET /ok HTTP/1.1\r\nHost: localhost\r\n"
				    "Connection: close\r\n\r\n");
		struct http_reply r = client_read_all(fds[i]);
		/* After a second, who has not asked yet makes room: on a machine that stood still meanwhile. */
		if (r.status != 200 || monotonic_ns() - begun < 1000000000) {
			assert_int_equal(r.status, 503);
			assert_non_null(strstr(r.text, "\r\nRetry-After: 5\r\n"));
		}
		reply_free(&r);
	}
	for (int i = 0; i < MOST + MORE; i++)
		close(fds[i]);
	for (int i = 0; i < 3000 && status_of("GET /ok", "", "") != 200; i++)
		usleep(20000);
	wait_for_connections(1);
	stop();
}

static int confined, refuse_to_confine;

static int confine(struct heft_error *err)
{
	confined++;
	return refuse_to_confine ? heft_fail(err, HEFT_EREFUSED, "cannot give them up") : 0;
}

/* Privileges are given up when the sockets are open; if that fails, nothing is served. */
TEST(test_confine)
{
	char path[64];
	struct heft_error err = {0};
	snprintf(path, sizeof path, "/tmp/heft-confine-%d.sock", getpid());
	struct http_options o = {.confine = confine, .socket = path};
	confined = refuse_to_confine = 0;
	start(o);
	assert_int_equal(confined, 1);
	assert_int_equal(access(o.socket, F_OK), 0);
	assert_int_equal(status_of("GET /ok", "", ""), 200);
	stop();
	assert_int_not_equal(access(o.socket, F_OK), 0);
	refuse_to_confine = 1;
	assert_int_equal(http_server_start(&server, &o, routes, &err), HEFT_EREFUSED);
	assert_string_equal(err.message, "cannot give them up");
	assert_int_equal(confined, 2);
	assert_null(server);
	assert_int_not_equal(access(o.socket, F_OK), 0);
}

TEST(test_thousand_idle)
{
	enum { MANY = 1000 };
	struct rlimit files;
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < 2500)
		skip(); /* both ends are here */
	rlim_t before = files.rlim_cur;
	start((struct http_options){.limits = {.idle_ms = 600000, .request_ms = 600000}});
	getrlimit(RLIMIT_NOFILE, &files);
	assert_true(files.rlim_cur >= 2300);
	static int fds[MANY];
	for (int i = 0; i < MANY; i++) {
		fds[i] = client_connect(port);
		assert_true(fds[i] >= 0);
		if (i % 2) /* half of them have begun to ask */
			client_send(fds[i], "GET /ok HT");
	}
	wait_for_connections(MANY + 1);
	assert_alive();
	for (int i = 1; i < MANY; i += 2)
		client_send(fds[i], "TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	for (int i = 0; i < MANY; i++) {
		if (i % 2) {
			struct http_reply r = client_read_all(fds[i]);
			assert_int_equal(r.status, 200);
			reply_free(&r);
		}
		close(fds[i]);
	}
	assert_alive();
	stop();
	http_restore_file_limit();
	getrlimit(RLIMIT_NOFILE, &files);
	assert_true(files.rlim_cur <= before);
}

/* The profiled program is a child of heft: nothing of the server may be open in it. */
TEST(test_close_on_exec)
{
	bool before[4096] = {0};
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));)
		if (atoi(e->d_name) < 4096)
			before[atoi(e->d_name)] = true;
	closedir(d);
	start((struct http_options){0});
	int fd = client_connect(port);
	client_send(fd, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
	char byte;
	assert_int_equal(client_read(fd, &byte, 1), 1);
	unsigned seen = 0;
	d = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(d));) {
		int n = atoi(e->d_name);
		if (*e->d_name == '.' || before[n])
			continue;
		assert_true(fcntl(n, F_GETFD) & FD_CLOEXEC);
		seen++;
	}
	closedir(d);
	assert_true(seen >= 4); /* the socket that listens, two ends, epoll, ... */
	close(fd);
	stop();
}

TEST(test_tokens)
{
	struct http_token token = {.text = (char *)TOKEN, .sees = HTTP_SEES_ALL};
	const struct http_tokens tokens = {.items = &token, .count = 1};
	start((struct http_options){.tokens = &tokens});
	static const struct {
		const char *line, *header;
		int status;
	} cases[] = {
		{"GET /ok", "", 401},
		{"GET /open", "", 200},
		{"POST /ok", "", 401},
		{"GET /ok", "Authorization: Bearer " TOKEN "\r\n", 200},
		{"POST /ok", "Authorization: Bearer " TOKEN "\r\n", 200},
		{"GET /ok", "Authorization: bearer " TOKEN "\r\n", 200},
		{"GET /ok", "Authorization: Bearer " TOKEN "x\r\n", 403},
		{"GET /ok", "Authorization: Bearer 0123\r\n", 403},
		{"GET /ok", "Authorization: Bearer \r\n", 403},
		{"GET /ok", "Authorization: " TOKEN "\r\n", 403},
		/* x:TOKEN, x:TOKEn, no colon */
		{"GET /ok",
		 "Authorization: Basic eDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==\r\n", 200},
		{"GET /ok",
		 "Authorization: Basic eDowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZw==\r\n", 403},
		{"GET /ok", "Authorization: Basic MDEyMzQ1Njc4OWFiY2RlZg==\r\n", 403},
		{"GET /ok", "Authorization: Basic !!!\r\n", 403},
		{"GET /ok?token=" TOKEN, "", 200},
		{"GET /ok?token=" TOKEN "&a=b", "Authorization: Bearer wrong\r\n", 200},
		{"GET /ok?token=", "", 403},
		{"GET /ok?token", "", 403},
		{"GET /ok?token=x", "", 403},
		{"GET /nowhere", "", 404},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = status_of(cases[i].line, cases[i].header, "");
		if (status != cases[i].status)
			fprintf(stderr, "%s %s", cases[i].line, cases[i].header);
		assert_int_equal(status, cases[i].status);
	}
	struct http_reply r = client_ask(port, "GET /ok", "", "");
	assert_non_null(strstr(r.text, "\r\nWWW-Authenticate: Bearer realm=\"heft\"\r\n"));
	reply_free(&r);
	stop();
}

/* A request as a browser sends it: Host and Origin are what it says. */
static int status_with_host(const char *method, const char *host, const char *origin)
{
	char text[1000];
	snprintf(text, sizeof text,
		 "%s /ok HTTP/1.1\r\n%s%s%s%s%s%sConnection: close\r\nContent-Length: 0\r\n\r\n",
		 method, host ? "Host: " : "", host ? host : "", host ? "\r\n" : "",
		 origin ? "Origin: " : "", origin ? origin : "", origin ? "\r\n" : "");
	return status_of_bytes(text, strlen(text), false);
}

TEST(test_host_and_origin)
{
	static const struct {
		const char *method, *host, *origin;
		int expected;
	} cases[] = {
		{"GET", "127.0.0.1:1234", NULL, 200},
		{"GET", "localhost", NULL, 200},
		{"GET", "LocalHost:80", NULL, 200}, /* through a tunnel */
		{"GET", "[::1]:80", NULL, 200},
		{"GET", "evil.example", NULL, 403},
		{"GET", "evil.example:6060", NULL, 403},
		{"GET", "localhost.evil.example", NULL, 403},
		{"GET", "127.0.0.1.evil.example", NULL, 403},
		{"GET", "127.0.0.1@evil.example", NULL, 403},
		{"GET", "10.0.0.1", NULL, 403},
		{"GET", "heft.example", NULL, 200}, /* names that the server was given */
		{"GET", "other.example:80", NULL, 200},
		{"GET", "heft.example.evil", NULL, 403},
		{"GET", "heft.example,other.example", NULL, 403},
		{"GET", "localhost:80", "https://heft.example", 200}, /* through a proxy */
		{"GET", "localhost:80", "https://evil.example", 403},
		{"GET", "localhost:80", "http://localhost:80", 200},
		{"GET", "localhost:80", "http://localhost:81", 403},
		{"GET", "localhost:80", "http://evil.example", 403},
		{"GET", "localhost:80", "null", 403},
		{"POST", "localhost:80", NULL, 200},
		{"POST", "localhost:80", "http://localhost:80", 200},
		{"POST", "localhost:80", "http://evil.example", 403},
		{"POST", "localhost:80", "null", 403},
		{"POST", "evil.example", "http://evil.example", 403},
	};
	start((struct http_options){.names = "heft.example,other.example"});
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = status_with_host(cases[i].method, cases[i].host, cases[i].origin);
		if (status != cases[i].expected)
			fprintf(stderr, "%s %s\n", cases[i].method, cases[i].host);
		assert_int_equal(status, cases[i].expected);
	}
	stop();
	struct http_own_names any = {.address = "0.0.0.0", .machine = "box", .any = true};
	assert_true(http_host_is_own(&any, "10.1.2.3:6060"));
	assert_true(http_host_is_own(&any, "[fe80::1]:6060"));
	assert_true(http_host_is_own(&any, "box"));
	assert_false(http_host_is_own(&any, "box.evil.example"));
	assert_false(http_host_is_own(&any, ""));
	assert_false(http_host_is_own(&any, "[::1"));
	assert_false(http_host_is_own(&any, "localhost:x"));
}

TEST(test_ports)
{
	struct http_server *second = NULL;
	struct heft_error err = {0};
	char number[16];
	start((struct http_options){0});
	snprintf(number, sizeof number, "port %u ", port);
	struct http_options o = {.port = port};
	assert_int_equal(http_server_start(&second, &o, routes, &err), HEFT_EIO);
	assert_null(second);
	assert_non_null(strstr(err.message, number));
	assert_non_null(strstr(err.message, "taken"));
	if (port < 65000) {
		o.tries = 500;
		assert_int_equal(http_server_start(&second, &o, routes, &err), 0);
		assert_true(http_server_port(second) > port &&
			    http_server_port(second) <= port + 500);
		http_server_stop(second);
	}
	stop();
	http_server_stop(NULL);
}

TEST(test_addresses)
{
	struct http_server *s;
	struct heft_error err = {0};
	static const char *const reachable[] = {"0.0.0.0", "::", "[::]", "192.0.2.1",
						"::ffff:1.2.3.4"};
	for (size_t i = 0; i < sizeof reachable / sizeof *reachable; i++) {
		struct http_options o = {.address = reachable[i]};
		assert_int_equal(http_server_start(&s, &o, routes, &err), HEFT_EREFUSED);
		assert_non_null(strstr(err.message, "--token-file"));
	}
	struct http_options o = {.address = "no.such.name.invalid"};
	assert_int_equal(http_server_start(&s, &o, routes, &err), HEFT_EUSAGE);
	static const char *const own[] = {"127.0.0.1", "127.9.8.7", "localhost", ""};
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		start((struct http_options){.address = own[i]});
		stop();
	}
}

TEST(test_parse_listen)
{
	static const struct {
		const char *text, *address;
		int port; /* below 0: refused */
	} cases[] = {
		{"6060", NULL, 6060},
		{":6060", NULL, 6060},
		{"127.0.0.1:0", "127.0.0.1", 0},
		{"[::1]:80", "::1", 80},
		{"localhost:65535", "localhost", 65535},
		{"0.0.0.0:6060", "0.0.0.0", 6060},
		{"", NULL, -1},
		{":", NULL, -1},
		{"127.0.0.1", NULL, -1},
		{"127.0.0.1:", NULL, -1},
		{"x:65536", NULL, -1},
		{"x:-1", NULL, -1},
		{"x: 1", NULL, -1},
		{"::1:80", NULL, -1},
		{"[::1]", NULL, -1},
		{"[::1:80", NULL, -1},
		{"[::1]x:80", NULL, -1},
		{"[evil]:80", NULL, -1},
		{"60000000000000000000", NULL, -1},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[64];
		const char *address = NULL;
		uint16_t number = 0;
		strcpy(text, cases[i].text);
		int rc = http_parse_listen(text, &address, &number);
		assert_int_equal(rc, cases[i].port < 0 ? HEFT_EUSAGE : 0);
		if (rc < 0)
			continue;
		assert_int_equal(number, cases[i].port);
		if (cases[i].address)
			assert_string_equal(address, cases[i].address);
		else
			assert_null(address);
	}
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(path, mode);
}

static int read_tokens(struct http_tokens *t, const char *path, const char *text)
{
	struct heft_error err = {0};
	write_file(path, text, 0600);
	return http_tokens_read(t, path, &err);
}

TEST(test_token_files)
{
	char path[] = "/tmp/heft-token-XXXXXX", token[33], other[33];
	struct heft_error err = {0};
	struct http_tokens t;
	struct http_viewer v;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(read_tokens(&t, path,
				     "# comment\n\n" TOKEN "\n" TOKEN "1 uid=1000\r\n"
				     "  " TOKEN "2\tall \n" TOKEN "3   uid=4294967294"),
			 0);
	assert_int_equal(t.count, 4);
	assert_true(http_tokens_find(&t, TOKEN, &v));
	assert_true(v.sees == HTTP_SEES_ALL && v.known);
	assert_true(http_tokens_find(&t, TOKEN "1", &v));
	assert_true(v.sees == HTTP_SEES_UID && v.uid == 1000 && v.known);
	assert_true(http_tokens_find(&t, TOKEN "2", &v));
	assert_true(v.sees == HTTP_SEES_ALL);
	assert_true(http_tokens_find(&t, TOKEN "3", &v));
	assert_true(v.sees == HTTP_SEES_UID && v.uid == 4294967294);
	static const char *const absent[] = {"",         "# comment", TOKEN "1 uid=1000", TOKEN "4",
					     "uid=1000", TOKEN " ",   " " TOKEN};
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
		assert_false(http_tokens_find(&t, absent[i], &v));
	http_tokens_fini(&t);
	write_file(path, TOKEN, 0400);
	assert_int_equal(http_tokens_read(&t, path, &err), 0);
	assert_int_equal(t.count, 1);
	http_tokens_fini(&t);
	chmod(path, 0640);
	assert_int_equal(http_tokens_read(&t, path, &err), HEFT_EREFUSED);
	assert_non_null(strstr(err.message, "chmod 600"));
	static const char *const bad[] = {"short\n",
					  "",
					  "\n\n# nothing\n",
					  "with blanks, which no header keeps\n",
					  TOKEN "\nsecond line\n",
					  TOKEN " uid=\n",
					  TOKEN " uid=root\n",
					  TOKEN " uid=-1\n",
					  TOKEN " uid=4294967295\n",
					  TOKEN " uid=4294967296\n",
					  TOKEN " ALL\n",
					  TOKEN " uid=1 all\n",
					  TOKEN " uid=1,2\n",
					  TOKEN "\n" TOKEN " uid=1\n",
					  TOKEN "\n" TOKEN "\001\n",
					  TOKEN TOKEN TOKEN TOKEN TOKEN TOKEN TOKEN TOKEN TOKEN
					  "\n"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(read_tokens(&t, path, bad[i]), HEFT_EREFUSED);
		assert_int_equal(t.count, 0);
	}
	FILE *f = fopen(path, "w");
	fwrite(TOKEN "\0 uid=1\n", 1, sizeof TOKEN + 7, f);
	fclose(f);
	assert_int_equal(http_tokens_read(&t, path, &err), HEFT_EREFUSED);
	unlink(path);
	assert_int_equal(http_tokens_read(&t, path, &err), HEFT_EIO);
	assert_int_equal(http_tokens_read(&t, "/tmp", &err), HEFT_EREFUSED);
	http_make_token(token);
	http_make_token(other);
	assert_int_equal(strlen(token), 32);
	assert_int_equal(strspn(token, "0123456789abcdef"), 32);
	assert_string_not_equal(token, other);
}

UNIT_TESTS(NULL, NULL)
