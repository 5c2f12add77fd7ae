/* Reading the streams of one process: their chunks, and the records in those. */
#ifndef HEFT_RECORD_STREAM_READER_H
#define HEFT_RECORD_STREAM_READER_H

#include "record/reorder.h"
#include "wire/record.h"
#include "wire/session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct session_view;

/* A slot that a thread has borrowed, from its first record to its last */
struct stream {
	struct session_view *view;
	struct wire_chunk *chunk; /* the one that is being read */
	uint32_t pos, end;        /* bytes of it that were read, and that this round may read */
	uint32_t slot;
	uint64_t tsc;        /* of the last record that was read */
	uint64_t next_tsc;   /* of the next one, if `more` */
	uint64_t bound;      /* no record that is still to come is older than this */
	uint64_t open_since; /* when (ns) it was first seen open at open_pos; 0: it is not open */
	uint64_t open_pos;
	bool active;   /* a thread has the slot */
	bool open;     /* the thread had taken a stamp and not published, when this round looked */
	bool more;     /* there is a record before `end` */
	bool is_end;   /* this is not a stream, but the end of a process (process.ending) */
	char name[16]; /* of the thread, as the recording has it */
	uint64_t moving; /* a followed block whose realloc has begun; 0: none (drain_remark.c) */
	struct reorder_thread thread; /* for the matcher; number TRACE_NONE: none was matched yet */
};

enum stream_call {
	STREAM_ALLOC,
	STREAM_FREE,
	STREAM_REALLOC_BEGIN,
	STREAM_REALLOC_END,
	STREAM_REALLOC_FAILED,
	STREAM_REALLOC_FREED,
	STREAM_UNUSED,
	STREAM_MAPPING,
	STREAM_REMARK,
};

/* One call, as the program wrote it; 0 where such a call has no value */
struct stream_record {
	enum stream_call call;
	bool slack_unknown;
	bool has_free_node;
	uint64_t addr;
	uint64_t size;         /* ALLOC, REALLOC_END: of the new block */
	uint64_t unused_bytes; /* UNUSED */
	uint32_t slack;        /* ALLOC, REALLOC_END */
	uint32_t node;         /* ALLOC, REALLOC_END: its call stack */
	uint32_t free_node;    /* FREE with has_free_node: the call stack of the free */
	/* MAPPING, beside addr, size and node */
	uint32_t map_call, detail; /* enum wire_map_call */
	uint64_t before_tsc, old_addr, old_size;
	/* REMARK: map_call is enum wire_remark, detail the name, node its call stack or 0; addr, size and old_size are its
	 * three words. */
};

/* Looks at every stream: what is published, and who is open. now_ns: the time of this round. over: the
 * process has ended, so nobody is open. Returns how many streams have records, or HEFT_EFORMAT. */
int streams_look(struct session_view *v, uint64_t round_tsc, uint64_t now_ns, bool over);
/* Goes to the next record of s, into the next chunk if need be: sets `more` and next_tsc. HEFT_EFORMAT. */
int stream_advance(struct stream *s);
/* Reads the record that s stands at. Returns its bytes, or HEFT_EFORMAT: no such record. */
int stream_decode(const struct stream *s, struct stream_record *r);
/* Gives the process back the chunks that were read, and the slots of threads that are gone. pid: where in
 * /proc those threads are looked for; 0: they cannot be found there, and all slots are kept. */
void streams_give_back(struct session_view *v, pid_t pid);

#endif
