/* A program that heft starts itself where nothing can be preloaded: it is held from its exec on, and runs to the first
 * point at which its malloc can be hooked. The kernel lets only one thread trace: the thread that calls start_trace
 * makes the other calls, and holds the program until stop.h lets it go. */
#ifndef HEFT_ATTACH_START_H
#define HEFT_ATTACH_START_H

#include "hosted/error.h"

#include <stdbool.h>
#include <sys/types.h>

/* Traces a process that will execute the program soon. wait: it may take it a moment to permit that. HEFT_EREFUSED: that
 * is not permitted. */
int start_trace(pid_t pid, bool wait, struct heft_error *err);
/* The same for a thread that is about to make a process (posix_spawn), which will execute the program. */
int start_trace_parent(pid_t tid, bool wait, struct heft_error *err);
/* Waits until it has made one, and traces that in place of the thread. */
int start_trace_child(pid_t tid, pid_t *child, struct heft_error *err);
/* Waits until it has executed the program, with its last of so many calls of exec, and lets that run until its libraries are there and none of their code has
 * run. Then it stands still. HEFT_ENOTFOUND: it has ended before. */
int start_hold(pid_t pid, unsigned execs, struct heft_error *err);

#endif
