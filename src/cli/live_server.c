/* Starts and stops a server beside a recorder or an agent. Its threads start when the loop has already
 * blocked its signals, and end before the set of processes is freed. */
#include "cli/live_server.h"

#include "cli/cli.h"
#include "pprof/routes_pprof.h"

#include <string.h>

int live_server_init(struct live_server *s, const char *listen, const char *token_file,
		     struct heft_error *err)
{
	memset(s, 0, sizeof *s);
	process_set_init(&s->set);
	s->source.set = &s->set;
	if (!listen)
		return 0;
	s->wanted = true;
	if (strlen(listen) >= sizeof s->listen)
		return heft_fail(err, HEFT_EUSAGE, "--listen needs ADDR:PORT, not '%.100s...'",
				 listen);
	strcpy(s->listen, listen);
	if (http_parse_listen(s->listen, &s->address, &s->port))
		return heft_fail(err, HEFT_EUSAGE, "--listen needs ADDR:PORT, not '%s'", listen);
	return token_file ? http_read_token(token_file, s->token, sizeof s->token, err) : 0;
}

int live_server_start(void *server, struct heft_error *err)
{
	struct live_server *s = server;
	if (!s->wanted)
		return 0;
	const char *token = s->token[0] ? s->token : NULL;
	const struct http_options options = {
		.address = s->address,
		.port = s->port,
		.token = token,
		.names = s->names,
		.say = cli_say,
		.confine = s->confine,
	};
	struct source source = s->other ? *s->other : live_source(&s->source);
	if (pprof_routes_new(&s->routes, &source, token))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	return http_server_start(&s->http, &options, pprof_routes_table(s->routes), err);
}

void live_server_url(const struct live_server *s, char *text, size_t size)
{
	const char *address = s->address ? s->address : "127.0.0.1";
	bool bare_v6 = strchr(address, ':') && address[0] != '[';
	snprintf(text, size, "http://%s%s%s:%u/debug/pprof/", bare_v6 ? "[" : "", address,
		 bare_v6 ? "]" : "", http_server_port(s->http));
}

void live_server_fini(struct live_server *s)
{
	http_server_stop(s->http);
	if (s->routes)
		pprof_routes_free(s->routes);
	process_set_fini(&s->set);
}
