/* How a program that is attached to reaches heft's session directory. */
#ifndef HEFT_ATTACH_PLACEMENT_SESSION_H
#define HEFT_ATTACH_PLACEMENT_SESSION_H

#include "attach/attach.h"
#include "attach/stop.h"

#include <sys/stat.h>

struct session_way {
	struct stat folder; /* which one it is */
	int fd;             /* what the program is handed; -1: it sees the path itself */
};

/* Before anything is stopped: finds a way, or says why there is none. */
int session_way_find(struct session_way *w, const struct attach_options *o, struct heft_error *err);
void session_way_fini(struct session_way *w);
/* The borrowed thread gets the folder as a descriptor with a high number. scratch: 256 bytes of the program's memory
 * that are heft's. */
int session_way_hand_over(const struct session_way *w, struct stop *stop, pid_t pid,
			  uint64_t scratch, int32_t *number, struct heft_error *err);
/* Whether a process still has this folder under that number. */
bool session_way_is_open(pid_t pid, int32_t number, uint64_t device, uint64_t inode);

#endif
