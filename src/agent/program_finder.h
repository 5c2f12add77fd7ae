/* Inside src/agent: running processes whose executable matches a rule (--attach-exe). */
#ifndef HEFT_AGENT_PROGRAM_FINDER_H
#define HEFT_AGENT_PROGRAM_FINDER_H

#include "hosted/vector.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

enum program_state {
	PROGRAM_OTHER,  /* no rule matches it */
	PROGRAM_WANTED, /* one does: to be attached to when its time comes */
	PROGRAM_TRIED,  /* that is being done, or was */
	PROGRAM_LEFT,   /* it is left alone, as long as it runs this executable */
};

struct program {
	pid_t pid;
	uint8_t state; /* enum program_state */
	uint8_t looks; /* at its executable, up to a few */
	uint8_t tries; /* to attach to it */
	bool said;     /* why it could not be */
	bool uid_known;
	uid_t uid; /* wanted: whose it is */
	uint32_t rule;
	uint32_t exe_hash;
	uint64_t inode;    /* of its folder in /proc */
	uint64_t began;    /* process_start_ticks; 0: not asked, no rule matches it */
	uint64_t look_ns;  /* when to look at its executable again */
	uint64_t again_ns; /* wanted: when to try */
};

struct program_finder {
	const char *const *globs;
	uint32_t glob_count;
	char own[PATH_MAX];          /* heft's executable: never matches */
	VECTOR(struct program) list; /* by pid */
	VECTOR(struct program) older;
	void *proc;                 /* DIR */
	int loadavg;                /* a descriptor: it says which process was started last */
	char last[32];              /* what it said */
	uint64_t next_ns, whole_ns; /* when to look next, and at all */
	size_t turn;
};

/* Which glob matches this path: with a slash the whole of it, else its last part. count: none does. */
uint32_t program_rule(const char *const *globs, uint32_t count, const char *path);

/* 0, or -1: there is no /proc. */
int program_finder_init(struct program_finder *f, const char *const *globs, uint32_t count);
void program_finder_fini(struct program_finder *f);
/* Looks at what is new. Call it often: it comes to something once a second, or less often if that is dear. True: it has
 * looked, so that pointers into the list are not what they were. */
bool program_finder_look(struct program_finder *f, uint64_t now);
/* NULL: it is not there any more. */
struct program *program_finder_get(struct program_finder *f, pid_t pid, uint64_t began);
/* The executable of a process, without what the kernel says behind a removed one's. False: not to be seen. */
bool program_executable(pid_t pid, char *path, size_t size);

#endif
