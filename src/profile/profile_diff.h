/* What changed between two profiles, call stack by call stack. */
#ifndef HEFT_PROFILE_PROFILE_DIFF_H
#define HEFT_PROFILE_PROFILE_DIFF_H

#include "profile/measure.h"

/* One stack on one side: sums of the sites that it stands for. */
struct profile_diff_side {
	uint32_t site;  /* index of the largest of them by peak; PROFILE_NONE: not on this side */
	uint32_t sites; /* how many */
	struct profile_site sums; /* what adds up (measure_add_site); the rest is of no meaning */
	double lifetime_ns;       /* mean, over blocks */
	struct profile_spread variance; /* of a sampled side: squares of the 95 % errors */
};

enum profile_matched {
	PROFILE_MATCHED_STACK,   /* the same functions in the same modules */
	PROFILE_MATCHED_USER,    /* the same but for runtime libraries' frames */
	PROFILE_MATCHED_INLINED, /* the same but for functions that one side has nowhere */
};

struct profile_diff_entry {
	struct profile_diff_side old, new;
	enum profile_matched matched; /* if it is on both sides */
};

enum profile_per_unit {
	PROFILE_PER_RUN,
	PROFILE_PER_SECOND, /* divides what adds up over time: allocations, bytes, temporaries */
	PROFILE_PER_OPERATIONS, /* divides everything but lifetimes */
};

struct profile_per {
	enum profile_per_unit unit;
	double old, new; /* operations of each side, for PROFILE_PER_OPERATIONS */
};

struct profile_diff {
	const struct profile *old, *new; /* must outlive it */
	struct profile_diff_entry *entries;
	uint32_t count;
	struct profile_diff_side old_total, new_total;
	struct profile_per per; /* of seconds the durations */
};

/* per may be NULL. 0, HEFT_ENOMEM, or HEFT_EUSAGE if there is nothing to divide by. */
int profile_diff_new(struct profile_diff **out, const struct profile *old,
		     const struct profile *new, const struct profile_per *per,
		     struct heft_error *err);
void profile_diff_free(struct profile_diff *d);

/* A measure of one side, divided as asked for. */
double profile_diff_old(const struct profile_diff *d, const struct profile_diff_side *s,
			enum measure_id measure);
double profile_diff_new_value(const struct profile_diff *d, const struct profile_diff_side *s,
			      enum measure_id measure);
/* How far a side may be from the truth; and the place of its variance, to add sides up. */
double profile_diff_side_error95(const struct profile_diff_side *s, enum measure_id measure);
double *profile_diff_variance(struct profile_diff_side *s, enum measure_id measure);
/* new - old */
double profile_diff_change(const struct profile_diff *d, const struct profile_diff_entry *e,
			   enum measure_id measure);
/* Whether one of the sides is sampled, with known errors. */
bool profile_diff_is_estimate(const struct profile_diff *d);
/* The true change is new - old plus or minus this, in 95 % of cases: both sides' errors together. A
 * stack that a sampled side does not have may be there unseen, and that is its error. 0: exact. */
double profile_diff_error95(const struct profile_diff *d, const struct profile_diff_entry *e,
			    enum measure_id measure);
double profile_diff_total_error95(const struct profile_diff *d, enum measure_id measure);
/* Whether both sides have the measure: foreign files do not have all. */
bool profile_diff_has(const struct profile_diff *d, enum measure_id measure);
bool profile_diff_divides(const struct profile_diff *d, enum measure_id measure);

/* Changes up to this are noise. */
struct profile_threshold {
	bool absolute;
	double share; /* of the larger total; of lifetimes: of the longer run */
	double value; /* if absolute: in the measure's own unit, after dividing */
};

/* Noise where nothing was said: a share of the total. Runs of threaded programs seldom repeat
 * closer; what is divided by time, or is time, repeats less. */
#define PROFILE_NOISE 0.01
#define PROFILE_NOISE_TIMED 0.05
/* An amount is in the unit of the measure it was given for: the others have the usual share. */
struct profile_threshold profile_threshold_for(const struct profile_threshold *given,
					       enum measure_id asked, enum measure_id measure);

enum profile_change {
	PROFILE_SAME,          /* within the threshold */
	PROFILE_INSIGNIFICANT, /* beyond it, but within the error of two estimates: perhaps none */
	PROFILE_GROWN,
	PROFILE_SHRUNK,
	PROFILE_NEW,
	PROFILE_VANISHED,
	PROFILE_CHANGES
};
const char *profile_change_name(enum profile_change change); /* "grown" */
enum profile_change profile_diff_classify(const struct profile_diff *d,
					  const struct profile_diff_entry *e,
					  enum measure_id measure, double threshold);

/* What changed in one measure. */
struct profile_diff_summary {
	double old, new, threshold;
	double error95; /* of new - old */
	uint32_t counts[PROFILE_CHANGES];
	double below;           /* sum of the changes that are within the threshold */
	double largest;         /* the change furthest from 0 */
	uint32_t largest_entry; /* PROFILE_NONE: nothing differs at all */
	uint32_t next_entry;    /* the same of changes that are significant */
	bool changed; /* the total or a stack is beyond the threshold and, of estimates, their error */
};
void profile_diff_summarise(const struct profile_diff *d, enum measure_id measure,
			    const struct profile_threshold *threshold,
			    struct profile_diff_summary *s);
/* Entry indices, the change furthest from 0 first. NULL: no memory; free() it. */
uint32_t *profile_diff_sorted(const struct profile_diff *d, enum measure_id measure);

#endif
