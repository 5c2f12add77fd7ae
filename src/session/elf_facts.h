/* What an executable file says about itself that decides whether, and what, heft can record. */
#ifndef HEFT_SESSION_ELF_FACTS_H
#define HEFT_SESSION_ELF_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum elf_kind {
	ELF_NOT_ELF,
	ELF_DAMAGED,    /* begins as ELF, but its headers lead outside the file */
	ELF_OTHER,      /* another class, byte order or machine: see what */
	ELF_NO_PROGRAM, /* an object file or a core dump */
	ELF_STATIC,     /* no dynamic loader: LD_PRELOAD does nothing */
	ELF_DYNAMIC,
};

/* How a program comes to have an allocator of its own that a preloaded malloc cannot see. */
enum elf_own_malloc {
	ELF_MALLOC_SHARED = 0, /* it has none: its calls reach the preloaded one */
	ELF_MALLOC_EXPORTED,   /* defines and exports malloc: it wins over any preload */
	ELF_MALLOC_INTERNAL,   /* defines an allocator that its own calls are bound to */
	ELF_MALLOC_NEEDED,     /* calls a shared allocator by names of its own (mi_malloc) */
	ELF_MALLOC_LIKELY,     /* stripped, but carries the messages of a known allocator */
};

/* The operators new and new[] of C++ that a file defines. Addresses are as in the file. */
enum { ELF_NEW_FUNCTIONS = 8 };
struct elf_own_new {
	struct elf_range {
		uint64_t low, high;
	} functions[ELF_NEW_FUNCTIONS];
	uint32_t count;
	uint64_t code_address, code_bytes, code_offset; /* all code of the file */
};

struct elf_facts {
	enum elf_kind kind;
	const char *what;      /* DAMAGED: which part; OTHER, NO_PROGRAM: what it is */
	char interpreter[256]; /* DYNAMIC: its loader */
	enum elf_own_malloc own_malloc;
	char malloc_name[48];  /* EXPORTED, INTERNAL, NEEDED: the symbol */
	const char *sanitizer; /* DYNAMIC: one whose runtime replaces malloc, else NULL */
	const char *allocator; /* its name if known ("jemalloc"), else NULL */
	bool exports_malloc;   /* of a shared library: it is an allocator behind malloc */
	struct elf_own_new own_new;
	bool has_symbols;   /* not stripped */
	bool go_alone;      /* DYNAMIC: built by Go and needs no library, so there is no libc */
	bool dumps;         /* the allocator was built to write heap profiles itself */
	char conf_name[48]; /* jemalloc: the variable with its options; "": not known */
	uint8_t build_id[32];
	uint32_t build_id_bytes; /* 0: it has none */
};

/* Looks at the whole file in memory. Never fails: what cannot be trusted is said in kind. */
void elf_facts_read(const uint8_t *file, size_t size, struct elf_facts *facts);
/* The same of the file with its symbols, of one that is stripped. */
void elf_facts_add_debug(const uint8_t *file, size_t size, struct elf_facts *facts);

#endif
