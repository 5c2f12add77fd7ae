/* Leaks that are known and not to be shown: files in the format of LeakSanitizer. */
#ifndef HEFT_PROFILE_LEAK_SUPPRESSIONS_H
#define HEFT_PROFILE_LEAK_SUPPRESSIONS_H

#include "profile/profile.h"

struct leak_suppressions;

/* HEFT_EUSAGE: a line that is no suppression of leaks, with its number. */
int leak_suppressions_parse(struct leak_suppressions **out, const char *name, const char *text,
			    struct heft_error *err);
int leak_suppressions_read(struct leak_suppressions **out, const char *path,
			   struct heft_error *err);
void leak_suppressions_free(struct leak_suppressions *s);
/* Whether a pattern of such a file matches a name: it may be anywhere in it; "*" stands for anything, "^" and "$" for
 * its ends. */
bool leak_pattern_matches(const char *pattern, const char *name);
/* Takes away what is unreachable at sites with a frame whose function, file or module matches, in the profile and in its
 * judged processes; notes how much it was. */
int leak_suppressions_apply(const struct leak_suppressions *s, struct profile *p,
			    struct heft_error *err);

#endif
