/* Ledgers as JSON (docs/ledger.md): for heft map --json, and the same in reports. */
#include "model_json/model_json_ledger.h"

void model_json_ledger_line(struct json_writer *w, const struct ledger_line *line)
{
	json_write_key_string(w, "kind", ledger_kind_name(line->kind));
	json_write_key_string(w, "name", line->name);
	json_write_key_uint(w, "resident_bytes", line->bytes.resident);
	json_write_key_uint(w, "private_bytes", line->bytes.own);
	json_write_key_uint(w, "shared_bytes", line->bytes.resident - line->bytes.own);
	json_write_key_uint(w, "swapped_bytes", line->bytes.swapped);
	json_write_key_uint(w, "virtual_bytes", line->bytes.mapped);
	if (line->blocks)
		json_write_key_uint(w, "blocks", line->blocks);
	if (line->maker)
		json_write_key_string(w, "maker", line->maker);
	if (line->site)
		json_write_key_uint(w, "site", line->site);
}

void model_json_ledger(struct json_writer *w, const struct ledger *l)
{
	const struct ledger_bytes sum = ledger_sum(l);
	json_write_key_int(w, "pid", l->pid);
	json_write_key_string(w, "moment", ledger_moment_name(l->moment));
	json_write_key_uint(w, "time_ns", l->time_ns);
	json_write_key(w, "share_of_peak");
	json_write_real(w, l->share_of_peak);
	json_write_key_uint(w, "rss_bytes", l->rss_bytes);
	json_write_key_uint(w, "peak_rss_bytes", l->peak_rss_bytes);
	json_write_key_uint(w, "private_bytes", sum.own);
	json_write_key_uint(w, "shared_bytes", sum.resident - sum.own);
	json_write_key_uint(w, "swapped_bytes", sum.swapped);
	json_write_key_uint(w, "virtual_bytes", sum.mapped);
	json_write_key_uint(w, "reserved_bytes", l->reserved_bytes);
	json_write_key_uint(w, "page_table_bytes", l->page_table_bytes);
	json_write_key_uint(w, "huge_bytes", l->huge_bytes);
	json_write_key_uint(w, "hugetlb_bytes", l->hugetlb_bytes);
	json_write_key_uint(w, "pause_ns", l->pause_ns);
	if (l->note[0])
		json_write_key_string(w, "note", l->note);
}

static void write_ledger(struct json_writer *w, const struct ledger *l)
{
	json_write_object(w);
	model_json_ledger(w, l);
	json_write_key(w, "lines");
	json_write_array(w);
	for (size_t i = 0; i < l->count; i++) {
		json_write_newline(w);
		json_write_object(w);
		model_json_ledger_line(w, &l->items[i]);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

void model_json_ledgers(struct json_writer *w, const struct ledger *ledgers, size_t count)
{
	json_write_key(w, "ledgers");
	json_write_array(w);
	for (size_t i = 0; i < count; i++) {
		json_write_newline(w);
		write_ledger(w, &ledgers[i]);
	}
	json_write_array_end(w);
}
