/* Folded stacks, the input of FlameGraph and of many tools since: "root;child;leaf 42", a line a
 * stack, greatest first within each function. Inlined functions are frames like others. The
 * separator inside a name becomes a colon; what else would break the line is spelt out. */
#include "export/export_formats.h"
#include "hosted/name_words.h"
#include "profile/call_tree.h"

#include <inttypes.h>
#include <stdlib.h>

struct path {
	char *text;
	size_t length, capacity;
	VECTOR(size_t) starts; /* by depth: where the names of that level begin */
};

/* Appends the name to the path, which grows as needed. */
static int append(struct path *path, const char *name)
{
	char piece[WORDS_GLYPH];
	for (size_t n; (n = words_glyph(&name, piece)) > 0;) { /* no name is empty */
		if (!array_reserve(path->text, path->length, path->capacity, n + 1)) /* and a ';' */
			return HEFT_ENOMEM;
		for (size_t i = 0; i < n; i++)
			path->text[path->length++] = piece[i] == ';' ? ':' : piece[i];
	}
	return 0;
}

/* The path so far is in one buffer, which a step to a sibling shortens. */
static int write_tree(FILE *out, const struct call_tree *t, struct path *path)
{
	struct call_walk w = {.t = t};
	while (call_walk_step(&w)) {
		if (w.left)
			continue;
		path->length = w.depth ? path->starts.items[w.depth - 1] : 0;
		if (w.node) {
			uint64_t self = t->nodes[w.node].self;
			if (append(path, call_tree_name(t, w.node)) < 0)
				return HEFT_ENOMEM;
			if (self) {
				fwrite(path->text, 1, path->length, out);
				fprintf(out, " %" PRIu64 "\n", self);
			}
			path->text[path->length++] = ';';
		}
		path->starts.count = w.depth;
		if (!vector_push(&path->starts, path->length))
			return HEFT_ENOMEM;
	}
	return 0;
}

int export_folded(FILE *out, const struct profile *p, const struct export_options *o,
		  struct heft_error *err)
{
	struct call_tree t;
	struct path path = {0};
	int rc = call_tree_of(&t, p, o->measure, o->invert ? CALL_TREE_INVERTED : 0);
	if (rc == 0) {
		rc = write_tree(out, &t, &path);
		call_tree_fini(&t);
	}
	vector_free(&path.starts);
	free(path.text);
	return rc < 0 ? heft_fail(err, rc, "not enough memory to write the stacks") : 0;
}
