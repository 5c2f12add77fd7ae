/* One profiled process as heft sees it from outside, by its parts: its session file, its
 * blocks, its samples, what is known of it. */
#ifndef HEFT_RECORD_PROCESS_H
#define HEFT_RECORD_PROCESS_H

#include "record/oom_watch.h"
#include "record/reorder.h"
#include "record/sampled_state.h"
#include "record/session_view.h"
#include "record/stack_map.h"
#include "record/stream_reader.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

struct process_entry { /* what its recorder or agent knows of it; for any thread */
	pthread_mutex_t lock;
	struct trace_process facts; /* pid, ppid, exe, argv and start_ns never change once it is in a set */
	struct process_rss {	    /* 0: not known */
		uint64_t bytes, peak_bytes, peak_ns; /* as seen now and then */
		uint64_t highest_bytes;	  /* the kernel's own maximum */
		uint64_t anonymous_bytes; /* most that no file or shared memory is behind, as seen */
		uint64_t inherited;	  /* of anonymous_bytes: what a forked child had from its parent */
		uint64_t read_ns;	  /* since its start: when that was last read, */
		uint64_t read_live_bytes; /* and what it had live then, as recorded */
		bool accounted;		  /* highest_bytes is of its whole life */
		bool gaps; /* not everything was recorded: it cannot be compared (process_memory.h) */
	} rss;
	struct process_shown { /* of an exact one: as of a moment ago */
		uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
	} shown;
	struct own_allocator *allocator; /* beside malloc; NULL: none was found. Set once */
	uint64_t allocator_look_ns;	 /* when to look again, since its start */
	uint64_t limit_bytes;		 /* of its memory; 0: not known */
	bool limit_is_cgroup;
};

/* One thread owns a process: the recorder's or the agent's. Others may read what has a lock, and what never
 * changes. */
struct process {
	struct session_view view;
	struct process_stacks stacks;
	struct reorder reorder; /* of an exact one: its blocks, and what waits */
	struct sampled_state samples;
	struct sampled_part part;
	struct process_answer answer;
	struct process_entry entry;
	struct process_place { /* in a process_set, and under its lock */
		uint64_t key;	  /* never used again */
		uint32_t holders; /* threads that look at it now */
		bool removed;
	} place;

	/* Who it is. pid and start_tsc are from the file's name: the header may have been written over before
	 * we see it. */
	int32_t pid;
	uint64_t start_tsc;
	uint64_t first_tsc; /* start of the first image that it was: it became others by exec */
	pid_t seen_pid; /* its number here: in a namespace it knows itself by another one; 0: not here */
	int pidfd;
	uint32_t index; /* of the recording */
	bool direct;	/* the command itself */
	bool child;	/* forked: inherited blocks */

	/* How it ends (recorder_ends.c). */
	bool watched;	      /* its death sets gone_tsc */
	bool gone;	      /* the process is not there any more: an image that it became may have come */
	bool ended;	      /* the process, or this image of it, is over: drain the rest */
	bool done;	      /* drained: its blocks are gone */
	bool closed;	      /* and the recording says so */
	bool losses_counted;  /* before it was switched off: what it does after that is not lost */
	uint64_t alive_tsc;   /* it was seen running after this stamp */
	uint64_t gone_tsc;    /* it was seen to be gone before this one; 0: not yet */
	uint64_t end_tsc;     /* when, as well as can be known; records may move it on */
	struct stream ending; /* its end, which takes its place among the records */
	struct process_children {
		uint32_t seen;		 /* forked ones that have come */
		uint32_t reaps_seen;	 /* of its header's */
		uint32_t reap_waits;	 /* looks at one that was not written yet */
		uint64_t reaps_lost_tsc; /* up to this stamp some are missing; 0: none */
		bool any;		 /* whose memory the kernel adds to its account */
	} children;

	struct process_kernel { /* what the kernel is asked about it */
		int status_fd;		   /* /proc/PID/status */
		uint32_t start_maxrss_kib; /* its header's, as it was at first */
		struct oom_watch oom;
	} kernel;
	struct trace_anonymous written; /* to the recording, last */
};

/* The process whose stream it is. */
static inline struct process *stream_process(const struct stream *s)
{
	return (struct process *)(void *)((char *)s->view - offsetof(struct process, view));
}

/* Maps the session file `name` in dirfd. HEFT_ENOTFOUND: not ready yet, try again. */
int process_open(struct process **out, int dirfd, const char *name, struct heft_error *err);
void process_free(struct process *p);
/* Of a sampled process that has a rest: gives back all memory that its samples took. Nobody may be
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
/* Reads its resident memory into entry.rss. time_ns: of the recording. 0: not known. */
uint64_t process_read_rss(struct process *p, uint64_t time_ns);

#endif
