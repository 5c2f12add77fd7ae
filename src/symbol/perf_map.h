/* Names of code that a program made while it ran: /tmp/perf-PID.map, as JIT compilers write it for
 * perf. Lines are "START SIZE NAME", both numbers in hexadecimal. */
#ifndef HEFT_SYMBOL_PERF_MAP_H
#define HEFT_SYMBOL_PERF_MAP_H

#include "hosted/name_pool.h"

#include <stddef.h>
#include <stdint.h>

struct perf_map;
/* The map of a process, if it is there, belongs to this user and was written after not_before_ns
 * (Unix time): another process may have had that pid before. NULL: none. */
struct perf_map *perf_map_open(int32_t pid, int64_t not_before_ns);
/* From a map's text, which is copied. NULL: no line of it can be used, or no memory. */
struct perf_map *perf_map_parse(const char *text, size_t size);
/* The name of the code at an address, in the pool. *name is NULL if there is none. If several
 * entries cover the address, the last one written counts: code is replaced. Returns 0 or HEFT_ENOMEM. */
int perf_map_name(const struct perf_map *map, struct name_pool *pool, uint64_t address,
		  const char **name);
void perf_map_close(struct perf_map *map);

#endif
