/* Inside src/trace: the file of a recording, written by a thread of its own. A disk may stand still for seconds (a
 * frozen file system, a network, a full queue), and whoever records must not. */
#ifndef HEFT_TRACE_BLOCK_OUTPUT_H
#define HEFT_TRACE_BLOCK_OUTPUT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output_piece;

struct block_output {
	int fd;
	bool apart; /* the thread runs; else every write waits for the disk */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct output_piece *first, **last; /* that wait; the thread works on the first */
	uint64_t behind;                    /* bytes of these */
	uint64_t offset;                    /* where the last whole piece in the file ends */
	int error;                          /* of the first write that failed, as errno; 0: none */
	bool stop;
};

/* `offset` bytes are in the file already. */
void block_output_init(struct block_output *o, int fd, uint64_t offset);
/* Starts the thread. If that is not possible, writing goes on as before. */
void block_output_write_apart(struct block_output *o);
/* Writes a whole piece. Apart: waits a moment for it if nothing waited before, so that a full disk is noticed at
 * once. Returns 0 or errno of this piece or of one before. */
int block_output_write(struct block_output *o, const void *bytes, size_t size);
/* Bytes that wait for the disk. */
uint64_t block_output_behind(struct block_output *o);
/* Waits until everything is in the file. If the disk takes nothing at all for `patience_ms`, it is not waited for:
 * BLOCK_OUTPUT_STANDS. The output and its descriptor belong to the thread then. */
enum { BLOCK_OUTPUT_STANDS = -1 };
int block_output_finish(struct block_output *o, unsigned patience_ms);

#endif
