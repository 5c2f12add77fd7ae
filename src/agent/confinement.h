/* Inside src/agent: what a process of heft that reads hostile bytes gives up for good. */
#ifndef HEFT_AGENT_CONFINEMENT_H
#define HEFT_AGENT_CONFINEMENT_H

#include <stdbool.h>
#include <stdint.h>

struct confinement {
	const char *name; /* as ps shows it */
	bool network;     /* it answers the network */
	uint64_t data_bytes,
		file_bytes; /* limits of memory, and of a file that is written; 0: none */
};
/* Cannot be looked into by others of its user, dies with its parent, has no privileges and gets none, and may not
 * execute, debug, mount, or reach the network unless it has to. False: the kernel refused what every kernel can. */
bool confinement_enter(const struct confinement *s, int parent);
/* Leaves the session, and with it the terminal, of whoever started us. stderr may stay, for what is said there; stdin and
 * stdout are /dev/null from now on. Closes all other descriptors but these, which become 3, 4, ... in their order. */
void confinement_keep_descriptors(int *fds, int count, bool keep_stderr);

#endif
