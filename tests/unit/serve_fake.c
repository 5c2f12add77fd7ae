/* Serves made-up processes (fake_source.h) for tests/integration/test_http.py, until its standard
 * input ends. Prints its port. Options are words: token=T check slow=MS off many ended none
 * connections=N each=N idle=MS request=MS files=N address=A tokens=FILE cert=FILE key=FILE ca=FILE socket=PATH only owners=UID,UID,... */
#include "pprof/routes_pprof.h"

#include "fake_source.h"

#include <sys/resource.h>

static struct fake_source fake;
static struct http_route table[16];

static void answer_count(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	http_answer_text(a, 200, "%d", atomic_load(&fake.snapshots));
}

static void answer_large(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	size_t bytes = 32u << 20;
	char *body = malloc(bytes);
	if (body)
		memset(body, 'x', bytes);
	http_answer_body(a, 200, "application/octet-stream", body, body ? bytes : 0);
}

static const char *value_of(int argc, char **argv, const char *name)
{
	size_t length = strlen(name);
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], name, length) == 0 &&
		    (!argv[i][length] || argv[i][length] == '='))
			return argv[i] + length + (argv[i][length] == '=');
	return NULL;
}

static uint32_t number_of(int argc, char **argv, const char *name)
{
	const char *value = value_of(argc, argv, name);
	return value ? (uint32_t)strtoul(value, NULL, 10) : 0;
}

static void make_processes(int argc, char **argv)
{
	bool running = !value_of(argc, argv, "ended");
	if (value_of(argc, argv, "none"))
		return;
	struct source_process *p = fake_process(&fake, 100, "/x/prog", running);
	p->on = !value_of(argc, argv, "off");
	p->cost_share = 0.0025;
	if (!value_of(argc, argv, "many"))
		return;
	fake_process(&fake, 200, "/x/" HOSTILE_NAME, true)->memory_limit_bytes = 1 << 20;
	fake_process(&fake, 300, "/x/gone", false);
	fake_process(&fake, 300, "/x/gone", false)->live_bytes = 1; /* its pid was used again */
}

/* The processes belong to these users, in turn; without any, to root. */
static void give_owners(const char *uids)
{
	for (uint32_t i = 0; uids && i < fake.count; i++) {
		char *end;
		fake.processes[i].uid = (uint32_t)strtoul(uids, &end, 10);
		uids = *end == ',' ? end + 1 : uids;
	}
}

int main(int argc, char **argv)
{
	struct pprof_routes *routes;
	struct http_server *server;
	struct heft_error err = {0};
	uint32_t files = number_of(argc, argv, "files");
	struct rlimit limit = {files, files};
	if (files && setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 2;
	struct source source = fake_source_of(&fake);
	make_processes(argc, argv);
	give_owners(value_of(argc, argv, "owners"));
	fake.slow_ms = number_of(argc, argv, "slow");
	struct http_token one = {.text = (char *)(uintptr_t)value_of(argc, argv, "token"),
				 .sees = HTTP_SEES_ALL};
	struct http_tokens tokens = {.items = &one, .count = one.text != NULL};
	const char *file = value_of(argc, argv, "tokens");
	if ((file && http_tokens_read(&tokens, file, &err) < 0)) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	const struct http_tls_files tls_files = {value_of(argc, argv, "cert"),
						 value_of(argc, argv, "key"),
						 value_of(argc, argv, "ca")};
	struct http_tls tls = {0};
	if (tls_files.cert && http_tls_read(&tls, &tls_files, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	if (pprof_routes_new(&routes, &source) < 0)
		return 2;
	uint32_t n = 0;
	for (const struct http_route *r = pprof_routes_table(routes); r->path; r++)
		table[n++] = *r;
	table[n] = (struct http_route){"GET", "/test/snapshots", answer_count, NULL, true, true};
	table[n + 1] = (struct http_route){"GET", "/test/large", answer_large, NULL, true, false};
	struct http_options o = {
		.address = value_of(argc, argv, "address"),
		.socket = value_of(argc, argv, "socket"),
		.tls = tls.cert ? &tls : NULL,
		.socket_only = value_of(argc, argv, "only"),
		.tokens = tokens.count ? &tokens : NULL,
		.limits = {.connections = number_of(argc, argv, "connections"),
			   .per_address = number_of(argc, argv, "each"),
			   .idle_ms = number_of(argc, argv, "idle"),
			   .request_ms = number_of(argc, argv, "request")},
	};
	if (http_server_start(&server, &o, table, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	printf("%u\n", http_server_port(server));
	fflush(stdout);
	while (getchar() != EOF)
		;
	http_server_stop(server);
	pprof_routes_free(routes);
	http_tls_fini(&tls);
	if (file)
		http_tokens_fini(&tokens);
	return 0;
}
