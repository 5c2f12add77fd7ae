/* Objects of the model and of its findings as JSON: one writer for each. `heft report --json`, `heft
 * diff --json`, `heft check --json` and the documents of the page are made of them, so a number has one
 * name everywhere. docs/report.schema.json describes each field.
 *
 * A writer of members writes "key": value pairs into an object that the caller has begun. What an input
 * does not record is not written: 0 would be a number. */
#ifndef HEFT_MODEL_JSON_MODEL_JSON_H
#define HEFT_MODEL_JSON_MODEL_JSON_H

#include "findings/finding.h"
#include "hosted/json_writer.h"
#include "profile/measure.h"

enum { MODEL_JSON_NAME_BYTES = 1000 };

/* How much of names and lists a document has. Writers take NULL for: everything. */
struct model_json_limits {
	/* Longer names lose their middle; at most MODEL_JSON_NAME_BYTES; 0: none does. */
	uint32_t name_bytes;
	uint32_t entries;   /* of lists; 0: all */
	bool short_modules; /* without their folders */
	uint64_t measures;  /* of sites and processes: a bit for each; 0: all */
};
_Static_assert(MEASURE_COUNT <= 64, "a bit for each measure");
static inline bool model_json_wants(const struct model_json_limits *l, enum measure_id id)
{
	return !l || !l->measures || (l->measures >> id & 1);
}

/* ---- names and places (model_json_place.c) */

struct model_json_name {
	char text[MODEL_JSON_NAME_BYTES + 8];
};
/* The name itself, or a copy in *space without its middle. The same name is always cut the same way.
 * NULL is "". */
const char *model_json_cut(const struct model_json_limits *l, const char *name,
			   struct model_json_name *space);
void model_json_key_name(struct json_writer *w, const struct model_json_limits *l, const char *key,
			 const char *name);
/* Members: function, file, line, module. f NULL: the stack is not known. */
void model_json_place(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct profile_frame *f);

/* ---- the run, its processes and threads (model_json_run.c) */

/* "command": []. exe stands for a command that is not known; or NULL. */
void model_json_command(struct json_writer *w, const struct model_json_limits *l,
			const char *const *argv, uint32_t argc, const char *exe);
/* Members: what was recorded, how, and how it ended. */
void model_json_run(struct json_writer *w, const struct model_json_limits *l,
		    const struct profile *p);
/* "heap": what looks at heaps told beyond sites; nothing if nobody looked. */
void model_json_heap(struct json_writer *w, const struct profile *p);
void model_json_totals(struct json_writer *w, const struct profile *p); /* "totals": {} */
/* Members: the 95 % error of each number that has one, as NAME_error95. */
void model_json_errors(struct json_writer *w, const struct profile_errors *errors);
/* Members of a process, and of each program that it was. */
void model_json_image(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct profile_process *q);
/* Members: pid, ppid, then those of an image. */
void model_json_process(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p, const struct profile_process *q);
void model_json_thread(struct json_writer *w, const struct profile *p,
		       const struct profile_thread *t); /* members */

/* "marks": [], "regions": [], "stages": [], "program_events": [], "pools": []: those in which there is something. */
void model_json_remarks(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p);

/* How many of `count` entries a list has: all, or as many as the limits let. */
uint32_t model_json_entries(const struct model_json_limits *l, uint32_t count);

/* ---- sites and what is known of their blocks (model_json_site.c) */

/* Members: via, labels, every measure that the input has.
 * window: measures of the start of a window too. */
void model_json_site(struct json_writer *w, const struct model_json_limits *l,
		     const struct profile *p, const struct profile_site *s, bool window);
/* "lifetime_ns": {} */
void model_json_lifetime(struct json_writer *w, const struct profile *p,
			 const struct profile_lifetime *life);
/* "lifetime_log2": []: blocks that lived from 2^(i + 8) ns to twice that, for each i; the first one also
 * less, the last one also more. Zeros at the end are left out. */
void model_json_lifetime_log2(struct json_writer *w, const uint32_t *buckets);
/* Members: how far estimates of a site may be believed, and how old is what it has live. */
void model_json_certainty(struct json_writer *w, const struct profile *p, uint32_t site);
/* An object: frees of a site's blocks by another thread than their own. */
void model_json_handover(struct json_writer *w, const struct profile *p,
			 const struct profile_site *s, const struct profile_handover_threads *t);
/* An object: blocks of one range of sizes. */
void model_json_size(struct json_writer *w, const struct profile_size *s);

/* ---- findings (model_json_finding.c) */

/* Members: kind, severity, bytes, summary, evidence, site, advice, rule, conditions. Sites are those of p. */
void model_json_finding(struct json_writer *w, const struct model_json_limits *l,
			const struct profile *p, const struct finding *f);

/* "notes": [], those of the profile, then those of the findings, which may be NULL */
void model_json_notes(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct findings *findings);

#endif
