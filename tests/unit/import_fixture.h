/* Bytes in memory as a file, through the same way in that every verb uses. */
#ifndef HEFT_TESTS_IMPORT_FIXTURE_H
#define HEFT_TESTS_IMPORT_FIXTURE_H

#include "import/import.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int import_bytes_with(struct profile **p, const void *bytes, size_t length,
			     const struct profile_selection *sel, struct heft_error *err)
{
	char path[64];
	int fd = memfd_create("profile", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), (ssize_t)length);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	memset(err, 0, sizeof *err);
	int rc = import_profile(p, path, sel, err);
	close(fd);
	return rc;
}

static inline struct profile *import_ok(const void *bytes, size_t length)
{
	struct profile *p = NULL;
	struct heft_error err;
	if (import_bytes_with(&p, bytes, length, NULL, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

static inline struct profile *import_text(const char *text)
{
	return import_ok(text, strlen(text));
}

/* It is refused as bad input at this offset, with these words. */
static inline void import_bad(const void *bytes, size_t length, uint64_t offset, const char *words)
{
	struct profile *p = NULL;
	struct heft_error err;
	assert_int_equal(import_bytes_with(&p, bytes, length, NULL, &err), HEFT_EFORMAT);
	assert_null(p);
	if (!strstr(err.message, words) || err.offset != offset)
		fail_msg("expected '%s' at %llu: %s", words, (unsigned long long)offset,
			 err.message);
}

static inline void import_bad_text(const char *text, uint64_t offset, const char *words)
{
	import_bad(text, strlen(text), offset, words);
}

/* The site whose innermost frame is this function; its caller's function, if one is given. */
static inline const struct profile_site *site_of(const struct profile *p, const char *function,
						 const char *caller)
{
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		if (node == PROFILE_NONE ||
		    strcmp(p->stacks.frames[p->stacks.nodes[node].frame].function, function))
			continue;
		uint32_t parent = p->stacks.nodes[node].parent;
		if (!caller ||
		    (parent != PROFILE_NONE &&
		     !strcmp(p->stacks.frames[p->stacks.nodes[parent].frame].function, caller)))
			return &p->sites[i];
	}
	fail_msg("no site %s < %s", function, caller ? caller : "(anything)");
	return NULL;
}

#endif
