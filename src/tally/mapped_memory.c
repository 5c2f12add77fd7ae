/* Pieces of mapped memory, in a tree by address (a treap: each node has a random
 * priority, and is above those with lower ones, so the tree is flat whatever comes).
 *
 * Pieces never overlap. A call takes everything out of the tree that it maps over or
 * unmaps, and puts back what sticks out at either end. A range is cut out of the
 * tree by two splits.
 *
 * Calls of several threads come in the order in which they returned. So memory may
 * seem to be unmapped after another thread has already mapped it again: a piece that
 * another thread made after the call began was not what the call unmapped. */
#include "tally/mapped_memory.h"

#include "hosted/error.h"

#include <stdlib.h>

struct node {
	struct mapped_piece piece;
	struct node *left, *right;
	uint32_t priority;
};

struct mapped_memory {
	struct node *root;
	uint32_t random;
};

struct change {
	mapped_change_fn *fn;
	void *ctx;
};

struct mapped_memory *mapped_memory_new(void)
{
	struct mapped_memory *m = calloc(1, sizeof *m);
	if (m)
		m->random = 0x9e3779b9u;
	return m;
}

static void free_tree(struct node *n)
{
	while (n) {
		struct node *right = n->right;
		free_tree(n->left);
		free(n);
		n = right;
	}
}

void mapped_memory_free(struct mapped_memory *m)
{
	if (m)
		free_tree(m->root);
	free(m);
}

/* Pieces that start below `at` go to *low. */
static void split(struct node *n, uint64_t at, struct node **low, struct node **high)
{
	while (n) {
		if (n->piece.start < at) {
			*low = n;
			low = &n->right;
			n = n->right;
		} else {
			*high = n;
			high = &n->left;
			n = n->left;
		}
	}
	*low = *high = NULL;
}

static struct node *join(struct node *low, struct node *high)
{
	struct node *root, **to = &root;
	while (low && high) {
		if (low->priority >= high->priority) {
			*to = low;
			to = &low->right;
			low = low->right;
		} else {
			*to = high;
			to = &high->left;
			high = high->left;
		}
	}
	*to = low ? low : high;
	return root;
}

static int insert(struct mapped_memory *m, const struct mapped_piece *piece)
{
	struct node *n = calloc(1, sizeof *n), *low, *high;
	if (!n)
		return HEFT_ENOMEM;
	m->random ^= m->random << 13;
	m->random ^= m->random >> 17;
	m->random ^= m->random << 5;
	n->piece = *piece;
	n->priority = m->random;
	split(m->root, piece->start, &low, &high);
	m->root = join(join(low, n), high);
	return 0;
}

/* The piece with the greatest start below `at`; NULL: there is none. */
static struct node *last_before(const struct mapped_memory *m, uint64_t at)
{
	struct node *n = m->root, *found = NULL;
	while (n) {
		if (n->piece.start < at) {
			found = n;
			n = n->right;
		} else {
			n = n->left;
		}
	}
	return found;
}

static struct node *first_from(const struct mapped_memory *m, uint64_t at)
{
	struct node *n = m->root, *found = NULL;
	while (n) {
		if (n->piece.start >= at) {
			found = n;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return found;
}

static int tell(const struct change *c, const struct mapped_piece *piece, bool added)
{
	int rc = c->fn && piece->start < piece->end ? c->fn(c->ctx, piece, added) : 0;
	return rc < 0 ? rc : 0;
}

/* Cuts the piece that lies across `at`, if there is one, in two. */
static int cut(struct mapped_memory *m, uint64_t at, const struct change *c)
{
	struct node *n = last_before(m, at);
	if (!n || n->piece.end <= at)
		return 0;
	struct mapped_piece upper = n->piece, lower = n->piece;
	int rc = tell(c, &n->piece, false);
	upper.start = lower.end = n->piece.end = at;
	if (rc == 0)
		rc = tell(c, &lower, true);
	if (rc == 0)
		rc = insert(m, &upper);
	return rc ? rc : tell(c, &upper, true);
}

static int remove_piece(struct mapped_memory *m, struct node *n, const struct change *c)
{
	struct node *low, *middle, *high;
	split(m->root, n->piece.start, &low, &middle);
	split(middle, n->piece.start + 1, &middle, &high);
	m->root = join(low, high);
	int rc = tell(c, &n->piece, false);
	free(n);
	return rc;
}

/* Takes away what is mapped in [start, end). by: the call, if it may be older than what is there. */
static int take_away(struct mapped_memory *m, uint64_t start, uint64_t end,
		     const struct trace_mapping *by, const struct change *c)
{
	int rc = cut(m, start, c);
	if (rc == 0)
		rc = cut(m, end, c);
	struct node *n;
	for (uint64_t at = start;
	     rc == 0 && (n = first_from(m, at)) != NULL && n->piece.start < end;) {
		at = n->piece.start + 1;
		bool newer = by && n->piece.thread != by->thread &&
			     n->piece.since_ns > by->began_ns;
		if (!newer)
			rc = remove_piece(m, n, c);
	}
	return rc;
}

static int put(struct mapped_memory *m, const struct trace_mapping *call, const struct change *c)
{
	struct mapped_piece piece = {
		.start = call->address,
		.end = call->address + call->bytes,
		.since_ns = call->time_ns,
		.site = call->site,
		.thread = call->thread,
		.attached = call->call == TRACE_MAP_SHMAT,
	};
	if (piece.start >= piece.end)
		return 0;
	int rc = take_away(m, piece.start, piece.end, NULL, c);
	if (rc == 0)
		rc = insert(m, &piece);
	return rc ? rc : tell(c, &piece, true);
}

static int detach(struct mapped_memory *m, const struct trace_mapping *call, const struct change *c)
{
	struct node *n = first_from(m, call->address);
	if (!n || n->piece.start != call->address || !n->piece.attached)
		return 0;
	return remove_piece(m, n, c);
}

int mapped_memory_apply(struct mapped_memory *m, const struct trace_mapping *call,
			mapped_change_fn *change, void *ctx)
{
	const struct change c = {change, ctx};
	const uint64_t end = call->address + call->bytes;
	int rc = 0;
	if (call->origin == TRACE_MAP_DERIVED && call->call != TRACE_MAP_BRK)
		return 0; /* a block's, without an address */
	switch (call->call) {
	case TRACE_MAP_MMAP:
	case TRACE_MAP_SHMAT: return put(m, call, &c);
	case TRACE_MAP_MUNMAP: return take_away(m, call->address, end, call, &c);
	case TRACE_MAP_BRK:
		return call->detail ? take_away(m, call->address, end, call, &c) : put(m, call, &c);
	case TRACE_MAP_MREMAP:
		if (call->old_bytes)
			rc = take_away(m, call->old_address, call->old_address + call->old_bytes,
				       call, &c);
		return rc ? rc : put(m, call, &c);
	case TRACE_MAP_SHMDT: return detach(m, call, &c);
	default: return 0;
	}
}

static int walk(const struct node *n, const struct change *c)
{
	for (; n; n = n->right) {
		int rc = walk(n->left, c);
		if (rc == 0)
			rc = tell(c, &n->piece, true);
		if (rc)
			return rc;
	}
	return 0;
}

int mapped_memory_each(const struct mapped_memory *m, mapped_change_fn *each, void *ctx)
{
	const struct change c = {each, ctx};
	return walk(m->root, &c);
}
