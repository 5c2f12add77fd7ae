/* Every site with every measure as CSV by RFC 4180: lines end in CRLF, a field with a comma, a
 * quote or a line break is quoted. The columns are named as in `heft report --json`; what the
 * profile's source does not tell is an empty field, which no reader takes for a 0. The stack is one
 * field, as folded stacks have it: root first, ";" between. */
#include "export/export_formats.h"
#include "export/export_names.h"
#include "hosted/name_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A name of the program's inside a quoted field. */
static void write_name(FILE *out, const char *name, char separator)
{
	char piece[WORDS_GLYPH];
	for (size_t n; (n = words_glyph(&name, piece)) > 0;) {
		if (piece[0] == '"')
			putc('"', out);
		if (separator && piece[0] == separator)
			piece[0] = ':';
		fwrite(piece, 1, n, out);
	}
}

static void write_text(FILE *out, const char *text)
{
	putc(',', out);
	if (!text || !*text)
		return;
	putc('"', out);
	write_name(out, text, 0);
	putc('"', out);
}

static void write_frame(FILE *out, const struct profile *p, uint32_t node)
{
	const struct profile_frame *f =
		node == PROFILE_NONE ? NULL : &p->frames[p->nodes[node].frame];
	write_text(out, f ? f->function : EXPORT_UNKNOWN_STACK);
	write_text(out, f ? f->file : NULL);
	putc(',', out);
	if (f && f->line)
		fprintf(out, "%" PRIu32, f->line);
	write_text(out, f && f->module < p->module_count ? p->modules[f->module].path : NULL);
}

struct stack_room {
	uint32_t *nodes;
	size_t size;
};

static int write_stack(FILE *out, const struct profile *p, uint32_t node, struct stack_room *room)
{
	size_t depth = 0;
	for (uint32_t n = node; n != PROFILE_NONE; n = p->nodes[n].parent) {
		if (depth == room->size) {
			size_t size = room->size ? room->size * 2 : 256;
			uint32_t *nodes = reallocarray(room->nodes, size, sizeof *nodes);
			if (!nodes)
				return HEFT_ENOMEM;
			room->nodes = nodes;
			room->size = size;
		}
		room->nodes[depth++] = n;
	}
	fputs(",\"", out);
	if (!depth)
		fputs(EXPORT_UNKNOWN_STACK, out);
	for (size_t i = depth; i-- > 0;) {
		write_name(out, p->frames[p->nodes[room->nodes[i]].frame].function, ';');
		if (i)
			putc(';', out);
	}
	putc('"', out);
	return 0;
}

static void write_measures(FILE *out, const struct profile *p, const struct profile_site *s)
{
	const struct {
		uint32_t has;
		uint64_t value;
	} columns[] = {
		{PROFILE_HAS_ALLOCATED, s->allocations},
		{PROFILE_HAS_FREES, s->reallocations},
		{PROFILE_HAS_FREES, s->frees},
		{PROFILE_HAS_ALLOCATED, s->allocated_bytes},
		{PROFILE_HAS_FREES, s->reallocated_bytes},
		{PROFILE_HAS_PEAK, s->peak_bytes},
		{PROFILE_HAS_PEAK, s->peak_blocks},
		{PROFILE_HAS_OWN_PEAK, s->own_peak_bytes},
		{PROFILE_HAS_LIVE, s->live_bytes},
		{PROFILE_HAS_LIVE, s->live_blocks},
		{PROFILE_HAS_USABLE, s->live_slack_bytes},
		{PROFILE_HAS_TEMPORARY, s->temporary},
		{PROFILE_HAS_CROSS_FREES, s->cross_thread_frees},
		{PROFILE_HAS_MEAN_LIFETIME, s->lifetime.mean_ns},
		{PROFILE_HAS_LIFETIMES, s->lifetime.p50_ns},
		{PROFILE_HAS_LIFETIMES, s->lifetime.p99_ns},
		{PROFILE_HAS_LIFETIMES, s->lifetime.max_ns},
	};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
		putc(',', out);
		if (p->has & columns[i].has)
			fprintf(out, "%" PRIu64, columns[i].value);
	}
}

/* Of estimates: how certain they are. A table of an exact profile has no such columns. */
static void write_certainty(FILE *out, const struct profile *p, uint32_t site)
{
	const struct profile_errors *e = &p->errors[site];
	const struct profile_spread *s = &p->spreads[site];
	const uint64_t columns[] = {e->allocations, e->allocated_bytes, e->peak_bytes,
				    e->peak_blocks, e->live_bytes,	e->live_blocks,
				    s->samples,	    s->peak_samples,	s->live_samples};
	for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
		fprintf(out, ",%" PRIu64, columns[i]);
	putc(',', out);
	if (p->ages && p->ages[site].count)
		fprintf(out, "%" PRIu64, p->ages[site].p50_ns);
}

static const char head[] =
	"id,via,function,file,line,module,user_function,user_file,user_line,user_module,stack,"
	"allocations,reallocations,frees,allocated_bytes,reallocated_bytes,peak_bytes,peak_blocks,"
	"own_peak_bytes,live_bytes,live_blocks,live_slack_bytes,temporary,cross_thread_frees,"
	"lifetime_mean_ns,lifetime_p50_ns,lifetime_p99_ns,lifetime_max_ns";
static const char certainty_head[] =
	",allocations_error95,allocated_bytes_error95,peak_bytes_error95,peak_blocks_error95,"
	"live_bytes_error95,live_blocks_error95,samples,peak_samples,live_samples,age_p50_ns";

static enum profile_sort order_of(enum export_measure measure)
{
	switch (measure) {
	case EXPORT_LIVE:
		return PROFILE_BY_LIVE;
	case EXPORT_ALLOCATED:
		return PROFILE_BY_ALLOCATED;
	case EXPORT_COUNT:
		return PROFILE_BY_COUNT;
	case EXPORT_TEMPORARY:
		return PROFILE_BY_TEMPORARY;
	case EXPORT_LIFETIME:
		return PROFILE_BY_LIFETIME;
	case EXPORT_PEAK:
	case EXPORT_MEASURES:
		break;
	}
	return PROFILE_BY_PEAK;
}

int export_csv(FILE *out, const struct profile *p, const struct export_options *o,
	       struct heft_error *err)
{
	uint32_t *order = profile_sorted_sites(p, order_of(o->measure));
	struct stack_room room = {0};
	int rc = order ? 0 : HEFT_ENOMEM;
	if (rc == 0)
		fprintf(out, "%s%s\r\n", head, p->errors ? certainty_head : "");
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		fprintf(out, "%" PRIu32, s->id);
		write_text(out, profile_via_name(s->via));
		write_frame(out, p, s->node);
		write_frame(out, p, profile_first_user_node(p, s->node));
		rc = write_stack(out, p, s->node, &room);
		write_measures(out, p, s);
		if (p->errors)
			write_certainty(out, p, order[i]);
		fputs("\r\n", out);
	}
	if (rc < 0)
		heft_fail(err, rc, "not enough memory to write the table");
	free(room.nodes);
	free(order);
	return rc;
}
