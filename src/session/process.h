/* One profiled process as heft sees it from outside, by its parts: its session file, its
 * stacks, its samples, what is known of it. A recorder keeps its blocks (record/recorded_process.h). */
#ifndef HEFT_SESSION_PROCESS_H
#define HEFT_SESSION_PROCESS_H

#include "session/oom_watch.h"
#include "session/sampled_state.h"
#include "session/session_view.h"
#include "session/stack_map.h"
#include "trace/trace.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

/* What its recorder or agent knows of it; for any thread */
struct process_entry {
	pthread_mutex_t lock;
	struct trace_process facts; /* pid, ppid, exe, argv and start_ns never change in a set */
	struct process_rss {        /* 0: not known */
		uint64_t bytes, peak_bytes, peak_ns; /* last read, and the most that was read */
		uint64_t highest_bytes;              /* the kernel's own maximum */
		/* The most that was read without files and shared memory. */
		uint64_t anonymous_bytes;
		uint64_t inherited; /* how much of that a forked child got from its parent */
		uint64_t read_ns;   /* when it was last read, since the start of the process */
		uint64_t read_live_bytes; /* live bytes of the recording at that moment */
		bool accounted;           /* highest_bytes is about its whole life */
		bool gaps; /* calls are missing: it cannot be compared with the recording */
	} rss;
	/* Exact: what the recorder had counted a moment ago */
	struct process_shown {
		uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
	} shown;
	struct own_allocator *allocator; /* another one than malloc; NULL: none found. Set once */
	uint64_t allocator_look_ns;      /* when to look for one again, since its start */
	uint64_t limit_bytes;            /* how much memory it may use; 0: not known */
	bool limit_is_cgroup;
};

/* The recorder's or the agent's thread owns it. Other threads take the lock of `entry` or `samples`, and read
 * what never changes. */
struct process {
	struct session_view view;
	struct process_stacks stacks;
	struct sampled_state samples;
	struct sampled_part part;
	struct process_answer answer;
	struct process_entry entry;
	/* In a process_set, whose lock guards it */
	struct process_place {
		uint64_t key;     /* never used again */
		uint32_t holders; /* threads that use the process now */
		bool removed;
	} place;
	void (*fini)(struct process *p); /* of a larger struct; or NULL */

	/* Who it is. start_tsc is that of the file's name, and so is pid in a recorder; an agent and
	 * process_open_of replace pid by the number here. Neither is read from the header: the program may
	 * write over it. */
	int32_t pid;
	uint64_t start_tsc;
	/* Its number in our namespace: another than pid if it is in another one. 0: we cannot see it. */
	pid_t seen_pid;
	int pidfd;
	uint32_t index; /* in the recording */
	bool child;     /* forked: it has its parent's blocks */
	bool attached;  /* it ran before heft came: it has blocks that were never seen */

	/* How it ends. Only a recorder sets these (record/recorded_process.h has more); an agent keeps
	 * agent_process.running. */
	bool ended;       /* the process, or this image of it, is over; records may be left */
	bool closed;      /* the recording has its end */
	uint64_t end_tsc; /* the best known moment of its end; later records move it */

	/* What the kernel says about it */
	struct process_kernel {
		int status_fd;             /* /proc/PID/status; -1: not open */
		bool status_by_path;       /* it is opened whenever it is read */
		uint32_t start_maxrss_kib; /* as its header said at first */
		bool has_children;         /* then its account contains theirs */
		struct oom_watch oom;
	} kernel;
};

/* Maps the session file `name` in dirfd. HEFT_ENOTFOUND: not ready yet, try again. */
int process_open(struct process **out, int dirfd, const char *name, struct heft_error *err);
/* The same for a struct that has this one as its first member and so many bytes; the others are zeroed. fini
 * frees what they own, when process_free does. */
int process_open_larger(struct process **out, size_t bytes, void (*fini)(struct process *),
			int dirfd, const char *name, struct heft_error *err);
/* The same for the file that is open there, as whose name it had. Takes the descriptor, also if it fails. There is no
 * pidfd: who has found the process holds it. `bytes` as above. */
int process_take(struct process **out, size_t bytes, int fd, const char *name,
		 struct heft_error *err);
/* Opens the session file that a process has mapped, even if an agent holds it. path: its path. */
int process_open_of(pid_t pid, char *path, size_t size, struct process **out,
		    struct heft_error *err);
void process_free(struct process *p);
/* It has ended, and what the kernel knew of it was asked: others need the descriptors. */
void process_close_descriptors(struct process *p);
/* Frees all memory of the samples of a process that has a rest. Nobody may be using them. */
void process_drop_samples(struct process *p);
/* Reads its memory limit, and watches from now on whether the kernel kills for lack of memory. */
void process_watch_memory(struct process *p);
/* How it ended, in words: "killed by signal 9 (SIGKILL)". "" while it runs. */
void process_end_words(const struct trace_process *facts, char *text, size_t size);
/* How a process ended */
struct process_end {
	enum trace_end end;
	int32_t exit_status, signal;
	uint64_t end_ns; /* since its start */
};
/* oom: as it was watched while the process ran. */
struct process_end process_end_of_status(int status, const struct oom_watch *oom, uint64_t end_ns);
struct process_end process_end_without_status(enum trace_end end, uint64_t end_ns);
void process_set_end(struct process *p, const struct process_end *end);
void process_set_limit(struct process *p, uint64_t bytes, bool is_cgroup);
/* It ended at end_ns with this status of waitpid: its facts say so from now on. */
void process_ended_with(struct process *p, int status, uint64_t end_ns);
/* The same where no status is known. */
void process_ended_as(struct process *p, enum trace_end end, uint64_t end_ns);
/* What is known of a process's parent: its number here, or 0; and whether its numbers are those that it
 * knows itself by, so that its children's are too. */
struct process_parent {
	pid_t here;
	bool same_numbers;
};
/* Finds out whether `pid` is its number here too; if it is not, which one is. Costs a look at what it has
 * mapped where its parent is not the known one, and a look at every process where that is not its file. */
void process_find(struct process *p, const struct process_parent *known);
/* When it said that it leaves, by exit or exec; 0: it did not, or the stamp makes no sense. */
uint64_t process_leaving_tsc(const struct process *p);
/* Begins to watch the resident memory of a running process. */
void process_watch_rss(struct process *p);
/* Somebody waited for it and got the kernel's account. It counts if it can only be about this image of this
 * process. */
void process_take_account(struct process *p, uint64_t maxrss_kib);
/* The most that was resident; 0: not known, because its heap grew a good deal after it was last seen. */
uint64_t process_peak_rss(const struct process *p);
/* Reads its resident memory into entry.rss. time_ns: since its start. live_bytes: what is recorded as live now.
 * Returns the bytes; 0: not known. */
uint64_t process_read_rss(struct process *p, uint64_t time_ns, uint64_t live_bytes);

#endif
