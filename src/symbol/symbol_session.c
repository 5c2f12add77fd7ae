/* The lookups of a report: the cache answers first, the module's files answer the
 * rest, and the new answers go into the cache. A module whose answers are all cached is not even
 * opened: then it does not matter whether its file is still there.
 *
 * A build id is what a file says of itself, and a stranger's file may say anything. So
 * cached answers are of one path, and if there is a file, they hold only if it is the
 * one that they were read from (symbol_origin). Those from whole debug information then hold for
 * good. Others hold as long as their evidence does: a file that was looked for in vain
 * has not appeared, and none that was used changed. If the file is gone, or another
 * build's by now, what was found out before is the best there is. */
#include "symbol/symbol.h"

#include "hosted/error.h"
#include "symbol/symbol_cache.h"
#include "symbol/symbol_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SERVER_SECONDS = 20 };

struct symbol_session {
	struct name_pool *pool;
	struct symbol_options options;
	struct symbol_search search;
	bool wrote;
};

/* The value of a variable of the environment; NULL: it is not set, or empty. */
static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

int symbol_options_from_environment(struct symbol_options *options, struct name_pool *pool)
{
	char folder[4096];
	const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME"), *seconds;
	memset(options, 0, sizeof *options);
	options->debug_roots = variable("HEFT_DEBUG_ROOTS");
	options->server_urls = variable("DEBUGINFOD_URLS");
	options->server_seconds = SERVER_SECONDS;
	if ((seconds = variable("HEFT_DEBUGINFOD_SECONDS"))) {
		char *end;
		unsigned long value = strtoul(seconds, &end, 10);
		if (!*end && value <= 86400)
			options->server_seconds = (unsigned)value;
	}
	int n = -1;
	if (cache && cache[0] == '/') /* the specification says that a relative one is ignored */
		n = snprintf(folder, sizeof folder, "%s/heft/symbols", cache);
	else if (home && home[0] == '/')
		n = snprintf(folder, sizeof folder, "%s/.cache/heft/symbols", home);
	if (n > 0 && (size_t)n < sizeof folder) {
		options->cache_folder = name_pool_add(pool, folder);
		if (!options->cache_folder)
			return HEFT_ENOMEM;
	}
	return 0;
}

struct symbol_session *symbol_session_new(struct name_pool *pool,
					  const struct symbol_options *options)
{
	struct symbol_session *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->pool = pool;
	s->options = *options;
	symbol_search_init(&s->search, &s->options);
	return s;
}

void symbol_session_free(struct symbol_session *s)
{
	if (s && s->wrote)
		symbol_cache_trim(s->options.cache_folder, SYMBOL_CACHE_MOST_BYTES);
	free(s);
}

/* A path below /proc names another thing as soon as a number is used again. */
static bool is_lasting(const char *path)
{
	return strncmp(path, "/proc/", 6) != 0;
}

/* Whether asking again would give what the cache says. */
static bool still_holds(struct symbol_session *s, const struct symbol_module_id *id,
			const struct symbol_cache *c)
{
	struct stat st;
	bool is_there = id->path[0] == '/' && stat(id->path, &st) == 0;
	if (is_there) {
		struct symbol_origin now = symbol_origin_of(&st);
		if (!symbol_origin_is(&now, symbol_cache_origin(c)))
			return false;
	} else if (!is_lasting(id->path)) {
		return false;
	}
	if (symbol_cache_debug(c) == SYMBOL_DEBUG_WHOLE)
		return true;
	const struct symbol_evidence *e = symbol_cache_evidence(c);
	/* The same build elsewhere may be there with more in it: a copy that is not stripped. */
	if (id->path[0] == '/' && !symbol_evidence_has_file(e, id->path))
		return false;
	return symbol_evidence_holds(e, s->options.server_urls, s->options.debug_roots);
}

static int copy_outcome(struct symbol_session *s, struct symbol_outcome *outcome,
			enum symbol_debug debug, const char *lacking)
{
	outcome->debug = debug;
	outcome->lacking = lacking ? name_pool_add(s->pool, lacking) : NULL;
	return lacking && !outcome->lacking ? HEFT_ENOMEM : 0;
}

/* Looks up what the cache does not know, in the module's own files. */
static int look_up(struct symbol_session *s, const struct symbol_module_id *id, bool names_only,
		   struct symbol_cache *cache, struct symbol_query *queries, size_t count,
		   struct symbol_outcome *outcome)
{
	struct symbol_module *m;
	const char *lacking;
	int rc = symbol_module_open(&m, &outcome->state, s->pool, &s->search, id);
	if (rc < 0 || !m)
		return rc;
	symbol_module_set_names_only(m, names_only);
	rc = symbol_module_lookup(m, queries, count);
	if (rc == 0 && symbol_module_changed(m)) {
		for (size_t i = 0; i < count; i++)
			queries[i] = (struct symbol_query){.address = queries[i].address};
		outcome->state = SYMBOL_REPLACED;
		symbol_module_close(m);
		return 0;
	}
	enum symbol_debug debug = symbol_module_debug(m, &lacking);
	if (rc == 0)
		rc = copy_outcome(s, outcome, debug, lacking);
	if (rc == 0 && s->options.cache_folder && !names_only) {
		struct symbol_cache_entry entry = {
			.path = id->path,
			.origin = symbol_module_origin(m),
			.build_id = id->build_id,
			.build_id_len = id->build_id_len,
			.debug = outcome->debug,
			.lacking = outcome->lacking,
			.evidence = symbol_module_evidence(m),
			.queries = queries,
			.count = count,
		};
		/* Answers with and without debug information do not mix. */
		enum symbol_debug before = cache ? symbol_cache_debug(cache)
						 : SYMBOL_DEBUG_NOT_ASKED;
		bool alike = cache && symbol_origin_is(&entry.origin, symbol_cache_origin(cache)) &&
			     (before >= SYMBOL_DEBUG_PARTIAL) ==
				     (outcome->debug >= SYMBOL_DEBUG_PARTIAL);
		if (alike && before < entry.debug) {
			entry.debug = before;
			entry.lacking = symbol_cache_lacking(cache);
		}
		/* Without memory for it nothing is lost but the cache. */
		s->wrote |= symbol_cache_write(s->options.cache_folder, &entry,
					       alike ? cache : NULL, s->pool);
	}
	symbol_module_close(m);
	return rc;
}

static int from_cache(struct symbol_session *s, struct symbol_cache *cache,
		      struct symbol_query *queries, bool *answered, size_t count,
		      struct symbol_outcome *outcome)
{
	int rc = symbol_cache_answer(cache, s->pool, queries, answered, count);
	if (rc == 0)
		rc = copy_outcome(s, outcome, symbol_cache_debug(cache),
				  symbol_cache_lacking(cache));
	return rc;
}

int symbol_session_lookup(struct symbol_session *s, const struct symbol_module_id *id,
			  bool names_only, struct symbol_query *queries, size_t count,
			  struct symbol_outcome *outcome)
{
	*outcome = (struct symbol_outcome){.state = SYMBOL_USABLE};
	struct symbol_cache *cache = NULL;
	if (s->options.cache_folder && id->path)
		cache = symbol_cache_open(s->options.cache_folder, id->path, id->build_id,
					  id->build_id_len);
	bool holds = cache && still_holds(s, id, cache);
	bool *answered = calloc(count + 1, sizeof *answered);
	struct symbol_query *missing = calloc(count + 1, sizeof *missing);
	size_t missing_count = 0, unknown = 0;
	int rc = answered && missing ? 0 : HEFT_ENOMEM;
	if (rc == 0 && holds)
		rc = from_cache(s, cache, queries, answered, count, outcome);
	for (size_t i = 0; i < count && rc == 0; i++)
		if (!answered[i])
			missing[missing_count++].address = queries[i].address;
	if (rc == 0 && missing_count)
		rc = look_up(s, id, names_only, holds ? cache : NULL, missing, missing_count,
			     outcome);
	for (size_t i = 0, m = 0; i < count && rc == 0; i++)
		if (!answered[i])
			queries[i] = missing[m++];
	/* The file is gone or another one now: what was found out before is the best there is. */
	if (rc == 0 && cache && !holds && outcome->state != SYMBOL_USABLE && is_lasting(id->path))
		rc = from_cache(s, cache, queries, answered, count, outcome);
	if (rc == 0 && cache && outcome->state != SYMBOL_USABLE) {
		for (size_t i = 0; i < count; i++)
			unknown += !answered[i];
		if (!unknown)
			outcome->state = SYMBOL_USABLE;
	}
	free(missing);
	free(answered);
	symbol_cache_close(cache);
	return rc;
}
