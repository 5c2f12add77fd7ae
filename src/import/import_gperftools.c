/* Reads the heap text of gperftools (tcmalloc):
 *
 *   heap profile:   1004:  1080320 [  8005:  5380330] @ heapprofile
 *     1000:  1000000 [  5000:  5000000] @ 0x55b49f300272 0x55b49f3002cf ...
 *
 *   MAPPED_LIBRARIES:
 *   /proc/PID/maps as it was
 *
 * The numbers are live objects and bytes, and in brackets those since the start. The word
 * behind the "@" of the first line says how they came about: `heapprofile` counted
 * everything; `heap_v2/R` sampled by a Poisson process of rate R; `heap/X`, the older way,
 * took everything above X/2 bytes and smaller blocks in proportion; `growth` says where
 * tcmalloc asked the system for memory. A sampled profile repeats its live numbers in the
 * brackets because it does not know the others: then the profile has none. The innermost
 * address is where malloc returns to. */
#include "import/import_formats.h"
#include "import/import_sites.h"
#include "import/stack_lines.h"
#include "import/text_scan.h"

#include <string.h>

static const char magic[] = "heap profile:";

enum gperftools_kind { EXACT, SAMPLED, SAMPLED_OLD, GROWTH };

struct gperftools_file {
	struct stack_lines lines;
	enum gperftools_kind kind;
	uint64_t rate;
	bool accumulated; /* some line's two halves differ */
};

bool import_gperftools_recognise(const uint8_t *head, size_t length)
{
	return length >= sizeof magic - 1 && memcmp(head, magic, sizeof magic - 1) == 0;
}

static void unbias_old(uint64_t rate, uint64_t *blocks, uint64_t *bytes)
{
	if (!*blocks || !*bytes || !rate)
		return;
	double share = (double)*bytes / (double)*blocks / (double)rate;
	if (share >= 1)
		return;
	*blocks = import_rounded((double)*blocks / share);
	*bytes = import_rounded((double)*bytes / share);
}

static void unbias(const struct gperftools_file *f, struct stack_counts *c)
{
	if (f->kind == SAMPLED) {
		import_unbias(f->rate, &c->live_blocks, &c->live_bytes);
		import_unbias(f->rate, &c->blocks, &c->bytes);
	} else if (f->kind == SAMPLED_OLD) {
		unbias_old(f->rate, &c->live_blocks, &c->live_bytes);
		unbias_old(f->rate, &c->blocks, &c->bytes);
	}
}

static int read_head(struct gperftools_file *f)
{
	struct import_source *in = f->lines.in;
	char *line;
	size_t length;
	struct stack_counts all;
	int rc = import_source_line(in, &line, &length);
	if (rc < 0)
		return rc;
	const char *at = line + sizeof magic - 1;
	bool ok = rc == 1 && stack_lines_counts(&at, &all);
	scan_blanks(&at);
	ok = ok && scan_one(&at, '@');
	scan_blanks(&at);
	if (!ok)
		return import_fail(
			in, 0, "expected 'heap profile: objects: bytes [objects: bytes] @ KIND'");
	if (strcmp(at, "heapprofile") == 0) {
		f->kind = EXACT;
	} else if (strncmp(at, "growth", 6) == 0) {
		f->kind = GROWTH;
	} else if (strncmp(at, "heap_v2/", 8) == 0) {
		at += 8;
		f->kind = SAMPLED;
		ok = scan_decimal(&at, &f->rate);
	} else if (strncmp(at, "heap/", 5) == 0) {
		at += 5;
		f->kind = SAMPLED_OLD;
		ok = scan_decimal(&at, &f->rate);
		f->rate /= 2;
	} else {
		ok = false;
	}
	return ok ? 0
		  : import_expected(in, at,
				    "'heapprofile', 'heap_v2/RATE', 'heap/RATE' or 'growth'");
}

static int read_lines(struct gperftools_file *f)
{
	struct stack_lines *l = &f->lines;
	char *line;
	const char *at;
	int rc = read_head(f);
	if (rc < 0)
		return rc;
	while ((rc = stack_lines_next(l, &line, &at)) == 1) {
		struct stack_counts c;
		uint32_t node;
		bool ok = stack_lines_counts(&at, &c);
		scan_blanks(&at);
		if (!ok || !scan_one(&at, '@'))
			return import_expected(l->in, line,
					       "'objects: bytes [objects: bytes] @ addresses' or "
					       "'MAPPED_LIBRARIES:'");
		f->accumulated |= c.blocks != c.live_blocks || c.bytes != c.live_bytes;
		unbias(f, &c);
		rc = stack_lines_addresses(l, line, at, true, &node);
		if (rc == 0)
			rc = stack_lines_add(l, node, &c);
		if (rc < 0)
			return rc;
	}
	return rc < 0 ? rc : stack_lines_maps(l);
}

/* Says what the numbers mean, by kind. */
static int describe(struct gperftools_file *f)
{
	struct profile *p = f->lines.p;
	switch (f->kind) {
	case EXACT: p->run.has = PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED; return 0;
	case GROWTH:
		p->run.has = PROFILE_HAS_ALLOCATED;
		return profile_add_note(p, PROFILE_NOTE_INFO, 0,
					"this is a growth profile: where the allocator took memory "
					"from the system, not what is live");
	case SAMPLED:
	case SAMPLED_OLD: break;
	}
	p->run.has = PROFILE_HAS_LIVE | (f->accumulated ? PROFILE_HAS_ALLOCATED : 0u);
	p->run.rate_bytes = f->rate > 1 ? f->rate : 0;
	return 0;
}

int import_gperftools_load(struct profile *p, struct import_source *in)
{
	struct gperftools_file f = {.lines = {.p = p, .in = in}};
	int rc = read_lines(&f);
	if (rc == 0)
		rc = describe(&f);
	for (uint32_t i = 0; i < f.lines.lines.count && rc == 0; i++) {
		struct stack_counts *c = &f.lines.lines.items[i].counts;
		if (!(p->run.has & PROFILE_HAS_ALLOCATED))
			c->blocks = c->bytes = 0;
		if (!(p->run.has & PROFILE_HAS_LIVE))
			c->live_blocks = c->live_bytes = 0;
	}
	if (rc == 0)
		rc = stack_lines_finish(&f.lines);
	stack_lines_fini(&f.lines);
	return rc;
}
