/* Starts and stops a server beside a recorder or an agent. Its threads start when the loop has already
 * blocked its signals, and end before the set of processes is freed. */
#include "cli/live_server.h"

#include "cli/cli.h"
#include "pprof/routes_pprof.h"

#include <string.h>

static int parse_listen(struct live_server *s, struct heft_error *err)
{
	const char *listen = s->o.listen;
	if (strlen(listen) >= sizeof s->listen)
		return heft_fail(err, HEFT_EUSAGE, "--listen needs ADDR:PORT, not '%.100s...'",
				 listen);
	strcpy(s->listen, listen);
	if (http_parse_listen(s->listen, &s->address, &s->port))
		return heft_fail(err, HEFT_EUSAGE, "--listen needs ADDR:PORT, not '%s'", listen);
	return 0;
}

int live_server_init(struct live_server *s, const struct serve_options *o, struct heft_error *err)
{
	memset(s, 0, sizeof *s);
	process_set_init(&s->set);
	s->source.set = &s->set;
	s->o = *o;
	int rc = serve_options_have_port(&s->o) ? parse_listen(s, err) : 0;
	if (rc == 0 && o->token_file)
		rc = http_tokens_read(&s->tokens, o->token_file, err);
	if (rc == 0 && o->tls.cert)
		rc = http_tls_read(&s->tls, &o->tls, err);
	return rc;
}

int live_server_start(void *server, struct heft_error *err)
{
	struct live_server *s = server;
	if (!serve_options_wanted(&s->o))
		return 0;
	const struct http_options options = {
		.address = s->address,
		.port = s->port,
		.socket = s->o.socket,
		.socket_only = !serve_options_have_port(&s->o),
		.tls = s->tls.cert ? &s->tls : NULL,
		.tokens = s->tokens.count ? &s->tokens : NULL,
		.names = s->o.names,
		.say = cli_say,
		.confine = s->confine,
	};
	struct source source = s->other ? *s->other : live_source(&s->source);
	if (pprof_routes_new(&s->routes, &source))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	return http_server_start(&s->http, &options, pprof_routes_table(s->routes), err);
}

void live_server_place(const struct live_server *s, char *text, size_t size)
{
	const char *address = s->address ? s->address : "127.0.0.1";
	bool bare_v6 = strchr(address, ':') && address[0] != '[';
	size_t length = 0;
	if (serve_options_have_port(&s->o))
		length = (size_t)snprintf(text, size, "http%s://%s%s%s:%u/debug/pprof/%s",
					  s->tls.cert ? "s" : "", bare_v6 ? "[" : "", address,
					  bare_v6 ? "]" : "", http_server_port(s->http),
					  s->o.socket ? " and " : "");
	if (s->o.socket && length < size)
		snprintf(text + length, size - length, "the socket %s", s->o.socket);
}

void live_server_forget(struct live_server *s)
{
	http_tokens_fini(&s->tokens);
	http_tls_fini(&s->tls);
}

void live_server_fini(struct live_server *s)
{
	http_server_stop(s->http);
	if (s->o.socket) /* also if the server was a process that has ended */
		http_remove_socket(s->o.socket);
	if (s->routes)
		pprof_routes_free(s->routes);
	live_server_forget(s);
	process_set_fini(&s->set);
}
