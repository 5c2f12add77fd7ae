/* pprof, DHAT and Massif from the profile in export_fixture.h, read back by the rules of their
 * readers: protocol buffers by a decoder of the test's own, JSON by another library, Massif word for
 * word. */
#include "export_fixture.h"

#include <jansson.h>

/* ---- pprof */

struct field {
	uint32_t number;
	uint64_t value; /* or the length of data */
	const uint8_t *data;
};

struct cursor {
	const uint8_t *at, *end;
};

static uint64_t get_varint(struct cursor *c)
{
	uint64_t n = 0;
	for (unsigned shift = 0;; shift += 7) {
		assert_true(c->at < c->end && shift < 70);
		n |= (uint64_t)(*c->at & 0x7f) << (shift & 63);
		if (!(*c->at++ & 0x80))
			return n;
	}
}

static bool get_field(struct cursor *c, struct field *f)
{
	if (c->at == c->end)
		return false;
	uint64_t tag = get_varint(c);
	*f = (struct field){.number = (uint32_t)(tag >> 3)};
	f->value = get_varint(c);
	if ((tag & 7) == 2) {
		assert_true(f->value <= (uint64_t)(c->end - c->at));
		f->data = c->at;
		c->at += f->value;
	} else
		assert_int_equal(tag & 7, 0);
	return true;
}

static struct cursor whole(struct text t)
{
	return (struct cursor){(const uint8_t *)t.data, (const uint8_t *)t.data + t.length};
}

static struct cursor inside(const struct field *f)
{
	assert_non_null(f->data);
	return (struct cursor){f->data, f->data + f->value};
}

/* The nth field of that number in a message, counted from 0. */
static bool nth_field(struct cursor c, uint32_t number, uint32_t nth, struct field *f)
{
	while (get_field(&c, f))
		if (f->number == number && nth-- == 0)
			return true;
	return false;
}

static struct cursor message(struct text t, uint32_t number, uint32_t nth)
{
	struct field f;
	if (!nth_field(whole(t), number, nth, &f))
		fail_msg("no field %u number %u", number, nth);
	return inside(&f);
}

static uint64_t number_of(struct cursor c, uint32_t number)
{
	struct field f;
	return nth_field(c, number, 0, &f) ? f.value : 0;
}

static const char *string_at(struct text t, uint64_t index)
{
	static char text[4][512];
	static int turn;
	struct field f;
	char *to = text[turn++ & 3];
	if (!nth_field(whole(t), 6, (uint32_t)index, &f))
		fail_msg("no string %u", (unsigned)index);
	assert_true(f.value < sizeof text[0]);
	memcpy(to, f.data, f.value);
	to[f.value] = 0;
	return to;
}

static uint32_t count_of(struct text t, uint32_t number)
{
	struct cursor c = whole(t);
	struct field f;
	uint32_t n = 0;
	while (get_field(&c, &f))
		n += f.number == number;
	return n;
}

static void expect_packed(struct cursor m, uint32_t number, size_t count, const uint64_t *expected)
{
	struct field f;
	assert_true(nth_field(m, number, 0, &f));
	struct cursor c = inside(&f);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(get_varint(&c), expected[i]);
	assert_ptr_equal(c.at, c.end);
}

#define EXPECT_PACKED(m, number, ...)                                                              \
	expect_packed(m, number, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),             \
		      (uint64_t[]){__VA_ARGS__})

static void expect_type(struct text t, struct cursor m, const char *type, const char *unit)
{
	assert_string_equal(string_at(t, number_of(m, 1)), type);
	assert_string_equal(string_at(t, number_of(m, 2)), unit);
}

static void expect_line(struct text t, struct cursor location, uint32_t nth, const char *function,
			const char *file, uint64_t line)
{
	struct field f;
	assert_true(nth_field(location, 4, nth, &f));
	assert_int_equal(number_of(inside(&f), 2), line);
	struct cursor of = message(t, 5, (uint32_t)number_of(inside(&f), 1) - 1);
	assert_string_equal(string_at(t, number_of(of, 2)), function);
	assert_int_equal(number_of(of, 3), 0);
	assert_string_equal(string_at(t, number_of(of, 4)), file);
}

TEST(test_pprof)
{
	static const char *const types[] = {"alloc_objects",    "alloc_space",  "inuse_objects",
					    "inuse_space",      "peak_objects", "peak_space",
					    "temporary_objects"};
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	struct text t = gunzip(write_with(export_pprof, p, &o));
	assert_int_equal(count_of(t, 1), 7);
	for (uint32_t i = 0; i < 7; i++)
		expect_type(t, message(t, 1, i), types[i],
			    strstr(types[i], "space") ? "bytes" : "count");
	assert_string_equal(string_at(t, 0), "");
	assert_int_equal(count_of(t, 2), 4);
	/* A: g is inlined into f, so one place; B; C; D */
	EXPECT_PACKED(message(t, 2, 0), 1, 1, 2, 3);
	EXPECT_PACKED(message(t, 2, 0), 2, 5, 500, 1, 100, 3, 300, 1);
	EXPECT_PACKED(message(t, 2, 1), 1, 2, 3);
	EXPECT_PACKED(message(t, 2, 1), 2, 4, 60, 0, 0, 1, 100, 0);
	EXPECT_PACKED(message(t, 2, 2), 1, 4, 2, 3);
	EXPECT_PACKED(message(t, 2, 2), 2, 2, 7, 2, 7, 2, 7, 0);
	EXPECT_PACKED(message(t, 2, 3), 1, 5);
	EXPECT_PACKED(message(t, 2, 3), 2, 1, 10, 1, 10, 0, 0, 0);
	struct field f;
	assert_false(nth_field(message(t, 2, 0), 3, 0, &f)); /* malloc goes without saying */
	assert_true(nth_field(message(t, 2, 1), 3, 0, &f));
	assert_string_equal(string_at(t, number_of(inside(&f), 1)), "via");
	assert_string_equal(string_at(t, number_of(inside(&f), 2)), "realloc");
	/* the program first, though it was not the first module */
	assert_int_equal(count_of(t, 3), 2);
	struct cursor m = message(t, 3, 0);
	assert_int_equal(number_of(m, 1), 1);
	assert_int_equal(number_of(m, 2), 0);
	assert_true(number_of(m, 3) == UINT64_MAX);
	assert_string_equal(string_at(t, number_of(m, 5)), "/x/prog");
	assert_string_equal(string_at(t, number_of(m, 6)), "ab0c");
	for (uint32_t i = 7; i <= 10; i++)
		assert_int_equal(number_of(m, i), 1);
	m = message(t, 3, 1);
	assert_int_equal(number_of(m, 1), 2);
	assert_string_equal(string_at(t, number_of(m, 5)), "/lib/libc.so.6");
	assert_string_equal(string_at(t, number_of(m, 6)), "");
	/* places and functions */
	assert_int_equal(count_of(t, 4), 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(number_of(message(t, 4, i), 1), i + 1);
	assert_int_equal(number_of(message(t, 4, 0), 2), 1);
	assert_int_equal(number_of(message(t, 4, 0), 3), 0x1005);
	expect_line(t, message(t, 4, 0), 0, "g", "a.h", 3);
	expect_line(t, message(t, 4, 0), 1, "f", "a.c", 5);
	assert_false(nth_field(message(t, 4, 0), 4, 2, &f));
	expect_line(t, message(t, 4, 1), 0, "main", "a.c", 10);
	expect_line(t, message(t, 4, 2), 0, "start", "", 0);
	assert_int_equal(number_of(message(t, 4, 2), 2), 2);
	expect_line(t, message(t, 4, 3), 0, "h{closure#0}\\x0a\\x1b[31m\\xff; \"</script>", "", 0);
	expect_line(t, message(t, 4, 4), 0, "[stack unknown]", "", 0);
	assert_int_equal(number_of(message(t, 4, 4), 2), 0);
	for (uint32_t i = 0; i < count_of(t, 5); i++)
		assert_int_equal(number_of(message(t, 5, i), 1), i + 1);
	/* about it */
	assert_int_equal(number_of(whole(t), 9), 1700000000010000000);
	assert_int_equal(count_of(t, 10), 0);
	expect_type(t, message(t, 11, 0), "space", "bytes");
	assert_int_equal(number_of(whole(t), 12), 1);
	assert_string_equal(string_at(t, number_of(whole(t), 14)), "peak_space");
	assert_true(nth_field(whole(t), 13, 1, &f));
	assert_string_equal(string_at(t, f.value), "command: /x/prog a\\x0a#b");
	free(t.data);
	profile_free(p);
}

TEST(test_pprof_raw_and_absent)
{
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_LIVE_BYTES, .raw = true};
	struct field f;
	p->run.has = PROFILE_HAS_LIVE;
	p->run.rate_bytes = 524288;
	struct text t = gunzip(write_with(export_pprof, p, &o));
	assert_int_equal(count_of(t, 1), 2);
	expect_type(t, message(t, 1, 0), "inuse_objects", "count");
	expect_type(t, message(t, 1, 1), "inuse_space", "bytes");
	assert_int_equal(count_of(t, 2), 3); /* B has nothing live */
	assert_int_equal(number_of(whole(t), 12), 524288);
	assert_string_equal(string_at(t, number_of(whole(t), 14)), "inuse_space");
	for (uint32_t i = 0; i < 4; i++)
		assert_false(nth_field(message(t, 4, i), 4, 0, &f));
	expect_line(t, message(t, 4, 4), 0, "[stack unknown]", "", 0); /* who else would know */
	assert_int_equal(number_of(message(t, 3, 0), 7), 0);
	assert_string_equal(string_at(t, number_of(message(t, 3, 0), 6)), "ab0c");
	assert_int_equal(count_of(t, 5), 1);
	free(t.data);
	/* Every measure names the type to show. */
	static const struct {
		enum measure_id measure;
		const char *type;
	} shown[] = {
		{MEASURE_PEAK_BYTES, "peak_space"},       {MEASURE_LIVE_BYTES, "inuse_space"},
		{MEASURE_ALLOCATED_BYTES, "alloc_space"}, {MEASURE_ALLOCATIONS, "alloc_objects"},
		{MEASURE_TEMPORARY, "temporary_objects"}, {MEASURE_LIFETIME, "lifetime"}};
	p->run.has = PROFILE_HAS_ALL;
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		o = (struct export_options){.measure = shown[i].measure};
		t = gunzip(write_with(export_pprof, p, &o));
		assert_string_equal(string_at(t, number_of(whole(t), 14)), shown[i].type);
		free(t.data);
	}
	profile_free(p);
}

TEST(test_pprof_program_and_addresses)
{
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	/* A place has the address of its innermost frame. */
	p->stacks.frames[p->stacks.nodes[p->sites[0].node].frame].address = 0x1007;
	/* The program is named, and no frame is in it. */
	struct profile_process process = {.pid = 77, .exe = name_pool_add(p->names, "/x/other")};
	uint32_t id;
	assert_int_equal(profile_add_process(p, &process, &id), 0);
	p->run.argc = 0;
	struct text t = gunzip(write_with(export_pprof, p, &o));
	assert_int_equal(number_of(message(t, 4, 0), 3), 0x1007);
	assert_int_equal(number_of(message(t, 4, 1), 3), 0x1010);
	assert_int_equal(count_of(t, 3), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(number_of(message(t, 3, i), 1), i + 1);
	assert_string_equal(string_at(t, number_of(message(t, 3, 0), 5)), "/x/other");
	assert_string_equal(string_at(t, number_of(message(t, 3, 1), 5)), "/x/prog");
	assert_int_equal(number_of(message(t, 4, 0), 2), 2);
	free(t.data);
	profile_free(p);
}

/* What may be hidden: no name that has a frame of the user's own beneath it anywhere, and of the others
 * the outermost of each stack; as pprof compares it, up to the parameters. */
TEST(test_pprof_drop_frames)
{
	struct profile *p = profile_new();
	uint32_t libc, program;
	profile_add_module(p, "/lib/libc.so.6", NULL, 0, &libc);
	profile_add_module(p, "/x/prog", NULL, 0, &program);
#define OWN(function) frame(p, function, "a.cc", 3, program, 0, false)
#define LIBRARY(function) frame(p, function, NULL, 0, libc, 0, false)
	uint32_t start = node(p, PROFILE_NONE, LIBRARY("_start"));
	uint32_t main_ = node(p, start, OWN("main"));
	uint32_t push = node(p, main_, LIBRARY("std::vector<Row>::push_back(Row const&)"));
	uint32_t copy = node(p, push, OWN("Row::Row(Row const&)"));
	FILL(site(p, node(p, copy, LIBRARY("operator new[](unsigned long)")), 0), .peak_bytes = 9);
	uint32_t more = node(p, push, LIBRARY("std::(anonymous namespace)::more(int)"));
	FILL(site(p, node(p, more, LIBRARY("operator new(unsigned long)")), 0), .peak_bytes = 8);
	uint32_t number = node(p, main_, LIBRARY("std::vector<int>::push_back(int&&)"));
	FILL(site(p, node(p, number, LIBRARY("operator new(unsigned long)")), 0), .peak_bytes = 7);
	/* Called by no one of the user's: nothing to show instead. */
	FILL(site(p, node(p, start, LIBRARY("setlocale")), 0), .peak_bytes = 6);
	/* One name, two overloads, one of them with a user's function beneath it. */
	uint32_t each = node(p, main_, LIBRARY("std::each(void (*)())"));
	FILL(site(p, node(p, each, OWN("called_back")), 0), .peak_bytes = 5);
	FILL(site(p, node(p, main_, LIBRARY("std::each(int)")), 0), .peak_bytes = 4);
#undef OWN
#undef LIBRARY
	profile_finish_sites(p);
	add_up(p);
	struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	struct text t = gunzip(write_with(export_pprof, p, &o));
	assert_string_equal(string_at(t, number_of(whole(t), 7)),
			    "operator new\\[\\]|std::\\(anonymous namespace\\)::more|"
			    "std::vector<int>::push_back");
	free(t.data);
	for (int raw = 0; raw < 2; raw++) {
		o = (struct export_options){.raw = raw, .full = !raw};
		t = gunzip(write_with(export_pprof, p, &o));
		assert_int_equal(number_of(whole(t), 7), 0);
		free(t.data);
	}
	profile_free(p);
}

/* ---- DHAT */

static long long number_in(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!json_is_integer(value))
		fail_msg("%s is no integer", key);
	return json_integer_value(value);
}

static json_t *write_dhat(const struct profile *p)
{
	json_error_t why;
	struct text t = write_with(export_dhat, p, &(struct export_options){0});
	json_t *j = json_loads(t.data, JSON_REJECT_DUPLICATES, &why);
	if (!j)
		fail_msg("line %d: %s in %s", why.line, why.text, t.data);
	free(t.data);
	return j;
}

static void expect_point(json_t *j, size_t nth, const char *expected)
{
	json_t *point = json_array_get(json_object_get(j, "pps"), nth);
	char *text = json_dumps(point, JSON_SORT_KEYS | JSON_COMPACT);
	assert_string_equal(text, expected);
	free(text);
}

TEST(test_dhat)
{
	struct profile *p = by_hand();
	json_t *j = write_dhat(p);
	assert_int_equal(number_in(j, "dhatFileVersion"), 2);
	assert_int_equal(number_in(j, "te"), 10000);
	assert_int_equal(number_in(j, "tg"), 3000);
	assert_int_equal(number_in(j, "tuth"), 500);
	assert_int_equal(number_in(j, "pid"), 77);
	assert_true(json_is_true(json_object_get(j, "bklt")));
	assert_true(json_is_false(json_object_get(j, "bkacc")));
	assert_string_equal(json_string_value(json_object_get(j, "tu")), "\xc2\xb5s");
	assert_string_equal(json_string_value(json_object_get(j, "cmd")), "/x/prog a\n#b");
	assert_int_equal(json_array_size(json_object_get(j, "pps")), 4);
	/* lifetimes: 5 blocks of 2 ms */
	expect_point(j, 0,
		     "{\"eb\":100,\"ebk\":1,\"fs\":[1,2,3,4,5],\"gb\":300,\"gbk\":3,\"mb\":300,"
		     "\"mbk\":3,\"tb\":500,\"tbk\":5,\"tl\":10000}");
	/* a realloc is a block of its new size; its own peak is two blocks of the mean size, 60 */
	expect_point(j, 1,
		     "{\"eb\":0,\"ebk\":0,\"fs\":[6,4,5],\"gb\":100,\"gbk\":1,\"mb\":110,"
		     "\"mbk\":2,\"tb\":240,\"tbk\":4,\"tl\":2}");
	expect_point(j, 2,
		     "{\"eb\":7,\"ebk\":2,\"fs\":[7,8,4,5],\"gb\":7,\"gbk\":2,\"mb\":7,"
		     "\"mbk\":2,\"tb\":7,\"tbk\":2,\"tl\":18000}");
	expect_point(j, 3,
		     "{\"eb\":10,\"ebk\":1,\"fs\":[1,9],\"gb\":0,\"gbk\":0,\"mb\":10,"
		     "\"mbk\":1,\"tb\":10,\"tbk\":1,\"tl\":1000}");
	static const char *const table[] = {
		"[root]",
		"malloc",
		"0x1005: g (a.h:3)",
		"0x1005: f (a.c:5)",
		"0x1010: main (a.c:10)",
		"0x9000: start (in /lib/libc.so.6)",
		"realloc",
		"calloc",
		"0x1020: h{closure#0}\n\033[31m\xef\xbf\xbd; \"</script> (in /x/prog)",
		"[stack unknown]",
	};
	json_t *names = json_object_get(j, "ftbl");
	assert_int_equal(json_array_size(names), sizeof table / sizeof *table);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		assert_string_equal(json_string_value(json_array_get(names, i)), table[i]);
	json_decref(j);
	/* What is live is all that some files tell. */
	p->run.has = PROFILE_HAS_LIVE;
	j = write_dhat(p);
	assert_true(json_is_false(json_object_get(j, "bklt")));
	assert_null(json_object_get(j, "tg"));
	expect_point(j, 0, "{\"fs\":[1,2,3,4,5],\"tb\":100,\"tbk\":1}");
	json_decref(j);
	p->run.has = PROFILE_HAS_ALL & ~(uint32_t)PROFILE_HAS_LIFETIMES;
	j = write_dhat(p);
	expect_point(j, 3,
		     "{\"eb\":10,\"ebk\":1,\"fs\":[1,9],\"gb\":0,\"gbk\":0,\"mb\":10,"
		     "\"mbk\":1,\"tb\":10,\"tbk\":1}");
	json_decref(j);
	profile_free(p);
}

/* ---- Massif */

#define MASSIF_HEAD "desc: heft " HEFT_VERSION "\ncmd: /x/prog a\\x0a:b\ntime_unit: ms\n"
#define MASSIF_SNAPSHOT(n, time, bytes, tree)                                                      \
	"#-----------\nsnapshot=" n "\n#-----------\ntime=" time "\nmem_heap_B=" bytes             \
	"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=" tree "\n"
#define MASSIF_TOP " (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"
#define MASSIF_PEAK                                                                                \
	"n3: 407" MASSIF_TOP " n1: 300 0x1005: g (a.h:3)\n"                                        \
	"  n1: 300 0x1005: f (a.c:5)\n"                                                            \
	"   n1: 300 0x1010: main (a.c:10)\n"                                                       \
	"    n0: 300 0x9000: start (in /lib/libc.so.6)\n"                                          \
	" n1: 100 0x1010: main (a.c:10)\n"                                                         \
	"  n0: 100 0x9000: start (in /lib/libc.so.6)\n"                                            \
	" n1: 7 0x1020: h{closure:0}\\x0a\\x1b[31m\\xff; \"</script> (in /x/prog)\n"               \
	"  n1: 7 0x1010: main (a.c:10)\n"                                                          \
	"   n0: 7 0x9000: start (in /lib/libc.so.6)\n"
#define MASSIF_END                                                                                 \
	"n3: 117" MASSIF_TOP " n1: 100 0x1005: g (a.h:3)\n"                                        \
	"  n1: 100 0x1005: f (a.c:5)\n"                                                            \
	"   n1: 100 0x1010: main (a.c:10)\n"                                                       \
	"    n0: 100 0x9000: start (in /lib/libc.so.6)\n"                                          \
	" n0: 10 0x0: [stack unknown]\n"                                                           \
	" n1: 7 0x1020: h{closure:0}\\x0a\\x1b[31m\\xff; \"</script> (in /x/prog)\n"               \
	"  n1: 7 0x1010: main (a.c:10)\n"                                                          \
	"   n0: 7 0x9000: start (in /lib/libc.so.6)\n"

static void expect_massif(const struct profile *p, const struct export_options *o,
			  const char *expected)
{
	struct text t = write_with(export_massif, p, o);
	assert_string_equal(t.data, expected);
	free(t.data);
}

TEST(test_massif)
{
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	expect_massif(p, &o,
		      MASSIF_HEAD MASSIF_SNAPSHOT("0", "0.000", "0", "empty")
			      MASSIF_SNAPSHOT("1", "3.000", "407", "peak")
				      MASSIF_PEAK MASSIF_SNAPSHOT("2", "10.000", "117", "detailed")
					      MASSIF_END);
	/* Without times it is one instant. */
	p->run.has &= ~(uint32_t)PROFILE_HAS_TIMES;
	expect_massif(p, &o, MASSIF_HEAD MASSIF_SNAPSHOT("0", "0.000", "407", "peak") MASSIF_PEAK);
	o.measure = MEASURE_LIVE_BYTES;
	expect_massif(p, &o, MASSIF_HEAD MASSIF_SNAPSHOT("0", "0.000", "117", "peak") MASSIF_END);
	profile_free(p);
}

static uint64_t *slots(const uint64_t *values)
{
	uint64_t *copy = malloc(10 * sizeof *copy);
	memcpy(copy, values, 10 * sizeof *copy);
	return copy;
}

static void add_history(struct profile *p)
{
	/* every ms; the peak is between two of them */
	static const uint64_t all[] = {50, 200, 390, 300, 300, 300, 300, 300, 300, 120};
	static const uint64_t row[] = {0, 150, 300, 290, 290, 290, 290, 290, 290, 100};
	struct profile_history *h = &p->behaviour.history;
	p->totals.peak_time_ns = 2500000;
	h->slot_ns = 1000000;
	h->slot_count = 10;
	h->bytes = slots(all);
	h->blocks = slots(all);
	h->rows = calloc(2, sizeof *h->rows);
	h->rows[0] = (struct profile_history_row){0, 1, slots(row), slots(row)};
	h->row_count = 1;
	p->run.duration_ns = p->chosen.to_ns = 10500000;
	profile_link_behaviour(p);
}

TEST(test_massif_history)
{
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_PEAK_BYTES};
	add_history(p);
	expect_massif(
		p, &o,
		MASSIF_HEAD MASSIF_SNAPSHOT("0", "0.000", "0", "empty") MASSIF_SNAPSHOT(
			"1", "1.000", "50", "empty") MASSIF_SNAPSHOT("2", "2.000", "200", "empty")
			MASSIF_SNAPSHOT("3", "2.500", "407", "peak") MASSIF_PEAK MASSIF_SNAPSHOT(
				"4", "3.000", "390", "empty") MASSIF_SNAPSHOT("5", "4.000", "300",
									      "empty")
				MASSIF_SNAPSHOT("6", "5.000", "300", "empty") MASSIF_SNAPSHOT(
					"7", "6.000", "300",
					"empty") MASSIF_SNAPSHOT("8", "7.000", "300", "empty")
					MASSIF_SNAPSHOT("9", "8.000", "300", "empty")
						MASSIF_SNAPSHOT("10", "9.000", "300", "empty")
							MASSIF_SNAPSHOT("11", "10.000", "120",
									"detailed")
		/* the one site with a history, and 20 bytes of three without */
		"n2: 120" MASSIF_TOP " n1: 100 0x1005: g (a.h:3)\n"
		"  n1: 100 0x1005: f (a.c:5)\n"
		"   n1: 100 0x1010: main (a.c:10)\n"
		"    n0: 100 0x9000: start (in /lib/libc.so.6)\n"
		" n0: 20 in 3 places, all below massif's threshold (1.00%)\n" MASSIF_SNAPSHOT(
			"12", "10.500", "117", "detailed") MASSIF_END);
	profile_free(p);
}

/* The history says nothing about a part of the run; if sites are selected, it is that of these sites. */
TEST(test_massif_of_a_part)
{
	struct profile *p = by_hand();
	struct export_options o = {.measure = MEASURE_PEAK_BYTES, .focus = "g"};
	add_history(p);
	struct text t = write_with(export_massif, p, &o);
	assert_non_null(strstr(t.data, "time=9.000\nmem_heap_B=290\n"));
	assert_non_null(strstr(t.data, "time=10.000\nmem_heap_B=100\nmem_heap_extra_B=0\n"
				       "mem_stacks_B=0\nheap_tree=detailed\nn1: 100"));
	free(t.data);
	o.focus = NULL;
	p->chosen.words = "from 0.001000 s to 0.005000 s";
	p->chosen.from_ns = 1000000;
	p->chosen.to_ns = 5000000;
	p->totals.start_bytes = 55;
	expect_massif(p, &o,
		      MASSIF_HEAD MASSIF_SNAPSHOT("0", "1.000", "55", "empty")
			      MASSIF_SNAPSHOT("1", "2.500", "407", "peak")
				      MASSIF_PEAK MASSIF_SNAPSHOT("2", "5.000", "117", "detailed")
					      MASSIF_END);
	p->chosen.to_ns = p->chosen.from_ns; /* an instant */
	o.measure = MEASURE_LIVE_BYTES;
	expect_massif(p, &o, MASSIF_HEAD MASSIF_SNAPSHOT("0", "1.000", "117", "peak") MASSIF_END);
	profile_free(p);
}

TEST(test_massif_small_and_deep)
{
	struct profile *p = profile_new();
	uint32_t deep = PROFILE_NONE;
	for (uint32_t i = 0; i < 300; i++)
		deep = node(p, deep, frame(p, "deep", "d.c", i + 1, PROFILE_NONE, i, false));
	FILL(site(p, deep, 0), .peak_bytes = 5000, .peak_blocks = 1);
	for (uint32_t i = 0; i < 3; i++) /* 4 of 5,012 bytes are less than a thousandth */
		FILL(site(p,
			  node(p, PROFILE_NONE,
			       frame(p, "s", "s.c", i + 1, PROFILE_NONE, 1, false)),
			  0),
		     .peak_bytes = 4, .peak_blocks = 1);
	profile_finish_sites(p);
	p->run.has = PROFILE_HAS_PEAK;
	struct text t = write_with(export_massif, p, &(struct export_options){0});
	assert_non_null(strstr(t.data, "\nn2: 5012 (heap"));
	assert_non_null(strstr(t.data, "\n n1: 5000 0x12B: deep (d.c:300)\n"));
	assert_non_null(
		strstr(t.data, "\n n0: 12 in 3 places, all below massif's threshold (0.10%)\n"));
	size_t deepest = 0;
	for (const char *line = t.data; (line = strchr(line, '\n'));)
		if (strspn(++line, " ") > deepest)
			deepest = strspn(line, " ");
	assert_int_equal(deepest, 201); /* 200 frames, and what says that there are more */
	assert_non_null(strstr(t.data, " n1: 5000 0x64: deep (d.c:101)\n"));
	assert_non_null(strstr(t.data, " n0: 5000 0x0: [frames cut]\n"));
	free(t.data);
	profile_free(p);
}

TEST(test_nothing)
{
	struct profile *p = profile_new();
	p->run.has = PROFILE_HAS_ALL;
	struct text t = gunzip(write_with(export_pprof, p, &(struct export_options){0}));
	assert_int_equal(count_of(t, 2), 0);
	assert_true(number_of(whole(t), 9) > 1700000000000000000); /* it has to be there */
	free(t.data);
	json_t *j = write_dhat(p);
	assert_int_equal(json_array_size(json_object_get(j, "pps")), 0);
	assert_int_equal(json_array_size(json_object_get(j, "ftbl")), 1);
	json_decref(j);
	t = write_with(export_massif, p, &(struct export_options){0});
	assert_non_null(strstr(t.data, "\nn0: 0 (heap allocation functions)"));
	free(t.data);
	profile_free(p);
}

UNIT_TESTS(NULL, NULL)
