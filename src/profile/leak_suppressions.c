/* Suppressions of leaks (leak_suppressions.h), as LeakSanitizer has them: a file with lines "leak:PATTERN", "#" before
 * comments. A pattern is looked for in the function, the source file and the module's path of every frame of the stack that
 * allocated the block.
 *
 * Patterns match as LeakSanitizer's do, with one oddity of theirs: what stands before "$" or "*" is looked for once, and the
 * first place counts, so that "o$" does not match "oo". A file that works there works here. */
#include "profile/leak_suppressions.h"

#include "hosted/number_words.h"
#include "hosted/vector.h"
#include "profile/measure.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 20 };

struct leak_suppressions {
	VECTOR_MEMBERS(char *);
};

/* ---- patterns */

/* The first place of `length` bytes of a text in another; NULL: none. */
static const char *find(const char *in, const char *text, size_t length)
{
	for (;; in++) {
		if (strncmp(in, text, length) == 0)
			return in;
		if (!*in)
			return NULL;
	}
}

bool leak_pattern_matches(const char *pattern, const char *name)
{
	bool at_start = false, after_star = false;
	if (!name || !*name)
		return false;
	if (*pattern == '^') {
		at_start = true;
		pattern++;
	}
	while (*pattern) {
		if (*pattern == '*') {
			pattern++;
			at_start = false;
			after_star = true;
			continue;
		}
		if (*pattern == '$')
			return !*name || after_star;
		if (!*name)
			return false;
		size_t length = strcspn(pattern, "*$");
		const char *found = find(name, pattern, length);
		if (!found || (at_start && found != name))
			return false;
		name = found + length;
		pattern += length;
		at_start = after_star = false;
	}
	return true;
}

/* ---- files */

int leak_suppressions_parse(struct leak_suppressions **out, const char *name, const char *text,
			    struct heft_error *err)
{
	static const char type[] = "leak:";
	struct leak_suppressions *s = calloc(1, sizeof *s);
	int rc = s ? 0 : HEFT_ENOMEM;
	unsigned number = 0;
	*out = s;
	while (*text && rc == 0) {
		size_t length = strcspn(text, "\n");
		const char *line = text, *end = text + length;
		text += length + (text[length] == '\n');
		number++;
		while (line < end && isspace((unsigned char)*line))
			line++;
		while (line < end && isspace((unsigned char)end[-1]))
			end--;
		if (line == end || *line == '#')
			continue;
		if ((size_t)(end - line) < sizeof type || strncmp(line, type, sizeof type - 1)) {
			rc = heft_fail(err, HEFT_EUSAGE, "%s:%u: expected leak:PATTERN, not '%.*s'",
				       name, number, (int)(end - line < 60 ? end - line : 60),
				       line);
			break;
		}
		line += sizeof type - 1;
		char *pattern = strndup(line, (size_t)(end - line));
		if (!pattern || !vector_push(s, pattern)) {
			free(pattern);
			rc = HEFT_ENOMEM;
		}
	}
	if (rc) {
		leak_suppressions_free(s);
		*out = NULL;
	}
	return rc;
}

int leak_suppressions_read(struct leak_suppressions **out, const char *path, struct heft_error *err)
{
	*out = NULL;
	FILE *f = fopen(path, "re");
	if (!f)
		return heft_fail_errno(err, "cannot read %s", path);
	char *text = malloc(FILE_MOST + 1);
	size_t got = text ? fread(text, 1, FILE_MOST, f) : 0;
	bool whole = text && !ferror(f) && (feof(f) || getc(f) == EOF);
	fclose(f);
	int rc = HEFT_ENOMEM;
	if (text && !whole)
		rc = heft_fail(err, HEFT_EUSAGE, "%s cannot be read, or is larger than 1 MiB",
			       path);
	if (whole) {
		text[got] = 0;
		rc = leak_suppressions_parse(out, path, text, err);
	}
	free(text);
	return rc;
}

void leak_suppressions_free(struct leak_suppressions *s)
{
	for (size_t i = 0; s && i < s->count; i++)
		free(s->items[i]);
	if (s)
		vector_free(s);
	free(s);
}

/* ---- sites */

static bool frame_matches(const struct profile *p, const struct profile_frame *f, const void *ctx)
{
	const struct leak_suppressions *s = ctx;
	const char *module = f->module < p->stacks.module_count ? p->stacks.modules[f->module].path
								: NULL;
	for (size_t i = 0; i < s->count; i++)
		if (leak_pattern_matches(s->items[i], f->function) ||
		    leak_pattern_matches(s->items[i], f->file) ||
		    leak_pattern_matches(s->items[i], module))
			return true;
	return false;
}

/* Takes it away from the sites of matching nodes; returns what it was. */
static struct profile_look suppress(struct profile *p, const bool *nodes)
{
	struct profile_look gone = {0};
	for (uint32_t i = 0; i < p->site_count; i++) {
		struct profile_look *l = &p->sites[i].look;
		if (p->sites[i].node >= p->stacks.node_count || !nodes[p->sites[i].node])
			continue;
		gone.unreachable_bytes += l->unreachable_bytes;
		gone.unreachable_blocks += l->unreachable_blocks;
		gone.indirect_bytes += l->indirect_bytes;
		gone.indirect_blocks += l->indirect_blocks;
		gone.held_bytes += l->held_bytes;
		gone.held_blocks += l->held_blocks;
		l->unreachable_bytes = l->unreachable_blocks = 0;
		l->indirect_bytes = l->indirect_blocks = 0;
		l->held_bytes = l->held_blocks = 0;
	}
	struct profile_look *t = &p->totals.look;
	t->unreachable_bytes -= gone.unreachable_bytes;
	t->unreachable_blocks -= gone.unreachable_blocks;
	t->indirect_bytes -= gone.indirect_bytes;
	t->indirect_blocks -= gone.indirect_blocks;
	t->held_bytes -= gone.held_bytes;
	t->held_blocks -= gone.held_blocks;
	return gone;
}

int leak_suppressions_apply(const struct leak_suppressions *s, struct profile *p,
			    struct heft_error *err)
{
	if (!(p->run.has & PROFILE_HAS_REACHABLE))
		return heft_fail(err, HEFT_EREFUSED,
				 "nobody looked for leaks in this recording, so that there is "
				 "nothing to suppress: record with heft run --leaks");
	bool *nodes = profile_match_nodes(p, frame_matches, s);
	if (!nodes)
		return HEFT_ENOMEM;
	struct profile_look gone = suppress(p, nodes);
	for (uint32_t i = 0; i < p->judged_count; i++)
		suppress(p->judged[i].p, nodes);
	free(nodes);
	return gone.unreachable_blocks
		       ? profile_add_note(
				 p, PROFILE_NOTE_INFO, p->run.duration_ns,
				 "%s that nothing leads to, %s, not shown: they match "
				 "--suppressions.",
				 words_many(gone.unreachable_blocks, "block", "blocks").text,
				 words_size(gone.unreachable_bytes).text)
		       : 0;
}
