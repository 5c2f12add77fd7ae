/* Prints calls that map memory (map_events.h): when, which call, how much, what for, and the first function of the
 * program's own that made it. The recording is read twice: sites are named first, then the calls come by one by one,
 * so that a million of them take no memory. */
#include "cli/map_events.h"

#include "cli/cli.h"
#include "hosted/error.h"
#include "hosted/name_words.h"
#include "hosted/number_words.h"
#include "model_json/model_json.h"
#include "profile/profile_from_trace.h"
#include "profile/profile_ledgers.h"
#include "profile/trace_mapped.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DEFAULT_WIDTH = 100, BEFORE_WHO = 60, LEAST_WHO = 30, WORDS_BYTES = 96 };

static const char *const call_names[TRACE_MAP_CALLS] = {
	[TRACE_MAP_MMAP] = "mmap",   [TRACE_MAP_MUNMAP] = "munmap",   [TRACE_MAP_MREMAP] = "mremap",
	[TRACE_MAP_BRK] = "brk",     [TRACE_MAP_SHMAT] = "shmat",     [TRACE_MAP_SHMDT] = "shmdt",
	[TRACE_MAP_GLIBC] = "glibc", [TRACE_MAP_MADVISE] = "madvise",
};
static const char *const origin_names[TRACE_MAP_ORIGINS] = {"seen", "derived"};

struct listing {
	const struct trace_contents *c;
	const struct map_events_options *o;
	struct profile *p;
	FILE *out;             /* NULL: JSON */
	struct json_writer *w; /* NULL: text */
	size_t shown, left_out;
	bool several; /* processes: each line says whose it is */
};

/* ---- words */

static const char *advice_words(uint32_t advice)
{
	static const struct {
		int advice;
		const char *words;
	} known[] = {
		{MADV_NORMAL, "normal"},
		{MADV_RANDOM, "random access"},
		{MADV_SEQUENTIAL, "sequential access"},
		{MADV_WILLNEED, "will be needed"},
		{MADV_DONTNEED, "gives pages back (DONTNEED)"},
		{MADV_FREE, "pages may go (FREE)"},
		{MADV_REMOVE, "gives pages back (REMOVE)"},
		{MADV_DONTFORK, "not for children"},
		{MADV_DOFORK, "for children again"},
		{MADV_MERGEABLE, "may be merged"},
		{MADV_HUGEPAGE, "huge pages"},
		{MADV_NOHUGEPAGE, "no huge pages"},
		{MADV_DONTDUMP, "not in core dumps"},
		{MADV_DODUMP, "in core dumps again"},
		{MADV_WIPEONFORK, "zeros for children"},
		{MADV_COLD, "cold"},
		{MADV_PAGEOUT, "to be swapped out"},
		{MADV_POPULATE_READ, "wanted now, to read"},
		{MADV_POPULATE_WRITE, "wanted now, to write"},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if ((uint32_t)known[i].advice == advice)
			return known[i].words;
	return "another advice";
}

static void mmap_words(char *text, size_t size, uint32_t detail)
{
	uint32_t prot = detail >> TRACE_MAP_PROT_SHIFT;
	bool anonymous = detail & MAP_ANONYMOUS, shared = detail & MAP_SHARED;
	const char *what = detail & MAP_STACK  ? "a stack"
			   : !anonymous        ? (shared ? "a file, shared" : "a file")
			   : prot == PROT_NONE ? "reserved"
			   : shared            ? "shared"
					       : "anonymous";
	snprintf(text, size, "%s%s%s", what, detail & MAP_HUGETLB ? ", huge pages" : "",
		 detail & (MAP_FIXED | MAP_FIXED_NOREPLACE) ? ", at a fixed place" : "");
}

/* What a call is for. */
static void purpose(char *text, size_t size, const struct trace_mapping *m)
{
	bool derived = m->origin == TRACE_MAP_DERIVED;
	switch (m->call) {
	case TRACE_MAP_MMAP:
		if (derived)
			snprintf(text, size, "large block of malloc");
		else
			mmap_words(text, size, m->detail);
		break;
	case TRACE_MAP_MREMAP:
		snprintf(text, size, "%s%s, was %s", derived ? "large block" : "",
			 derived                        ? ""
			 : m->address == m->old_address ? "in place"
							: "moved",
			 words_bytes(m->old_bytes).text);
		break;
	case TRACE_MAP_BRK:
		snprintf(text, size, "%s%s", m->detail ? "down" : "up",
			 derived ? ", by malloc" : "");
		break;
	case TRACE_MAP_MADVISE: snprintf(text, size, "%s", advice_words(m->detail)); break;
	case TRACE_MAP_SHMAT: snprintf(text, size, "System V shared memory"); break;
	default: snprintf(text, size, "%s", derived ? "large block freed" : ""); break;
	}
}

/* ---- lines */

static const struct profile_site *site_of(const struct listing *l, uint32_t recorded)
{
	const struct profile_recorded *r = &l->p->recorded;
	uint32_t site = r->sites && recorded < r->site_count ? r->sites[recorded] : PROFILE_NONE;
	return site < l->p->site_count ? &l->p->sites[site] : NULL;
}

static const struct profile_frame *user_frame(const struct profile *p, const struct profile_site *s)
{
	uint32_t node = s ? profile_first_user_node(p, s->node) : PROFILE_NONE;
	return node == PROFILE_NONE ? NULL : &p->stacks.frames[p->stacks.nodes[node].frame];
}

static void print_line(struct listing *l, const struct trace_mapping *m, int32_t pid)
{
	char what[WORDS_BYTES], bytes[WORDS_BYTES], who[512] = "?";
	int64_t change = trace_mapping_change(m);
	const struct profile_frame *f = user_frame(l->p, site_of(l, m->site));
	size_t width = l->o->width ? l->o->width : DEFAULT_WIDTH;
	if (m->call == TRACE_MAP_MADVISE)
		snprintf(bytes, sizeof bytes, "%s", words_bytes(m->bytes).text);
	else if (!change) /* shmdt does not say how much it detaches */
		snprintf(bytes, sizeof bytes, "-");
	else
		snprintf(bytes, sizeof bytes, "%s%s", change < 0 ? "-" : "+",
			 words_bytes((uint64_t)(change < 0 ? -change : change)).text);
	purpose(what, sizeof what, m);
	fprintf(l->out, "%10s  %-7s %11s  %-27s ", words_duration(m->time_ns).text,
		call_names[m->call], bytes, what);
	if (l->several)
		fprintf(l->out, "%7" PRId32 " ", pid);
	if (f)
		profile_frame_words(who, sizeof who, f);
	words_print_fit(l->out, who,
			width > BEFORE_WHO + LEAST_WHO ? width - BEFORE_WHO : LEAST_WHO);
	putc('\n', l->out);
}

static void write_call(struct listing *l, const struct trace_mapping *m, int32_t pid)
{
	const struct profile_site *s = site_of(l, m->site);
	char what[WORDS_BYTES];
	purpose(what, sizeof what, m);
	json_write_newline(l->w);
	json_write_object(l->w);
	json_write_key_int(l->w, "pid", pid);
	json_write_key_int(l->w, "tid", l->c->threads[m->thread].tid);
	json_write_key_uint(l->w, "time_ns", m->time_ns);
	json_write_key_string(l->w, "call", call_names[m->call]);
	json_write_key_uint(l->w, "bytes", m->bytes);
	json_write_key_int(l->w, "change_bytes", trace_mapping_change(m));
	if (m->address)
		json_write_key_uint(l->w, "address", m->address);
	json_write_key_string(l->w, "what", what);
	if (s)
		json_write_key_uint(l->w, "site", s->id);
	json_write_key_string(l->w, "origin", origin_names[m->origin]);
	json_write_object_end(l->w);
}

static int list_call(void *ctx, const struct trace_mapping *m)
{
	struct listing *l = ctx;
	uint32_t process = l->c->threads[m->thread].process;
	int32_t pid = process < l->c->process_count ? l->c->processes[process].pid : 0;
	if (l->o->has_pid && pid != l->o->pid)
		return 0;
	if (l->shown >= l->o->limit) {
		l->left_out++;
		return 0;
	}
	l->shown++;
	if (l->w)
		write_call(l, m, pid);
	else
		print_line(l, m, pid);
	return 0;
}

static int load_sites(struct listing *l, struct trace_reader *r, struct heft_error *err)
{
	const struct profile_selection selection = {
		.mapped = true, .map_events = true, .keep = true};
	l->c = trace_reader_contents(r);
	for (uint32_t i = 1; i < l->c->process_count && !l->o->has_pid; i++)
		l->several |= l->c->processes[i].pid != l->c->processes[0].pid;
	return profile_from_trace(&l->p, r, &selection, err);
}

int map_events_text(FILE *out, struct trace_reader *r, const struct map_events_options *o,
		    struct heft_error *err)
{
	struct listing l = {.o = o, .out = out};
	int rc = load_sites(&l, r, err);
	if (rc == 0) {
		fprintf(out, "%10s  %-7s %11s  %-27s %s%s\n", "time", "call", "bytes", "what",
			l.several ? "    pid " : "", "who");
		rc = trace_mapped_each(r, list_call, &l, err);
	}
	if (rc == 0 && l.left_out)
		fprintf(out, "... %s more call%s: -n %zu shows all\n", words_count(l.left_out).text,
			l.left_out == 1 ? "" : "s", l.shown + l.left_out);
	if (rc == 0 && !o->has_pid)
		fprintf(out, "%s mapped when most was, %s when the program ended\n",
			words_bytes(l.p->totals.mapped_bytes).text,
			words_bytes(l.p->totals.mapped_left_bytes).text);
	profile_free(l.p);
	return rc;
}

/* ---- lines of ledgers */

/* Memory that one call has mapped has no other name yet; of an allocator the name stays. */
static int name_line(const struct listing *l, struct ledger_line *line)
{
	const struct profile_site *s = line->site ? site_of(l, line->site - 1) : NULL;
	line->site = s ? s->id : 0;
	return s ? profile_name_mapped(l->p, s->node, line) : 0;
}

int map_events_name_lines(struct ledger *ledgers, size_t count, struct trace_reader *r,
			  struct heft_error *err)
{
	static const struct map_events_options all = {0};
	struct listing l = {.o = &all};
	bool any = false;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < ledgers[i].count; k++)
			any |= ledgers[i].items[k].site != 0;
	if (!any)
		return 0;
	int rc = load_sites(&l, r, err);
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < ledgers[i].count && !rc; k++)
			rc = name_line(&l, &ledgers[i].items[k]);
		ledger_join(&ledgers[i]);
		ledger_sort(&ledgers[i]);
	}
	profile_free(l.p);
	return rc;
}

/* ---- sites */

static void write_frames(struct json_writer *w, const struct profile *p, uint32_t node)
{
	json_write_key(w, "stack");
	json_write_array(w);
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent) {
		json_write_object(w);
		model_json_place(w, NULL, p, &p->stacks.frames[p->stacks.nodes[node].frame]);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static void write_sites(const struct listing *l)
{
	json_write_key(l->w, "sites");
	json_write_array(l->w);
	for (uint32_t i = 0; i < l->p->site_count; i++) {
		const struct profile_site *s = &l->p->sites[i];
		if (!s->mapped_bytes && !s->mapped_left_bytes && s->via < PROFILE_VIA_MAPS)
			continue;
		json_write_newline(l->w);
		json_write_object(l->w);
		json_write_key_uint(l->w, "site", s->id);
		json_write_key_string(l->w, "via", profile_via_name(s->via));
		model_json_place(l->w, NULL, l->p, user_frame(l->p, s));
		json_write_key_uint(l->w, "mapped_bytes", s->mapped_bytes);
		json_write_key_uint(l->w, "mapped_left_bytes", s->mapped_left_bytes);
		write_frames(l->w, l->p, s->node);
		json_write_object_end(l->w);
	}
	json_write_array_end(l->w);
}

int map_events_json(struct json_writer *w, struct trace_reader *r,
		    const struct map_events_options *o, struct heft_error *err)
{
	struct listing l = {.o = o, .w = w};
	int rc = load_sites(&l, r, err);
	json_write_key(w, "mappings");
	json_write_array(w);
	if (rc == 0)
		rc = trace_mapped_each(r, list_call, &l, err);
	json_write_array_end(w);
	if (rc == 0)
		write_sites(&l);
	profile_free(l.p);
	return rc;
}
