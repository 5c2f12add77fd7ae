/* The module log, from the writers inside to the reader in the recorder: what a thread that was
 * stopped in the middle of an entry keeps back, and what it must not. Run under ThreadSanitizer too. */
#include "capture/inside.h"
#include "capture/redirect.h"
#include "capture/settings.h"
#include "session/stack_map.h"
#include "unit_test.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct heft_process *heft_process;
_Atomic uint64_t sys_forbidden;
struct heft_settings heft_settings;
_Atomic uint32_t heft_generation;
void heft_redirect_late(const struct heft_object *o, char *memory)
{
	(void)o, (void)memory;
}

struct world {
	struct wire_session session;
	struct stack_map map;
	struct process_stacks stacks;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	void *file = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(file, MAP_FAILED);
	w->session = wire_session_at(file);
	w->stacks.session = &w->session;
	w->session.nodes[0].check = ~0u;
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;
	process_stacks_fini(&w->stacks);
	stack_map_fini(&w->map);
	munmap(w->session.header, WIRE_FILE_BYTES);
	free(w);
	return 0;
}

static struct wire_module *begin(struct world *w, const char *path, uint64_t start)
{
	uint32_t bytes = (uint32_t)((sizeof(struct wire_module) + strlen(path) + 7) & ~7ul);
	struct wire_module *e = heft_log_begin(&w->session, bytes);
	if (!e)
		return NULL;
	e->kind = WIRE_LOG_MODULE;
	e->start = e->bias = start;
	e->end = start + 0x1000;
	e->path_bytes = (uint16_t)strlen(path);
	memcpy(e->data, path, strlen(path));
	return e;
}

/* A site of one frame, as a process would leave it: nodes `id` and `id` + 1. */
static void make_site(struct world *w, uint32_t id, uint64_t pc)
{
	struct wire_node *n = &w->session.nodes[id];
	n[0].check = ~0u;
	n[0].pc_flags = (uint64_t)WIRE_NODE_PRESENT << WIRE_FLAG_SHIFT | pc;
	n[1].parent = id;
	n[1].check = ~id;
	n[1].pc_flags = (uint64_t)(WIRE_NODE_PRESENT | WIRE_NODE_VIA) << WIRE_FLAG_SHIFT;
}

/* The path of the module in which the site's frame lies, or "". */
static const char *module_of(struct world *w, uint32_t id)
{
	uint32_t site;
	assert_int_equal(stack_map_site(&w->map, &w->stacks, id + 1, &site), 0);
	uint32_t module = w->map.nodes[w->map.sites[site].node].module;
	return module == TRACE_NONE ? "" : w->map.modules[module].path;
}

TEST_WITH(stopped_writer_hides_nothing, set_up, tear_down)
{
	struct world *w = *state;
	struct wire_module *first = begin(w, "/lib/first", 0x10000);
	heft_log_end(begin(w, "/lib/second", 0x20000));
	make_site(w, 1, 0x20010);
	assert_string_equal(module_of(w, 1), "/lib/second");
	make_site(w, 3, 0x10010); /* nobody has seen the first one finished */
	assert_string_equal(module_of(w, 3), "");
	heft_log_end(first);
	make_site(w, 5, 0x10020);
	assert_string_equal(module_of(w, 5), "/lib/first");
	assert_int_equal(w->stacks.unfinished_count, 0);
	assert_int_equal(w->stacks.module_count, 2);
}

TEST_WITH(killed_before_it_said_where_it_ends, set_up, tear_down)
{
	struct world *w = *state;
	begin(w, "/lib/first", 0x10000);
	atomic_store(&w->session.header->log_used, 0); /* killed between the two */
	heft_log_end(begin(w, "/lib/second", 0x20000));
	make_site(w, 1, 0x20010);
	assert_string_equal(module_of(w, 1), "/lib/second");
}

TEST_WITH(no_room, set_up, tear_down)
{
	struct world *w = *state;
	char path[4000];
	unsigned count = 0;
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = 0;
	struct wire_module *e;
	while ((e = begin(w, path, 0x10000))) {
		heft_log_end(e);
		count++;
	}
	assert_int_equal(count, WIRE_LOG_BYTES / ((sizeof *e + sizeof path + 6) & ~7ul));
	assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), 0);
	assert_int_equal(w->stacks.module_count, count);
}

TEST_WITH(garbage, set_up, tear_down)
{
	struct world *w = *state;
	static const uint32_t bad[] = {4, 8, 12, WIRE_LOG_BYTES + 8, UINT32_MAX, UINT32_MAX - 7,
				       2, 3};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		w->stacks.log_read = 0;
		*(uint32_t *)w->session.log = bad[i];
		assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), HEFT_EFORMAT);
	}
	/* Unfinished without end. */
	w->stacks.log_read = 0;
	for (uint32_t at = 0; at < WIRE_LOG_BYTES; at += 64)
		*(uint32_t *)(w->session.log + at) = 64 | WIRE_LOG_UNFINISHED;
	assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), HEFT_EFORMAT);
	/* One that was honest when we came by. */
	w->stacks.log_read = w->stacks.unfinished_count = 0;
	memset(w->session.log, 0, WIRE_LOG_BYTES);
	*(uint32_t *)w->session.log = 64 | WIRE_LOG_UNFINISHED;
	assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), 0);
	*(uint32_t *)w->session.log = UINT32_MAX - 7;
	assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), HEFT_EFORMAT);
	assert_int_equal(w->stacks.unfinished_count, 0);
}

/* What a recording has of the map: written by stack_map_write and by nothing else, each once. */
TEST_WITH(looking_up_writes_nothing, set_up, tear_down)
{
	struct world *w = *state;
	struct trace_meta meta = {.heft_version = "test", .page_bytes = 4096, .tick_ns = 2048};
	struct trace_writer *writer;
	struct trace_reader *reader;
	struct heft_error err = {0};
	struct tally tally;
	char path[64];
	snprintf(path, sizeof path, "/tmp/heft-module-log-%d", (int)getpid());
	assert_int_equal(trace_writer_open(&writer, path, true, &meta, &err), 0);
	uint64_t empty = trace_writer_bytes(writer);
	heft_log_end(begin(w, "/lib/first", 0x10000));
	make_site(w, 1, 0x10010);
	assert_string_equal(module_of(w, 1), "/lib/first");
	assert_int_equal(trace_writer_flush(writer), 0);
	assert_int_equal(trace_writer_bytes(writer), empty);
	stack_map_write(&w->map, writer);
	make_site(w, 3, 0x10020);
	assert_string_equal(module_of(w, 3), "/lib/first");
	stack_map_write(&w->map, writer);
	stack_map_write(&w->map, writer);
	tally_init(&tally);
	assert_int_equal(trace_writer_close(writer, 0, &tally, &err), 0);
	tally_fini(&tally);
	assert_int_equal(trace_reader_open(&reader, path, &err), 0);
	const struct trace_contents *c = trace_reader_contents(reader);
	assert_int_equal(c->module_count, 1);
	assert_int_equal(c->node_count, 2);
	assert_int_equal(c->site_count, 2);
	assert_int_equal(c->nodes[c->sites[0].node].offset, 0x10);
	assert_int_equal(c->nodes[c->sites[1].node].offset, 0x20);
	trace_reader_close(reader);
	unlink(path);
}

enum { THREADS = 4, ENTRIES = 2000 };

static void *write_entries(void *arg)
{
	struct world *w = arg;
	char path[32];
	for (uint64_t i = 0; i < ENTRIES; i++) {
		snprintf(path, sizeof path, "/lib/%0*d", (int)(i % 20 + 1), (int)(i % 3));
		struct wire_module *e = begin(w, path, 0x10000 + i * 0x1000);
		if (!e)
			return arg;
		heft_log_end(e);
	}
	return NULL;
}

TEST_WITH(several_writers, set_up, tear_down)
{
	struct world *w = *state;
	pthread_t thread[THREADS];
	void *failed;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, write_entries, w);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(process_stacks_read_log(&w->map, &w->stacks), 0);
	assert_int_equal(w->stacks.unfinished_count, 0);
	assert_int_equal(w->stacks.module_count, THREADS * ENTRIES);
	unsigned seen[ENTRIES] = {0};
	for (uint32_t i = 0; i < w->stacks.module_count; i++)
		seen[(w->stacks.modules[i].start - 0x10000) / 0x1000]++;
	for (int i = 0; i < ENTRIES; i++)
		assert_int_equal(seen[i], THREADS);
}

UNIT_TESTS(NULL, NULL)
