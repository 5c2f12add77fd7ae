/* Processes as people list them: each by itself while they are few, those of one program together
 * when they are many ("echo (200 processes)"). */
#ifndef HEFT_PROFILE_PROCESS_GROUPS_H
#define HEFT_PROFILE_PROCESS_GROUPS_H

#include "profile/profile.h"

#include <stdio.h>

enum {
	PROCESSES_APART = 20, /* up to so many are listed one by one */
	PROCESSES_ALIKE = 5,  /* beyond that, so many of one program are one group */
};

enum process_merging {
	PROCESSES_AS_FIT, /* many of one program together, if there are more than PROCESSES_APART */
	PROCESSES_EACH,
};

struct process_group {
	uint32_t greatest; /* by peak, of the profile's processes */
	uint32_t count;    /* processes */
	uint32_t images;   /* programs that these were, one after the other by exec */
	uint32_t words;    /* how many words of the command are the same in all */
	uint64_t left_bytes, left_blocks, allocated_bytes, run_ns; /* sums */
};

struct process_groups {
	struct process_group *list; /* greatest peak first */
	uint32_t count;
	uint32_t *of; /* by the profile's processes: its group */
};

int process_groups_init(struct process_groups *g, const struct profile *p,
			enum process_merging merging); /* 0 or HEFT_ENOMEM */
/* Counts the programs: several groups may be of one. 0 or HEFT_ENOMEM. */
int process_groups_programs(const struct process_groups *g, const struct profile *p,
			    uint32_t *programs);
void process_groups_fini(struct process_groups *g);

/* What the program is called: the first word of its command without folders. "?" if not known. */
const char *process_program(const struct profile_process *q);
/* Its command in at most `max` columns, the program without folders; only the first `words` words. */
void process_print_command(FILE *out, const struct profile_process *q, uint32_t words, size_t max);
/* "make -j2 (pid 12)" or "echo (200 processes)". NULL: no memory; free() it. */
char *process_group_name(const struct profile *p, const struct process_group *group, size_t max);

/* How long it ran; up to now if it still runs. */
uint64_t process_run_ns(const struct profile *p, const struct profile_process *q);

/* Makes times count from the start of the profile's first process. If there is only one, the run ended
 * as it did. Behaviour, which is of the whole recording, stays. 0 or HEFT_ENOMEM. */
int profile_take_own_time(struct profile *p);

/* When the first of the profile's processes began and the last ended; 0 and the duration if unknown. */
void process_span(const struct profile *p, uint64_t *start_ns, uint64_t *end_ns);

#endif
