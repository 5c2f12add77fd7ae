/* The profile of the recording in recording_fixture.h. */
#ifndef HEFT_TESTS_PROFILE_FIXTURE_H
#define HEFT_TESTS_PROFILE_FIXTURE_H

#include "profile/profile_from_trace.h"

#include "recording_fixture.h"

static inline struct profile *load(const struct profile_selection *sel)
{
	struct profile *p;
	struct heft_error err;
	if (profile_from_recording(&p, fixture_path, sel, &err) < 0)
		fail_msg("%s", err.message);
	return p;
}

#endif
