/* Finds separate debug files, where distributions put what they strip. It looks by build id under
 * ROOT/.build-id; then by the name in .gnu_debuglink beside the module, in its .debug folder and under ROOT; then
 * it asks a debuginfod server.
 *
 * elfutils has a finder too, but that one waits for the server without a limit, and does not report where it
 * looked, which cached answers depend on.
 *
 * Invariant: a debug file is used only if it belongs to the module: the same
 * build id or, for a module without one, the checksum of .gnu_debuglink. */
#include "symbol/debug_file.h"

#include "hosted/hex.h"

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define DEBUG_ROOT "/usr/lib/debug"
enum { LONGEST_ID = 64 };

bool debug_file_build_id_is(Elf *elf, const uint8_t *id, size_t length)
{
	const void *own = NULL;
	ssize_t own_length = dwelf_elf_gnu_build_id(elf, &own);
	if (own_length <= 0)
		return length == 0;
	return (size_t)own_length == length && memcmp(own, id, length) == 0;
}

/* Opens out->path if it is the file with this build id (or, without one, this checksum). */
static bool try_file(struct symbol_evidence *evidence, const uint8_t *id, size_t id_length,
		     const uint32_t *checksum, struct debug_file *out)
{
	struct elf_file *f = &out->file;
	symbol_evidence_look(evidence, out->path);
	if (elf_file_open(f, out->path) != ELF_FILE_OPEN)
		return false;
	if (id_length ? debug_file_build_id_is(f->elf, id, id_length)
		      : checksum && (uint32_t)crc32_z(crc32_z(0, NULL, 0), f->map, f->size) ==
					    *checksum)
		return true;
	elf_file_close(f);
	return false;
}

/* Copies the next of the roots into root; false: there are no more. */
static bool next_root(const char **at, char *root, size_t size)
{
	while (**at) {
		size_t length = strcspn(*at, ":");
		const char *start = *at;
		*at += length + (start[length] == ':');
		while (length > 1 && start[length - 1] == '/')
			length--;
		if (start[0] != '/' || length >= size)
			continue;
		memcpy(root, start, length);
		root[length] = 0;
		return true;
	}
	return false;
}

static const char *roots_of(const struct debug_file_search *s)
{
	const char *roots = s->session->options->debug_roots;
	return roots ? roots : DEBUG_ROOT;
}

static bool find_by_id(const struct debug_file_search *s, const uint8_t *id, size_t length,
		       struct debug_file *out)
{
	char root[PATH_MAX], rest[2 * LONGEST_ID + 1];
	if (length < 2 || length > LONGEST_ID)
		return false;
	hex_put(rest, id + 1, length - 1);
	for (const char *at = roots_of(s); next_root(&at, root, sizeof root);) {
		int n = snprintf(out->path, sizeof out->path, "%s/.build-id/%02x/%s.debug", root,
				 id[0], rest);
		if (n > 0 && (size_t)n < sizeof out->path &&
		    try_file(s->evidence, id, length, NULL, out))
			return true;
	}
	return false;
}

static bool find_by_link(const struct debug_file_search *s, Elf *stripped, struct debug_file *out)
{
	GElf_Word word = 0;
	const char *link = dwelf_elf_gnu_debuglink(stripped, &word);
	if (!link || !*link || strchr(link, '/'))
		return false;
	uint32_t checksum = word;
	const char *path = s->module_path;
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) : 0;
	char root[PATH_MAX] = "";
	static const char *const beside[] = {"", "/.debug"};
	const char *at = roots_of(s);
	for (size_t i = 0;; i++) {
		if (i >= 2 && !next_root(&at, root, sizeof root))
			return false;
		int n = snprintf(out->path, sizeof out->path, "%s%.*s%s/%s", root, folder, path,
				 i < 2 ? beside[i] : "", link);
		if (n > 0 && (size_t)n < sizeof out->path && strcmp(out->path, path) != 0 &&
		    try_file(s->evidence, s->build_id, s->build_id_len, &checksum, out))
			return true;
	}
}

static bool find_on_server(const struct debug_file_search *s, const uint8_t *id, size_t length,
			   struct debug_file *out)
{
	const char *urls = s->session->options->server_urls;
	if (!urls || length < 2 || length > LONGEST_ID)
		return false;
	int rc = debug_server_fetch(s->session, id, length, out->path, sizeof out->path);
	if (rc <= 0)
		symbol_evidence_asked(s->evidence, urls, rc == 0);
	return rc > 0 && try_file(s->evidence, id, length, NULL, out);
}

bool debug_file_find(const struct debug_file_search *s, Elf *stripped, struct debug_file *out)
{
	return find_by_id(s, s->build_id, s->build_id_len, out) ||
	       (stripped && find_by_link(s, stripped, out)) ||
	       find_on_server(s, s->build_id, s->build_id_len, out);
}

bool debug_file_find_alternate(const struct debug_file_search *s, struct elf_bytes link,
			       const char *dw_path, struct debug_file *out)
{
	const char *name = (const char *)link.data;
	char root[PATH_MAX];
	size_t name_length = name ? strnlen(name, link.size) : 0;
	if (!name_length || name_length >= link.size)
		return false;
	const uint8_t *id = link.data + name_length + 1;
	size_t length = link.size - name_length - 1;
	if (!length || length > LONGEST_ID)
		return false;
	/* As dwz wrote it: from the folder of the file that names it. */
	const char *slash = strrchr(dw_path, '/');
	int n = snprintf(out->path, sizeof out->path, "%.*s%s",
			 name[0] == '/' || !slash ? 0 : (int)(slash - dw_path) + 1, dw_path, name);
	if (n > 0 && (size_t)n < sizeof out->path && try_file(s->evidence, id, length, NULL, out))
		return true;
	if (find_by_id(s, id, length, out))
		return true;
	const char *base = strrchr(name, '/');
	for (const char *at = roots_of(s); next_root(&at, root, sizeof root);) {
		n = snprintf(out->path, sizeof out->path, "%s/.dwz/%s", root,
			     base ? base + 1 : name);
		if (n > 0 && (size_t)n < sizeof out->path &&
		    try_file(s->evidence, id, length, NULL, out))
			return true;
	}
	return find_on_server(s, id, length, out);
}
