/* What is served of programs, asked over HTTP from many threads at once, and its parts: snapshots
 * shared, differences, the text and its symbols. tests/integration/test_http.py has the endpoints. */
#include "pprof/pprof_pages.h"
#include "pprof/pprof_text.h"
#include "pprof/routes_pprof.h"
#include "pprof/snapshots.h"
#include "profile/profile_delta.h"

#include "fake_source.h"
#include "http_client.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stddef.h>

enum { THREADS = 20 };

static struct fake_source fake;
static struct pprof_routes *routes;
static struct http_server *server;
static uint16_t port;

static int start(void **state)
{
	(void)state;
	struct heft_error err = {0};
	struct http_options o = {0};
	memset(&fake, 0, sizeof fake);
	struct source source = fake_source_of(&fake);
	fake_process(&fake, 100, "/x/prog", true);
	if (pprof_routes_new(&routes, &source) < 0 ||
	    http_server_start(&server, &o, pprof_routes_table(routes), &err) < 0)
		return -1;
	port = http_server_port(server);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	http_server_stop(server);
	pprof_routes_free(routes);
	return 0;
}

struct asking {
	pthread_t thread;
	const char *line;
	struct http_reply reply;
};

static void *ask(void *ctx)
{
	struct asking *a = ctx;
	a->reply = client_ask(port, a->line, "", "");
	return NULL;
}

static void ask_all(struct asking *a, int count)
{
	for (int i = 0; i < count; i++)
		assert_int_equal(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
	for (int i = 0; i < count; i++)
		pthread_join(a[i].thread, NULL);
}

static int different_bodies(const struct asking *a, int count)
{
	int different = 0;
	for (int i = 0; i < count; i++) {
		int k = 0;
		while (k < i && (a[k].reply.body_bytes != a[i].reply.body_bytes ||
				 memcmp(a[k].reply.body, a[i].reply.body, a[i].reply.body_bytes)))
			k++;
		different += k == i;
	}
	return different;
}

/* All of them come while the first snapshot is being made: they share the second. */
TEST_WITH(test_scrapes_at_once, start, stop)
{
	struct asking a[THREADS] = {0};
	fake.slow_ms = 1500;
	for (int i = 0; i < THREADS; i++)
		a[i].line = "GET /debug/pprof/heap?debug=1";
	ask_all(a, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(a[i].reply.status, 200);
	int made = atomic_load(&fake.snapshots);
	assert_in_range(made, 1, 3); /* 3: if a thread did not get to run for 1.5 s */
	assert_in_range(different_bodies(a, THREADS), 1, made);
	for (int i = 0; i < THREADS; i++)
		reply_free(&a[i].reply);
}

/* Who comes after a snapshot was begun gets a later one. */
TEST_WITH(test_no_old_snapshot, start, stop)
{
	char line[40];
	for (int n = 1; n <= 3; n++) {
		struct http_reply r = client_ask(port, "GET /debug/pprof/heap?debug=1", "", "");
		snprintf(line, sizeof line, "\n%d: %d [%d: %d] @ ", n, 100 * n, 10 * n, 1000 * n);
		assert_non_null(strstr(r.body, line));
		reply_free(&r);
	}
	assert_int_equal(atomic_load(&fake.snapshots), 3);
}

TEST_WITH(test_shared_failure, start, stop)
{
	struct asking a[THREADS] = {0};
	fake.slow_ms = 1500;
	fake.fails = true;
	for (int i = 0; i < THREADS; i++)
		a[i].line = "GET /debug/pprof/allocs";
	ask_all(a, THREADS);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(a[i].reply.status, 500);
		assert_string_equal(a[i].reply.body, "the table cannot be read\n");
		assert_non_null(strstr(a[i].reply.text, "\r\nX-Go-Pprof: 1\r\n"));
		reply_free(&a[i].reply);
	}
	assert_in_range(atomic_load(&fake.snapshots), 1, 3);
}

/* A scrape describes only its own process among eight. A page about all describes all of them. */
TEST_WITH(test_one_of_many, start, stop)
{
	static const struct {
		const char *line;
		int status, described;
	} asked[] = {
		{"GET /debug/pprof/104/heap", 200, 1},
		{"GET /debug/pprof/heap?pid=107", 200, 1},
		{"GET /debug/pprof/101/cmdline", 200, 1},
		{"GET /debug/pprof/104/", 200, 1},
		{"GET /debug/pprof/99/heap", 404, 0},
		{"GET /debug/pprof/heap", 409, 8}, /* which one? It names them all */
		{"GET /debug/pprof/", 200, 8},
		{"GET /metrics", 200, 8},
	};
	for (int32_t pid = 101; pid < 108; pid++)
		fake_process(&fake, pid, "/x/prog", true);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		fake.described = 0;
		struct http_reply r = client_ask(port, asked[i].line, "", "");
		assert_int_equal(r.status, asked[i].status);
		assert_int_equal(fake.described, asked[i].described);
		reply_free(&r);
	}
}

/* A link or a line with a pid leads to the latest image of it; earlier ones have neither. Running processes come first. */
TEST_WITH(test_images_of_a_pid, start, stop)
{
	fake_process(&fake, 300, "/x/shell", false);
	fake_process(&fake, 200, "/x/earlier", false);
	fake_process(&fake, 200, "/x/later", true);
	fake_process(&fake, 301, "/x/last", false);
	struct http_reply r = client_ask(port, "GET /debug/pprof/heap", "", "");
	assert_int_equal(r.status, 409);
	assert_string_equal(r.body, "several processes are profiled here; name one:\n"
				    "  /debug/pprof/100/heap  /x/prog\n"
				    "  /debug/pprof/200/heap  /x/later\n"
				    "  /debug/pprof/301/heap  /x/last  (ended)\n"
				    "  /debug/pprof/300/heap  /x/shell  (ended)\n");
	reply_free(&r);
	r = client_ask(port, "GET /debug/pprof/", "", "");
	static const char *const rows[] = {
		"/x/prog",  "href=\"100/heap\"", "/x/later",   "href=\"200/heap\"",
		"/x/last",  "href=\"301/heap\"", "/x/earlier", "in its recording only",
		"/x/shell", "href=\"300/heap\"", "</table>"};
	const char *at = r.body;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		at = strstr(at, rows[i]);
		assert_non_null(at);
	}
	at = strstr(r.body, "href=\"200/heap\"");
	assert_null(strstr(at + 1, "href=\"200/heap\""));
	reply_free(&r);
}

/* A process that nobody can describe for a moment does not vanish from the page without a word. */
TEST_WITH(test_silent_process, start, stop)
{
	struct http_reply r = client_ask(port, "GET /debug/pprof/", "", "");
	assert_null(strstr(r.body, "Not shown"));
	reply_free(&r);
	fake.silent_key = 1;
	r = client_ask(port, "GET /debug/pprof/", "", "");
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.body, "Not shown: 1 process."));
	assert_null(strstr(r.body, "No process is being profiled"));
	reply_free(&r);
	fake_process(&fake, 200, "/x/other", true);
	r = client_ask(port, "GET /debug/pprof/", "", "");
	assert_non_null(strstr(r.body, "href=\"200/heap\""));
	assert_non_null(strstr(r.body, "Not shown: 1 process."));
	reply_free(&r);
}

/* server --save '' --dir x */
TEST_WITH(test_empty_arguments, start, stop)
{
	struct source_process *p = &fake.processes[0];
	memcpy(p->command, "server\0--save\0\0--dir\0x", 23);
	p->command_bytes = 23;
	struct http_reply r = client_ask(port, "GET /debug/pprof/cmdline", "", "");
	assert_non_null(strstr(r.text, "\r\nContent-Length: 22\r\n"));
	assert_memory_equal(r.body, "server\0--save\0\0--dir\0x", 23);
	reply_free(&r);
	r = client_ask(port, "GET /debug/pprof/", "", "");
	assert_non_null(strstr(r.body, "<code>server --save  --dir x</code>"));
	reply_free(&r);
	p->command_bytes = 0;
	r = client_ask(port, "GET /debug/pprof/cmdline", "", "");
	assert_non_null(strstr(r.text, "\r\nContent-Length: 0\r\n"));
	reply_free(&r);
}

/* Everything at once, for the sanitizers. */
TEST_WITH(test_mixed, start, stop)
{
	static const char *const lines[] = {
		"GET /debug/pprof/heap",
		"GET /debug/pprof/allocs",
		"GET /debug/pprof/heap?debug=1",
		"GET /debug/pprof/allocs?debug=1",
		"GET /debug/pprof/heap?seconds=1",
		"GET /debug/pprof/",
		"GET /debug/pprof/symbol?0x1010+0x1040",
		"GET /metrics",
		"GET /debug/pprof/cmdline",
		"HEAD /debug/pprof/heap",
	};
	struct asking a[2 * THREADS] = {0};
	fake.slow_ms = 20;
	for (int i = 0; i < 2 * THREADS; i++)
		a[i].line = lines[i % 10];
	ask_all(a, 2 * THREADS);
	for (int i = 0; i < 2 * THREADS; i++) {
		assert_int_equal(a[i].reply.status, 200);
		reply_free(&a[i].reply);
	}
}

/* The server goes down while snapshots are made and waited for, and between two of them. */
TEST_WITH(test_stop_in_the_middle, start, stop)
{
	int fds[10];
	fake.slow_ms = 2000;
	for (int i = 0; i < 10; i++) {
		fds[i] = client_connect(port);
		client_send(fds[i],
			    i % 2 ? "GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n"
				  : "GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: "
				    "localhost\r\n\r\n");
	}
	while (atomic_load(&fake.snapshots) == 0)
		usleep(1000);
	usleep(1000000); /* all have come by then */
	http_server_stop(server);
	server = NULL;
	for (int i = 0; i < 10; i++) {
		struct http_reply r = client_read_all(fds[i]);
		assert_true(r.status == 503 || (r.status == 200 && i % 2));
		reply_free(&r);
		close(fds[i]);
	}
}

/* The server refuses one request more than it takes; when the others have gone, it takes more again. */
TEST_WITH(test_too_many_differences, start, stop)
{
	enum { ONE_MORE = 65 };
	struct pollfd fds[ONE_MORE];
	for (int i = 0; i < ONE_MORE; i++) {
		fds[i] = (struct pollfd){.fd = client_connect(port), .events = POLLIN};
		client_send(
			fds[i].fd,
			"GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n");
	}
	assert_int_equal(poll(fds, ONE_MORE, 60000), 1);
	struct http_reply r = {0};
	for (int i = 0; i < ONE_MORE; i++) {
		if (fds[i].revents) {
			r = client_read_all(fds[i].fd);
			assert_int_equal(r.status, 503);
			assert_non_null(strstr(r.text, "\r\nRetry-After: 10\r\n"));
			reply_free(&r);
		}
		close(fds[i].fd);
	}
	for (int i = 0; i < 1000 && r.status != 200; i++) {
		reply_free(&r);
		usleep(10000);
		r = client_ask(port, "GET /debug/pprof/heap?seconds=1", "", "");
	}
	assert_int_equal(r.status, 200);
	reply_free(&r);
}

/* ---- the parts */

static const struct profile_delta_change *change_named(const struct profile_delta *d,
						       const char *function)
{
	const struct profile *p = profile_delta_view(d);
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		if (node != PROFILE_NONE &&
		    strcmp(p->stacks.frames[p->stacks.nodes[node].frame].function, function) == 0)
			return &d->changes[i];
	}
	return NULL;
}

TEST(test_delta)
{
	struct heft_error err = {0};
	struct profile_delta d;
	struct profile *before = fake_profile(2, 1), *after = fake_profile(5, 1);
	uint32_t extra = fake_node(before, PROFILE_NONE, "only before", 1, 0x9, false);
	fake_site(before, extra, 4, 400, 5, 500);
	assert_int_equal(profile_delta_init(&d, before, after, 1, &err), 0);
	const struct profile_delta_change *c = change_named(&d, "grow");
	assert_int_equal(c->live_blocks, 3);
	assert_int_equal(c->live_bytes, 300);
	assert_int_equal(c->allocations, 30);
	assert_int_equal(c->allocated_bytes, 3000);
	c = change_named(&d, "shrink");
	assert_int_equal(c->live_bytes, -30);
	assert_int_equal(c->live_blocks, 0);
	c = change_named(&d, "only before");
	assert_int_equal(c->live_blocks, -4);
	assert_int_equal(c->live_bytes, -400);
	assert_int_equal(c->allocated_bytes, -500);
	assert_int_equal(d.p->stacks.module_count, 1);
	assert_int_equal(d.p->site_count, 5);
	assert_int_equal(d.p->run.rate_bytes, 524288);
	assert_string_equal(d.p->run.argv[1], "-x");
	profile_delta_fini(&d);
	profile_free(before);
	profile_free(after);
}

/* Recursions of 5,000 and 6,000 levels are one stack when they are folded: its change is the sum of
 * both, and may be negative. */
TEST(test_delta_of_deep_stacks)
{
	struct heft_error err = {0};
	struct profile_delta d;
	struct profile *before = fake_profile(2, 1), *after = fake_profile(2, 1);
	for (uint32_t depth = 5000; depth <= 6000; depth += 1000) {
		uint32_t node = fake_node(before, PROFILE_NONE, "begin", 1, 0x10, false);
		for (uint32_t i = 0; i < depth; i++)
			node = fake_node(before, node, "again", 2, 0x20, false);
		fake_site(before, fake_node(before, node, "leaf", 3, 0x30, false), 1, depth, 1,
			  depth);
	}
	assert_int_equal(profile_delta_init(&d, before, after, 1, &err), 0);
	assert_non_null(d.folded.view);
	const struct profile_delta_change *c = change_named(&d, "leaf");
	assert_int_equal(c->live_blocks, -2);
	assert_int_equal(c->live_bytes, -11000);
	assert_int_equal(change_named(&d, "grow")->live_bytes, 0);
	profile_delta_fini(&d);
	profile_free(before);
	profile_free(after);
}

static char *text_of(const struct profile *p, bool allocated)
{
	static char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	assert_int_equal(pprof_write_text(out, p, allocated), 0);
	fclose(out);
	return text;
}

static char *symbols_of(const struct profile *p, const char *asked)
{
	static char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	assert_int_equal(pprof_write_symbols(out, p, asked), 0);
	fclose(out);
	return text;
}

/* The n-th number behind '@' of the line that begins so. */
static uint64_t number_behind(const char *text, const char *line, int n)
{
	const char *at = strstr(text, line);
	assert_non_null(at);
	at = strchr(at, '@') + 1;
	char *end = (char *)(uintptr_t)at;
	uint64_t number = 0;
	for (int i = 0; i < n; i++)
		number = strtoull(end, &end, 16);
	return number;
}

/* 60,000 levels of two functions that call each other are two frames and a mark; 1,000 different
 * functions are cut. */
TEST(test_text_of_deep_stacks)
{
	struct profile *p = fake_profile(7, 42);
	uint32_t node = fake_node(p, PROFILE_NONE, "begin", 1, 0x10, false);
	for (int i = 0; i < 30000; i++) {
		node = fake_node(p, node, "even", 2, 0x20, false);
		node = fake_node(p, node, "odd", 3, 0x30, false);
	}
	fake_site(p, node, 8, 800, 8, 800);
	node = fake_node(p, PROFILE_NONE, "begin", 1, 0x10, false);
	for (unsigned i = 0; i < 1000; i++) {
		char name[16];
		snprintf(name, sizeof name, "level%u", i);
		node = fake_node(p, node, name, 4, 0x1000 + i, false);
	}
	fake_site(p, node, 9, 900, 9, 900);
	profile_finish_sites(p);
	char *text = text_of(p, false);
	assert_true(strlen(text) < 40000);
	assert_non_null(strstr(text, "\n#\t0x0\t[recursion x30000 of 2]\n#\t0x30\todd\t/src/a.c:3\n"
				     "#\t0x20\teven\t/src/a.c:2\n#\t0x10\tbegin\t/src/a.c:1\n\n"));
	assert_int_equal(number_behind(text, "8: 800 [", 1), 4);
	assert_int_equal(number_behind(text, "8: 800 [", 4),
			 number_behind(text, "9: 900 [", 193 + 1 + 31));
	/* Of 1,001 frames 193 and 31 are shown (stack_fold.h). */
	assert_non_null(strstr(text, "\n#\t0x0\t[777 frames cut]\n"));
	free(text);
	text = symbols_of(p, "0x3+0x4+0x5+0x6+0x7+0x1");
	assert_string_equal(text, "num_symbols: 1\n0x3 [recursion]\n0x4 [recursion]\n"
				  "0x5 [frames cut]\n0x6 [frames cut]\n0x1 [stack unknown]\n");
	free(text);
	profile_free(p);
}

TEST(test_text_and_symbols)
{
	struct profile *p = fake_profile(7, 42);
	char *text = text_of(p, false), asked[200], expected[300];
	/* 7 + 3 + 1, 700 + 4930 + 7; 70 + 3 + 1 + 1, 7000 + 5000 + 7 + 3 */
	static const char first[] = "heap profile: 11: 5637 [75: 12010] @ heapprofile\n# heft ";
	assert_memory_equal(text, first, sizeof first - 1);
	assert_non_null(strstr(text,
			       "\n#\t0x1030\tgrow\t/src/a.c:20\t(inlined)\n"
			       "#\t0x1030\touter\t/src/a.c:30\n#\t0x1010\tmain\t/src/a.c:10\n\n"));
	assert_null(strchr(text, '\033'));
	assert_true(strstr(text, "3: 4930 [") < strstr(text, "7: 700 ["));
	uint64_t grow = number_behind(text, "7: 700 [", 1),
		 outer = number_behind(text, "7: 700 [", 2),
		 main_ = number_behind(text, "7: 700 [", 3);
	assert_true(grow != outer && outer != main_ && grow != main_);
	assert_int_equal(number_behind(text, "3: 4930 [", 2), main_);
	/* as it stands there, and as readers ask for it */
	snprintf(asked, sizeof asked, "0x%lx+0x%lx+0x%lx", grow, outer - 1, main_ - 1);
	snprintf(expected, sizeof expected, "num_symbols: 1\n0x%lx grow\n0x%lx outer\n0x%lx main\n",
		 grow, outer - 1, main_ - 1);
	char *symbols = symbols_of(p, asked);
	assert_string_equal(symbols, expected);
	free(symbols);
	symbols = symbols_of(p, "0x1010+zz+0x+0x999999+0x1040 0xffffffffffffffff+0x1+0x1030");
	assert_string_equal(symbols, "num_symbols: 1\n0x1010 main\n0x1040 shrink\n"
				     "0x1 [stack unknown]\n0x1030 outer\n");
	free(symbols);
	free(text);
	text = text_of(p, true);
	assert_true(strstr(text, "7: 700 [") < strstr(text, "3: 4930 ["));
	free(text);
	/* another snapshot has the same numbers */
	struct profile *other = fake_profile(9, 42);
	text = text_of(other, false);
	assert_int_equal(number_behind(text, "9: 900 [", 1), grow);
	free(text);
	profile_free(other);
	profile_free(p);
}

TEST(test_bytes)
{
	struct heft_error err = {0};
	char *bytes;
	size_t length;
	struct profile *p = fake_profile(1, 1);
	const struct source_wish wish = {.form = SOURCE_HEAP};
	assert_int_equal(profile_render(p, &wish, &bytes, &length, &err), 0);
	assert_true(length > 100);
	assert_memory_equal(bytes, "\x1f\x8b", 2);
	free(bytes);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
