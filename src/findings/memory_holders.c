/* Notes that most of the resident memory is not what malloc gave out, with figures: who holds it, and what to try. They come
 * from ledgers (hosted/ledger.h), which count pages: so a note says what was resident at one moment, and names the
 * lines as the ledger names them.
 *
 * Nothing is wrong with such a program: that an interpreter, a cache or a table maps its memory itself is how it was
 * made. So these are notes. They keep people from looking for the memory where it is not.
 *
 * Under another allocator than glibc's, memory without live blocks may be the allocator's: then nothing is said, unless a
 * language's runtime is known (runtime_hints.c), whose heaps the ledger recognises. */
#include "findings/memory_holders.h"

#include "findings/finding_words.h"
#include "hosted/ledger_words.h"
#include "profile/process_groups.h"
#include "profile/profile_ledgers.h"

#include <string.h>

#define ABOUT "resident-memory"
/* Half of it, and worth a word: the same as for runtimes. */
#define HOLDERS_LEAST_SHARE 0.5
#define HOLDERS_LEAST_BYTES (8u << 20)
/* A line that has less is not named. */
#define HOLDERS_LEAST_LINE_SHARE 0.05

/* ---- ledgers */

static bool is_others(const struct ledger_line *line)
{
	return line->kind == LEDGER_ALLOCATOR || line->kind == LEDGER_ANONYMOUS ||
	       line->kind == LEDGER_SHARED_MEMORY;
}

static struct memory_holders add_up(const struct ledger *l)
{
	struct memory_holders h = {.ledger = l};
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = &l->items[i];
		uint64_t bytes = line->bytes.resident;
		if (line->kind <= LEDGER_LARGE_MAPPINGS)
			h.heap_bytes += bytes;
		if (line->kind == LEDGER_HELD_FREE)
			h.free_bytes += bytes;
		h.other_bytes += is_others(line) ? bytes : 0;
	}
	return h;
}

/* The largest line of those that are smaller than `below`, or as large and after `after`. */
static const struct ledger_line *next_line(const struct ledger *l, const struct ledger_line *after)
{
	const struct ledger_line *found = NULL;
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = &l->items[i];
		uint64_t bytes = line->bytes.resident;
		if (!is_others(line) ||
		    (after && (bytes > after->bytes.resident ||
			       (bytes == after->bytes.resident && line <= after))))
			continue;
		if (!found || bytes > found->bytes.resident)
			found = line;
	}
	return found;
}

static int name_lines(struct diagnosis *d, struct memory_holders *h)
{
	const struct ledger_line *line = NULL;
	while (h->count < HOLDERS_MOST && (line = next_line(h->ledger, line))) {
		uint64_t bytes = line->bytes.resident;
		if (!bytes || share_of(bytes, h->ledger->rss_bytes) < HOLDERS_LEAST_LINE_SHARE)
			break;
		const char *text = diagnosis_text(d, "%s: %s", words_size(bytes).text, line->name);
		if (!text)
			return HEFT_ENOMEM;
		h->holders[h->count++] = text;
	}
	return 0;
}

/* A process that called exec has been several with one number. */
static bool is_of(const struct ledger *l, const struct profile *p, uint32_t process)
{
	const struct profile_process *q = &p->processes[process];
	return l->pid == q->pid &&
	       (p->process_count == 1 || (l->time_ns >= q->start_ns && l->time_ns <= q->end_ns));
}

int memory_holders(struct diagnosis *d, uint32_t process, bool free_memory,
		   struct memory_holders *h)
{
	const struct profile *p = d->whole;
	*h = (struct memory_holders){0};
	for (uint32_t i = 0; i < p->ledger_count && process < p->process_count; i++) {
		const struct ledger *l = &p->ledgers[i];
		/* What is free at exit was often freed just before. */
		if (!is_of(l, p, process) || (free_memory && l->moment == LEDGER_EXIT))
			continue;
		struct memory_holders one = add_up(l);
		if (!h->ledger || (free_memory ? one.free_bytes > h->free_bytes
					       : one.other_bytes > h->other_bytes))
			*h = one;
	}
	return h->ledger ? name_lines(d, h) : 0;
}

/* ---- words */

static const char *list_holders(struct diagnosis *d, const struct memory_holders *h)
{
	const char *text = "";
	for (uint32_t i = 0; i < h->count && text; i++)
		text = diagnosis_text(d, "%s; %s", text, h->holders[i]);
	return text;
}

const char *memory_holders_sentence(struct diagnosis *d, const struct memory_holders *h)
{
	const char *list = list_holders(d, h);
	return list ? diagnosis_text(d, "%s %s were resident: malloc's heap had %s%s",
				     ledger_moment_words(h->ledger->moment),
				     words_size(h->ledger->rss_bytes).text,
				     words_size(h->heap_bytes).text, list)
		    : NULL;
}

void memory_holders_evidence(struct diagnosis *d, struct draft *f, const struct memory_holders *h)
{
	const char **texts = name_pool_alloc(d->pool, sizeof h->holders);
	f->no_memory |= !texts;
	if (!texts)
		return;
	memcpy(texts, h->holders, sizeof h->holders);
	draft_text(f, "moment", ledger_moment_name(h->ledger->moment));
	draft_bytes(f, "rss_bytes", h->ledger->rss_bytes);
	draft_bytes(f, "heap_bytes", h->heap_bytes);
	draft_bytes(f, "free_bytes", h->free_bytes);
	draft_bytes(f, "other_bytes", h->other_bytes);
	draft_texts(f, "holders", texts, h->count);
}

/* ---- the notes */

static bool is_much(uint64_t bytes, const struct memory_holders *h)
{
	return bytes >= HOLDERS_LEAST_BYTES &&
	       share_of(bytes, h->ledger->rss_bytes) >= HOLDERS_LEAST_SHARE;
}

/* Whether a runtime's note has these figures already. */
static bool is_told(const struct diagnosis *d, int32_t pid)
{
	for (uint32_t i = 0; i < findings_note_count(d->out); i++) {
		const struct finding_note *n = findings_note(d->out, i);
		bool names_process = false;
		if (strcmp(n->about, "runtime") != 0)
			continue;
		for (uint32_t k = 0; k < n->evidence_count; k++)
			if (!strcmp(n->evidence[k].name, "pid")) {
				names_process = true;
				if (n->evidence[k].number == (uint64_t)pid)
					return true;
			}
		if (!names_process)
			return true;
	}
	return false;
}

/* what: NULL if there is no memory for it */
static int add_note(struct diagnosis *d, uint32_t process, const struct memory_holders *h,
		    const char *what, const char *advice)
{
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE, 0);
	const char *figures = memory_holders_sentence(d, h);
	f.finding.summary = what && figures ? diagnosis_text(d, "%s: %s", what, figures) : NULL;
	f.finding.advice = advice;
	if (d->whole->process_count > 1) {
		f.finding.summary = diagnosis_in_process(d, d->whole, process, f.finding.summary);
		draft_count(&f, "pid", (uint64_t)d->whole->processes[process].pid);
	}
	memory_holders_evidence(d, &f, h);
	return draft_add_note(d, &f, ABOUT, false);
}

static int note_others(struct diagnosis *d, uint32_t process)
{
	struct memory_holders h;
	int rc = memory_holders(d, process, false, &h);
	if (rc || !h.ledger || !ledger_is_of_glibc(h.ledger) || !is_much(h.other_bytes, &h) ||
	    is_told(d, d->whole->processes[process].pid))
		return rc;
	return add_note(d, process, &h, "most of the resident memory is not malloc's",
			"heft map --events FILE lists the calls that mapped memory, heft report "
			"--sort mapped FILE the call stacks that had most of it.");
}

static int note_free(struct diagnosis *d, uint32_t process)
{
	struct memory_holders h;
	int rc = memory_holders(d, process, true, &h);
	if (rc || !h.ledger || !ledger_is_of_glibc(h.ledger) || !is_much(h.free_bytes, &h))
		return rc;
	return add_note(d, process, &h,
			diagnosis_text(d,
				       "%s of the resident memory are free, and malloc keeps them",
				       words_size(h.free_bytes).text),
			"malloc_trim(0) gives back what can go. With many threads, "
			"MALLOC_ARENA_MAX=2 in the environment limits how many heaps keep some. "
			"heft run --leaks says which blocks keep pages.");
}

/* Whether a process of this program has a note: processes of one program are alike. */
static bool is_noted(const struct profile *p, const uint32_t *noted, uint32_t count,
		     uint32_t process)
{
	for (uint32_t i = 0; i < count; i++)
		if (noted[i] == process || !strcmp(process_program(&p->processes[noted[i]]),
						   process_program(&p->processes[process])))
			return true;
	return false;
}

int note_memory_holders(struct diagnosis *d)
{
	const struct profile *p = d->whole;
	uint32_t noted[FINDINGS_OF_A_KIND], count = 0, last = PROFILE_NONE;
	for (uint32_t i = 0; i < p->ledger_count && count < FINDINGS_OF_A_KIND; i++) {
		uint32_t process = profile_ledger_process(p, &p->ledgers[i]);
		uint32_t before = findings_note_count(d->out);
		if (process == PROFILE_NONE || process == last ||
		    is_noted(p, noted, count, process))
			continue;
		last = process;
		int rc = note_others(d, process);
		if (rc == 0 && findings_note_count(d->out) == before)
			rc = note_free(d, process);
		if (rc)
			return rc;
		if (findings_note_count(d->out) > before)
			noted[count++] = process;
	}
	return 0;
}
