/* pprof: sample types by name, labels, inlined lines, mappings, and messages that lie. */
#include "import_fixture.h"

#include <inttypes.h>

/* A message as it is written. */
struct bytes {
	uint8_t data[8192];
	size_t length;
};

static void varint(struct bytes *b, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		b->data[b->length++] = (uint8_t)(v | 128);
	b->data[b->length++] = (uint8_t)v;
}

static void number(struct bytes *b, uint32_t field, uint64_t v)
{
	varint(b, field << 3);
	varint(b, v);
}

static void bytes(struct bytes *b, uint32_t field, const void *data, size_t length)
{
	varint(b, field << 3 | 2);
	varint(b, length);
	memcpy(b->data + b->length, data, length);
	b->length += length;
}

static void message(struct bytes *b, uint32_t field, struct bytes *inner)
{
	bytes(b, field, inner->data, inner->length);
	inner->length = 0;
}

static void strings(struct bytes *b, const char *const *texts)
{
	for (; *texts; texts++)
		bytes(b, 6, *texts, strlen(*texts));
}

static void value_type(struct bytes *b, uint32_t field, uint64_t type, uint64_t unit)
{
	struct bytes m = {.length = 0};
	number(&m, 1, type);
	number(&m, 2, unit);
	message(b, field, &m);
}

static void function(struct bytes *b, uint64_t id, uint64_t name, uint64_t file)
{
	struct bytes m = {.length = 0};
	number(&m, 1, id);
	number(&m, 2, name);
	number(&m, 4, file);
	message(b, 5, &m);
}

/* A location with up to two lines, innermost first; function 0: none. */
static void location(struct bytes *b, uint64_t id, uint64_t mapping, uint64_t address,
		     uint64_t inner, uint64_t outer)
{
	struct bytes m = {.length = 0}, line = {.length = 0};
	number(&m, 1, id);
	number(&m, 2, mapping);
	number(&m, 3, address);
	for (int i = 0; i < 2; i++) {
		uint64_t fn = i ? outer : inner;
		if (!fn)
			continue;
		number(&line, 1, fn);
		number(&line, 2, 10 * fn);
		message(&m, 4, &line);
	}
	message(b, 4, &m);
}

struct label {
	uint64_t key, text, value, unit;
};

/* Packed, as newer producers write them, or each number with its tag. */
static void sample(struct bytes *b, bool packed, const uint64_t *ids, int id_count,
		   const int64_t *values, int value_count, const struct label *label)
{
	struct bytes m = {.length = 0}, list = {.length = 0};
	for (int i = 0; i < id_count; i++)
		packed ? varint(&list, ids[i]) : number(&m, 1, ids[i]);
	if (packed)
		message(&m, 1, &list);
	for (int i = 0; i < value_count; i++)
		packed ? varint(&list, (uint64_t)values[i]) : number(&m, 2, (uint64_t)values[i]);
	if (packed)
		message(&m, 2, &list);
	if (label) {
		number(&list, 1, label->key);
		label->text ? number(&list, 2, label->text) : number(&list, 3, label->value);
		if (label->unit)
			number(&list, 4, label->unit);
		message(&m, 3, &list);
	}
	message(b, 2, &m);
}

enum {
	EMPTY,
	ALLOC_OBJECTS,
	COUNT,
	ALLOC_SPACE,
	BYTES,
	INUSE_OBJECTS,
	INUSE_SPACE,
	MAIN,
	LEAF,
	FILE_C,
	BINARY,
	BUILD_ID,
	INNER,
	TENANT,
	RED,
	SPACE,
	CPU
};
static const char *const table[] = {
	"",     "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space",
	"main", "leaf",          "f.c",   "/no/binary",  "0a0B",  "inner",         "tenant",
	"red",  "space",         "cpu",   NULL};

static void go_types(struct bytes *b)
{
	value_type(b, 1, ALLOC_OBJECTS, COUNT);
	value_type(b, 1, ALLOC_SPACE, BYTES);
	value_type(b, 1, INUSE_OBJECTS, COUNT);
	value_type(b, 1, INUSE_SPACE, BYTES);
}

static struct profile *import_message(const struct bytes *b)
{
	return import_ok(b->data, b->length);
}

/* The same stack three times: two object sizes that are one site, one tenant that is another. The
 * strings come last, as Go has it. */
TEST(test_go)
{
	struct bytes b = {.length = 0};
	uint64_t stack[] = {7, 3}; /* ids need not begin at 1 */
	int64_t v[] = {10, 1000, 4, 400}, w[] = {1, 50, 1, 50}, x[] = {2, 2, 2, 2};
	(void)state;
	go_types(&b);
	sample(&b, true, stack, 2, v, 4,
	       &(struct label){.key = BYTES, .value = 100, .unit = BYTES});
	sample(&b, false, stack, 2, w, 4,
	       &(struct label){.key = BYTES, .value = 50, .unit = BYTES});
	sample(&b, true, stack, 2, x, 4, &(struct label){.key = TENANT, .text = RED});
	location(&b, 7, 0, 0x1234, 2, 3); /* inner, inlined into leaf */
	location(&b, 3, 0, 0x2234, 1, 0);
	function(&b, 1, MAIN, FILE_C);
	function(&b, 2, INNER, FILE_C);
	function(&b, 3, LEAF, FILE_C);
	value_type(&b, 11, SPACE, BYTES);
	number(&b, 12, 524288);
	number(&b, 9, 1700000000000000000);
	strings(&b, table);
	struct profile *p = import_message(&b);
	assert_string_equal(p->run.format, "pprof");
	assert_int_equal(p->run.has, PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED);
	assert_int_equal(p->run.rate_bytes, 524288);
	assert_int_equal(p->run.start_unix_ns, 1700000000000000000);
	assert_int_equal(p->site_count, 2);
	const struct profile_site *s = &p->sites[0];
	assert_int_equal(s->allocations, 11);
	assert_int_equal(s->allocated_bytes, 1050);
	assert_int_equal(s->live_blocks, 5);
	assert_int_equal(s->live_bytes, 450);
	assert_int_equal(s->labels, PROFILE_NONE);
	assert_ptr_equal(site_of(p, "inner", "leaf"), s);
	const struct profile_node *leaf = &p->stacks.nodes[p->stacks.nodes[s->node].parent];
	assert_true(p->stacks.frames[p->stacks.nodes[s->node].frame].inlined);
	assert_false(p->stacks.frames[leaf->frame].inlined);
	assert_int_equal(p->stacks.frames[leaf->frame].line, 30);
	assert_string_equal(p->stacks.frames[p->stacks.nodes[leaf->parent].frame].function, "main");
	const struct profile_site *labelled = &p->sites[1];
	assert_int_equal(labelled->node, s->node);
	assert_int_equal(labelled->live_bytes, 2);
	assert_string_equal(p->label_sets[labelled->labels].words, "tenant=red");
	assert_string_equal(p->label_sets[labelled->labels].labels[0].text, "red");
	profile_drop_labels(p);
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->sites[0].live_bytes, 452);
	assert_int_equal(p->sites[0].allocations, 13);
	assert_int_equal(p->sites[0].labels, PROFILE_NONE);
	profile_free(p);
}

/* One sample type and no names, as jemalloc_pprof writes it: addresses by mapping. Two libraries at
 * the same offset stay two. */
TEST(test_unsymbolised)
{
	struct bytes b = {.length = 0}, m = {.length = 0};
	static const char *const names[] = {"",          "inuse_space", "bytes", "/no/lib",
					    "/no/other", "0a0b",        NULL};
	uint64_t one[] = {1, 3}, two[] = {2, 3};
	int64_t value = 77;
	(void)state;
	value_type(&b, 1, 1, 2);
	sample(&b, true, one, 2, &value, 1, NULL);
	sample(&b, true, two, 2, &value, 1, NULL);
	for (uint64_t i = 0; i < 2; i++) {
		number(&m, 1, i + 1);
		number(&m, 2, 0x7f0000000000 + i * 0x10000);
		number(&m, 3, 0x7f0000001000 + i * 0x10000);
		number(&m, 4, 0x2000);
		number(&m, 5, 3 + i);
		number(&m, 6, i ? 0 : 5);
		message(&b, 3, &m);
	}
	/* "everything, from 0": addresses are the file's own */
	number(&m, 1, 3);
	number(&m, 3, UINT64_MAX);
	number(&m, 5, 4);
	message(&b, 3, &m);
	location(&b, 1, 1, 0x7f0000000123, 0, 0);
	location(&b, 2, 2, 0x7f0000010123, 0, 0);
	location(&b, 3, 3, 0x456, 0, 0);
	strings(&b, names);
	struct profile *p = import_message(&b);
	assert_int_equal(p->run.has, PROFILE_HAS_LIVE | PROFILE_LACKS_BLOCKS);
	assert_int_equal(site_of(p, "lib+0x2123", "other+0x456")->live_bytes, 77);
	assert_int_equal(site_of(p, "other+0x2123", "other+0x456")->live_bytes, 77);
	const struct profile_frame *f =
		&p->stacks.frames[p->stacks.nodes[site_of(p, "lib+0x2123", NULL)->node].frame];
	assert_int_equal(p->stacks.modules[f->module].build_id_len, 2);
	assert_memory_equal(p->stacks.modules[f->module].build_id, "\x0a\x0b", 2);
	/* nothing was left behind by symbolising: two sites under one root */
	assert_int_equal(p->stacks.node_count, 3);
	profile_free(p);
}

/* A heft profile comes back: peak, lifetimes as sums, the function called, the command. */
TEST(test_heft_round)
{
	struct bytes b = {.length = 0};
	static const char *const names[] = {"",
					    "peak_space",
					    "bytes",
					    "alloc_objects",
					    "count",
					    "lifetime",
					    "nanoseconds",
					    "f",
					    "via",
					    "calloc",
					    "heft 0.1.0",
					    "command: ./a b",
					    "[stack unknown]",
					    NULL};
	uint64_t id = 1, none = 2;
	int64_t v[] = {900, 4, 400}, w[] = {1, 1, 1};
	(void)state;
	value_type(&b, 1, 1, 2);
	value_type(&b, 1, 3, 4);
	value_type(&b, 1, 5, 6);
	sample(&b, true, &id, 1, v, 3, &(struct label){.key = 8, .text = 9});
	sample(&b, true, &none, 1, w, 3, NULL);
	function(&b, 1, 7, 0);
	function(&b, 2, 12, 0);
	location(&b, 1, 0, 0, 1, 0);
	location(&b, 2, 0, 0, 2, 0);
	number(&b, 13, 10);
	number(&b, 13, 11);
	strings(&b, names);
	struct profile *p = import_message(&b);
	assert_int_equal(p->run.has,
			 PROFILE_HAS_PEAK | PROFILE_HAS_ALLOCATED | PROFILE_HAS_MEAN_LIFETIME);
	assert_int_equal(p->run.argc, 2);
	assert_string_equal(p->run.argv[0], "./a");
	const struct profile_site *s = site_of(p, "f", NULL);
	assert_int_equal(s->via, PROFILE_VIA_CALLOC);
	assert_int_equal(s->labels, PROFILE_NONE);
	assert_int_equal(s->peak_bytes, 900);
	assert_int_equal(s->lifetime.mean_ns, 100);
	assert_int_equal(p->sites[1].node, PROFILE_NONE);
	assert_int_equal(p->sites[1].via, PROFILE_VIA_MALLOC);
	profile_free(p);
}

static void bad_message(const struct bytes *b, const char *words)
{
	struct profile *p = NULL;
	struct heft_error err;
	assert_int_equal(import_bytes_with(&p, b->data, b->length, NULL, &err), HEFT_EFORMAT);
	if (!strstr(err.message, words))
		fail_msg("expected '%s': %s", words, err.message);
}

TEST(test_bad)
{
	struct bytes b = {.length = 0};
	uint64_t id = 1;
	int64_t v[] = {1, 1, 1, 1}, negative[] = {1, 1, -1, 1};
	(void)state;
	value_type(&b, 1, CPU, COUNT);
	strings(&b, table);
	bad_message(&b, "cpu/count");
	b.length = 0;
	go_types(&b);
	sample(&b, true, &id, 1, v, 4, NULL);
	strings(&b, table);
	bad_message(&b, "locations that are in the profile");
	b.length = 0;
	go_types(&b);
	sample(&b, true, &id, 0, v, 3, NULL);
	strings(&b, table);
	bad_message(&b, "one value for each sample type");
	b.length = 0;
	go_types(&b);
	sample(&b, true, &id, 0, negative, 4, NULL);
	strings(&b, table);
	bad_message(&b, "difference of two profiles");
	/* lengths that lie: of the message, and of a message within it */
	b.length = 0;
	go_types(&b);
	strings(&b, table);
	while (b.length < 5000) /* more than what formats are recognised by */
		bytes(&b, 6, "............................................", 40);
	size_t whole = b.length;
	varint(&b, 6 << 3 | 2);
	varint(&b, UINT64_MAX);
	bad_message(&b, "cut");
	b.length = whole - 1;
	bad_message(&b, "cut");
	b.length = 0;
	go_types(&b);
	strings(&b, table);
	bytes(&b, 4, "\x08\x01\x22\x7f", 4);
	bad_message(&b, "a location");
	/* indices of strings that are not there are empty names, not more */
	b.length = 0;
	go_types(&b);
	strings(&b, table);
	function(&b, 1, 1000000, 999);
	location(&b, 1, 55, 5, 1, 99);
	sample(&b, true, &id, 1, v, 4, NULL);
	struct profile *p = import_message(&b);
	assert_int_equal(site_of(p, "[unknown]", NULL)->live_bytes, 1);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
