/* Ledgers as JSON. */
#ifndef HEFT_MODEL_JSON_MODEL_JSON_LEDGER_H
#define HEFT_MODEL_JSON_MODEL_JSON_LEDGER_H

#include "hosted/json_writer.h"
#include "hosted/ledger.h"

/* Writes "ledgers": [...] into an object. */
void model_json_ledgers(struct json_writer *w, const struct ledger *ledgers, size_t count);

#endif
