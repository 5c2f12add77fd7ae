/* A call that mapped memory, or gave it back: what the recorder makes of the raw records, and what the file stores.
 * It is no event (event.h): mapped memory is not an allocation, and counts in no sum of blocks. */
#ifndef HEFT_TALLY_MAPPING_H
#define HEFT_TALLY_MAPPING_H

#include <stdint.h>

/* As on the wire and in files */
enum trace_map_call {
	TRACE_MAP_MMAP,
	TRACE_MAP_MUNMAP,
	TRACE_MAP_MREMAP,
	TRACE_MAP_BRK,     /* the program's break was raised */
	TRACE_MAP_MADVISE, /* changes no mapping */
	TRACE_MAP_SHMAT,
	TRACE_MAP_SHMDT,
	TRACE_MAP_GLIBC, /* no call: the process has glibc's malloc, which maps large blocks one by one */
	TRACE_MAP_CALLS
};

enum trace_map_origin {
	TRACE_MAP_SEEN,    /* the call itself was recorded */
	TRACE_MAP_DERIVED, /* libc called the kernel by itself; its result shows it */
	TRACE_MAP_ORIGINS
};

enum { TRACE_MAP_PROT_SHIFT = 21, TRACE_MAP_DETAIL_MOST = (1 << 24) - 1 };

/* Addresses and bytes are below 2^57, so that sums cannot overflow. */
struct trace_mapping {
	uint64_t time_ns;  /* when the call had returned, since the start of the recording */
	uint64_t began_ns; /* before the call, for those that give memory back */
	uint64_t address, bytes;
	/* MREMAP: what it moves or resizes. SEEN: from where, how much; 0 bytes: that stays */
	uint64_t old_address, old_bytes;
	uint32_t thread, site;
	uint32_t
		old_site; /* DERIVED from a block that was resized: its site before. Files do not keep it */
	/* MMAP: flags | prot << TRACE_MAP_PROT_SHIFT; MADVISE: the advice; BRK: 1 if it was lowered */
	uint32_t detail;
	uint8_t call;   /* enum trace_map_call */
	uint8_t origin; /* enum trace_map_origin */
};

/* By how much the call changes what is mapped, were there nothing before. */
static inline int64_t trace_mapping_change(const struct trace_mapping *m)
{
	switch (m->call) {
	case TRACE_MAP_MMAP:
	case TRACE_MAP_SHMAT: return (int64_t)m->bytes;
	case TRACE_MAP_MREMAP: return (int64_t)m->bytes - (int64_t)m->old_bytes;
	case TRACE_MAP_BRK: return m->detail ? -(int64_t)m->bytes : (int64_t)m->bytes;
	case TRACE_MAP_MUNMAP:
	case TRACE_MAP_SHMDT: return -(int64_t)m->bytes;
	default: return 0;
	}
}

#endif
