/* Inside src/profile: the sites of a recording, which all processes share, apart for each group of
 * processes (process_groups.h). A split site is (site, group), numbered as they appear. */
#ifndef HEFT_PROFILE_TRACE_SPLIT_H
#define HEFT_PROFILE_TRACE_SPLIT_H

#include "hosted/hash_index.h"
#include "profile/process_groups.h"

struct split_site {
	uint32_t site, group;
};

struct trace_split {
	struct process_groups groups;
	const uint32_t *processes; /* the profile's, by the recording's */
	uint32_t process_count;    /* of the recording */
	uint32_t any_process;      /* one of these that the profile has */
	uint32_t *labels;          /* label set of each group */
	struct split_site *sites;
	uint32_t count, capacity;
	struct hash_index index; /* of the sites */
};

/* *out stays NULL where all processes are one group. Names of groups become label sets of the
 * profile. 0 or HEFT_ENOMEM. */
int trace_split_new(struct trace_split **out, struct profile *p, const uint32_t *processes,
		    uint32_t process_count, enum process_merging merging);
void trace_split_free(struct trace_split *s);
/* The split site of a site in a process of the recording. 0 or HEFT_ENOMEM. */
int trace_split_find(struct trace_split *s, uint32_t site, uint32_t process, uint32_t *id);

#endif
