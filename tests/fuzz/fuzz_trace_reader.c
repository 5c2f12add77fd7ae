/* Feeds the recording reader and verify with damaged files.
 *
 * The input is mended first (fuzz_mended.h). Seeds are stored uncompressed, so that changes reach what they hold.
 *
 * Built with clang -fsanitize=fuzzer,address,undefined -DHEFT_LIBFUZZER this is a
 * libFuzzer target; built without, a program that runs the files and folders it
 * is given once (a regression test), or makes seeds: `--make FOLDER`, and `--store FILE` of a small
 * recording that heft itself made, which it rewrites: own-allocator is of
 * tests/programs/linked_allocator.c, mappings of `maps_memory plain`, remarks of a program
 * that calls each function of heft.h that is remarked a few times, sampled-children of that and family.c under a shell. */
#include "tally/mapped_memory.h"
#include "trace/trace.h"
#include "trace/trace_block.h"
#include "trace/trace_index.h"

#include "fuzz_mended.h"

#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct totals {
	uint64_t events, sum;
};

static int each(void *ctx, const struct trace_event *events, size_t count)
{
	struct totals *t = ctx;
	t->events += count;
	for (size_t i = 0; i < count; i++)
		t->sum += events[i].size ^ events[i].site ^ events[i].thread;
	return t->events > 1000000 ? -100 : 0;
}

static int each_mapping(void *memory, const struct trace_mapping *m)
{
	return mapped_memory_apply(memory, m, NULL, NULL);
}

/* The same texts when they are read again, which some readers do. */
static int each_remark(void *ctx, const struct trace_remark *m)
{
	struct totals *t = ctx;
	t->sum += strlen(m->text) + m->a + m->born_at + m->site + m->kind;
	return ++t->events > 1000000 ? -100 : 0;
}

/* Reads every string and every row: what is wild shows under ASan. */
static uint64_t touch(const struct trace_contents *c)
{
	uint64_t sum = strlen(c->meta.heft_version);
	for (uint32_t i = 0; i < c->meta.argc; i++)
		sum += strlen(c->meta.argv[i]);
	for (uint32_t i = 0; i < c->module_count; i++) {
		sum += strlen(c->modules[i].path);
		for (uint32_t j = 0; j < c->modules[i].build_id_len; j++)
			sum += c->modules[i].build_id[j];
	}
	for (uint32_t i = 0; i < c->node_count; i++) {
		if (c->nodes[i].parent != TRACE_NONE && c->nodes[i].parent >= i)
			abort(); /* a walk to the root would not end */
		if (c->nodes[i].module != TRACE_NONE && c->nodes[i].module >= c->module_count)
			abort();
	}
	for (uint32_t i = 0; i < c->site_count; i++) {
		if (c->sites[i].node != TRACE_NONE && c->sites[i].node >= c->node_count)
			abort();
	}
	for (uint32_t i = 0; i < c->thread_count; i++) {
		sum += strlen(c->threads[i].name);
		if (c->threads[i].process >= c->process_count)
			abort();
	}
	for (uint32_t i = 0; i < c->process_count; i++) {
		sum += strlen(c->processes[i].exe);
		for (uint32_t j = 0; j < c->processes[i].argc; j++)
			sum += strlen(c->processes[i].argv[j]);
	}
	for (size_t i = 0; i < c->note_count; i++)
		sum += strlen(c->notes[i].text);
	for (size_t i = 0; i < c->anonymous_count; i++)
		sum += (uint64_t)c->processes[c->anonymous[i].process].pid +
		       c->anonymous[i].peak_bytes;
	for (uint32_t i = 0; i < c->samples_count; i++) {
		if (c->samples[i].process >= c->process_count)
			abort();
		for (uint32_t k = 0; k < c->samples[i].sum_count; k++)
			sum += c->sites[c->samples[i].sums[k].site].via;
	}
	for (uint32_t i = 0; i < c->peak->part_count; i++) {
		const struct trace_peak_part *part = &c->peak->parts[i];
		sum += (uint64_t)c->processes[part->process].pid;
		for (uint32_t k = 0; k < part->count; k++)
			sum += c->sites[part->samples[k].site].via;
	}
	for (uint32_t i = 0; i < c->tally->site_count; i++)
		sum += tally_lifetime_quantile(&c->tally->sites[i], 0.5);
	const struct behaviour *b = c->behaviour;
	for (uint32_t i = 0; i < b->handover_count; i++)
		sum += c->sites[b->handovers[i].site].via;
	for (uint32_t i = 0; i < b->pair_count; i++)
		sum += c->sites[b->pairs[i].site].via + (uint64_t)c->threads[b->pairs[i].from].tid +
		       (uint64_t)c->threads[b->pairs[i].to].tid;
	for (uint32_t i = 0; i < b->release_count; i++)
		sum += c->sites[b->releases[i].site].via + c->sites[b->releases[i].free_site].via;
	for (uint32_t i = 0; i < b->growth_count; i++)
		sum += c->sites[b->growths[i].site].via;
	if (b->slot_count > BEHAVIOUR_SLOTS || !b->slot_ns)
		abort();
	for (uint32_t i = 0; i < b->row_count; i++) {
		sum += c->sites[b->rows[i]->site].via;
		if (b->rows[i]->first > b->slot_count)
			abort();
	}
	if (c->tally->site_count != c->site_count || c->tally->thread_count != c->thread_count)
		abort();
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < TRACE_FILE_HEADER_BYTES || size > 1 << 20)
		return 0;
	char path[64];
	int fd = fuzz_mended_file(data, size, path);
	struct heft_error err;
	struct trace_verify v;
	trace_verify(path, &v, &err);
	struct trace_reader *r;
	if (trace_reader_open(&r, path, &err) == 0) {
		struct totals t = {0};
		t.sum += touch(trace_reader_contents(r));
		trace_reader_events(r, 0, UINT64_MAX, each, &t, &err);
		trace_reader_events(r, 5000, 9000, each, &t, &err);
		struct tally before;
		tally_init(&before);
		trace_reader_tally_before(r, 6500, &before, &err);
		tally_fini(&before);
		struct mapped_memory *memory = mapped_memory_new();
		if (memory)
			trace_reader_mappings(r, each_mapping, memory, &err);
		mapped_memory_free(memory);
		for (int again = 0; again < 2; again++) {
			t.events = 0;
			trace_reader_remarks(r, each_remark, &t, &err);
		}
		trace_reader_close(r);
	}
	close(fd);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_DAMAGE
#define FUZZ_OWN_MAIN

/* Every byte behind the header wrong once. */
static void fuzz_damage(uint8_t *bytes, size_t size)
{
	for (size_t i = TRACE_FILE_HEADER_BYTES; i < size; i++) {
		uint8_t was = bytes[i];
		bytes[i] = (uint8_t)(was + 1 + i % 254);
		LLVMFuzzerTestOneInput(bytes, size);
		bytes[i] = was;
	}
}

#include "fuzz_corpus.h"

/* Rewrites a recording with every block stored as it is, so that changes reach what it holds;
 * the index and the end then name the new offsets. */
static void store_uncompressed(const char *path)
{
	static uint8_t raw[1 << 20];
	size_t size, at = TRACE_FILE_HEADER_BYTES;
	uint8_t *file = fuzz_read(path, &size);
	struct byte_buffer payload = {0};
	struct trace_index index = {0};
	struct trace_end_payload end = {0};
	FILE *out = fopen(path, "wb");
	if (!out || fwrite(file, 1, at, out) != at)
		abort();
	while (at < size) {
		struct trace_block_header h;
		memcpy(&h, file + at, sizeof h);
		const uint8_t *stored = file + at + sizeof h;
		uint64_t offset = (uint64_t)ftell(out);
		at += sizeof h + h.stored_bytes;
		if (h.flags & TRACE_BLOCK_ZSTD) {
			if (ZSTD_decompress(raw, sizeof raw, stored, h.stored_bytes) != h.raw_bytes)
				abort();
			stored = raw;
		}
		if (h.type == TRACE_BLOCK_TALLY)
			end.tally_offset = offset;
		if (h.type == TRACE_BLOCK_INDEX) {
			end.index_offset = offset;
			end.blocks = index.count;
			trace_index_put(&payload, &index);
			stored = payload.data;
			h.raw_bytes = (uint32_t)payload.len;
		}
		if (h.type == TRACE_BLOCK_END) {
			struct trace_end_payload was;
			memcpy(&was, stored, sizeof was);
			end.duration_ns = was.duration_ns;
			end.events = was.events;
			stored = (const uint8_t *)&end;
		}
		trace_index_add(&index, offset, &h);
		h.stored_bytes = h.raw_bytes;
		h.flags = 0;
		h.checksum = trace_block_checksum(&h, offset, stored);
		fwrite(&h, sizeof h, 1, out);
		fwrite(stored, h.raw_bytes, 1, out);
	}
	fclose(out);
	free(file);
	buffer_fini(&payload);
	trace_index_fini(&index);
	struct trace_verify v;
	struct heft_error err;
	if (trace_verify(path, &v, &err)) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
}

enum { WITHOUT_CHECKPOINT = 1, CUT = 2, BEHAVIOUR = 4 };

static void make(const char *path, int kind)
{
	static char *argv[] = {"./a", "b", NULL};
	struct trace_meta meta = {
		.heft_version = "0", .argv = argv, .argc = 2, .page_bytes = 4096, .tick_ns = 1024};
	struct heft_error err;
	struct trace_writer *w;
	struct behaviour behaviour;
	struct tally t;
	tally_init(&t);
	behaviour_init(&behaviour);
	behaviour.slot_ns = 1000; /* a short recording with some slots */
	if (kind & BEHAVIOUR)
		t.behaviour = &behaviour;
	if (trace_writer_open(&w, path, true, &meta, &err) || tally_reserve(&t, 3, 2)) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
	struct trace_process p = {.pid = 2, .ppid = 1, .exe = "/a", .argv = argv, .argc = 2};
	struct trace_node nodes[] = {{TRACE_NONE, 0, 100, 0}, {0, TRACE_NONE, 200, 1}};
	struct trace_site sites[] = {{1, 0}, {0, 1}, {TRACE_NONE, 2}};
	trace_writer_module(w, &(struct trace_module){"/a", (const uint8_t *)"1234", 4});
	trace_writer_nodes(w, nodes, 2);
	trace_writer_sites(w, sites, 3);
	trace_writer_process(w, &p);
	trace_writer_thread(w, &(struct trace_thread){0, 2, "m"});
	trace_writer_thread(w, &(struct trace_thread){0, 3, ""});
	trace_writer_thread_name(w, 1, "n");
	trace_writer_note(w, &(struct trace_note){TRACE_NOTE_INFO, 0, 5, "x"});
	trace_writer_rss(w, &(struct trace_rss){5, 0, 4096}, 1);
	struct trace_event events[] = {
		{.time_ns = 10, .size = 24, .site = 0, .op = TRACE_ALLOC},
		{.time_ns = 20, .size = 30, .site = 1, .slack = 10, .op = TRACE_ALLOC},
		{.time_ns = 30,
		 .size = 30,
		 .lifetime_ns = 10,
		 .site = 1,
		 .slack = 10,
		 .op = TRACE_FREE,
		 .flags = TRACE_TEMPORARY},
		{.time_ns = 5000,
		 .size = 40,
		 .old_size = 24,
		 .site = 2,
		 .old_site = 0,
		 .op = TRACE_REALLOC,
		 .flags = TRACE_MOVED | TRACE_COPIED},
		{.time_ns = 6000,
		 .size = 9,
		 .site = 2,
		 .thread = 1,
		 .birth_thread = 1,
		 .op = TRACE_ALLOC,
		 .flags = TRACE_SLACK_UNKNOWN},
		{.time_ns = 7000,
		 .size = 40,
		 .lifetime_ns = 6990,
		 .site = 2,
		 .thread = 1,
		 .op = TRACE_FREE,
		 .free_site = 1,
		 .unused_bytes = 16,
		 .flags = TRACE_FREED_AT | TRACE_GROWN | TRACE_MEASURED},
		{.time_ns = 9000,
		 .size = 9,
		 .lifetime_ns = 3000,
		 .site = 2,
		 .thread = 1,
		 .birth_thread = 1,
		 .op = TRACE_GONE,
		 .flags = TRACE_SLACK_UNKNOWN},
	};
	size_t count = sizeof events / sizeof events[0];
	trace_writer_events(w, events, 4);
	tally_apply(&t, events, 4);
	if (!(kind & WITHOUT_CHECKPOINT))
		trace_writer_checkpoint(w, 5000, &t);
	trace_writer_events(w, events + 4, count - 4);
	for (size_t i = 4; i < count; i++)
		tally_apply(&t, events + i, 1);
	if (kind & CUT) {
		trace_writer_flush(w);
		trace_writer_abandon(w);
	} else if (trace_writer_close(w, 10000, &t, &err)) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
	tally_fini(&t);
	behaviour_fini(&behaviour);

	store_uncompressed(path);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--make") == 0) {
		static const struct {
			const char *name;
			int kind;
		} seeds[] = {{"complete", 0},
			     {"without-checkpoint", WITHOUT_CHECKPOINT},
			     {"cut", CUT},
			     {"behaviour", BEHAVIOUR},
			     {"behaviour-cut", BEHAVIOUR | CUT}};
		for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
			char path[4096];
			snprintf(path, sizeof path, "%s/%s", argv[2], seeds[i].name);
			make(path, seeds[i].kind);
		}
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "--store") == 0) {
		store_uncompressed(argv[2]);
		return 0;
	}
	unsigned files = 0;
	for (int i = 1; i < argc; i++)
		files += fuzz_run(argv[i]);
	printf("%u files\n", files);
	return files ? 0 : 1;
}

#endif
