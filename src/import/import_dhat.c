/* DHAT's JSON, version 2: Valgrind's and dhat-rs'. Program points (pps) are stacks with
 * their sums; frames are texts in a table (ftbl) that stands behind them:
 *
 *   tb tbk   bytes and blocks allocated          gb gbk   live at the peak
 *   tl       sum of lifetimes                    eb ebk   live at the end
 *   mb mbk   the point's own greatest            fs       frames, innermost first
 *
 * A frame reads "0x109271: hold (a.c:8)" or "0x48417B4: malloc (in /usr/...so)"; frames of
 * the same address one after another are calls inlined into the last of them. Valgrind's
 * clock counts instructions: then there are no times and no lifetimes. A realloc counts as
 * another allocation here. mb is not taken from Valgrind, which updates it only when the
 * whole heap is at a new maximum. */
#include "import/import_formats.h"
#include "hosted/vector.h"
#include "import/import_sites.h"
#include "import/json_scan.h"
#include "import/text_scan.h"
#include "symbol/symbol.h"

#include <inttypes.h>
#include <stdio.h>
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
	struct heft_error *err;
	struct json_scan json;
	VECTOR(struct dhat_point) points;
	VECTOR(uint32_t) references;
	VECTOR(struct dhat_frame) frames;
	uint64_t version, te, tg, unit_ns; /* unit_ns 0: not a time */
	bool live_only; /* heft's, of a file that tells nothing else: tb and tbk are what is live */
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
	while (rc >= 0 && (rc = json_scan_next(&f->json, '{', &first)) == 1) {
		uint64_t *to = NULL;
		rc = json_scan_string(&f->json);
		if (rc < 0)
			return rc;
		bool stack = strcmp(f->json.text, "fs") == 0;
		for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
			if (strcmp(f->json.text, numbers[i].key) == 0)
				to = numbers[i].to;
		rc = json_scan_take(&f->json, ':');
		if (rc == 0)
			rc = stack ? read_references(f, &point)
			     : to  ? json_scan_uint(&f->json, to)
				   : json_scan_skip(&f->json);
	}
	if (rc < 0)
		return rc;
	if (f->points.count == MAX_POINTS)
		return too_many(f);
	return vector_push(&f->points, point) ? 0 : HEFT_ENOMEM;
}

/* "(in MODULE)" or "(FILE:LINE)" or "(FILE:LINE:COLUMN)" at the end of a frame's text, which is cut
 * there. Names end with brackets too: what is neither is part of the name. */
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
		uint32_t i = 0;
		while (i < f->p->stacks.module_count && f->p->stacks.modules[i].path != path)
			i++;
		if (i == f->p->stacks.module_count && i < 65536 &&
		    profile_add_module(f->p, path, NULL, 0, &i) < 0)
			return HEFT_ENOMEM;
		frame->module = i < f->p->stacks.module_count ? i : PROFILE_NONE;
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
	if (strcmp(text, "???") == 0) {
		char name[512];
		snprintf(name, sizeof name, "%.400s+0x%" PRIx64,
			 profile_module_name(f->p, frame.module), frame.address);
		frame.function = name_pool_add(f->p->names, name);
	} else {
		frame.function = symbol_demangle(f->p->names, text);
	}
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
	return import_fail(f->json.in, import_source_offset(f->json.in, f->json.in->at), f->err,
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

static int read_member(struct dhat_file *f, const char *key)
{
	uint64_t n = 0;
	int rc;
	if (strcmp(key, "pps") == 0) {
		f->points_seen = true;
		return read_array(f, read_point);
	}
	if (strcmp(key, "ftbl") == 0) {
		f->frames_seen = true;
		return read_array(f, read_frame);
	}
	if (strcmp(key, "dhatFileVersion") == 0) {
		rc = json_scan_uint(&f->json, &f->version);
		return rc == 0 && f->version != 2 ? json_scan_fail(&f->json, "dhatFileVersion 2")
						  : rc;
	}
	if (strcmp(key, "mode") == 0)
		return read_mode(f);
	if (strcmp(key, "tu") == 0)
		return read_unit(f);
	if (strcmp(key, "bklt") == 0)
		return json_scan_bool(&f->json, &f->lifetimes);
	if (strcmp(key, "te") == 0)
		return json_scan_uint(&f->json, &f->te);
	if (strcmp(key, "tg") == 0)
		return json_scan_uint(&f->json, &f->tg);
	if (strcmp(key, "pid") == 0) {
		rc = json_scan_uint(&f->json, &n);
		f->p->run.pid = n <= INT32_MAX ? (int32_t)n : 0;
		return rc;
	}
	if (strcmp(key, "cmd") == 0) {
		rc = json_scan_string(&f->json);
		return rc == 0 ? import_set_command(f->p, f->json.text, f->json.length) : rc;
	}
	return json_scan_skip(&f->json);
}

static int read_file(struct dhat_file *f)
{
	bool first = true;
	int rc = json_scan_take(&f->json, '{');
	while (rc >= 0 && (rc = json_scan_next(&f->json, '{', &first)) == 1) {
		char key[32];
		rc = json_scan_string(&f->json);
		if (rc < 0)
			return rc;
		snprintf(key, sizeof key, "%s", f->json.text);
		rc = json_scan_take(&f->json, ':');
		if (rc == 0)
			rc = read_member(f, key);
	}
	if (rc < 0)
		return rc;
	rc = json_scan_peek(&f->json);
	if (rc)
		return rc < 0 ? rc : json_scan_fail(&f->json, "nothing after the profile");
	if (!f->version || !f->mode_seen || !f->points_seen || !f->frames_seen)
		return import_fail(f->json.in, import_source_offset(f->json.in, f->json.in->at),
				   f->err,
				   "expected dhatFileVersion, mode, pps and ftbl before the end");
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
	uint32_t node = PROFILE_NONE, call = PROFILE_NONE, id;
	uint64_t outer = 0;
	for (uint32_t i = point->count; i-- > 0;) {
		if (fs[i] >= f->frames.count)
			return import_fail(f->json.in, point->offset, f->err,
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
	if (import_add_site(f->p, node, PROFILE_NONE, &id) < 0)
		return HEFT_ENOMEM;
	import_keep_call(f->p, id, node, call);
	struct profile_site *s = &f->p->sites[id];
	uint64_t before = s->allocations;
	if (f->live_only) {
		import_add(&s->live_blocks, point->tbk);
		import_add(&s->live_bytes, point->tb);
		return 0;
	}
	import_add(&s->allocations, point->tbk);
	import_add(&s->allocated_bytes, point->tb);
	if (!f->lifetimes)
		return 0;
	import_add(&s->live_bytes, point->eb);
	import_add(&s->live_blocks, point->ebk);
	import_add(&s->peak_bytes, point->gb);
	import_add(&s->peak_blocks, point->gbk);
	if (f->rust)
		import_add(&s->own_peak_bytes, point->mb);
	if (f->unit_ns && s->allocations)
		s->lifetime.mean_ns = import_rounded(((double)s->lifetime.mean_ns * (double)before +
						      (double)point->tl * (double)f->unit_ns) /
						     (double)s->allocations);
	return 0;
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
		return profile_add_note(
			p, PROFILE_NOTE_INFO, 0,
			"the file's clock counts instructions: there are no times and "
			"no lifetimes");
	p->run.has |= PROFILE_HAS_TIMES | (f->lifetimes ? PROFILE_HAS_MEAN_LIFETIME : 0u);
	p->run.duration_ns = as_ns(f, f->te);
	if (f->lifetimes)
		p->totals.peak_time_ns = as_ns(f, f->tg);
	return 0;
}

int import_dhat_load(struct profile *p, struct import_source *in, struct heft_error *err)
{
	struct dhat_file f = {.p = p, .err = err, .json = {.in = in, .err = err}};
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
