/* Runs a command that counts its calls and records nothing (heft run --count). */
#ifndef HEFT_RECORD_COUNTED_RUN_H
#define HEFT_RECORD_COUNTED_RUN_H

#include "hosted/error.h"
#include "record/launch.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a process has counted (include/heft.h). A forked child counts from its fork on, so its live bytes may be
 * negative. */
struct counted_sums {
	uint64_t allocations, reallocations, frees, allocated_bytes, peak_bytes;
	int64_t live_bytes;
	uint32_t threads;
};

struct counted_process {
	pid_t pid;
	char program[256];
	struct counted_sums sums;
	bool running; /* when the command ended */
	bool cut;     /* it has not said that it leaves: what it counted last is missing */
};

struct counted_result {
	int status; /* as from waitpid; of the command */
	uint64_t duration_ns;
	struct counted_process *processes; /* those with most allocations first */
	uint32_t count, capacity;
	struct counted_sums
		all; /* of these; peak and threads are those of the process with the greatest peak */
};
void counted_result_fini(struct counted_result *r);

struct counted_options {
	char **argv;
	const struct launch_plan *plan;
	const char *preload;
	bool follow;
	void (*in_child)(void);
	/* Before the command is executed. It is not if this fails, and fills err. */
	int (*prepare)(void *ctx, pid_t pid, struct heft_error *err);
	void *ctx;
};

/* 0, or why the command was not run. */
int counted_run(const struct counted_options *o, struct counted_result *result,
		struct heft_error *err);

#endif
