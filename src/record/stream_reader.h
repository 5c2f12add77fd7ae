/* Reading the streams of one process: chunks, and the records in them (layout:
 * wire/session.h, wire/record.h). */
#ifndef HEFT_RECORD_STREAM_READER_H
#define HEFT_RECORD_STREAM_READER_H

#include "record/reorder.h"
#include "wire/record.h"
#include "wire/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session_view;

struct stream { /* a slot that a thread has borrowed, from its first record to its last */
	struct session_view *view;
	struct wire_chunk *chunk; /* being read; NULL: none yet */
	uint32_t pos, end;	  /* bytes of it read, and published as of this round */
	uint32_t slot;
	uint64_t tsc;	     /* of the last record read */
	uint64_t next_tsc;   /* of the next one, if there is one before `end` */
	uint64_t bound;	     /* no record still to come is older than this */
	uint64_t open_since; /* round (ns) in which it was first seen open at this position; 0 not */
	uint64_t open_pos;
	bool active; /* holds the slot */
	bool open;   /* as of this round */
	bool more;   /* next_tsc is valid */
	bool is_end; /* no stream of records, but a process's end (process.ending) */
	char name[16];
	struct reorder_thread thread; /* the matcher's; TRACE_NONE until its first record is matched */
};

enum stream_call {
	STREAM_ALLOC,
	STREAM_FREE,
	STREAM_REALLOC_BEGIN,
	STREAM_REALLOC_END,
	STREAM_REALLOC_FAILED,
	STREAM_REALLOC_FREED,
	STREAM_UNUSED,
};

struct stream_record { /* one call, as the program wrote it; 0 where its kind has no such thing */
	enum stream_call call;
	bool slack_unknown;
	bool has_free_node;
	uint64_t addr;
	uint64_t size;		/* ALLOC, REALLOC_END: of the new block */
	uint64_t unused_bytes;	/* UNUSED */
	uint32_t slack;		/* ALLOC, REALLOC_END */
	uint32_t node;		/* ALLOC, REALLOC_END: its call stack */
	uint32_t free_node;	/* FREE with has_free_node: the call stack of the free */
};

/* Looks at every stream: what is published now, who is open. now_ns: of this round; over: the process has
 * ended, so nobody is. Returns the number of streams with records to read, or HEFT_EFORMAT. */
int streams_look(struct session_view *v, uint64_t round_tsc, uint64_t now_ns, bool over);
/* Goes to the next record of s (also into the next chunk): sets more and next_tsc. HEFT_EFORMAT. */
int stream_advance(struct stream *s);
/* Reads the record that s stands at. Returns its bytes, or HEFT_EFORMAT: no such record. */
int stream_decode(const struct stream *s, struct stream_record *r);
/* Returns chunks that were read to the process, and slots of threads that are gone. pid: the number here of
 * the process, whose threads have the numbers that the slots say; 0: not so, or it is over, and slots
 * are kept. */
void streams_give_back(struct session_view *v, pid_t pid);

#endif
