/* Options of verbs that serve over HTTP. An option that has no effect without another one is refused: who
 * gives a token file without a port believes that something is protected. */
#include "cli/serve_options.h"

#include <string.h>

void serve_options_set(struct serve_options *o, const struct cli_option *option, const char *value)
{
	switch (option->id) {
	case CLI_OPT_LISTEN: o->listen = value; break;
	case CLI_OPT_SOCKET: o->socket = value; break;
	case CLI_OPT_TOKEN_FILE: o->token_file = value; break;
	case CLI_OPT_HOST: o->names = value; break;
	case CLI_OPT_TLS_CERT: o->tls.cert = value; break;
	case CLI_OPT_TLS_KEY: o->tls.key = value; break;
	case CLI_OPT_TLS_CLIENT_CA: o->tls.client_ca = value; break;
	default: break;
	}
}

bool serve_options_have_port(const struct serve_options *o)
{
	return o->listen && strcmp(o->listen, "none") != 0;
}

bool serve_options_wanted(const struct serve_options *o)
{
	return serve_options_have_port(o) || o->socket;
}

int serve_options_check_tls(const struct serve_options *o, const struct cli_verb *verb)
{
	if (!o->tls.cert != !o->tls.key)
		return cli_usage_error(verb, "--tls-cert and --tls-key go together");
	if (o->tls.client_ca && !o->tls.cert)
		return cli_usage_error(verb, "--tls-client-ca needs --tls-cert and --tls-key");
	return 0;
}

int serve_options_check(const struct serve_options *o, const struct cli_verb *verb)
{
	const char *alone = o->token_file ? "--token-file" : o->names ? "--host" : NULL;
	if (o->listen && !serve_options_wanted(o))
		return cli_usage_error(verb, "--listen none needs --socket");
	if (alone && !serve_options_wanted(o))
		return cli_usage_error(verb, "%s needs --listen or --socket", alone);
	if ((o->tls.cert || o->tls.key || o->tls.client_ca) && !serve_options_have_port(o))
		return cli_usage_error(verb, "--tls-cert needs --listen");
	return serve_options_check_tls(o, verb);
}
