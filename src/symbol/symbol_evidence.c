/* The lines that cached answers depend on (symbol_evidence.h). A file counts as
 * unchanged if size and time of change are: whoever writes a file and sets its
 * time back on purpose fools make, too. */
#include "symbol/symbol_evidence.h"

#include "hosted/monotonic.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static int64_t nanoseconds(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct symbol_origin symbol_origin_of(const struct stat *st)
{
	return (struct symbol_origin){
		.device = st->st_dev,
		.inode = st->st_ino,
		.size = (uint64_t)st->st_size,
		.modified_ns = nanoseconds(st->st_mtim),
		.changed_ns = nanoseconds(st->st_ctim),
	};
}

bool symbol_origin_is(const struct symbol_origin *a, const struct symbol_origin *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified_ns == b->modified_ns && a->changed_ns == b->changed_ns;
}

static bool is_file(enum symbol_evidence_kind kind)
{
	return kind == SYMBOL_EVIDENCE_FILE || kind == SYMBOL_EVIDENCE_ABSENT;
}

/* A path that was there and is absent now is still the same path: the first look counts. */
static bool has_line(const struct symbol_evidence *e, const struct symbol_evidence_line *line)
{
	for (size_t i = 0; i < e->count; i++)
		if ((e->lines[i].kind == line->kind ||
		     (is_file(e->lines[i].kind) && is_file(line->kind))) &&
		    strcmp(e->lines[i].path, line->path) == 0)
			return true;
	return false;
}

void symbol_evidence_add(struct symbol_evidence *e, const struct symbol_evidence_line *line)
{
	if (has_line(e, line))
		return;
	char *path = strdup(line->path);
	if (!path || !array_reserve(e->lines, e->count, e->capacity, 1)) {
		free(path);
		e->incomplete = true;
		return;
	}
	e->lines[e->count] = *line;
	e->lines[e->count++].path = path;
}

static struct symbol_evidence_line look(const char *path)
{
	struct stat st;
	struct symbol_evidence_line line = {.kind = SYMBOL_EVIDENCE_ABSENT, .path = (char *)path};
	if (stat(path, &st) == 0) {
		line.kind = SYMBOL_EVIDENCE_FILE;
		line.size = (uint64_t)st.st_size;
		line.time_ns = nanoseconds(st.st_mtim);
	}
	return line;
}

void symbol_evidence_look(struct symbol_evidence *e, const char *path)
{
	struct symbol_evidence_line line = look(path);
	symbol_evidence_add(e, &line);
}

static int64_t now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_REALTIME);
}

void symbol_evidence_asked(struct symbol_evidence *e, const char *urls, bool answered)
{
	int64_t seconds = answered ? SYMBOL_NO_SECONDS : SYMBOL_SILENCE_SECONDS;
	struct symbol_evidence_line line = {
		.kind = SYMBOL_EVIDENCE_ASKED,
		.path = (char *)urls,
		.time_ns = now_ns() + seconds * 1000000000,
	};
	symbol_evidence_add(e, &line);
}

void symbol_evidence_roots(struct symbol_evidence *e, const char *roots)
{
	struct symbol_evidence_line line = {
		.kind = SYMBOL_EVIDENCE_ROOTS,
		.path = (char *)(roots ? roots : ""),
	};
	symbol_evidence_add(e, &line);
}

bool symbol_evidence_holds(const struct symbol_evidence *e, const char *server_urls,
			   const char *roots)
{
	bool asked = !server_urls;
	if (e->incomplete)
		return false;
	for (size_t i = 0; i < e->count; i++) {
		const struct symbol_evidence_line *line = &e->lines[i];
		if (line->kind == SYMBOL_EVIDENCE_ASKED) {
			/* Unsigned: a damaged time must not overflow. */
			uint64_t left = (uint64_t)line->time_ns - (uint64_t)now_ns();
			if (server_urls && strcmp(server_urls, line->path) == 0 &&
			    left - 1 < SYMBOL_NO_SECONDS * UINT64_C(1000000000))
				asked = true;
			continue;
		}
		if (line->kind == SYMBOL_EVIDENCE_ROOTS) {
			if (strcmp(line->path, roots ? roots : "") != 0)
				return false;
			continue;
		}
		struct symbol_evidence_line is = look(line->path);
		if (is.kind != line->kind || is.size != line->size || is.time_ns != line->time_ns)
			return false;
	}
	return asked;
}

bool symbol_evidence_has_file(const struct symbol_evidence *e, const char *path)
{
	for (size_t i = 0; i < e->count; i++)
		if (e->lines[i].kind == SYMBOL_EVIDENCE_FILE && strcmp(e->lines[i].path, path) == 0)
			return true;
	return false;
}

void symbol_evidence_fini(struct symbol_evidence *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->lines[i].path);
	free(e->lines);
	memset(e, 0, sizeof *e);
}
