/* The C interface of outbox.rs. */
#ifndef HEFT_EXAMPLES_OUTBOX_H
#define HEFT_EXAMPLES_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct outbox;

struct outbox *outbox_new(size_t bound, uint64_t service_us); /* bound 0: none; NULL: no thread */
bool send_message(const struct outbox *o, const void *text, size_t length);
size_t outbox_finish(struct outbox *o); /* how many were delivered */

#ifdef __cplusplus
}
#endif

#endif
