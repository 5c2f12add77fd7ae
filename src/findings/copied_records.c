/* copied-records: what the program keeps is there twice.
 *
 * A copy is as large as its original. If a program copies every record that it keeps (clone, a copy constructor,
 * strdup), two places have equally many blocks with equally many bytes live at the peak. Counts and sums of one
 * place agree with those of another by chance, too, and parts of one object agree always: so one sign is not
 * enough.
 *
 *   sizes    vary: two fields of one size, a double buffer, keys and values of one length agree without being
 *            copies. Varying sizes whose number and sum agree exactly are the same sizes.
 *   order    the first blocks of both have the same sizes in the same order (profile_first).
 *   name     a function on the copy's own part of the stack copies by its name (copy_names.h): clone, row_copy, a
 *            copy constructor. strdup and to_vec also make originals, and say less.
 *
 * A copy has varying sizes, and a name that the original does not have; or the order, and a name that says less;
 * or the order, sizes of text (not multiples of 4: two arrays of one length are no copies), and another function.
 * Without varying sizes, only blocks that are made by a name, in another function, a thousand of them, are copies.
 *
 * Originals that are freed soon after they were copied were moved, and copies that live for a moment are work in
 * progress: both must be there together for most of the time.
 *
 * Two signs may be weaker if the name is there. A copy of text that has room for more (format, push_str,
 * operator+) is smaller than its original: then their numbers must agree, and each copy must fit into its original.
 * An array that grows makes some of its blocks elsewhere: then numbers and sums differ by 1 % at most, and the
 * order is the same but for what is missing.
 *
 * One place may copy what several made: a copied map copies keys and values in the same code. So places are also
 * compared as groups (the same functions up to the user's own, whatever the recursion and the lines), and a
 * group with a name is compared with two or three originals together. */
#include "findings/copy_names.h"
#include "findings/copy_units.h"
#include "findings/diagnosis.h"
#include "findings/made_together.h"
#include "findings/site_names.h"

#include "hosted/compare.h"

#include <stdlib.h>

#define COPIES_LEAST_BYTES (64u << 10)
#define COPIES_LEAST_PEAK_SHARE SEVERITY_MEDIUM_SHARE
/* Fewer blocks of one size agree by chance too often. */
#define COPIES_LEAST_ALIKE 1000
/* So many different sizes vary, among the first ones of a site. */
#define COPIES_LEAST_SIZES 4
/* This part of the sizes must be the same in the same order, of at least so many; and this part of them must not
 * be multiples of 4 to be text. */
#define COPIES_IN_ORDER 0.95
#define COPIES_LEAST_IN_ORDER 50
#define COPIES_ODD 0.25
/* Originals that stay for so many times as long as the copies were there make these the work of a moment. */
#define COPIES_MOMENT 10

/* In sequence, so many may be missing between two sizes. */
#define COPIES_MISSING 4
/* Of so many originals a copy is tried with. */
enum { COPIES_TRIED = 48 };

static const char copies_rule[] =
	"Two places have equally many blocks of the same sizes live at the peak, and one of them "
	"makes copies, by "
	"the name of a function on its stack or by the order of the sizes.";

/* ---- what a pair shows */

static bool sizes_vary(const struct profile *p, const struct unit *u)
{
	uint32_t count, sizes = 0;
	uint64_t seen[COPIES_LEAST_SIZES];
	const struct profile_first *f = first_blocks(p, u->site, &count);
	if (u->bytes % u->blocks)
		return true;
	for (uint32_t i = 0; i < count && sizes < COPIES_LEAST_SIZES; i++) {
		uint32_t k = 0;
		while (k < sizes && seen[k] != f[i].size)
			k++;
		if (k == sizes)
			seen[sizes++] = f[i].size;
	}
	return sizes >= COPIES_LEAST_SIZES;
}

/* Whether the first sizes of two sites are the same in the same order. *odd: they are sizes of text. */
static bool same_order(const struct profile *p, const struct unit *a, const struct unit *b,
		       bool *odd, bool *known)
{
	uint32_t n, m, same = 0, odds = 0;
	const struct profile_first *x = first_blocks(p, a->site, &n);
	const struct profile_first *y = first_blocks(p, b->site, &m);
	n = n < m ? n : m;
	*known = n >= COPIES_LEAST_IN_ORDER && !a->group && !b->group;
	if (!*known)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		same += x[i].size == y[i].size;
		odds += x[i].size % 4 != 0;
	}
	*odd = odds >= COPIES_ODD * n;
	return same >= COPIES_IN_ORDER * n;
}

/* Whether the first sizes of b are those of a in the same sequence, with some missing in either. */
static bool same_sequence(const struct profile *p, const struct unit *a, const struct unit *b)
{
	uint32_t n, m, same = 0, k = 0;
	const struct profile_first *x = first_blocks(p, a->site, &n);
	const struct profile_first *y = first_blocks(p, b->site, &m);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t skip = 0; skip <= COPIES_MISSING && k + skip < m; skip++)
			if (y[k + skip].size == x[i].size) {
				same++;
				k += skip + 1;
				break;
			}
	n = n < m ? n : m;
	return n >= COPIES_LEAST_IN_ORDER && same >= COPIES_IN_ORDER * n;
}

/* Whether each of the first blocks of a fits into the same one of b. */
static bool fit_in_order(const struct profile *p, const struct unit *a, const struct unit *b)
{
	uint32_t n, m, fit = 0;
	const struct profile_first *x = first_blocks(p, a->site, &n);
	const struct profile_first *y = first_blocks(p, b->site, &m);
	n = n < m ? n : m;
	for (uint32_t i = 0; i < n; i++)
		fit += x[i].size <= y[i].size;
	return n >= COPIES_LEAST_IN_ORDER && fit >= COPIES_IN_ORDER * n;
}

/* Whether a function of b's own part of the stack leaves room for more. */
static bool has_room(const struct copies *c, const struct unit *b, const struct unit *a)
{
	const struct profile *p = c->d->p;
	uint32_t shared = common_user_node(p, p->sites[a->site].node, p->sites[b->site].node);
	for (uint32_t n = p->sites[b->site].node; n != PROFILE_NONE && n != shared;
	     n = p->stacks.nodes[n].parent)
		if (c->roomy[p->stacks.nodes[n].frame])
			return true;
	return false;
}

/* What the functions of a's stack say that b's stack does not have. */
static enum copy_name own_name(const struct copies *c, const struct unit *a, const struct unit *b)
{
	const struct profile *p = c->d->p;
	enum copy_name best = COPIES_NOTHING;
	uint32_t shared = common_user_node(p, p->sites[a->site].node, p->sites[b->site].node);
	for (uint32_t n = p->sites[a->site].node; n != PROFILE_NONE && n != shared;
	     n = p->stacks.nodes[n].parent)
		if (c->names[p->stacks.nodes[n].frame] > best)
			best = c->names[p->stacks.nodes[n].frame];
	return best;
}

/* How far the program had come at the end of a slot, in calls; in slots if that is not known. */
static double way_at(const struct profile_history *h, uint32_t slot)
{
	return h->events ? (double)h->events[slot] : slot + 1;
}

struct span {
	double from, to;
};
enum presence { PRESENCE_UNKNOWN, PRESENCE_SHORT /* within a slot */, PRESENCE_KNOWN };

/* From when on, and up to when, a site had half of its most: from the slot before to the slot after. */
static enum presence present_in(const struct profile *p, const struct unit *u, struct span *when)
{
	const struct profile_history *h = &p->behaviour.history;
	uint32_t at = p->sites[u->site].history, first = h->slot_count, last = 0;
	/* One site says little about a group of many (recursion). */
	if (at >= h->row_count || p->sites[u->site].peak_blocks < u->blocks / 2)
		return PRESENCE_UNKNOWN;
	const uint64_t *blocks = h->rows[at].blocks;
	for (uint32_t i = 0; i < h->slot_count; i++)
		if (blocks[i] >= p->sites[u->site].peak_blocks / 2) {
			first = first == h->slot_count ? i : first;
			last = i;
		}
	if (first == h->slot_count)
		return PRESENCE_SHORT;
	when->from = first ? way_at(h, first - 1) : 0;
	when->to = way_at(h, last + 1 < h->slot_count ? last + 1 : last);
	return PRESENCE_KNOWN;
}

/* Whether copies and originals are there together for most of the way: by the program's progress, not by time,
 * because a program that waits does not use either. True if that is not known. */
static bool live_together(const struct profile *p, const struct unit *copy, const struct unit *of)
{
	struct span c, o;
	enum presence is = present_in(p, copy, &c), was = present_in(p, of, &o);
	if (is != PRESENCE_KNOWN || was != PRESENCE_KNOWN)
		return is != PRESENCE_KNOWN || was != PRESENCE_SHORT;
	if (o.to <
	    c.to) /* the originals go first: they were moved if the copies are mostly alone */
		return c.to - o.to <= o.to - c.from;
	return o.to - c.to <= COPIES_MOMENT * (c.to - c.from);
}

/* Whether b's first block came before a's; if that is not known, whether b has more of the peak. */
static bool came_before(const struct profile *p, const struct unit *b, const struct unit *a)
{
	uint32_t n, m;
	const struct profile_first *x = first_blocks(p, a->site, &n);
	const struct profile_first *y = first_blocks(p, b->site, &m);
	return n && m ? y[0].order < x[0].order : b->site < a->site;
}

/* Whether unit `copy` is a copy of unit `original` though their numbers do not agree: it copies by its name. */
static bool is_unequal_copy(const struct copies *c, uint32_t copy, uint32_t original,
			    enum likeness how, struct match *m)
{
	const struct profile *p = c->d->p;
	const struct unit *u = &c->units[copy], *o = &c->units[original];
	*m = (struct match){.copy = copy, .count = 1, .named = true, .like = how};
	m->originals[0] = original;
	if (u->group || o->group || own_name(c, u, o) != COPIES_OBJECTS)
		return false;
	if (how == LIKE_NEARLY)
		return sizes_vary(p, u) && came_before(p, o, u) && same_sequence(p, u, o);
	if (how == LIKE_LARGER)
		return has_room(c, u, o) && came_before(p, o, u) && fit_in_order(p, o, u);
	return own_name(c, o, u) != COPIES_OBJECTS && has_room(c, o, u) && fit_in_order(p, u, o);
}

/* Whether unit `copy` is a copy of unit `original`. */
static bool is_copy(const struct copies *c, uint32_t copy, uint32_t original, enum likeness how,
		    struct match *m)
{
	const struct profile *p = c->d->p;
	const struct unit *u = &c->units[copy], *o = &c->units[original];
	if (!units_are_alike(u, o, how) || units_overlap(c, copy, original) ||
	    !live_together(p, u, o))
		return false;
	if (how != LIKE_SAME)
		return is_unequal_copy(c, copy, original, how, m);
	bool odd = false, known, in_order = same_order(p, u, o, &odd, &known);
	bool varied = sizes_vary(p, u), elsewhere = !named_alike(p, c->d->named, u->site, o->site);
	enum copy_name mine = own_name(c, u, o), theirs = own_name(c, o, u);
	bool named = mine == COPIES_OBJECTS && theirs != COPIES_OBJECTS;
	/* The name says which is the copy; without one, the order does. */
	if (theirs == COPIES_OBJECTS && mine != COPIES_OBJECTS)
		return false;
	if (!named && !came_before(p, o, u))
		return false;
	*m = (struct match){.copy = copy,
			    .count = 1,
			    .in_order = in_order,
			    .named = mine == COPIES_OBJECTS,
			    .varied = varied,
			    .text = odd,
			    .elsewhere = elsewhere};
	m->originals[0] = original;
	if (!varied)
		return named && elsewhere && u->blocks >= COPIES_LEAST_ALIKE;
	if (named)
		return !known || in_order || u->group || o->group || mine == COPIES_OBJECTS;
	if (mine != COPIES_NOTHING)
		return known ? in_order : elsewhere;
	return in_order && elsewhere && odd;
}

/* The units that may be one of several originals of a group that copies by its name. */
static uint32_t find_originals(const struct copies *c, uint32_t copy, uint32_t *list)
{
	const struct unit *u = &c->units[copy];
	uint32_t count = 0;
	for (uint32_t i = 0; i < c->count && count < COPIES_TRIED; i++) {
		const struct unit *o = &c->units[i];
		if (unit_is_free(c, i) && !units_overlap(c, copy, i) &&
		    own_name(c, u, o) == COPIES_OBJECTS && own_name(c, o, u) != COPIES_OBJECTS &&
		    live_together(c->d->p, u, o))
			list[count++] = i;
	}
	return count;
}

/* Whether two or three originals together are what a group copies. */
static bool is_copy_of_several(const struct copies *c, uint32_t copy, struct match *m)
{
	const struct unit *u = &c->units[copy];
	uint32_t list[COPIES_TRIED],
		count = u->bytes % u->blocks ? find_originals(c, copy, list) : 0;
	*m = (struct match){.copy = copy, .named = true};
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = i + 1; k < count; k++) {
			if (units_overlap(c, list[i], list[k]))
				continue;
			struct unit two = units_sum(&c->units[list[i]], &c->units[list[k]]);
			m->originals[0] = list[i];
			m->originals[1] = list[k];
			m->count = 2;
			if (units_are_alike(u, &two, LIKE_SAME))
				return true;
			for (uint32_t n = k + 1; n < count; n++) {
				struct unit three = units_sum(&two, &c->units[list[n]]);
				m->originals[2] = list[n];
				m->count = 3;
				if (units_are_alike(u, &three, LIKE_SAME) &&
				    !units_overlap(c, list[i], list[n]) &&
				    !units_overlap(c, list[k], list[n]))
					return true;
			}
		}
	return false;
}

/* Whether an original may be one of several, made by one function, that a site copies unequally. */
static bool may_be_one_of(const struct copies *c, const struct unit *u, const struct unit *o,
			  const struct unit *first, enum likeness how)
{
	return (how == LIKE_LARGER || has_room(c, o, u)) &&
	       named_alike(c->d->p, c->d->named, o->site, first->site);
}

/* Whether two or three originals are together what a site copies, of which one side has room for more. Fields of a
 * record are copied on one line, and text that had to grow counts as made elsewhere. */
static bool is_unequal_copy_of_several(const struct copies *c, uint32_t copy, enum likeness how,
				       struct match *m)
{
	const struct unit *u = &c->units[copy], *all = c->units;
	uint32_t list[COPIES_TRIED], count = u->group ? 0 : find_originals(c, copy, list);
	*m = (struct match){.copy = copy, .named = true, .like = how};
	for (uint32_t i = 0; i < count; i++) {
		const struct unit *first = &all[list[i]];
		if (!may_be_one_of(c, u, first, first, how) ||
		    (how == LIKE_LARGER && !has_room(c, u, first)))
			continue;
		for (uint32_t k = i + 1; k < count; k++) {
			if (units_overlap(c, list[i], list[k]) ||
			    !may_be_one_of(c, u, &all[list[k]], first, how))
				continue;
			struct unit two = units_sum(first, &all[list[k]]);
			m->originals[0] = list[i];
			m->originals[1] = list[k];
			m->count = 2;
			if (units_are_alike(u, &two, how))
				return true;
			for (uint32_t n = k + 1; n < count; n++) {
				struct unit three = units_sum(&two, &all[list[n]]);
				m->originals[2] = list[n];
				m->count = 3;
				if (units_are_alike(u, &three, how) &&
				    may_be_one_of(c, u, &all[list[n]], first, how) &&
				    !units_overlap(c, list[i], list[n]) &&
				    !units_overlap(c, list[k], list[n]))
					return true;
			}
		}
	}
	return false;
}

/* Who copies: the first user frame that is no copying function itself. */
static uint32_t place_of(const struct copies *c, uint32_t unit)
{
	const struct profile *p = c->d->p;
	uint32_t n = c->d->named[c->units[unit].site], up;
	while (c->names[p->stacks.nodes[n].frame] == COPIES_OBJECTS &&
	       (up = user_caller(p, n)) != PROFILE_NONE)
		n = up;
	return n;
}

static void take(struct copies *c, struct match *m)
{
	c->units[m->copy].taken = true;
	for (uint32_t i = 0; i < m->count; i++)
		c->units[m->originals[i]].taken = true;
	m->place = place_of(c, m->copy);
	c->matches[c->match_count++] = *m;
}

/* An original may be copied more than once, but a copy has one original. */
static bool is_original(const struct copies *c, uint32_t unit)
{
	for (uint32_t i = 0; i < c->match_count; i++)
		for (uint32_t k = 0; k < c->matches[i].count; k++)
			if (c->matches[i].originals[k] == unit)
				return true;
	return false;
}

static void find_likes(struct copies *c, enum likeness how)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct match m;
		if (!unit_is_free(c, i))
			continue;
		for (uint32_t k = 0; k < c->count; k++)
			if ((unit_is_free(c, k) || is_original(c, k)) &&
			    is_copy(c, i, k, how, &m)) {
				take(c, &m);
				break;
			}
	}
}

static void find_matches(struct copies *c)
{
	find_likes(c, LIKE_SAME);
	for (uint32_t i = 0; i < c->count; i++) {
		struct match m;
		if (unit_is_free(c, i) && is_copy_of_several(c, i, &m))
			take(c, &m);
	}
	find_likes(c, LIKE_NEARLY);
	for (enum likeness how = LIKE_SMALLER; how <= LIKE_LARGER; how++) {
		find_likes(c, how);
		for (uint32_t i = 0; i < c->count; i++) {
			struct match m;
			if (unit_is_free(c, i) && is_unequal_copy_of_several(c, i, how, &m))
				take(c, &m);
		}
	}
}

/* ---- words */

static int by_bytes(const void *a, const void *b)
{
	const struct evidence_part *x = a, *y = b;
	return compare_numbers(y->bytes, x->bytes) ?: compare_numbers(x->site, y->site);
}

static struct evidence_part part_of(struct diagnosis *d, const struct unit *u)
{
	uint32_t frame = d->p->stacks.nodes[d->named[u->site]].frame;
	return (struct evidence_part){
		.function = d->p->stacks.frames[frame].function,
		.where = diagnosis_keep(d, phrase_where(d->p, frame)),
		.bytes = u->bytes,
		.site = u->site,
	};
}

static const char *const like_names[LIKENESSES] = {
	[LIKE_NEARLY] = "nearly-same",
	[LIKE_SMALLER] = "without-room",
	[LIKE_LARGER] = "with-room",
};

static const char *how_alike(enum likeness like, bool in_order)
{
	if (like == LIKE_NEARLY)
		return "nearly as many, of the same sizes in the same order";
	if (like == LIKE_SMALLER)
		return "as many, none larger (the originals have spare room)";
	if (like == LIKE_LARGER)
		return "as many, none smaller (the copies have spare room)";
	return in_order ? "as many, of the same sizes in the same order"
			: "as many, of the same sizes";
}

/* Reports the matches of one place, from the first one on. */
static int report_place(struct copies *c, uint32_t first, bool *told)
{
	struct diagnosis *d = c->d;
	const struct profile *p = d->p;
	uint32_t place = c->matches[first].place, count = 0;
	uint64_t blocks = 0, bytes = 0;
	bool in_order = true, named = false;
	enum likeness like = LIKE_SAME;
	uint32_t original = c->matches[first].originals[0];
	struct evidence_part *parts = name_pool_alloc(d->pool, c->match_count * sizeof *parts + 1);
	if (!parts)
		return HEFT_ENOMEM;
	for (uint32_t i = first; i < c->match_count; i++) {
		const struct match *m = &c->matches[i];
		const struct unit *u = &c->units[m->copy];
		if (told[i] || !same_function(p, p->stacks.nodes[m->place].frame,
					      p->stacks.nodes[place].frame))
			continue;
		told[i] = true;
		parts[count] = part_of(d, u);
		if (!parts[count++].where)
			return HEFT_ENOMEM;
		blocks += u->blocks;
		bytes += u->bytes;
		in_order &= m->in_order;
		named |= m->named;
		if (m->like > like)
			like = m->like;
		if (c->units[m->originals[0]].bytes > c->units[original].bytes)
			original = m->originals[0];
	}
	struct rule r = rule_begin(copies_rule);
	if (!rule_at_least(&r, "blocks of each place", UNIT_COUNT, (double)blocks,
			   COPIES_LEAST_BLOCKS) ||
	    !rule_at_least(&r, "bytes of the copies", UNIT_BYTES, (double)bytes,
			   COPIES_LEAST_BYTES) ||
	    !rule_at_least(&r, "share of the copies in the peak heap", UNIT_SHARE,
			   share_of(bytes, p->totals.peak_bytes), COPIES_LEAST_PEAK_SHARE))
		return 0;
	if (!rule_fact(&r, "a function on the stack of the copies copies by its name",
		       "no function there copies by its name", named)) {
		const struct match *m = &c->matches[first];
		rule_fact(&r, "both places have the same sizes in the same order",
			  "the sizes come in another order", in_order);
		rule_fact(&r, "the sizes vary", "all blocks have one size", m->varied);
		rule_fact(&r, "the sizes are those of text: many are no multiples of 4",
			  "nearly all sizes are multiples of 4", m->text);
		rule_fact(&r, "another function makes the originals", "one function makes both",
			  m->elsewhere);
	}
	qsort(parts, count, sizeof *parts, by_bytes);
	for (uint32_t i = 0; i < count; i++)
		parts[i].share = share_of(parts[i].bytes, bytes);
	struct draft f = draft_begin(FINDING_COPIED_RECORDS, parts[0].site, bytes);
	uint32_t of = place_of(c, original);
	draft_rule(&f, &r);
	/* Two texts of one length for each record (a sequence and its quality) look the same. */
	f.finding.severity = named ? severity_of(d, bytes) : FINDING_LOW;
	f.finding.summary = diagnosis_text(
		d,
		"%s that %s makes %s copies of what %s made: %s, live at the same time; they hold "
		"%s, %s of the peak heap",
		words_many(blocks, "block", "blocks").text, phrase_place(p, place).text,
		named ? "look like" : "may be", phrase_place(p, of).text, how_alike(like, in_order),
		words_size(bytes).text, words_percent(share_of(bytes, p->totals.peak_bytes)).text);
	if (!named)
		f.finding.advice =
			"If they hold the same bytes, keep each record once and share it. "
			"If only their lengths are the same, all is well.";
	else
		f.finding.advice =
			"Keep each record once and share it: by pointer or index in C, by "
			"reference, Rc, Arc or Cow "
			"in Rust, by reference, std::shared_ptr or std::string_view in C++. If "
			"the originals are not "
			"needed any more, move them instead.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[place].frame].function);
	draft_text(&f, "original_function", p->stacks.frames[p->stacks.nodes[of].frame].function);
	draft_count(&f, "blocks", blocks);
	draft_bytes(&f, "copied_bytes", bytes);
	draft_share(&f, "share", share_of(bytes, p->totals.peak_bytes));
	draft_text(&f, "sizes",
		   like != LIKE_SAME ? like_names[like]
		   : in_order        ? "same-order"
				     : "same-sum");
	draft_parts(&f, "parts", parts, count);
	return draft_add(d, &f);
}

int diagnose_copied_records(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct copies c = {.d = d};
	bool *told = NULL;
	c.units = calloc(2 * COPIES_UNITS + 1, sizeof *c.units);
	c.matches = calloc(2 * COPIES_UNITS + 1, sizeof *c.matches);
	c.group_of = malloc(((size_t)p->site_count + 1) * sizeof *c.group_of);
	c.names = calloc((size_t)p->stacks.frame_count + 1, sizeof *c.names);
	c.roomy = calloc((size_t)p->stacks.frame_count + 1, sizeof *c.roomy);
	told = calloc(2 * COPIES_UNITS + 1, sizeof *told);
	int rc = c.units && c.matches && c.group_of && c.names && c.roomy && told
			 ? copy_units_make(&c)
			 : HEFT_ENOMEM;
	if (rc == 0 && c.count > 1) {
		for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
			c.names[i] = copy_name_of(p->stacks.frames[i].function);
			c.roomy[i] = makes_room(p->stacks.frames[i].function);
		}
		find_matches(&c);
	}
	for (uint32_t i = 0; i < c.match_count && rc == 0; i++)
		if (!told[i])
			rc = report_place(&c, i, told);
	free(c.units);
	free(c.matches);
	free(c.group_of);
	free(c.names);
	free(c.roomy);
	free(told);
	return rc;
}
