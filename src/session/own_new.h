/* C++ programs that replace operator new: whether it is among the callers of something. */
#ifndef HEFT_SESSION_OWN_NEW_H
#define HEFT_SESSION_OWN_NEW_H

#include "session/elf_facts.h"

struct own_new {
	struct elf_own_new at; /* no functions: the program replaces none */
	int fd;                /* its file, for its code; -1: none */
};

void own_new_open(struct own_new *n, const char *exe);
void own_new_close(struct own_new *n);
/* Whether operator new is what is returned to, or what was called there. The address is one as in the file. */
bool own_new_is_at(const struct own_new *n, uint64_t return_address);
/* What it means that such an operator maps memory, and what to do, one sentence a line. */
void own_new_words(const char *exe, char *text, size_t size);

#endif
