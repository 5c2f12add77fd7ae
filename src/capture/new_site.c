/* A call stack that was not seen before gets its nodes in the stack table, and the
 * objects that its code is in are announced to the outside. */
#include "capture/inside.h"

uint32_t heft_new_site(const struct heft_frame *frames, const uint64_t *hashes, uint32_t depth,
		       uint32_t known, unsigned via, uint64_t hash, int *lost)
{
	/* The nodes that are there. Behind a missing one all are missing: a search for what is not there
	 * is expensive (a cache miss for each size that the index has had). */
	uint32_t have = known, parent = 0, next;
	while (have > 0 && !(parent = heft_index_find(HEFT_NODES, hashes[have - 1])))
		have--;
	for (; have < depth && (next = heft_index_find(HEFT_NODES, hashes[have])); have++)
		parent = next;
	for (uint32_t i = have; i < depth; i++)
		heft_index_prefetch(HEFT_NODES, hashes[i]);
	int full = 0;
	for (; have < depth && !full; have++) {
		heft_module_announce(frames[have].flags & WIRE_NODE_EXACT ? frames[have].pc
									  : frames[have].pc - 1,
				     heft_tls_now()->thread->work);
		uint32_t id = heft_node_add(HEFT_NODES, parent, heft_frame_key(&frames[have]),
					    hashes[have]);
		if (id)
			parent = id;
		else
			full = 1;
	}
	uint64_t leaf = via | (uint64_t)WIRE_NODE_VIA << WIRE_FLAG_SHIFT;
	uint32_t site = full ? 0 : heft_node_add(HEFT_SITES, parent, leaf, hash);
	if (site)
		return site;
	/* The table is full: the site becomes the deepest ancestor there is, and it is counted. The outside
	 * sees a node without VIA that is used as a site. */
	struct wire_header *h = heft_process->session.header;
	atomic_fetch_add_explicit(&h->lost_stacks, 1, memory_order_relaxed);
	*lost = 1;
	return parent;
}
