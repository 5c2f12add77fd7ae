/* Shared by the files that take a ledger: what is known of the process, and who claims its pages. */
#ifndef HEFT_LEDGER_LEDGER_PARTS_H
#define HEFT_LEDGER_LEDGER_PARTS_H

#include "attach/older_blocks.h"
#include "attach/stop.h"
#include "attach/target_modules.h"
#include "hosted/error.h"
#include "hosted/name_pool.h"
#include "ledger/ledger_pages.h"
#include "ledger/ledger_spans.h"
#include "ledger/ledger_take.h"

/* Where spans of the heap go before its lines are made (ledger_heap.c). Its address is what counts. */
extern const char ledger_heap_name[];
/* The same for pages of other allocators that have live blocks (ledger_recorded.c). */
extern const char ledger_pages_of_blocks[];
/* The break of a program whose allocator is not glibc's */
extern const char ledger_break_name[];

/* Rules claim pages in turns. What a turn has got is no later one's. */
enum ledger_turn {
	LEDGER_TURN_NAMES,
	LEDGER_TURN_BSS,
	LEDGER_TURN_OWN,
	LEDGER_TURN_HEAP,
	LEDGER_TURN_RECORDED,
	LEDGER_TURN_BREAK, /* what recorded blocks have left of it, if the allocator's heap cannot be read */
	LEDGER_TURN_RUNTIMES,
	LEDGER_TURN_STACKS,
	LEDGER_TURN_KEPT_STACKS,
	LEDGER_TURN_MAPPED,
	LEDGER_TURN_REST,
	LEDGER_TURNS,
};

struct ledger_taking {
	pid_t pid;
	struct stop *stop;
	const struct ledger_request *request; /* NULL: nobody records it */
	const struct ledger_look *look;       /* or NULL */
	/* From before the pause */
	struct target_modules modules;
	struct older_heap *heap;   /* glibc's; NULL: it has another allocator, or cannot be read */
	struct heft_error no_heap; /* why it cannot */
	const char *allocator;     /* the file of another allocator than libc's; NULL: none */
	uint64_t heap_took_ns;     /* how long it took to read the heap while the program ran */
	/* From the pause */
	struct ledger_pages pages;
	VECTOR(char) maps_text;
	VECTOR(struct stop_thread) threads;
	uint64_t *thread_pointers;
	struct older_totals totals; /* of the heap */
	bool heap_was_still;
	bool only_extents;                /* of the heap are known */
	struct ledger_blocks blocks;      /* that were recorded */
	VECTOR(struct older_block) large; /* of these: may have mappings of their own */
	bool large_listed;
	/* From after it */
	struct target_maps maps;
	struct name_pool *names;
	enum ledger_turn turn; /* of the rule that makes its claims */
	struct ledger_spans wanted[LEDGER_TURNS], taken;
};

/* A claim of this turn; false: no memory. */
bool ledger_claim(struct ledger_taking *t, uint64_t start, uint64_t end, enum ledger_kind kind,
		  const char *name);
/* The same, of what is anonymous memory there, has no name but the break's and is not only reserved: for places that the
 * program's own memory names, which may be anywhere. */
bool ledger_claim_anonymous(struct ledger_taking *t, uint64_t start, uint64_t end,
			    enum ledger_kind kind, const char *name);
/* Memory of the process, now. False: not all of it is there. */
bool ledger_read(struct ledger_taking *t, uint64_t at, void *to, size_t bytes);
/* Anonymous memory that its process can write to, and that has no name. */
bool ledger_is_plain(const struct target_mapping *m);
/* For how long it has run */
uint64_t ledger_age_ns(pid_t pid);
/* Memory that is only reserved. */
bool ledger_is_reserved(const struct target_mapping *m);

/* ledger_lines.c: all claims of rules that look into the memory of the process, which must not end before, or of those
 * that do not; */
int ledger_claims_make(struct ledger_taking *t, bool looking, struct heft_error *err);
/* the claims of the latter, and then every turn gets its pages; */
int ledger_claims_settle(struct ledger_taking *t, struct heft_error *err);
/* and the lines. l->rss_bytes is known. */
int ledger_lines_make(struct ledger_taking *t, struct ledger *l, struct heft_error *err);
/* Whoever waits for the recorder sees that something is done. */
void ledger_show_life(const struct ledger_taking *t);

/* ledger_heap.c: before the pause, in it, and after it */
void ledger_heap_open(struct ledger_taking *t);
void ledger_heap_read_still(struct ledger_taking *t);
int ledger_heap_claim(struct ledger_taking *t, struct heft_error *err);
/* Makes the lines of what the heap has got. */
int ledger_heap_lines(struct ledger_taking *t, const struct ledger_bytes *heap, struct ledger *l,
		      struct heft_error *err);

/* ledger_recorded.c: pages of other allocators than glibc's that have live blocks */
/* heft's own memory in a recorded process */
int ledger_own_claim(struct ledger_taking *t, struct heft_error *err);
/* Copies all live blocks to t->blocks, for a look. */
int ledger_recorded_list(struct ledger_taking *t, struct heft_error *err);
int ledger_recorded_claim(struct ledger_taking *t, struct heft_error *err);
/* Makes the lines of both heaps from the blocks. `arenas`: what glibc's arenas have; `others`: those pages. */
int ledger_recorded_lines(struct ledger_taking *t, const struct ledger_bytes *arenas,
			  const struct ledger_bytes *others, struct ledger *l,
			  struct heft_error *err);
/* ledger_heap.c: makes lines of what is free in arenas, kind by kind. `rest`: what is of no kind. */
int ledger_heap_free_lines(struct ledger_taking *t, struct ledger_bytes *rest, struct ledger *l,
			   struct heft_error *err);
/* a - b; false: it would be negative. */
bool ledger_subtract(struct ledger_bytes *a, const struct ledger_bytes *b);

/* ledger_names.c: what has a name, .bss, and heft's own */
/* Whether it is a file into which a process records (wire/session.h). */
bool ledger_is_session(const struct target_mapping *m);
int ledger_names_claim(struct ledger_taking *t, struct heft_error *err);
/* ledger_stacks.c */
int ledger_stacks_claim(struct ledger_taking *t, struct heft_error *err);
/* Whether it is one that an ended thread has left */
bool ledger_is_kept_stack(const struct ledger_span *s);
/* ledger_runtimes.c: heaps of interpreters */
int ledger_runtimes_claim(struct ledger_taking *t, struct heft_error *err);
/* ledger_java.c; false: no memory */
bool ledger_java_claim(struct ledger_taking *t);
/* ledger_names.c: anonymous memory that a recorded call has mapped, each with its site */
int ledger_mapped_claim(struct ledger_taking *t, struct heft_error *err);
/* And what nobody else has claimed */
int ledger_rest_claim(struct ledger_taking *t, struct heft_error *err);

#endif
