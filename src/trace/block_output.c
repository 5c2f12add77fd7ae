/* Writes a recording's pieces in a thread of its own (block_output.h). What waits is a list of copies. Their number has
 * no limit here: the recorder looks at `behind`, and stops before it is too much.
 *
 * Invariant: `error` is set once. From then on nothing is written, and nothing waits. The list, `behind`, `offset`
 * and `error` belong to the lock; the bytes of a piece do not change. */
#include "trace/block_output.h"

#include "hosted/whole_io.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SOON_MS = 20 };

struct output_piece {
	struct output_piece *next;
	size_t size;
	uint8_t bytes[];
};

void block_output_init(struct block_output *o, int fd, uint64_t offset)
{
	memset(o, 0, sizeof *o);
	o->fd = fd;
	o->offset = offset;
	o->last = &o->first;
}

static void drop_all(struct block_output *o)
{
	while (o->first) {
		struct output_piece *next = o->first->next;
		free(o->first);
		o->first = next;
	}
	o->last = &o->first;
	o->behind = 0;
}

static void *write_pieces(void *arg)
{
	struct block_output *o = arg;
	pthread_mutex_lock(&o->lock);
	for (;;) {
		while (!o->first && !o->stop)
			pthread_cond_wait(&o->work, &o->lock);
		struct output_piece *p = o->first;
		if (!p)
			break;
		pthread_mutex_unlock(&o->lock);
		int error = write_whole(o->fd, p->bytes, p->size) ? 0 : errno;
		pthread_mutex_lock(&o->lock);
		if (error) {
			o->error = error;
			drop_all(o);
		} else {
			o->offset += p->size;
			o->behind -= p->size;
			o->first = p->next;
			if (!o->first)
				o->last = &o->first;
			free(p);
		}
		pthread_cond_broadcast(&o->done);
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

void block_output_write_apart(struct block_output *o)
{
	pthread_condattr_t steady;
	sigset_t all, before;
	pthread_condattr_init(&steady);
	pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->work, NULL);
	pthread_cond_init(&o->done, &steady);
	pthread_condattr_destroy(&steady);
	/* No signal is for this thread: a limit on file sizes is an error of write(2). */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	o->apart = !pthread_create(&o->thread, NULL, write_pieces, o);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Waits until less is waiting, or everything if `all`. The lock is held. False: not within that time. */
static bool wait_for_less(struct block_output *o, unsigned ms, bool all)
{
	struct timespec until;
	uint64_t before = o->behind;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000l;
	until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000l;
	until.tv_nsec %= 1000000000l;
	while (o->first && (all || o->behind >= before))
		if (pthread_cond_timedwait(&o->done, &o->lock, &until) == ETIMEDOUT)
			return false;
	return true;
}

int block_output_write(struct block_output *o, const void *bytes, size_t size)
{
	if (!o->apart) {
		if (!o->error && !write_whole(o->fd, bytes, size))
			o->error = errno;
		if (!o->error)
			o->offset += size;
		return o->error;
	}
	struct output_piece *p = malloc(sizeof *p + size);
	if (!p)
		return ENOMEM;
	p->next = NULL;
	p->size = size;
	memcpy(p->bytes, bytes, size);
	pthread_mutex_lock(&o->lock);
	bool alone = !o->first;
	if (o->error)
		free(p);
	else {
		*o->last = p;
		o->last = &p->next;
		o->behind += size;
		pthread_cond_signal(&o->work);
		if (alone)
			wait_for_less(o, SOON_MS, true);
	}
	int error = o->error;
	pthread_mutex_unlock(&o->lock);
	return error;
}

uint64_t block_output_behind(struct block_output *o)
{
	if (!o->apart)
		return 0;
	pthread_mutex_lock(&o->lock);
	uint64_t behind = o->behind;
	pthread_mutex_unlock(&o->lock);
	return behind;
}

int block_output_finish(struct block_output *o, unsigned patience_ms)
{
	if (!o->apart)
		return o->error;
	bool moves = true;
	pthread_mutex_lock(&o->lock);
	while (o->first && moves)
		moves = wait_for_less(o, patience_ms, false);
	o->stop = true;
	pthread_cond_signal(&o->work);
	pthread_mutex_unlock(&o->lock);
	if (!moves) {
		/* It stands in write(2): what it has is its own until the process ends. */
		pthread_detach(o->thread);
		return BLOCK_OUTPUT_STANDS;
	}
	pthread_join(o->thread, NULL);
	o->apart = false;
	pthread_mutex_destroy(&o->lock);
	pthread_cond_destroy(&o->work);
	pthread_cond_destroy(&o->done);
	return o->error;
}
