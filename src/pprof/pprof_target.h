/* Inside src/pprof: which process a request is about, and answers in words. */
#ifndef HEFT_PPROF_PPROF_TARGET_H
#define HEFT_PPROF_PPROF_TARGET_H

#include "http/http.h"
#include "pprof/source.h"

#include <stdio.h>

struct pprof_target {
	bool named;
	int32_t pid;
	const char *name; /* what is asked for: "heap" */
	struct http_viewer viewer;
};

/* False: a pid that is none; the answer says so. */
bool pprof_parse_target(const struct http_request *q, struct pprof_target *t,
			struct http_answer *a);
/* False: there is no such process, or there are several; the answer says so. A process that the viewer may
 * not see does not exist for it. */
bool pprof_find_process(const struct source *s, const struct pprof_target *t,
			struct source_process *out, struct http_answer *a);
struct pprof_list {
	struct source_process *processes; /* to free() */
	uint32_t count;
	uint32_t
		silent; /* further ones that nobody can describe now: who reads their samples does not answer */
};
/* All processes that the viewer may see, or those of them with the pid that is asked for. False: the answer says
 * why. */
bool pprof_describe_all(const struct source *s, const struct pprof_target *t,
			struct pprof_list *list, struct http_answer *a);
bool pprof_parse_digits(const char *text, size_t length, int32_t *number);
/* The name that it was started under, where the path does not say it, and the path. */
void pprof_write_program(FILE *out, const struct source_process *p);

void pprof_refuse(struct http_answer *a, unsigned status, const char *text);
void pprof_refuse_with(struct http_answer *a, const struct heft_error *err);
void pprof_refuse_method(struct http_answer *a, const char *allow);

/* Written to a stream */
struct pprof_page {
	FILE *out;
	char *text;
	size_t length;
};
/* False: no memory; the answer says so. */
bool pprof_page_open(struct pprof_page *p, struct http_answer *a);
void pprof_page_answer(struct pprof_page *p, struct http_answer *a, unsigned status,
		       const char *type);

#endif
