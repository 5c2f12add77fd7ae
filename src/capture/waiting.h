/* Calls that map memory and wait until the hook that they were made in is done (map_calls.c). */
#ifndef HEFT_CAPTURE_WAITING_H
#define HEFT_CAPTURE_WAITING_H

#include <stdint.h>

struct wire_chunk;

/* A call that mapped memory while a hook was under way (map_calls.c) */
struct heft_map_call {
	uint64_t addr, bytes, before;
	uint32_t call,
		detail; /* enum wire_map_call; WIRE_MAP_CALLS: the old memory of the mremap before it */
};
enum { HEFT_WAITING_MOST = 16 };
struct heft_waiting {
	uint32_t count;
	/* A call that maps memory is under way: the one after ours may make it by number (map_calls.c). */
	uint32_t maps;
	uintptr_t guard; /* the frame of that hook */
	/* The stream is closed for short records until they are written. This was its limit, in this chunk. */
	uint64_t limit;
	struct wire_chunk *chunk;
	struct heft_map_call calls[HEFT_WAITING_MOST];
};

#endif
