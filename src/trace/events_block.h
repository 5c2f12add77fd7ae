/* The payload of an events block: matched events in columns, see
 * docs/trace-format.md ("Events"). What follows is the part that the encoder
 * and the decoder must agree on, bit by bit, so it stands once, here: the
 * columns, the kinds of events, and the predictions. A value that was predicted
 * is not stored; both sides update the same model with every event.
 *
 * The model starts afresh with every block: any block decodes alone. */
#ifndef HEFT_TRACE_EVENTS_BLOCK_H
#define HEFT_TRACE_EVENTS_BLOCK_H

#include "tally/batch.h"
#include "trace/byte_buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { EVENTS_PER_BLOCK = 1 << 20 };

enum events_column {
	COLUMN_TICKS,    /* runs of events in one tick */
	COLUMN_SWITCHES, /* a bit an event: not of the same thread as the one before */
	COLUMN_THREADS,  /* a byte a switch: to which thread */
	COLUMN_MISSES,   /* a bit an event: its code was not predicted */
	COLUMN_CODES,    /* those codes */
	COLUMN_RESIZES,  /* a bit an event: its size or slack was not predicted */
	COLUMN_SIZES,    /* those sizes, and slacks */
	COLUMN_LIVES,    /* lifetimes of FREE and GONE */
	COLUMN_SITES,    /* ids and first sizes of sites in the order of their first use */
	COLUMN_REALLOCS, /* what a REALLOC has beyond the others */
	COLUMN_ESCAPES,  /* what KIND_ESCAPE says in full */
	COLUMN_COUNT
};

/* The most bytes one event can add to each column. */
#define COLUMN_WORST {18, 8, 10, 8, 9, 8, 18, 9, 36, 27, 10}

/* Bits are kept in groups of 64 events, the first event of a group highest among as many bits
 * as the group has events. */
enum { EVENTS_GROUP = 64 };

/* COLUMN_THREADS: 0 is the thread before the last switch; 255 means that the id follows; others are
 * the id plus 1. */
enum { THREAD_BEFORE = 0, THREAD_FOLLOWS = 255 };

/* code = local site << CODE_SITE_SHIFT | kind */
enum events_kind {
	KIND_ESCAPE, /* op, flags and birth thread are in COLUMN_ESCAPES */
	KIND_ALLOC,
	KIND_FREE,       /* by the thread that allocated the block */
	KIND_FREE_TEMP,  /* the same, of the block that this thread allocated last */
	KIND_FREE_CROSS, /* allocated by the thread whose block this thread last freed so */
	KIND_REALLOC,    /* by the thread that allocated the block */
	KIND_GONE,
	CODE_KIND = 7,
	CODE_SITE_SHIFT = 3,
};

/* Which of a site's two predictions a kind uses (struct events_site); an escape uses that of its op. */
static inline unsigned kind_from(uint32_t kind)
{
	return ~kind & 1;
}

/* A block's size and slack in one word, as struct trace_brief has them above the site: what is
 * predicted is then compared at once. Blocks that do not fit (256 MiB, 4095 bytes of slack) neither
 * use a prediction nor make one. */
#define WORD_NONE UINT64_MAX

static inline uint64_t word_of(uint64_t size, uint32_t slack)
{
	return block_fits(0, size, slack) ? block_word(0, size, slack) >> BLOCK_SITE_BITS
					  : WORD_NONE;
}

static inline uint64_t word_size(uint64_t word)
{
	return word & BLOCK_SIZE_MAX;
}

static inline uint32_t word_slack(uint64_t word)
{
	return (uint32_t)(word >> BLOCK_SIZE_BITS);
}

struct events_site {
	/* The last word of: [0] ALLOC, REALLOC and temporary FREE, [1] other FREE and GONE. */
	_Alignas(32) uint64_t word[2];
	/* Number within the block << CODE_SITE_SHIFT; CODE_NONE: not yet seen in it. */
	uint32_t code;
	uint32_t last_alloc; /* low bits of the tick of its last ALLOC */
	uint32_t last_birth; /* of the birth of its block that ended last, temporary ones aside */
	uint32_t id;         /* (decoder) */
};
_Static_assert(sizeof(struct events_site) == 32, "half a cache line, never across two");
#define CODE_NONE UINT32_MAX

struct events_thread {
	uint64_t context;    /* hash of its last codes */
	uint64_t last_alloc; /* tick of its last ALLOC */
	uint64_t last_birth; /* birth of the block that it ended last, temporary ones aside */
	uint32_t last_cross;
	uint32_t epoch;
};

/* The latest tick, not after `tick`, whose low bits these are. */
static inline uint64_t tick_before(uint64_t tick, uint32_t low)
{
	return tick - (uint32_t)((uint32_t)tick - low);
}

enum { CONTEXT_BITS = 16, CONTEXT_SHIFT = 24, FAMILIAR_BITS = 13, SLACK_BITS = 10 };

/* A code that was not predicted: its rank among those that followed the same code lately, or it is of
 * a site that is new in the block, or stands in full. */
enum { CODE_RANKS = 4, CODE_NEW = CODE_RANKS, CODE_FULL = CODE_NEW + CODE_KIND + 1 };

struct events_model {
	uint32_t next[1 << CONTEXT_BITS]; /* the code that followed this context */
	uint32_t familiar[1 << FAMILIAR_BITS]
			 [CODE_RANKS];       /* codes that followed this code, last first */
	uint32_t slack_off[1 << SLACK_BITS]; /* by size: how far slack_guess was off */
	uint32_t unknown; /* TRACE_SLACK_UNKNOWN if the last escape had it, else 0 */
};

static inline void model_reset(struct events_model *m)
{
	memset(m->next, 0xff, sizeof m->next); /* CODE_NONE: predicts nothing that exists */
	memset(m->familiar, 0xff, sizeof m->familiar);
	memset(m->slack_off, 0, sizeof m->slack_off);
	m->unknown = 0;
}

/* Shifting makes older codes leave: the upper bits are a hash of the last three or so, the lower ones
 * depend on the last one alone. */
static inline uint64_t context_after(uint64_t context, uint32_t code)
{
	return context << CONTEXT_SHIFT ^ code * 0x9e3779b97f4a7c15u;
}

static inline uint32_t *code_after(struct events_model *m, uint64_t context)
{
	return &m->next[context >> (64 - CONTEXT_BITS)];
}

static inline uint32_t *familiar_after(struct events_model *m, uint64_t context)
{
	uint32_t last = (uint32_t)context << (32 - CONTEXT_SHIFT);
	return m->familiar[last * 0x9e3779b1u >> (32 - FAMILIAR_BITS)];
}

/* Moves a code to the front; returns which one it was. */
static inline unsigned familiar_rank(uint32_t *f, uint32_t code)
{
	uint32_t a = f[0], b = f[1], c = f[2], d = f[3];
	if (a == code)
		return 0;
	f[0] = code;
	f[1] = a;
	if (b == code)
		return 1;
	f[2] = b;
	if (c == code)
		return 2;
	f[3] = c;
	return d == code ? 3 : CODE_RANKS;
}

/* What glibc's malloc would leave over; other allocators are learnt as differences to it. */
static inline uint32_t slack_guess(uint64_t size)
{
	uint64_t chunk = (size + 23) & ~15ull;
	return (uint32_t)((chunk < 32 ? 32 : chunk) - 8 - size);
}

static inline uint32_t *slack_slot(struct events_model *m, uint64_t size)
{
	return &m->slack_off[(size ^ size >> SLACK_BITS) & ((1u << SLACK_BITS) - 1)];
}

static inline uint32_t slack_predict(struct events_model *m, uint64_t size)
{
	return m->unknown ? 0 : slack_guess(size) + *slack_slot(m, size);
}

/* Remembers a slack that was not predicted. */
static inline void slack_learn(struct events_model *m, uint64_t size, uint32_t slack)
{
	if (!m->unknown)
		*slack_slot(m, size) = slack - slack_guess(size);
}

/* ---- encoding */
struct events_encoder {
	struct events_site *sites; /* by site id */
	uint32_t *used;            /* sites of this block, by number */
	struct events_thread *threads;
	uint32_t site_capacity, thread_capacity;
	uint32_t epoch, site_count; /* of this block */
	unsigned tick_shift;
	uint32_t count; /* events in this block */
	uint64_t first_tick, tick, tick_end_ns;
	uint32_t tick_start; /* index of the first event of the current tick */
	uint32_t thread, previous_thread;
	uint64_t switches, misses, resizes; /* bits of the current group */
	uint32_t last_site;
	uint32_t fresh; /* code of the site that is new with this event, or CODE_NONE */
	bool switching; /* the last group had switches: expect more */
	uint8_t *at[COLUMN_COUNT], *start[COLUMN_COUNT];
	uint8_t *buffer;
	struct events_model model; /* last: it is large, and only reset when a block begins */
};

int events_encoder_init(struct events_encoder *e, unsigned tick_shift);
void events_encoder_fini(struct events_encoder *e);
/* Makes ids below these valid; 0 or HEFT_ENOMEM. */
int events_encoder_reserve(struct events_encoder *e, uint32_t sites, uint32_t threads);
/* Takes events until the block is full; returns how many it took. Both write the same. */
size_t events_encode(struct events_encoder *e, const struct trace_event *events, size_t count);
uint32_t events_encode_batch(struct events_encoder *e, const struct trace_batch *batch,
			     uint32_t first);
/* Bytes of the block so far, about. */
size_t events_encoder_bytes(const struct events_encoder *e);

/* A block's payload: its pieces one behind the other. They point into the encoder. */
struct events_payload {
	struct byte_piece pieces[COLUMN_COUNT + 1];
	uint64_t first_tick, last_tick;
	uint8_t head[(COLUMN_COUNT + 3) * PREFIX_MAX];
};
void events_encoder_end(struct events_encoder *e, struct events_payload *payload);
/* Starts the next block, when the payload of the last one is no longer needed. */
void events_encoder_begin(struct events_encoder *e);

/* ---- decoding */
enum { EVENTS_BATCH = 512, EVENTS_READ_SLACK = EVENTS_BATCH * 40 + 64 };

struct events_decoder {
	struct events_site *sites;     /* by local number */
	struct events_thread *threads; /* by thread id */
	uint32_t thread_capacity, site_capacity;
	uint32_t site_limit, thread_limit; /* ids must be below */
	uint32_t site_count, epoch;
	unsigned tick_shift;
	uint64_t count, done;
	uint64_t first_tick, tick, tick_step, tick_left;
	uint32_t thread, previous_thread;
	uint32_t last_site;
	const uint8_t *at[COLUMN_COUNT], *end[COLUMN_COUNT];
	struct events_model model;
};

void events_decoder_init(struct events_decoder *d, unsigned tick_shift);
void events_decoder_fini(struct events_decoder *d);
/* payload has EVENTS_READ_SLACK readable bytes behind it. NULL, or what was expected. */
const char *events_decode_begin(struct events_decoder *d, const uint8_t *payload, size_t len,
				uint32_t site_limit, uint32_t thread_limit);
/* Decodes the next EVENTS_BATCH or fewer events; *count is 0 after the last one, when every
 * column has been used up exactly. NULL, or what was expected (then *count is 0). */
const char *events_decode(struct events_decoder *d, struct trace_event *events, size_t *count);

#endif
