/* Fuzzes the importer of gperftools' heap text: see fuzz_import.h. */
#define FUZZ_IMPORTER "gperftools"
#include "fuzz_import.h"
