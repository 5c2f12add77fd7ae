/* Reads a heaptrack file (heaptrack_file.h), line by line.
 *
 * Files have hundreds of millions of lines, nearly all of them + and -, so these are read
 * where they stand, without looking for the end of the line first, and all sums are made
 * in one pass (heaptrack_sums.h).
 *
 * Invariants: every index in the file is checked against what was defined before it, so
 * a trace's parent is a smaller number and no walk can be endless. */
#include "import/heaptrack_file.h"

#include "import/import_sites.h"
#include "import/text_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_DEFINED = 1 << 26, /* of each kind */
	NEWEST_VERSION = 3,
};

#define NO_LAST UINT64_MAX
#define FITS(vector) ((vector).count < MAX_DEFINED)

static const char by_heft[] = "# made from sums by heft"; /* export_heaptrack.c writes it */

static int bad_line(struct heaptrack_file *f, const void *line, const char *what)
{
	return import_expected(f->in, line, what);
}

/* Skips blanks and reads a number. */
static bool next_hex(const char **at, uint64_t *value)
{
	scan_blanks(at);
	return scan_hex(at, value);
}

/* "<length> <bytes>", or in files before version 3 the text up to the next blank or the end. */
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
	const char *name = name_pool_add_n(f->p->names, string, length);
	return name && FITS(f->strings) && vector_push(&f->strings, name) ? 0 : HEFT_ENOMEM;
}

static int read_ip(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	struct heaptrack_ip ip = {.first = (uint32_t)f->words.count};
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
		for (int i = 0; i < 3; i++)
			if (!FITS(f->words) || !vector_push(&f->words, (uint32_t)n[i]))
				return HEFT_ENOMEM;
		ip.frame_count++;
	}
	return FITS(f->ips) && vector_push(&f->ips, ip) ? 0 : HEFT_ENOMEM;
}

static int more_sums(struct heaptrack_file *f)
{
	struct heaptrack_sums *s = &f->sums;
	if (!array_reserve(s->traces, s->count, s->capacity, 1))
		return HEFT_ENOMEM;
	s->traces[s->count++] = (struct heaptrack_sum){.epoch = s->epoch};
	return 0;
}

static int read_trace(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t what, parent;
	if (!next_hex(&at, &what) || !next_hex(&at, &parent) || parent >= f->sums.count)
		return bad_line(f, line, "'t', a frame and a trace that was defined before");
	if (f->raw) {
		struct address_node node = {.parent = parent ? (uint32_t)parent - 1 : PROFILE_NONE};
		int rc = address_maps_find(&f->maps, f->p, what, &node.module, &node.address);
		if (rc == HEFT_EFORMAT)
			return bad_line(f, line,
					"modules ('m') together, not one after each trace");
		if (rc < 0 || !FITS(f->nodes) || !vector_push(&f->nodes, node))
			return HEFT_ENOMEM;
	} else {
		if (what > f->ips.count)
			return bad_line(f, line, "an instruction ('i') that was defined before");
		struct heaptrack_trace trace = {(uint32_t)parent, (uint32_t)what};
		if (!FITS(f->traces) || !vector_push(&f->traces, trace))
			return HEFT_ENOMEM;
	}
	return more_sums(f);
}

static int read_size(struct heaptrack_file *f, const char *line)
{
	const char *at = line + 1;
	uint64_t size, trace;
	if (!next_hex(&at, &size) || !next_hex(&at, &trace) || trace >= f->sums.count ||
	    size > (uint64_t)1 << 56)
		return bad_line(f, line, "'a SIZE TRACE' with a trace that was defined before");
	struct heaptrack_size at_trace = {size, (uint32_t)trace};
	return FITS(f->sizes) && vector_push(&f->sizes, at_trace) ? 0 : HEFT_ENOMEM;
}

/* The first 'x' or 'm' says that the file is raw, before anything that the two kinds hold differently. */
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
		return import_fail(f->in, import_source_offset(f->in, line),
				   "expected heaptrack's file format 1 to %d, not %" PRIu64,
				   NEWEST_VERSION, f->version);
	return 0;
}

/* Reads any line but + and -; `end` is its NUL. */
static int read_definition(struct heaptrack_file *f, char *line, char *end)
{
	const char *at = line + 1, *string;
	uint64_t n;
	size_t length;
	switch (*line) {
	case 's': return read_string(f, line, end);
	case 'i': return read_ip(f, line);
	case 't': return read_trace(f, line);
	case 'a': return read_size(f, line);
	case 'c': return read_time(f, line);
	case 'm': return read_module(f, line, end);
	case 'v': return read_version(f, line);
	case 'R':
		if (next_hex(&at, &n) && n > f->peak_pages)
			f->peak_pages = n;
		return 0;
	case 'I': next_hex(&at, &f->page_bytes); return 0;
	case 'x':
		if (set_raw(f, line) < 0)
			return HEFT_EFORMAT;
		if (!next_string(f, &at, end, true, &string, &length))
			return bad_line(f, line, "'x LENGTH PATH'");
		f->exe = name_pool_add_n(f->p->names, string, length);
		return f->exe ? 0 : HEFT_ENOMEM;
	case 'X': scan_blanks(&at); return import_set_command(f->p, at, (size_t)(end - at));
	case 'A': f->attached = true; return 0;
	case '#': f->heft |= strncmp(line, by_heft, strlen(by_heft)) == 0; return 0;
	case 'S': /* suppressed leaks are leaks here */
	case 0: return 0;
	default: return bad_line(f, line, "a line of a heaptrack file");
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
		heaptrack_sums_add_life(&f->sums, &was);
		return 0;
	}
	if (!next_hex(&at, &b.size) || !next_hex(&at, &trace) || !next_hex(&at, &b.address) ||
	    !b.address || trace >= f->sums.count || b.size > (uint64_t)1 << 56)
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

/* Reads the lines from in->at to `limit`, which is behind a newline. */
static int read_lines(struct heaptrack_file *f, uint8_t *limit)
{
	const struct heaptrack_size *sizes = f->sizes.items;
	size_t size_count = f->sizes.count;
	const uint8_t *digits = f->digits;
	uint8_t *at = f->in->at;
	int rc = 0;
	while (at < limit && rc == 0) {
		uint8_t *line = at;
		if ((*at == '+' || *at == '-') && at[1] == ' ' && !f->raw) {
			uint64_t index = 0;
			/* A newline ends it at the latest; a number that overflows is too long to be an index. */
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

int heaptrack_lines_read(struct heaptrack_file *f)
{
	struct import_source *in = f->in;
	f->last_made = NO_LAST;
	for (int c = 0; c < 256; c++) {
		int digit = hex_digit((char)c);
		f->digits[c] = digit < 0 || (c >= 'A' && c <= 'F') ? 16 : (uint8_t)digit;
	}
	if (more_sums(f) < 0)
		return HEFT_ENOMEM;
	for (;;) {
		uint8_t *last = memrchr(in->at, '\n', (size_t)(in->end - in->at));
		if (last) {
			int rc = read_lines(f, last + 1);
			if (rc < 0)
				return rc;
		} else if (in->end - in->at > IMPORT_LINE_MAX) {
			return bad_line(f, in->at, "a shorter line");
		}
		int rc = import_source_more(in);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
	}
	if (in->at < in->end)
		return bad_line(f, in->end, "the end of a line: the file was cut");
	return 0;
}
