/* Inside src/findings: by which function people know a site, and what two stacks have in common. */
#ifndef HEFT_FINDINGS_SITE_NAMES_H
#define HEFT_FINDINGS_SITE_NAMES_H

#include "profile/profile.h"

/* By site the node that names it: its first user frame. PROFILE_NONE without a stack. NULL: no
 * memory; free() it. */
uint32_t *site_names_new(const struct profile *p);

/* Where a stack is freed: the first user frame, or its caller if that one does nothing but free
 * (message_free). */
uint32_t release_name(const struct profile *p, uint32_t node);

/* Next user frame outward; PROFILE_NONE: there is none. */
uint32_t user_caller(const struct profile *p, uint32_t node);

/* Do two frames stand in one function (whatever the line)? */
bool same_function(const struct profile *p, uint32_t frame, uint32_t other);

/* The innermost user frame of a's stack that b's has too. Both stacks enter that function by the
 * same call, but may stand on different lines of it. PROFILE_NONE: nothing in common. */
uint32_t common_user_node(const struct profile *p, uint32_t a, uint32_t b);

/* Sites whose naming function is one and the same stand next to each other: the groups that most
 * diagnoses look at. Sites without a stack are left out. NULL: no memory; free() it. */
uint32_t *sites_by_function(const struct profile *p, const uint32_t *named, uint32_t *count);
bool named_alike(const struct profile *p, const uint32_t *named, uint32_t site, uint32_t other);

/* Does the node stand for a name that is not known ("module+0x12")? */
bool node_is_nameless(const struct profile *p, uint32_t node);

#endif
