/* Where the profiles served under /debug/pprof/ come from: a running program,
 * several of them, or what they left. The verbs fill this in (heft run --listen,
 * heft agent); the routes know no more. Every function may be called from several
 * threads at once. */
#ifndef HEFT_PPROF_SOURCE_H
#define HEFT_PPROF_SOURCE_H

#include "profile/profile.h"

/* A process, by what it is found by */
struct source_entry {
	uint64_t key; /* of this image of the process: never reused, an exec makes another */
	int32_t pid;
	bool running;
	uint32_t uid; /* whose it is: the owner of its session file */
};

struct source_process {
	uint64_t key;
	int32_t pid;
	uint32_t uid;
	char exe[256];          /* path */
	char command[1024];     /* arguments, each with its NUL; some may be empty */
	uint32_t command_bytes; /* of them all */
	bool running;
	char ended[200]; /* how, in words; "" while it runs */
	bool sampled;    /* else every allocation is recorded */
	bool on;         /* sampling is switched on */
	bool automatic;  /* the rate follows a cost budget */
	uint64_t rate_bytes;
	uint64_t samples, live_samples, dropped;
	/* estimates: what /metrics shows; live_* is of now (or of the end). Below 0: not known */
	double live_bytes, live_objects, allocated_bytes, allocated_objects, peak_bytes;
	uint64_t rss_bytes, memory_limit_bytes; /* 0: not known */
	uint64_t age_ns;                        /* since its start */
	uint64_t anonymous_peak_bytes; /* resident memory that is no file's; 0: not known */
	bool partly;       /* most of its memory does not pass through malloc: `unseen` says why */
	bool blind;        /* so much of it that a profile would say nothing about the program */
	char unseen[2000]; /* lines; "" if neither */
	double cost_share; /* CPU time spent on samples of its latest CPU time; below 0: not known */
};

/* What serves the processes, beside them */
struct source_state {
	uint32_t processes, workers;
	uint64_t refused;  /* processes that are not profiled, because there is no place for more */
	uint64_t killed;   /* workers that hung, died or grew */
	uint32_t attached; /* programs that the agent is attached to by rule, */
	uint64_t attached_ever;  /* how often it was, */
	uint64_t attach_refused; /* and programs that it could not attach to */
};

/* What to switch; what has no `set_` stays */
struct source_control {
	bool set_on, on;
	bool automatic; /* on, at a rate that follows the cost budget */
	bool set_rate;
	uint64_t rate_bytes;
};

/* What somebody wants to have of a profile */
enum source_form {
	SOURCE_HEAP,   /* pprof; shows what is live */
	SOURCE_ALLOCS, /* the same; shows what was allocated */
	SOURCE_HEAP_TEXT,
	SOURCE_ALLOCS_TEXT,
	SOURCE_FORMS, /* those above are of one profile and need nothing else */
	SOURCE_SYMBOLS = SOURCE_FORMS,
	SOURCE_FORMS_ALL
};
struct source_wish {
	enum source_form form;
	void *before; /* HEAP and ALLOCS: an earlier profile of the process, to be subtracted; or NULL */
	uint64_t between_ns;   /* how long before that was */
	const char *addresses; /* SYMBOLS: "0x1+0x2" */
};

/* What may take its time returns 0, a negative code, or this: it is being done, call again in a moment with the
 * same arguments. Nobody waits for it: a worker that hangs must not stop those who ask others. */
enum { SOURCE_LATER = 1 };

struct source {
	void *ctx;
	/* All processes, in order of their start, running ones and those that are kept. None of them is
	 * looked at. *list is the caller's to free(). 0 or a negative code. */
	int (*list)(void *ctx, struct source_entry **list, uint32_t *count, struct heft_error *err);
	/* All about one of them: adds up its samples. HEFT_ENOTFOUND: no such process (any more).
	 * HEFT_EBUSY: nobody can tell now. */
	int (*describe)(void *ctx, uint64_t key, struct source_process *p, struct heft_error *err);
	/* Its profile of this instant, symbolised. *profile is NULL at the first call, and then to be dropped, even
	 * if it fails or comes later. HEFT_ENOTFOUND, HEFT_EBUSY as above. */
	int (*take)(void *ctx, uint64_t key, void **profile, struct heft_error *err);
	/* *bytes is the caller's to free(), and ends with a NUL that *length does not count. */
	int (*render)(void *ctx, void *profile, const struct source_wish *wish, char **bytes,
		      size_t *length, struct heft_error *err);
	void (*drop)(void *ctx, void *profile); /* NULL: nothing */
	int (*control)(void *ctx, uint64_t key, const struct source_control *c,
		       struct heft_error *err);
	/* NULL: there is nothing to say. */
	void (*state)(void *ctx, struct source_state *state);
};

#endif
