/* Fuzzes the importer of heaptrack's files, raw and interpreted: see fuzz_import.h. */
#define FUZZ_IMPORTER "heaptrack"
#include "fuzz_import.h"
