/* Inside src/agent: looks at what processes have mapped, which end in time whatever the processes do. */
#ifndef HEFT_AGENT_LOOKER_H
#define HEFT_AGENT_LOOKER_H

#include "hosted/vector.h"
#include "session/mappings.h"

#include <stdint.h>

struct looker {
	int fd; /* its link; -1: none is there */
	pid_t pid;
	uint32_t last;       /* number of the last question */
	VECTOR(pid_t) dying; /* killed, and not gone yet */
	uint64_t given_up;   /* looks that took too long */
	uint64_t
		cost_ns; /* of all looks: processor time, and all the time of those that were given up */
};

enum look_answer {
	LOOK_LACKS = MAPPINGS_LACK,
	LOOK_HAS = MAPPINGS_HAVE,
	LOOK_NOTHING = MAPPINGS_NONE,
	LOOK_HIDDEN = MAPPINGS_HIDDEN,
	LOOK_TOO_LONG, /* not known */
};

void looker_init(struct looker *l);
void looker_fini(struct looker *l);
/* Whether the process has this file (device and inode) mapped. Takes half a second at most, on a machine that has a
 * processor for it. */
enum look_answer looker_look(struct looker *l, pid_t pid, const struct stat *file);
/* Who has it mapped in another pid namespace, where it has the number `named` (device, inode and user of the file count).
 * LOOK_HAS: *found is its number here. */
enum look_answer looker_search(struct looker *l, pid_t named, const struct stat *file,
			       pid_t *found);

#endif
