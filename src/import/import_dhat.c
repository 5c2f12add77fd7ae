/* Reads DHAT's JSON, version 2, of Valgrind and dhat-rs. Program points (pps) are stacks with
 * their sums; frames are texts in a table (ftbl) that stands behind them:
 *
 *   tb tbk   bytes and blocks allocated          gb gbk   live at the peak
 *   tl       sum of lifetimes                    eb ebk   live at the end
 *   mb mbk   the point's own greatest            fs       frames, innermost first
 *
 * A frame reads "0x109271: hold (a.c:8)" or "0x48417B4: malloc (in /usr/...so)"; frames of
 * the same address one after another are calls inlined into the last of them. Valgrind's
 * clock counts instructions: then there are no times and no lifetimes. A realloc counts as
 * another allocation here. mb of Valgrind is not used: Valgrind updates it only when the
 * whole heap is at a new maximum. */
#include "import/import_formats.h"
#include "hosted/vector.h"
#include "import/import_sites.h"
#include "import/json_scan.h"
#include "import/text_scan.h"
#include "symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 1 << 24, MAX_FRAMES = 1 << 24, MAX_REFERENCES = 1 << 28 };

struct dhat_point {
	uint64_t tb, tbk, tl, mb, gb, gbk, eb, ebk;
	uint64_t offset;       /* in the file */
	uint32_t first, count; /* in references */
};

struct dhat_frame {
	uint32_t frame; /* of the profile */
	uint64_t address;
};

struct dhat_file {
	struct profile *p;
	struct json_scan json;
	VECTOR(struct dhat_point) points;
	VECTOR(uint32_t) references;
	VECTOR(struct dhat_frame) frames;
	uint64_t version, te, tg, unit_ns; /* unit_ns 0: not a time */
	bool live_only; /* heft's mode for files that know nothing else: tb and tbk are what is live */
	bool lifetimes, rust, mode_seen, points_seen, frames_seen;
};

bool import_dhat_recognise(const uint8_t *head, size_t length)
{
	static const char key[] = "\"dhatFileVersion\"";
	size_t at = 0;
	while (at < length &&
	       (head[at] == ' ' || head[at] == '\n' || head[at] == '\r' || head[at] == '\t'))
		at++;
	return at < length && head[at] == '{' && memmem(head, length, key, sizeof key - 1);
}

static int too_many(struct dhat_file *f)
{
	return json_scan_fail(&f->json, "fewer program points and frames");
}

static int read_references(struct dhat_file *f, struct dhat_point *point)
{
	bool first = true;
	int rc = json_scan_take(&f->json, '[');
	while (rc >= 0 && (rc = json_scan_next(&f->json, '[', &first)) == 1) {
		uint64_t n;
		rc = json_scan_uint(&f->json, &n);
		if (rc < 0)
			return rc;
		if (f->references.count == MAX_REFERENCES)
			return too_many(f);
		if (!vector_push(&f->references, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n))
			return HEFT_ENOMEM;
		point->count++;
	}
	return rc;
}

static int read_point(struct dhat_file *f)
{
	struct dhat_point point = {.first = (uint32_t)f->references.count};
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{"tb", &point.tb}, {"tbk", &point.tbk}, {"tl", &point.tl}, {"mb", &point.mb},
		{"gb", &point.gb}, {"gbk", &point.gbk}, {"eb", &point.eb}, {"ebk", &point.ebk},
	};
	bool first = true;
	int rc = json_scan_take(&f->json, '{');
	point.offset = import_source_offset(f->json.in, f->json.in->at) - 1;
	while (rc >= 0 && (rc = json_scan_key(&f->json, &first)) == 1) {
		uint64_t *to = NULL;
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			if (strcmp(f->json.text, numbers[i].key) == 0)
				to = numbers[i].to;
		rc = strcmp(f->json.text, "fs") == 0 ? read_references(f, &point)
		     : to                            ? json_scan_uint(&f->json, to)
						     : json_scan_skip(&f->json);
	}
	if (rc < 0)
		return rc;
	if (f->points.count == MAX_POINTS)
		return too_many(f);
	return vector_push(&f->points, point) ? 0 : HEFT_ENOMEM;
}

/* Reads "(in MODULE)", "(FILE:LINE)" or "(FILE:LINE:COLUMN)" at the end of a frame's text, and cuts the
 * text there. Names end with brackets too: anything else is a part of the name. */
static int read_place(struct dhat_file *f, char *text, size_t length, struct profile_frame *frame)
{
	char *open = NULL;
	if (length < 2 || text[length - 1] != ')')
		return 0;
	for (char *at = text + length - 1; at > text; at--)
		if (at[0] == '(' && at[-1] == ' ') {
			open = at;
			break;
		}
	if (!open)
		return 0;
	text[length - 1] = 0;
	if (strncmp(open, "(in ", 4) == 0) {
		const char *path = name_pool_add(f->p->names, open + 4);
		if (!path)
			return HEFT_ENOMEM;
		if (!profile_find_module(f->p, path, NULL, 0, &frame->module) &&
		    profile_add_module(f->p, path, NULL, 0, &frame->module) < 0)
			return HEFT_ENOMEM;
		open[-1] = 0;
		return 0;
	}
	char *colon = strrchr(open, ':');
	uint64_t line = 0, column = 0;
	const char *digits = colon ? colon + 1 : "";
	if (!colon || !scan_decimal(&digits, &line) || *digits) {
		text[length - 1] = ')';
		return 0;
	}
	*colon = 0;
	char *before = strrchr(open, ':');
	digits = before ? before + 1 : "";
	if (before && scan_decimal(&digits, &column) && !*digits) {
		*before = 0;
		line = column; /* the first of two is the line */
	}
	open[-1] = 0;
	if (strcmp(open + 1, "???") == 0) /* dhat-rs without debug information */
		return 0;
	frame->file = name_pool_add(f->p->names, open + 1);
	frame->line = line <= INT32_MAX ? (uint32_t)line : 0;
	return frame->file ? 0 : HEFT_ENOMEM;
}

static int read_frame(struct dhat_file *f)
{
	struct profile_frame frame = {.module = PROFILE_NONE};
	int rc = json_scan_string(&f->json);
	if (rc < 0)
		return rc;
	char *text = f->json.text;
	const char *at = text;
	if (scan_one(&at, '0') && scan_one(&at, 'x') && scan_hex(&at, &frame.address) &&
	    at[0] == ':' && at[1] == ' ')
		text += at + 2 - text;
	else
		frame.address = 0;
	rc = read_place(f, text, strlen(text), &frame);
	if (rc < 0)
		return rc;
	frame.function = strcmp(text, "???") == 0
				 ? import_place_name(f->p, frame.module, frame.address)
				 : symbol_demangle(f->p->names, text);
	if (f->frames.count == MAX_FRAMES)
		return too_many(f);
	struct dhat_frame known = {.address = frame.address};
	if (!frame.function || profile_add_frame(f->p, &frame, &known.frame) < 0)
		return HEFT_ENOMEM;
	return vector_push(&f->frames, known) ? 0 : HEFT_ENOMEM;
}

static int read_array(struct dhat_file *f, int (*each)(struct dhat_file *f))
{
	bool first = true;
	int rc = json_scan_take(&f->json, '[');
	while (rc >= 0 && (rc = json_scan_next(&f->json, '[', &first)) == 1)
		rc = each(f);
	return rc;
}

static int read_mode(struct dhat_file *f)
{
	int rc = json_scan_string(&f->json);
	if (rc < 0)
		return rc;
	f->mode_seen = true;
	f->rust = strcmp(f->json.text, "rust-heap") == 0;
	f->live_only = strcmp(f->json.text, "heap-live") == 0;
	if (f->rust || f->live_only || strcmp(f->json.text, "heap") == 0)
		return 0;
	return import_fail(f->json.in, import_source_offset(f->json.in, f->json.in->at),
			   "expected a heap profile; mode '%.40s' counts something else",
			   f->json.text);
}

static int read_unit(struct dhat_file *f)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"µs", 1000}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	int rc = json_scan_string(&f->json);
	for (size_t i = 0; rc == 0 && i < sizeof units / sizeof *units; i++)
		if (strcmp(f->json.text, units[i].name) == 0)
			f->unit_ns = units[i].ns;
	return rc;
}

static int read_points(struct dhat_file *f)
{
	f->points_seen = true;
	return read_array(f, read_point);
}

static int read_frames(struct dhat_file *f)
{
	f->frames_seen = true;
	return read_array(f, read_frame);
}

static int read_version(struct dhat_file *f)
{
	int rc = json_scan_uint(&f->json, &f->version);
	return rc == 0 && f->version != 2 ? json_scan_fail(&f->json, "dhatFileVersion 2") : rc;
}

static int read_lifetimes(struct dhat_file *f)
{
	return json_scan_bool(&f->json, &f->lifetimes);
}

static int read_end_time(struct dhat_file *f)
{
	return json_scan_uint(&f->json, &f->te);
}

static int read_peak_time(struct dhat_file *f)
{
	return json_scan_uint(&f->json, &f->tg);
}

static int read_pid(struct dhat_file *f)
{
	uint64_t pid = 0;
	int rc = json_scan_uint(&f->json, &pid);
	f->p->run.pid = pid <= INT32_MAX ? (int32_t)pid : 0;
	return rc;
}

static int read_command(struct dhat_file *f)
{
	int rc = json_scan_string(&f->json);
	return rc == 0 ? import_set_command(f->p, f->json.text, f->json.length) : rc;
}

static int skip_value(struct dhat_file *f)
{
	return json_scan_skip(&f->json);
}

static int read_file(struct dhat_file *f)
{
	static const struct {
		const char *key;
		int (*read)(struct dhat_file *f);
	} members[] = {
		{"pps", read_points},  {"ftbl", read_frames},  {"dhatFileVersion", read_version},
		{"mode", read_mode},   {"tu", read_unit},      {"bklt", read_lifetimes},
		{"te", read_end_time}, {"tg", read_peak_time}, {"pid", read_pid},
		{"cmd", read_command},
	};
	bool first = true;
	int rc = json_scan_take(&f->json, '{');
	while (rc >= 0 && (rc = json_scan_key(&f->json, &first)) == 1) {
		int (*read)(struct dhat_file *f) = skip_value;
		for (size_t i = 0; i < sizeof members / sizeof *members; i++)
			if (strcmp(f->json.text, members[i].key) == 0)
				read = members[i].read;
		rc = read(f);
	}
	if (rc < 0)
		return rc;
	rc = json_scan_peek(&f->json);
	if (rc)
		return rc < 0 ? rc : json_scan_fail(&f->json, "nothing after the profile");
	if (!f->version || !f->mode_seen || !f->points_seen || !f->frames_seen)
		return import_expected(f->json.in, f->json.in->at,
				       "dhatFileVersion, mode, pps and ftbl before the end");
	return 0;
}

static uint64_t as_ns(const struct dhat_file *f, uint64_t time)
{
	uint64_t ns;
	return __builtin_mul_overflow(time, f->unit_ns, &ns) ? UINT64_MAX : ns;
}

static int add_point(struct dhat_file *f, const struct dhat_point *point)
{
	const uint32_t *fs = point->count ? f->references.items + point->first : NULL;
	uint32_t node = PROFILE_NONE, call = PROFILE_NONE;
	uint64_t outer = 0;
	for (uint32_t i = point->count; i-- > 0;) {
		if (fs[i] >= f->frames.count)
			return import_fail(f->json.in, point->offset,
					   "expected frames that are in ftbl");
		if (fs[i] == 0) /* "[root]" */
			continue;
		const struct dhat_frame *frame = &f->frames.items[fs[i]];
		bool inlined = frame->address && frame->address == outer;
		if (inlined)
			f->p->stacks.frames[frame->frame].inlined = true;
		int rc = import_add_node(f->p, node, frame->frame, &node);
		if (rc == 0 && inlined && call != PROFILE_NONE)
			f->p->stacks.calls[call].node = node;
		else if (rc == 0)
			rc = profile_add_call(f->p, call, node, frame->address, &call);
		if (rc < 0)
			return rc;
		outer = frame->address;
	}
	struct import_measures m = {0};
	if (f->live_only) {
		m.live_blocks = point->tbk;
		m.live_bytes = point->tb;
	} else {
		m.allocations = point->tbk;
		m.allocated_bytes = point->tb;
	}
	if (f->lifetimes && !f->live_only) {
		m.live_bytes = point->eb;
		m.live_blocks = point->ebk;
		m.peak_bytes = point->gb;
		m.peak_blocks = point->gbk;
		m.own_peak_bytes = f->rust ? point->mb : 0;
		m.lifetime_sum_ns = (double)point->tl * (double)f->unit_ns;
	}
	return import_add_stack(f->p, node, call, &m);
}

static int describe(struct dhat_file *f)
{
	struct profile *p = f->p;
	p->run.has = f->live_only ? PROFILE_HAS_LIVE : PROFILE_HAS_ALLOCATED;
	if (f->live_only)
		return 0;
	if (f->lifetimes)
		p->run.has |= PROFILE_HAS_PEAK | PROFILE_HAS_LIVE |
			      (f->rust ? PROFILE_HAS_OWN_PEAK : 0u);
	if (!f->unit_ns)
		return profile_add_note(p, PROFILE_NOTE_INFO, 0,
					"this file counts instructions instead of time: it has no "
					"times and no lifetimes");
	p->run.has |= PROFILE_HAS_TIMES | (f->lifetimes ? PROFILE_HAS_MEAN_LIFETIME : 0u);
	p->run.duration_ns = as_ns(f, f->te);
	if (f->lifetimes)
		p->totals.peak_time_ns = as_ns(f, f->tg);
	return 0;
}

int import_dhat_load(struct profile *p, struct import_source *in)
{
	struct dhat_file f = {.p = p, .json = {.in = in}};
	int rc = read_file(&f);
	for (uint32_t i = 0; i < f.points.count && rc == 0; i++)
		rc = add_point(&f, &f.points.items[i]);
	if (rc == 0)
		rc = describe(&f);
	if (rc == 0)
		rc = import_finish(p, NULL);
	json_scan_fini(&f.json);
	vector_free(&f.points);
	vector_free(&f.references);
	vector_free(&f.frames);
	return rc;
}
