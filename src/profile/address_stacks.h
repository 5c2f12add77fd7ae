/* Call stacks of plain addresses into the model: for formats that carry addresses and mappings
 * instead of names. */
#ifndef HEFT_PROFILE_ADDRESS_STACKS_H
#define HEFT_PROFILE_ADDRESS_STACKS_H

#include "profile/profile_from_trace.h"

/* A frame under its caller */
struct address_node {
	uint32_t parent;  /* a smaller index; PROFILE_NONE: outermost */
	uint32_t module;  /* of the profile; PROFILE_NONE: not known */
	uint64_t address; /* as in the module's file, inside the call */
};

/* Symbolises and adds all nodes: out[i] becomes the profile's node for nodes[i], calls[i] its call
 * (PROFILE_NONE if calls are not kept). Inlined calls make several nodes. The selection only says what
 * looking up names may cost. 0 or HEFT_ENOMEM. */
int address_stacks_load(struct profile *p, const struct address_node *nodes, uint32_t count,
			const struct profile_selection *sel, uint32_t *out, uint32_t *calls);

struct address_frames {
	uint32_t first, count; /* in the list of frame ids, innermost first */
};
/* Symbolises single places, whatever their parents: frames[i] is the part of *ids that nodes[i] stands
 * for. The caller frees *ids. Adds no nodes to the profile. */
int address_frames_load(struct profile *p, const struct address_node *nodes, uint32_t count,
			const struct profile_selection *sel, struct address_frames *frames,
			uint32_t **ids);

#endif
