/* When a process began. */
#ifndef HEFT_SESSION_PROCESS_START_H
#define HEFT_SESSION_PROCESS_START_H

#include <stdint.h>
#include <sys/types.h>

/* In the kernel's ticks: with its number, this names a process for good. 0: it is not there, or has ended. */
uint64_t process_start_ticks(pid_t pid);

#endif
