/* One recording asked by several threads at once, while it grows: every answer is whole, and of one
 * state of the file. Runs under ThreadSanitizer. */
#include "pages/view_documents.h"
#include "pages/view_recording.h"

#include "trace/trace.h"
#include "unit_test.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASKERS = 4, ROUNDS = 60, STEPS = 40, BLOCK = 1000 };

static char path[64];
static struct view_recording *opened;
static atomic_int wrong;

static int no_import(void *ctx, const char *file, const struct profile_selection *sel,
		     struct profile **out, struct heft_error *err)
{
	(void)ctx;
	(void)sel;
	(void)out;
	return heft_fail(err, HEFT_EFORMAT, "%s is no recording", file);
}

static const struct view_loader loader = {NULL, no_import, NULL};

/* ---- a recording that grows by a block of BLOCK bytes a millisecond of its time */

static struct trace_writer *begin_recording(struct tally *tally)
{
	static char *argv[] = {"./prog", NULL};
	struct trace_meta meta = {
		.heft_version = "0", .argv = argv, .argc = 1, .page_bytes = 4096, .tick_ns = 1};
	struct heft_error err;
	struct trace_writer *w;
	assert_int_equal(trace_writer_open(&w, path, true, &meta, &err), 0);
	struct trace_process process = {.pid = 7, .exe = "/nowhere/prog", .argv = argv, .argc = 1};
	struct trace_thread thread = {0, 7, "main"};
	struct trace_node nodes[] = {{TRACE_NONE, TRACE_NONE, 0x1000, 0},
				     {0, TRACE_NONE, 0x2000, 0}};
	struct trace_site sites[] = {{0, TRACE_VIA_MALLOC}, {1, TRACE_VIA_MALLOC}};
	assert_int_equal(trace_writer_process(w, &process), 0);
	assert_int_equal(trace_writer_thread(w, &thread), 0);
	assert_int_equal(trace_writer_nodes(w, nodes, 2), 0);
	assert_int_equal(trace_writer_sites(w, sites, 2), 0);
	tally_init(tally);
	assert_int_equal(tally_reserve(tally, 2, 1), 0);
	return w;
}

static void grow(struct trace_writer *w, struct tally *tally, unsigned step)
{
	struct trace_event e = {.op = TRACE_ALLOC,
				.time_ns = (step + 1) * 1000000ull,
				.site = step % 2,
				.size = BLOCK};
	tally_apply(tally, &e, 1);
	assert_int_equal(trace_writer_events(w, &e, 1), 0);
	assert_int_equal(trace_writer_flush(w), 0);
}

/* ---- asking */

/* The number behind the first "key": in a document. */
static long long number_in(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

static long long ask(view_document *document, const struct view_query *q, const char *key)
{
	struct heft_error err;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int rc = document(out, opened, q, &err);
	fclose(out);
	long long n = rc < 0 ? rc : number_in(text, key);
	free(text);
	return n;
}

static void check(bool right)
{
	if (!right)
		atomic_fetch_add(&wrong, 1);
}

static void *ask_many(void *ctx)
{
	unsigned seed = (unsigned)(uintptr_t)ctx;
	long long seen = 0;
	for (int i = 0; i < ROUNDS; i++) {
		struct view_query q;
		view_query_init(&q);
		unsigned step = (unsigned)rand_r(&seed) % STEPS;
		switch (rand_r(&seed) % 4) {
		case 0: /* what is live only rises */
			q.at = VIEW_AT_END;
			long long live = ask(view_tree, &q, "\"sum\":");
			check(live >= seen && live % BLOCK == 0);
			seen = live;
			break;
		case 1: /* an instant: all blocks up to it, as far as they are there */
			q.at = VIEW_AT_TIME;
			q.at_ns = step * 1000000ull;
			check(ask(view_sites, &q, "\"sum\":") <= (long long)step * BLOCK);
			break;
		case 2:
			q.mode = VIEW_ALLOCATED;
			q.has_from = q.has_to = true;
			q.from_ns = step * 1000000ull;
			q.to_ns = q.from_ns + 3000000;
			check(ask(view_tree, &q, "\"sum\":") <= 4 * BLOCK);
			break;
		case 3: check(ask(view_lifetimes, &q, "\"live_at_end\":") >= seen / BLOCK); break;
		}
	}
	return NULL;
}

static void *watch(void *ctx)
{
	bool live = true;
	(void)ctx;
	while (live) {
		view_recording_refresh(opened, &live, NULL);
		usleep(20000);
	}
	return NULL;
}

TEST(test_threads)
{
	struct heft_error err;
	struct tally tally;
	pthread_t askers[ASKERS], watcher;
	strcpy(path, "/tmp/heft-view-XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	close(fd);
	struct trace_writer *w = begin_recording(&tally);
	grow(w, &tally, 0);
	assert_int_equal(view_recording_open(&opened, path, "1", "r", &loader, &err), 0);
	for (uintptr_t i = 0; i < ASKERS; i++)
		assert_int_equal(pthread_create(&askers[i], NULL, ask_many, (void *)(i + 1)), 0);
	assert_int_equal(pthread_create(&watcher, NULL, watch, NULL), 0);
	for (unsigned i = 1; i < STEPS; i++) {
		grow(w, &tally, i);
		usleep(50000);
	}
	assert_int_equal(trace_writer_close(w, STEPS * 1000000ull, &tally, &err), 0);
	for (int i = 0; i < ASKERS; i++)
		pthread_join(askers[i], NULL);
	pthread_join(watcher, NULL); /* which ends when the recording has */
	assert_int_equal(atomic_load(&wrong), 0);
	struct view_query q;
	view_query_init(&q);
	q.at = VIEW_AT_END;
	assert_int_equal(ask(view_tree, &q, "\"sum\":"), STEPS * BLOCK);
	view_recording_prepare(opened); /* too small for a ladder, and that is no error */
	view_recording_close(opened);
	tally_fini(&tally);
	unlink(path);
}

UNIT_TESTS(NULL, NULL)
