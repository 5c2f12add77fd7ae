/* Inside src/export: the functions behind the table in exporters.c, one a file. */
#ifndef HEFT_EXPORT_EXPORT_FORMATS_H
#define HEFT_EXPORT_EXPORT_FORMATS_H

#include "export/export.h"

typedef int export_fn(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err);

export_fn export_csv;
export_fn export_dhat;
export_fn export_flamegraph;
export_fn export_folded;
export_fn export_heaptrack;
export_fn export_massif;
export_fn export_pprof;
export_fn export_speedscope;

#endif
