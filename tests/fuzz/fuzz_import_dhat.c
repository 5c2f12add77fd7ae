/* Fuzzes the importer of DHAT's JSON: see fuzz_import.h. */
#define FUZZ_IMPORTER "dhat"
#include "fuzz_import.h"
