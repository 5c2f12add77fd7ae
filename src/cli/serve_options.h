/* Options of verbs that serve over HTTP, the same in each: where to listen, and who may ask. */
#ifndef HEFT_CLI_SERVE_OPTIONS_H
#define HEFT_CLI_SERVE_OPTIONS_H

#include "cli/cli.h"
#include "http/http.h"

struct serve_options {
	const char *listen; /* ADDR:PORT; NULL: no port; "none": no port either */
	const char *socket, *token_file;
	const char *names;         /* --host */
	struct http_tls_files tls; /* without cert: none */
};

/* Keeps the value if the option is one of these. */
void serve_options_set(struct serve_options *o, const struct cli_option *option, const char *value);
/* Whether there is a port. */
bool serve_options_have_port(const struct serve_options *o);
/* Whether anything is served at all. */
bool serve_options_wanted(const struct serve_options *o);
/* Check what was given together: 0, or the status to end with, after saying why. */
int serve_options_check(const struct serve_options *o, const struct cli_verb *verb);
int serve_options_check_tls(const struct serve_options *o, const struct cli_verb *verb);

#endif
