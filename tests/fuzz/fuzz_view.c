/* Fuzzes what an address of heft view can ask: a line with the document's name, a line with its
 * parameters. Whatever is understood is answered from a small profile with recursion, an unknown stack
 * and hostile names; a tree must add up. Without libFuzzer: runs over the files and folders given, and
 * over damaged copies of each. */
#include "pages/view_documents.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 6 };

/* Sites at every depth of a stack that calls itself, and one without a stack. */
static int small_profile(void *ctx, const char *path, const struct profile_selection *sel,
			 struct profile **out, struct heft_error *err)
{
	static const char *const names[] = {"main", "f", "f", "<script>", "g\"\\", "\xff\x1b["};
	struct profile *p = profile_new();
	uint32_t node = PROFILE_NONE, site;
	(void)ctx;
	(void)sel;
	(void)path;
	(void)err;
	if (!p)
		abort();
	for (int i = 0; i < DEPTH; i++) {
		uint32_t frame;
		struct profile_frame f = {.function = name_pool_add(p->names, names[i]),
					  .file = name_pool_add(p->names, "/x/a.c"),
					  .line = (uint32_t)i,
					  .module = PROFILE_NONE};
		if (profile_add_frame(p, &f, &frame) ||
		    profile_add_node(p, node, frame, 0, &node) ||
		    profile_add_site(p, node, 0, &site))
			abort();
	}
	if (profile_add_site(p, PROFILE_NONE, 0, &site))
		abort();
	for (uint32_t i = 0; i < p->site_count; i++) {
		p->sites[i].peak_bytes = 100 + i;
		p->sites[i].live_bytes = i;
		p->sites[i].allocations = 1 + i % 2;
		p->sites[i].allocated_bytes = 1000;
	}
	p->run.format = "pprof";
	p->run.has = PROFILE_HAS_PEAK | PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED;
	profile_finish_sites(p);
	*out = p;
	return 0;
}

struct query {
	char *text;
	char room[40][300];
	int used;
};

static const char *parameter(const void *ctx, const char *name)
{
	struct query *q = (struct query *)(uintptr_t)ctx;
	size_t length = strlen(name);
	for (const char *at = q->text; at; at = strchr(at, '&') ? strchr(at, '&') + 1 : NULL)
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			char *room = q->room[q->used++ % 40];
			size_t n = strcspn(at + length + 1, "&");
			snprintf(room, sizeof q->room[0], "%.*s", (int)(n > 299 ? 299 : n),
				 at + length + 1);
			return room;
		}
	return NULL;
}

/* Totals of nodes whose parent is the root, and its own: the sum. */
static void check_sum(const char *text)
{
	const char *sum = strstr(text, "\"sum\":"), *total = strstr(text, "\"total\":[");
	if (!sum || !total || strtoull(sum + 6, NULL, 10) != strtoull(total + 9, NULL, 10))
		abort();
}

static void ask(struct view_recording *r, view_document *document, const struct view_query *q)
{
	struct heft_error err = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		abort();
	int rc = document(out, r, q, &err);
	fclose(out);
	if (rc < 0 && !err.message[0])
		abort();
	if (rc == 0 && (size < 2 || text[size - 1] != '}'))
		abort();
	if (rc == 0 && document == view_tree)
		check_sum(text);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct view_loader loader = {NULL, small_profile, NULL};
	static struct view_recording *r;
	static struct query given;
	struct view_parameters from = {&given, parameter};
	struct view_query q;
	struct heft_error err = {0};
	if (!r && view_recording_open(&r, "/dev/null", "1", "small", &loader, &err) < 0)
		abort();
	char *copy = malloc(size + 1);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = 0;
	char *line = strchr(copy, '\n');
	if (line) {
		*line = 0;
		given.text = line + 1;
		given.text[strcspn(given.text, "\n")] = 0;
		view_document *document = view_document_find(copy);
		int rc = view_query_parse(&q, &from, NULL, &err);
		if (rc < 0 && (rc != HEFT_EUSAGE || !err.message[0]))
			abort();
		/* A long expression is the regular expressions' own business. */
		bool plain = (!q.focus || strlen(q.focus) < 20) &&
			     (!q.ignore || strlen(q.ignore) < 20);
		if (rc == 0 && document && plain)
			ask(r, document, &q);
	}
	free(copy);
	return 0;
}

#include "fuzz_corpus.h"
