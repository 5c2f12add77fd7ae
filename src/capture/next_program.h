/* What happens before a process executes another program: which kind that is, what environment it gets, and what the
 * outside is told. The library's exported functions (follow.c) and the blob's hooks (blob_exec.c) both do this. */
#ifndef HEFT_CAPTURE_NEXT_PROGRAM_H
#define HEFT_CAPTURE_NEXT_PROGRAM_H

#include "capture/inside.h"

/* The last two pages that were found to be readable */
struct heft_looked {
	uintptr_t page[2];
};
/* How long a text is, at most `most`; -1: it cannot be read. */
HIDDEN long heft_text_bytes(struct heft_looked *l, const char *text, size_t most);
/* argv[0] of a program that is executed by descriptor; NULL: there is none */
HIDDEN const char *heft_first_of(char *const *argv);

struct heft_next_program {
	int without;       /* it must not get our variables */
	int hold;          /* the outside may hold it at its start */
	int own_allocator; /* if it is held, it must not get our variables either */
};
/* search: the environment whose PATH is searched for a name without a slash; NULL: none */
HIDDEN struct heft_next_program heft_next_program(int folder, const char *path,
						  char *const *search);

/* What an environment has of ours, or lacks */
struct heft_missing {
	int session, preload, mode;
	int bad;  /* it cannot be read */
	int ours; /* it has one of our variables */
	size_t count;
	const char *list; /* its LD_PRELOAD, if any */
	size_t list_bytes;
};
HIDDEN struct heft_missing heft_missing_in(char *const *env);
/* How much memory the environment needs that the next program gets; 0: it gets the one that there is. */
HIDDEN size_t heft_next_environment_bytes(const struct heft_missing *m,
					  const struct heft_next_program *next);
/* Makes it there. */
HIDDEN char **heft_next_environment(void *memory, char *const *env, const struct heft_missing *m,
				    const struct heft_next_program *next);

/* Notes in the log that a process executes a program. */
HIDDEN void heft_note_exec(int pid, const char *path);

/* What to undo if the exec fails */
struct heft_leaving {
	uint64_t sandbox;
	struct wire_hold *hold;
};
/* Comes before heft_next_environment: who is held may get another one. */
HIDDEN struct heft_leaving heft_about_to_exec(const char *path, struct heft_next_program *next);
HIDDEN void heft_exec_failed(const struct heft_leaving *l);

#endif
