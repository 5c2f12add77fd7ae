/* What heft keeps about a sampled process, beside the tables of its session file
 * (wire/samples.h). */
#ifndef HEFT_SESSION_SAMPLED_STATE_H
#define HEFT_SESSION_SAMPLED_STATE_H

#include "wire/samples.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a sampled process's samples add up to. */
struct sampled_sums {
	uint64_t samples, live_samples;
	double live_bytes, live_objects, allocated_bytes, allocated_objects;
};

/* What stays of a process that has ended. Its recording has its samples. */
struct process_rest {
	struct sampled_sums sums;
	int fd;           /* its recording */
	char recording[]; /* where that was put */
};

/* Any thread may use it */
struct sampled_state {
	pthread_mutex_t lock;
	/* Its live samples when it had most */
	struct process_peak {
		struct wire_sample *samples;
		uint32_t count;
		double bytes, objects;
		uint64_t tsc;
		uint64_t
			cost_tsc; /* its sampling.cost_tsc at the last look: the same now means no new sample */
		bool looked; /* at least once */
	} peak;
	/* Its counters of CPU time and of the cost of sampling, at the last look */
	struct process_cost {
		uint64_t cpu_ns, cost_tsc, tsc, mono_ns;
		double share; /* below 0: not known */
	} cost;
	struct process_rest *_Atomic rest; /* once it was saved; else NULL. It needs no lock */
};

/* Its part in the sum of several processes; for the recorder's thread */
struct sampled_part {
	/* Its estimate when last looked at */
	struct process_level {
		double bytes;
		/* At that look; nothing has changed while it and `live` are the same. */
		uint64_t cost_tsc;
		uint32_t live;
		uint32_t version; /* rises with every change; 0: not looked at yet */
	} level;
	/* Its live samples at the greatest sum of all processes */
	struct process_together {
		struct wire_sample *samples;
		uint32_t count;
		uint32_t version; /* of the level that they are */
	} together;
};

/* To heft_pprof_dump (answer_call.h); for the thread that owns it */
struct process_answer {
	char *bytes;
	size_t length, given;
};

#endif
