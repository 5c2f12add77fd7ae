/* Fuzzes the importer of jemalloc's heap_v2: see fuzz_import.h. */
#define FUZZ_IMPORTER "jemalloc"
#include "fuzz_import.h"
