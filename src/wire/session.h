/* What passes from a profiled process to heft: one file a process in the
 * session directory, which both have mapped. This header is the whole contract: the
 * inside (src/capture) writes the file, the outside (src/session) reads it as hostile
 * input.
 *
 *   header | streams | module log | stack nodes | chunks
 *
 * Streams are slots that threads borrow. A stream is a list of chunks; a chunk
 * holds records (wire/record.h) and one word `pos` = bytes published, whose
 * lowest bit says that the thread is between taking a time stamp and publishing
 * the record that carries it ("open"). Publishing is one store of `pos`.
 *
 * A chunk goes from the counter of fresh ones or the free list to a thread. When it is
 * full, the recorder finds it by the link in its predecessor, reads it and puts it on the
 * free list, which is a Treiber stack with a tag against ABA. Nobody waits for anybody who may
 * have been killed: a process that dies in the middle only leaks chunks of its own
 * file.
 *
 * Stack nodes are append-only. Node 0 is the root. A node is written completely
 * before its index is used in any record, so a reader that has seen a record
 * finds its node; unwritten entries are zero.
 *
 * The file is sparse: a page costs memory only once it is touched. The inside asks the kernel for
 * pages before it touches them: on a full file system a touch would be a SIGBUS, asking is an
 * error code. */
#ifndef HEFT_WIRE_SESSION_H
#define HEFT_WIRE_SESSION_H

#include <stdatomic.h>
#include <stdint.h>

#define WIRE_MAGIC 0x5345535354464548ull /* "HEFTSSES" */
#define WIRE_VERSION 12u

#define WIRE_ENV_SESSION "HEFT_SESSION"
#define WIRE_ENV_FOLLOW "HEFT_FOLLOW"
#define WIRE_ENV_MODE "HEFT_MODE" /* "count": WIRE_COUNTED, also without a session */
/* Mean bytes between samples (524288, 512k, 1M); "auto": the outside sets the rate; "off": sampling starts
 * switched off. */
#define WIRE_ENV_SAMPLE "HEFT_SAMPLE"
/* Without a session of heft run: where sampled processes leave their files for an agent. */
#define WIRE_ENV_DIR "HEFT_DIR"
#define WIRE_AGENT_DIR "/run/heft"
#define WIRE_PRELOAD_NAME "libheft-preload.so"
/* Files of the right size that the recorder has ready for processes that may not make one themselves (a
 * file size limit): "spare.0" and so on. A process takes one by renaming it. */
#define WIRE_SPARE_NAME "spare."
#define WIRE_SPARES 2

enum {
	WIRE_CHUNK_BYTES = 4096,
	WIRE_CHUNKS = 8192, /* 32 MiB */
	WIRE_STREAMS = 8192,
	WIRE_NODES = 1 << 20,      /* 16 MiB */
	WIRE_ASK_BYTES = 64 << 10, /* answers to a process that is not sampled come through here */
	WIRE_LOG_BYTES = (2 << 20) - WIRE_ASK_BYTES,
	WIRE_HEADER_BYTES = 44 << 10,
	WIRE_REAPS = 384,
	WIRE_NAMES = 8192,          /* that a process may have given: their numbers begin at 1 */
	WIRE_TEXT_BYTES = 12 << 10, /* exe, then the arguments, each with its NUL */
};

enum wire_state {
	WIRE_STARTING = 0,
	WIRE_ON = 1,
	WIRE_OFF = 2, /* the process goes on unprofiled */
};

enum wire_off_reason {
	WIRE_OFF_RECORDER = 0, /* it made no progress */
	WIRE_OFF_SANDBOX = 1,  /* the program closed the time stamp counter, or all system calls */
};

enum wire_mode {
	WIRE_EXACT = 0,
	WIRE_SAMPLED = 1, /* has the tables of wire/samples.h in place of the chunks */
	WIRE_COUNTED = 2, /* has neither: nothing but struct wire_counts */
};

enum wire_origin { WIRE_FROM_EXEC = 0, WIRE_FROM_FORK = 1 };

enum { WIRE_SAMPLE_LEVELS = 3 };

/* What the calls of a process do. */
enum wire_gate {
	WIRE_GATE_COUNT =
		0, /* count bytes to the next sample, look for live samples in frees. Before the first
				call has opened the process there is nothing to count down, so that call
				finds out */
	WIRE_GATE_EXACT = 1, /* record everything */
	WIRE_GATE_PASS = 2,  /* sampling is switched off and no sample is live: do nothing */
	WIRE_GATE_STATS =
		INT32_MIN, /* count calls, record nothing. As a bit pattern it is above the others, and one less
					overflows: entry.c sees both with one comparison */
};

/* What a process of WIRE_COUNTED has counted. It writes these now and then and at its end; what a process that is
 * killed has counted since is missing. */
struct wire_counts {
	_Alignas(64) _Atomic uint64_t allocations;
	_Atomic uint64_t reallocations, frees, allocated_bytes, peak_bytes;
	_Atomic int64_t live_bytes;
	_Atomic uint32_t threads;
};

/* Used only in sampled processes (wire/samples.h) */
struct wire_sampling {
	/* The outside may set these at any time. */
	_Alignas(64) _Atomic uint32_t on;
	_Atomic uint32_t automatic;  /* the outside keeps the rate within a cost budget */
	_Atomic uint64_t rate_bytes; /* mean distance of samples */
	/* The gate is closed only while no sample is live, so both change in one step. */
	union {
		struct {
			_Atomic uint32_t
				gate; /* enum wire_gate. Who switches sampling on sets `on`, then opens it */
			_Atomic uint32_t
				live; /* how many samples are live. Only the process writes it */
		};
		_Atomic uint64_t gate_and_live;
	};
	/* Only the process writes these. */
	_Atomic uint32_t live_levels, sum_levels; /* tables in use */
	_Atomic uint64_t cost_tsc;                /* cycles spent on taking samples */
	/* How far the program has come: the rates of all samples that were taken, added up. That is about
	 * what was allocated, but a huge block counts as one sample. */
	_Atomic uint64_t progress_bytes;
};

/* A process asks the outside for its own profile (heft_pprof_dump), or something else. The bytes come in pieces through
 * the answer area. Both sides set `state` in turn: the process asks and takes, the outside gives. Who sets
 * it wakes the other (futex). */
enum wire_call_state {
	WIRE_CALL_IDLE,
	WIRE_CALL_ASKED,  /* process */
	WIRE_CALL_PIECE,  /* outside: `bytes` of it, more to come */
	WIRE_CALL_LAST,   /* outside: `bytes` of it, and that was all */
	WIRE_CALL_TAKEN,  /* process: the next piece may come */
	WIRE_CALL_FAILED, /* outside: it could not make the profile */
};
enum wire_call_what {
	WIRE_ASKS_PROFILE, /* its profile; only of a sampled process, and the only thing it may ask for */
	WIRE_ASKS_SITES, /* of an exact one: a text, which sites have most of `field` between two moments */
	WIRE_ASKS_COPY, /* of an exact one: the bytes of the recording, up to to_tsc */
};
struct wire_call {
	_Alignas(64) _Atomic uint32_t state; /* enum wire_call_state */
	_Atomic uint32_t bytes;
	_Atomic int32_t owner; /* tid of the thread that asks; 0: none */
	/* The process sets these before it asks. */
	_Atomic uint32_t what; /* enum wire_call_what */
	_Atomic uint64_t from_tsc, to_tsc;
	_Atomic int32_t tid;    /* 0: of all threads */
	_Atomic uint32_t field; /* of struct heft_stats: which one */
	_Atomic uint32_t
		number; /* of questions so far: an answer that took too long is not for the next one */
};

/* A child that this process has waited for; pid 0: one whose number it does not know, which began at most
 * `since` before tsc (system, pclose). Written without a lock, also in signal handlers: `pid_number` is set
 * last. An entry is lost if the process waits for WIRE_REAPS more children before the outside has read it. */
struct wire_reap {
	_Atomic uint64_t
		pid_number; /* number << 32 | pid; numbers begin at 1. Another number: not written yet */
	_Atomic uint64_t tsc;        /* by then it had ended */
	_Atomic uint32_t maxrss_kib; /* its greatest RSS, by the kernel; 0: not known */
	_Atomic uint32_t since;      /* cycles >> WIRE_SINCE_SHIFT; UINT32_MAX: that or longer */
	_Atomic uint32_t status;     /* as wait gave it, | WIRE_STATUS_KNOWN; 0: not known */
	uint32_t pad;
};
#define WIRE_STATUS_KNOWN (1u << 31)
#define WIRE_SINCE_SHIFT 10

/* A process is about to execute a program. It may ask the outside what kind of program that is (LOOK), and to hold it at
 * its first instruction; it waits for a moment. A forked child that has no file of its own uses its parent's, so there
 * are some of these. Who sets a state wakes the other (a futex on the lower half). */
enum wire_hold_state {
	WIRE_HOLD_NONE,
	WIRE_HOLD_ASKED,   /* process: wants to execute */
	WIRE_HOLD_READY,   /* outside: it may, and will be held */
	WIRE_HOLD_REFUSED, /* outside: it may, and will not be held */
	WIRE_HOLD_FAILED,  /* process: the exec has failed. The outside lets go, and sets NONE */
	WIRE_HOLD_SPAWNS, /* like ASKED: the next process that this thread makes wants to execute */
	WIRE_HOLD_LOOK,   /* process: what kind is the file with the descriptor `number`? */
	WIRE_HOLD_KNOWN,  /* outside: `number` says it, enum wire_program_kind */
};
struct wire_hold {
	_Atomic uint64_t word;  /* number of a process or thread << 32 | enum wire_hold_state */
	_Atomic int32_t number; /* before READY: who must be allowed to trace it */
	uint32_t pad;
};
enum { WIRE_HOLDS = 8 };

/* The session directory has this file if the outside holds programs: struct wire_program[WIRE_PROGRAMS], those whose
 * kind was asked for before. */
#define WIRE_HOLDS_NAME ".holds"
enum { WIRE_PROGRAMS = 1024 };
enum wire_program_kind {
	WIRE_PROGRAM_UNKNOWN,
	WIRE_PROGRAM_TAKES,         /* it takes heft's library */
	WIRE_PROGRAM_OWN_ALLOCATOR, /* the same, but that would not see its allocator */
	WIRE_PROGRAM_FOREIGN,       /* it would not start with heft's library: an old glibc */
	WIRE_PROGRAM_REFUSES,       /* the same, and it cannot be held either */
};
struct wire_program {
	uint64_t device, inode, changed_ns; /* which file it was, as stat has them */
	uint64_t kind_check;                /* wire_program_check; another value: it is not whole */
};
static inline uint64_t wire_program_check(const struct wire_program *p, uint32_t kind)
{
	uint64_t sum = (p->device * 3 + p->inode * 5 + p->changed_ns * 7) * 0x9e3779b97f4a7c15ull;
	return (sum & ~0xffull) | kind;
}
/* Its place in the file */
static inline uint64_t wire_program_place(uint64_t device, uint64_t inode)
{
	return ((device * 31 + inode) * 0x9e3779b97f4a7c15ull >> 32) % WIRE_PROGRAMS *
	       sizeof(struct wire_program);
}

static inline uint64_t wire_hold_word(int32_t pid, enum wire_hold_state state)
{
	return (uint64_t)(uint32_t)pid << 32 | state;
}

/* A process asks for a ledger of itself (src/ledger) and waits while it is taken. The process asks, and takes it back
 * if nobody answers; the outside sets the other states. Who sets one wakes the other: the outside by a futex on `state`,
 * the process by a byte into the pipe WIRE_BELL_NAME, which the outside watches. */
enum wire_ledger_state {
	WIRE_LEDGER_NONE,
	WIRE_LEDGER_ASKED,   /* process */
	WIRE_LEDGER_WORKING, /* outside: it takes one now */
	WIRE_LEDGER_DONE,    /* outside: it has taken one, or does not want to */
};
enum wire_ledger_moment {
	WIRE_LEDGER_AT_EXIT = 1,
	WIRE_LEDGER_NEAR_PEAK = 2,
	WIRE_LEDGER_GIVING_BACK = 3, /* it is about to give back memory that it has mapped */
	WIRE_LEDGER_FREEING = 4,     /* near the peak, too: it is about to free a large block */
};
struct wire_ledger {
	_Alignas(64) _Atomic uint32_t state; /* enum wire_ledger_state */
	_Atomic uint32_t moment;             /* process: why it asks */
	_Atomic uint64_t tsc;                /* process: when */
	_Atomic uint32_t worth; /* outside: its heap has been large enough for a ledger */
	/* Outside: the heap is near a new peak, so ask as soon as it begins to shrink, or before a block of so many pages is
	 * freed. 0: do not. Who asks sets it to 0. */
	_Atomic uint32_t armed;
	/* Outside: ask before memory is given back if so many pages of the process's own are in memory; 0: do not. Who asks
	 * sets it to 0. */
	_Atomic uint32_t own_pages;
	/* Another process: a look at its live blocks is wanted, as a number that grows (session/look_call.h). Outside: the last
	 * one that was answered, and the last one that could be had. */
	_Atomic uint32_t wanted, answered, looked;
};
enum { WIRE_LEDGER_OWN_PAGES = 2048 }; /* 8 MiB: below that nobody asks */
/* The session directory has this pipe if the outside takes ledgers. */
#define WIRE_BELL_NAME ".bell"
/* And this one if it looks for leaks in any process, however small. */
#define WIRE_LEAKS_NAME ".leaks"

/* Memory that heft's library has mapped for itself; at is 0: an empty place */
enum { WIRE_OWNS = 1024 }; /* each thread has one */
struct wire_own {
	_Atomic uint64_t at, bytes;
};

enum wire_own_malloc {
	WIRE_MALLOC_OURS = 0, /* the program calls ours, which calls the one behind it */
	WIRE_MALLOC_OWN = 1,  /* the program's malloc is not ours */
	WIRE_MALLOC_HOOKED =
		2, /* the same, and it leads to us: hooks are at the entries of its functions */
};

/* A file whose allocator is hooked where its functions begin (heft attach), by what /proc/PID/maps says of it. */
struct wire_hooked {
	uint64_t device, inode;
};
enum { WIRE_HOOKED = 16 };

/* It has many fields: it is the one part of the file that is no array, so all that both sides know of the
 * process as a whole is here. Fields that one side writes often have cache lines of their own. */
struct wire_header {
	_Atomic uint64_t magic; /* stored last */
	uint32_t version;
	uint32_t origin;   /* enum wire_origin */
	int32_t pid, ppid; /* in a forked child ppid is the process whose memory it began with */
	uint64_t start_tsc;
	uint32_t own_malloc; /* enum wire_own_malloc */
	uint32_t text_bytes; /* used bytes of text */
	uint32_t arg_count;
	uint32_t usable_known; /* 1: slack is recorded */
	uint32_t mode;         /* enum wire_mode */
	/* The greatest RSS at the start, by the kernel: from before exec. */
	uint32_t start_maxrss_kib;
	uint64_t start_mono_ns; /* the time of start_tsc by the monotonic clock */
	int64_t start_unix_ns;
	_Alignas(64) _Atomic uint32_t state; /* enum wire_state */
	_Atomic uint32_t stream_high;        /* streams from here on were never used */
	_Atomic uint64_t off_tsc;
	_Atomic uint64_t reentrant;     /* calls from inside a hook, passed through */
	_Atomic uint64_t lost_stacks;   /* allocations recorded under an ancestor only */
	_Atomic uint32_t lost_children; /* forked children that could not open their file */
	_Atomic uint32_t lost_child_errno;
	_Atomic uint64_t
		dropped; /* events that were not recorded, without a stream to count them in */
	_Atomic uint32_t flushes; /* calls of dlclose */
	_Atomic uint32_t forks;   /* calls of fork(): so many children may still open their files */
	/* Libraries whose calls were redirected to us after they had run for a while: we may see frees of
	 * what they allocated before. */
	_Atomic uint32_t late_libraries;
	/* enum wire_off_reason. off_tsc is 0: only some threads are not recorded */
	_Atomic uint32_t off_reason;
	_Alignas(64) _Atomic uint64_t free_head; /* tag << 32 | chunk index + 1 */
	_Atomic uint32_t fresh;                  /* chunks never used begin here */
	_Atomic uint32_t waiters;
	_Atomic uint32_t starved; /* the file system is full: there will be no more chunks */
	_Alignas(64) _Atomic uint32_t progress; /* recorder: rises with every round; futex word */
	_Atomic uint32_t
		behind; /* recorder: it has much to read; threads offer it their processor */
	_Alignas(64) _Atomic uint32_t
		node_count;                     /* may exceed WIRE_NODES: then the table is full */
	_Alignas(64) _Atomic uint32_t log_used; /* a hint for writers: entries may follow it */
	struct wire_sampling sampling;
	struct wire_call call;
	struct wire_ledger ledger;
	struct wire_counts counts;
	/* When it called exit or exec: it ends then or later, and records that follow move the end. 0: it has
	 * not, or its exec failed. */
	_Alignas(64) _Atomic uint64_t exit_tsc, exec_tsc;
	_Atomic uint64_t
		own_bytes; /* memory that heft's library has mapped for itself: large tables */
	_Atomic uint32_t
		reap_count; /* all of them; the last one is at (reap_count - 1) % WIRE_REAPS */
	struct wire_reap reaps[WIRE_REAPS];
	struct wire_hold holds[WIRE_HOLDS];
	_Atomic uint32_t own_used; /* entries of own from here on were never used */
	uint32_t hooked_count;
	struct wire_hooked hooked[WIRE_HOOKED];
	_Alignas(64) char text[WIRE_TEXT_BYTES];
	/* Where the memory of own_bytes is, as far as there is room. It is last: of most processes only the first of its pages
	 * is ever touched. */
	struct wire_own own[WIRE_OWNS];
};
_Static_assert(sizeof(struct wire_header) <= WIRE_HEADER_BYTES, "header fits");

enum wire_stream_state {
	WIRE_STREAM_FREE = 0,
	WIRE_STREAM_ACTIVE = 1,
	WIRE_STREAM_CLOSED =
		2, /* its thread is ending; the recorder frees the slot once it is gone */
};

struct wire_stream {
	_Alignas(64) _Atomic uint32_t state;
	int32_t tid;
	_Atomic uint32_t first; /* chunk index + 1; 0 until there is one */
	uint32_t pad;
	_Atomic uint64_t dropped; /* events of this thread that were not recorded */
	char name[16];
};

struct wire_chunk {
	_Atomic uint64_t pos;  /* bytes of data published, | WIRE_OPEN */
	_Atomic uint32_t next; /* chunk index + 1, set when this one is finished */
	uint32_t stream;
	uint64_t base_tsc; /* what the first record's time is relative to */
	uint64_t pad;
	uint64_t data[(WIRE_CHUNK_BYTES - 32) / 8];
};
_Static_assert(sizeof(struct wire_chunk) == WIRE_CHUNK_BYTES, "a chunk is a page");
#define WIRE_OPEN 1ull
#define WIRE_CHUNK_WORDS ((WIRE_CHUNK_BYTES - 32) / 8)

/* pc_flags: pc in the low 48 bits, enum wire_node_flag above. Written last; 0 = not there yet.
 * A leaf with WIRE_NODE_VIA names the allocation function in its low bits: sites are such leaves. */
struct wire_node {
	_Atomic uint64_t pc_flags;
	uint32_t parent;
	uint32_t check; /* always ~parent: garbage is noticed */
};
enum wire_node_flag {
	WIRE_NODE_PRESENT = 1 << 0,
	WIRE_NODE_VIA = 1 << 1,
	WIRE_NODE_GUESS = 1 << 2,
	WIRE_NODE_TRUNCATED = 1 << 3,
	WIRE_NODE_EXACT = 1 << 4,
};
#define WIRE_PC_MASK 0xffffffffffffull
#define WIRE_FLAG_SHIFT 48

/* The module log: 8-aligned entries. A writer sets the `bytes` of an entry first, with WIRE_LOG_UNFINISHED,
 * and again without it when the rest is written: if it is stopped or killed in between, it hides nothing
 * that others write behind it. The log also holds notes of exec calls; a forked child that has no file of
 * its own yet writes them into its parent's. */
#define WIRE_LOG_UNFINISHED 1u
enum wire_log_kind {
	WIRE_LOG_MODULE = 1,
	WIRE_LOG_EXEC = 2,        /* start: pid, end: time stamp, path: what it executes */
	WIRE_LOG_EXEC_FAILED = 3, /* start: pid; the last exec of this pid failed */
	WIRE_LOG_NAME = 4,        /* start: number, path: a name that the program gave (heft.h) */
};
struct wire_module {
	_Atomic uint32_t
		bytes;       /* of the whole entry, | WIRE_LOG_UNFINISHED; 0 = end of log so far */
	uint32_t first_node; /* holds for nodes from this index on */
	uint64_t start, end; /* mapped range */
	uint64_t bias;       /* run-time address - ELF address */
	uint16_t path_bytes, build_id_bytes;
	uint32_t kind; /* enum wire_log_kind */
	char data[];   /* path, then build id */
};

#define WIRE_STREAMS_OFFSET ((uint64_t)WIRE_HEADER_BYTES)
#define WIRE_LOG_OFFSET (WIRE_STREAMS_OFFSET + WIRE_STREAMS * sizeof(struct wire_stream))
#define WIRE_ASK_OFFSET (WIRE_LOG_OFFSET + WIRE_LOG_BYTES)
#define WIRE_NODES_OFFSET (WIRE_ASK_OFFSET + WIRE_ASK_BYTES)
#define WIRE_CHUNKS_OFFSET (WIRE_NODES_OFFSET + (uint64_t)WIRE_NODES * sizeof(struct wire_node))
#define WIRE_FILE_BYTES (WIRE_CHUNKS_OFFSET + (uint64_t)WIRE_CHUNKS * WIRE_CHUNK_BYTES)
_Static_assert(WIRE_FILE_BYTES <= 64u << 20, "at most 64 MiB a process");

/* Where the parts of a mapped file are */
struct wire_session {
	struct wire_header *header;
	struct wire_stream *streams;
	unsigned char *log;
	struct wire_node *nodes;
	struct wire_chunk *chunks;
};

static inline struct wire_session wire_session_at(void *base)
{
	unsigned char *p = base;
	return (struct wire_session){
		.header = (struct wire_header *)p,
		.streams = (struct wire_stream *)(p + WIRE_STREAMS_OFFSET),
		.log = p + WIRE_LOG_OFFSET,
		.nodes = (struct wire_node *)(p + WIRE_NODES_OFFSET),
		.chunks = (struct wire_chunk *)(p + WIRE_CHUNKS_OFFSET),
	};
}

#endif
