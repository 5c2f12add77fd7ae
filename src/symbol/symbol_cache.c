/* Reads cached answers. The file is in the user's own folder, but it may be
 * damaged, cut by a full disk or made by somebody: all of it is checked once, when
 * it is opened, and a file that does not fit is treated as missing.
 *
 * It is read, not mapped: a file cut while it is mapped would end the process.
 *
 * Strings go into the caller's pool as they are first needed, so that a report
 * that asks for ten addresses does not pay for a million. */
#include "symbol/symbol_cache.h"

#include "hosted/error.h"
#include "hosted/hex.h"
#include "hosted/sorted.h"
#include "hosted/whole_io.h"
#include "symbol/symbol_cache_format.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { USED_AGAIN_SECONDS = 86400 }; /* how exactly a file's last use is known */

struct symbol_cache {
	void *body;
	struct cached_header header;
	const uint64_t *addresses;
	const struct cached_function *functions;
	const struct cached_evidence *evidence_lines;
	const struct cached_frame *frames;
	const uint32_t *first, *ends;
	const char *bytes;
	const char **strings; /* in `pool`, NULL: not yet */
	struct name_pool *pool;
	char *lacking;
	struct symbol_evidence evidence;
};

void symbol_cache_close(struct symbol_cache *c)
{
	if (!c)
		return;
	symbol_evidence_fini(&c->evidence);
	free(c->lacking);
	free(c->strings);
	free(c->body);
	free(c);
}

static bool is_string(const struct symbol_cache *c, uint32_t string)
{
	return string < c->header.strings;
}

static const char *raw_string(const struct symbol_cache *c, uint32_t string, size_t *length)
{
	uint32_t start = string ? c->ends[string - 1] : 0;
	*length = c->ends[string] - start;
	return c->bytes + start;
}

static bool header_fits(const struct cached_header *h, size_t size, const uint8_t *id,
			size_t length)
{
	return memcmp(h->magic, CACHE_MAGIC, sizeof h->magic) == 0 && h->version == CACHE_VERSION &&
	       h->maker == cache_maker() && h->debug <= SYMBOL_DEBUG_WHOLE &&
	       h->build_id_len == length && memcmp(h->build_id, id, length) == 0 &&
	       h->evidence <= CACHE_MOST_EVIDENCE && h->string_bytes <= CACHE_MOST_BYTES &&
	       cache_body_bytes(h) == size - sizeof *h;
}

static bool body_fits(const struct symbol_cache *c)
{
	const struct cached_header *h = &c->header;
	for (uint32_t i = 1; i < h->places; i++)
		if (c->addresses[i] <= c->addresses[i - 1])
			return false;
	uint32_t last = 0;
	for (uint32_t i = 0; i < h->strings; i++) {
		if (c->ends[i] < last || c->ends[i] > h->string_bytes)
			return false;
		last = c->ends[i];
	}
	last = 0;
	for (uint32_t i = 0; i <= h->places; i++) {
		if (c->first[i] < last || c->first[i] > h->frames)
			return false;
		last = c->first[i];
	}
	for (uint32_t i = 0; i < h->frames; i++) {
		const struct cached_frame *f = &c->frames[i];
		if ((f->function != CACHE_NO_STRING && !is_string(c, f->function)) ||
		    (f->file != CACHE_NO_STRING && !is_string(c, f->file)) || f->inlined > 1)
			return false;
	}
	return h->lacking == CACHE_NO_STRING || is_string(c, h->lacking);
}

static bool read_evidence(struct symbol_cache *c)
{
	for (uint32_t i = 0; i < c->header.evidence; i++) {
		const struct cached_evidence *e = &c->evidence_lines[i];
		char path[PATH_MAX];
		size_t length;
		if (e->kind >= SYMBOL_EVIDENCE_KINDS || !is_string(c, e->path))
			return false;
		const char *bytes = raw_string(c, e->path, &length);
		if (length >= sizeof path)
			return false;
		memcpy(path, bytes, length);
		path[length] = 0;
		struct symbol_evidence_line line = {
			.kind = (enum symbol_evidence_kind)e->kind,
			.path = path,
			.size = e->size,
			.time_ns = e->time_ns,
		};
		symbol_evidence_add(&c->evidence, &line);
	}
	return !c->evidence.incomplete;
}

/* Takes over the body. */
static struct symbol_cache *check(const struct cached_header *h, void *body, size_t body_size)
{
	struct symbol_cache *c = calloc(1, sizeof *c);
	if (!c) {
		free(body);
		return NULL;
	}
	c->header = *h;
	c->body = body;
	if (h->checksum != cache_checksum(h, body, body_size))
		goto bad;
	char *at = body;
	c->addresses = (const uint64_t *)(const void *)at;
	at += 8 * (size_t)h->places;
	c->functions = (const struct cached_function *)(const void *)at;
	at += sizeof *c->functions * h->places;
	c->evidence_lines = (const struct cached_evidence *)(const void *)at;
	at += sizeof *c->evidence_lines * h->evidence;
	c->frames = (const struct cached_frame *)(const void *)at;
	at += sizeof *c->frames * h->frames;
	c->first = (const uint32_t *)(const void *)at;
	at += 4 * ((size_t)h->places + 1);
	c->ends = (const uint32_t *)(const void *)at;
	at += 4 * (size_t)h->strings;
	c->bytes = at;
	c->strings = calloc((size_t)h->strings + 1, sizeof *c->strings);
	if (!c->strings || !body_fits(c) || !read_evidence(c))
		goto bad;
	if (h->lacking != CACHE_NO_STRING) {
		size_t length;
		const char *bytes = raw_string(c, h->lacking, &length);
		c->lacking = strndup(bytes, length);
	}
	return c;
bad:
	symbol_cache_close(c);
	return NULL;
}

struct symbol_cache *symbol_cache_parse(const void *bytes, size_t size, const uint8_t *id,
					size_t length)
{
	struct cached_header h;
	if (size < sizeof h || size > CACHE_MOST_BYTES || length > sizeof h.build_id)
		return NULL;
	memcpy(&h, bytes, sizeof h);
	if (!header_fits(&h, size, id, length))
		return NULL;
	void *body = malloc(size - sizeof h);
	if (!body)
		return NULL;
	memcpy(body, (const char *)bytes + sizeof h, size - sizeof h);
	return check(&h, body, size - sizeof h);
}

void symbol_cache_name(char name[SYMBOL_CACHE_NAME], const char *path, const uint8_t *id,
		       size_t length)
{
	hex_put(name, id, length);
	snprintf(name + 2 * length, SYMBOL_CACHE_NAME - 2 * length, "-%016llx",
		 (unsigned long long)cache_path_hash(path));
}

static int open_own(const char *folder, const char *module, const uint8_t *id, size_t length,
		    struct stat *st)
{
	char path[PATH_MAX], name[SYMBOL_CACHE_NAME];
	symbol_cache_name(name, module, id, length);
	int n = snprintf(path, sizeof path, "%s/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof path)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	    !(st->st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return -1;
}

struct symbol_cache *symbol_cache_open(const char *folder, const char *path, const uint8_t *id,
				       size_t length)
{
	struct stat st;
	struct cached_header h;
	if (!length || length > SYMBOL_CACHE_LONGEST_ID)
		return NULL;
	int fd = open_own(folder, path, id, length, &st);
	if (fd < 0)
		return NULL;
	void *body = NULL;
	struct symbol_cache *c = NULL;
	size_t size = (size_t)st.st_size;
	if (st.st_size >= (off_t)sizeof h && st.st_size <= CACHE_MOST_BYTES &&
	    read_whole(fd, &h, sizeof h) == sizeof h && header_fits(&h, size, id, length) &&
	    h.path == cache_path_hash(path) && (body = malloc(size - sizeof h))) {
		if (read_whole(fd, body, size - sizeof h) == size - sizeof h)
			c = check(&h, body, size - sizeof h);
		else
			free(body);
	}
	if (c && st.st_mtime < time(NULL) - USED_AGAIN_SECONDS)
		futimens(fd, NULL);
	close(fd);
	return c;
}

const struct symbol_origin *symbol_cache_origin(const struct symbol_cache *c)
{
	return &c->header.origin;
}

enum symbol_debug symbol_cache_debug(const struct symbol_cache *c)
{
	return (enum symbol_debug)c->header.debug;
}

const char *symbol_cache_lacking(const struct symbol_cache *c)
{
	return c->lacking;
}

const struct symbol_evidence *symbol_cache_evidence(const struct symbol_cache *c)
{
	return &c->evidence;
}

/* NULL: no memory. */
static const char *pooled(struct symbol_cache *c, uint32_t string)
{
	if (!c->strings[string]) {
		size_t length;
		const char *bytes = raw_string(c, string, &length);
		c->strings[string] = name_pool_add_n(c->pool, bytes, length);
	}
	return c->strings[string];
}

static int take_place(struct symbol_cache *c, uint32_t place, struct symbol_query *q)
{
	uint32_t count = c->first[place + 1] - c->first[place];
	q->frames = NULL;
	q->frame_count = 0;
	q->function_start = c->functions[place].start;
	q->function_bytes = c->functions[place].bytes;
	if (!count)
		return 0;
	struct symbol_frame *frames = name_pool_alloc(c->pool, count * sizeof *frames);
	if (!frames)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct cached_frame *f = &c->frames[c->first[place] + i];
		if (f->function != CACHE_NO_STRING &&
		    !(frames[i].function = pooled(c, f->function)))
			return HEFT_ENOMEM;
		if (f->file != CACHE_NO_STRING && !(frames[i].file = pooled(c, f->file)))
			return HEFT_ENOMEM;
		frames[i].line = f->line;
		frames[i].inlined = f->inlined;
	}
	q->frames = frames;
	q->frame_count = count;
	return 0;
}

static void use_pool(struct symbol_cache *c, struct name_pool *pool)
{
	if (c->pool != pool)
		memset(c->strings, 0, c->header.strings * sizeof *c->strings);
	c->pool = pool;
}

int symbol_cache_answer(struct symbol_cache *c, struct name_pool *pool,
			struct symbol_query *queries, bool *answered, size_t count)
{
	uint32_t at = 0;
	use_pool(c, pool);
	for (size_t i = 0; i < count; i++) {
		const uint64_t *rest = c->addresses + at;
		at += (uint32_t)count_before(k, c->header.places - at,
					     rest[k] < queries[i].address);
		answered[i] = at < c->header.places && c->addresses[at] == queries[i].address;
		if (answered[i] && take_place(c, at, &queries[i]) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

struct symbol_query *symbol_cache_everything(struct symbol_cache *c, struct name_pool *pool,
					     size_t *count)
{
	struct symbol_query *all = calloc((size_t)c->header.places + 1, sizeof *all);
	*count = 0;
	use_pool(c, pool);
	for (uint32_t i = 0; all && i < c->header.places; i++) {
		all[i].address = c->addresses[i];
		if (take_place(c, i, &all[i]) < 0) {
			free(all);
			return NULL;
		}
	}
	if (all)
		*count = c->header.places;
	return all;
}
