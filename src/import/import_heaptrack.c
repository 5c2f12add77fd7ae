/* heaptrack's files, text of one letter a line and lower-case hexadecimal numbers:
 * the interpreted one that heaptrack_print reads, and the raw one (heaptrack --raw)
 * that has addresses and mappings where the other has names.
 *
 *   v 10400 3          version       s 4 main           string, from 1
 *   x 4 /a/b           raw: program  i 55aa 1 2 3 c     address, module, function, file, line ...
 *   X ./b              command       t 1 0              frame (or raw: address) under trace, from 1
 *   I 1000 5e29        page size     a 64 3             a size at a trace, from 0
 *   m 1 x 55aa 0 7c8   raw: module   + 0    - 0         one of these is made, is freed
 *   c ef               time, ms      + 64 3 55bb  - 55bb     the same in a raw file
 *   R 836              resident pages
 *
 * Files have hundreds of millions of lines, nearly all of them + and -, so these are read
 * where they stand, without looking for the end of the line first, and all sums are made
 * in one pass (heaptrack_sums.h). heaptrack counts a realloc as a free and an allocation,
 * and so does this. What single blocks did is lost in an interpreted file; a raw one has
 * their addresses, and so mean lifetimes, as exact as its clock of 10 ms.
 *
 * Invariants: every index in the file is checked against what was defined before it, so
 * a trace's parent is a smaller number and no walk can be endless. */
#include "import/import_formats.h"
#include "import/address_maps.h"
#include "import/heaptrack_blocks.h"
#include "import/heaptrack_sums.h"
#include "import/import_sites.h"
#include "import/import_source.h"
#include "import/text_scan.h"
#include "symbol/symbol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_DEFINED = 1 << 26, /* of each kind */
	NEWEST_VERSION = 3,
};
/* Equal lines compress very well, and a file is mostly equal lines. */
#define MAX_RATIO 20000

struct heaptrack_ip {
	uint64_t address;
	uint32_t module;             /* string */
	uint32_t first, frame_count; /* in words: function, file, line of each, innermost first */
};

struct heaptrack_size {
	uint64_t size;
	uint32_t trace;
};

struct heaptrack_trace {
	uint32_t parent; /* 0: none */
	uint32_t ip;
};

struct array {
	void *items;
	uint32_t count, capacity;
};

struct heaptrack_file {
	struct profile *p;
	struct import_source *in;
	struct heft_error *err;
	struct array strings; /* const char *; names of the profile */
	struct array ips;     /* heaptrack_ip */
	struct array words;   /* uint32_t */
	struct array traces;  /* heaptrack_trace; of a raw file: address_node */
	struct array sizes;   /* heaptrack_size */
	struct heaptrack_sums sums;
	struct address_maps maps;
	struct heaptrack_blocks blocks;
	uint64_t
		last_made; /* index or address that the last + was about, if nothing came after it */
	uint64_t unknown_frees, events, page_bytes, peak_pages;
	uint64_t version;
	const char *exe;
	bool raw, attached;
	bool heft; /* made by heft: its stacks begin at the caller already */
};

#define NO_LAST UINT64_MAX

static const char by_heft[] = "# made from sums by heft"; /* export_heaptrack.c writes it */

bool import_heaptrack_recognise(const uint8_t *head, size_t length)
{
	/* "v 10400 3": both numbers are hexadecimal; the second is missing in the oldest files. */
	size_t at = 2;
	if (length < 4 || head[0] != 'v' || head[1] != ' ')
		return false;
	while (at < length && at < 40 && (head[at] == ' ' || scan_digit((char)head[at]) >= 0))
		at++;
	return at > 2 && at < length && head[at] == '\n';
}

static int bad_line(struct heaptrack_file *f, const void *line, const char *what)
{
	return import_fail(f->in, import_source_offset(f->in, line), f->err, "expected %s", what);
}

/* Room for one more; NULL: too many, or no memory. */
static void *push(struct array *a, size_t element)
{
	if (a->count == a->capacity) {
		uint32_t capacity = a->capacity ? a->capacity * 2 : 256;
		if (capacity > MAX_DEFINED)
			return NULL;
		void *items = realloc(a->items, (size_t)capacity * element);
		if (!items)
			return NULL;
		a->items = items;
		a->capacity = capacity;
	}
	return (char *)a->items + (size_t)a->count++ * element;
}

/* Blanks, then a number. */
static bool next_hex(const char **at, uint64_t *value)
{
	scan_blanks(at);
	return scan_hex(at, value);
}

/* "<length> <bytes>", or in files before version 3 what goes up to the next blank or the end. */
static bool next_string(const struct heaptrack_file *f, const char **at, const char *end, bool line,
			const char **string, size_t *length)
{
	scan_blanks(at);
	if (f->version < 3) {
		*string = *at;
		*length = line ? (size_t)(end - *at) : strcspn(*at, " ");
		*at += *length;
		return *length > 0;
	}
	uint64_t n;
	if (!scan_hex(at, &n) || !scan_one(at, ' ') || n > (uint64_t)(end - *at))
		return false;
	*string = *at;
	*length = (size_t)n;
	*at += n;
	return true;
}

static int read_string(struct heaptrack_file *f, const char *line, const char *end)
{
	const char *at = line + 1, *string;
	size_t length;
	if (!next_string(f, &at, end, true, &string, &length))
		return bad_line(f, line, "'s LENGTH TEXT'");
	const char **to = push(&f->strings, sizeof *to);
	if (!to || !(*to = name_pool_add_n(f->p->names, string, length)))
		return HEFT_ENOMEM;
	return 0;
}

static int read_ip(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	struct heaptrack_ip ip = {.first = f->words.count};
	uint64_t n[3], module;
	if (!next_hex(&at, &ip.address) || !next_hex(&at, &module) || module > f->strings.count)
		return bad_line(f, line, "'i ADDRESS MODULE [FUNCTION FILE LINE]...'");
	ip.module = (uint32_t)module;
	while (next_hex(&at, &n[0])) {
		n[1] = n[2] = 0;
		if (next_hex(&at, &n[1]) && !next_hex(&at, &n[2]))
			n[1] = 0;
		if (n[0] > f->strings.count || n[1] > f->strings.count || n[2] > UINT32_MAX)
			return bad_line(f, line, "strings that were defined before");
		for (int i = 0; i < 3; i++) {
			uint32_t *word = push(&f->words, sizeof *word);
			if (!word)
				return HEFT_ENOMEM;
			*word = (uint32_t)n[i];
		}
		ip.frame_count++;
	}
	struct heaptrack_ip *to = push(&f->ips, sizeof *to);
	if (!to)
		return HEFT_ENOMEM;
	*to = ip;
	return 0;
}

static int more_sums(struct heaptrack_file *f)
{
	struct heaptrack_sums *s = &f->sums;
	if (s->count == s->capacity) {
		uint32_t capacity = s->capacity ? s->capacity * 2 : 256;
		struct heaptrack_sum *traces =
			realloc(s->traces, (size_t)capacity * sizeof *traces);
		if (!traces)
			return HEFT_ENOMEM;
		s->traces = traces;
		s->capacity = capacity;
	}
	s->traces[s->count++] = (struct heaptrack_sum){.epoch = s->epoch};
	return 0;
}

static int read_trace(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t what, parent;
	if (!next_hex(&at, &what) || !next_hex(&at, &parent) || parent > f->traces.count)
		return bad_line(f, line, "'t', a frame and a trace that was defined before");
	if (f->raw) {
		struct address_node *to = push(&f->traces, sizeof *to);
		if (!to)
			return HEFT_ENOMEM;
		to->parent = parent ? (uint32_t)parent - 1 : PROFILE_NONE;
		if (address_maps_find(&f->maps, f->p, what, &to->module, &to->address) < 0)
			return HEFT_ENOMEM;
	} else {
		if (what > f->ips.count)
			return bad_line(f, line, "an instruction ('i') that was defined before");
		struct heaptrack_trace *to = push(&f->traces, sizeof *to);
		if (!to)
			return HEFT_ENOMEM;
		*to = (struct heaptrack_trace){(uint32_t)parent, (uint32_t)what};
	}
	return more_sums(f);
}

static int read_size(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t size, trace;
	if (!next_hex(&at, &size) || !next_hex(&at, &trace) || trace > f->traces.count ||
	    size > (uint64_t)1 << 56)
		return bad_line(f, line, "'a SIZE TRACE' with a trace that was defined before");
	struct heaptrack_size *to = push(&f->sizes, sizeof *to);
	if (!to)
		return HEFT_ENOMEM;
	*to = (struct heaptrack_size){size, (uint32_t)trace};
	return 0;
}

/* The first 'x' or 'm' says so, before anything that the two kinds of files hold differently. */
static int set_raw(struct heaptrack_file *f, const char *line)
{
	if (!f->raw && (f->traces.count || f->ips.count || f->sizes.count || f->events))
		return bad_line(f, line, "a line of an interpreted file, as those before it");
	f->raw = true;
	return 0;
}

static int read_module(struct heaptrack_file *f, const char *line, const char *end)
{
	const char *at = line + 1, *path;
	size_t length;
	uint64_t base, address, bytes;
	if (set_raw(f, line) < 0)
		return HEFT_EFORMAT;
	if (!next_string(f, &at, end, false, &path, &length))
		return bad_line(f, line, "'m LENGTH PATH ADDRESS [OFFSET LENGTH]...'");
	if (length == 1 && *path == '-') {
		address_maps_clear(&f->maps);
		return 0;
	}
	struct address_range r = {.biased = true};
	r.path = length == 1 && *path == 'x' && f->exe ? f->exe
						       : name_pool_add_n(f->p->names, path, length);
	if (!r.path)
		return HEFT_ENOMEM;
	if (!next_hex(&at, &base))
		return bad_line(f, line, "'m LENGTH PATH ADDRESS [OFFSET LENGTH]...'");
	while (next_hex(&at, &address) && next_hex(&at, &bytes)) {
		r.slide = base;
		r.start = base + address;
		r.end = r.start + bytes;
		int rc = address_maps_add(&f->maps, &r);
		if (rc == HEFT_EFORMAT)
			return bad_line(f, line, "fewer modules");
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int read_time(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t ms;
	if (!next_hex(&at, &ms) || ms > UINT32_MAX)
		return bad_line(f, line, "'c MILLISECONDS'");
	if (ms > f->sums.now_ms)
		f->sums.now_ms = (uint32_t)ms;
	return 0;
}

static int read_version(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t heaptrack;
	if (!next_hex(&at, &heaptrack))
		return bad_line(f, line, "'v VERSION FORMAT'");
	if (!next_hex(&at, &f->version))
		f->version = heaptrack == 0x010200 ? 1 : 0;
	if (f->version < 1 || f->version > NEWEST_VERSION)
		return import_fail(f->in, import_source_offset(f->in, line), f->err,
				   "expected heaptrack's file format 1 to %d, not %" PRIu64,
				   NEWEST_VERSION, f->version);
	return 0;
}

/* Every line but + and -; `end` is its NUL. */
static int read_definition(struct heaptrack_file *f, char *line, char *end)
{
	const char *at = line + 1, *string;
	uint64_t n;
	size_t length;
	switch (*line) {
	case 's':
		return read_string(f, line, end);
	case 'i':
		return read_ip(f, line);
	case 't':
		return read_trace(f, line);
	case 'a':
		return read_size(f, line);
	case 'c':
		return read_time(f, line);
	case 'm':
		return read_module(f, line, end);
	case 'v':
		return read_version(f, line);
	case 'R':
		if (next_hex(&at, &n) && n > f->peak_pages)
			f->peak_pages = n;
		return 0;
	case 'I':
		next_hex(&at, &f->page_bytes);
		return 0;
	case 'x':
		if (set_raw(f, line) < 0)
			return HEFT_EFORMAT;
		if (!next_string(f, &at, end, true, &string, &length))
			return bad_line(f, line, "'x LENGTH PATH'");
		f->exe = name_pool_add_n(f->p->names, string, length);
		return f->exe ? 0 : HEFT_ENOMEM;
	case 'X':
		scan_blanks(&at);
		return import_set_command(f->p, at, (size_t)(end - at));
	case 'A':
		f->attached = true;
		return 0;
	case '#':
		f->heft |= strncmp(line, by_heft, strlen(by_heft)) == 0;
		return 0;
	case 'S': /* suppressed leaks are leaks here */
	case 0:
		return 0;
	default:
		return bad_line(f, line, "a line of a heaptrack file");
	}
}

static int read_raw_event(struct heaptrack_file *f, const char *line)
{
	struct heaptrack_block b = {.birth_ms = f->sums.now_ms}, was;
	const char *at = line + 1;
	uint64_t trace;
	if (*line == '-') {
		if (!next_hex(&at, &b.address))
			return bad_line(f, line, "'- ADDRESS'");
		bool temporary = f->last_made == b.address;
		f->last_made = NO_LAST;
		if (!heaptrack_blocks_take(&f->blocks, b.address, &was)) {
			f->unknown_frees += b.address != 0;
			return 0;
		}
		heaptrack_sums_free(&f->sums, was.trace, was.size, temporary);
		struct heaptrack_sum *t = &f->sums.traces[was.trace];
		uint32_t ms = f->sums.now_ms - was.birth_ms;
		t->lifetime_ms += ms;
		if (ms > t->longest_ms)
			t->longest_ms = ms;
		return 0;
	}
	if (!next_hex(&at, &b.size) || !next_hex(&at, &trace) || !next_hex(&at, &b.address) ||
	    !b.address || trace > f->traces.count || b.size > (uint64_t)1 << 56)
		return bad_line(f, line,
				"'+ SIZE TRACE ADDRESS' with a trace that was defined before");
	b.trace = (uint32_t)trace;
	int rc = heaptrack_blocks_put(&f->blocks, &b, &was);
	if (rc == HEFT_EFORMAT)
		return bad_line(f, line, "fewer live blocks");
	if (rc < 0)
		return rc;
	if (was.address) /* its free was not recorded */
		heaptrack_sums_free(&f->sums, was.trace, was.size, false);
	heaptrack_sums_allocate(&f->sums, b.trace, b.size);
	f->last_made = b.address;
	return 0;
}

/* Lower-case digits by value, everything else 16 and more. */
static const uint8_t digits[256] = {
	[0 ... '0' - 1] = 16,
	['0'] = 0,
	1,
	2,
	3,
	4,
	5,
	6,
	7,
	8,
	9,
	['9' + 1 ... 'a' - 1] = 16,
	['a'] = 10,
	11,
	12,
	13,
	14,
	15,
	['g' ... 255] = 16,
};

/* The lines from in->at to `limit`, which is behind a newline. */
static int read_lines(struct heaptrack_file *f, uint8_t *limit)
{
	const struct heaptrack_size *sizes = f->sizes.items;
	uint32_t size_count = f->sizes.count;
	uint8_t *at = f->in->at;
	int rc = 0;
	while (at < limit && rc == 0) {
		uint8_t *line = at;
		if ((*at == '+' || *at == '-') && at[1] == ' ' && !f->raw) {
			uint64_t index = 0;
			/* A newline ends it at the latest; what overflows is no index either way. */
			for (at += 2; digits[*at] < 16; at++)
				index = index << 4 | digits[*at];
			if (*at != '\n' || at == line + 2 || at > line + 18 ||
			    index >= size_count) {
				rc = bad_line(
					f, line,
					"'+' or '-' and a size ('a') that was defined before");
				break;
			}
			at++;
			f->events++;
			if (*line == '+') {
				heaptrack_sums_allocate(&f->sums, sizes[index].trace,
							sizes[index].size);
				f->last_made = index;
			} else {
				f->unknown_frees += !heaptrack_sums_free(
					&f->sums, sizes[index].trace, sizes[index].size,
					f->last_made == index);
				f->last_made = NO_LAST;
			}
			continue;
		}
		uint8_t *end = memchr(at, '\n', (size_t)(limit - at));
		if (!end) { /* cannot be: limit is behind one */
			rc = bad_line(f, line, "the end of a line");
			break;
		}
		*end = 0;
		at = end + 1;
		if (*line == '+' || *line == '-') {
			f->events++;
			rc = f->raw ? read_raw_event(f, (char *)line)
				    : bad_line(f, line, "a blank and a number after '+' or '-'");
		} else {
			rc = read_definition(f, (char *)line, (char *)end);
			sizes = f->sizes.items;
			size_count = f->sizes.count;
		}
	}
	f->in->at = at;
	return rc;
}

static int read_file(struct heaptrack_file *f)
{
	struct import_source *in = f->in;
	for (;;) {
		uint8_t *last = memrchr(in->at, '\n', (size_t)(in->end - in->at));
		if (last) {
			int rc = read_lines(f, last + 1);
			if (rc < 0)
				return rc;
		} else if (in->end - in->at > IMPORT_LINE_MAX) {
			return bad_line(f, in->at, "a shorter line");
		}
		int rc = import_source_more(in, f->err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
	}
	if (in->at < in->end)
		return bad_line(f, in->end, "the end of a line: the file was cut");
	return 0;
}

static const char *string_at(const struct heaptrack_file *f, uint32_t index)
{
	return index ? ((const char **)f->strings.items)[index - 1] : NULL;
}

/* Frames of an instruction, the outermost first, under `node`; it becomes the innermost, and `call`
 * theirs. */
static int add_ip(struct heaptrack_file *f, const struct heaptrack_ip *ip, const uint32_t *modules,
		  uint32_t *node, uint32_t *call)
{
	const uint32_t *words =
		ip->frame_count ? (const uint32_t *)f->words.items + ip->first : NULL;
	uint32_t count = ip->frame_count ? ip->frame_count : 1;
	for (uint32_t i = count; i-- > 0;) {
		struct profile_frame frame = {.address = ip->address, .inlined = i + 1 < count};
		frame.module = ip->module ? modules[ip->module - 1] : PROFILE_NONE;
		if (ip->frame_count) {
			frame.function = string_at(f, words[3 * i]);
			/* heaptrack knows C++'s mangling only. An @ is no symbol's version here. */
			if (frame.function && !strchr(frame.function, '@') &&
			    !(frame.function = symbol_demangle(f->p->names, frame.function)))
				return HEFT_ENOMEM;
			frame.file = string_at(f, words[3 * i + 1]);
			frame.line = frame.file ? words[3 * i + 2] : 0;
		}
		if (!frame.function) {
			char name[512];
			int n = snprintf(name, sizeof name, "%.400s+0x%" PRIx64,
					 profile_module_name(f->p, frame.module), ip->address);
			frame.function = name_pool_add_n(f->p->names, name, (size_t)n);
		}
		uint32_t id;
		if (!frame.function || profile_add_frame(f->p, &frame, &id) < 0)
			return HEFT_ENOMEM;
		int rc = import_add_node(f->p, *node, id, node);
		if (rc < 0)
			return rc;
	}
	return profile_add_call(f->p, *call, *node, ip->address, call);
}

/* Modules are strings among strings: those that instructions name. */
static int add_modules(struct heaptrack_file *f, uint32_t *modules)
{
	const struct heaptrack_ip *ips = f->ips.items;
	for (uint32_t i = 0; i < f->strings.count; i++)
		modules[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < f->ips.count; i++) {
		uint32_t m = ips[i].module;
		if (m && modules[m - 1] == PROFILE_NONE &&
		    profile_add_module(f->p, string_at(f, m), NULL, 0, &modules[m - 1]) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

/* nodes[i], calls[i]: the profile's of trace i + 1, for traces that something was allocated at. */
static int load_named_nodes(struct heaptrack_file *f, uint32_t *nodes, uint32_t *calls)
{
	const struct heaptrack_trace *traces = f->traces.items;
	const struct heaptrack_ip *ips = f->ips.items;
	uint32_t *modules = malloc(((size_t)f->strings.count + 1) * sizeof *modules);
	bool *wanted = calloc((size_t)f->traces.count + 1, sizeof *wanted);
	int rc = modules && wanted ? add_modules(f, modules) : HEFT_ENOMEM;
	for (uint32_t i = f->traces.count; i-- > 0 && rc == 0;) {
		wanted[i] |= f->sums.traces[i + 1].blocks > 0;
		if (wanted[i] && traces[i].parent)
			wanted[traces[i].parent - 1] = true;
	}
	for (uint32_t i = 0; i < f->traces.count && rc == 0; i++) {
		nodes[i] = traces[i].parent ? nodes[traces[i].parent - 1] : PROFILE_NONE;
		calls[i] = traces[i].parent ? calls[traces[i].parent - 1] : PROFILE_NONE;
		if (wanted[i] && traces[i].ip)
			rc = add_ip(f, &ips[traces[i].ip - 1], modules, &nodes[i], &calls[i]);
	}
	free(modules);
	free(wanted);
	return rc;
}

static int add_sites(struct heaptrack_file *f, const uint32_t *nodes, const uint32_t *calls)
{
	struct heaptrack_sums *s = &f->sums;
	for (uint32_t i = 0; i < s->count; i++) {
		const struct heaptrack_sum *t = &s->traces[i];
		uint32_t id;
		if (!t->blocks)
			continue;
		uint32_t node = i ? nodes[i - 1] : PROFILE_NONE;
		int rc = f->heft ? import_add_site_via(f->p, node, PROFILE_VIA_UNKNOWN,
						       PROFILE_NONE, &id)
				 : import_add_site(f->p, node, PROFILE_NONE, &id);
		if (rc < 0)
			return rc;
		if (i)
			import_keep_call(f->p, id, node, calls[i - 1]);
		struct profile_site *site = &f->p->sites[id];
		/* the mean of the mean, by blocks */
		uint64_t before = site->allocations;
		import_add(&site->allocations, t->blocks);
		if (f->raw)
			site->lifetime.mean_ns =
				import_rounded(((double)site->lifetime.mean_ns * (double)before +
						(double)t->lifetime_ms * 1e6) /
					       (double)site->allocations);
		if ((uint64_t)t->longest_ms * 1000000 > site->lifetime.max_ns)
			site->lifetime.max_ns = (uint64_t)t->longest_ms * 1000000;
		import_add(&site->allocated_bytes, t->bytes);
		import_add(&site->frees, t->blocks - t->live_blocks);
		import_add(&site->live_blocks, t->live_blocks);
		import_add(&site->live_bytes, t->live_bytes);
		import_add(&site->peak_blocks, t->peak_blocks);
		import_add(&site->peak_bytes, t->peak_bytes);
		import_add(&site->own_peak_bytes, t->own_peak_bytes);
		import_add(&site->temporary, t->temporary);
	}
	return 0;
}

/* What is live lives up to the end. */
static void end_lives(struct heaptrack_file *f)
{
	for (uint64_t i = 0; f->blocks.slots && i <= f->blocks.mask; i++) {
		const struct heaptrack_block *b = &f->blocks.slots[i];
		if (!b->address)
			continue;
		struct heaptrack_sum *t = &f->sums.traces[b->trace];
		uint32_t ms = f->sums.now_ms - b->birth_ms;
		t->lifetime_ms += ms;
		if (ms > t->longest_ms)
			t->longest_ms = ms;
	}
}

static int describe(struct heaptrack_file *f)
{
	struct profile *p = f->p;
	p->has = PROFILE_HAS_OWN_PEAK | PROFILE_HAS_PEAK | PROFILE_HAS_LIVE |
		 PROFILE_HAS_ALLOCATED | PROFILE_HAS_TIMES | PROFILE_HAS_TEMPORARY |
		 (f->raw ? PROFILE_HAS_MEAN_LIFETIME : 0u);
	p->events = f->events;
	p->duration_ns = (uint64_t)f->sums.now_ms * 1000000;
	p->totals.peak_time_ns = (uint64_t)f->sums.peak_ms * 1000000;
	p->totals.unknown_frees = f->unknown_frees;
	if (__builtin_mul_overflow(f->peak_pages, f->page_bytes, &p->totals.peak_rss_bytes))
		p->totals.peak_rss_bytes = 0;
	int rc = profile_add_note(
		p, PROFILE_NOTE_INFO, 0,
		f->raw ? "lifetimes are means, by heaptrack's clock of 10 ms"
		       : "an interpreted heaptrack file does not tell single blocks "
			 "apart: there are no lifetimes");
	if (rc == 0 && f->attached)
		rc = profile_add_note(p, PROFILE_NOTE_INFO, 0,
				      "heaptrack was attached: blocks from before are unknown");
	return rc;
}

int import_heaptrack_load(struct profile *p, struct import_source *in, struct heft_error *err)
{
	struct heaptrack_file f = {.p = p, .in = in, .err = err, .last_made = NO_LAST};
	uint32_t *nodes = NULL, *calls = NULL;
	in->max_ratio = MAX_RATIO;
	int rc = more_sums(&f);
	if (rc == 0)
		rc = read_file(&f);
	if (rc < 0)
		goto out;
	heaptrack_sums_settle(&f.sums);
	end_lives(&f);
	nodes = malloc(((size_t)f.traces.count + 1) * sizeof *nodes);
	calls = malloc(((size_t)f.traces.count + 1) * sizeof *calls);
	rc = !nodes || !calls ? HEFT_ENOMEM
	     : f.raw ? address_stacks_load(p, f.traces.items, f.traces.count, in->selection, nodes,
					   calls)
		     : load_named_nodes(&f, nodes, calls);
	if (rc == 0)
		rc = add_sites(&f, nodes, calls);
	if (rc == 0)
		rc = describe(&f);
	if (rc == 0)
		rc = import_finish(p, f.exe);
out:
	free(nodes);
	free(calls);
	free(f.strings.items);
	free(f.ips.items);
	free(f.words.items);
	free(f.traces.items);
	free(f.sizes.items);
	free(f.sums.traces);
	free(f.blocks.slots);
	address_maps_fini(&f.maps);
	return rc;
}
