/* The list of checks (checks.h). */
#include "attach/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void push(struct checks *c, const char *name, enum check_verdict verdict, char *text,
		 const char *way_out)
{
	struct check check = {name, verdict, text, strdup(way_out ? way_out : "")};
	if (check.text && check.way_out && vector_push(c, check))
		return;
	free(check.text);
	free(check.way_out);
	c->incomplete = true;
}

void checks_add(struct checks *c, const char *name, enum check_verdict verdict, const char *way_out,
		const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	push(c, name, verdict, text, way_out);
}

void checks_add_error(struct checks *c, const char *name, enum check_verdict verdict,
		      const struct heft_error *err)
{
	const char *rest = strchr(err->message, '\n');
	size_t first = rest ? (size_t)(rest - err->message) : strlen(err->message);
	push(c, name, verdict, strndup(err->message, first), rest ? rest + 1 : NULL);
}

enum check_verdict checks_verdict(const struct checks *c)
{
	enum check_verdict worst = CHECK_OK;
	for (size_t i = 0; i < c->count; i++)
		if (c->items[i].verdict > worst)
			worst = c->items[i].verdict;
	return worst;
}

void checks_fini(struct checks *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->items[i].text);
		free(c->items[i].way_out);
	}
	vector_free(c);
}
