/* Folded stacks, the input of FlameGraph and of many tools since: "root;child;leaf 42", a line a
 * stack, greatest first within each function. Inlined functions are frames like others. The
 * separator inside a name becomes a colon; what else would break the line is spelt out. */
#include "export/export_formats.h"
#include "export/export_tree.h"
#include "hosted/name_words.h"
#include "hosted/vector.h"

#include <inttypes.h>
#include <stdlib.h>

/* Appends the name to the path, which grows as needed. */
struct path {
	char *text;
	size_t length, capacity;
};

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

/* Depth first with the path so far in one buffer: `ends` has where each level's name begins. */
struct level {
	uint32_t next, end; /* children not yet written */
	size_t length;      /* of the path before this level's names */
};

static int write_tree(FILE *out, const struct export_tree *t, struct path *path,
		      struct level *levels)
{
	size_t depth = 1;
	levels[0] = (struct level){0, t->root_count, 0};
	while (depth) {
		struct level *at = &levels[depth - 1];
		if (at->next == at->end) {
			depth--;
			continue;
		}
		uint32_t node = t->children[at->next++];
		const struct export_tree_node *n = &t->nodes[node];
		path->length = at->length;
		if (append(path, export_tree_name(t, node)) < 0)
			return HEFT_ENOMEM;
		if (n->self) {
			fwrite(path->text, 1, path->length, out);
			fprintf(out, " %" PRIu64 "\n", n->self);
		}
		path->text[path->length++] = ';';
		levels[depth++] = (struct level){n->first, n->first + n->count, path->length};
	}
	return 0;
}

int export_folded(FILE *out, const struct profile *p, const struct export_options *o,
		  struct heft_error *err)
{
	struct export_tree t;
	struct path path = {0};
	int rc = export_tree_init(&t, p, o->measure, o->invert, err);
	if (rc < 0)
		return rc;
	/* No path is deeper than there are nodes. */
	struct level *levels = malloc(((size_t)t.node_count + 2) * sizeof *levels);
	rc = levels ? write_tree(out, &t, &path, levels) : HEFT_ENOMEM;
	if (rc < 0)
		heft_fail(err, rc, "not enough memory to write the stacks");
	free(levels);
	free(path.text);
	export_tree_fini(&t);
	return rc;
}
