/* What a file has to name and unwind its functions, without looking any up. */
#ifndef HEFT_SYMBOL_SYMBOL_FACTS_H
#define HEFT_SYMBOL_SYMBOL_FACTS_H

#include <limits.h>
#include <stdbool.h>

struct symbol_facts {
	bool build_id;
	bool table;  /* names of all functions, not only of those that others may call */
	bool debug;  /* files and lines, in the file itself */
	bool unwind; /* .eh_frame with its index, or from which heft makes one */
	bool loader; /* a loader starts it: it is not static */
	bool go;     /* built by Go */
	bool malloc; /* defines malloc and free, as its table says or that of the debug file */
	char apart[PATH_MAX]; /* the separate debug file; "": none was found here */
};

/* Asks no server. False: there is no such file, or it is no ELF file. */
bool symbol_facts_of(const char *path, struct symbol_facts *facts);

#endif
