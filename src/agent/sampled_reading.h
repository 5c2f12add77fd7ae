/* What a sampled process had at one instant, or had when it ended, as the tables of a recording: in memory, and
 * from there into the model (sampled_profile.h) or into a file (sampled_recording.h). */
#ifndef HEFT_AGENT_SAMPLED_READING_H
#define HEFT_AGENT_SAMPLED_READING_H

#include "session/own_allocator.h"
#include "session/process.h"

/* What is known about the process beside its session file. Zeroed: nothing */
struct sampled_known {
	struct trace_process facts; /* TRACE_END_RUNNING: it runs. Its strings are borrowed */
	uint64_t start_tsc;
	uint64_t limit_bytes; /* memory that it may use; 0: not known */
	bool limit_is_cgroup;
	bool attached;                                   /* it ran before heft came */
	uint64_t rss_bytes, rss_peak_bytes, rss_peak_ns; /* since its start; 0 bytes: not known */
	struct trace_anonymous anonymous;
	bool has_anonymous;
	char allocator[OWN_ALLOCATOR_TEXT]; /* another one than malloc, in words; "": none */
	/* Its live samples when it had most, and when that was; 0: it has most now */
	struct wire_sample *peak;
	uint32_t peak_count;
	uint64_t peak_tsc;
};
/* What we know about p. Looks for its peak before. Any thread may call it. HEFT_ENOMEM: nothing is to be freed. */
int sampled_known_of(struct process *p, struct sampled_known *k);
void sampled_known_fini(struct sampled_known *k);

struct sampled_reading {
	struct trace_contents contents; /* of one process without events. Points to what follows */
	struct stack_map stacks;
	struct trace_samples samples;
	struct trace_process process;
	struct trace_rss rss[2];
	struct trace_anonymous anonymous;
	struct trace_note notes[2];
	bool in_sandbox; /* which forbids calls of heft's */
	char lost[160];
	struct tally no_events;
	struct trace_peak no_peak;
};
/* From the descriptor of a session file to its contents, checked and bounded. Uses nothing but its arguments, so
 * that another process can do it. `known` must live as long as the reading. HEFT_EFORMAT: the file makes no
 * sense; HEFT_ENOMEM. Nothing is to be freed then. */
int sampled_read(struct sampled_reading *r, int fd, const struct sampled_known *known,
		 struct heft_error *err);
void sampled_reading_fini(struct sampled_reading *r);

#endif
