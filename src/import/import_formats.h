/* Inside src/import: the two functions of every format, for the table in import.c. */
#ifndef HEFT_IMPORT_IMPORT_FORMATS_H
#define HEFT_IMPORT_IMPORT_FORMATS_H

#include "profile/profile.h"

struct import_source;

bool import_jemalloc_recognise(const uint8_t *head, size_t length);
int import_jemalloc_load(struct profile *p, struct import_source *in);
bool import_gperftools_recognise(const uint8_t *head, size_t length);
int import_gperftools_load(struct profile *p, struct import_source *in);
bool import_heaptrack_recognise(const uint8_t *head, size_t length);
int import_heaptrack_load(struct profile *p, struct import_source *in);
bool import_dhat_recognise(const uint8_t *head, size_t length);
int import_dhat_load(struct profile *p, struct import_source *in);
bool import_pprof_recognise(const uint8_t *head, size_t length);
int import_pprof_load(struct profile *p, struct import_source *in);

#endif
