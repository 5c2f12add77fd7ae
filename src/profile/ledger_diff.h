/* The ledgers of two profiles compared: which line of the resident memory has grown. */
#ifndef HEFT_PROFILE_LEDGER_DIFF_H
#define HEFT_PROFILE_LEDGER_DIFF_H

#include "hosted/ledger.h"
#include "profile/profile.h"

/* A line on both sides. NULL: it is not on this one. */
struct ledger_change {
	const struct ledger_line *old, *new;
	int64_t change; /* of its resident bytes */
};

struct ledger_diff {
	VECTOR_MEMBERS(struct ledger_change); /* the change furthest from 0 first */
	const struct ledger *old, *new;       /* of the profiles, which must outlive it */
};

/* Compares the largest ledgers of one kind of moment. 0, HEFT_ENOTFOUND if one side has none, HEFT_ENOMEM. */
int ledger_diff_init(struct ledger_diff *d, const struct profile *old, const struct profile *new,
		     enum ledger_moment moment);
void ledger_diff_fini(struct ledger_diff *d);
/* Whether the resident memory or a line changed by more. */
bool ledger_diff_is_beyond(const struct ledger_diff *d, double threshold);

#endif
