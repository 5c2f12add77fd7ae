/* Inside src/findings, for copied-records: what is compared, a site or a group of sites, and how two of them are
 * alike. */
#ifndef HEFT_FINDINGS_COPY_UNITS_H
#define HEFT_FINDINGS_COPY_UNITS_H

#include "findings/copy_names.h"
#include "findings/diagnosis.h"

/* Fewer blocks at one place agree by chance too often. */
#define COPIES_LEAST_BLOCKS 100
/* So many of the largest sites are looked at; one copy has at most so many originals. */
enum { COPIES_UNITS = 400, COPIES_ORIGINALS = 3 };

/* A site, or sites that are made by the same functions */
struct unit {
	uint32_t site; /* the largest */
	bool group;
	uint64_t blocks, bytes;    /* live at the peak */
	uint64_t made, made_bytes; /* ever; 0: some were resized */
	bool resized;
	bool taken; /* is an original or a copy already */
};

/* How a copy is like its original, the surest first: the same numbers; nearly the same; smaller; larger, as
 * what is assigned to a C++ string */
enum likeness { LIKE_SAME, LIKE_NEARLY, LIKE_SMALLER, LIKE_LARGER, LIKENESSES };

struct match {
	uint32_t copy, originals[COPIES_ORIGINALS], count;
	bool in_order, named;
	bool varied, text,
		elsewhere; /* sizes differ, are those of text; another function makes the copies */
	enum likeness like;
	uint32_t place; /* the node that names who copies */
};

struct copies {
	struct diagnosis *d;
	struct unit *units;
	uint32_t count;
	uint32_t *group_of;    /* by site: its unit of the kind group, or HASH_NONE */
	enum copy_name *names; /* by frame */
	bool *roomy;           /* by frame: makes_room */
	struct match *matches;
	uint32_t match_count;
};

/* Fills c->units and c->group_of: single sites come first, then groups of several. HEFT_ENOMEM */
int copy_units_make(struct copies *c);
/* Whether a unit is free: neither it, nor what it is part of, nor a part of it is taken. */
bool unit_is_free(const struct copies *c, uint32_t unit);
bool units_overlap(const struct copies *c, uint32_t a, uint32_t b);
bool units_are_alike(const struct unit *copy, const struct unit *original, enum likeness how);
struct unit units_sum(const struct unit *a, const struct unit *b);

#endif
