/* Reads perf maps (perf_map.h). The file is in a folder that everyone may write
 * to, so it is opened without following links, without entering what somebody has
 * mounted on it, and used only if it is ours. Its text is input like any other:
 * lines that cannot be read are skipped.
 *
 * Entries are sorted by start. Where code was replaced, entries overlap: those of
 * one start are reduced to the last, and a search steps back over a few to find
 * the one that covers the address. */
#include "symbol/perf_map.h"

#include "hosted/error.h"
#include "hosted/foreign_entry.h"
#include "hosted/hex.h"
#include "hosted/sorted.h"
#include "hosted/vector.h"
#include "hosted/whole_io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 512 << 20, LONGEST_NAME = 16 * 1024, STEPS_BACK = 64 };

struct code {
	uint64_t start, size;
	const char *name; /* in text */
	uint32_t length, order;
};

struct perf_map {
	char *text;
	struct code *codes;
	size_t count;
};

void perf_map_close(struct perf_map *map)
{
	if (!map)
		return;
	free(map->codes);
	free(map->text);
	free(map);
}

/* Reads a hexadecimal number of at most 16 digits, with or without "0x", and the blank after it. */
static bool hexadecimal(const char **at, const char *end, uint64_t *value)
{
	const char *p = *at;
	int digits = 0;
	if (end - p >= 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	for (*value = 0; p < end && digits <= 16; p++, digits++) {
		int digit = hex_digit(*p);
		if (digit < 0)
			break;
		*value = *value << 4 | (unsigned)digit;
	}
	if (!digits || digits > 16 || p == end || *p != ' ')
		return false;
	*at = p + 1;
	return true;
}

static bool parse_line(const char *at, const char *end, struct code *c)
{
	if (!hexadecimal(&at, end, &c->start) || !hexadecimal(&at, end, &c->size))
		return false;
	while (at < end && *at == ' ')
		at++;
	while (end > at && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	size_t length = strnlen(at, (size_t)(end - at));
	if (!length || !c->size || c->start + c->size < c->start)
		return false;
	c->name = at;
	c->length = length < LONGEST_NAME ? (uint32_t)length : LONGEST_NAME;
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct code *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order > y->order ? -1 : x->order < y->order; /* the last written first */
}

/* Takes over the text. */
static struct perf_map *parse(char *text, size_t size)
{
	struct perf_map *map = calloc(1, sizeof *map);
	size_t capacity = 0;
	if (!map) {
		free(text);
		return NULL;
	}
	map->text = text;
	for (const char *at = text, *end = text + size, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct code c = {.order = (uint32_t)map->count};
		next = stop ? stop + 1 : end;
		if (!parse_line(at, stop ? stop : end, &c))
			continue;
		if (!array_reserve(map->codes, map->count, capacity, 1))
			goto fail;
		map->codes[map->count++] = c;
	}
	if (!map->count)
		goto fail;
	qsort(map->codes, map->count, sizeof *map->codes, by_start);
	size_t kept = 1;
	for (size_t i = 1; i < map->count; i++)
		if (map->codes[i].start != map->codes[kept - 1].start)
			map->codes[kept++] = map->codes[i];
	map->count = kept;
	return map;
fail:
	perf_map_close(map);
	return NULL;
}

struct perf_map *perf_map_parse(const char *text, size_t size)
{
	char *copy = size <= MOST_BYTES ? malloc(size + 1) : NULL;
	if (!copy)
		return NULL;
	memcpy(copy, text, size);
	return parse(copy, size);
}

struct perf_map *perf_map_open(int32_t pid, int64_t not_before_ns)
{
	char name[64];
	struct stat st;
	int folder = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return NULL;
	snprintf(name, sizeof name, "perf-%" PRId32 ".map", pid);
	int fd = foreign_entry_open(folder, name, O_RDONLY);
	close(folder);
	if (fd < 0)
		return NULL;
	struct perf_map *map = NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_size > 0 && st.st_size <= MOST_BYTES &&
	    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec >= not_before_ns) {
		char *text = malloc((size_t)st.st_size);
		if (text)
			map = parse(text, read_whole(fd, text, (size_t)st.st_size));
	}
	close(fd);
	return map;
}

int perf_map_name(const struct perf_map *map, struct name_pool *pool, uint64_t address,
		  const char **name)
{
	size_t at = count_before(i, map->count, map->codes[i].start <= address);
	*name = NULL;
	const struct code *best = NULL;
	for (int steps = 0; at > 0 && steps < STEPS_BACK; steps++) {
		const struct code *c = &map->codes[--at];
		if (address - c->start < c->size && (!best || c->order > best->order))
			best = c;
	}
	if (!best)
		return 0;
	*name = name_pool_add_n(pool, best->name, best->length);
	return *name ? 0 : HEFT_ENOMEM;
}
