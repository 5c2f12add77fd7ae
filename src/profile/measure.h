/* Everything that heft can count of a site, a thread or a run: one table (measure.c).
 *
 * Sorting, columns, --measure, budgets, CSV, JSON, pprof, comparisons and pages read it, so that a new
 * measure is one row there, and the field that holds its number. */
#ifndef HEFT_PROFILE_MEASURE_H
#define HEFT_PROFILE_MEASURE_H

#include "profile/profile.h"

/* In the order in which tables and JSON have them. The first is what is meant where nobody chose. */
enum measure_id {
	MEASURE_PEAK_BYTES,
	MEASURE_PEAK_BLOCKS,
	MEASURE_OWN_PEAK_BYTES,
	MEASURE_PEAK_SLACK_BYTES,
	MEASURE_PEAK_TIME,
	MEASURE_LIVE_BYTES,
	MEASURE_LIVE_BLOCKS,
	MEASURE_LIVE_SLACK_BYTES,
	MEASURE_LEFT_BYTES,
	MEASURE_LEFT_BLOCKS,
	MEASURE_START_BYTES,
	MEASURE_START_BLOCKS,
	MEASURE_GREW_BYTES,
	MEASURE_GREW_BLOCKS,
	MEASURE_ALLOCATED_BYTES,
	MEASURE_ALLOCATIONS,
	MEASURE_REALLOCATIONS,
	MEASURE_REALLOCATED_BYTES,
	MEASURE_FREES,
	MEASURE_TEMPORARY,
	MEASURE_CROSS_THREAD_FREES,
	MEASURE_MAPPED_BYTES,
	MEASURE_MAPPED_PIECES,
	MEASURE_MAPPED_LEFT_BYTES,
	MEASURE_LIFETIME, /* mean */
	MEASURE_LIFETIME_P50,
	MEASURE_LIFETIME_P99,
	MEASURE_LIFETIME_MAX,
	MEASURE_UNREACHABLE_BYTES,
	MEASURE_UNREACHABLE_BLOCKS,
	MEASURE_INDIRECT_BYTES,
	MEASURE_INDIRECT_BLOCKS,
	MEASURE_HELD_BYTES,
	MEASURE_HELD_BLOCKS,
	MEASURE_UNTOUCHED_BYTES,
	MEASURE_UNTOUCHED_BLOCKS,
	MEASURE_DUPLICATE_BYTES,
	MEASURE_DUPLICATE_BLOCKS,
	MEASURE_ZERO_BYTES,
	MEASURE_ZERO_BLOCKS,
	MEASURE_PINNED_BYTES,
	MEASURE_THREADS,
	MEASURE_DROPPED,
	MEASURE_PEAK_RSS_BYTES,
	MEASURE_PEAK_ANONYMOUS_BYTES,
	MEASURE_RSS_BYTES,
	MEASURE_RESIDENT_HEAP_BYTES,
	MEASURE_HELD_FREE_BYTES,
	MEASURE_RESIDENT_ALLOCATOR_BYTES,
	MEASURE_RESIDENT_LIBRARY_BYTES,
	MEASURE_RESIDENT_STACK_BYTES,
	MEASURE_RESIDENT_ANONYMOUS_BYTES,
	MEASURE_UNEXPLAINED_BYTES,
	MEASURE_UNKNOWN_FREES,
	MEASURE_OLDER_FREES,
	MEASURE_DURATION,
	MEASURE_COUNT
};

enum measure_unit { MEASURE_IS_COUNT, MEASURE_IS_BYTES, MEASURE_IS_TIME };

/* What a measure is summed over decides what may be done with it. */
enum measure_kind {
	MEASURE_AT_MOMENT, /* the state at one moment: sites add up (own peaks to an upper bound) */
	MEASURE_OVER_TIME, /* what happened in a time: sites add up, and it can be had per second */
	MEASURE_OF_BLOCKS, /* a statistic of single blocks: sites do not add up */
	MEASURE_OF_RUN,    /* of the whole run */
};

/* Where a number stands in a struct: its offset + 1; 0: the struct does not have it. */
typedef uint16_t measure_field;

struct measure {
	const char *name;   /* in JSON, CSV and budgets: "live_bytes" */
	const char *option; /* for --sort and --measure: "live"; NULL: neither takes it */
	const char *title;  /* over a column: "live at end" */
	const char *state;  /* behind a number, "3.5 MiB live at the end" */
	const char *words;  /* in a sentence: "bytes live at the end" */
	const char *pprof;  /* its type in pprof files: "inuse_space"; NULL: it has none */
	enum measure_unit unit;
	enum measure_kind kind;
	uint32_t needs; /* enum profile_has: what an input must tell for it */
	/* Where the number is in profile_site, profile_totals and profile_thread. `errors` is its 95 % error in
	 * profile_errors; `spread`, a double, is its variance in profile_spread, and `samples` how many
	 * samples it is made of. All but `spread` must be uint64_t. */
	measure_field site, totals, thread, errors, spread, samples;
	measure_field minus;    /* in profile_site: what is taken off */
	enum measure_id blocks; /* bytes at a moment: in how many blocks; else MEASURE_COUNT */
};
extern const struct measure measures[MEASURE_COUNT];

/* The one with this option; MEASURE_COUNT: there is none. */
enum measure_id measure_of_option(const char *option);

/* "bytes", "count", "ns" */
const char *measure_unit_name(enum measure_id id);
/* Whether two runs are compared by it: what can be chosen, is not of a window and need not be asked for. */
bool measure_is_compared(enum measure_id id);
/* Whether the input that a profile came from tells it. */
bool measure_known(const struct profile *p, enum measure_id id);
/* Why an input does not have what is needed (enum profile_has), in a few words. */
const char *measure_lack_words(uint32_t needs);

uint64_t measure_of_site(const struct profile_site *site, enum measure_id id);
uint64_t measure_of_totals(const struct profile_totals *totals, enum measure_id id);
uint64_t measure_of_thread(const struct profile_thread *thread, enum measure_id id);
/* What stacks are added up by: the measure itself, and of lifetimes their sum. */
uint64_t measure_of_stack(const struct profile_site *site, enum measure_id id);

uint64_t measure_of_errors(const struct profile_errors *errors, enum measure_id id);
/* 95 % error of a site's number, or (site PROFILE_NONE) of the total; 0 where it is exact. */
uint64_t measure_error95(const struct profile *p, uint32_t site, enum measure_id id);
/* Samples that the number was estimated from. */
uint64_t measure_samples(const struct profile *p, uint32_t site, enum measure_id id);
double measure_variance(const struct profile_spread *spread, enum measure_id id);
/* An estimate from so few samples that little is known (estimate.h). */
bool measure_is_rough(const struct profile *p, uint32_t site, enum measure_id id);

/* Whether the numbers of sites add up to that of the whole, as far as it goes (MEASURE_AT_MOMENT, MEASURE_OVER_TIME). */
bool measure_adds_up(const struct measure *m);
/* For a measure that adds up. */
void measure_set_site(struct profile_site *site, enum measure_id id, uint64_t value);

/* Indices of all sites, greatest first; equal ones keep their order. NULL: no memory; free() it. */
uint32_t *measure_sort_sites(const struct profile *p, enum measure_id id);
/* Adds every number that adds up. */
void measure_add_sums(struct profile_site *to, const struct profile_site *from);
/* The same; and the mean lifetime becomes that of both. */
void measure_add_site(struct profile_site *to, const struct profile_site *from);
/* Sets the totals of what adds up to the sums over sites. */
void measure_sum_sites(struct profile_totals *totals, const struct profile_site *sites,
		       uint32_t count);

#endif
