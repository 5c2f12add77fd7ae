/* Inside src/agent: what a process of heft that reads hostile bytes gives up for good. */
#ifndef HEFT_AGENT_SANDBOX_H
#define HEFT_AGENT_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

struct sandbox {
	bool network; /* it answers the network */
	uint64_t data_bytes,
		file_bytes; /* limits of memory, and of a file that is written; 0: none */
};
/* Cannot be looked into by others of its user, dies with its parent, has no privileges and gets none, and may not
 * execute, debug, mount, or reach the network unless it has to. False: the kernel refused what every kernel can. */
bool sandbox_enter(const struct sandbox *s, int parent);
/* Closes all descriptors but these, which become 3, 4, ... in their order. */
void sandbox_keep_descriptors(int *fds, int count);

#endif
