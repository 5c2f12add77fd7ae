/* Inside src/findings: by which function people know a site, and what two stacks have in common. */
#ifndef HEFT_FINDINGS_SITE_NAMES_H
#define HEFT_FINDINGS_SITE_NAMES_H

#include "profile/profile.h"

/* For each site the node that names it: its first user frame, or PROFILE_NONE without a stack. NULL: no
 * memory; free() it. */
uint32_t *site_names_new(const struct profile *p);

/* The node that names a place of freeing: the first user frame that does more than take down what it is given
 * (message_free, Job::~Job, drop_in_place). */
uint32_t release_name(const struct profile *p, uint32_t node);

/* Next user frame outward; PROFILE_NONE: there is none. */
uint32_t user_caller(const struct profile *p, uint32_t node);

/* Whether two frames are in one function, on any line. */
bool same_function(const struct profile *p, uint32_t frame, uint32_t other);

/* The innermost user frame of a's stack that b's stack has too. Both enter that function by the same call,
 * but may be on different lines of it. PROFILE_NONE: they have none in common. */
uint32_t common_user_node(const struct profile *p, uint32_t a, uint32_t b);

/* Sorts the sites by the function that names them: most diagnoses look at groups of one function. Sites
 * without a stack are left out. NULL: no memory; free() it. */
uint32_t *sites_by_function(const struct profile *p, const uint32_t *named, uint32_t *count);
bool named_alike(const struct profile *p, const uint32_t *named, uint32_t site, uint32_t other);

/* Whether the name of the node's function is not known ("module+0x12"). */
bool node_is_nameless(const struct profile *p, uint32_t node);

#endif
