/* The body of every fuzz target of src/import: define FUZZ_IMPORTER ("jemalloc") and include this.
 *
 * The input is loaded by that one importer if it recognises it, compressed or not; whatever comes out
 * must be sound: indices in range, callers before callees, sums that add up.
 *
 * Built with clang -fsanitize=fuzzer,address,undefined -DHEFT_LIBFUZZER this is a libFuzzer target;
 * built without, a program that runs the files and folders it is given, each also with every byte
 * changed once and cut at every byte. */
#include "import/import.h"
#include "import/import_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "not so: %s\n", #condition);                               \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static size_t touch(const struct profile *p)
{
	size_t sum = 0;
	uint64_t live = 0, blocks = 0;
	for (uint32_t i = 0; i < p->run.argc; i++)
		sum += strlen(p->run.argv[i]);
	for (uint32_t i = 0; i < p->stacks.module_count; i++)
		sum += strlen(p->stacks.modules[i].path);
	for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
		sum += strlen(p->stacks.frames[i].function) +
		       (p->stacks.frames[i].file ? strlen(p->stacks.frames[i].file) : 0);
		MUST(p->stacks.frames[i].module == PROFILE_NONE ||
		     p->stacks.frames[i].module < p->stacks.module_count);
	}
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		MUST(p->stacks.nodes[i].parent == PROFILE_NONE || p->stacks.nodes[i].parent < i);
		MUST(p->stacks.nodes[i].frame < p->stacks.frame_count);
	}
	for (uint32_t i = 0; i < p->stacks.call_count; i++) {
		MUST(p->stacks.calls[i].caller == PROFILE_NONE || p->stacks.calls[i].caller < i);
		MUST(p->stacks.calls[i].node < p->stacks.node_count);
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		uint32_t call = s->call;
		bool inlined = false;
		MUST(call == PROFILE_NONE || call < p->stacks.call_count);
		for (uint32_t n = s->node; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
			sum += profile_frame_address(p, n, &call, &inlined);
		/* The way ends at the outermost call, with the frame that it is in. */
		MUST(call == PROFILE_NONE || s->node == PROFILE_NONE ||
		     (p->stacks.calls[call].caller == PROFILE_NONE && !inlined));
		MUST(s->node == PROFILE_NONE || s->node < p->stacks.node_count);
		MUST(s->labels == PROFILE_NONE || s->labels < p->label_set_count);
		MUST(s->via <= PROFILE_VIA_UNKNOWN && s->id == i + 1);
		if (__builtin_add_overflow(live, s->live_bytes, &live))
			live = UINT64_MAX;
		if (__builtin_add_overflow(blocks, s->allocations, &blocks))
			blocks = UINT64_MAX;
	}
	MUST(live == p->totals.live_bytes && blocks == p->totals.allocations);
	for (uint32_t i = 0; i < p->label_set_count; i++)
		sum += strlen(p->label_sets[i].words);
	for (uint32_t i = 0; i < p->thread_count; i++)
		sum += strlen(p->threads[i].name);
	for (uint32_t i = 0; i < p->note_count; i++)
		sum += strlen(p->notes[i].text);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct importer *i = importers;
	struct import_source *in = NULL;
	struct heft_error err = {0};
	if (size > 1 << 20)
		return 0;
	while (strcmp(i->name, FUZZ_IMPORTER))
		i++;
	if (import_source_open_bytes(&in, "fuzz", data, size, &err) < 0)
		return 0;
	size_t head = (size_t)(in->end - in->at);
	if (!i->recognise(in->at, head < IMPORT_HEAD_BYTES ? head : IMPORT_HEAD_BYTES)) {
		import_source_close(in);
		return 0;
	}
	struct profile *p = profile_new();
	if (!p)
		abort();
	p->run.has = 0;
	p->chosen.keep_calls = true;
	int rc = i->load(p, in);
	if (rc == 0)
		touch(p);
	MUST(rc <= 0);
	profile_free(p);
	import_source_close(in);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_DAMAGE

/* Every byte wrong once, and the file cut at every place. */
static void fuzz_damage(uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t was = bytes[i];
		bytes[i] = (uint8_t)(was + 1 + i * 7 % 254);
		LLVMFuzzerTestOneInput(bytes, size);
		bytes[i] = was;
		LLVMFuzzerTestOneInput(bytes, i);
	}
}
#endif

#include "fuzz_corpus.h"
