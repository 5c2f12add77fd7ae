/* A ledger in a recording: its own numbers, then its lines (docs/trace-format.md). Lines that do not add up to the
 * resident bytes are refused: that they do is what a ledger is. Numbers are below 2^48 and lines below 2^15, so that sums
 * cannot overflow. */
#include "trace/ledger_block.h"

#include "trace/record_fields.h"

enum { LINES_MOST = 1 << 15, NAME_MOST = 1 << 16 };
#define BYTES_MOST ((UINT64_C(1) << 48) - 1)

#define LEDGER(member) FIELD(ledger, member)
static const struct record_field fields[] = {
	LEDGER(time_ns),          LEDGER(pause_ns),      LEDGER(rss_bytes),
	LEDGER(peak_rss_bytes),   LEDGER(share_of_peak), LEDGER(reserved_bytes),
	LEDGER(page_table_bytes), LEDGER(huge_bytes),    LEDGER(hugetlb_bytes),
};

void ledger_block_put(struct byte_buffer *b, const struct ledger *l, uint32_t process)
{
	buffer_put(b, process);
	buffer_put(b, l->moment);
	fields_put(b, l, fields, FIELD_COUNT(fields));
	buffer_put_string(b, l->note);
	buffer_put(b, l->count);
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = &l->items[i];
		buffer_put(b, line->kind);
		buffer_put_string(b, line->name);
		buffer_put(b, line->bytes.resident);
		buffer_put(b, line->bytes.own);
		buffer_put(b, line->bytes.swapped);
		buffer_put(b, line->bytes.mapped);
		buffer_put(b, line->blocks);
	}
	for (size_t i = 0; i < l->count; i++)
		buffer_put(b, l->items[i].site);
	buffer_put(b, l->live_bytes);
}

static const char *get_line(struct ledger_line *line, struct byte_cursor *c)
{
	size_t length;
	/* Kinds that a later heft adds are not known here. */
	uint64_t kind = cursor_get(c);
	line->kind = kind < LEDGER_KINDS ? (enum ledger_kind)kind : LEDGER_UNEXPLAINED;
	const uint8_t *name = cursor_get_bytes(c, &length);
	if (length > NAME_MOST)
		return "a line with a shorter name";
	line->name = strndup((const char *)name, length);
	line->bytes.resident = cursor_get_max(c, BYTES_MOST);
	line->bytes.own = cursor_get_max(c, line->bytes.resident);
	line->bytes.swapped = cursor_get_max(c, BYTES_MOST);
	line->bytes.mapped = cursor_get_max(c, BYTES_MOST);
	line->blocks = cursor_get_max(c, BYTES_MOST);
	if (!line->name)
		return "enough memory for its ledgers";
	return c->bad ? "a complete line of a ledger" : NULL;
}

const char *ledger_block_get(struct ledger *l, uint32_t *process, struct byte_cursor *c)
{
	size_t length;
	const char *wrong = NULL;
	*process = (uint32_t)cursor_get_max(c, UINT32_MAX);
	l->moment = (enum ledger_moment)cursor_get_max(c, LEDGER_INTERVAL);
	fields_get(c, l, fields, FIELD_COUNT(fields));
	const uint8_t *note = cursor_get_bytes(c, &length);
	if (c->bad || length >= sizeof l->note)
		return "the start of a ledger";
	memcpy(l->note, note, length);
	uint64_t count = cursor_get(c);
	if (count > LINES_MOST || count > cursor_left(c) / 7)
		return "as many lines as the ledger says";
	for (uint64_t i = 0; i < count && !wrong; i++) {
		struct ledger_line *line = vector_add(l);
		wrong = line ? get_line(line, c) : "enough memory for its ledgers";
	}
	/* Recordings of an earlier heft end here, or after the sites. */
	const bool has_sites = c->at != c->end;
	for (uint64_t i = 0; i < count && !wrong && has_sites; i++)
		l->items[i].site = (uint32_t)cursor_get_max(c, UINT32_MAX);
	if (!wrong && c->at != c->end)
		l->live_bytes = cursor_get_max(c, BYTES_MOST);
	if (!wrong && (c->bad || c->at != c->end))
		wrong = "as many lines as the ledger says";
	if (!wrong && ledger_sum(l).resident != l->rss_bytes)
		wrong = "lines that add up to the resident bytes";
	return wrong;
}
