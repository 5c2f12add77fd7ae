/* What a program says about itself while it is recorded (include/heft.h): marks, regions, blocks that it follows, events,
 * pools. A remark is no event (event.h): the objects of a pool are not allocations, and count in no sum of blocks. */
#ifndef HEFT_TALLY_REMARK_H
#define HEFT_TALLY_REMARK_H

#include <stdint.h>

/* As on the wire and in files. a, b and c are: */
enum trace_remark_kind {
	TRACE_REMARK_MARK,         /* - */
	TRACE_REMARK_REGION_BEGIN, /* the region's number in its process, 1 if it is of the thread alone */
	TRACE_REMARK_REGION_END, /* the same */
	TRACE_REMARK_STAGE, /* address of a followed block, its age in ns + 1 (0: not known), its size */
	TRACE_REMARK_STAGE_END,    /* the address: it was freed, or moved */
	TRACE_REMARK_EVENT,        /* weight */
	TRACE_REMARK_POOL_CREATE,  /* pool */
	TRACE_REMARK_POOL_ALLOC,   /* pool, object, bytes */
	TRACE_REMARK_POOL_FREE,    /* pool, object */
	TRACE_REMARK_POOL_DESTROY, /* pool */
	TRACE_REMARK_STOP,         /* new blocks were not recorded from here on */
	TRACE_REMARK_START,        /* ... to here */
	TRACE_REMARK_KINDS
};

/* In the order of time. */
struct trace_remark {
	uint64_t time_ns; /* since the start of the recording */
	uint64_t a, b, c;
	uint32_t thread;
	uint32_t site; /* of STAGE, EVENT, POOL_ALLOC: the call stack. Else the site without one */
	/* STAGE: 1 + the site that allocated the block; 0: not known */
	uint32_t born_at;
	uint32_t name;    /* 0: none. Else a number of the recording, each with one text */
	const char *text; /* that text, "" without a name; only where a recording is read */
	uint8_t kind;     /* enum trace_remark_kind */
};

enum { TRACE_REMARK_NAMES = 1 << 16, TRACE_REMARK_NAME_BYTES = 255 };

#endif
