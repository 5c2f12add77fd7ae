/* Ledgers as JSON. */
#ifndef HEFT_MODEL_JSON_MODEL_JSON_LEDGER_H
#define HEFT_MODEL_JSON_MODEL_JSON_LEDGER_H

#include "hosted/json_writer.h"
#include "hosted/ledger.h"

/* Write fields into an object: of a ledger all but its lines, and of a line. */
void model_json_ledger(struct json_writer *w, const struct ledger *l);
void model_json_ledger_line(struct json_writer *w, const struct ledger_line *line);
/* Writes "ledgers": [...] into an object. */
void model_json_ledgers(struct json_writer *w, const struct ledger *ledgers, size_t count);

#endif
