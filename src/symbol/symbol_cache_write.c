/* Writes cached answers: a new file beside the old one, which is then renamed. So a reader
 * sees one or the other, and of two writers at once only one loses its work.
 * Nothing here is ever an error: without a cache heft works as well, only slower.
 *
 * The folder is kept within a bound by removing what was not used for longest. */
#include "symbol/symbol_cache.h"

#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "hosted/whole_io.h"
#include "symbol/symbol_cache_format.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Strings, found by their address in the pool, which has each string once. */
struct string_table {
	VECTOR(const char *) strings;
	struct hash_index index;
	uint64_t bytes;
};

static bool add_string(struct string_table *t, const char *string, uint32_t *index)
{
	*index = CACHE_NO_STRING;
	if (!string)
		return true;
	uint32_t hash = hash_pointer(string), i;
	for (uint32_t at = hash; (i = hash_index_step(&t->index, hash, &at)) != HASH_NONE;)
		if (t->strings.items[i] == string) {
			*index = i;
			return true;
		}
	*index = (uint32_t)t->strings.count;
	t->bytes += strlen(string);
	return hash_index_add(&t->index, hash, *index) == 0 && vector_push(&t->strings, string);
}

/* Merges two sorted lists; if an address is in both, the new answer stays. NULL: no memory. */
static struct symbol_query *merge(const struct symbol_query *old, size_t old_count,
				  const struct symbol_query *new, size_t new_count, size_t *count)
{
	struct symbol_query *all = calloc(old_count + new_count + 1, sizeof *all);
	size_t o = 0, n = 0;
	*count = 0;
	while (all && (o < old_count || n < new_count)) {
		if (n == new_count || (o < old_count && old[o].address < new[n].address)) {
			all[(*count)++] = old[o++];
		} else {
			if (o < old_count && old[o].address == new[n].address)
				o++;
			if (!*count || all[*count - 1].address < new[n].address)
				all[(*count)++] = new[n];
			n++;
		}
	}
	return all;
}

/* Makes the whole file in memory; NULL: no memory, or too large. */
static void *build(const struct symbol_cache_entry *e, const struct symbol_evidence *evidence,
		   const struct symbol_query *places, size_t count, struct name_pool *pool,
		   size_t *size)
{
	struct string_table t = {0};
	struct cached_header h = {
		.version = CACHE_VERSION,
		.debug = e->debug,
		.maker = cache_maker(),
		.origin = e->origin,
		.path = cache_path_hash(e->path),
		.build_id_len = (uint32_t)e->build_id_len,
		.places = (uint32_t)count,
		.evidence = (uint32_t)evidence->count,
	};
	uint64_t frames = 0;
	char *file = NULL;
	struct cached_frame *f = NULL;
	struct cached_evidence *lines = calloc(evidence->count + 1, sizeof *lines);
	memcpy(h.magic, CACHE_MAGIC, sizeof h.magic);
	memcpy(h.build_id, e->build_id, e->build_id_len);
	for (size_t i = 0; i < count; i++)
		frames += places[i].frame_count;
	if (!lines || count > UINT32_MAX / 16 || frames > CACHE_MOST_BYTES / sizeof *f)
		goto out;
	h.frames = (uint32_t)frames;
	f = calloc(frames + 1, sizeof *f);
	if (!f)
		goto out;
	for (size_t i = 0, at = 0; i < count; i++)
		for (uint32_t k = 0; k < places[i].frame_count; k++, at++) {
			const struct symbol_frame *from = &places[i].frames[k];
			if (!add_string(&t, from->function, &f[at].function) ||
			    !add_string(&t, from->file, &f[at].file))
				goto out;
			f[at].line = from->line;
			f[at].inlined = from->inlined;
		}
	for (size_t i = 0; i < evidence->count; i++) {
		const struct symbol_evidence_line *line = &evidence->lines[i];
		const char *path = name_pool_add(pool, line->path);
		lines[i] = (struct cached_evidence){
			.size = line->size, .time_ns = line->time_ns, .kind = line->kind};
		if (!path || !add_string(&t, path, &lines[i].path))
			goto out;
	}
	const char *lacking = e->lacking ? name_pool_add(pool, e->lacking) : NULL;
	if (!add_string(&t, lacking, &h.lacking))
		goto out;
	h.strings = (uint32_t)t.strings.count;
	h.string_bytes = t.bytes;
	if (cache_body_bytes(&h) > CACHE_MOST_BYTES - sizeof h)
		goto out;
	*size = sizeof h + (size_t)cache_body_bytes(&h);
	file = malloc(*size);
	if (!file)
		goto out;
	char *at = file + sizeof h;
	for (size_t i = 0; i < count; i++, at += 8)
		memcpy(at, &places[i].address, 8);
	for (size_t i = 0; i < count; i++, at += sizeof(struct cached_function)) {
		const struct cached_function fn = {places[i].function_start,
						   places[i].function_bytes};
		memcpy(at, &fn, sizeof fn);
	}
	memcpy(at, lines, evidence->count * sizeof *lines);
	at += evidence->count * sizeof *lines;
	memcpy(at, f, frames * sizeof *f);
	at += frames * sizeof *f;
	uint32_t sum = 0;
	for (size_t i = 0; i <= count; i++, at += 4) {
		memcpy(at, &sum, 4);
		sum += i < count ? places[i].frame_count : 0;
	}
	sum = 0;
	for (size_t i = 0; i < t.strings.count; i++, at += 4) {
		sum += (uint32_t)strlen(t.strings.items[i]);
		memcpy(at, &sum, 4);
	}
	for (size_t i = 0; i < t.strings.count; i++) {
		size_t length = strlen(t.strings.items[i]);
		memcpy(at, t.strings.items[i], length);
		at += length;
	}
	h.checksum = cache_checksum(&h, file + sizeof h, *size - sizeof h);
	memcpy(file, &h, sizeof h);
out:
	free(f);
	free(lines);
	vector_free(&t.strings);
	hash_index_fini(&t.index);
	return file;
}

/* Makes the folder and those above it; false: it is not there, or not the user's own. */
static bool make_folder(const char *folder)
{
	char path[PATH_MAX];
	struct stat st;
	size_t length = strlen(folder);
	if (length >= sizeof path || folder[0] != '/')
		return false;
	memcpy(path, folder, length + 1);
	if (stat(path, &st) < 0) {
		for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
			*slash = 0;
			mkdir(path, 0700);
			*slash = '/';
		}
		mkdir(path, 0700);
	}
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static bool write_file(const char *folder, const struct symbol_cache_entry *e, const char *bytes,
		       size_t size)
{
	char path[PATH_MAX], beside[PATH_MAX], name[SYMBOL_CACHE_NAME];
	symbol_cache_name(name, e->path, e->build_id, e->build_id_len);
	int n = snprintf(path, sizeof path, "%s/%s", folder, name);
	int k = snprintf(beside, sizeof beside, "%s/%s.%ld.new", folder, name, (long)getpid());
	if (n < 0 || k < 0 || (size_t)n >= sizeof path || (size_t)k >= sizeof beside)
		return false;
	int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return false;
	bool whole = write_whole(fd, bytes, size);
	if (close(fd) < 0 || !whole || rename(beside, path) < 0) {
		unlink(beside);
		return false;
	}
	return true;
}

bool symbol_cache_write(const char *folder, const struct symbol_cache_entry *entry,
			struct symbol_cache *old, struct name_pool *pool)
{
	struct symbol_query *before = NULL, *all = NULL;
	struct symbol_evidence evidence = {0};
	size_t before_count = 0, count = 0, size = 0;
	char *file = NULL;
	bool written = false;
	if (!entry->build_id_len || entry->build_id_len > SYMBOL_CACHE_LONGEST_ID ||
	    entry->evidence->incomplete || !make_folder(folder))
		return false;
	for (size_t i = 0; i < entry->evidence->count; i++)
		symbol_evidence_add(&evidence, &entry->evidence->lines[i]);
	if (old) {
		const struct symbol_evidence *also = symbol_cache_evidence(old);
		before = symbol_cache_everything(old, pool, &before_count);
		for (size_t i = 0; i < also->count; i++)
			symbol_evidence_add(&evidence, &also->lines[i]);
	}
	all = merge(before, before_count, entry->queries, entry->count, &count);
	if (all && !evidence.incomplete && evidence.count <= CACHE_MOST_EVIDENCE)
		file = build(entry, &evidence, all, count, pool, &size);
	if (!file && before_count) /* too much together: what was asked last is kept */
		file = build(entry, entry->evidence, entry->queries, entry->count, pool, &size);
	if (file)
		written = write_file(folder, entry, file, size);
	free(file);
	free(all);
	free(before);
	symbol_evidence_fini(&evidence);
	return written;
}

struct kept_file {
	char name[SYMBOL_CACHE_NAME + 32];
	uint64_t bytes;
	int64_t used;
};

static int oldest_first(const void *a, const void *b)
{
	const struct kept_file *x = a, *y = b;
	return x->used < y->used ? -1 : x->used > y->used;
}

void symbol_cache_trim(const char *folder, uint64_t most_bytes)
{
	DIR *d = opendir(folder);
	VECTOR(struct kept_file) files = {0};
	uint64_t total = 0;
	struct dirent *e;
	time_t now = time(NULL);
	while (d && (e = readdir(d))) {
		struct stat st;
		size_t length = strlen(e->d_name);
		if (length >= sizeof files.items->name ||
		    strspn(e->d_name, "0123456789abcdef") < 4 || /* not one of ours */
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		bool unfinished = length > 4 && strcmp(e->d_name + length - 4, ".new") == 0;
		if (unfinished && st.st_mtime < now - 3600) { /* its writer was killed */
			unlinkat(dirfd(d), e->d_name, 0);
			continue;
		}
		if (unfinished)
			continue;
		struct kept_file *f = vector_add(&files);
		if (!f)
			break;
		memcpy(f->name, e->d_name, length + 1);
		f->bytes = (uint64_t)st.st_size;
		f->used = st.st_mtime;
		total += f->bytes;
	}
	if (d && total > most_bytes) {
		qsort(files.items, files.count, sizeof *files.items, oldest_first);
		for (size_t i = 0; i < files.count && total > most_bytes / 4 * 3; i++)
			if (unlinkat(dirfd(d), files.items[i].name, 0) == 0)
				total -= files.items[i].bytes;
	}
	vector_free(&files);
	if (d)
		closedir(d);
}
