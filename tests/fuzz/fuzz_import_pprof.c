/* Fuzzes the importer of pprof's protobuf: see fuzz_import.h. */
#define FUZZ_IMPORTER "pprof"
#include "fuzz_import.h"
