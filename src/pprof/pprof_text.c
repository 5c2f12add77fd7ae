/* Go's legacy text, which people read and `go tool pprof` parses:
 *
 *   heap profile: 3: 300 [5: 500] @ heapprofile
 *   3: 300 [5: 500] @ 0x2bd0... 0x1c54...
 *   #	0x1005	g	a.h:3	(inlined)
 *   #	0x1005	f	a.c:5
 *
 * "heapprofile" says that the numbers are what they are: readers scale others by a sampling rate, and
 * heft's are estimates already.
 *
 * The reader takes numbers behind @ for addresses and asks /debug/pprof/symbol for their names, one
 * name for each. heft's addresses are those of files, so two modules may have the same one, and
 * inlined functions share theirs. So a frame is given a number of its own there: a hash of what
 * the frame says, the same in every snapshot, so that the server need not remember what it handed
 * out. It is even, since readers subtract 1 (from a return address to its call) before they ask.
 * Behind # stands the address in the file.
 *
 * Deep stacks are folded and cut as in every other list (stack_fold.h): 60,000 frames of one recursion
 * are one. "[recursion x9 of 3]" stands before three frames that come nine times in turn,
 * "[500 frames cut]" where so many are missing; both have numbers of their own behind @. */
#include "pprof/pprof_text.h"

#include "export/export_names.h"
#include "hosted/name_words.h"
#include "profile/stack_fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* What is no frame, by its number behind @: even, and below any program's addresses. */
enum { UNKNOWN_STACK_NUMBER = 2, RECURSION_NUMBER = 4, CUT_NUMBER = 6 };
static const char *const mark_names[] = {[UNKNOWN_STACK_NUMBER / 2] = EXPORT_UNKNOWN_STACK,
					 [RECURSION_NUMBER / 2] = STACK_RECURSION,
					 [CUT_NUMBER / 2] = STACK_CUT};

static uint64_t text_hash(uint64_t before, const char *text)
{
	return XXH3_64bits_withSeed(text ? text : "", text ? strlen(text) : 0, before);
}

/* An even number that looks like an address of a program. */
static uint64_t frame_number(const struct profile *p, const struct profile_frame *f)
{
	uint64_t h = text_hash(f->line, f->function);
	h = text_hash(h, f->file);
	h = text_hash(h, f->module < p->stacks.module_count ? p->stacks.modules[f->module].path
							    : NULL);
	return (h & 0x3ffffffffffe) | 0x400000000000;
}

static uint64_t *frame_numbers(const struct profile *p)
{
	uint64_t *numbers = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *numbers);
	for (uint32_t i = 0; numbers && i < p->stacks.frame_count; i++)
		numbers[i] = frame_number(p, &p->stacks.frames[i]);
	return numbers;
}

void pprof_write_name(FILE *out, const char *name)
{
	char piece[WORDS_GLYPH];
	for (size_t n; (n = words_glyph(&name, piece)) > 0;)
		fwrite(piece, 1, n, out);
}

static void write_sums(FILE *out, const struct profile_site *s)
{
	fprintf(out, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "] @", s->live_blocks,
		s->live_bytes, s->allocations + s->reallocations, s->allocated_bytes);
}

static void write_frame(FILE *out, const struct profile *p, const struct profile_node *n)
{
	const struct profile_frame *f = &p->stacks.frames[n->frame];
	fprintf(out, "#\t0x%" PRIx64 "\t", f->address);
	pprof_write_name(out, f->function);
	if (f->file) {
		putc('\t', out);
		pprof_write_name(out, f->file);
		if (f->line)
			fprintf(out, ":%" PRIu32, f->line);
	} else if (f->module < p->stacks.module_count) {
		putc('\t', out);
		pprof_write_name(out, p->stacks.modules[f->module].path);
	}
	fputs(f->inlined ? "\t(inlined)\n" : "\n", out);
}

static void write_numbers(FILE *out, const struct stack_fold *fold, uint32_t node,
			  const uint64_t *numbers)
{
	struct stack_walk w;
	struct stack_entry e;
	for (stack_walk_begin(&w, fold, node); stack_walk_next(&w, &e);) {
		if (e.times > 1)
			fprintf(out, " 0x%x", RECURSION_NUMBER);
		fprintf(out, " 0x%" PRIx64, numbers[fold->p->stacks.nodes[e.node].frame]);
		if (e.cut)
			fprintf(out, " 0x%x", CUT_NUMBER);
	}
}

static void write_frames(FILE *out, const struct stack_fold *fold, uint32_t node)
{
	struct stack_walk w;
	struct stack_entry e;
	for (stack_walk_begin(&w, fold, node); stack_walk_next(&w, &e);) {
		if (e.times > 1) {
			fprintf(out, "#\t0x0\t[recursion x%" PRIu32, e.times);
			if (e.cycle > 1)
				fprintf(out, " of %" PRIu32, e.cycle);
			fputs("]\n", out);
		}
		write_frame(out, fold->p, &fold->p->stacks.nodes[e.node]);
		if (e.cut)
			fprintf(out, "#\t0x0\t[%" PRIu32 " frames cut]\n", e.cut);
	}
}

static void write_site(FILE *out, const struct stack_fold *fold, const struct profile_site *s,
		       const uint64_t *numbers)
{
	write_sums(out, s);
	if (s->node == PROFILE_NONE)
		fprintf(out, " 0x%x", UNKNOWN_STACK_NUMBER);
	else
		write_numbers(out, fold, s->node, numbers);
	putc('\n', out);
	if (s->node == PROFILE_NONE)
		fputs("#\t0x0\t" EXPORT_UNKNOWN_STACK "\n", out);
	else
		write_frames(out, fold, s->node);
	putc('\n', out);
}

static void write_about(FILE *out, const struct profile *p)
{
	fputs("# heft " HEFT_VERSION ", pid ", out);
	fprintf(out, "%" PRId32 "\n# command:", p->run.pid);
	for (uint32_t i = 0; i < p->run.argc; i++) {
		putc(' ', out);
		pprof_write_name(out, p->run.argv[i]);
	}
	if (p->run.rate_bytes)
		fprintf(out,
			"\n# estimates from samples, one for each %" PRIu64
			" bytes allocated on average\n",
			p->run.rate_bytes);
	else
		fputs("\n# every allocation was counted\n", out);
	if (p->unseen) { /* its first line: what follows is a way out */
		char first[512];
		snprintf(first, sizeof first, "%.*s", (int)strcspn(p->unseen, "\n"), p->unseen);
		fputs("# warning: ", out);
		pprof_write_name(out, first);
		putc('\n', out);
	}
}

int pprof_write_text(FILE *out, const struct profile *p, bool allocated)
{
	struct profile_site all = {0};
	uint64_t *numbers = frame_numbers(p);
	uint32_t *order = measure_sort_sites(p, allocated ? MEASURE_ALLOCATED_BYTES
							  : MEASURE_LIVE_BYTES);
	struct stack_fold fold;
	int rc = stack_fold_init(&fold, p, STACK_LIST, NULL);
	if (!numbers || !order)
		rc = HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		all.live_blocks += s->live_blocks;
		all.live_bytes += s->live_bytes;
		all.allocations += s->allocations + s->reallocations;
		all.allocated_bytes += s->allocated_bytes;
	}
	if (rc == 0) {
		fputs("heap profile: ", out);
		write_sums(out, &all);
		fputs(" heapprofile\n", out);
		write_about(out, p);
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		write_site(out, &fold, &p->sites[order[i]], numbers);
	stack_fold_fini(&fold);
	free(numbers);
	free(order);
	return rc;
}

/* ---- names for addresses */

struct named {
	uint64_t address;
	uint32_t frame;
	bool of_file; /* an address in a file, as pprof's raw profiles have; not a frame's number */
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->of_file != y->of_file)
		return x->of_file ? 1 : -1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static struct named *named_addresses(const struct profile *p, size_t *count)
{
	struct named *all = malloc(2 * ((size_t)p->stacks.frame_count + 1) * sizeof *all);
	uint64_t *numbers = frame_numbers(p);
	*count = 0;
	for (uint32_t i = 0; all && numbers && i < p->stacks.frame_count; i++) {
		all[(*count)++] = (struct named){numbers[i], i, false};
		if (p->stacks.frames[i].address && !p->stacks.frames[i].inlined)
			all[(*count)++] = (struct named){p->stacks.frames[i].address, i, true};
	}
	if (!numbers) {
		free(all);
		all = NULL;
	}
	free(numbers);
	if (all)
		qsort(all, *count, sizeof *all, compare_named);
	return all;
}

/* The first one of that address. */
static const struct named *find_named(const struct named *all, size_t count, uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (all[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && all[low].address == address ? &all[low] : NULL;
}

/* As it is, or as a reader has it that stepped back into the call. */
static const char *name_of(const struct profile *p, const struct named *all, size_t count,
			   uint64_t address)
{
	const struct named *found = find_named(all, count, address);
	if (!found && address < UINT64_MAX) {
		found = find_named(all, count, address + 1);
		if (found && found->of_file)
			found = NULL;
	}
	if (found)
		return p->stacks.frames[found->frame].function;
	uint64_t mark = (address + 1) / 2; /* its own number, or one less */
	return mark && mark < sizeof mark_names / sizeof *mark_names ? mark_names[mark] : NULL;
}

int pprof_write_symbols(FILE *out, const struct profile *p, const char *asked)
{
	size_t count;
	struct named *all = named_addresses(p, &count);
	if (!all)
		return HEFT_ENOMEM;
	/* How many there are does not matter to readers, only whether any. */
	fputs("num_symbols: 1\n", out);
	while (*asked) {
		char word[24];
		size_t length = strcspn(asked, "+& \r\n");
		if (length < sizeof word && strncasecmp(asked, "0x", 2) == 0) {
			char *end;
			memcpy(word, asked, length);
			word[length] = 0;
			uint64_t address = strtoull(word, &end, 16);
			const char *name = *end ? NULL : name_of(p, all, count, address);
			if (name) {
				fprintf(out, "0x%" PRIx64 " ", address);
				pprof_write_name(out, name);
				putc('\n', out);
			}
		}
		asked += length;
		asked += *asked != 0;
	}
	free(all);
	return 0;
}
