/* What heft doctor finds out: a list of checks, each a line. Nothing here stops or changes a process. */
#ifndef HEFT_ATTACH_CHECKS_H
#define HEFT_ATTACH_CHECKS_H

#include "hosted/error.h"
#include "hosted/vector.h"

#include <stdbool.h>
#include <sys/types.h>

enum check_verdict {
	CHECK_OK,
	CHECK_WARNING, /* it works, with less than there could be */
	CHECK_NO,      /* recording would fail */
};

struct check {
	const char *name; /* a word or two */
	enum check_verdict verdict;
	char *text;    /* what is so; a line */
	char *way_out; /* what to do about it; "": nothing */
};

struct checks {
	VECTOR_MEMBERS(struct check);
	bool incomplete; /* memory ran out */
};

/* way_out may be NULL. */
void checks_add(struct checks *c, const char *name, enum check_verdict verdict, const char *way_out,
		const char *format, ...) __attribute__((format(printf, 5, 6)));
/* An error's first line is what is so, its further lines are the way out. */
void checks_add_error(struct checks *c, const char *name, enum check_verdict verdict,
		      const struct heft_error *err);
/* The worst of all */
enum check_verdict checks_verdict(const struct checks *c);
void checks_fini(struct checks *c);

/* checks_machine.c */
void checks_of_machine(struct checks *c);
/* checks_process.c: a process that runs */
void checks_of_process(struct checks *c, pid_t pid);
/* checks_file.c: the names that reports will have, by an executable or library. shown: its path for people. */
void checks_of_symbols(struct checks *c, const char *path, const char *shown);
/* Adds that it cannot be recorded, if it is a static program that does not say where its malloc is. */
bool checks_of_static(struct checks *c, const char *path);
/* What its runtime needs to name generated code; nothing is added for a program without one. name: its file's. */
void checks_of_runtime(struct checks *c, const char *path, const char *name);

#endif
