/* What one process is, for everything that counts or lists them: a process is a pid from fork to end,
 * and an exec makes another program of it (an image), not another process. The profile's entries are
 * images, because each has stacks, names and a peak of its own; numbers of processes and of threads
 * come from here. */
#ifndef HEFT_PROFILE_PROCESS_IMAGES_H
#define HEFT_PROFILE_PROCESS_IMAGES_H

#include "profile/profile.h"

struct process_images {
	uint32_t *first;   /* of each of the profile's processes: the first image of the same one;
				 * PROFILE_NONE: it does not count (is_outside) */
	uint32_t *next;    /* of each: the image that it became, or PROFILE_NONE */
	uint32_t count;    /* processes */
	uint32_t *threads; /* of each first image: threads of its process */
	uint32_t *first_thread; /* by the profile's threads: the first entry of the same one */
	uint32_t *
		next_thread; /* by the profile's threads: its entry in a later image, or PROFILE_NONE */
	uint32_t thread_count; /* threads: exec keeps one, which goes on under the same number */
};

int process_images_init(struct process_images *x, const struct profile *p); /* 0 or HEFT_ENOMEM */
void process_images_fini(struct process_images *x);

/* The process that began as `first`, all images added up. It has the name of the last one. */
struct profile_process process_of_images(const struct process_images *x, const struct profile *p,
					 uint32_t first);
/* The thread whose first entry is `first`, all entries added up. It has the name of the last one. */
struct profile_thread thread_of_images(const struct process_images *x, const struct profile *p,
				       uint32_t first);

/* Every thread once. NULL: no memory; free() it. */
struct profile_thread *profile_whole_threads(const struct profile *p, uint32_t *count);

/* Every process has a thread, also one that never allocated: adds those that are missing. 0 or
 * HEFT_ENOMEM. */
int profile_add_silent_threads(struct profile *p);
uint32_t profile_count_processes(const struct profile *p);
/* Samples name few threads: then each process counts as one at least. */
uint64_t profile_count_threads(const struct profile *p);

#endif
