/* What one item of a queue is, and how many there are.
 *
 * An item is often several blocks: a message of nine strings, a node and its payload. And several places may
 * send to one queue. Places whose counts are multiples of one number, and that have a producing thread in
 * common, are parts of one item; that number is how many items there were. A part that not every item has (a note, a
 * name that is too long for its object) comes at most once from one item to the next. What is made much more seldom holds
 * several items each (the chunks of a channel), and is no item.
 *
 * The maker of an item is the innermost function that all its larger parts have in common. */
#include "findings/queue_parts.h"

#include "findings/made_together.h"
#include "findings/site_names.h"
#include "hosted/compare.h"

#include <stdlib.h>

/* A part has so many blocks in each item at most. */
#define ITEM_MOST_PARTS 64
/* An item may be half made when the program ends, and a site that was small at first is not followed from its
 * first block on: so counts of parts may differ by so much of one item's count. */
#define ITEM_UNEQUAL 0.02
/* A place with less than this part of the items' count holds several items in each block. */
#define ITEM_CHUNK 0.125
/* So many places of a group are looked at, the largest first: all are compared with all, once for each kind of item,
 * and each comparison goes through the first blocks of both. */
#define ITEM_MOST_PLACES 32
/* The maker is common to parts with this share of the item's bytes. */
#define ITEM_MAKER_SHARE 0.8

/* How many blocks each of `items` has at this place; 0: the counts do not fit. */
static uint64_t blocks_each(uint64_t made, uint64_t items)
{
	if (!items || made < items - items / 50)
		return 0;
	double each = (double)made / (double)items, whole = (double)(uint64_t)(each + 0.5);
	double off = each > whole ? each - whole : whole - each;
	return whole >= 1 && whole <= ITEM_MOST_PARTS && off <= ITEM_UNEQUAL ? (uint64_t)whole : 0;
}

/* The places of a group: those that are not counted yet, then parts of the item that is being counted */
struct counting {
	const struct queue_places *q;
	const struct queue_place **left, **parts;
	uint32_t left_count, part_count;
};

/* Whether each item of `of` has so many blocks of x. */
static bool is_whole_part(const struct counting *c, const struct queue_place *x,
			  const struct queue_place *of)
{
	uint64_t each = blocks_each(x->made, of->made);
	if (x == of || !each || !queue_same_producer(c->q, x, of))
		return x == of;
	/* Counts may be multiples by chance. The order shows it, where one site is the whole place. */
	return each == 1 || x->sites > 1 || of->sites > 1 ||
	       made_in_turn(c->q->d->p, of->site, x->site, each) != TOGETHER_NOT;
}

static bool is_part(const struct counting *c, const struct queue_place *x,
		    const struct queue_place *of)
{
	return is_whole_part(c, x, of) || (x->made < of->made && queue_same_producer(c->q, x, of) &&
					   made_at_most_once(c->q->d->p, of->site, x->site));
}

/* Whether the place's blocks hold several items each, such as the chunks of a deque: every other place has many
 * blocks for each of them, and they have room for as many pointers. An object's own block is smaller. */
static bool is_chunk(const struct counting *c, const struct queue_place *x)
{
	const struct profile_site *s = &c->q->d->p->sites[x->site];
	uint64_t size = s->allocations ? s->allocated_bytes / s->allocations : 0;
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < c->left_count; i++)
		if (c->left[i] != x && queue_same_producer(c->q, c->left[i], x))
			least = lesser(least, c->left[i]->made / (x->made ? x->made : 1));
	return least != UINT64_MAX && (double)least >= 1 / ITEM_CHUNK &&
	       size >= least * sizeof(void *);
}

/* The place that most others are parts of; if several are, the one of which they are parts of every item. */
static const struct queue_place *next_item(const struct counting *c)
{
	const struct queue_place *best = NULL;
	uint32_t most = 0, most_whole = 0;
	for (uint32_t i = 0; i < c->left_count; i++) {
		const struct queue_place *x = c->left[i];
		uint32_t parts = 0, whole = 0;
		if (is_chunk(c, x))
			continue;
		for (uint32_t k = 0; k < c->left_count; k++) {
			parts += is_part(c, c->left[k], x);
			whole += is_whole_part(c, c->left[k], x);
		}
		if (parts > most || (parts == most && whole > most_whole) ||
		    (best && parts == most && whole == most_whole && x->made > best->made)) {
			best = x;
			most = parts;
			most_whole = whole;
		}
	}
	return best;
}

/* Moves the parts of this item out of what is left. */
static void take_parts(struct counting *c, const struct queue_place *item)
{
	uint32_t kept = 0;
	c->part_count = 0;
	for (uint32_t i = 0; i < c->left_count; i++)
		if (is_part(c, c->left[i], item))
			c->parts[c->part_count++] = c->left[i];
		else
			c->left[kept++] = c->left[i];
	c->left_count = kept;
}

static int most_bytes_first(const void *a, const void *b)
{
	const struct queue_place *const *x = a, *const *y = b;
	return compare_numbers((*y)->waits.backlog_bytes, (*x)->waits.backlog_bytes)
		       ?: compare_numbers((*x)->site, (*y)->site);
}

/* The innermost function common to the larger parts of the item. */
static uint32_t maker_of(struct counting *c)
{
	const struct profile *p = c->q->d->p;
	uint64_t all = 0, seen = 0;
	qsort(c->parts, c->part_count, sizeof *c->parts, most_bytes_first);
	for (uint32_t i = 0; i < c->part_count; i++)
		all += c->parts[i]->waits.backlog_bytes;
	uint32_t first = c->parts[0]->site, maker = c->q->d->named[first];
	for (uint32_t i = 0; i < c->part_count && (double)seen < ITEM_MAKER_SHARE * (double)all;
	     i++) {
		uint32_t site = c->parts[i]->site;
		uint32_t common = i ? common_user_node(p, p->sites[first].node, p->sites[site].node)
				    : maker;
		/* Nodes further out have smaller indices along one stack. */
		if (common != PROFILE_NONE && common < maker)
			maker = common;
		seen += c->parts[i]->waits.backlog_bytes;
	}
	return maker;
}

/* How many items waited at once, by the part of which most did. */
static uint64_t backlog_of(const struct counting *c, const struct queue_place *item)
{
	uint64_t backlog = 0;
	for (uint32_t i = 0; i < c->part_count; i++) {
		uint64_t each = greater(blocks_each(c->parts[i]->made, item->made), 1);
		backlog = greater(backlog, c->parts[i]->waits.backlog_blocks / each);
	}
	return lesser(backlog, item->made);
}

int queue_count_items(const struct queue_places *q, uint32_t group, struct queue_items *out)
{
	struct counting c = {.q = q};
	c.left = calloc((size_t)q->count + 1, sizeof *c.left);
	c.parts = calloc((size_t)q->count + 1, sizeof *c.parts);
	*out = (struct queue_items){.maker = PROFILE_NONE};
	for (uint32_t i = group; c.left && i < q->count; i++)
		if (q->list[i].group == group && q->list[i].certain &&
		    c.left_count < ITEM_MOST_PLACES)
			c.left[c.left_count++] = &q->list[i];
	uint64_t largest = 0;
	while (c.left && c.parts && c.left_count) {
		const struct queue_place *item = next_item(&c);
		take_parts(&c, item);
		/* The group begins with the place that has the most bytes: its item names the maker. */
		for (uint32_t i = 0; i < c.part_count; i++)
			if (c.parts[i] == &q->list[group])
				out->maker = maker_of(&c);
		if ((double)item->made < ITEM_CHUNK * (double)largest)
			continue;
		largest = greater(largest, item->made);
		out->made += item->made;
		out->taken += item->waits.frees;
		out->backlog += backlog_of(&c, item);
	}
	int rc = c.left && c.parts ? 0 : HEFT_ENOMEM;
	free(c.left);
	free(c.parts);
	return rc;
}
