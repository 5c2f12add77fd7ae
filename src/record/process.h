/* One profiled process as the recorder sees it: its mapped session file, the
 * streams of its threads, its live blocks. */
#ifndef HEFT_RECORD_PROCESS_H
#define HEFT_RECORD_PROCESS_H

#include "record/oom_watch.h"
#include "record/reorder.h"
#include "record/stack_map.h"
#include "record/stream_reader.h"
#include "trace/trace.h"
#include "wire/samples.h"

#include <pthread.h>
#include <sys/types.h>

/* What a sampled process's samples add up to. */
struct sampled_sums {
	uint64_t samples, live_samples;
	double live_bytes, live_objects, allocated_bytes, allocated_objects;
};

/* What is kept of a sampled process that has ended, instead of its samples: they are in its recording. */
struct process_rest {
	struct sampled_sums sums;
	char recording[]; /* path */
};

struct process {
	struct wire_session session;
	void *base;
	int32_t pid;	    /* this and start_tsc are from the file's name: the header may have been */
	uint64_t start_tsc; /* written over before we see it */
	pid_t seen_pid;	    /* its number here: in a namespace it knows itself by another one; 0: not here */
	int pidfd;
	bool watched;	    /* its death sets gone_tsc */
	bool sampled;	    /* as its header said at first */
	dev_t file_device;  /* of its session file, and whose that is */
	ino_t file_inode;
	uid_t file_uid;
	uint32_t index; /* of the recording */
	/* In a process_set, and under its lock: never reused; how many threads look at it now. */
	uint64_t key;
	uint32_t holders;
	bool removed;
	struct trace_process facts;
	bool direct;  /* the command itself */
	bool gone;    /* the process is not there any more: an image that it became may have come */
	bool ended;   /* the process, or this image of it, is over: drain the rest */
	uint64_t end_tsc;   /* then: when, as well as can be known; records may move it on */
	uint64_t alive_tsc; /* it was seen running after this stamp */
	uint64_t gone_tsc;  /* it was seen to be gone before this one; 0: not yet */
	uint64_t first_tsc; /* start of the first image that it was: it became others by exec */
	struct stream ending; /* its end, which takes its place among the records */
	bool corrupt; /* its file makes no sense any more: not read on */
	bool done;    /* drained: its blocks are gone */
	bool closed;  /* and the recording says so */
	bool losses_counted; /* before it was switched off: what it does after that is not lost */
	bool child;   /* forked: inherited blocks */
	struct stream *streams; /* by slot, `slots` of them */
	uint32_t slots;
	struct process_stacks stacks;
	struct reorder reorder; /* of an exact one: its blocks, and what waits */
	struct process_peak { /* of a sampled process: its live samples when it had most */
		struct wire_sample *samples;
		uint32_t count;
		double bytes, objects;
		uint64_t tsc;
		uint64_t cost_tsc; /* when last looked */
	} peak;
	struct process_rest *_Atomic rest; /* of a sampled one that has ended and was saved; else NULL */
	struct process_level { /* its estimate when last looked at; the recorder's own */
		double bytes;
		uint64_t cost_tsc; /* as it was then: the same now, and as many live: nothing changed */
		uint32_t live;
		uint32_t version; /* rises with every change; 0: not looked at yet */
	} level;
	struct process_together { /* its live samples at the greatest sum of all processes */
		struct wire_sample *samples;
		uint32_t count;
		uint32_t version;	     /* of the level that they are */
	} together;
	struct process_cost { /* of its samples, when last looked at */
		uint64_t cpu_ns, cost_tsc, tsc, mono_ns;
		double share;
	} cost;
	struct process_rss { /* 0: not known */
		uint64_t bytes, peak_bytes, peak_ns; /* as seen now and then */
		uint64_t highest_bytes;	  /* the kernel's own maximum */
		uint64_t anonymous_bytes; /* most that no file or shared memory is behind, as seen */
		uint64_t inherited; /* of anonymous_bytes: what a forked child had from its parent */
		uint64_t read_ns; /* since its start: when that was last read, */
		uint64_t read_live_bytes; /* and what it had live then, as recorded */
		bool accounted; /* highest_bytes is of its whole life */
		bool gaps; /* not everything was recorded: it cannot be compared (process_memory.h) */
	} rss;
	struct own_allocator *allocator; /* beside malloc; NULL: none was found. Set once, under lock */
	uint64_t allocator_look_ns;	 /* when to look again, since its start */
	struct trace_anonymous written;	 /* to the recording, last */
	struct process_answer { /* to heft_pprof_dump, under way (answer_call.h) */
		char *bytes;
		size_t length, given;
	} answer;
	struct process_shown { /* of an exact one: as of a moment ago, for others than the recorder */
		uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
	} shown;
	struct oom_watch oom;
	uint64_t limit_bytes; /* of its memory; 0: not known */
	bool limit_is_cgroup;
	pthread_mutex_t lock; /* of peak, cost, rss, allocator, shown, limit and facts, where others than the recorder read them */
	uint32_t children_seen;
	uint32_t reaps_seen; /* of its header's */
	uint32_t reap_waits; /* looks at one that was not written yet */
	uint64_t reaps_lost_tsc; /* up to this stamp some are missing; 0: none */
	uint32_t start_maxrss_kib; /* its header's, as it was at first */
	bool has_children;   /* whose memory the kernel adds to its account */
	int status_fd;	     /* /proc/PID/status */
	uint32_t rounds;
	/* chunks read out, to be given back at the end of the round: a list by `next` */
	uint32_t give_first, give_last, give_count;
	uint32_t round_chunks; /* given back in this round */
};

/* Maps the session file `name` in dirfd. HEFT_ENOTFOUND: not ready yet, try again. */
int process_open(struct process **out, int dirfd, const char *name, struct heft_error *err);
void process_free(struct process *p);
/* Of a process that is over and was read out: gives the memory of its file back, but for the header. */
void process_drop_pages(struct process *p);
/* Of a sampled process that has p->rest: gives back all memory that its samples took. Nobody may be
 * looking at them. */
void process_drop_samples(struct process *p);
/* Learns its memory limit, and notices from now on whether the kernel kills for memory. */
void process_watch_memory(struct process *p);
/* Of an exact one that has ended: what matching has counted goes into its facts. */
void process_take_counts(struct process *p);
/* How it ended, in words: "killed by signal 9 (SIGKILL)". "" while it runs. */
void process_end_words(const struct trace_process *facts, char *text, size_t size);
/* It ended at end_ns with this status (waitpid): sets how in its facts. */
void process_ended_with(struct process *p, int status, uint64_t end_ns);
/* The same where no status is known. */
void process_ended_as(struct process *p, enum trace_end end, uint64_t end_ns);
/* Finds out whether `pid` is its number here too; if it is not, which one is. parent_here is its parent's
 * number here, as far as that is known, else 0. Costs a look at what it has mapped where its parent is not
 * that one, and a look at every process where it has not mapped its own file. */
void process_find(struct process *p, pid_t parent_here);
/* When it said that it leaves, by exit or exec; 0: it did not, or what it said makes no sense. */
uint64_t process_leaving_tsc(const struct process *p);
/* Begins to watch the resident memory of a running process. */
void process_watch_rss(struct process *p);
/* The kernel's account of a process that has been waited for: it counts if it can only be of this image
 * and of this process. */
void process_take_account(struct process *p, uint64_t maxrss_kib);
/* The most that was resident; 0: not known, because its heap grew a good deal after it was last seen. */
uint64_t process_peak_rss(const struct process *p);
/* Reads its resident memory into p->rss. time_ns: of the recording. 0: not known. */
uint64_t process_read_rss(struct process *p, uint64_t time_ns);
#endif
